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
 *	An answer in parts: each part is sent when the next thing does not fit.
 *	Rows: another daemon asks for rows. A job writes them.
 *	Counts: another daemon asks how many wait, hold mutexes, or are beyond the slots.
 *	Acting: respond_act() grants, denies or evicts here, for any host. responder_asked() leads from each
 *	   question to its answer.
 *	Grant, deny and evict: a client does that, wherever the waiter or the holder is.
 *	Answers: results, and the words of refusals.
 *	Asking: the daemon of the waiter is asked for the name, then to act.
 *	The beginning: view_grant(), view_deny(), view_deny_all() and view_evict().
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

/* A request of an administrator. Texts are borrowed. */
struct deed {
	enum daemon_message_op op; /* GRANT, DENY or EVICT */
	uid_t uid;                 /* of the administrator, on that host */
	const char *host;
	int64_t grace;   /* EVICT: ns until the deadline */
	const char *why; /* EVICT; NULL: no reason given */
};

/*
 * Grants and denies waiters, and evicts holders. One of this daemon is served at once. For one of
 * another daemon there are two steps. This daemon checks the privilege, which depends on the name,
 * and only the other daemon knows the name.
 *
 *	FINDING		that daemon is asked for the name	-> forbidden: over
 *	ACTING		it is asked to act		-> its result is the answer
 *	ACTING_ALL	all are asked to act on all of a name; numbers add up
 */
enum act_step { ACT_FINDING, ACT_ACTING, ACT_ACTING_ALL };

