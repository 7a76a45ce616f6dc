#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/view/internal.h"
#include "protocol/json.h"
#include "protocol/line.h"
#include "protocol/methods.h"

/*
 * show: the rows of one name of all hosts. It asks the other daemons for their rows and the broker
 * for the busy slots at once. It is over when the broker has answered, and the other daemons have
 * answered or their deadline has passed. If no daemon explains a busy slot, it waits until that
 * deadline. The slot may have changed hands meanwhile, so it asks the broker once more. If the slot
 * is busy again, its holder is unknown. This second count is not one of the user's scans. Each user
 * has one second count at a time, not counting those of peers that have left. The rows of this
 * daemon are added last, as a job (internal.h), because there may be many.
 *
 *	COUNTING -- slots are in --> COUNTED -- others are in, a slot is unexplained --+
 *	                                |                                              v
 *	                                +-- all explained --> WRITING <-- slots -- COUNTING_AGAIN
 */
enum showing_state { SHOW_COUNTING, SHOW_COUNTED, SHOW_COUNTING_AGAIN, SHOW_WRITING };

/* Bytes of rows in one result; more are left out, and counted. */
#define ROWS_BYTES_MAX ((size_t)1024 * 1024)
/*
 * The same with the peer's unread output. Otherwise a peer that asks twice at once would be closed
 * because it does not read.
 */
#define UNREAD_MAX ((size_t)LINE_MAX_OUT / 4 * 3)

struct shown {
	char *text; /* owned: a row as JSON */
	int slot;
	size_t at; /* place before sorting */
};

/* Rows in the order in which they are shown. */
struct rows {
	struct shown *list; /* owned */
	size_t count, room;
};

struct showing {
	struct view_request request;
	enum showing_state state;
	char *name;         /* owned */
	enum reason reason; /* COUNTED: of the broker's answer */
	int slots;          /* as lock_answer */
	enum lock_claim claim;
	int *busy; /* owned: slots that are busy, from the lowest; 0: the true mutex */
	size_t busy_count;
	int counted; /* the slots 1..counted count; those above were removed */
	/* owned; METHODS_SLOTS_MAX + 1, by slot: a row or daemon has it; a row has it */
	bool *explained, *shown;
	uint64_t slotless; /* holders without a slot, of the kinds that have one */
	struct rows holders, waiters;
	size_t theirs; /* of the waiters, those of other daemons: the first */
	size_t bytes;  /* of both */
	uint64_t waiting, more;
	struct cJSON *missing;           /* owned; silent hosts, when the query is over */
	struct round_robin_place counts; /* COUNTING_AGAIN: the first of its user is counted */
	bool counted_again;              /* COUNTING_AGAIN: the broker was asked */
	struct timer count_again;
	bool has_left;    /* COUNTING: its peer. The scan is over when the broker has answered */
	struct job job;   /* WRITING */
	struct walk walk; /* the same */
	bool full;        /* a row found no room: the others are not written in vain */
};

static void
rows_free(struct rows *rows)
{
	for (size_t i = 0; i < rows->count; i++)
		free(rows->list[i].text);
	free(rows->list);
}

/*
 * The first showing of that user that wants a second count is counted. Not from inside the engine.
 */
static void
count_first(struct view *view, int64_t user)
{
	struct showing *first = round_robin_of(&view->counts, user, 0);

	if (first != NULL && !first->counted_again)
		timers_set(view->timers, &first->count_again, view_now(view));
}

static void
end_count(struct view *view, struct showing *showing)
{
	round_robin_remove(&view->counts, &showing->counts);
	count_first(view, showing->request.user);
}

static void
showing_free(struct view *view, struct view_request *request)
{
	struct showing *showing = (struct showing *)request;

	view_request_end(view, request);
	end_count(view, showing);
	timers_cancel(view->timers, &showing->count_again);
	view_job_end(view, &showing->job);
	walk_end(&showing->walk);
	rows_free(&showing->holders);
	rows_free(&showing->waiters);
	json_free(showing->missing);
	free(showing->explained);
	free(showing->shown);
	free(showing->busy);
	free(showing->name);
	free(showing);
}

/* Its peer has left. */
static void
showing_left(struct view *view, struct view_request *request)
{
	struct showing *showing = (struct showing *)request;

	if (showing->state == SHOW_COUNTING)
		showing->has_left = true;
	else
		showing_free(view, request);
}

