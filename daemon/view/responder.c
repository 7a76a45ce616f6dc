#include "daemon/view/responder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/broker/broker.h"
#include "daemon/view/queries.h"
#include "daemon/view/row.h"
#include "daemon/view/wire.h"
#include "protocol/json.h"

/*
 * Contents:
 *	an answer in parts	each part is sent when the next thing does not fit
 *	rows			another daemon asks for rows; a job writes them
 *	counts			another daemon asks how many wait, hold mutexes, or are beyond the slots
 *	acting			responder_act: grants or denies a waiter of this daemon, for any host
 *				responder_asked: from each question to its answer
 *	grant and deny		a client grants or denies a waiter, wherever it waits
 *				results, and the words of refusals
 *				asking: the daemon of the waiter is asked for the name, then to act
 *				view_grant, view_deny, view_deny_all: how the request begins
 */

/*
 * Bytes of rows, or of names, in one message. With one more row of the longest kind, the slots in a
 * hand-off and the head, a message stays below BROKER_MESSAGE_MAX.
 */
#define PART_MAX 40000
/* Slots in a hand-off in one answer. */
#define SLOTS_MAX 1000

/* Questions for rows that are not answered yet. */
#define ASKED_MAX 256

/* An answer in parts: each is sent when the next thing does not fit into it any more. */
struct answer {
	struct view *view;
	uint64_t from;
	enum daemon_message_op op;
	struct cJSON *list, *slots;    /* of the part in hand; owned, as the next one */
	struct cJSON *mutexes, *extra; /* NULL: the answer has none */
	size_t size, slot_count;
	unsigned parts; /* sent */
	uint64_t waiting, more;
};

/* A question for rows: they are written as a job, for there may be many. */
struct asked {
	struct answer answer;
	char *name; /* owned; NULL: all */
	struct view_job job;
	struct walk walk;
	TAILQ_ENTRY(asked) next;
};

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

/* ---- an answer in parts ---- */

static struct cJSON *
answer_new_part(struct answer *answer, const char *list)
{
	struct cJSON *message = queries_message(answer->view->queries, answer->op, true);

	json_add(message, list, answer->list);
	answer->list = json_new_array();
	if (answer->mutexes != NULL) {
		json_add(message, "mutexes", answer->mutexes);
		json_add(message, "extra", answer->extra);
		answer->mutexes = json_new_array();
		answer->extra = json_new_array();
	}
	answer->size = 0;
	answer->parts++;
	return message;
}

/* False: there is no room in what an answer may be. */
static bool
answer_make_room(struct answer *answer, const char *list, size_t size)
{
	struct cJSON *message;

	if (answer->size + size <= PART_MAX)
		return true;
	if (answer->parts + 1 >= QUERIES_PARTS_MAX)
		return false;
	message = answer_new_part(answer, list);
	json_add_bool(message, "last", false);
	queries_answer(answer->view->queries, answer->from, message);
	return true;
}

static void
answer_end(struct answer *answer, const char *list)
{
	struct cJSON *message = answer_new_part(answer, list);

	json_free(answer->list);
	json_free(answer->mutexes);
	json_free(answer->extra);
	json_add_integer(message, "waiting", (int64_t)answer->waiting);
	json_add_integer(message, "more", (int64_t)answer->more);
	if (answer->slots != NULL)
		json_add(message, "slots", answer->slots);
	queries_answer(answer->view->queries, answer->from, message);
}

/* ---- rows ---- */

static void
answer_add_row(struct answer *answer, const struct lock_row *source)
{
	struct cJSON *row;
	char *text;
	size_t size;

	answer->waiting += source->state == LOCK_ROW_WAITING;
	/*
	 * After the first that found no room: of ten thousand most would be written to be thrown
	 * away.
	 */
	if (answer->more > 0) {
		answer->more++;
		return;
	}
	row = view_row(answer->view, source);
	text = json_print(row);
	json_free(row);
	size = strlen(text) + 1;
	if (answer_make_room(answer, "rows", size)) {
		json_append(answer->list, json_new_text(text));
		answer->size += size;
	} else {
		answer->more++;
	}
	free(text);
}

static void
answer_add_slot(void *ctx, int slot)
{
	struct answer *answer = ctx;

	if (answer->slot_count++ < SLOTS_MAX)
		json_append_integer(answer->slots, slot);
}

static void
asked_free(struct view *view, struct asked *asked)
{
	view_job_end(view, &asked->job);
	TAILQ_REMOVE(&view->asked, asked, next);
	view->asked_count--;
	walk_end(&asked->walk);
	json_free(asked->answer.list);
	free(asked->name);
	free(asked);
}

void
responder_free_all(struct view *view)
{
	struct asked *asked;

	while ((asked = TAILQ_FIRST(&view->asked)) != NULL)
		asked_free(view, asked);
}

