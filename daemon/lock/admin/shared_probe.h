/*
 * Shared probes of single Bs. One probe answers all askers of a slot. Probes go out in batches, at
 * a limited rate for all askers together. Ten thousand awaits therefore do not keep other requests
 * from the broker. Users take turns, slot by slot. This module knows no waits: an asker calls again
 * when it wants another probe.
 *
 *	RESTING --- an asker comes ---> WAITING --- its turn ---> SENT --- the answer ---> SEEN
 *	   ^                               ^                                                |
 *	   |                               +--- an asker came since it was sent ------------+
 *	   +--------------------------------------------------------------------------------+
 */
#ifndef LOCK_SHARED_PROBE_H
#define LOCK_SHARED_PROBE_H

#include "daemon/lock/core/engine.h"

struct shared_slot;

/* A member of the record of an asker, its owner. */
struct shared_asker {
	struct shared_slot *slot; /* borrowed; NULL: not asked yet */
	uint64_t id;              /* the owner's */
	uid_t uid;
	bool late; /* it came after the probe in flight was sent */
	/*
	 * Called with each answer for the slot until the asker leaves, never from inside the calls
	 * below. sent: clock time of the probe.
	 */
	void (*seen)(
	    struct lock_engine *engine, uint64_t id, enum broker_answer answer, int64_t sent);
	TAILQ_ENTRY(shared_asker) of_slot;
};

/*
 * Asks whether a B exists; an asker always asks for the same B. A first question goes before the
 * repeated ones of its user. No probe that was sent before answers it.
 */
void shared_probe_ask(
    struct lock_engine *engine, struct shared_asker *asker, const struct queue_name *queue);
/* The asker leaves. One that never asked is fine. */
void shared_probe_leave(struct lock_engine *engine, struct shared_asker *asker);
/* Frees all that is left at the engine's end. All askers must have left. */
void shared_probe_free_all(struct lock_engine *engine);

#endif
