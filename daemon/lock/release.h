/*
 * Relinquishing a held lock (seeds/000): B is deleted and nothing is said before delete-ok
 * (invariant 6), unless somebody waits for it here, to whom it is handed (handoff.h). Closing the channel,
 * which the seed offers too, frees nothing: RabbitMQ's exclusive queues belong to the connection.
 */
#ifndef LOCK_RELEASE_H
#define LOCK_RELEASE_H

#include "daemon/lock/engine.h"

void release_start(struct lock_engine *engine, uint64_t peer, uint64_t request, uint64_t lock);
/* Everything the peer holds goes; what is in flight for it goes when it turns out to be ours. */
void release_peer(struct lock_engine *engine, uint64_t peer);
/* Takes away every hold: its peer is told `lost`, then it goes. */
void release_all(struct lock_engine *engine, enum reason reason);

#endif