/* ---- rows ---- */

/* Some row, or daemon, has that slot. */
static void
explain(void *ctx, int slot)
{
	struct showing *showing = ctx;

	if (slot >= 0 && slot <= METHODS_SLOTS_MAX)
		showing->explained[slot] = true;
}

/* A row, for the number of holders beyond the slots. */
static void
count_holder(struct showing *showing, const struct cJSON *row)
{
	int slot = row_slot(row);

	if (row_waits(row))
		return;
	if (slot > 0 && slot <= METHODS_SLOTS_MAX)
		showing->shown[slot] = true;
	else
		showing->slotless += row_takes(row) < 0;
}

/* The holders whose slot was removed, and those without one. */
static uint64_t
count_extra(const struct showing *showing)
{
	uint64_t extra = showing->slotless;

	for (int slot = showing->counted + 1; slot <= METHODS_SLOTS_MAX; slot++)
		extra += showing->shown[slot];
	return extra;
}

/* So many bytes are kept until the answer. */
static void
keep(const struct view *view, const struct showing *showing, size_t bytes)
{
	view->events.keep(view->events.ctx, showing->request.peer, showing->request.number, bytes);
}

/* Takes the row. */
static void
add_row(const struct view *view, struct showing *showing, struct cJSON *row)
{
	struct rows *rows = row_waits(row) ? &showing->waiters : &showing->holders;
	char *text = json_print(row);
	size_t size = strlen(text) + 1;

	explain(showing, row_takes(row));
	count_holder(showing, row);
	if (showing->bytes + size > ROWS_BYTES_MAX ||
	    view_peer(view, showing->request.peer).room < size) {
		showing->full = true;
		showing->more++;
		free(text);
	} else {
		keep(view, showing, size);
		showing->bytes += size;
		if (rows->count == rows->room) {
			rows->room = rows->room * 2 + 16;
			rows->list = mem_grow(rows->list, rows->room, sizeof(struct shown));
		}
		rows->list[rows->count++] = (struct shown){.text = text, .slot = row_slot(row)};
	}
	json_free(row);
}

/* The first busy slot that nobody explains, from that place on; busy_count: there is none. */
static size_t
next_unexplained(const struct showing *showing, size_t from)
{
	while (from < showing->busy_count && showing->explained[showing->busy[from]])
		from++;
	return from;
}

/*
 * Explains the busy slots by this daemon's holders. They change while other daemons are asked.
 * Returns the first busy slot that is still unexplained.
 */
static size_t
explain_ours(const struct view *view, struct showing *showing)
{
	lock_each_busy(view->engine, showing->name, explain, showing);
	return next_unexplained(showing, 0);
}

/* ---- the result ---- */

static int
compare_shown(const void *a, const void *b)
{
	const struct shown *one = a, *other = b;
	/* Those without a slot come last. */
	unsigned one_slot = (unsigned)one->slot - 1, other_slot = (unsigned)other->slot - 1;

	if (one_slot != other_slot)
		return one_slot < other_slot ? -1 : 1;
	return one->at < other->at ? -1 : 1;
}

/* From `first` on, and then those before. */
static struct cJSON *
array_of(const struct rows *rows, size_t first)
{
	struct cJSON *array = json_new_array();

	for (size_t i = 0; i < rows->count; i++)
		json_append(array, json_new_text(rows->list[(first + i) % rows->count].text));
	return array;
}

static struct cJSON *
result_of(struct showing *showing)
{
	struct cJSON *result = json_new_object();
	int64_t busy = 0;

	for (size_t i = 0; i < showing->busy_count; i++)
		busy += showing->busy[i] > 0 && showing->busy[i] <= showing->counted;
	json_add_string(result, "name", showing->name);
	if (showing->reason != REASON_NONE)
		json_add_null(result, "slots");
	else if (showing->slots == LOCK_UNLIMITED)
		json_add_string(result, "slots", "unlimited");
	else
		json_add_integer(result, "slots", showing->slots);
	if (showing->reason != REASON_NONE)
		json_add_null(result, "busy");
	else
		json_add_integer(result, "busy", busy);
	if (showing->reason != REASON_NONE && showing->reason != REASON_NO_SUCH_LOCK)
		json_add_null(result, "extra");
	else
		json_add_integer(result, "extra", (int64_t)count_extra(showing));
	json_add_integer(result, "waiting", (int64_t)showing->waiting);
	json_add_string(result, "claim", lock_claim_word(showing->claim));
	json_add(result, "holders", array_of(&showing->holders, 0));
	json_add(result, "waiters", array_of(&showing->waiters, showing->theirs));
	json_add_integer(result, "more", (int64_t)showing->more);
	json_add(result, "silent_hosts", showing->missing);
	showing->missing = NULL;
	json_add_string(
	    result, "reason", showing->reason != REASON_NONE ? reason_word(showing->reason) : NULL);
	return result;
}

