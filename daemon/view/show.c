#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/view/queries.h"
#include "daemon/view/row.h"
#include "protocol/json.h"
#include "protocol/line.h"
#include "protocol/methods.h"

/*
 * Contents:
 *	Show: the rows of one name.
 *	Rows: which row explains which slot.
 *	The result: rows in order, and what finds no room.
 *	Its way: counts, answers of other daemons, the second count.
 *	How it begins: both questions are sent at once.
 *	List: waiters of each name, and mutexes.
 *	Tallies: the sums of each name.
 *	The request: adds what each daemon says, then makes the result.
 */

/*
 * show: the rows of one name of all hosts. It asks the other daemons for their rows and the broker
 * for the busy slots at once. It is over when the broker has answered, and the other daemons have
 * answered or their deadline has passed. If no daemon explains a busy slot, it waits until that
 * deadline. The slot may have changed hands meanwhile, so it asks the broker once more. If the slot
 * is busy again, its holder is unknown. This second count is not one of the user's scans. Each user
 * has one second count at a time, not counting those of peers that have left. The rows of this
 * daemon are added last, as a job (queries.h), because there may be many.
 *
 * One count is enough if rows explain each busy slot. Otherwise it would show false rows, whenever
 * it is made. If it comes before the answers of the others, a holder can release in between: its
 * slot was busy, and its daemon sends no row. If it comes after them, a client can acquire in
 * between. Only a slot that was busy both times, without a row, has an unknown holder.
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

struct shown_row {
	char *text; /* owned: a row as JSON */
	int slot;
	size_t at; /* place before sorting */
};

/* Rows in the order in which they are shown. */
struct shown_rows {
	struct shown_row *list; /* owned */
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
	struct shown_rows holders, waiters;
	size_t theirs; /* of the waiters, those of other daemons: the first */
	size_t bytes;  /* of both */
	uint64_t waiting, more;
	struct round_robin_place counts; /* COUNTING_AGAIN: the first of its user is counted */
	bool counted_again;              /* COUNTING_AGAIN: the broker was asked */
	struct timer count_again;
	bool has_left;       /* COUNTING: its peer. The scan is over when the broker has answered */
	struct view_job job; /* WRITING */
	struct walk walk;    /* the same */
	bool full;           /* a row found no room: the others are not written in vain */
};

/* ---- show ---- */

static void
show_rows_free(struct shown_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++)
		free(rows->list[i].text);
	free(rows->list);
}

/*
 * The first showing of that user that wants a second count is counted. Not from inside the engine.
 */
static void
show_count_first(struct view *view, int64_t user)
{
	struct showing *first = round_robin_of(&view->counts, user, 0);

	if (first != NULL && !first->counted_again)
		timers_set(view->timers, &first->count_again, view_now(view));
}

static void
show_end_count(struct view *view, struct showing *showing)
{
	round_robin_remove(&view->counts, &showing->counts);
	show_count_first(view, showing->request.ask.user);
}

