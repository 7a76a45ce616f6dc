#include "daemon/peer/dispatch.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "daemon/base/mem.h"
#include "daemon/peer/dispatch_internal.h"
#include "daemon/view/wire.h"

/*
 * Contents:
 *	The lock client: handle_*(): acquire, verify, release, cancel.
 *	The lock administrator: create, destroy, resize, size, await, fsck, list.
 *	Explain: what hinders an acquire, whatever slots are free.
 *	Holders and waiters: show, watch, grant, deny, evict.
 *	The daemon itself: metrics, ping, info.
 *	The table: method_rows[]: rights, handler and result of each method.
 *	Requests in: dispatch_line(), dispatch_request(): rights and limits, then the handler.
 *	Answers and notices out: dispatch_answer(), dispatch_notice(): from the engine to lines.
 *	The view: on_view_*(): its answers, and what it asks of clients.
 *	Lifecycle: dispatch_new(), dispatch_wire(), and the callbacks of lower layers.
 */

_Static_assert(METHODS_UNLIMITED == LOCK_UNLIMITED, "the wire's number is the engine's");

/* Has room for what explain_hindrance() says. */
#define WORDS_MAX 512
_Static_assert(LOCK_LACKING_MAX <= WORDS_MAX, "the engine's words fit");

/* The only two ways to answer. The request is gone afterwards. */
static void
call_reply(const struct call *call, struct cJSON *result)
{
	conn_send(call->conn, message_result_line(&call->request->id, result));
	requests_remove(call->conn->requests, call->request->number);
}

static void
call_refuse(const struct call *call, const struct message_error *error, struct cJSON *data)
{
	conn_send(call->conn, message_error_line(&call->request->id, error, data));
	requests_remove(call->conn->requests, call->request->number);
}

/* Facts that results show besides the answer. */
static struct result_facts
dispatch_facts(const struct dispatch *dispatch)
{
	return (struct result_facts){
	    .run = dispatch->past.run,
	    .now = clock_now(dispatch->clock),
	    .heartbeat = broker_heartbeat(dispatch->broker),
	    .margin = lock_margin(dispatch->engine),
	};
}

/* ---- the lock client ---- */

static void
handle_acquire(const struct call *call)
{
	const struct method_params *params = call->params;
	const struct access_subject *subject = &call->conn->subject;
	const struct access_rules *rules = call->dispatch->config->access;
	char why[ACCESS_WHY_MAX], words[WORDS_MAX];
	struct lock_acquire acquire = {
	    .name = params->name,
	    .kind = params->kind,
	    .timeout = params->timeout,
	    .priority = params->priority,
	    .progress = params->progress,
	    .lease = params->lease,
	    .create = params->create,
	    .uid = subject->uid,
	    .exempt = access_is_admin(rules, subject),
	    .pid = subject->pid,
	    .who = params->who,
	    .why = params->why,
	    .command = params->command,
	};

	if (params->create > 0 &&
	    !access_allowed(rules, subject, "create", ACCESS_ADMIN, params->name)) {
		snprintf(words, sizeof(words), "uid %u may not create %s: %s",
		    (unsigned)subject->uid, params->name,
		    access_explain(why, rules, subject, "create", ACCESS_ADMIN, params->name));
		acquire.may_not_create = words;
	}
	lock_acquire(call->dispatch->engine, call->conn->id, call->request->number, &acquire);
}

/* False, and it is refused, for an id that this run of the daemon has not given. */
static bool
call_read_lock(const struct call *call, uint64_t *ret_lock)
{
	struct message_error error;
	uint32_t run;

	if (wire_id_parse(call->params->lock, &run, ret_lock) && run == call->dispatch->past.run)
		return true;
	message_error_set(&error, REASON_NOT_HELD, "this lock is not held");
	call_refuse(call, &error, NULL);
	return false;
}

static void
handle_verify(const struct call *call)
{
	uint64_t lock;

	if (call_read_lock(call, &lock))
		lock_verify(call->dispatch->engine, call->conn->id, call->request->number, lock,
		    call->conn->subject.uid);
}