/* The unread output of the peer, and of all peers of its user, needs room, too. */
static void
make_room(const struct view *view, struct showing *showing)
{
	const struct view_peer peer = view_peer(view, showing->request.peer);
	size_t room = peer.unread < UNREAD_MAX ? UNREAD_MAX - peer.unread : 0;
	struct rows *rows;
	char *text;

	if (room > peer.room)
		room = peer.room;
	while (showing->bytes > room && showing->holders.count + showing->waiters.count > 0) {
		rows = showing->waiters.count > 0 ? &showing->waiters : &showing->holders;
		text = rows->list[--rows->count].text;
		showing->bytes -= strlen(text) + 1;
		showing->more++;
		free(text);
	}
	if (showing->theirs > showing->waiters.count)
		showing->theirs = showing->waiters.count;
}

static void
answer(struct view *view, struct showing *showing)
{
	struct rows *holders = &showing->holders;

	for (size_t i = 0; i < holders->count; i++)
		holders->list[i].at = i;
	if (holders->count > 0)
		qsort(holders->list, holders->count, sizeof(struct shown), compare_shown);
	make_room(view, showing);
	if (showing->reason == REASON_NO_SUCH_LOCK && showing->more == 0 &&
	    holders->count + showing->waiters.count == 0)
		view_refuse(view, showing->request.peer, showing->request.number,
		    REASON_NO_SUCH_LOCK, NULL);
	else
		view_done(view, showing->request.peer, showing->request.number, result_of(showing));
	showing_free(view, &showing->request);
}

/* The rows of this daemon, and those of slots that nobody explains. */
static void
write_rows(struct view *view, struct job *job, int64_t end)
{
	struct showing *showing = job->ctx;
	const struct row_facts facts = view_facts(view);
	struct lock_row source;
	size_t at;

	if (showing->walk.rows == NULL) {
		walk_begin(&showing->walk, view->engine, showing->name);
		keep(view, showing, walk_size(&showing->walk));
	}
	while (walk_next(&showing->walk, view->engine, &source)) {
		showing->waiting += source.state == LOCK_ROW_WAITING;
		if (showing->full)
			showing->more++;
		else
			add_row(view, showing, row_new(&facts, &source));
		if (view_is_over(view, end))
			return;
	}
	for (at = explain_ours(view, showing); at < showing->busy_count;
	     at = next_unexplained(showing, at + 1)) {
		if (showing->full) {
			explain(showing, showing->busy[at]);
			showing->shown[showing->busy[at]] = true;
			showing->more++;
		} else {
			add_row(view, showing, row_unknown(showing->name, showing->busy[at]));
		}
		if (view_is_over(view, end))
			return;
	}
	answer(view, showing);
}

/* All that others know of it is known. */
static void
finish(struct view *view, struct showing *showing)
{
	showing->state = SHOW_WRITING;
	showing->theirs = showing->waiters.count;
	showing->job = (struct job){.step = write_rows, .ctx = showing};
	view_job_begin(view, &showing->job, showing->request.user);
}

/* ---- its way ---- */

static void
end_query(struct view *view, struct showing *showing)
{
	json_free(showing->missing);
	showing->missing = queries_missing(view->queries, showing->request.query);
	queries_end(view->queries, showing->request.query);
	showing->request.query = 0;
}

/* Something came in: it may be over. */
static void
go_on(struct view *view, struct showing *showing)
{
	bool whole;

	if (showing->state != SHOW_COUNTED ||
	    !queries_is_whole(view->queries, showing->request.query))
		return;
	whole = explain_ours(view, showing) == showing->busy_count;
	if (showing->request.query != 0) {
		if (!whole)
			return;
		end_query(view, showing);
	}
	FAULT(COUNTED_ONCE, whole = true);
	if (whole) {
		finish(view, showing);
		return;
	}
	showing->state = SHOW_COUNTING_AGAIN;
	round_robin_add(&view->counts, &showing->counts, showing->request.user, showing);
	count_first(view, showing->request.user);
}

