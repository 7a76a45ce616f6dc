/*
 * Checks of the slot queue (A) of a granted hold. By queue they go out on the channel of the hold.
 * By consumer all share one channel of the lock connection, because a 404 closes the channel. The
 * end of its own channel would free the slot of a revoked hold while its client works on.
 */
#ifndef LOCK_SLOT_CHECK_H
#define LOCK_SLOT_CHECK_H

#include "daemon/lock/core/engine.h"

/*
 * Asks whether the A of the hold exists. The answer extends the lease before `done` gets it. By
 * consumer BROKER_SKIPPED means that no channel was free after another A was missing. False: no
 * channel is free now.
 */
bool slot_check_ask(struct lock_engine *engine, struct hold *hold, struct broker_done done);
void slot_check_init(struct slot_checks *checks);
/* Frees all at the engine's end. */
void slot_check_free_all(struct lock_engine *engine);

#endif
