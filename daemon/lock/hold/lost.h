/*
 * Holds by quorum whose clients were told `lost`, and may still work. When such a client has stopped, the
 * broker layer is told, which can make the slot clean (rule 8 of docs/QUORUM.md). A client has stopped when it
 * releases the lost lock. It also has when its connection has ended and its lease is over: some clients hang up
 * because of the loss, before their work ends. A timeout is no sign of a stop.
 */
#ifndef LOCK_LOST_H
#define LOCK_LOST_H

#include "daemon/lock/core/engine.h"

/* The client of this hold is told. Holds in other ways are ignored. */
void lost_told(struct lock_engine *engine, const struct hold *hold);
/* The peer releases a lock that it does not hold any more, or never did. */
void lost_released(struct lock_engine *engine, uint64_t peer, uint64_t lock);
void lost_peer_gone(struct lock_engine *engine, uint64_t peer);
void lost_free_all(struct lock_engine *engine);

struct state_reader;
struct state_writer;

/* For the successor. */
void lost_save_all(const struct lock_engine *engine, struct state_writer *writer);
/* False: the reader has the error. */
bool lost_restore_all(struct lock_engine *engine, struct state_reader *reader)
    __attribute__((warn_unused_result));

#endif
