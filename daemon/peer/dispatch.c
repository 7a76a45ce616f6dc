#include "daemon/peer/dispatch.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/peer/journal.h"
#include "daemon/peer/requests.h"
#include "daemon/peer/result.h"
#include "protocol/methods.h"

struct dispatch {
	const struct clock *clock;    /* borrowed, as all down to broker */
	const struct config *started; /* for what does not change without a restart */
	const struct config *config;  /* for the rest */
	struct peers *peers;
	struct lock_engine *engine;
	const struct broker *broker;
	struct journal *journal; /* owned */
	uint32_t run;
	int64_t started_at;
	bool draining;
};

struct dispatch_row {
	const char *method;
	enum access_privilege privilege;
	/* Answers at once with reply(), or hands the request to the engine. May not touch it later. */
	void (*handle)(struct dispatch *dispatch, struct conn *conn, const struct request *request,
	    const struct method_params *params);
	/* The result of the engine's answer; NULL where handle answers. */
	struct cJSON *(*result)(const struct result_facts *facts, const struct lock_answer *answer);
};

static void
send_error(struct conn *conn, const struct message_id *id, const struct message_error *error,
    struct cJSON *data)
{
	conn_send(conn, message_error_line(id, error, data));
}

static void
reply(struct conn *conn, const struct request *request, struct cJSON *result)
{
	conn_send(conn, message_result_line(&request->id, result));
	requests_remove(conn->requests, request->number);
	conn_answered(conn);
}

static void
refuse(struct conn *conn, const struct request *request, const struct message_error *error,
    struct cJSON *data)
{
	send_error(conn, &request->id, error, data);
	requests_remove(conn->requests, request->number);
	conn_answered(conn);
}

/* ---- the methods ---- */

static void
do_acquire(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	const struct lock_acquire acquire = {
	    .name = params->name,
	    .kind = params->kind,
	    .timeout = params->timeout,
	    .priority = params->priority,
	    .progress = params->progress,
	    .lease = params->lease,
	    .uid = conn->subject.uid,
	};

	journal_requested(dispatch->journal, conn, params);
	lock_acquire(dispatch->engine, conn->id, request->number, &acquire);
}

static void
refuse_unknown_lock(struct conn *conn, const struct request *request)
{
	struct message_error error;

	message_error_set(&error, REASON_NOT_HELD, "no such lock is held");
	refuse(conn, request, &error, NULL);
}

static void
do_verify(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	uint64_t lock;

	if (result_lock_parse(params->lock, dispatch->run, &lock))
		lock_verify(dispatch->engine, conn->id, request->number, lock, conn->subject.uid);
	else
		refuse_unknown_lock(conn, request);
}

static void
do_release(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	uint64_t lock;

	if (result_lock_parse(params->lock, dispatch->run, &lock))
		lock_release(dispatch->engine, conn->id, request->number, lock);
	else
		refuse_unknown_lock(conn, request);
}

static void
do_cancel(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	const struct request *meant = requests_find_id(conn->requests, &params->id);
	struct cJSON *result = json_new_object();

	/* The request meant gets its own answer, `cancelled`, from the engine. */
	json_add_bool(result, "cancelled",
	    meant != NULL && lock_cancel(dispatch->engine, conn->id, meant->number));
	reply(conn, request, result);
}

static void
do_create(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	const struct lock_change change = {
	    .name = params->name,
	    .kind = params->kind,
	    .slots = params->slots,
	    .exist_ok = params->exist_ok,
	};
	struct message_error error;

	if (params->kind == LOCK_KIND_PERSISTENT_MUTEX && params->slots != 1) {
		message_error_set(
		    &error, REASON_INVALID_PARAMS, "slots: a persistent mutex has one");
		snprintf(error.parameter, sizeof(error.parameter), "slots");
		refuse(conn, request, &error, NULL);
		return;
	}
	journal_asked(dispatch->journal, conn, "create", params->name, params->slots);
	lock_create(dispatch->engine, conn->id, request->number, &change);
}

static void
do_destroy(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	const struct lock_change change = {.name = params->name};

	journal_asked(dispatch->journal, conn, "destroy", params->name, 0);
	lock_destroy(dispatch->engine, conn->id, request->number, &change);
}

static void
do_size(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	lock_size(dispatch->engine, conn->id, request->number, params->name);
}

