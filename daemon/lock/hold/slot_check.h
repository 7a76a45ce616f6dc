/*
 * Checks of the slot queue (A) of a granted hold. All share one channel of the lock connection. The
 * channel of the hold would not do: a 404 closes it, and by consumer that would free the slot of a
 * revoked hold while its client works on.
 */
#ifndef LOCK_SLOT_CHECK_H
#define LOCK_SLOT_CHECK_H

#include "daemon/lock/core/engine.h"

/*
 * Asks whether the A of the hold exists. The answer extends the lease before `done` gets it. On
 * BROKER_SKIPPED the caller may ask again at once. False: no channel is free now.
 */
bool slot_check_ask(struct lock_engine *engine, const struct hold *hold, struct broker_done done);
/* Frees all at the engine's end. */
void slot_check_free_all(struct lock_engine *engine);

#endif
