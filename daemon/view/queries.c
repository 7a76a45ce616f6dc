#include "daemon/view/queries.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <uthash.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "protocol/json.h"

/*
 * Contents:
 *	Users take turns: round_robin_*(): each user has a line of things.
 *	Answers: view_done(), view_refuse(): the end of a request.
 *	Jobs: long work in slices of time; users take turns.
 *	Known daemons: which daemons answer; one that is silent is forgotten later.
 *	Queries: a question to all, from its sending to its deadline; the roll call.
 *	Asking: view_ask_*(): who asks, hears the answers, and is told the end.
 *	Requests: view_request_*(): requests of local peers, by id.
 *	Messages in: view_asked(), view_replied(): to the responder, or to the asker.
 *	Messages out: answers; hello and bye.
 *	Lifecycle: the list of queries begins and ends.
 */

/* A hello that could not be sent is tried again so much later. */
#define HELLO_AGAIN NSEC_PER_SEC
/* Of messages that are not understood, one in so long is logged. */
#define GARBLED_QUIET (60 * NSEC_PER_SEC)

/* A daemon that answers. */
struct known_daemon {
	uint32_t run;
	char *host;     /* owned */
	int64_t missed; /* when it first did not answer; 0: it has, as far as it was asked */
	bool replaced;  /* another daemon of its host came or went, and it has sent nothing since */
	UT_hash_handle hh;
};

/* One that has answered a query. */
struct query_heard {
	uint32_t run;
	unsigned parts;
	bool last;
	UT_hash_handle hh;
};

struct query {
	uint64_t id;
	int64_t user;
	struct round_robin_place turn; /* the first of a user are sent */
	char *text;                    /* owned; NULL: it was sent */
	uint64_t asked;                /* the broker's number; 0: it was not sent */
	struct view_ask *ask;          /* borrowed; NULL: nobody is told */
	bool everybody;                /* every daemon answers: it is a roll call */
	enum daemon_message_op op;
	struct timer deadline;
	struct query_heard *heard; /* owned */
	UT_hash_handle hh, by_asked;
};

struct queries {
	struct view *view;               /* borrowed: its owner */
	struct daemon_message_head head; /* of our messages; its strings are borrowed */
	int64_t timeout;
	queries_asked_fn *asked;
	bool greeted; /* hello was sent */
	struct timer hello;
	struct known_daemon *known;  /* owned */
	struct query *open;          /* owned; by id */
	struct query *asked_queries; /* by the broker's number */
	struct round_robin turns;    /* queries */
	uint64_t last_id;
	int64_t rolled;  /* when the last roll call ended; INT64_MIN: never */
	int64_t garbled; /* when a message that was not understood was logged */
	unsigned long garbled_count;
};

/* Jobs have so much time, and rest for so long, so that they do not delay holders. */
#define JOB_SLICE (NSEC_PER_MSEC / 4)
#define JOB_REST NSEC_PER_MSEC

/* ---- users take turns ---- */

struct round_robin_user {
	int64_t user;
	TAILQ_HEAD(, round_robin_place) things;
	TAILQ_ENTRY(round_robin_user) next;
};

void
round_robin_init(struct round_robin *turns)
{
	TAILQ_INIT(&turns->users);
}

static struct round_robin_user *
round_robin_user_find(const struct round_robin *turns, int64_t user)
{
	struct round_robin_user *found;

	TAILQ_FOREACH (found, &turns->users, next) {
		if (found->user == user)
			break;
	}
	return found;
}

void
round_robin_add(
    struct round_robin *turns, struct round_robin_place *turn, int64_t user, void *thing)
{
	assert(turn->user == NULL);
	turn->thing = thing;
	turn->user = round_robin_user_find(turns, user);
	if (turn->user == NULL) {
		turn->user = mem_alloc(sizeof(*turn->user));
		turn->user->user = user;
		TAILQ_INIT(&turn->user->things);
		TAILQ_INSERT_TAIL(&turns->users, turn->user, next);
	}
	TAILQ_INSERT_TAIL(&turn->user->things, turn, next);
}

void
round_robin_remove(struct round_robin *turns, struct round_robin_place *turn)
{
	struct round_robin_user *user = turn->user;

	if (user == NULL)
		return;
	TAILQ_REMOVE(&user->things, turn, next);
	turn->user = NULL;
	if (!TAILQ_EMPTY(&user->things))
		return;
	TAILQ_REMOVE(&turns->users, user, next);
	free(user);
}

void *
round_robin_first(const struct round_robin *turns)
{
	const struct round_robin_user *user = TAILQ_FIRST(&turns->users);

	return user == NULL ? NULL : TAILQ_FIRST(&user->things)->thing;
}