static void
count_again(void *ctx, uint64_t id)
{
	struct view *view = ctx;
	struct showing *showing = view_request_find(view, id);

	showing->counted_again = true;
	lock_busy(view->engine, VIEW_PEER, id, showing->name);
}

static void
take_busy(const struct view *view, struct showing *showing, const struct lock_answer *answer)
{
	showing->reason = answer->reason;
	showing->slots = answer->slots;
	showing->claim = answer->claim;
	showing->counted = answer->counted;
	showing->busy_count = 0;
	if (answer->held_count == 0)
		return;
	keep(view, showing, answer->held_count * sizeof(int));
	showing->busy = mem_grow(showing->busy, answer->held_count, sizeof(int));
	memcpy(showing->busy, answer->held, answer->held_count * sizeof(int));
	showing->busy_count = answer->held_count;
}

/*
 * Slots that were busy only now have changed hands since the others were asked: they are no riddle.
 */
static void
explain_new(struct showing *showing, const struct lock_answer *answer)
{
	size_t old = 0;

	for (size_t i = 0; i < answer->held_count; i++) {
		while (old < showing->busy_count && showing->busy[old] < answer->held[i])
			old++;
		if (old == showing->busy_count || showing->busy[old] != answer->held[i])
			explain(showing, answer->held[i]);
	}
}

void
view_answer(struct view *view, uint64_t id, const struct lock_answer *answer)
{
	struct showing *showing = view_request_find(view, id);

	if (showing == NULL)
		return;
	if (showing->state == SHOW_COUNTING_AGAIN) {
		end_count(view, showing);
		if (answer->reason == REASON_NONE || answer->reason == REASON_NO_SUCH_LOCK) {
			explain_new(showing, answer);
			take_busy(view, showing, answer);
		}
		finish(view, showing);
		return;
	}
	take_busy(view, showing, answer);
	showing->state = SHOW_COUNTED;
	view->events.scanned(view->events.ctx, showing->request.peer, showing->request.number);
	if (showing->has_left)
		showing_free(view, &showing->request);
	else
		go_on(view, showing);
}

static void
heard(void *ctx, uint64_t id, const struct daemon_message *answer)
{
	struct view *view = ctx;
	struct showing *showing = view_request_find(view, id);
	const struct cJSON *one;
	int64_t slot;

	for (one = json_first(answer->rows); one != NULL; one = json_next(one)) {
		if (row_is_sane(one, answer->run, answer->host) &&
		    strcmp(row_name(one), showing->name) == 0)
			add_row(view, showing, row_copy(one));
	}
	for (one = json_first(answer->slots); one != NULL; one = json_next(one)) {
		if (json_integer(one, &slot) && slot <= METHODS_SLOTS_MAX)
			explain(showing, (int)slot);
	}
	showing->waiting += answer->waiting;
	showing->more += answer->more;
	go_on(view, showing);
}

static void
over(void *ctx, uint64_t id)
{
	struct view *view = ctx;
	struct showing *showing = view_request_find(view, id);

	end_query(view, showing);
	go_on(view, showing);
}

void
view_show(struct view *view, uint64_t peer, uint64_t request, const char *name)
{
	struct showing *showing = mem_alloc(sizeof(*showing));
	struct cJSON *message = queries_message(view->queries, DAEMON_MESSAGE_ROWS, false);

	showing->request.free = showing_free;
	showing->request.left = showing_left;
	view_request_begin(view, &showing->request, peer, request);
	showing->name = mem_strdup(name);
	showing->explained = mem_alloc((METHODS_SLOTS_MAX + 1) * sizeof(bool));
	showing->shown = mem_alloc((METHODS_SLOTS_MAX + 1) * sizeof(bool));
	timer_init(&showing->count_again, count_again, view, showing->request.id);
	json_add_string(message, "name", name);
	showing->request.query =
	    queries_ask(view->queries, showing->request.user, DAEMON_MESSAGE_ROWS, message,
		(struct queries_done){.everybody = true,
		    .heard = heard,
		    .over = over,
		    .ctx = view,
		    .id = showing->request.id});
	showing->missing = queries_missing(view->queries, showing->request.query);
	/* Which may answer at once. */
	lock_busy(view->engine, VIEW_PEER, showing->request.id, name);
}
