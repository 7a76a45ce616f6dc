/*
 * Verifying a held lock. seeds/000 looks at A alone; that B is still ours is looked at too, because a
 * B can vanish (broker.h, deletes_by_name), and a missing B is a lost lock:
 *
 *	-> declare B[slot], passive	<- ours; 404: gone, claim it again, then ask again; 405: lost
 *	-> declare A[slot], passive	<- held; 404: revoked
 *
 * A hold that takes no slot is there as long as this table says so: nobody is asked.
 *
 * A hold has one such flight out and at most one more to follow, which answers all who asked in the
 * meantime: however many ask, the lock connection carries no more than that.
 */
#ifndef LOCK_VERIFY_H
#define LOCK_VERIFY_H

#include "daemon/lock/core/engine.h"

/* The hold is about to be dropped: who asked before is still told what it was. */
void verify_send(struct lock_engine *engine, struct hold *hold);
/* The channel died after the answers to all that was asked on it: those unfinished ask again. */
void verify_channel_closed(struct lock_engine *engine, uint64_t channel);
/* Frees what is left; the engine goes. */
void verify_free_all(struct lock_engine *engine);

#endif