void
round_robin_pass(struct round_robin *turns)
{
	struct round_robin_user *user = TAILQ_FIRST(&turns->users);

	TAILQ_REMOVE(&turns->users, user, next);
	TAILQ_INSERT_TAIL(&turns->users, user, next);
}

void *
round_robin_of(const struct round_robin *turns, int64_t user, size_t before)
{
	const struct round_robin_user *found = round_robin_user_find(turns, user);
	const struct round_robin_place *turn = found == NULL ? NULL : TAILQ_FIRST(&found->things);

	while (turn != NULL && before-- > 0)
		turn = TAILQ_NEXT(turn, next);
	return turn == NULL ? NULL : turn->thing;
}

/* ---- answers ---- */

int64_t
view_now(const struct view *view)
{
	return clock_now(timers_clock(view->timers));
}

struct view_peer
view_peer(const struct view *view, uint64_t peer)
{
	return view->events.peer(view->events.ctx, peer);
}

void
view_done(struct view *view, uint64_t peer, uint64_t request, struct cJSON *result)
{
	view->events.done(view->events.ctx, peer, request, REASON_NONE, NULL, result);
}

void
view_refuse(
    struct view *view, uint64_t peer, uint64_t request, enum reason reason, const char *text)
{
	view->events.done(view->events.ctx, peer, request, reason, text, NULL);
}

/* ---- jobs ---- */

static void
jobs_schedule(struct view *view, int64_t wait)
{
	if (round_robin_first(&view->jobs) != NULL && !timer_is_set(&view->work))
		timers_set(view->timers, &view->work, view_now(view) + wait);
}

static void
jobs_work(void *ctx, uint64_t id)
{
	struct view *view = ctx;
	int64_t end = view_now(view) + JOB_SLICE;
	struct view_job *job;

	(void)id;
	while ((job = round_robin_first(&view->jobs)) != NULL) {
		/* Before the step, which may free the job. */
		round_robin_pass(&view->jobs);
		job->step(view, job, end);
		if (view_is_over(view, end))
			break;
	}
	jobs_schedule(view, JOB_REST);
}

void
view_jobs_init(struct view *view)
{
	round_robin_init(&view->jobs);
	timer_init(&view->work, jobs_work, view, 0);
}

void
view_job_begin(struct view *view, struct view_job *job, int64_t user)
{
	round_robin_add(&view->jobs, &job->turn, user, job);
	jobs_schedule(view, 0);
}

void
view_job_end(struct view *view, struct view_job *job)
{
	round_robin_remove(&view->jobs, &job->turn);
}

bool
view_is_over(const struct view *view, int64_t end)
{
	return view_now(view) >= end;
}

/* ---- known daemons ---- */

static struct known_daemon *
known_find(const struct queries *queries, uint32_t run)
{
	struct known_daemon *known;

	HASH_FIND(hh, queries->known, &run, sizeof(run), known);
	return known;
}

static void
known_forget(struct queries *queries, struct known_daemon *known)
{
	HASH_DELETE(hh, queries->known, known);
	free(known->host);
	free(known);
}

/*
 * A daemon of that host came or went. It may have replaced one that was killed, which said no bye.
 * A host can have several daemons: each one that sends a message counts again.
 */
static void
known_replace(struct queries *queries, const struct daemon_message *message)
{
	for (struct known_daemon *known = queries->known; known != NULL; known = known->hh.next) {
		FAULT(KILLED_IS_SILENT, break);
		if (known->run != message->run && strcmp(known->host, message->host) == 0)
			known->replaced = true;
	}
}

/* A message came from it. */
static void
known_heard(struct queries *queries, const struct daemon_message *message)
{
	struct known_daemon *known = known_find(queries, message->run);

	if (message->run == queries->head.run)
		return;
	if (!message->stays) {
		if (known != NULL)
			known_forget(queries, known);
		return;
	}
	if (known == NULL) {
		if (HASH_CNT(hh, queries->known) >= QUERIES_HOSTS_MAX)
			return;
		known = mem_alloc(sizeof(*known));
		known->run = message->run;
		known->host = mem_strdup(message->host);
		HASH_ADD(hh, queries->known, run, sizeof(known->run), known);
	}
	known->missed = 0;
	known->replaced = false;
}

bool
queries_knows(const struct queries *queries, uint32_t run)
{
	return known_find(queries, run) != NULL;
}

/* ---- queries ---- */

static struct query *
query_find(const struct queries *queries, uint64_t id)
{
	struct query *query;

	HASH_FIND(hh, queries->open, &id, sizeof(id), query);
	return query;
}