static void
asked_write_rows(struct view *view, struct view_job *job, int64_t end)
{
	struct asked *asked = job->ctx;
	struct answer *answer = &asked->answer;
	struct lock_row source;

	if (asked->walk.rows == NULL)
		walk_begin(&asked->walk, view->engine, asked->name);
	while (walk_next(&asked->walk, view->engine, &source)) {
		answer_add_row(answer, &source);
		if (view_is_over(view, end))
			return;
	}
	if (asked->name != NULL) {
		answer->slots = json_new_array();
		lock_each_passing(view->engine, asked->name, answer_add_slot, answer);
	}
	answer_end(answer, "rows");
	answer->list = NULL;
	asked_free(view, asked);
}

static void
respond_rows(struct view *view, uint64_t from, const struct daemon_message *message)
{
	struct asked *asked;

	/* The daemon that asks gets no answer, and names this host as one that did not answer. */
	if (view->asked_count >= ASKED_MAX)
		return;
	asked = mem_alloc(sizeof(*asked));
	asked->name = message->name == NULL ? NULL : mem_strdup(message->name);
	asked->answer = (struct answer){
	    .view = view, .from = from, .op = DAEMON_MESSAGE_ROWS, .list = json_new_array()};
	asked->job = (struct view_job){.step = asked_write_rows, .ctx = asked};
	TAILQ_INSERT_TAIL(&view->asked, asked, next);
	view->asked_count++;
	view_job_begin(view, &asked->job, ROUND_ROBIN_DAEMONS);
}

/* ---- counts: waiters by name, mutexes, and holders beyond the slots ---- */

static struct cJSON *
answer_new_use(const char *name, const size_t *numbers, size_t count)
{
	struct cJSON *one = json_new_array();

	json_append_string(one, name);
	for (size_t i = 0; i < count; i++)
		json_append_integer(one, (int64_t)numbers[i]);
	return one;
}

static void
answer_add_use(void *ctx, const struct lock_use *use)
{
	struct answer *answer = ctx;
	size_t size = strlen(use->name) + 32;
	const size_t waits[] = {use->waiting, use->busy};
	const size_t beyond[] = {use->mutex, (size_t)use->slot, use->extra};

	if (!answer_make_room(answer, "counts", size)) {
		answer->more++;
		return;
	}
	if (use->extra > 0)
		json_append(answer->extra, answer_new_use(use->name, beyond, 3));
	else
		json_append(use->mutex ? answer->mutexes : answer->list,
		    answer_new_use(use->name, waits, use->mutex ? 2 : 1));
	answer->size += size;
}

static void
respond_counts(struct view *view, uint64_t from)
{
	struct answer answer = {.view = view,
	    .from = from,
	    .op = DAEMON_MESSAGE_WAITING,
	    .list = json_new_array(),
	    .mutexes = json_new_array(),
	    .extra = json_new_array()};

	lock_each_use(view->engine, answer_add_use, &answer);
	answer_end(&answer, "counts");
}

/* ---- acting ---- */

/* Grants or denies a waiter of this daemon, and logs it. `host` is the host of `uid`. */
static enum reason
responder_act(
    struct view *view, enum daemon_message_op op, uint64_t waiter, uid_t uid, const char *host)
{
	const char *waited_for = lock_waits_for(view->engine, waiter);
	char name[LOCKNAME_MAX + 1], id[WIRE_ID_SIZE];
	struct log_event event = {
	    .kind = op == DAEMON_MESSAGE_GRANT ? LOG_GRANTED : LOG_DENIED, .name = name};
	enum reason reason;

	if (waited_for == NULL)
		return REASON_NOT_HELD;
	snprintf(name, sizeof(name), "%s", waited_for);
	reason = op == DAEMON_MESSAGE_GRANT ? lock_admit(view->engine, waiter)
					    : lock_deny(view->engine, waiter);
	if (reason == REASON_NONE)
		log_event_at(LOG_LEVEL_INFO, &event,
		    "%s by an administrator: waiter %s, by uid %u of host %s", name,
		    wire_id_write(id, view->run, waiter), (unsigned)uid, host);
	return reason;
}

/* Denies all waiters of that name at this daemon. Returns their number. */
static size_t
responder_deny_all(struct view *view, const char *name, uid_t uid, const char *host)
{
	const struct log_event event = {.kind = LOG_DENIED, .name = name};
	size_t denied = lock_deny_all(view->engine, name);

	if (denied > 0)
		log_event_at(LOG_LEVEL_INFO, &event,
		    "%s by an administrator: all %zu waiters, by uid %u of host %s", name, denied,
		    (unsigned)uid, host);
	return denied;
}