static void
do_ping(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	struct cJSON *result = json_new_object(), *broker;
	struct broker_info info;

	if (params->broker) {
		broker_get_info(dispatch->broker, &info);
		broker = json_new_object();
		json_add_string(broker, "state", broker_state_word(info.hold));
		json_add(result, "broker", broker);
	}
	reply(conn, request, result);
}

static void
do_info(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	const struct config *config = dispatch->config;
	struct cJSON *result = json_new_object(), *limits = json_new_object();
	struct cJSON *lease = json_new_object();
	struct broker_info info;
	struct lock_counts counts;

	(void)params;
	broker_get_info(dispatch->broker, &info);
	lock_get_counts(dispatch->engine, &counts);
	json_add_string(result, "version", PACKAGE_VERSION);
	json_add_integer(result, "pid", getpid());
	json_add_number(result, "uptime",
	    duration_to_seconds(clock_now(dispatch->clock) - dispatch->started_at));
	json_add_bool(result, "draining", dispatch->draining);
	json_add_string(result, "naming", dispatch->started->naming);
	json_add_integer(limits, "line", LINE_MAX_IN);
	json_add_integer(limits, "locks_per_peer", config->max_locks_per_peer);
	json_add_integer(limits, "waits_per_peer", config->max_waits_per_peer);
	json_add_integer(limits, "requests_per_peer", config->max_requests_per_peer);
	json_add(result, "limits", limits);
	json_add(result, "broker", result_broker(&info));
	json_add_number(lease, "margin", duration_to_seconds(lock_margin(dispatch->engine)));
	json_add_number(lease, "takeover", duration_to_seconds(lock_takeover(dispatch->engine)));
	json_add_bool(lease, "recovering", lock_is_recovering(dispatch->engine));
	json_add(result, "lease", lease);
	json_add(result, "counts", result_counts(&counts, peers_count(dispatch->peers)));
	reply(conn, request, result);
}

static void
do_discover(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	struct json_error error;
	struct cJSON *description = json_parse(openrpc_json, strlen(openrpc_json), &error);

	(void)dispatch;
	(void)params;
	/* NULL only for want of memory, which ends the peer: the text is ours and tested. */
	reply(conn, request, description);
}