static struct query_heard *
query_heard_find(const struct query *query, uint32_t run)
{
	struct query_heard *heard;

	HASH_FIND(hh, query->heard, &run, sizeof(run), heard);
	return heard;
}

static bool
query_has_answered(const struct query *query, uint32_t run)
{
	const struct query_heard *heard = query_heard_find(query, run);

	return heard != NULL && heard->last;
}

static void
query_free(struct queries *queries, struct query *query)
{
	struct query_heard *heard, *next;

	timers_cancel(queries->view->timers, &query->deadline);
	HASH_ITER (hh, query->heard, heard, next) {
		HASH_DELETE(hh, query->heard, heard);
		free(heard);
	}
	if (query->asked != 0)
		HASH_DELETE(by_asked, queries->asked_queries, query);
	round_robin_remove(&queries->turns, &query->turn);
	HASH_DELETE(hh, queries->open, query);
	free(query->text);
	free(query);
}

/* One that cannot be sent has its deadline now. */
static void
query_send(struct queries *queries, struct query *query)
{
	int64_t now = view_now(queries->view);

	query->asked = broker_ask(queries->view->broker, query->text, strlen(query->text));
	free(query->text);
	query->text = NULL;
	if (query->asked != 0)
		HASH_ADD(by_asked, queries->asked_queries, asked, sizeof(query->asked), query);
	timers_set(queries->view->timers, &query->deadline,
	    query->asked == 0 ? now : now + queries->timeout);
}

/* Sends those of that user whose turn has come. */
static void
query_send_first(struct queries *queries, int64_t user)
{
	struct query *query;

	for (size_t i = 0; i < QUERIES_USER_MAX; i++) {
		query = round_robin_of(&queries->turns, user, i);
		if (query != NULL && query->text != NULL)
			query_send(queries, query);
	}
}

/*
 * The deadline of a roll call: a known daemon that has not answered is silent, and is later
 * forgotten.
 */
static void
query_call_roll(struct queries *queries, const struct query *query)
{
	int64_t now = view_now(queries->view);
	struct known_daemon *known, *next;

	queries->rolled = now;
	HASH_ITER (hh, queries->known, known, next) {
		if (query_has_answered(query, known->run))
			known->missed = 0;
		else if (known->replaced)
			known_forget(queries, known);
		else if (known->missed == 0)
			known->missed = now;
		else if (now - known->missed >= QUERIES_ROLL)
			known_forget(queries, known);
	}
}

static void
query_end(struct queries *queries, struct query *query)
{
	int64_t user = query->user;

	query_free(queries, query);
	query_send_first(queries, user);
}

/* The known hosts that have not answered. NULL: no query was sent. */
static struct cJSON *
query_missing(const struct queries *queries, const struct query *query)
{
	struct cJSON *missing = json_new_array();

	for (const struct known_daemon *known = queries->known; known != NULL;
	     known = known->hh.next) {
		if (!known->replaced && (query == NULL || !query_has_answered(query, known->run)))
			json_append_string(missing, known->host);
	}
	return missing;
}

/* Whether all known daemons have answered, so that nobody need be waited for. */
static bool
query_is_whole(const struct queries *queries, const struct query *query)
{
	if (query->asked == 0)
		return false;
	if (queries->rolled == INT64_MIN ||
	    view_now(queries->view) - queries->rolled >= QUERIES_ROLL)
		return false;
	FAULT(NOBODY_WAITED_FOR, return true);
	for (const struct known_daemon *known = queries->known; known != NULL;
	     known = known->hh.next) {
		if (!query_has_answered(query, known->run))
			return false;
	}
	return true;
}

/* The end of each query that has an asker. */
static void
query_over(struct queries *queries, struct query *query)
{
	struct view_ask *ask = query->ask;

	ask->missing = query_missing(queries, query);
	ask->query = 0;
	query_end(queries, query);
	ask->over(queries->view, ask);
}

static void
query_deadline_passed(void *ctx, uint64_t id)
{
	struct queries *queries = ctx;
	struct query *query = query_find(queries, id);

	assert(query != NULL);
	if (query->everybody && query->asked != 0)
		query_call_roll(queries, query);
	if (query->ask != NULL)
		query_over(queries, query);
	else
		query_end(queries, query);
}

/* ---- asking ---- */

void
view_ask_begin(struct view *view, struct view_ask *ask, enum daemon_message_op op,
    struct cJSON *message, bool everybody)
{
	struct queries *queries = view->queries;
	char *text = daemon_message_text(message);
	struct query *query;

