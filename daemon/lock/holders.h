/*
 * The waits for holders: of requests that removed slots, and of lock_await(). The module owns them, and the
 * turns of users at their probes. It must not know which request removed the slots.
 */
#ifndef LOCK_HOLDERS_H
#define LOCK_HOLDERS_H

#include "daemon/lock/engine.h"

/*
 * Waits for holders (seeds/000) until removed slots have no holders, and awaits until one slot is
 * free or busy. The remaining Bs are probed in rounds, at growing intervals. A B counts as gone after
 * two probes in a row without it. A known bug of the server (broker.h, deletes_by_name) removes a B
 * for a moment, until it is claimed again. No mutex is held meanwhile. A durable B that is left
 * without a holder is deleted, unless its A is there again.
 *
 *	probe the remaining Bs		(an unknown answer changes nothing; a B whose node cannot be
 *					reached is neither held nor gone)
 *	none is left: answer		(await of a busy slot: answer if it is busy)
 *	rest, longer each time		(a hold of such a slot that ends here ends the rest)
 *
 * All probes go out in batches, at a limited rate. Ten thousand waits therefore do not keep other
 * requests from the broker. Users take turns, slot by slot. One probe answers all awaits of a slot
 * that came before it was sent.
 */

struct state_reader;
struct state_writer;

/*
 * Slots first..last of `name` were removed; the request of the peer waits for their holders. Slots
 * above the maximum are left out.
 */
struct holder_wait_order {
	uint64_t peer, request;
	uid_t uid;        /* its turns at the probes */
	const char *name; /* borrowed for the call */
	bool by_quorum;   /* how the slots were held */
	int first, last;
	int64_t timeout; /* ns; 0 = probe once; DURATION_FOREVER */
	bool progress;
	/*
	 * The answer when they are gone. A refusal takes slots, target and warning from it. Words
	 * borrowed.
	 */
	const struct lock_answer *answer;
};

/* Answers the request once: at once if it has no slots to wait for or is refused, else later. */
void holder_wait_start(struct lock_engine *engine, const struct holder_wait_order *order);
/* Ends a wait with `cancelled`. False: the peer has no such wait. */
bool holder_wait_cancel(struct lock_engine *engine, uint64_t peer, uint64_t request);
/* Ends all waits of the peer, unanswered. */
void holder_wait_peer_gone(struct lock_engine *engine, uint64_t peer);
/* Ends all waits with `answer`, each with its own name, sizes and slots. */
void holder_wait_end_all(struct lock_engine *engine, const struct lock_answer *answer);
/* The lock connection's state changed. */
void holder_wait_link_changed(struct lock_engine *engine, const char *why);
/* The waits, for the engine's successor (daemon/state). */
bool holder_wait_is_of(const struct lock_engine *engine, uint64_t peer, uint64_t request);
void holder_wait_save_all(const struct lock_engine *engine, struct state_writer *writer);
bool holder_wait_restore_all(struct lock_engine *engine, struct state_reader *reader);
void holder_wait_init(struct lock_engine *engine);
/* Frees all that is left at the engine's end. */
void holder_wait_free_all(struct lock_engine *engine);

#endif
