#include "daemon/peer/dispatch.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/peer/handlers.h"

/* ---- requests in ---- */

/*
 * Whether the peer may call that method for that lock (NULL: no particular one). False: the refusal
 * is logged, and *ret_error is set. called: the method's name for the log.
 */
static bool
has_right(const struct dispatch *dispatch, const struct conn *conn, const char *method,
    enum access_privilege privilege, const char *called, const char *name,
    struct message_error *ret_error)
{
	const struct access_rules *rules = dispatch->config->access;
	char why[ACCESS_WHY_MAX];

	if (access_allowed(rules, &conn->subject, method, privilege, name))
		return true;
	access_explain(why, rules, &conn->subject, method, privilege, name);
	lock_log_forbidden(dispatch->lock_log, conn, called, name, why);
	message_error_set(ret_error, REASON_PERMISSION_DENIED, "uid %u may not %s%s%.80s: %s",
	    (unsigned)conn->subject.uid, method, name == NULL ? "" : " ", name == NULL ? "" : name,
	    why);
	return false;
}

static bool
request_allowed(const struct dispatch *dispatch, const struct conn *conn,
    const struct dispatch_row *row, const struct method_params *params,
    struct message_error *ret_error)
{
	if (row->name_later && params->name == NULL)
		return true;
	return has_right(
	    dispatch, conn, row->method, row->privilege, row->method, params->name, ret_error);
}

/* Which names there may be depends on how queues are named, so the parser of params cannot know. */
static bool
name_allowed(const struct dispatch *dispatch, const char *name, struct message_error *ret_error)
{
	const char *why = name == NULL ? NULL : lock_name_refusal(dispatch->engine, name);

	if (why == NULL)
		return true;
	message_error_set(ret_error, REASON_INVALID_PARAMS, "invalid name: %s", why);
	snprintf(ret_error->parameter, sizeof(ret_error->parameter), "name");
	return false;
}

static bool
user_may(const struct conn *conn, enum account_thing thing, const char *what,
    struct message_error *ret_error)
{
	const struct account *account = conn->account;

	if (account_has_room(account, thing))
		return true;
	message_error_set(ret_error, REASON_TOO_MANY_WAITERS, "uid %u has %zu %s, the maximum",
	    (unsigned)account->uid, account->all->limits.most[thing], what);
	return false;
}

/* Whether a peer that has so much waiting, of a user who has, may wait for one thing more. */
static bool
may_wait(const struct dispatch *dispatch, const struct conn *conn, enum request_kind kind,
    struct message_error *ret_error)
{
	if (requests_waiting(conn->requests) >=
	    (size_t)dispatch->config->max_waits_per_connection) {
		message_error_set(ret_error, REASON_TOO_MANY_WAITERS,
		    "this connection has as many waiting requests as it may have");
		return false;
	}
	return user_may(conn, ACCOUNT_WAITS, "requests waiting", ret_error) &&
	       (kind != REQUEST_WATCHES || user_may(conn, ACCOUNT_WATCHES, "watches", ret_error));
}

/*
 * Whether the request waits until the broker is connected for the first time. An acquire that waits
 * for a limited time does not: it ends in time, whatever the broker does.
 */
static bool
is_held(const struct dispatch *dispatch, const struct dispatch_row *row,
    const struct method_params *params)
{
	return dispatch->holds && (row->lock_log != LOCK_LOG_ACQUIRE || params->timeout == 0 ||
				      params->timeout == DURATION_FOREVER);
}

/* An acquire that the engine does not hear of. */
static void
count_refusal(
    const struct dispatch *dispatch, const struct method_params *params, enum reason reason)
{
	const struct lock_answer answer = {.reason = reason};

	view_acquired(dispatch->view, params->name, &answer);
}

/* False: it has to wait until one of its user's scans is over, or for the broker. */
static bool
dispatch_request(
    struct dispatch *dispatch, struct conn *conn, const struct message_request *message)
{
	static const struct message_id nobody = {.kind = MESSAGE_ID_NULL};
	const struct method_spec *spec = method_find(message->method);
	const struct dispatch_row *row = handlers_find(message->method);
	struct call call = {.dispatch = dispatch, .conn = conn};
	struct method_params params = {.name = NULL};
	struct message_error error;
	bool allowed = false;
	enum request_kind kind = REQUEST_QUICK;
	char quoted[64];