	assert(ask->query == 0);
	json_free(ask->missing);
	ask->missing = NULL;
	ask->is_sent = false;
	if (text == NULL || strlen(text) > BROKER_MESSAGE_MAX) {
		free(text);
		ask->missing = query_missing(queries, NULL);
		return;
	}
	query = mem_alloc(sizeof(*query));
	query->id = ++queries->last_id;
	query->user = ask->user;
	query->text = text;
	query->op = op;
	query->ask = ask;
	query->everybody = everybody;
	timer_init(&query->deadline, query_deadline_passed, queries, query->id);
	HASH_ADD(hh, queries->open, id, sizeof(query->id), query);
	round_robin_add(&queries->turns, &query->turn, query->user, query);
	query_send_first(queries, query->user);
	ask->is_sent = query->text != NULL || query->asked != 0;
	if (ask->is_sent) {
		ask->query = query->id;
		return;
	}
	query_free(queries, query);
	ask->missing = query_missing(queries, NULL);
}

void
view_ask_check(struct view *view, struct view_ask *ask)
{
	struct query *query = query_find(view->queries, ask->query);

	if (query == NULL)
		ask->over(view, ask);
	else if (query->everybody && query_is_whole(view->queries, query) &&
		 (ask->is_enough == NULL || ask->is_enough(view, ask)))
		query_over(view->queries, query);
}

void
view_ask_end(struct view *view, struct view_ask *ask)
{
	struct query *query = query_find(view->queries, ask->query);

	if (query != NULL)
		query_end(view->queries, query);
	ask->query = 0;
	json_free(ask->missing);
	ask->missing = NULL;
}

void
view_ask_leave(struct view *view, struct view_ask *ask)
{
	struct query *query = query_find(view->queries, ask->query);

	if (query != NULL && query->asked != 0) {
		query->ask = NULL;
		ask->query = 0;
	} else {
		view_ask_end(view, ask);
	}
}

/* ---- requests ---- */

void
view_request_begin(struct view *view, struct view_request *request, uint64_t peer, uint64_t number)
{
	request->id = ++view->last_id;
	request->peer = peer;
	request->number = number;
	request->ask.user = view_peer(view, peer).user;
	HASH_ADD(hh, view->requests, id, sizeof(request->id), request);
}

void *
view_request_find(const struct view *view, uint64_t id)
{
	struct view_request *request;

	HASH_FIND(hh, view->requests, &id, sizeof(id), request);
	return request;
}

void
view_request_end(struct view *view, struct view_request *request)
{
	view_ask_end(view, &request->ask);
	HASH_DELETE(hh, view->requests, request);
}

/* ---- messages in ---- */

void
queries_pass_over(struct queries *queries, const char *user, const char *what)
{
	int64_t now = view_now(queries->view);
	char quoted[LOG_QUOTE_MAX];

	queries->garbled_count++;
	if (queries->garbled != 0 && now - queries->garbled < GARBLED_QUIET)
		return;
	queries->garbled = now;
	log_warning("a daemon message of the broker user %s is ignored: %s; ignored so far: %lu",
	    log_quote(quoted, user, strlen(user)), what, queries->garbled_count);
}

static bool
queries_read(struct queries *queries, const struct broker_message *message, bool answer,
    struct daemon_message *ret)
{
	const char *what;

	switch (
	    daemon_message_parse(message->text, message->len, queries->head.naming, ret, &what)) {
	case DAEMON_MESSAGE_READ:
		if (ret->answer == answer)
			return true;
		daemon_message_done(ret);
		queries_pass_over(
		    queries, message->user, "an answer without a query, or the reverse");
		return false;
	case DAEMON_MESSAGE_FOREIGN:
		return false;
	case DAEMON_MESSAGE_GARBLED:
		queries_pass_over(queries, message->user, what);
		return false;
	}
	return false;
}

void
view_asked(struct view *view, const struct broker_message *message)
{
	struct queries *queries = view->queries;
	struct daemon_message read;

	if (!queries_read(queries, message, false, &read))
		return;
	known_heard(queries, &read);
	if (read.op == DAEMON_MESSAGE_HELLO || read.op == DAEMON_MESSAGE_BYE)
		known_replace(queries, &read);
	else
		queries->asked(queries->view, message->from, &read, message->user);
	daemon_message_done(&read);
}

