#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/broker/broker.h"
#include "daemon/view/internal.h"
#include "daemon/view/wire_id.h"
#include "protocol/json.h"

/*
 * Grants and denies waiters. A waiter of this daemon is granted or denied at once. For a waiter of
 * another daemon there are two steps. This daemon checks the privilege, which depends on the name,
 * and only the other daemon knows the name.
 *
 *	FINDING		that daemon is asked for the name	-> forbidden: over
 *	ACTING		it is asked to grant or deny	-> its result is the answer
 *	ACTING_ALL	all are asked to deny all waiters of a name; numbers add up
 */
enum grant_deny_step { GRANT_DENY_FINDING, GRANT_DENY_ACTING, GRANT_DENY_ACTING_ALL };

struct grant_deny {
	struct view_request request;
	enum grant_deny_step step;
	enum daemon_message_op op; /* GRANT or DENY */
	uint32_t run;
	uint64_t waiter;
	uid_t uid;
	char *name; /* owned; NULL while FINDING */
	char *host; /* owned; where it waits; NULL while FINDING */
	size_t denied;
};

static void
grant_deny_free(struct view *view, struct view_request *request)
{
	struct grant_deny *work = (struct grant_deny *)request;

	view_request_end(view, request);
	free(work->name);
	free(work->host);
	free(work);
}

/* ---- answers ---- */

static struct cJSON *
granted(uint32_t run, uint64_t waiter, const char *name, const char *host)
{
	struct cJSON *result = json_new_object();
	char id[WIRE_ID_SIZE];

	json_add_string(result, "waiter", wire_id_write(id, run, waiter));
	json_add_string(result, "name", name);
	json_add_string(result, "host", host);
	return result;
}

/* Takes missing; NULL: nobody is. */
static struct cJSON *
denied(size_t count, struct cJSON *missing)
{
	struct cJSON *result = json_new_object();

	json_add_integer(result, "denied", (int64_t)count);
	json_add(result, "silent_hosts", missing == NULL ? json_new_array() : missing);
	return result;
}

static const char *
words_of(enum reason reason)
{
	if (reason == REASON_NOT_HELD)
		return "no waiter has that id";
	if (reason == REASON_PERMISSION_DENIED)
		return "the broker does not vouch for this daemon's user, so other daemons do not "
		       "obey it";
	return reason == REASON_TOO_MANY_LOCKS ? "its connection holds as many locks as it may hold"
					       : NULL;
}

static void
refuse(struct view *view, struct grant_deny *work, enum reason reason, const char *text)
{
	view_refuse(view, work->request.peer, work->request.number, reason, text);
	grant_deny_free(view, &work->request);
}

static void
done(struct view *view, struct grant_deny *work, struct cJSON *result)
{
	view_done(view, work->request.peer, work->request.number, result);
	grant_deny_free(view, &work->request);
}

/* ---- asking ---- */

static void heard(void *ctx, uint64_t id, const struct daemon_message *answer);
static void over(void *ctx, uint64_t id);

static void
ask(struct view *view, struct grant_deny *work, enum daemon_message_op op)
{
	struct cJSON *message = queries_message(view->queries, op, false);
	const struct queries_done done = {.everybody = work->step == GRANT_DENY_ACTING_ALL,
	    .heard = heard,
	    .over = over,
	    .ctx = view,
	    .id = work->request.id};
	char id[WIRE_ID_SIZE];

	if (work->step == GRANT_DENY_ACTING_ALL)
		json_add_string(message, "name", work->name);
	else
		json_add_string(message, "waiter", wire_id_write(id, work->run, work->waiter));
	json_add_integer(message, "uid", work->uid);
	work->request.query = queries_ask(view->queries, work->uid, op, message, done);
}

static const char cannot_ask[] = "the other daemons cannot be asked now";

static void
found(struct view *view, struct grant_deny *work, const struct daemon_message *answer)
{
	queries_end(view->queries, work->request.query);
	work->request.query = 0;
	if (answer->reason != REASON_NONE || answer->name == NULL) {
		refuse(view, work, REASON_NOT_HELD, words_of(REASON_NOT_HELD));
		return;
	}
	if (!FAULT_ELSE(GRANTED_BY_ANYBODY, true,
		view->events.may(
		    view->events.ctx, work->request.peer, work->request.number, answer->name))) {
		grant_deny_free(view, &work->request);
		return;
	}
	work->step = GRANT_DENY_ACTING;
	work->name = mem_strdup(answer->name);
	work->host = mem_strdup(answer->host);
	ask(view, work, work->op);
	if (work->request.query == 0)
		refuse(view, work, REASON_BROKER_UNAVAILABLE, cannot_ask);
}

static void
acted(struct view *view, struct grant_deny *work, const struct daemon_message *answer)
{
	if (answer->reason != REASON_NONE) {
		refuse(view, work, answer->reason, words_of(answer->reason));
		return;
	}
	done(view, work,
	    work->op == DAEMON_MESSAGE_GRANT
		? granted(work->run, work->waiter, work->name, work->host)
		: denied(1, NULL));
}