	if (requests_find_id(conn->requests, &message->id) != NULL) {
		/* With that id it would pass for the answer to the first. */
		message_error_set(
		    &error, REASON_INVALID_REQUEST, "a request with the same id is in progress");
		conn_send(conn, message_error_line(&nobody, &error, NULL));
		return true;
	}
	if (spec == NULL || row == NULL) {
		message_error_set(&error, REASON_METHOD_NOT_FOUND, "unknown method '%s'",
		    message_escape(quoted, sizeof(quoted), message->method));
	} else if (method_params_parse(spec, message->params, &params, &error) &&
		   name_allowed(dispatch, params.name, &error) &&
		   request_allowed(dispatch, conn, row, &params, &error)) {
		if (is_held(dispatch, row, &params))
			return false;
		kind = row->kind;
		if (kind == REQUEST_QUICK && method_waits(spec, &params))
			kind = method_tries(spec, &params) ? REQUEST_TRIES : REQUEST_WAITS;
		if (kind == REQUEST_SCANS && !account_has_room(conn->account, ACCOUNT_SCANS))
			return false;
		allowed = (kind != REQUEST_WAITS && kind != REQUEST_WATCHES) ||
			  may_wait(dispatch, conn, kind, &error);
	}
	if (!allowed) {
		if (row != NULL && row->lock_log == LOCK_LOG_ACQUIRE)
			count_refusal(dispatch, &params, error.reason);
		conn_send(conn, message_error_line(&message->id, &error, NULL));
		return true;
	}
	call.request = requests_add(conn->requests, &message->id, row, kind);
	assert(call.request != NULL);
	call.params = &params;
	lock_log_request(dispatch->lock_log, conn, call.request, &params);
	row->handle(&call);
	return true;
}

/*
 * If the request is not answered yet, a successor may have to repeat it. The engine saves acquires.
 */
static void
keep_line(const struct dispatch *dispatch, struct conn *conn, const struct message_id *id,
    const char *line, size_t len)
{
	const struct request *request = requests_find_id(conn->requests, id);

	if (request != NULL && request->row->lock_log != LOCK_LOG_ACQUIRE)
		requests_keep_line(
		    conn->requests, request->number, line, len, clock_now(dispatch->clock));
}

static bool
on_line(void *ctx, struct conn *conn, const char *line, size_t len)
{
	struct message_request message;
	struct message_error error;
	bool taken;

	if (!message_parse_request(line, len, &message, &error)) {
		conn_send(conn, message_error_line(&message.id, &error, NULL));
		return true;
	}
	taken = dispatch_request(ctx, conn, &message);
	if (taken)
		keep_line(ctx, conn, &message.id, line, len);
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

	lock_log_left(leaver->dispatch->lock_log, leaver->peer, request->number);
}

static void
on_gone(void *ctx, struct conn *conn)
{
	struct dispatch *dispatch = ctx;
	struct leaver leaver = {.dispatch = dispatch, .peer = conn->id};

	/* The engine ends these unanswered. */
	requests_remove_waiting(conn->requests, leave, &leaver);
	view_peer_gone(dispatch->view, conn->id);
	dispatch->peer_goes = true;
	lock_peer_gone(dispatch->engine, conn->id);
	dispatch->peer_goes = false;
}

/* A peer that has only said all that it will say still gets its answers before that. */
static void
on_left(void *ctx, struct conn *conn)
{
	struct dispatch *dispatch = ctx;

	view_peer_left(dispatch->view, conn->id);
	lock_peer_left(dispatch->engine, conn->id);
}

/*
 * ---- answers and notices out: called from inside the engine and the view, which nothing here may
 * call ----
 */

/* Whom an answer is for. False: nobody is there any more. */
static bool
call_find(struct dispatch *dispatch, uint64_t peer, uint64_t number, struct call *ret)
{
	struct conn *conn = peers_find(dispatch->peers, peer);
	const struct request *request = conn == NULL ? NULL : requests_find(conn->requests, number);

	*ret = (struct call){.dispatch = dispatch, .conn = conn, .request = request};
	return request != NULL;
}