static void
handle_release(const struct call *call)
{
	struct lock_row row;
	uint64_t lock;

	if (!call_read_lock(call, &lock))
		return;
	if (lock_row_find(call->dispatch->engine, 0, lock, &row))
		lock_log_releases(call->dispatch->lock_log, call->conn, call->request, &row);
	lock_release(call->dispatch->engine, call->conn->id, call->request->number, lock);
}

static void
handle_cancel(const struct call *call)
{
	const struct dispatch *dispatch = call->dispatch;
	uint64_t peer = call->conn->id;
	const struct peer_request *meant =
	    requests_find_id(call->conn->requests, &call->params->id);
	struct cJSON *result = json_new_object();

	/* The request meant gets its own answer, `cancelled`. */
	json_add_bool(result, "cancelled",
	    meant != NULL && (lock_cancel(dispatch->engine, peer, meant->number) ||
				 view_cancel(dispatch->view, peer, meant->number)));
	call_reply(call, result);
}

/* ---- the lock administrator ---- */

/* The common members of all changes. Each method leaves the others at their defaults. */
static struct lock_change
call_change(const struct call *call)
{
	const struct method_params *params = call->params;
	struct lock_change change = {
	    .name = params->name,
	    .kind = params->kind,
	    .by = LOCK_SLOTS_TO,
	    .slots = params->slots,
	    .claim = lock_claim_of(params->claim),
	    .exist_ok = params->exist_ok,
	    .ascending = params->order == METHOD_ORDER_ASCENDING,
	    .overshoot = params->overshoot,
	    .wait = params->wait,
	    .takeover_grace = params->takeover_grace,
	    .force = params->force,
	    .progress = params->progress,
	    .uid = call->conn->subject.uid,
	};

	if (params->add > 0) {
		change.by = LOCK_SLOTS_ADD;
		change.slots = params->add;
	} else if (params->remove > 0) {
		change.by = LOCK_SLOTS_REMOVE;
		change.slots = params->remove;
	}
	return change;
}

static void
handle_create(const struct call *call)
{
	const struct lock_change change = call_change(call);

	lock_create(call->dispatch->engine, call->conn->id, call->request->number, &change);
}

static void
handle_destroy(const struct call *call)
{
	const struct lock_change change = call_change(call);

	lock_destroy(call->dispatch->engine, call->conn->id, call->request->number, &change);
}

static void
handle_resize(const struct call *call)
{
	const struct lock_change change = call_change(call);

	lock_resize(call->dispatch->engine, call->conn->id, call->request->number, &change);
}

static void
handle_size(const struct call *call)
{
	lock_size(
	    call->dispatch->engine, call->conn->id, call->request->number, call->params->name);
}

static void
handle_await(const struct call *call)
{
	const struct lock_await await = {
	    .uid = call->conn->subject.uid,
	    .name = call->params->name,
	    .slot = call->params->slot,
	    .busy = call->params->state == METHOD_SLOT_BUSY,
	    .timeout = call->params->timeout,
	};

	lock_await(call->dispatch->engine, call->conn->id, call->request->number, &await);
}

static void
handle_fsck(const struct call *call)
{
	const struct lock_check check = {
	    .name = call->params->name,
	    .repair = call->params->repair,
	    .convert = lock_claim_of(call->params->convert),
	    .wait = call->params->wait,
	    .takeover_grace = call->params->takeover_grace,
	    .progress = call->params->progress,
	};

	lock_fsck(call->dispatch->engine, call->conn->id, call->request->number, &check);
}

static void
handle_list(const struct call *call)
{
	lock_list(call->dispatch->engine, call->conn->id, call->request->number);
}

/*
 * Whether the answer to a request about all locks may name that one. A list also tells what `show`
 * tells. ctx: a struct call.
 */
static bool
call_tells(const void *ctx, const char *name)
{
	const struct call *call = ctx;
	const struct dispatch_row *row = call->request->row;
	const struct access_rules *rules = call->dispatch->config->access;
	const struct access_subject *subject = &call->conn->subject;

	return access_allowed(rules, subject, row->method, row->privilege, name) &&
	       (row->handle != handle_list ||
		   access_allowed(rules, subject, "show", ACCESS_ANYONE, name));
}