static void
all_acted(struct view *view, struct grant_deny *work)
{
	done(view, work, denied(work->denied, queries_missing(view->queries, work->request.query)));
}

static void
heard(void *ctx, uint64_t id, const struct daemon_message *answer)
{
	struct view *view = ctx;
	struct grant_deny *work = view_request_find(view, id);

	if (work->step == GRANT_DENY_ACTING_ALL) {
		work->denied += answer->count;
		if (queries_is_whole(view->queries, work->request.query))
			all_acted(view, work);
	} else if (answer->run == work->run) {
		if (work->step == GRANT_DENY_FINDING)
			found(view, work, answer);
		else
			acted(view, work, answer);
	}
}

static void
over(void *ctx, uint64_t id)
{
	struct view *view = ctx;
	struct grant_deny *work = view_request_find(view, id);

	switch (work->step) {
	case GRANT_DENY_FINDING:
		if (!broker_takes_messages(view->broker))
			refuse(view, work, REASON_BROKER_UNAVAILABLE, cannot_ask);
		else if (queries_knows(view->queries, work->run))
			refuse(view, work, REASON_TIMEOUT,
			    "the daemon of this waiter did not answer: no change was made");
		else
			refuse(view, work, REASON_NOT_HELD, words_of(REASON_NOT_HELD));
		break;
	case GRANT_DENY_ACTING:
		refuse(view, work, REASON_TIMEOUT,
		    "the daemon of this waiter did not answer: the change may have been made");
		break;
	case GRANT_DENY_ACTING_ALL:
		all_acted(view, work);
		break;
	}
}

/* ---- the beginning ---- */

static struct grant_deny *
grant_deny_new(
    struct view *view, uint64_t peer, uint64_t request, enum daemon_message_op op, uid_t uid)
{
	struct grant_deny *work = mem_alloc(sizeof(*work));

	work->request.free = grant_deny_free;
	view_request_begin(view, &work->request, peer, request);
	work->op = op;
	work->uid = uid;
	return work;
}

/* For a waiter of this daemon. */
static void
grant_deny_here(struct view *view, uint64_t peer, uint64_t request, enum daemon_message_op op,
    uint64_t waiter, uid_t uid)
{
	const char *host = view->host;
	const char *waited_for = lock_waits_for(view->engine, waiter);
	char name[LOCKNAME_MAX + 1];
	enum reason reason;

	if (waited_for == NULL) {
		view_refuse(view, peer, request, REASON_NOT_HELD, words_of(REASON_NOT_HELD));
		return;
	}
	snprintf(name, sizeof(name), "%s", waited_for);
	if (!view->events.may(view->events.ctx, peer, request, name))
		return;
	reason = responder_act(view, op, waiter, uid, host);
	if (reason != REASON_NONE)
		view_refuse(view, peer, request, reason, words_of(reason));
	else
		view_done(view, peer, request,
		    op == DAEMON_MESSAGE_GRANT ? granted(view->run, waiter, name, host)
					       : denied(1, NULL));
}

static void
grant_or_deny(struct view *view, uint64_t peer, uint64_t request, enum daemon_message_op op,
    const char *id, uid_t uid)
{
	struct grant_deny *work;
	uint64_t waiter;
	uint32_t run;

	if (!wire_id_parse(id, &run, &waiter) || waiter == 0) {
		view_refuse(view, peer, request, REASON_NOT_HELD, words_of(REASON_NOT_HELD));
		return;
	}
	if (run == view->run) {
		grant_deny_here(view, peer, request, op, waiter, uid);
		return;
	}
	work = grant_deny_new(view, peer, request, op, uid);
	work->run = run;
	work->waiter = waiter;
	ask(view, work, DAEMON_MESSAGE_FIND);
	if (work->request.query == 0)
		refuse(view, work, REASON_BROKER_UNAVAILABLE, cannot_ask);
}

void
view_grant(struct view *view, uint64_t peer, uint64_t request, const char *waiter, uid_t uid)
{
	grant_or_deny(view, peer, request, DAEMON_MESSAGE_GRANT, waiter, uid);
}

void
view_deny(struct view *view, uint64_t peer, uint64_t request, const char *waiter, uid_t uid)
{
	grant_or_deny(view, peer, request, DAEMON_MESSAGE_DENY, waiter, uid);
}

void
view_deny_all(struct view *view, uint64_t peer, uint64_t request, const char *name, uid_t uid)
{
	struct grant_deny *work = grant_deny_new(view, peer, request, DAEMON_MESSAGE_DENY, uid);

	work->step = GRANT_DENY_ACTING_ALL;
	work->name = mem_strdup(name);
	work->denied = responder_deny_all(view, name, uid, view->host);
	ask(view, work, DAEMON_MESSAGE_DENY);
	if (queries_is_whole(view->queries, work->request.query))
		all_acted(view, work);
}
