#include "daemon/peer/dispatch.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/peer/handlers.h"

static void
send_error(struct conn *conn, const struct message_id *id, const struct message_error *error,
    struct cJSON *data)
{
	conn_send(conn, message_error_line(id, error, data));
}

void
dispatch_reply(struct conn *conn, const struct request *request, struct cJSON *result)
{
	conn_send(conn, message_result_line(&request->id, result));
	requests_remove(conn->requests, request->number);
}

void
dispatch_refuse(struct conn *conn, const struct request *request, const struct message_error *error,
    struct cJSON *data)
{
	send_error(conn, &request->id, error, data);
	requests_remove(conn->requests, request->number);
}

/* ---- the methods: who may call them, what they do, how their answers look ---- */

static bool
asks_to_create(const struct method_params *params)
{
	return params->create > 0;
}

static const struct dispatch_row rows[] = {
    {"acquire", ACCESS_ANYONE, handle_acquire, result_acquire, .journal = JOURNAL_ACQUIRE,
	.asks_more = asks_to_create, .more_method = "create", .more_privilege = ACCESS_ADMIN,
	.more_called = "acquire with create"},
    {"verify", ACCESS_ANYONE, handle_verify, result_verify, .journal = JOURNAL_NOTHING},
    {"release", ACCESS_ANYONE, handle_release, result_release, .journal = JOURNAL_RELEASE},
    {"cancel", ACCESS_ANYONE, handle_cancel, NULL, .journal = JOURNAL_NOTHING},
    {"create", ACCESS_ADMIN, handle_create, result_create, .journal = JOURNAL_CHANGE},
    {"destroy", ACCESS_ADMIN, handle_destroy, result_destroy, .journal = JOURNAL_CHANGE},
    {"resize", ACCESS_ADMIN, handle_resize, result_resize, .journal = JOURNAL_CHANGE},
    {"size", ACCESS_ANYONE, handle_size, result_size, REQUEST_LOOKS, .journal = JOURNAL_LOOK},
    {"await", ACCESS_ANYONE, handle_await, result_await, .journal = JOURNAL_LOOK},
    {"fsck", ACCESS_ADMIN, handle_fsck, result_fsck, REQUEST_LOOKS, .journal = JOURNAL_CHANGE},
    {"explain", ACCESS_ANYONE, handle_explain, result_explain, REQUEST_LOOKS,
	.journal = JOURNAL_LOOK, .hindrance = handle_hindrance},
    {"list", ACCESS_ANYONE, handle_list, result_list, REQUEST_LOOKS, .finish = finish_list,
	.tells = handle_list_tells, .journal = JOURNAL_LOOK},
    {"show", ACCESS_ANYONE, handle_show, NULL, REQUEST_LOOKS, .journal = JOURNAL_LOOK},
    {"watch", ACCESS_ANYONE, handle_watch, NULL, REQUEST_WATCHES, .journal = JOURNAL_LOOK},
    {"grant", ACCESS_ADMIN, handle_grant, NULL, .journal = JOURNAL_CHANGE, .name_later = true},
    {"deny", ACCESS_ADMIN, handle_deny, NULL, .journal = JOURNAL_CHANGE, .name_later = true},
    {"ping", ACCESS_ANYONE, handle_ping, NULL, .journal = JOURNAL_NOTHING},
    {"info", ACCESS_ANYONE, handle_info, NULL, .journal = JOURNAL_NOTHING},
    {"rpc.discover", ACCESS_ANYONE, handle_discover, NULL, .journal = JOURNAL_NOTHING},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static const struct dispatch_row *
row_find(const char *method)
{
	for (size_t i = 0; i < ROWS; i++) {
		if (strcmp(rows[i].method, method) == 0)
			return &rows[i];
	}
	return NULL;
}

/* ---- requests in ---- */

bool
dispatch_right_to(const struct dispatch *dispatch, const struct conn *conn, const char *method,
    enum access_privilege privilege, const char *called, const char *name,
    struct message_error *ret_error)
{
	const struct access_rules *rules = dispatch->config->access;
	char why[ACCESS_WHY_MAX];

	if (access_allowed(rules, &conn->subject, method, privilege, name))
		return true;
	access_explain(why, rules, &conn->subject, method, privilege, name);
	journal_denied(dispatch->journal, conn, called, name, why);
	message_error_set(ret_error, REASON_PERMISSION_DENIED,
	    "%s%s%.80s is not allowed to uid %u: %s", called, name == NULL ? "" : " of ",
	    name == NULL ? "" : name, (unsigned)conn->subject.uid, why);
	return false;
}

static bool
request_allowed(const struct dispatch *dispatch, const struct conn *conn,
    const struct dispatch_row *row, const struct method_params *params,
    struct message_error *ret_error)
{
	if (row->name_later && params->name == NULL)
		return true;
	if (!dispatch_right_to(
		dispatch, conn, row->method, row->privilege, row->method, params->name, ret_error))
		return false;
	return row->asks_more == NULL || !row->asks_more(params) ||
	       dispatch_right_to(dispatch, conn, row->more_method, row->more_privilege,
		   row->more_called, params->name, ret_error);
}

/* Which names there may be depends on how queues are named, so the parser of params cannot know. */
static bool
name_allowed(const struct dispatch *dispatch, const char *name, struct message_error *ret_error)
{
	const char *why = name == NULL ? NULL : lock_name_refusal(dispatch->engine, name);

	if (why == NULL)
		return true;
	message_error_set(ret_error, REASON_INVALID_PARAMS, "name is refused: %s", why);
	snprintf(ret_error->parameter, sizeof(ret_error->parameter), "name");
	return false;
}

static enum request_kind
kind_of(const struct dispatch_row *row, const struct method_spec *spec,
    const struct method_params *params)
{
	return row->kind == REQUEST_QUICK && method_waits(spec, params) ? REQUEST_WAITS : row->kind;
}

static bool
user_may(const struct conn *conn, enum account_thing thing, const char *what,
    struct message_error *ret_error)
{
	const struct account *account = conn->account;

	if (account_has_room(account, thing))
		return true;
	message_error_set(ret_error, REASON_TOO_MANY_WAITERS,
	    "uid %u has %zu %s, which is all it may have", (unsigned)account->uid,
	    account->all->limits.most[thing], what);
	return false;
}

/* Whether a peer that has so much waiting, of a user who has, may wait for one thing more. */
static bool
may_wait(const struct dispatch *dispatch, const struct conn *conn, enum request_kind kind,
    struct message_error *ret_error)
{
	if (requests_waiting(conn->requests) >= (size_t)dispatch->config->max_waits_per_peer) {
		message_error_set(ret_error, REASON_TOO_MANY_WAITERS,
		    "this connection has as many requests waiting as it may");
		return false;
	}
	return user_may(conn, ACCOUNT_WAITS, "requests waiting", ret_error) &&
	       (kind != REQUEST_WATCHES || user_may(conn, ACCOUNT_WATCHES, "watches", ret_error));
}

/* False: it has to wait until one of its user's looks is over. */
static bool
dispatch_request(
    struct dispatch *dispatch, struct conn *conn, const struct message_request *message)
{
	static const struct message_id nobody = {.kind = MESSAGE_ID_NULL};
	const struct method_spec *spec = method_find(message->method);
	const struct dispatch_row *row = row_find(message->method);
	const struct request *request;
	struct method_params params;
	struct message_error error;
	char quoted[64];
	enum request_kind kind;

	if (requests_find_id(conn->requests, &message->id) != NULL) {
		/* With that id it would pass for the answer to the first. */
		message_error_set(&error, REASON_INVALID_REQUEST,
		    "a request with the same id is not answered yet");
		send_error(conn, &nobody, &error, NULL);
		return true;
	}
	if (spec == NULL || row == NULL) {
		message_error_set(&error, REASON_METHOD_NOT_FOUND, "there is no method '%s'",
		    message_escape(quoted, sizeof(quoted), message->method));
		send_error(conn, &message->id, &error, NULL);
		return true;
	}
	if (!method_params_parse(spec, message->params, &params, &error) ||
	    !name_allowed(dispatch, params.name, &error) ||
	    !request_allowed(dispatch, conn, row, &params, &error)) {
		send_error(conn, &message->id, &error, NULL);
		return true;
	}
	kind = kind_of(row, spec, &params);
	switch (kind) {
	case REQUEST_QUICK:
		break;
	case REQUEST_LOOKS:
		if (!account_has_room(conn->account, ACCOUNT_LOOKS))
			return false;
		break;
	case REQUEST_WAITS:
	case REQUEST_WATCHES:
		if (may_wait(dispatch, conn, kind, &error))
			break;
		send_error(conn, &message->id, &error, NULL);
		return true;
	}
	request = requests_add(conn->requests, &message->id, row, kind);
	assert(request != NULL);
	journal_request(dispatch->journal, row->journal, conn, request, row->method, &params);
	row->handle(dispatch, conn, request, &params);
	return true;
}

static bool
on_line(void *ctx, struct conn *conn, const char *line, size_t len)
{
	struct message_request message;
	struct message_error error;
	bool taken;

	if (!message_parse_request(line, len, &message, &error)) {
		send_error(conn, &message.id, &error, NULL);
		return true;
	}
	taken = dispatch_request(ctx, conn, &message);
	message_request_done(&message);
	return taken;
}

/* A peer that is gone. */
struct leaver {
	struct dispatch *dispatch;
	uint64_t peer;
};

static void
leave(void *ctx, const struct request *request)
{
	const struct leaver *leaver = ctx;

	journal_left(leaver->dispatch->journal, leaver->peer, request->number);
}

static void
on_gone(void *ctx, struct conn *conn)
{
	struct leaver leaver = {.dispatch = ctx, .peer = conn->id};

	/* The engine ends these unanswered. */
	requests_remove_waiting(conn->requests, leave, &leaver);
	journal_gone(leaver.dispatch->journal, conn->id);
	view_peer_gone(leaver.dispatch->view, conn->id);
	lock_peer_gone(leaver.dispatch->engine, conn->id);
}

/* A peer that has only said all that it will say still gets its answers before that. */
static void
on_left(void *ctx, struct conn *conn)
{
	struct dispatch *dispatch = ctx;

	view_peer_left(dispatch->view, conn->id);
	lock_peer_left(dispatch->engine, conn->id);
}

/* ---- answers and notices out: called from inside the engine, which nothing here may call ---- */

struct result_facts
dispatch_facts(const struct dispatch *dispatch)
{
	struct broker_info info;

	broker_get_info(dispatch->broker, &info);
	return (struct result_facts){
	    .run = dispatch->run,
	    .now = clock_now(dispatch->clock),
	    .heartbeat = info.heartbeat,
	    .margin = lock_margin(dispatch->engine),
	};
}

static void
on_answer(void *ctx, uint64_t peer, uint64_t number, const struct lock_answer *answer)
{
	struct dispatch *dispatch = ctx;
	struct conn *conn = peers_find(dispatch->peers, peer);
	const struct dispatch_viewer viewer = {.dispatch = dispatch, .conn = conn};
	const struct dispatch_row *row;
	const struct request *request;
	struct result_facts facts;
	struct message_error error;
	struct cJSON *data;
	char words[HANDLERS_WORDS_MAX];
	struct request kept;

	if (peer == VIEW_PEER) {
		view_answer(dispatch->view, number, answer);
		return;
	}
	if (conn == NULL || (request = requests_find(conn->requests, number)) == NULL) {
		journal_unheard(dispatch->journal, peer, number, answer);
		peers_looked(dispatch->peers, peer, number);
		return;
	}
	row = request->row;
	if (answer->reason != REASON_NONE) {
		journal_answer(dispatch->journal, row->journal, conn, request, row->method, answer);
		data = result_error(answer, &error);
		dispatch_refuse(conn, request, &error, data);
		return;
	}
	facts = dispatch_facts(dispatch);
	kept = *request;
	facts.tells = row->tells;
	facts.tells_ctx = &viewer;
	if (row->hindrance != NULL)
		facts.hindrance = row->hindrance(words, dispatch, conn, answer->name);
	if (row->finish != NULL)
		row->finish(dispatch, conn, request, row->result(&facts, answer));
	else
		dispatch_reply(conn, request, row->result(&facts, answer));
	/* Who has waited is told before the log is. */
	if (request_waits(&kept))
		conn_push(conn);
	journal_answer(dispatch->journal, row->journal, conn, &kept, row->method, answer);
}

static void
on_notice(void *ctx, uint64_t peer, const struct lock_notice *notice)
{
	struct dispatch *dispatch = ctx;
	struct conn *conn = peers_find(dispatch->peers, peer);
	const struct request *request = NULL;
	struct result_facts facts = dispatch_facts(dispatch);
	struct cJSON *params = NULL;
	const char *method;

	journal_notice(dispatch->journal, notice);
	if (conn == NULL)
		return;
	if (notice->kind == LOCK_NOTICE_WAITING || notice->kind == LOCK_NOTICE_DRAIN) {
		request = requests_find(conn->requests, notice->request);
		/* To a user who does not read, how far a wait has come is not said. */
		if (request == NULL || account_room(conn->account) == 0)
			return;
	}
	method = result_notice(&facts, notice, request == NULL ? NULL : &request->id, &params);
	if (notice->kind == LOCK_NOTICE_LEASE)
		conn_send_newest(conn, message_notification_line(method, params));
	else if (method != NULL)
		conn_send(conn, message_notification_line(method, params));
}

/* ---- the view: rows, letters, and its answers ---- */

static void
on_changed(void *ctx, const struct lock_party *row)
{
	const struct dispatch *dispatch = ctx;

	if (dispatch->view != NULL)
		view_changed(dispatch->view, row);
}

static void
on_asked(void *ctx, const struct broker_letter *letter)
{
	const struct dispatch *dispatch = ctx;

	view_asked(dispatch->view, letter);
}

static void
on_replied(void *ctx, const struct broker_letter *letter)
{
	const struct dispatch *dispatch = ctx;

	view_replied(dispatch->view, letter);
}

static void
on_unheard(void *ctx)
{
	const struct dispatch *dispatch = ctx;

	if (dispatch->view != NULL)
		view_unheard(dispatch->view);
}

static void
send_draining(void *ctx, struct conn *conn)
{
	const int64_t *grace = ctx;
	struct cJSON *params = json_new_object();

	json_add_seconds(params, "grace", *grace);
	conn_send(conn, message_notification_line("draining", params));
}

void
dispatch_drain(struct dispatch *dispatch, int64_t grace)
{
	dispatch->draining = true;
	peers_each(dispatch->peers, send_draining, &grace);
	view_drain(dispatch->view);
}

/* ---- lifecycle ---- */

struct dispatch *
dispatch_new(const struct clock *clock, uint32_t run, const struct config *config)
{
	struct dispatch *dispatch = mem_alloc(sizeof(*dispatch));

	for (const struct method_spec *spec = method_all(); spec->name != NULL; spec++)
		assert(row_find(spec->name) != NULL);
	dispatch->clock = clock;
	dispatch->run = run;
	dispatch->started = config;
	dispatch->config = config;
	dispatch->started_at = clock_now(clock);
	dispatch->journal = journal_new(clock);
	return dispatch;
}

void
dispatch_free(struct dispatch *dispatch)
{
	if (dispatch == NULL)
		return;
	journal_free(dispatch->journal);
	free(dispatch);
}

struct peers_handler
dispatch_peers_handler(struct dispatch *dispatch)
{
	return (struct peers_handler){
	    .line = on_line, .gone = on_gone, .left = on_left, .ctx = dispatch};
}

struct lock_listener
dispatch_lock_listener(struct dispatch *dispatch)
{
	return (struct lock_listener){.answer = on_answer,
	    .notice = on_notice,
	    .ctx = dispatch,
	    .changed = on_changed,
	    .asked = on_asked,
	    .replied = on_replied,
	    .unheard = on_unheard};
}

void
dispatch_wire(struct dispatch *dispatch, struct peers *peers, struct lock_engine *engine,
    struct view *view, const struct broker *broker)
{
	dispatch->peers = peers;
	dispatch->engine = engine;
	dispatch->view = view;
	dispatch->broker = broker;
}

void
dispatch_unwire(struct dispatch *dispatch)
{
	dispatch->view = NULL;
}

void
dispatch_set_config(struct dispatch *dispatch, const struct config *config)
{
	dispatch->config = config;
}
