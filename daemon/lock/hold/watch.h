/*
 * Watches the A of a hold, so that its holder is told `revoked` at once if an administrator removes
 * the slot. The watch is a consumer on the auxiliary connection (broker.h). Its news is only a
 * hint: A is then checked (slot_check.h). A hold that lasts only a moment is not watched.
 *
 *	NONE --- the moment is over: broker_watch ---> PLACED --- WATCHED: check A ---> ON
 *	  ^                                              ^-- UNWATCHED (auxiliary connection) --|
 *	  +-- HINT: check A; while it exists, watch again later --------------------------------+
 */
#ifndef LOCK_WATCH_H
#define LOCK_WATCH_H

#include "daemon/lock/core/engine.h"

/*
 * The hold was granted just now. Does nothing for a true mutex, which has no A.
 * registry_hold_unwatch() ends the watch.
 */
void watch_start(struct lock_engine *engine, struct hold *hold);
/* The broker's event; ctx: the engine. */
void watch_news(void *ctx, const char *queue, enum broker_news news);

#endif