static void
showing_free(struct view *view, struct view_request *request)
{
	struct showing *showing = (struct showing *)request;

	view_request_end(view, request);
	show_end_count(view, showing);
	timers_cancel(view->timers, &showing->count_again);
	view_job_end(view, &showing->job);
	walk_end(&showing->walk);
	show_rows_free(&showing->holders);
	show_rows_free(&showing->waiters);
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
show_explain(void *ctx, int slot)
{
	struct showing *showing = ctx;

	if (slot >= 0 && slot <= METHODS_SLOTS_MAX)
		showing->explained[slot] = true;
}

/* A row, for the number of holders beyond the slots. */
static void
show_count_holder(struct showing *showing, const struct cJSON *row)
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
show_count_extra(const struct showing *showing)
{
	uint64_t extra = showing->slotless;

	for (int slot = showing->counted + 1; slot <= METHODS_SLOTS_MAX; slot++)
		extra += showing->shown[slot];
	return extra;
}

/* So many bytes are kept until the answer. */
static void
show_keep(const struct view *view, const struct showing *showing, size_t bytes)
{
	view->events.keep(view->events.ctx, showing->request.peer, showing->request.number, bytes);
}

/* Takes the row. */
static void
show_add_row(const struct view *view, struct showing *showing, struct cJSON *row)
{
	struct shown_rows *rows = row_waits(row) ? &showing->waiters : &showing->holders;
	char *text = json_print(row);
	size_t size = strlen(text) + 1;

	show_explain(showing, row_takes(row));
	show_count_holder(showing, row);
	if (showing->bytes + size > ROWS_BYTES_MAX ||
	    view_peer(view, showing->request.peer).room < size) {
		showing->full = true;
		showing->more++;
		free(text);
	} else {
		show_keep(view, showing, size);
		showing->bytes += size;
		if (rows->count == rows->room) {
			rows->room = rows->room * 2 + 16;
			rows->list = mem_grow(rows->list, rows->room, sizeof(struct shown_row));
		}
		rows->list[rows->count++] = (struct shown_row){.text = text, .slot = row_slot(row)};
	}
	json_free(row);
}

/* The first busy slot that nobody explains, from that place on; busy_count: there is none. */
static size_t
show_next_unexplained(const struct showing *showing, size_t from)
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
show_explain_ours(const struct view *view, struct showing *showing)
{
	lock_each_busy(view->engine, showing->name, show_explain, showing);
	return show_next_unexplained(showing, 0);
}

/* ---- the result ---- */

static int
compare_shown(const void *a, const void *b)
{
	const struct shown_row *one = a, *other = b;
	/* Those without a slot come last. */
	unsigned one_slot = (unsigned)one->slot - 1, other_slot = (unsigned)other->slot - 1;

	if (one_slot != other_slot)
		return one_slot < other_slot ? -1 : 1;
	return one->at < other->at ? -1 : 1;
}

/* From `first` on, and then those before. */
static struct cJSON *
show_array(const struct shown_rows *rows, size_t first)
{
	struct cJSON *array = json_new_array();

	for (size_t i = 0; i < rows->count; i++)
		json_append(array, json_new_text(rows->list[(first + i) % rows->count].text));
	return array;
}

static struct cJSON *
show_result(struct showing *showing)
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
		json_add_integer(result, "extra", (int64_t)show_count_extra(showing));
	json_add_integer(result, "waiting", (int64_t)showing->waiting);
	json_add_string(result, "claim", lock_claim_word(showing->claim));
	json_add(result, "holders", show_array(&showing->holders, 0));
	json_add(result, "waiters", show_array(&showing->waiters, showing->theirs));
	json_add_integer(result, "more", (int64_t)showing->more);
	json_add(result, "silent_hosts", json_copy(showing->request.ask.missing));
	json_add_string(
	    result, "reason", showing->reason != REASON_NONE ? reason_word(showing->reason) : NULL);
	return result;
}

