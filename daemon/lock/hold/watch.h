/*
 * Watching the A of what is held, so that its holder is told `revoked` at once when an administrator
 * takes the slot out of service. The watch is a consumer on the auxiliary connection (broker.h); its news are
 * hints, and A is looked at on the hold's own channel before anything is believed. A hold that lasts no longer
 * than a moment is not watched at all.
 *
 *	NONE ---- the moment is over: broker_watch ----> PLACED ---- WATCHED: look at A ----> ON
 *	  ^                                                ^------- UNWATCHED (auxiliary connection) -----|
 *	  +-- HINT: look at A; while it is there, again later ---------------------------------+
 */
#ifndef LOCK_WATCH_H
#define LOCK_WATCH_H

#include "daemon/lock/core/engine.h"

/* The hold was granted just now. A true mutex has no A. The watch ends with registry_hold_unwatch(). */
void watch_start(struct lock_engine *engine, struct hold *hold);
/* The broker's event; ctx: the engine. */
void watch_news(void *ctx, const char *queue, enum broker_news news);

#endif
