/*
 * Holders and waiters at all daemons of the broker, for clients that display them. Also grants or
 * denies a waiter at any daemon. Requests of local peers come in, and each gets exactly one answer
 * as JSON. The view also answers the queries of other daemons. Owns its requests and watches. It
 * knows no sockets. It calls the engine; dispatch passes the engine's events on to the view.
 */
#ifndef VIEW_VIEW_H
#define VIEW_VIEW_H

#include "daemon/lock/lock.h"

struct cJSON;
struct view;

/* The peer id of the view's own requests to the engine. */
#define VIEW_PEER UINT64_MAX

struct view_settings {
	uint32_t run;       /* of this daemon; part of its ids */
	const char *host;   /* printable, no spaces; copied, as the next */
	const char *naming; /* daemons with another naming are ignored */
	int64_t timeout;    /* ns that other daemons have to answer */
};

/* The present state of a peer. */
struct view_peer {
	uid_t user;    /* -1: the peer is gone */
	size_t unread; /* bytes that the peer has not read yet */
	size_t room;   /* bytes of news or kept answers that the account of its user still allows */
};

/* A request for metrics, and facts of the daemon that the view does not know. */
struct view_scrape {
	bool openmetrics; /* else the Prometheus text format */
	bool draining;
	int64_t started; /* ns since 1970 */
	uint64_t takeovers;
	size_t clients;
};

/* A callback must not call the engine or the view. */
struct view_events {
	/*
	 * Answers a request. text is borrowed; NULL: the default one. result is taken; NULL: none.
	 */
	void (*done)(void *ctx, uint64_t peer, uint64_t request, enum reason reason,
	    const char *text, struct cJSON *result);
	/*
	 * Whether the peer may ask about that lock. False: the callback has answered the request.
	 */
	bool (*may)(void *ctx, uint64_t peer, uint64_t request, const char *name);
	/* Whether the answer to a request about all locks may name that lock. */
	bool (*sees)(void *ctx, uint64_t peer, uint64_t request, const char *name);
	/* Sends a notification of a watch; params is taken. */
	void (*tell)(
	    void *ctx, uint64_t peer, uint64_t request, const char *method, struct cJSON *params);
	struct view_peer (*peer)(void *ctx, uint64_t peer);
	/* The broker has answered the request's scan. The request now waits for other daemons. */
	void (*scanned)(void *ctx, uint64_t peer, uint64_t request);
	/* The view keeps so many bytes for a request until it is answered. */
	void (*keep)(void *ctx, uint64_t peer, uint64_t request, size_t bytes);
	void *ctx;
};

/* engine, broker and timers are borrowed, and outlive the view. */
struct view *view_new(struct lock_engine *engine, struct broker *broker, struct timers *timers,
    const struct view_settings *settings, const struct view_events *events);
/* Call it before broker_stop(): it sends bye to the other daemons. Answers no request. */
void view_free(struct view *view);
/* The broker is connected for the first time: tells the other daemons that this one has started. */
void view_begin(struct view *view);
void view_set_timeout(struct view *view, int64_t timeout);

/* Requests. `request` is unique within the peer while it is unanswered. */
void view_show(struct view *view, uint64_t peer, uint64_t request, const char *name);
/*
 * Takes the result of `list`, and adds waiters and holders beyond the slots, at all daemons. `list`
 * was made of that answer of the engine.
 */
void view_count(struct view *view, uint64_t peer, uint64_t request,
    const struct lock_answer *answer, struct cJSON *list, uint64_t more);
/* waiter: an id of the wire. uid: the administrator, for the log. */
void view_grant(struct view *view, uint64_t peer, uint64_t request, const char *waiter, uid_t uid);
void view_deny(struct view *view, uint64_t peer, uint64_t request, const char *waiter, uid_t uid);
void view_deny_all(struct view *view, uint64_t peer, uint64_t request, const char *name, uid_t uid);
/* Exactly one of holder and name. Borrowed for the call. */
struct view_eviction {
	const char *holder; /* an id of the wire; NULL: all holders of `name` */
	const char *name;
	uid_t uid;       /* the administrator */
	int64_t grace;   /* ns until the deadline */
	const char *why; /* NULL: no reason given */
};
void view_evict(
    struct view *view, uint64_t peer, uint64_t request, const struct view_eviction *eviction);
/* The metrics of this daemon as text. */
void view_metrics(
    struct view *view, uint64_t peer, uint64_t request, const struct view_scrape *wanted);
/* Runs until it is cancelled. name NULL: all locks. */
void view_watch(struct view *view, uint64_t peer, uint64_t request, const char *name);
/* The same for a watch of an earlier program. The client first has to forget all rows (`resync`). */
void view_watch_again(struct view *view, uint64_t peer, uint64_t request, const char *name);
/* Ends a watch with `cancelled`. False: there is no such watch. */
bool view_cancel(struct view *view, uint64_t peer, uint64_t request);
/*
 * The peer has ended its side: its watches end without an answer. Its other requests are still
 * answered.
 */
void view_peer_gone(struct view *view, uint64_t peer);
/* The peer is dead: it gets no more answers. */
void view_peer_left(struct view *view, uint64_t peer);
/* The daemon stops: all watches, also later ones, end with `draining`. */
void view_drain(struct view *view);

/* From the engine's events. */
/* An acquire of that name was answered. name NULL: not known. */
void view_acquired(struct view *view, const char *name, const struct lock_answer *answer);
void view_noticed(struct view *view, const struct lock_notice *notice);
void view_changed(struct view *view, const struct lock_row *row);
void view_answer(struct view *view, uint64_t request, const struct lock_answer *answer);
void view_asked(struct view *view, const struct broker_message *message);
void view_replied(struct view *view, const struct broker_message *message);
void view_unheard(struct view *view);

#endif
