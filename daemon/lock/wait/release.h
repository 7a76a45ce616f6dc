/*
 * Relinquishing a held lock (seeds/000): B is deleted and nothing is said before delete-ok (invariant 6),
 * unless somebody waits for it here, to whom it is handed on. Closing the channel, which the seed offers too,
 * frees nothing: RabbitMQ's exclusive queues belong to the connection.
 *
 * Local hand-off: who releases a slot, or hangs up, while somebody waits for it here passes it on inside
 * the daemon. B is kept, with its channel and the watch on A; the hold is another's, under a new number. Then
 * the release is answered: there is no delete-ok to wait for, as nothing is deleted (invariant 17).
 *
 *	passed on so often in a row?	-> how many wait elsewhere: somebody, and B goes, with a hint;
 *					   nobody, and it is counted anew; now and then B goes
 *					   all the same, for clients that only poll
 *	is it certain that A is there, and B ours? A is watched, the lock connection has answered something
 *	within a second, and the lease has more than half a heartbeat left: it is
 *	not so				-> A is looked at (of a true mutex B), on the hold's own channel
 *	passed on to the first in the queue who can use it, by a fresh clock
 *
 * How many wait elsewhere is asked ahead, when the last peer in the row gets it. A hold that is revoked,
 * being verified, or claimed again is never passed on; nor is one while the daemon stops.
 */
#ifndef LOCK_RELEASE_H
#define LOCK_RELEASE_H

#include "daemon/lock/core/engine.h"

/* Everything the peer holds goes; what is in flight for it goes when it turns out to be ours. */
void release_peer(struct lock_engine *engine, uint64_t peer);

#endif