static const struct dispatch_row rows[] = {
    {"acquire", ACCESS_ANYONE, do_acquire, result_acquire},
    {"verify", ACCESS_ANYONE, do_verify, result_verify},
    {"release", ACCESS_ANYONE, do_release, result_release},
    {"cancel", ACCESS_ANYONE, do_cancel, NULL},
    {"create", ACCESS_ADMIN, do_create, result_create},
    {"destroy", ACCESS_ADMIN, do_destroy, result_destroy},
    {"size", ACCESS_ANYONE, do_size, result_size},
    {"ping", ACCESS_ANYONE, do_ping, NULL},
    {"info", ACCESS_ANYONE, do_info, NULL},
    {"rpc.discover", ACCESS_ANYONE, do_discover, NULL},
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

static bool
request_allowed(const struct dispatch *dispatch, const struct conn *conn,
    const struct dispatch_row *row, const char *name, struct message_error *ret_error)
{
	const struct access_rules *rules = dispatch->config->access;
	char why[ACCESS_WHY_MAX];

	if (access_allowed(rules, &conn->subject, row->method, row->privilege, name))
		return true;
	access_explain(why, rules, &conn->subject, row->method, row->privilege, name);
	journal_denied(dispatch->journal, conn, row->method, name, why);
	message_error_set(ret_error, REASON_PERMISSION_DENIED,
	    "%s%s%.80s is not allowed to uid %u: %s", row->method, name == NULL ? "" : " of ",
	    name == NULL ? "" : name, (unsigned)conn->subject.uid, why);
	return false;
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

static void
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

	if (requests_find_id(conn->requests, &message->id) != NULL) {
		/* With that id it would pass for the answer to the first. */
		message_error_set(&error, REASON_INVALID_REQUEST,
		    "a request with the same id is not answered yet");
		send_error(conn, &nobody, &error, NULL);
		return;
	}
	if (spec == NULL || row == NULL) {
		message_error_set(&error, REASON_METHOD_NOT_FOUND, "there is no method '%s'",
		    message_escape(quoted, sizeof(quoted), message->method));
		send_error(conn, &message->id, &error, NULL);
		return;
	}
	if (!method_params_parse(spec, message->params, &params, &error) ||
	    !name_allowed(dispatch, params.name, &error) ||
	    !request_allowed(dispatch, conn, row, params.name, &error)) {
		send_error(conn, &message->id, &error, NULL);
		return;
	}
	request = requests_add(conn->requests, &message->id, row, spec->waits);
	assert(request != NULL);
	row->handle(dispatch, conn, request, &params);
}

static void
on_line(void *ctx, struct conn *conn, const char *line, size_t len)
{
	struct message_request message;
	struct message_error error;

	if (!message_parse_request(line, len, &message, &error)) {
		send_error(conn, &message.id, &error, NULL);
		return;
	}
	dispatch_request(ctx, conn, &message);
	message_request_done(&message);
}

static void
on_gone(void *ctx, struct conn *conn)
{
	struct dispatch *dispatch = ctx;

	/* The engine ends these unanswered. */
	requests_remove_all(conn->requests, row_find("acquire"));
	journal_gone(dispatch->journal, conn->id);
	lock_peer_gone(dispatch->engine, conn->id);
}

/* ---- answers and notices out: called from inside the engine, which nothing here may call ---- */

static struct result_facts
facts(const struct dispatch *dispatch)
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
journal_answer(struct dispatch *dispatch, const struct conn *conn, const struct dispatch_row *row,
    const struct lock_answer *answer)
{
	if (row->handle == do_acquire && answer->reason == REASON_NONE)
		journal_granted(dispatch->journal, conn, answer);
	else if (row->handle == do_acquire)
		journal_refused(dispatch->journal, conn, answer);
	else if (row->handle == do_release && answer->reason == REASON_NONE)
		journal_released(dispatch->journal, answer->lock);
	else if (row->privilege == ACCESS_ADMIN)
		journal_changed(dispatch->journal, conn, row->method, answer);
}

static void
on_answer(void *ctx, uint64_t peer, uint64_t number, const struct lock_answer *answer)
{
	struct dispatch *dispatch = ctx;
	struct conn *conn = peers_find(dispatch->peers, peer);
	const struct request *request;
	struct result_facts known;
	struct message_error error;
	struct cJSON *content;

	if (conn == NULL || (request = requests_find(conn->requests, number)) == NULL)
		return;
	journal_answer(dispatch, conn, request->row, answer);
	if (answer->reason == REASON_NONE) {
		known = facts(dispatch);
		reply(conn, request, request->row->result(&known, answer));
		return;
	}
	content = result_error(answer, &error);
	refuse(conn, request, &error, content);
}

static void
on_notice(void *ctx, uint64_t peer, const struct lock_notice *notice)
{
	struct dispatch *dispatch = ctx;
	struct conn *conn = peers_find(dispatch->peers, peer);
	const struct request *request = NULL;
	struct result_facts known = facts(dispatch);
	struct cJSON *params = NULL;
	const char *method;

	journal_notice(dispatch->journal, notice);
	if (conn == NULL)
		return;
	if (notice->kind == LOCK_NOTICE_WAITING) {
		request = requests_find(conn->requests, notice->request);
		if (request == NULL)
			return;
	}
	method = result_notice(&known, notice, request == NULL ? NULL : &request->id, &params);
	if (notice->kind == LOCK_NOTICE_LEASE)
		conn_send_newest(conn, message_notification_line(method, params));
	else if (method != NULL)
		conn_send(conn, message_notification_line(method, params));
}

static void
send_draining(void *ctx, struct conn *conn)
{
	const int64_t *grace = ctx;
	struct cJSON *params = json_new_object();

	json_add_number(params, "grace", duration_to_seconds(*grace));
	conn_send(conn, message_notification_line("draining", params));
}

void
dispatch_drain(struct dispatch *dispatch, int64_t grace)
{
	dispatch->draining = true;
	peers_each(dispatch->peers, send_draining, &grace);
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
	return (struct peers_handler){.line = on_line, .gone = on_gone, .ctx = dispatch};
}

struct lock_listener
dispatch_lock_listener(struct dispatch *dispatch)
{
	return (struct lock_listener){.answer = on_answer, .notice = on_notice, .ctx = dispatch};
}

void
dispatch_wire(struct dispatch *dispatch, struct peers *peers, struct lock_engine *engine,
    const struct broker *broker)
{
	dispatch->peers = peers;
	dispatch->engine = engine;
	dispatch->broker = broker;
}

void
dispatch_set_config(struct dispatch *dispatch, const struct config *config)
{
	dispatch->config = config;
}