/* An outcome that is a reason, and the name that it is about. */
static void
respond_outcome(struct view *view, uint64_t from, enum daemon_message_op op, enum reason reason,
    const char *name)
{
	struct cJSON *message = queries_message(view->queries, op, true);

	if (reason != REASON_NONE)
		json_add_string(message, "reason", reason_word(reason));
	if (name != NULL)
		json_add_string(message, "name", name);
	json_add_integer(message, "count", reason == REASON_NONE);
	queries_answer(view->queries, from, message);
}

/*
 * Every user who may write messages can write any uid and host into one. The broker must therefore
 * at least name its own user.
 */
static void
respond_act(
    struct view *view, uint64_t from, const struct daemon_message *message, const char *user)
{
	enum reason reason = REASON_PERMISSION_DENIED;
	struct cJSON *answer;
	size_t denied;

	FAULT(UNVOUCHED_IS_OBEYED, user = "somebody");
	if (*user == '\0') {
		queries_pass_over(view->queries, user,
		    "it grants or denies, but has no user that the broker checked");
	} else if (message->waiter != 0) {
		reason =
		    responder_act(view, message->op, message->waiter, message->uid, message->host);
	} else {
		denied = responder_deny_all(view, message->name, message->uid, message->host);
		answer = queries_message(view->queries, DAEMON_MESSAGE_DENY, true);
		json_add_integer(answer, "count", (int64_t)denied);
		queries_answer(view->queries, from, answer);
	}
	if (message->waiter != 0)
		respond_outcome(view, from, message->op, reason, NULL);
}

void
responder_asked(
    struct view *view, uint64_t from, const struct daemon_message *message, const char *user)
{
	const char *name;

	switch (message->op) {
	case DAEMON_MESSAGE_HELLO:
	case DAEMON_MESSAGE_BYE:
		break;
	case DAEMON_MESSAGE_ROWS:
		respond_rows(view, from, message);
		break;
	case DAEMON_MESSAGE_WAITING:
		respond_counts(view, from);
		break;
	case DAEMON_MESSAGE_FIND:
	case DAEMON_MESSAGE_GRANT:
	case DAEMON_MESSAGE_DENY:
		/* It is for the one daemon at which that waiter would wait. */
		if (message->waiter != 0 &&
		    FAULT_ELSE(OTHERS_WAITER_IS_MEANT, false, message->waiter_run != view->run))
			break;
		if (message->op != DAEMON_MESSAGE_FIND) {
			respond_act(view, from, message, user);
			break;
		}
		name = lock_waits_for(view->engine, message->waiter);
		respond_outcome(view, from, DAEMON_MESSAGE_FIND,
		    name == NULL ? REASON_NOT_HELD : REASON_NONE, name);
		break;
	}
}

/* ---- grant and deny ---- */

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
grant_result(uint32_t run, uint64_t waiter, const char *name, const char *host)
{
	struct cJSON *result = json_new_object();
	char id[WIRE_ID_SIZE];

	json_add_string(result, "waiter", wire_id_write(id, run, waiter));
	json_add_string(result, "name", name);
	json_add_string(result, "host", host);
	return result;
}

/* missing: silent hosts. NULL: nobody is. */
static struct cJSON *
deny_result(size_t count, struct cJSON *missing)
{
	struct cJSON *result = json_new_object();

	json_add_integer(result, "denied", (int64_t)count);
	json_add(result, "silent_hosts", missing == NULL ? json_new_array() : json_copy(missing));
	return result;
}

static const char *
grant_deny_words(enum reason reason)
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
grant_deny_refuse(struct view *view, struct grant_deny *work, enum reason reason, const char *text)
{
	view_refuse(view, work->request.peer, work->request.number, reason, text);
	grant_deny_free(view, &work->request);
}

static void
grant_deny_done(struct view *view, struct grant_deny *work, struct cJSON *result)
{
	view_done(view, work->request.peer, work->request.number, result);
	grant_deny_free(view, &work->request);
}

/* ---- asking ---- */

static void
grant_deny_ask(struct view *view, struct grant_deny *work, enum daemon_message_op op)
{
	struct cJSON *message = queries_message(view->queries, op, false);
	bool all = work->step == GRANT_DENY_ACTING_ALL;
	char id[WIRE_ID_SIZE];

	if (all)
		json_add_string(message, "name", work->name);
	else
		json_add_string(message, "waiter", wire_id_write(id, work->run, work->waiter));
	json_add_integer(message, "uid", work->uid);
	view_ask_begin(view, &work->request.ask, op, message, all);
	view_ask_check(view, &work->request.ask);
}

