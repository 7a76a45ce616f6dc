/*
 * What the methods do, a function each, and what these share with dispatch.c, whose table has the rows.
 * A handler gets a request that is well-formed and allowed; it answers at once, or hands it to the
 * engine, whose answer dispatch.c sends. Only for these files; who is outside includes dispatch.h.
 */
#ifndef PEER_HANDLERS_H
#define PEER_HANDLERS_H

#include "daemon/peer/dispatch.h"
#include "daemon/peer/journal.h"
#include "daemon/peer/requests.h"
#include "daemon/peer/result.h"
#include "daemon/view/view.h"
#include "protocol/methods.h"

struct dispatch {
	const struct clock *clock;    /* borrowed, as all down to broker */
	const struct config *started; /* for what does not change without a restart */
	const struct config *config;  /* for the rest */
	struct peers *peers;
	struct lock_engine *engine;
	struct view *view;
	const struct broker *broker;
	struct journal *journal; /* owned */
	uint32_t run;
	int64_t started_at;
	bool draining;
};

/* Has room for what handle_hindrance() says. */
#define HANDLERS_WORDS_MAX 512

/* Who is told something. */
struct dispatch_viewer {
	const struct dispatch *dispatch;
	const struct conn *conn;
};

struct dispatch_row {
	const char *method;
	enum access_privilege privilege;
	/* Answers at once, or hands the request to the engine. May not touch it later. */
	void (*handle)(struct dispatch *dispatch, struct conn *conn, const struct request *request,
	    const struct method_params *params);
	/* The result of the engine's answer; NULL where handle answers. */
	struct cJSON *(*result)(const struct result_facts *facts, const struct lock_answer *answer);
	enum request_kind kind; /* QUICK: or WAITS, with some params */
	/* What is done with that result, which it takes, instead of answering; NULL: it is the answer. */
	void (*finish)(struct dispatch *dispatch, struct conn *conn, const struct request *request,
	    struct cJSON *result);
	enum journal_kind journal;
	/* The name that it is about may be known later: then the view asks whether that is allowed. */
	bool name_later;
	/* With some params it needs the right to one more method. NULL: with none. */
	bool (*asks_more)(const struct method_params *params);
	const char *more_method;
	enum access_privilege more_privilege;
	const char *more_called; /* to who is refused it */
	/* What the result is to say beside the engine's words; NULL: nothing. */
	const char *(*hindrance)(char buf[HANDLERS_WORDS_MAX], const struct dispatch *dispatch,
	    const struct conn *conn, const char *name);
	/* Of which locks the result may tell; ctx: a dispatch_viewer. NULL: of all. */
	bool (*tells)(const void *ctx, const char *name);
};

/* dispatch.c's: the only ways to answer. The request is gone afterwards. */
void dispatch_reply(struct conn *conn, const struct request *request, struct cJSON *result);
void dispatch_refuse(struct conn *conn, const struct request *request,
    const struct message_error *error, struct cJSON *data);
/*
 * Whether the peer may call that method for that lock (NULL: none in particular); false: it is in the
 * journal, and *ret_error says so. called: what it is called to the peer.
 */
bool dispatch_right_to(const struct dispatch *dispatch, const struct conn *conn, const char *method,
    enum access_privilege privilege, const char *called, const char *name,
    struct message_error *ret_error);
/* What results show besides the answer. */
struct result_facts dispatch_facts(const struct dispatch *dispatch);

/* handlers_lock.c: the lock client. */
void handle_acquire(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params);
void handle_verify(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params);
void handle_release(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params);
void handle_cancel(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params);

/* handlers_admin.c: the lock administrator. */
void handle_create(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params);
void handle_destroy(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params);
void handle_resize(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params);
void handle_size(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params);
void handle_await(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params);
void handle_fsck(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params);
void handle_explain(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params);
void handle_list(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params);
bool handle_list_tells(const void *ctx, const char *name);
/*
 * Why an acquire of that peer would fail whatever slots there are: the daemon stops, the broker is not
 * there, the access rules. NULL: nothing that dispatch knows of. Returns buf.
 */
const char *handle_hindrance(char buf[HANDLERS_WORDS_MAX], const struct dispatch *dispatch,
    const struct conn *conn, const char *name);

/* handlers_view.c: who holds and who waits. */
void handle_show(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params);
void handle_watch(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params);
void handle_grant(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params);
void handle_deny(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params);
/* The result of `list`: who waits is added. */
void finish_list(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    struct cJSON *result);

/* handlers_daemon.c: the daemon itself. */
void handle_info(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params);
void handle_ping(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params);
void handle_discover(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params);

#endif
