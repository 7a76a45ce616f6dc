/*
 * Waiting on lock holders (seeds/000): until nobody holds the slots that an administrator removed, or
 * until one slot is free, or busy. The Bs of all that are left are probed at growing intervals; one
 * counts as gone when it was absent in two probes in a row, as the known bug of the server (broker.h,
 * deletes_by_name) makes a B absent for a moment that is claimed again. No mutex is held meanwhile.
 *
 *	probe the Bs that are left	(unknown: nothing is learned)
 *	none is left: answer		(a slot that is busy: answer, when that was waited for)
 *	rest, longer each time		(a hold of such a slot that ends here ends the rest)
 */
#ifndef LOCK_HOLDER_WAIT_H
#define LOCK_HOLDER_WAIT_H

#include "daemon/lock/core/engine.h"

/*
 * Slots first..last of `name` are no more; their holders are waited for, for `peer`'s `request`. Above
 * the most slots that there may be nobody is looked for.
 */
struct holder_wait_order {
	uint64_t peer, request;
	uid_t uid;        /* of lock_await() */
	const char *name; /* borrowed for the call */
	int first, last;
	int64_t timeout; /* ns; 0 = probe once; DURATION_FOREVER */
	bool progress;
	/* What is answered when they are gone; of a refusal, slots, target and warning. Words borrowed. */
	const struct lock_answer *answer;
};

/* Answers the request once: at once when there is nothing to wait for, or it may not; else later. */
void holder_wait_start(struct lock_engine *engine, const struct holder_wait_order *order);
/* Ends a wait with `cancelled`; false: the peer has no such wait. */
bool holder_wait_cancel(struct lock_engine *engine, uint64_t peer, uint64_t request);
/* Ends all waits of the peer, unanswered. */
void holder_wait_peer_gone(struct lock_engine *engine, uint64_t peer);
/* Ends all waits with `answer`; names, sizes and slots are each one's own. */
void holder_wait_end_all(struct lock_engine *engine, const struct lock_answer *answer);
/* The lock connection's state changed. */
void holder_wait_link_changed(struct lock_engine *engine, const char *why);
/* Frees what is left; the engine goes. */
void holder_wait_free_all(struct lock_engine *engine);

#endif
