/*
 * Who holds and who waits, here and behind the other daemons of the broker, for who looks on; and letting
 * in and turning away who waits, wherever that is. Requests of local peers in, exactly one answer each
 * out, as the wire's JSON. Answers the questions of other daemons. Owns its requests and watches; knows
 * no sockets. The engine is below: its listener passes on what is for the view.
 */
#ifndef VIEW_VIEW_H
#define VIEW_VIEW_H

#include "daemon/lock/lock.h"

struct cJSON;
struct view;

/* The peer as which the view asks the engine: its answers are the view's. */
#define VIEW_PEER UINT64_MAX

struct view_settings {
	uint32_t run;       /* of this daemon: ids carry it */
	const char *host;   /* printable, without spaces; copied, as the next */
	const char *naming; /* those who name queues in another way are none of ours */
	int64_t timeout;    /* ns that other daemons have to answer */
};

/* A peer as it is now. */
struct view_peer {
	uid_t user;    /* -1: it is gone */
	size_t unread; /* bytes that it has not read yet */
	size_t
	    room; /* bytes that it may be sent, or that may be kept for it, as far as its user goes */
};

/* The engine may not be called from inside these, nor the view. */
struct view_events {
	/* The answer to a request: text (borrowed) or NULL, and the result, which is taken; NULL: none. */
	void (*done)(void *ctx, uint64_t peer, uint64_t request, enum reason reason,
	    const char *text, struct cJSON *result);
	/* Whether the request may be about that lock. False: it has been answered, and is over. */
	bool (*may)(void *ctx, uint64_t peer, uint64_t request, const char *name);
	/* Whether a watch of all locks may tell of that one. */
	bool (*sees)(void *ctx, uint64_t peer, uint64_t request, const char *name);
	/* A notification of a watch; params are taken. */
	void (*tell)(
	    void *ctx, uint64_t peer, uint64_t request, const char *method, struct cJSON *params);
	struct view_peer (*peer)(void *ctx, uint64_t peer);
	/* The broker is done with a request, which waits for other daemons now. */
	void (*scanned)(void *ctx, uint64_t peer, uint64_t request);
	/* So many bytes are kept for the answer to a request until that is given. */
	void (*keep)(void *ctx, uint64_t peer, uint64_t request, size_t bytes);
	void *ctx;
};

/* engine, broker and timers are borrowed and outlive it. */
struct view *view_new(struct lock_engine *engine, struct broker *broker, struct timers *timers,
    const struct view_settings *settings, const struct view_events *events);
/* Before broker_stop(): the others are told that we are gone. Answers nobody. */
void view_free(struct view *view);
void view_set_timeout(struct view *view, int64_t timeout);

/* Requests: `request` is unique within the peer while it is unanswered. */
void view_show(struct view *view, uint64_t peer, uint64_t request, const char *name);
/* Takes the result of `list`, and adds to it who waits everywhere. */
void view_count(struct view *view, uint64_t peer, uint64_t request, struct cJSON *list);
/* waiter: an id of the wire. uid: who asks, for the log. */
void view_grant(struct view *view, uint64_t peer, uint64_t request, const char *waiter, uid_t uid);
void view_deny(struct view *view, uint64_t peer, uint64_t request, const char *waiter, uid_t uid);
void view_deny_all(struct view *view, uint64_t peer, uint64_t request, const char *name, uid_t uid);
/* Until it is cancelled; name NULL: all. */
void view_watch(struct view *view, uint64_t peer, uint64_t request, const char *name);
/* Ends a watch with `cancelled`; false when there is none such. */
bool view_cancel(struct view *view, uint64_t peer, uint64_t request);
/* Its watches end unanswered; what else it asked for is answered. */
void view_peer_gone(struct view *view, uint64_t peer);
/* It hears no answer any more. */
void view_peer_left(struct view *view, uint64_t peer);
/* The daemon stops: watches end with `draining`, also those that are asked for from now on. */
void view_drain(struct view *view);

/* From the engine's listener. */
void view_changed(struct view *view, const struct lock_row *row);
void view_answer(struct view *view, uint64_t request, const struct lock_answer *answer);
void view_asked(struct view *view, const struct broker_message *message);
void view_replied(struct view *view, const struct broker_message *message);
void view_unheard(struct view *view);

#endif