/* The view adds the number of waiters, and the mutexes. */
static void
answer_list(const struct call *call, const struct lock_answer *answer)
{
	struct result_facts facts = dispatch_facts(call->dispatch);
	struct cJSON *list;
	size_t more;

	facts.tells = call_tells;
	facts.tells_ctx = call;
	list = result_list(&facts, answer, &more);
	view_count(call->dispatch->view, call->conn->id, call->request->number, answer, list, more);
}

/* ---- explain ---- */

/* The reason why the broker cannot serve an acquire now, with buf set; REASON_NONE: none. */
static enum reason
explain_broker_hindrance(char buf[WORDS_MAX], const struct dispatch *dispatch)
{
	struct broker_info info;
	const char *why;

	broker_get_info(dispatch->broker, &info);
	why = info.why == NULL ? "" : info.why;
	if (info.locks == BROKER_LOGIN_REFUSED) {
		snprintf(buf, WORDS_MAX, "the broker refused the daemon: %s", why);
		return REASON_BROKER_REFUSED;
	}
	if (info.locks != BROKER_UP) {
		snprintf(buf, WORDS_MAX, "the broker cannot be reached%s%s",
		    why[0] == '\0' ? "" : ": ", why);
		return REASON_BROKER_UNAVAILABLE;
	}
	if (info.auxiliary_blocked) {
		snprintf(buf, WORDS_MAX, "%s", reason_message(REASON_BROKER_BLOCKED));
		return REASON_BROKER_BLOCKED;
	}
	return REASON_NONE;
}

/* Whether the broker refuses probes: buf then has its words. */
static bool
explain_probes_hindrance(char buf[WORDS_MAX], const struct dispatch *dispatch)
{
	struct broker_info info;

	broker_get_info(dispatch->broker, &info);
	snprintf(buf, WORDS_MAX, "the broker refused the daemon: %s", info.probes_refused);
	return info.probes_refused[0] != '\0';
}

/*
 * Why an acquire of that peer would fail whatever slots there are: the daemon stops, the broker is
 * not there, the access rules. REASON_NONE: nothing that is known here, and buf is not set.
 */
static enum reason
explain_hindrance(char buf[WORDS_MAX], const struct call *call, const char *name)
{
	const struct access_rules *rules = call->dispatch->config->access;
	const struct access_subject *subject = &call->conn->subject;
	char why[ACCESS_WHY_MAX];
	enum reason reason;

	if (call->dispatch->draining) {
		snprintf(buf, WORDS_MAX, "%s", reason_message(REASON_DRAINING));
		return REASON_DRAINING;
	}
	if (!access_allowed(rules, subject, "acquire", ACCESS_ANYONE, name)) {
		access_explain(why, rules, subject, "acquire", ACCESS_ANYONE, name);
		snprintf(
		    buf, WORDS_MAX, "uid %u may not acquire it: %s", (unsigned)subject->uid, why);
		return REASON_PERMISSION_DENIED;
	}
	reason = explain_broker_hindrance(buf, call->dispatch);
	if (reason == REASON_NONE && lock_lacking(call->dispatch->engine, subject->uid,
					 access_is_admin(rules, subject), buf) != NULL)
		reason = REASON_TOO_MANY_LOCKS;
	return reason;
}

static void
answer_explain(const struct call *call, const struct lock_answer *answer)
{
	struct result_facts facts = dispatch_facts(call->dispatch);
	char words[WORDS_MAX];

	facts.hindered = explain_hindrance(words, call, answer->name);
	/* An acquire then claims slots unseen, and may succeed; but nothing can be said of them. */
	if (facts.hindered == REASON_NONE && answer->explanation != NULL &&
	    answer->explanation->verdict == LOCK_VERDICT_UNKNOWN &&
	    explain_probes_hindrance(words, call->dispatch))
		facts.hindered = REASON_BROKER_REFUSED;
	facts.hindrance = facts.hindered == REASON_NONE ? NULL : words;
	call_reply(call, result_explain(&facts, answer));
}

