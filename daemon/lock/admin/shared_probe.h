/*
 * Probes of single Bs that several wait to hear of, now and then. One probe answers all who ask for a slot;
 * slots are probed many at once, and no more than so many a second, whoever asks: what ten thousand awaits
 * cost the broker must not keep others from it. Users take turns, slot by slot. Knows no waits: who asks
 * says when it wants to ask again.
 *
 *	RESTING --- somebody asks ---> WAITING --- its turn ---> SENT --- the answer ---> SEEN
 *	   ^                              ^                                                |
 *	   |                              +--- somebody came since it was sent ------------+
 *	   +-------------------------------------------------------------------------------+
 */
#ifndef LOCK_SHARED_PROBE_H
#define LOCK_SHARED_PROBE_H

#include "daemon/lock/core/engine.h"

struct shared_slot;

/* Part of the record of who asks. */
struct shared_asker {
	struct shared_slot *slot; /* borrowed; NULL: it has not asked yet */
	uint64_t id;              /* its owner's */
	uid_t uid;
	bool late; /* it came after the probe that is in flight */
	/*
	 * Called with every answer for the slot, until it leaves; not from inside the calls below. sent: clock
	 * time of that probe.
	 */
	void (*seen)(
	    struct lock_engine *engine, uint64_t id, enum broker_answer answer, int64_t sent);
	TAILQ_ENTRY(shared_asker) of_slot;
};

/*
 * It wants to know whether that B exists: always the same one. For the first time, it goes before what its
 * user asks again, and is answered by no probe that was sent before.
 */
void shared_probe_ask(
    struct lock_engine *engine, struct shared_asker *asker, const struct queue_name *queue);
/* It wants to know nothing any more, if it ever asked. */
void shared_probe_leave(struct lock_engine *engine, struct shared_asker *asker);
/* Frees what is left; the engine goes, and all have left. */
void shared_probe_free_all(struct lock_engine *engine);

#endif