/* The unread output of the peer, and of all peers of its user, needs room, too. */
static void
show_make_room(const struct view *view, struct showing *showing)
{
	const struct view_peer peer = view_peer(view, showing->request.peer);
	size_t room = peer.unread < UNREAD_MAX ? UNREAD_MAX - peer.unread : 0;
	struct shown_rows *rows;
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
show_answer(struct view *view, struct showing *showing)
{
	struct shown_rows *holders = &showing->holders;

	for (size_t i = 0; i < holders->count; i++)
		holders->list[i].at = i;
	if (holders->count > 0)
		qsort(holders->list, holders->count, sizeof(struct shown_row), compare_shown);
	show_make_room(view, showing);
	if (showing->reason == REASON_NO_SUCH_LOCK && showing->more == 0 &&
	    holders->count + showing->waiters.count == 0)
		view_refuse(view, showing->request.peer, showing->request.number,
		    REASON_NO_SUCH_LOCK, NULL);
	else
		view_done(
		    view, showing->request.peer, showing->request.number, show_result(showing));
	showing_free(view, &showing->request);
}

/* The rows of this daemon, and those of slots that nobody explains. */
static void
show_write_rows(struct view *view, struct view_job *job, int64_t end)
{
	struct showing *showing = job->ctx;
	struct lock_row source;
	size_t at;

	if (showing->walk.rows == NULL) {
		walk_begin(&showing->walk, view->engine, showing->name);
		show_keep(view, showing, walk_size(&showing->walk));
	}
	while (walk_next(&showing->walk, view->engine, &source)) {
		showing->waiting += source.state == LOCK_ROW_WAITING;
		if (showing->full)
			showing->more++;
		else
			show_add_row(view, showing, view_row(view, &source));
		if (view_is_over(view, end))
			return;
	}
	for (at = show_explain_ours(view, showing); at < showing->busy_count;
	     at = show_next_unexplained(showing, at + 1)) {
		if (showing->full) {
			show_explain(showing, showing->busy[at]);
			showing->shown[showing->busy[at]] = true;
			showing->more++;
		} else {
			show_add_row(view, showing, row_unknown(showing->name, showing->busy[at]));
		}
		if (view_is_over(view, end))
			return;
	}
	show_answer(view, showing);
}

/* All that others know of it is known. */
static void
show_begin_writing(struct view *view, struct showing *showing)
{
	showing->state = SHOW_WRITING;
	showing->theirs = showing->waiters.count;
	showing->job = (struct view_job){.step = show_write_rows, .ctx = showing};
	view_job_begin(view, &showing->job, showing->request.ask.user);
}

/* ---- its way ---- */

/* All known daemons have answered. */
static bool
show_is_enough(struct view *view, struct view_ask *ask)
{
	struct showing *showing = (struct showing *)ask;

	return showing->state == SHOW_COUNTED &&
	       show_explain_ours(view, showing) == showing->busy_count;
}

static void
show_over(struct view *view, struct view_ask *ask)
{
	struct showing *showing = (struct showing *)ask;
	bool whole;

	if (showing->state != SHOW_COUNTED)
		return;
	whole = show_explain_ours(view, showing) == showing->busy_count;
	FAULT(COUNTED_ONCE, whole = true);
	if (whole) {
		show_begin_writing(view, showing);
		return;
	}
	showing->state = SHOW_COUNTING_AGAIN;
	round_robin_add(&view->counts, &showing->counts, ask->user, showing);
	show_count_first(view, ask->user);
}

static void
show_count_again(void *ctx, uint64_t id)
{
	struct view *view = ctx;
	struct showing *showing = view_request_find(view, id);

	showing->counted_again = true;
	lock_busy(view->engine, VIEW_PEER, id, showing->name);
}

static void
show_take_busy(const struct view *view, struct showing *showing, const struct lock_answer *answer)
{
	showing->reason = answer->reason;
	showing->slots = answer->slots;
	showing->claim = answer->claim;
	showing->counted = answer->counted;
	showing->busy_count = 0;
	if (answer->held_count == 0)
		return;
	show_keep(view, showing, answer->held_count * sizeof(int));
	showing->busy = mem_grow(showing->busy, answer->held_count, sizeof(int));
	memcpy(showing->busy, answer->held, answer->held_count * sizeof(int));
	showing->busy_count = answer->held_count;
}

/*
 * Slots that were busy only now have changed hands since the others were asked: they are no riddle.
 */
static void
show_explain_new(struct showing *showing, const struct lock_answer *answer)
{
	size_t old = 0;

	for (size_t i = 0; i < answer->held_count; i++) {
		while (old < showing->busy_count && showing->busy[old] < answer->held[i])
			old++;
		if (old == showing->busy_count || showing->busy[old] != answer->held[i])
			show_explain(showing, answer->held[i]);
	}
}

void
view_answer(struct view *view, uint64_t id, const struct lock_answer *answer)
{
	struct showing *showing = view_request_find(view, id);

	if (showing == NULL)
		return;
	if (showing->state == SHOW_COUNTING_AGAIN) {
		show_end_count(view, showing);
		if (answer->reason == REASON_NONE || answer->reason == REASON_NO_SUCH_LOCK) {
			show_explain_new(showing, answer);
			show_take_busy(view, showing, answer);
		}
		show_begin_writing(view, showing);
		return;
	}
	show_take_busy(view, showing, answer);
	showing->state = SHOW_COUNTED;
	view->events.scanned(view->events.ctx, showing->request.peer, showing->request.number);
	if (showing->has_left)
		showing_free(view, &showing->request);
	else
		view_ask_check(view, &showing->request.ask);
}

static void
show_heard(struct view *view, struct view_ask *ask, const struct daemon_message *answer)
{
	struct showing *showing = (struct showing *)ask;
	const struct cJSON *one;
	int64_t slot;

	for (one = json_first(answer->rows); one != NULL; one = json_next(one)) {
		if (row_is_sane(one, answer->run, answer->host) &&
		    strcmp(row_name(one), showing->name) == 0)
			show_add_row(view, showing, row_copy(one));
	}
	for (one = json_first(answer->slots); one != NULL; one = json_next(one)) {
		if (json_integer(one, &slot) && slot <= METHODS_SLOTS_MAX)
			show_explain(showing, (int)slot);
	}
	showing->waiting += answer->waiting;
	showing->more += answer->more;
}

/* ---- how it begins ---- */

void
view_show(struct view *view, uint64_t peer, uint64_t request, const char *name)
{
	struct showing *showing = mem_alloc(sizeof(*showing));
	struct cJSON *message = queries_message(view->queries, DAEMON_MESSAGE_ROWS, false);

	showing->request.free = showing_free;
	showing->request.left = showing_left;
	showing->request.ask.heard = show_heard;
	showing->request.ask.over = show_over;
	showing->request.ask.is_enough = show_is_enough;
	view_request_begin(view, &showing->request, peer, request);
	showing->name = mem_strdup(name);
	showing->explained = mem_alloc((METHODS_SLOTS_MAX + 1) * sizeof(bool));
	showing->shown = mem_alloc((METHODS_SLOTS_MAX + 1) * sizeof(bool));
	timer_init(&showing->count_again, show_count_again, view, showing->request.id);
	json_add_string(message, "name", name);
	view_ask_begin(view, &showing->request.ask, DAEMON_MESSAGE_ROWS, message, true);
	/* Which may answer at once. */
	lock_busy(view->engine, VIEW_PEER, showing->request.id, name);
}

/* ---- list ---- */

/* One lock of the result, and the sums of what all hosts have said of it. */
struct tally {
	char *name; /* owned */
	uint64_t waiting, busy, extra;
	/* A semaphore: the broker has counted the holders of its slots up to here. */
	int asked;
	bool is_known;     /* it is a mutex, or the broker was asked */
	UT_hash_handle hh; /* by name */
};

/*
 * Mutexes in one list, and semaphores that are in no directory and have holders. Other daemons can
 * invent names. With RESULT_ROWS_MAX they fit a line.
 */
#define MUTEXES_MAX 1000
#define UNLISTED_MAX 1000
/* Bytes that one lock of a list takes in memory, about. */
#define ROW_KEPT 600

/* The result of a `list`: its semaphores get their waiters, and the mutexes are added. */
struct waiter_counts {
	struct view_request request;
	struct view *view;        /* borrowed: its owner */
	struct cJSON *list;       /* owned, as the next two */
	struct tally *semaphores; /* those of the directory */
	struct tally *unlisted;   /* others that have holders; at most UNLISTED_MAX */
	struct tally *mutexes;    /* at most MUTEXES_MAX */
	uint64_t more;            /* locks that are left out; a mutex once for each mention */
};

/* ---- tallies ---- */

static struct tally *
tally_find(struct tally *tallies, const char *name)
{
	struct tally *tally;

	HASH_FIND(hh, tallies, name, strlen(name), tally);
	return tally;
}

static struct tally *
tally_add(struct tally **tallies, const char *name)
{
	struct tally *tally = mem_alloc(sizeof(*tally));

	tally->name = mem_strdup(name);
	HASH_ADD_KEYPTR(hh, *tallies, tally->name, strlen(tally->name), tally);
	return tally;
}

static void
tallies_free(struct tally **tallies)
{
	struct tally *tally, *next;

	HASH_ITER (hh, *tallies, tally, next) {
		HASH_DELETE(hh, *tallies, tally);
		free(tally->name);
		free(tally);
	}
}

static int
tally_compare(const struct tally *a, const struct tally *b)
{
	return strcmp(a->name, b->name);
}

/* NULL: there is no room for it, or the client may not see it. */
static struct tally *
counts_add_name(
    struct waiter_counts *waiter_counts, struct tally **tallies, size_t most, const char *name)
{
	const struct view_request *request = &waiter_counts->request;
	const struct view_events *events = &waiter_counts->view->events;

	if (HASH_CNT(hh, *tallies) >= most ||
	    view_peer(waiter_counts->view, request->peer).room == 0) {
		waiter_counts->more++;
		return NULL;
	}
	if (!events->sees(events->ctx, request->peer, request->number, name))
		return NULL;
	events->keep(events->ctx, request->peer, request->number, ROW_KEPT);
	return tally_add(tallies, name);
}

/* NULL: it is left out. A semaphore that is in no directory is of interest only if it is held. */
static struct tally *
tally_of(struct waiter_counts *waiter_counts, const struct lock_use *use)
{
	struct tally **others = use->mutex ? &waiter_counts->mutexes : &waiter_counts->unlisted;
	struct tally *tally = use->mutex ? NULL : tally_find(waiter_counts->semaphores, use->name);

	if (tally == NULL)
		tally = tally_find(*others, use->name);
	if (tally == NULL && (use->mutex || use->extra > 0))
		tally = counts_add_name(
		    waiter_counts, others, use->mutex ? MUTEXES_MAX : UNLISTED_MAX, use->name);
	return tally;
}

static void
counts_add(void *ctx, const struct lock_use *use)
{
	struct tally *tally = tally_of(ctx, use);

	if (tally == NULL)
		return;
	tally->waiting += use->waiting;
	tally->busy += use->busy;
	/* Holders of the slots up to `asked` are in the broker's count already. */
	if (use->slot == 0 || use->slot > tally->asked)
		tally->extra += use->extra;
}

/* ---- the request ---- */

static void
waiter_counts_free(struct view *view, struct view_request *request)
{
	struct waiter_counts *waiter_counts = (struct waiter_counts *)request;

	view_request_end(view, request);
	tallies_free(&waiter_counts->semaphores);
	tallies_free(&waiter_counts->unlisted);
	tallies_free(&waiter_counts->mutexes);
	json_free(waiter_counts->list);
	free(waiter_counts);
}

static struct cJSON *
counts_mutex_rows(struct waiter_counts *waiter_counts)
{
	struct cJSON *rows = json_new_array(), *row;

	HASH_SRT(hh, waiter_counts->mutexes, tally_compare);
	for (const struct tally *tally = waiter_counts->mutexes; tally != NULL;
	     tally = tally->hh.next) {
		row = json_new_object();
		json_add_string(row, "name", tally->name);
		json_add_string(row, "kind", lock_kind_word(LOCK_KIND_MUTEX));
		json_add_integer(row, "busy", (int64_t)tally->busy);
		json_add_integer(row, "waiting", (int64_t)tally->waiting);
		json_add_integer(row, "extra", (int64_t)tally->extra);
		json_append(rows, row);
	}
	return rows;
}

/* They were destroyed, or another program has created them: their size is not known. */
static void
counts_add_unlisted(struct waiter_counts *waiter_counts, struct cJSON *semaphores)
{
	struct cJSON *row;

	HASH_SRT(hh, waiter_counts->unlisted, tally_compare);
	for (const struct tally *tally = waiter_counts->unlisted; tally != NULL;
	     tally = tally->hh.next) {
		row = json_new_object();
		json_add_string(row, "name", tally->name);
		json_add_null(row, "slots");
		json_add_null(row, "busy");
		json_add_bool(row, "exists", false);
		json_add_null(row, "claim");
		json_add_integer(row, "waiting", (int64_t)tally->waiting);
		json_add_integer(row, "extra", (int64_t)tally->extra);
		json_append(semaphores, row);
	}
}

static void
counts_over(struct view *view, struct view_ask *ask)
{
	struct waiter_counts *waiter_counts = (struct waiter_counts *)ask;
	struct cJSON *list = waiter_counts->list;
	/* A part of our own list. */
	struct cJSON *semaphores = (struct cJSON *)json_get(list, "semaphores"), *row;
	const struct tally *tally;
	const char *name = "";

	for (row = (struct cJSON *)json_first(semaphores); row != NULL;
	     row = (struct cJSON *)json_next(row)) {
		json_string(json_get(row, "name"), &name);
		tally = tally_find(waiter_counts->semaphores, name);
		json_add_integer(row, "waiting", tally == NULL ? 0 : (int64_t)tally->waiting);
		if (tally != NULL && (tally->is_known || tally->extra > 0))
			json_add_integer(row, "extra", (int64_t)tally->extra);
		else
			json_add_null(row, "extra");
	}
	counts_add_unlisted(waiter_counts, semaphores);
	json_add(list, "mutexes", counts_mutex_rows(waiter_counts));
	json_add_integer(list, "more", (int64_t)waiter_counts->more);
	json_add(list, "silent_hosts", json_copy(ask->missing));
	waiter_counts->list = NULL;
	view_done(view, waiter_counts->request.peer, waiter_counts->request.number, list);
	waiter_counts_free(view, &waiter_counts->request);
}

/* Counts [["db", mutex, slot, extra], ...]. */
static void
counts_add_extra(struct waiter_counts *waiter_counts, const struct cJSON *extra)
{
	const struct cJSON *number;
	int64_t numbers[3];

	for (const struct cJSON *one = json_first(extra); one != NULL; one = json_next(one)) {
		struct lock_use use = {.waiting = 0};

		number = json_next(json_first(one));
		if (!json_string(json_first(one), &use.name))
			continue;
		for (size_t i = 0; i < 3; i++, number = json_next(number)) {
			if (!json_integer(number, &numbers[i]))
				return; /* wire.h has checked it */
		}
		use.mutex = numbers[0] != 0;
		use.slot = (int)numbers[1];
		use.extra = (size_t)numbers[2];
		counts_add(waiter_counts, &use);
	}
}

/* Counts [["db", waiting], ...] or, of mutexes, [["db", waiting, busy], ...]. */
static void
counts_add_all(struct waiter_counts *waiter_counts, const struct cJSON *uses, bool mutex)
{
	struct lock_use use = {.mutex = mutex};
	const struct cJSON *waits;
	int64_t waiting, busy = 0;

	for (const struct cJSON *one = json_first(uses); one != NULL; one = json_next(one)) {
		waits = json_next(json_first(one));
		if (!json_string(json_first(one), &use.name) || !json_integer(waits, &waiting) ||
		    (mutex && !json_integer(json_next(waits), &busy)))
			continue;
		use.waiting = (size_t)waiting;
		use.busy = (size_t)busy;
		counts_add(waiter_counts, &use);
	}
}

static void
counts_heard(struct view *view, struct view_ask *ask, const struct daemon_message *answer)
{
	struct waiter_counts *waiter_counts = (struct waiter_counts *)ask;

	(void)view;
	counts_add_all(waiter_counts, answer->counts, false);
	counts_add_all(waiter_counts, answer->mutexes, true);
	counts_add_extra(waiter_counts, answer->extra);
	waiter_counts->more += answer->more;
}

/* The semaphores of the directory, listed or not. */
static void
counts_take_rows(struct waiter_counts *waiter_counts, const struct lock_answer *answer)
{
	const struct view_request *request = &waiter_counts->request;
	const struct view_events *events = &waiter_counts->view->events;
	struct tally *tally;

	for (size_t i = 0; i < answer->row_count; i++) {
		const struct lock_listed *row = &answer->rows[i];

		if (tally_find(waiter_counts->semaphores, row->name) != NULL)
			continue;
		tally = tally_add(&waiter_counts->semaphores, row->name);
		tally->is_known = row->extra >= 0;
		tally->extra = row->extra > 0 ? (uint64_t)row->extra : 0;
		tally->asked = row->asked;
	}
	events->keep(events->ctx, request->peer, request->number, answer->row_count * ROW_KEPT);
}

void
view_count(struct view *view, uint64_t peer, uint64_t request, const struct lock_answer *answer,
    struct cJSON *list, uint64_t more)
{
	struct waiter_counts *waiter_counts = mem_alloc(sizeof(*waiter_counts));

	waiter_counts->request.free = waiter_counts->request.left = waiter_counts_free;
	waiter_counts->request.ask.heard = counts_heard;
	waiter_counts->request.ask.over = counts_over;
	view_request_begin(view, &waiter_counts->request, peer, request);
	waiter_counts->view = view;
	waiter_counts->list = list;
	waiter_counts->more = more;
	counts_take_rows(waiter_counts, answer);
	view->events.scanned(view->events.ctx, peer, request);
	lock_each_use(view->engine, counts_add, waiter_counts);
	view_ask_begin(view, &waiter_counts->request.ask, DAEMON_MESSAGE_WAITING,
	    queries_message(view->queries, DAEMON_MESSAGE_WAITING, false), true);
	view_ask_check(view, &waiter_counts->request.ask);
}