static void
handle_explain(const struct call *call)
{
	const char *name = call->params->name;
	const struct lock_answer unknown = {.name = name, .kind = call->params->kind};
	char words[WORDS_MAX];

	/* That the broker cannot be asked is the explanation, and no reason to give none. */
	if (explain_broker_hindrance(words, call->dispatch) != REASON_NONE)
		answer_explain(call, &unknown);
	else
		lock_explain(call->dispatch->engine, call->conn->id, call->request->number, name,
		    call->params->kind);
}

/* ---- holders and waiters ---- */

static void
handle_show(const struct call *call)
{
	view_show(call->dispatch->view, call->conn->id, call->request->number, call->params->name);
}

static void
handle_watch(const struct call *call)
{
	struct view *view = call->dispatch->view;
	uint64_t peer = call->conn->id, number = call->request->number;

	if (call->is_repeated)
		view_watch_again(view, peer, number, call->params->name);
	else
		view_watch(view, peer, number, call->params->name);
}

static void
handle_grant(const struct call *call)
{
	view_grant(call->dispatch->view, call->conn->id, call->request->number,
	    call->params->waiter, call->conn->subject.uid);
}

static void
handle_deny(const struct call *call)
{
	if (call->params->all)
		view_deny_all(call->dispatch->view, call->conn->id, call->request->number,
		    call->params->name, call->conn->subject.uid);
	else
		view_deny(call->dispatch->view, call->conn->id, call->request->number,
		    call->params->waiter, call->conn->subject.uid);
}

static void
handle_evict(const struct call *call)
{
	const struct method_params *params = call->params;
	const struct view_eviction eviction = {.holder = params->holder,
	    .name = params->name,
	    .uid = call->conn->subject.uid,
	    .grace = params->grace,
	    .why = params->why};

	view_evict(call->dispatch->view, call->conn->id, call->request->number, &eviction);
}

/* ---- the daemon itself ---- */

static void
handle_metrics(const struct call *call)
{
	const struct dispatch *dispatch = call->dispatch;

	view_metrics(dispatch->view, call->conn->id, call->request->number,
	    &(struct view_scrape){.openmetrics = call->params->format == METHOD_FORMAT_OPENMETRICS,
		.draining = dispatch->draining,
		.started = dispatch->past.started,
		.takeovers = (uint64_t)dispatch->past.takeovers,
		.clients = peers_count(dispatch->peers)});
}

static void
handle_ping(const struct call *call)
{
	struct cJSON *result = json_new_object();
	struct broker_info info;

	if (call->params->broker) {
		broker_get_info(call->dispatch->broker, &info);
		json_add(
		    result, "broker", result_pinged(&info, lock_silence(call->dispatch->engine)));
	}
	call_reply(call, result);
}

static void
handle_info(const struct call *call)
{
	const struct dispatch *dispatch = call->dispatch;
	const struct config *config = dispatch->config;
	struct cJSON *result = json_new_object(), *limits = json_new_object();
	struct cJSON *lease = json_new_object();
	struct broker_info info;
	struct broker_quorum_info quorum;
	struct lock_counts counts;

	broker_get_info(dispatch->broker, &info);
	broker_get_quorum(dispatch->broker, &quorum);
	lock_get_counts(dispatch->engine, &counts);
	json_add_string(result, "version", PACKAGE_VERSION);
	json_add_integer(result, "pid", getpid());
	json_add_seconds(result, "uptime", clock_now(dispatch->clock) - dispatch->past.started_at);
	json_add_integer(result, "takeovers", dispatch->past.takeovers);
	json_add_bool(result, "draining", dispatch->draining);
	json_add_string(result, "naming", dispatch->started->naming);
	json_add_string(result, "claim", config->claim);
	json_add_integer(limits, "line", LINE_MAX_IN);
	json_add_integer(limits, "locks_per_connection", config->max_locks_per_connection);
	json_add_integer(limits, "waits_per_connection", config->max_waits_per_connection);
	json_add_integer(limits, "requests_per_connection", config->max_requests_per_connection);
	json_add_integer(limits, "waits_per_uid", config->max_waits_per_uid);
	json_add_integer(limits, "watches_per_uid", config->max_watches_per_uid);
	json_add_integer(limits, "scans_per_uid", config->max_scans_per_uid);
	json_add_integer(limits, "mutexes_per_uid", config->max_mutexes_per_uid);
	json_add(result, "limits", limits);
	json_add(result, "broker", result_broker(&info, &quorum, lock_silence(dispatch->engine)));
	json_add_seconds(lease, "margin", lock_margin(dispatch->engine));
	json_add_seconds(lease, "takeover", lock_takeover(dispatch->engine));
	json_add_bool(lease, "recovering", lock_is_recovering(dispatch->engine));
	json_add(result, "lease", lease);
	json_add(result, "counts", result_counts(&counts, peers_count(dispatch->peers)));
	call_reply(call, result);
}