static void
refuse(const struct call *call, const struct lock_answer *answer)
{
	struct message_error error;
	struct cJSON *data = result_error(answer, &error);

	handlers_refuse(call, &error, data);
}

static void
on_answer(void *ctx, uint64_t peer, uint64_t number, const struct lock_answer *answer)
{
	struct dispatch *dispatch = ctx;
	const struct dispatch_row *row;
	struct result_facts facts;
	struct request kept;
	struct call call;

	if (peer == VIEW_PEER) {
		view_answer(dispatch->view, number, answer);
		return;
	}
	if (!call_find(dispatch, peer, number, &call)) {
		lock_log_unheard(dispatch->lock_log, peer, number, answer);
		peers_scanned(dispatch->peers, peer, number);
		return;
	}
	kept = *call.request;
	row = kept.row;
	if (row->lock_log == LOCK_LOG_ACQUIRE)
		view_acquired(dispatch->view, answer->name, answer);
	if (answer->reason != REASON_NONE) {
		lock_log_answer(dispatch->lock_log, call.conn, &kept, answer);
		refuse(&call, answer);
		return;
	}
	if (row->answer != NULL) {
		row->answer(&call, answer);
	} else {
		facts = handlers_facts(dispatch);
		handlers_reply(&call, row->result(&facts, answer));
	}
	/* Its client may be visited only after the broker got the requests of this pass. */
	if (request_ends_with_client(&kept))
		conn_push(call.conn);
	lock_log_answer(dispatch->lock_log, call.conn, &kept, answer);
}

