#include "daemon/peer/handlers.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "daemon/view/wire.h"

_Static_assert(METHODS_UNLIMITED == LOCK_UNLIMITED, "the wire's number is the engine's");

/* Has room for what hindrance() says. */
#define WORDS_MAX 512
_Static_assert(LOCK_LACKING_MAX <= WORDS_MAX, "the engine's words fit");

void
handlers_reply(const struct call *call, struct cJSON *result)
{
	conn_send(call->conn, message_result_line(&call->request->id, result));
	requests_remove(call->conn->requests, call->request->number);
}

void
handlers_refuse(const struct call *call, const struct message_error *error, struct cJSON *data)
{
	conn_send(call->conn, message_error_line(&call->request->id, error, data));
	requests_remove(call->conn->requests, call->request->number);
}

struct result_facts
handlers_facts(const struct dispatch *dispatch)
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
read_lock(const struct call *call, uint64_t *ret_lock)
{
	struct message_error error;
	uint32_t run;

	if (wire_id_parse(call->params->lock, &run, ret_lock) && run == call->dispatch->past.run)
		return true;
	message_error_set(&error, REASON_NOT_HELD, "this lock is not held");
	handlers_refuse(call, &error, NULL);
	return false;
}

static void
handle_verify(const struct call *call)
{
	uint64_t lock;

	if (read_lock(call, &lock))
		lock_verify(call->dispatch->engine, call->conn->id, call->request->number, lock,
		    call->conn->subject.uid);
}

static void
handle_release(const struct call *call)
{
	struct lock_row row;
	uint64_t lock;

	if (!read_lock(call, &lock))
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
	const struct request *meant = requests_find_id(call->conn->requests, &call->params->id);
	struct cJSON *result = json_new_object();

	/* The request meant gets its own answer, `cancelled`. */
	json_add_bool(result, "cancelled",
	    meant != NULL && (lock_cancel(dispatch->engine, peer, meant->number) ||
				 view_cancel(dispatch->view, peer, meant->number)));
	handlers_reply(call, result);
}

/* ---- the lock administrator ---- */

/* The common members of all changes. Each method leaves the others at their defaults. */
static struct lock_change
change_of(const struct call *call)
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
	const struct lock_change change = change_of(call);

	lock_create(call->dispatch->engine, call->conn->id, call->request->number, &change);
}

static void
handle_destroy(const struct call *call)
{
	const struct lock_change change = change_of(call);

	lock_destroy(call->dispatch->engine, call->conn->id, call->request->number, &change);
}

static void
handle_resize(const struct call *call)
{
	const struct lock_change change = change_of(call);

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

bool
handlers_tells(const void *ctx, const char *name)
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
	struct result_facts facts = handlers_facts(call->dispatch);
	struct cJSON *list;
	size_t more;

	facts.tells = handlers_tells;
	facts.tells_ctx = call;
	list = result_list(&facts, answer, &more);
	view_count(call->dispatch->view, call->conn->id, call->request->number, answer, list, more);
}

/* ---- explain ---- */

/* The reason why the broker cannot serve an acquire now, with buf set; REASON_NONE: none. */
static enum reason
broker_hindrance(char buf[WORDS_MAX], const struct dispatch *dispatch)
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
probes_hindrance(char buf[WORDS_MAX], const struct dispatch *dispatch)
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
hindrance(char buf[WORDS_MAX], const struct call *call, const char *name)
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
	reason = broker_hindrance(buf, call->dispatch);
	if (reason == REASON_NONE && lock_lacking(call->dispatch->engine, subject->uid,
					 access_is_admin(rules, subject), buf) != NULL)
		reason = REASON_TOO_MANY_LOCKS;
	return reason;
}

static void
answer_explain(const struct call *call, const struct lock_answer *answer)
{
	struct result_facts facts = handlers_facts(call->dispatch);
	char words[WORDS_MAX];

	facts.hindered = hindrance(words, call, answer->name);
	/* An acquire then claims slots unseen, and may succeed; but nothing can be said of them. */
	if (facts.hindered == REASON_NONE && answer->explanation != NULL &&
	    answer->explanation->verdict == LOCK_VERDICT_UNKNOWN &&
	    probes_hindrance(words, call->dispatch))
		facts.hindered = REASON_BROKER_REFUSED;
	facts.hindrance = facts.hindered == REASON_NONE ? NULL : words;
	handlers_reply(call, result_explain(&facts, answer));
}

static void
handle_explain(const struct call *call)
{
	const char *name = call->params->name;
	const struct lock_answer unknown = {.name = name, .kind = call->params->kind};
	char words[WORDS_MAX];

	/* That the broker cannot be asked is the explanation, and no reason to give none. */
	if (broker_hindrance(words, call->dispatch) != REASON_NONE)
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
	handlers_reply(call, result);
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
	handlers_reply(call, result);
}

static void
handle_discover(const struct call *call)
{
	handlers_reply(call, json_new_text(openrpc_json));
}

/* ---- the table ---- */

static const struct dispatch_row rows[] = {
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
    {"metrics", ACCESS_ANYONE, handle_metrics, NULL, .lock_log = LOCK_LOG_READ},
    {"ping", ACCESS_ANYONE, handle_ping, NULL, .lock_log = LOCK_LOG_NOTHING},
    {"info", ACCESS_ANYONE, handle_info, NULL, .lock_log = LOCK_LOG_NOTHING},
    {"rpc.discover", ACCESS_ANYONE, handle_discover, NULL, .lock_log = LOCK_LOG_NOTHING},
};

const struct dispatch_row *
handlers_find(const char *method)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (strcmp(rows[i].method, method) == 0)
			return &rows[i];
	}
	return NULL;
}