struct act {
	struct view_request request;
	enum act_step step;
	struct deed deed;
	uint32_t run;
	uint64_t waiter; /* the number of its row; 0: all */
	char *name;      /* owned; NULL while FINDING */
	char *host;      /* owned; where it waits or holds; NULL while FINDING */
	char *why;       /* owned: the text of the deed */
	size_t count;    /* ACTING_ALL: so many were denied or evicted */
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

/* ---- counts ---- */

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

/* The name that this waiter waits for, or that this holder holds. NULL: there is none here. */
static const char *
act_name(const struct view *view, enum daemon_message_op op, uint64_t waiter)
{
	return op == DAEMON_MESSAGE_EVICT || op == DAEMON_MESSAGE_HOLDER
		   ? lock_holds(view->engine, waiter)
		   : lock_waits_for(view->engine, waiter);
}

static struct lock_eviction
act_eviction(const struct view *view, const struct deed *deed)
{
	return (struct lock_eviction){.deadline = view_now(view) + deed->grace,
	    .uid = deed->uid,
	    .host = deed->host,
	    .why = deed->why};
}

/* Acts on one row of this daemon. */
static enum reason
act_on(struct view *view, const struct deed *deed, uint64_t waiter)
{
	const struct lock_eviction eviction = act_eviction(view, deed);
	const char *here = act_name(view, deed->op, waiter);
	char name[LOCKNAME_MAX + 1], id[WIRE_ID_SIZE];
	struct log_event event = {
	    .kind = deed->op == DAEMON_MESSAGE_GRANT ? LOG_GRANTED : LOG_DENIED, .name = name};
	enum reason reason;

	if (here == NULL)
		return REASON_NOT_HELD;
	if (deed->op == DAEMON_MESSAGE_EVICT)
		return lock_evict(view->engine, waiter, &eviction); /* its notice is logged */
	snprintf(name, sizeof(name), "%s", here);
	reason = deed->op == DAEMON_MESSAGE_GRANT ? lock_admit(view->engine, waiter)
						  : lock_deny(view->engine, waiter);
	if (reason == REASON_NONE)
		log_event_at(LOG_LEVEL_INFO, &event,
		    "%s by an administrator: waiter %s, by uid %u of host %s", name,
		    wire_id_write(id, view->run, waiter), (unsigned)deed->uid, deed->host);
	return reason;
}

static size_t
act_on_all(struct view *view, const struct deed *deed, const char *name)
{
	const struct lock_eviction eviction = act_eviction(view, deed);
	const struct log_event event = {.kind = LOG_DENIED, .name = name};
	size_t denied;

	if (deed->op == DAEMON_MESSAGE_EVICT)
		return lock_evict_all(view->engine, name, &eviction);
	denied = lock_deny_all(view->engine, name);
	if (denied > 0)
		log_event_at(LOG_LEVEL_INFO, &event,
		    "%s by an administrator: all %zu waiters, by uid %u of host %s", name, denied,
		    (unsigned)deed->uid, deed->host);
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
	const struct deed deed = {.op = message->op,
	    .uid = message->uid,
	    .host = message->host,
	    .grace = (int64_t)message->grace * NSEC_PER_MSEC,
	    .why = message->why};
	enum reason reason = REASON_PERMISSION_DENIED;
	struct cJSON *answer;

	FAULT(UNVOUCHED_IS_OBEYED, user = "somebody");
	if (*user == '\0') {
		queries_pass_over(view->queries, user,
		    "it grants, denies or evicts, but has no user that the broker checked");
	} else if (message->waiter != 0) {
		reason = act_on(view, &deed, message->waiter);
	} else {
		answer = queries_message(view->queries, message->op, true);
		json_add_integer(answer, "count", (int64_t)act_on_all(view, &deed, message->name));
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
	case DAEMON_MESSAGE_HOLDER:
	case DAEMON_MESSAGE_GRANT:
	case DAEMON_MESSAGE_DENY:
	case DAEMON_MESSAGE_EVICT:
		/* It is for the one daemon that would have such a row. */
		if (message->waiter != 0 &&
		    FAULT_ELSE(OTHERS_WAITER_IS_MEANT, false, message->waiter_run != view->run))
			break;
		if (message->op != DAEMON_MESSAGE_FIND && message->op != DAEMON_MESSAGE_HOLDER) {
			respond_act(view, from, message, user);
			break;
		}
		name = act_name(view, message->op, message->waiter);
		respond_outcome(
		    view, from, message->op, name == NULL ? REASON_NOT_HELD : REASON_NONE, name);
		break;
	}
}

/* ---- grant, deny and evict ---- */

static void
act_free(struct view *view, struct view_request *request)
{
	struct act *work = (struct act *)request;

	view_request_end(view, request);
	free(work->name);
	free(work->host);
	free(work->why);
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
act_result(enum daemon_message_op op, size_t count, struct cJSON *missing)
{
	struct cJSON *result = json_new_object();

	json_add_integer(result, op == DAEMON_MESSAGE_EVICT ? "evicted" : "denied", (int64_t)count);
	json_add(result, "silent_hosts", missing == NULL ? json_new_array() : json_copy(missing));
	return result;
}

static const char *
act_words(enum daemon_message_op op, enum reason reason)
{
	if (reason == REASON_NOT_HELD)
		return op == DAEMON_MESSAGE_EVICT ? "no holder has that id"
						  : "no waiter has that id";
	if (reason == REASON_PERMISSION_DENIED)
		return "the broker does not vouch for this daemon's user, so other daemons do not "
		       "obey it";
	return reason == REASON_TOO_MANY_LOCKS ? "its connection holds as many locks as it may hold"
					       : NULL;
}

static void
act_refuse(struct view *view, struct act *work, enum reason reason, const char *text)
{
	view_refuse(view, work->request.peer, work->request.number, reason, text);
	act_free(view, &work->request);
}

static void
act_done(struct view *view, struct act *work, struct cJSON *result)
{
	view_done(view, work->request.peer, work->request.number, result);
	act_free(view, &work->request);
}

/* ---- asking ---- */

static void
act_ask(struct view *view, struct act *work, enum daemon_message_op op)
{
	struct cJSON *message = queries_message(view->queries, op, false);
	bool all = work->step == ACT_ACTING_ALL;
	char id[WIRE_ID_SIZE];

	if (all)
		json_add_string(message, "name", work->name);
	else
		json_add_string(message, "waiter", wire_id_write(id, work->run, work->waiter));
	json_add_integer(message, "uid", work->deed.uid);
	if (op == DAEMON_MESSAGE_EVICT) {
		json_add_integer(message, "grace", work->deed.grace / NSEC_PER_MSEC);
		json_add_string(message, "why", work->deed.why);
	}
	view_ask_begin(view, &work->request.ask, op, message, all);
	view_ask_check(view, &work->request.ask);
}

static void
act_found(struct view *view, struct act *work, const struct daemon_message *answer)
{
	view_ask_end(view, &work->request.ask);
	if (answer->reason != REASON_NONE || answer->name == NULL) {
		act_refuse(view, work, REASON_NOT_HELD, act_words(work->deed.op, REASON_NOT_HELD));
		return;
	}
	if (!FAULT_ELSE(GRANTED_BY_ANYBODY, true,
		view->events.may(
		    view->events.ctx, work->request.peer, work->request.number, answer->name))) {
		act_free(view, &work->request);
		return;
	}
	work->step = ACT_ACTING;
	work->name = mem_strdup(answer->name);
	work->host = mem_strdup(answer->host);
	act_ask(view, work, work->deed.op);
}

static void
act_acted(struct view *view, struct act *work, const struct daemon_message *answer)
{
	if (answer->reason != REASON_NONE) {
		act_refuse(view, work, answer->reason, act_words(work->deed.op, answer->reason));
		return;
	}
	act_done(view, work,
	    work->deed.op == DAEMON_MESSAGE_GRANT
		? grant_result(work->run, work->waiter, work->name, work->host)
		: act_result(work->deed.op, 1, NULL));
}

static void
act_heard(struct view *view, struct view_ask *ask, const struct daemon_message *answer)
{
	struct act *work = (struct act *)ask;

	if (work->step == ACT_ACTING_ALL) {
		work->count += answer->count;
	} else if (answer->run == work->run) {
		if (work->step == ACT_FINDING)
			act_found(view, work, answer);
		else
			act_acted(view, work, answer);
	}
}

static void
act_over(struct view *view, struct view_ask *ask)
{
	static const char cannot_ask[] = "the other daemons cannot be asked now";
	struct act *work = (struct act *)ask;

	if (!ask->is_sent && work->step != ACT_ACTING_ALL) {
		act_refuse(view, work, REASON_BROKER_UNAVAILABLE, cannot_ask);
		return;
	}
	switch (work->step) {
	case ACT_FINDING:
		if (!broker_takes_messages(view->broker))
			act_refuse(view, work, REASON_BROKER_UNAVAILABLE, cannot_ask);
		else if (queries_knows(view->queries, work->run))
			act_refuse(view, work, REASON_TIMEOUT,
			    work->deed.op == DAEMON_MESSAGE_EVICT
				? "the daemon of this holder did not answer: it is silent, or "
				  "older than 0.2.0; nothing was freed"
				: "the daemon of this waiter did not answer: no change was made");
		else
			act_refuse(
			    view, work, REASON_NOT_HELD, act_words(work->deed.op, REASON_NOT_HELD));
		break;
	case ACT_ACTING:
		act_refuse(view, work, REASON_TIMEOUT,
		    work->deed.op == DAEMON_MESSAGE_EVICT
			? "the daemon of this holder did not answer: it may have been evicted"
			: "the daemon of this waiter did not answer: the change may have been "
			  "made");
		break;
	case ACT_ACTING_ALL:
		act_done(view, work, act_result(work->deed.op, work->count, ask->missing));
		break;
	}
}

/* ---- the beginning ---- */

static struct act *
act_new(struct view *view, uint64_t peer, uint64_t request, const struct deed *deed)
{
	struct act *work = mem_alloc(sizeof(*work));

	work->request.free = act_free;
	work->request.ask.heard = act_heard;
	work->request.ask.over = act_over;
	view_request_begin(view, &work->request, peer, request);
	work->deed = *deed;
	work->why = deed->why == NULL ? NULL : mem_strdup(deed->why);
	work->deed.why = work->why;
	return work;
}

/* For a row of this daemon. */
static void
act_here(
    struct view *view, uint64_t peer, uint64_t request, const struct deed *deed, uint64_t waiter)
{
	const char *here = act_name(view, deed->op, waiter);
	char name[LOCKNAME_MAX + 1];
	enum reason reason = REASON_NOT_HELD;

	if (here != NULL) {
		snprintf(name, sizeof(name), "%s", here);
		if (!view->events.may(view->events.ctx, peer, request, name))
			return;
		reason = act_on(view, deed, waiter);
	}
	if (reason != REASON_NONE)
		view_refuse(view, peer, request, reason, act_words(deed->op, reason));
	else
		view_done(view, peer, request,
		    deed->op == DAEMON_MESSAGE_GRANT
			? grant_result(view->run, waiter, name, view->host)
			: act_result(deed->op, 1, NULL));
}

static void
act_begin(
    struct view *view, uint64_t peer, uint64_t request, const struct deed *deed, const char *id)
{
	struct act *work;
	uint64_t waiter;
	uint32_t run;

	if (!wire_id_parse(id, &run, &waiter) || waiter == 0) {
		view_refuse(
		    view, peer, request, REASON_NOT_HELD, act_words(deed->op, REASON_NOT_HELD));
		return;
	}
	if (run == view->run) {
		act_here(view, peer, request, deed, waiter);
		return;
	}
	work = act_new(view, peer, request, deed);
	work->run = run;
	work->waiter = waiter;
	act_ask(view, work,
	    deed->op == DAEMON_MESSAGE_EVICT ? DAEMON_MESSAGE_HOLDER : DAEMON_MESSAGE_FIND);
}

static void
act_begin_all(
    struct view *view, uint64_t peer, uint64_t request, const struct deed *deed, const char *name)
{
	struct act *work = act_new(view, peer, request, deed);

	work->step = ACT_ACTING_ALL;
	work->name = mem_strdup(name);
	work->count = act_on_all(view, deed, name);
	act_ask(view, work, deed->op);
}

static struct deed
deed_of(const struct view *view, enum daemon_message_op op, uid_t uid)
{
	return (struct deed){.op = op, .uid = uid, .host = view->host};
}

void
view_grant(struct view *view, uint64_t peer, uint64_t request, const char *waiter, uid_t uid)
{
	const struct deed deed = deed_of(view, DAEMON_MESSAGE_GRANT, uid);

	act_begin(view, peer, request, &deed, waiter);
}

void
view_deny(struct view *view, uint64_t peer, uint64_t request, const char *waiter, uid_t uid)
{
	const struct deed deed = deed_of(view, DAEMON_MESSAGE_DENY, uid);

	act_begin(view, peer, request, &deed, waiter);
}

void
view_deny_all(struct view *view, uint64_t peer, uint64_t request, const char *name, uid_t uid)
{
	const struct deed deed = deed_of(view, DAEMON_MESSAGE_DENY, uid);

	act_begin_all(view, peer, request, &deed, name);
}

void
view_evict(struct view *view, uint64_t peer, uint64_t request, const struct view_eviction *eviction)
{
	struct deed deed = deed_of(view, DAEMON_MESSAGE_EVICT, eviction->uid);

	deed.grace = eviction->grace;
	deed.why = eviction->why;
	if (eviction->holder == NULL)
		act_begin_all(view, peer, request, &deed, eviction->name);
	else
		act_begin(view, peer, request, &deed, eviction->holder);
}