static void
on_notice(void *ctx, uint64_t peer, const struct lock_notice *notice)
{
	struct dispatch *dispatch = ctx;
	struct conn *conn = peers_find(dispatch->peers, peer);
	const struct request *request = NULL;
	struct result_facts facts = handlers_facts(dispatch);
	struct cJSON *params = NULL;
	struct lock_row hold;
	bool is_held = notice->lock != 0 && lock_row_find(dispatch->engine, 0, notice->lock, &hold);
	const char *method;

	lock_log_notice(dispatch->lock_log, notice, is_held ? &hold : NULL);
	view_noticed(dispatch->view, notice);
	if (conn == NULL)
		return;
	if (notice->kind == LOCK_NOTICE_WAITING || notice->kind == LOCK_NOTICE_HOLDERS) {
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

/* ---- the view: rows, daemon messages, and its answers ---- */

static void
on_changed(void *ctx, const struct lock_row *row)
{
	const struct dispatch *dispatch = ctx;

	if (dispatch->peer_goes && row->state == LOCK_ROW_GONE && row->lock != 0)
		lock_log_gone(dispatch->lock_log, row);
	if (dispatch->view != NULL)
		view_changed(dispatch->view, row);
}

static void
on_asked(void *ctx, const struct broker_message *message)
{
	const struct dispatch *dispatch = ctx;

	view_asked(dispatch->view, message);
}

static void
on_replied(void *ctx, const struct broker_message *message)
{
	const struct dispatch *dispatch = ctx;

	view_replied(dispatch->view, message);
}

static void
on_unheard(void *ctx)
{
	const struct dispatch *dispatch = ctx;

	if (dispatch->view != NULL)
		view_unheard(dispatch->view);
}

static void
on_view_done(void *ctx, uint64_t peer, uint64_t number, enum reason reason, const char *text,
    struct cJSON *result)
{
	struct dispatch *dispatch = ctx;
	const struct lock_answer answer = {
	    .reason = reason, .text = text, .slots = -1, .target = -1, .busy = -1, .waiting = -1};
	struct call call;

	if (!call_find(dispatch, peer, number, &call)) {
		lock_log_unheard(dispatch->lock_log, peer, number, &answer);
		json_free(result);
		return;
	}
	/* The lock log has the answers of the engine already. */
	if (call.request->row->answer == NULL)
		lock_log_answer(dispatch->lock_log, call.conn, call.request, &answer);
	if (reason == REASON_NONE)
		handlers_reply(&call, result);
	else
		refuse(&call, &answer);
}

static bool
on_view_may(void *ctx, uint64_t peer, uint64_t number, const char *name)
{
	const struct lock_answer answer = {.reason = REASON_PERMISSION_DENIED};
	struct dispatch *dispatch = ctx;
	const struct dispatch_row *row;
	struct message_error error;
	struct call call;

	if (!call_find(dispatch, peer, number, &call)) {
		lock_log_unheard(dispatch->lock_log, peer, number, &answer);
		return false;
	}
	row = call.request->row;
	if (has_right(dispatch, call.conn, row->method, row->privilege, row->method, name, &error))
		return true;
	lock_log_answer(dispatch->lock_log, call.conn, call.request, &answer);
	handlers_refuse(&call, &error, NULL);
	return false;
}

static bool
on_view_sees(void *ctx, uint64_t peer, uint64_t number, const char *name)
{
	struct call call;

	return call_find(ctx, peer, number, &call) && handlers_tells(&call, name);
}

static void
on_view_tell(void *ctx, uint64_t peer, uint64_t number, const char *method, struct cJSON *params)
{
	struct call call;

	if (call_find(ctx, peer, number, &call))
		conn_send(call.conn,
		    message_notification_line(method, result_watched(&call.request->id, params)));
	else
		json_free(params);
}

static struct view_peer
on_view_peer(void *ctx, uint64_t peer)
{
	const struct dispatch *dispatch = ctx;
	const struct conn *conn = peers_find(dispatch->peers, peer);

	if (conn == NULL)
		return (struct view_peer){.user = (uid_t)-1};
	return (struct view_peer){.user = conn->subject.uid,
	    .unread = conn_unread(conn),
	    .room = account_room(conn->account)};
}

static void
on_view_scanned(void *ctx, uint64_t peer, uint64_t request)
{
	const struct dispatch *dispatch = ctx;

	peers_scanned(dispatch->peers, peer, request);
}

static void
on_view_keep(void *ctx, uint64_t peer, uint64_t request, size_t bytes)
{
	const struct dispatch *dispatch = ctx;
	struct conn *conn = peers_find(dispatch->peers, peer);

	if (conn != NULL)
		requests_keep(conn->requests, request, bytes);
}

/* ---- lifecycle ---- */

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

void
dispatch_hold(struct dispatch *dispatch, bool holds)
{
	dispatch->holds = holds;
	peers_hold(dispatch->peers, holds);
}

struct dispatch *
dispatch_new(struct timers *timers, const struct dispatch_past *past, const struct config *config)
{
	struct dispatch *dispatch = mem_alloc(sizeof(*dispatch));

	for (const struct method_spec *spec = method_all(); spec->name != NULL; spec++)
		assert(handlers_find(spec->name) != NULL);
	dispatch->clock = timers_clock(timers);
	dispatch->past = *past;
	dispatch->started = config;
	dispatch->config = config;
	dispatch->lock_log = lock_log_new(timers, past->run);
	return dispatch;
}

void
dispatch_free(struct dispatch *dispatch)
{
	if (dispatch == NULL)
		return;
	lock_log_free(dispatch->lock_log);
	free(dispatch->missing);
	free(dispatch);
}

struct conn_handler
dispatch_peers_handler(struct dispatch *dispatch)
{
	return (struct conn_handler){
	    .line = on_line, .gone = on_gone, .left = on_left, .ctx = dispatch};
}

struct lock_events
dispatch_lock_events(struct dispatch *dispatch)
{
	return (struct lock_events){.answer = on_answer,
	    .notice = on_notice,
	    .ctx = dispatch,
	    .changed = on_changed,
	    .asked = on_asked,
	    .replied = on_replied,
	    .unheard = on_unheard};
}

struct view_events
dispatch_view_events(struct dispatch *dispatch)
{
	return (struct view_events){.done = on_view_done,
	    .may = on_view_may,
	    .sees = on_view_sees,
	    .tell = on_view_tell,
	    .peer = on_view_peer,
	    .scanned = on_view_scanned,
	    .keep = on_view_keep,
	    .ctx = dispatch};
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