static void
grant_deny_found(struct view *view, struct grant_deny *work, const struct daemon_message *answer)
{
	view_ask_end(view, &work->request.ask);
	if (answer->reason != REASON_NONE || answer->name == NULL) {
		grant_deny_refuse(view, work, REASON_NOT_HELD, grant_deny_words(REASON_NOT_HELD));
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
	grant_deny_ask(view, work, work->op);
}

static void
grant_deny_acted(struct view *view, struct grant_deny *work, const struct daemon_message *answer)
{
	if (answer->reason != REASON_NONE) {
		grant_deny_refuse(view, work, answer->reason, grant_deny_words(answer->reason));
		return;
	}
	grant_deny_done(view, work,
	    work->op == DAEMON_MESSAGE_GRANT
		? grant_result(work->run, work->waiter, work->name, work->host)
		: deny_result(1, NULL));
}

static void
grant_deny_heard(struct view *view, struct view_ask *ask, const struct daemon_message *answer)
{
	struct grant_deny *work = (struct grant_deny *)ask;

	if (work->step == GRANT_DENY_ACTING_ALL) {
		work->denied += answer->count;
	} else if (answer->run == work->run) {
		if (work->step == GRANT_DENY_FINDING)
			grant_deny_found(view, work, answer);
		else
			grant_deny_acted(view, work, answer);
	}
}

static void
grant_deny_over(struct view *view, struct view_ask *ask)
{
	static const char cannot_ask[] = "the other daemons cannot be asked now";
	struct grant_deny *work = (struct grant_deny *)ask;

	if (!ask->is_sent && work->step != GRANT_DENY_ACTING_ALL) {
		grant_deny_refuse(view, work, REASON_BROKER_UNAVAILABLE, cannot_ask);
		return;
	}
	switch (work->step) {
	case GRANT_DENY_FINDING:
		if (!broker_takes_messages(view->broker))
			grant_deny_refuse(view, work, REASON_BROKER_UNAVAILABLE, cannot_ask);
		else if (queries_knows(view->queries, work->run))
			grant_deny_refuse(view, work, REASON_TIMEOUT,
			    "the daemon of this waiter did not answer: no change was made");
		else
			grant_deny_refuse(
			    view, work, REASON_NOT_HELD, grant_deny_words(REASON_NOT_HELD));
		break;
	case GRANT_DENY_ACTING:
		grant_deny_refuse(view, work, REASON_TIMEOUT,
		    "the daemon of this waiter did not answer: the change may have been made");
		break;
	case GRANT_DENY_ACTING_ALL:
		grant_deny_done(view, work, deny_result(work->denied, ask->missing));
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
	work->request.ask.heard = grant_deny_heard;
	work->request.ask.over = grant_deny_over;
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
		view_refuse(
		    view, peer, request, REASON_NOT_HELD, grant_deny_words(REASON_NOT_HELD));
		return;
	}
	snprintf(name, sizeof(name), "%s", waited_for);
	if (!view->events.may(view->events.ctx, peer, request, name))
		return;
	reason = responder_act(view, op, waiter, uid, host);
	if (reason != REASON_NONE)
		view_refuse(view, peer, request, reason, grant_deny_words(reason));
	else
		view_done(view, peer, request,
		    op == DAEMON_MESSAGE_GRANT ? grant_result(view->run, waiter, name, host)
					       : deny_result(1, NULL));
}

static void
grant_deny_begin(struct view *view, uint64_t peer, uint64_t request, enum daemon_message_op op,
    const char *id, uid_t uid)
{
	struct grant_deny *work;
	uint64_t waiter;
	uint32_t run;

	if (!wire_id_parse(id, &run, &waiter) || waiter == 0) {
		view_refuse(
		    view, peer, request, REASON_NOT_HELD, grant_deny_words(REASON_NOT_HELD));
		return;
	}
	if (run == view->run) {
		grant_deny_here(view, peer, request, op, waiter, uid);
		return;
	}
	work = grant_deny_new(view, peer, request, op, uid);
	work->run = run;
	work->waiter = waiter;
	grant_deny_ask(view, work, DAEMON_MESSAGE_FIND);
}

void
view_grant(struct view *view, uint64_t peer, uint64_t request, const char *waiter, uid_t uid)
{
	grant_deny_begin(view, peer, request, DAEMON_MESSAGE_GRANT, waiter, uid);
}

void
view_deny(struct view *view, uint64_t peer, uint64_t request, const char *waiter, uid_t uid)
{
	grant_deny_begin(view, peer, request, DAEMON_MESSAGE_DENY, waiter, uid);
}

void
view_deny_all(struct view *view, uint64_t peer, uint64_t request, const char *name, uid_t uid)
{
	struct grant_deny *work = grant_deny_new(view, peer, request, DAEMON_MESSAGE_DENY, uid);

	work->step = GRANT_DENY_ACTING_ALL;
	work->name = mem_strdup(name);
	work->denied = responder_deny_all(view, name, uid, view->host);
	grant_deny_ask(view, work, DAEMON_MESSAGE_DENY);
}