/* Whether the query takes it as a part of that daemon's answer. */
static bool
query_take_part(struct query *query, const struct daemon_message *message)
{
	struct query_heard *heard = query_heard_find(query, message->run);

	if (message->op != query->op)
		return false;
	if (heard == NULL) {
		if (HASH_CNT(hh, query->heard) >= QUERIES_HOSTS_MAX)
			return false;
		heard = mem_alloc(sizeof(*heard));
		heard->run = message->run;
		HASH_ADD(hh, query->heard, run, sizeof(heard->run), heard);
	}
	FAULT(ANSWERED_TWICE, heard->last = false);
	if (heard->last || heard->parts >= QUERIES_PARTS_MAX)
		return false;
	heard->parts++;
	heard->last = message->last;
	return true;
}

void
view_replied(struct view *view, const struct broker_message *message)
{
	struct queries *queries = view->queries;
	struct query *query;
	struct daemon_message read;
	uint64_t id;

	HASH_FIND(by_asked, queries->asked_queries, &message->asked, sizeof(message->asked), query);
	if (!queries_read(queries, message, true, &read))
		return;
	known_heard(queries, &read);
	if (query != NULL && read.run != queries->head.run && query_take_part(query, &read)) {
		id = query->id;
		if (query->ask != NULL) {
			query->ask->heard(queries->view, query->ask, &read);
			query = query_find(queries, id); /* NULL: its asker has ended it */
		}
		if (query != NULL && query->ask != NULL)
			view_ask_check(queries->view, query->ask);
		else if (query != NULL && query_is_whole(queries, query))
			query_end(queries, query);
	}
	daemon_message_done(&read);
}

void
view_unheard(struct view *view)
{
	view->queries->rolled = INT64_MIN;
}

/* ---- messages out ---- */

struct cJSON *
queries_message(const struct queries *queries, enum daemon_message_op op, bool answer)
{
	return daemon_message_new(&queries->head, op, answer);
}

bool
queries_answer(struct queries *queries, uint64_t from, struct cJSON *message)
{
	char *text = daemon_message_text(message);
	bool fits = text != NULL && strlen(text) <= BROKER_MESSAGE_MAX;

	if (fits)
		broker_reply_to(queries->view->broker, from, text, strlen(text));
	free(text);
	return fits;
}

/* One that asks for no answer. False: it cannot be sent now. */
static bool
queries_tell_all(struct queries *queries, enum daemon_message_op op)
{
	char *text = daemon_message_text(queries_message(queries, op, false));
	bool sent = text != NULL && broker_ask(queries->view->broker, text, strlen(text)) != 0;

	free(text);
	return sent;
}

static void
queries_say_hello(void *ctx, uint64_t id)
{
	struct queries *queries = ctx;

	(void)id;
	queries->greeted = queries_tell_all(queries, DAEMON_MESSAGE_HELLO);
	if (!queries->greeted)
		timers_set(
		    queries->view->timers, &queries->hello, view_now(queries->view) + HELLO_AGAIN);
}

void
queries_stay(struct queries *queries, bool stays)
{
	if (stays == queries->head.stays)
		return;
	queries->head.stays = stays;
	if (stays) {
		broker_inbox_open(queries->view->broker);
		queries_say_hello(queries, 0);
		return;
	}
	timers_cancel(queries->view->timers, &queries->hello);
	if (queries->greeted)
		queries_tell_all(queries, DAEMON_MESSAGE_BYE);
	queries->greeted = false;
	broker_inbox_close(queries->view->broker);
}

/*
 * Sends bye, unless hello was sent. Others then do not wait for a daemon that this one replaced, and
 * that was killed.
 */
void
view_begin(struct view *view)
{
	if (!view->queries->head.stays)
		queries_tell_all(view->queries, DAEMON_MESSAGE_BYE);
}

bool
queries_stays(const struct queries *queries)
{
	return queries->head.stays;
}

/* ---- lifecycle ---- */

struct queries *
queries_new(struct view *view, const struct daemon_message_head *head, int64_t timeout,
    queries_asked_fn *asked)
{
	struct queries *queries = mem_alloc(sizeof(*queries));

	queries->view = view;
	queries->head = *head;
	queries->timeout = timeout;
	queries->asked = asked;
	queries->rolled = INT64_MIN;
	round_robin_init(&queries->turns);
	timer_init(&queries->hello, queries_say_hello, queries, 0);
	return queries;
}

void
view_set_timeout(struct view *view, int64_t timeout)
{
	view->queries->timeout = timeout;
}

void
queries_free(struct queries *queries)
{
	struct query *query, *next;
	struct known_daemon *known, *next_known;

	if (queries == NULL)
		return;
	queries_stay(queries, false);
	timers_cancel(queries->view->timers, &queries->hello);
	HASH_ITER (hh, queries->open, query, next)
		query_free(queries, query);
	HASH_ITER (hh, queries->known, known, next_known)
		known_forget(queries, known);
	free(queries);
}
