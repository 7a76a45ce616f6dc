/*
 * The path from lines to the engine and back. It checks the request (protocol) and the privilege
 * (config), and passes the request to the engine or the view. It turns answers and notices into
 * lines for the peers. The table of the methods is in handlers.h. Owns the lock log. It borrows
 * peers, engine, view, broker and configuration.
 */
#ifndef PEER_DISPATCH_H
#define PEER_DISPATCH_H

#include "daemon/config/config.h"
#include "daemon/lock/lock.h"
#include "daemon/peer/peers.h"
#include "daemon/view/view.h"

struct dispatch;

/*
 * run: drawn at random at each start; part of every lock's id. config outlives the dispatch.
 * Settings that cannot be reloaded are always read there.
 */
struct dispatch *dispatch_new(const struct clock *clock, uint32_t run, const struct config *config);
void dispatch_free(struct dispatch *dispatch);

/* The callbacks for peers_new(), lock_engine_new() and view_new(). */
struct conn_handler dispatch_peers_handler(struct dispatch *dispatch);
struct lock_events dispatch_lock_events(struct dispatch *dispatch);
struct view_events dispatch_view_events(struct dispatch *dispatch);
/* Call it before the first line comes. */
void dispatch_wire(struct dispatch *dispatch, struct peers *peers, struct lock_engine *engine,
    struct view *view, const struct broker *broker);
/*
 * Call it before the view is freed. From then on there may be rows of the engine, but no lines of
 * peers.
 */
void dispatch_unwire(struct dispatch *dispatch);
/* After a reload: settings that can be reloaded are read there until the next reload. */
void dispatch_set_config(struct dispatch *dispatch, const struct config *config);
/* Notifies every peer that the daemon stops. grace: ns that it waits for holders. */
void dispatch_drain(struct dispatch *dispatch, int64_t grace);

#endif
