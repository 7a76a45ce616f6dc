#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/view/internal.h"
#include "daemon/view/wire_id.h"
#include "protocol/json.h"

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
	struct job job;
	struct walk walk;
	TAILQ_ENTRY(asked) next;
};

static struct cJSON *
new_part(struct answer *answer, const char *list)
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
make_room(struct answer *answer, const char *list, size_t size)
{
	struct cJSON *message;

	if (answer->size + size <= PART_MAX)
		return true;
	if (answer->parts + 1 >= QUERIES_PARTS_MAX)
		return false;
	message = new_part(answer, list);
	json_add_bool(message, "last", false);
	queries_answer(answer->view->queries, answer->from, message);
	return true;
}

static void
end_answer(struct answer *answer, const char *list)
{
	struct cJSON *message = new_part(answer, list);

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
add_row(struct answer *answer, const struct lock_row *source)
{
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
	text = view_row(answer->view, source);
	size = strlen(text) + 1;
	if (make_room(answer, "rows", size)) {
		json_append(answer->list, json_new_text(text));
		answer->size += size;
	} else {
		answer->more++;
	}
	free(text);
}

static void
add_slot(void *ctx, int slot)
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
write_rows(struct view *view, struct job *job, int64_t end)
{
	struct asked *asked = job->ctx;
	struct answer *answer = &asked->answer;
	struct lock_row source;

	if (asked->walk.rows == NULL)
		walk_begin(&asked->walk, view->engine, asked->name);
	while (walk_next(&asked->walk, view->engine, &source)) {
		add_row(answer, &source);
		if (view_is_over(view, end))
			return;
	}
	if (asked->name != NULL) {
		answer->slots = json_new_array();
		lock_each_passing(view->engine, asked->name, add_slot, answer);
	}
	end_answer(answer, "rows");
	answer->list = NULL;
	asked_free(view, asked);
}

static void
answer_rows(struct view *view, uint64_t from, const struct daemon_message *message)
{
	struct asked *asked;

	/* The daemon that asks gets no answer, and names this host as one that did not answer. */
	if (view->asked_count >= ASKED_MAX)
		return;
	asked = mem_alloc(sizeof(*asked));
	asked->name = message->name == NULL ? NULL : mem_strdup(message->name);
	asked->answer = (struct answer){
	    .view = view, .from = from, .op = DAEMON_MESSAGE_ROWS, .list = json_new_array()};
	asked->job = (struct job){.step = write_rows, .ctx = asked};
	TAILQ_INSERT_TAIL(&view->asked, asked, next);
	view->asked_count++;
	view_job_begin(view, &asked->job, ROUND_ROBIN_DAEMONS);
}

/* ---- waiters by name, mutexes, and holders beyond the slots ---- */

static struct cJSON *
new_use(const char *name, const size_t *numbers, size_t count)
{
	struct cJSON *one = json_new_array();

	json_append_string(one, name);
	for (size_t i = 0; i < count; i++)
		json_append_integer(one, (int64_t)numbers[i]);
	return one;
}

static void
add_use(void *ctx, const struct lock_use *use)
{
	struct answer *answer = ctx;
	size_t size = strlen(use->name) + 32;
	const size_t waits[] = {use->waiting, use->busy};
	const size_t beyond[] = {use->mutex, (size_t)use->slot, use->extra};

	if (!make_room(answer, "counts", size)) {
		answer->more++;
		return;
	}
	if (use->extra > 0)
		json_append(answer->extra, new_use(use->name, beyond, 3));
	else
		json_append(use->mutex ? answer->mutexes : answer->list,
		    new_use(use->name, waits, use->mutex ? 2 : 1));
	answer->size += size;
}

static void
answer_counts(struct view *view, uint64_t from)
{
	struct answer answer = {.view = view,
	    .from = from,
	    .op = DAEMON_MESSAGE_WAITING,
	    .list = json_new_array(),
	    .mutexes = json_new_array(),
	    .extra = json_new_array()};

	lock_each_use(view->engine, add_use, &answer);
	end_answer(&answer, "counts");
}

/* ---- acting ---- */

enum reason
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

size_t
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
answer_outcome(struct view *view, uint64_t from, enum daemon_message_op op, enum reason reason,
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
answer_act(struct view *view, uint64_t from, const struct daemon_message *message, const char *user)
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
		answer_outcome(view, from, message->op, reason, NULL);
}

void
responder_asked(void *ctx, uint64_t from, const struct daemon_message *message, const char *user)
{
	struct view *view = ctx;
	const char *name;

	switch (message->op) {
	case DAEMON_MESSAGE_HELLO:
	case DAEMON_MESSAGE_BYE:
		break;
	case DAEMON_MESSAGE_ROWS:
		answer_rows(view, from, message);
		break;
	case DAEMON_MESSAGE_WAITING:
		answer_counts(view, from);
		break;
	case DAEMON_MESSAGE_FIND:
	case DAEMON_MESSAGE_GRANT:
	case DAEMON_MESSAGE_DENY:
		/* It is for the one daemon at which that waiter would wait. */
		if (message->waiter != 0 &&
		    FAULT_ELSE(OTHERS_WAITER_IS_MEANT, false, message->waiter_run != view->run))
			break;
		if (message->op != DAEMON_MESSAGE_FIND) {
			answer_act(view, from, message, user);
			break;
		}
		name = lock_waits_for(view->engine, message->waiter);
		answer_outcome(view, from, DAEMON_MESSAGE_FIND,
		    name == NULL ? REASON_NOT_HELD : REASON_NONE, name);
		break;
	}
}
