/*
 * From lines to the engine and back: one table says for each method who may call it, what it does and
 * how its answer looks. Checks a request (protocol), the privilege (config), hands it to the engine,
 * and turns the engine's answers and notices into lines for the peers. Owns the lock log and nothing
 * else; peers, engine, broker and configuration are borrowed.
 */
#ifndef PEER_DISPATCH_H
#define PEER_DISPATCH_H

#include "daemon/config/config.h"
#include "daemon/lock/lock.h"
#include "daemon/peer/peers.h"
#include "daemon/view/view.h"

struct dispatch;

/*
 * run: drawn at random at each start; it is in every lock's id. config outlives the dispatch: what
 * cannot be reloaded is always read there.
 */
struct dispatch *dispatch_new(const struct clock *clock, uint32_t run, const struct config *config);
void dispatch_free(struct dispatch *dispatch);

/* What peers_new(), lock_engine_new() and view_new() want. */
struct conn_handler dispatch_peers_handler(struct dispatch *dispatch);
struct lock_events dispatch_lock_events(struct dispatch *dispatch);
struct view_events dispatch_view_events(struct dispatch *dispatch);
/* Before the first line comes. */
void dispatch_wire(struct dispatch *dispatch, struct peers *peers, struct lock_engine *engine,
    struct view *view, const struct broker *broker);
/* The view goes: nothing more may come of peers, but rows of the engine may. */
void dispatch_unwire(struct dispatch *dispatch);
/* After a reload: what can be reloaded is read there, until the next. */
void dispatch_set_config(struct dispatch *dispatch, const struct config *config);
/* Tells every peer that the daemon stops, and how long it waits for them (ns). */
void dispatch_drain(struct dispatch *dispatch, int64_t grace);

#endif
