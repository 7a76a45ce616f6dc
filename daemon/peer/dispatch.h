/*
 * The path from lines to the engine and back. It checks the request (protocol) and the privilege
 * (config), and passes the request to the engine or the view. It turns answers and notices into
 * lines for the peers. One table has the privilege, the handler and the result of each method.
 * Owns the lock log. It borrows peers, engine, view, broker and configuration.
 */
#ifndef PEER_DISPATCH_H
#define PEER_DISPATCH_H

#include "daemon/config/config.h"
#include "daemon/lock/lock.h"
#include "daemon/peer/peers.h"
#include "daemon/view/view.h"

struct dispatch;
struct state_reader;
struct state_writer;

/* The history of a daemon, which its successor keeps. */
struct dispatch_past {
	uint32_t run;       /* drawn at random at the first start; part of every lock's id */
	int64_t started_at; /* clock time of the first start */
	int64_t started;    /* the same in ns since 1970 */
	int takeovers;      /* how often a successor has taken over since then */
};

/*
 * past: copied. config outlives the dispatch. Settings that cannot be reloaded are always read
 * there.
 */
struct dispatch *dispatch_new(
    struct timers *timers, const struct dispatch_past *past, const struct config *config);
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
/*
 * For a successor (daemon/state): the clients, and their unanswered requests. The engine, which is
 * still, has saved its holds before.
 */
void dispatch_save(struct dispatch *dispatch, struct state_writer *writer);
/*
 * Reads the same. Requests that the engine has not saved are repeated. False: the reader has the
 * error.
 */
bool dispatch_restore(struct dispatch *dispatch, struct state_reader *reader)
    __attribute__((warn_unused_result));
/* After the engine has its waiting requests again: clients that left meanwhile are gone. */
void dispatch_restored(struct dispatch *dispatch);
/*
 * Until it is called with false, requests that need the broker wait with their peers. Acquires that
 * wait for a limited time do not.
 */
void dispatch_hold(struct dispatch *dispatch, bool holds);
/* Notifies every peer that the daemon stops. grace: ns that it waits for holders. */
void dispatch_drain(struct dispatch *dispatch, int64_t grace);

#endif