static void
handle_discover(const struct call *call)
{
	call_reply(call, json_new_text(openrpc_json));
}

/* ---- the table ---- */

static const struct dispatch_row method_rows[] = {
    {"acquire", ACCESS_ANYONE, handle_acquire, result_acquire, .lock_log = LOCK_LOG_ACQUIRE},
    {"verify", ACCESS_ANYONE, handle_verify, result_verify, .lock_log = LOCK_LOG_NOTHING},
    {"release", ACCESS_ANYONE, handle_release, result_release, .lock_log = LOCK_LOG_RELEASE},
    {"cancel", ACCESS_ANYONE, handle_cancel, NULL, .lock_log = LOCK_LOG_NOTHING},
    {"create", ACCESS_ADMIN, handle_create, result_create, .lock_log = LOCK_LOG_CHANGE},
    {"destroy", ACCESS_ADMIN, handle_destroy, result_destroy, .lock_log = LOCK_LOG_CHANGE},
    {"resize", ACCESS_ADMIN, handle_resize, result_resize, .lock_log = LOCK_LOG_CHANGE},
    {"size", ACCESS_ANYONE, handle_size, result_size, REQUEST_SCANS, .lock_log = LOCK_LOG_READ},
    {"await", ACCESS_ANYONE, handle_await, result_await, .lock_log = LOCK_LOG_READ},
    {"fsck", ACCESS_ADMIN, handle_fsck, result_fsck, REQUEST_SCANS, .lock_log = LOCK_LOG_CHANGE},
    {"explain", ACCESS_ANYONE, handle_explain, NULL, REQUEST_SCANS, .lock_log = LOCK_LOG_READ,
	.answer = answer_explain},
    {"list", ACCESS_ANYONE, handle_list, NULL, REQUEST_SCANS, .lock_log = LOCK_LOG_READ,
	.answer = answer_list},
    {"show", ACCESS_ANYONE, handle_show, NULL, REQUEST_SCANS, .lock_log = LOCK_LOG_READ},
    {"watch", ACCESS_ANYONE, handle_watch, NULL, REQUEST_WATCHES, .lock_log = LOCK_LOG_READ},
    {"grant", ACCESS_ADMIN, handle_grant, NULL, .lock_log = LOCK_LOG_CHANGE, .name_later = true},
    {"deny", ACCESS_ADMIN, handle_deny, NULL, .lock_log = LOCK_LOG_CHANGE, .name_later = true},
    {"evict", ACCESS_ADMIN, handle_evict, NULL, .lock_log = LOCK_LOG_CHANGE, .name_later = true},
    {"metrics", ACCESS_ANYONE, handle_metrics, NULL, .lock_log = LOCK_LOG_READ},
    {"ping", ACCESS_ANYONE, handle_ping, NULL, .lock_log = LOCK_LOG_NOTHING},
    {"info", ACCESS_ANYONE, handle_info, NULL, .lock_log = LOCK_LOG_NOTHING},
    {"rpc.discover", ACCESS_ANYONE, handle_discover, NULL, .lock_log = LOCK_LOG_NOTHING},
};

const struct dispatch_row *
dispatch_find_row(const char *method)
{
	for (size_t i = 0; i < sizeof(method_rows) / sizeof(method_rows[0]); i++) {
		if (strcmp(method_rows[i].method, method) == 0)
			return &method_rows[i];
	}
	return NULL;
}

/* ---- requests in ---- */

/*
 * Whether the peer may call that method for that lock (NULL: no particular one). False: the refusal
 * is logged, and *ret_error is set. called: the method's name for the log.
 */
static bool
peer_has_right(const struct dispatch *dispatch, const struct conn *conn, const char *method,
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
	return peer_has_right(
	    dispatch, conn, row->method, row->privilege, row->method, params->name, ret_error);
}

/* Which names there may be depends on how queues are named, so the parser of params cannot know. */
static bool
request_name_allowed(
    const struct dispatch *dispatch, const char *name, struct message_error *ret_error)
{
	const char *why = name == NULL ? NULL : lock_name_refusal(dispatch->engine, name);

	if (why == NULL)
		return true;
	message_error_set(ret_error, REASON_INVALID_PARAMS, "invalid name: %s", why);
	snprintf(ret_error->parameter, sizeof(ret_error->parameter), "name");
	return false;
}

static bool
user_may_have(const struct conn *conn, enum account_thing thing, const char *what,
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
request_may_wait(const struct dispatch *dispatch, const struct conn *conn, enum request_kind kind,
    struct message_error *ret_error)
{
	if (requests_waiting(conn->requests) >=
	    (size_t)dispatch->config->max_waits_per_connection) {
		message_error_set(ret_error, REASON_TOO_MANY_WAITERS,
		    "this connection has as many waiting requests as it may have");
		return false;
	}
	return user_may_have(conn, ACCOUNT_WAITS, "requests waiting", ret_error) &&
	       (kind != REQUEST_WATCHES ||
		   user_may_have(conn, ACCOUNT_WATCHES, "watches", ret_error));
}

/*
 * Whether the request waits until the broker is connected for the first time. An acquire that waits
 * for a limited time does not: it ends in time, whatever the broker does.
 */
static bool
request_is_held(const struct dispatch *dispatch, const struct dispatch_row *row,
    const struct method_params *params)
{
	return dispatch->holds && (row->lock_log != LOCK_LOG_ACQUIRE || params->timeout == 0 ||
				      params->timeout == DURATION_FOREVER);
}

/* An acquire that the engine does not hear of. */
static void
request_count_refusal(
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
	const struct dispatch_row *row = dispatch_find_row(message->method);
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
		   request_name_allowed(dispatch, params.name, &error) &&
		   request_allowed(dispatch, conn, row, &params, &error)) {
		if (request_is_held(dispatch, row, &params))
			return false;
		kind = row->kind;
		if (kind == REQUEST_QUICK && method_waits(spec, &params))
			kind = method_tries(spec, &params) ? REQUEST_TRIES : REQUEST_WAITS;
		if (kind == REQUEST_SCANS && !account_has_room(conn->account, ACCOUNT_SCANS))
			return false;
		allowed = (kind != REQUEST_WAITS && kind != REQUEST_WATCHES) ||
			  request_may_wait(dispatch, conn, kind, &error);
	}
	if (!allowed) {
		if (row != NULL && row->lock_log == LOCK_LOG_ACQUIRE)
			request_count_refusal(dispatch, &params, error.reason);
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

static bool
dispatch_line(void *ctx, struct conn *conn, const char *line, size_t len)
{
	struct dispatch *dispatch = ctx;
	const struct peer_request *request = NULL;
	struct message_request message;
	struct message_error error;
	bool taken;

	if (!message_parse_request(line, len, &message, &error)) {
		conn_send(conn, message_error_line(&message.id, &error, NULL));
		return true;
	}
	taken = dispatch_request(dispatch, conn, &message);
	if (taken)
		request = requests_find_id(conn->requests, &message.id);
	/* A successor may have to repeat it. The engine saves acquires. */
	if (request != NULL && request->row->lock_log != LOCK_LOG_ACQUIRE)
		requests_keep_line(
		    conn->requests, request->number, line, len, clock_now(dispatch->clock));
	message_request_done(&message);
	return taken;
}

/* A peer that is gone. */
struct leaver {
	struct dispatch *dispatch;
	uint64_t peer;
};

static void
dispatch_gone_request(void *ctx, const struct peer_request *request)
{
	const struct leaver *leaver = ctx;

	lock_log_left(leaver->dispatch->lock_log, leaver->peer, request->number);
}

static void
dispatch_gone(void *ctx, struct conn *conn)
{
	struct dispatch *dispatch = ctx;
	struct leaver leaver = {.dispatch = dispatch, .peer = conn->id};

	/* The engine ends these unanswered. */
	requests_remove_waiting(conn->requests, dispatch_gone_request, &leaver);
	view_peer_gone(dispatch->view, conn->id);
	dispatch->peer_goes = true;
	lock_peer_gone(dispatch->engine, conn->id);
	dispatch->peer_goes = false;
}

/* A peer that has only said all that it will say still gets its answers before that. */
static void
dispatch_left(void *ctx, struct conn *conn)
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
	const struct peer_request *request =
	    conn == NULL ? NULL : requests_find(conn->requests, number);

	*ret = (struct call){.dispatch = dispatch, .conn = conn, .request = request};
	return request != NULL;
}

/* ---- answers and notices out ---- */

static void
call_refuse_answer(const struct call *call, const struct lock_answer *answer)
{
	struct message_error error;
	struct cJSON *data = result_error(answer, &error);

	call_refuse(call, &error, data);
}

static void
dispatch_answer(void *ctx, uint64_t peer, uint64_t number, const struct lock_answer *answer)
{
	struct dispatch *dispatch = ctx;
	const struct dispatch_row *row;
	struct result_facts facts;
	struct peer_request kept;
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
		call_refuse_answer(&call, answer);
		return;
	}
	if (row->answer != NULL) {
		row->answer(&call, answer);
	} else {
		facts = dispatch_facts(dispatch);
		call_reply(&call, row->result(&facts, answer));
	}
	/* Its client may be visited only after the broker got the requests of this pass. */
	if (request_ends_with_client(&kept))
		conn_push(call.conn);
	lock_log_answer(dispatch->lock_log, call.conn, &kept, answer);
}

static void
dispatch_notice(void *ctx, uint64_t peer, const struct lock_notice *notice)
{
	struct dispatch *dispatch = ctx;
	struct conn *conn = peers_find(dispatch->peers, peer);
	const struct peer_request *request = NULL;
	struct result_facts facts = dispatch_facts(dispatch);
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

/* ---- the view ---- */

static void
dispatch_changed(void *ctx, const struct lock_row *row)
{
	const struct dispatch *dispatch = ctx;

	if (dispatch->peer_goes && row->state == LOCK_ROW_GONE && row->lock != 0)
		lock_log_gone(dispatch->lock_log, row);
	if (dispatch->view != NULL)
		view_changed(dispatch->view, row);
}

static void
dispatch_asked(void *ctx, const struct broker_message *message)
{
	const struct dispatch *dispatch = ctx;

	view_asked(dispatch->view, message);
}

static void
dispatch_replied(void *ctx, const struct broker_message *message)
{
	const struct dispatch *dispatch = ctx;

	view_replied(dispatch->view, message);
}

static void
dispatch_unheard(void *ctx)
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
		call_reply(&call, result);
	else
		call_refuse_answer(&call, &answer);
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
	if (peer_has_right(
		dispatch, call.conn, row->method, row->privilege, row->method, name, &error))
		return true;
	lock_log_answer(dispatch->lock_log, call.conn, call.request, &answer);
	call_refuse(&call, &error, NULL);
	return false;
}

static bool
on_view_sees(void *ctx, uint64_t peer, uint64_t number, const char *name)
{
	struct call call;

	return call_find(ctx, peer, number, &call) && call_tells(&call, name);
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
dispatch_send_draining(void *ctx, struct conn *conn)
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
	peers_each(dispatch->peers, dispatch_send_draining, &grace);
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
		assert(dispatch_find_row(spec->name) != NULL);
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
	    .line = dispatch_line, .gone = dispatch_gone, .left = dispatch_left, .ctx = dispatch};
}

struct lock_events
dispatch_lock_events(struct dispatch *dispatch)
{
	return (struct lock_events){.answer = dispatch_answer,
	    .notice = dispatch_notice,
	    .ctx = dispatch,
	    .changed = dispatch_changed,
	    .asked = dispatch_asked,
	    .replied = dispatch_replied,
	    .unheard = dispatch_unheard};
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
