#include "daemon/view/row.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/view/queries.h"
#include "daemon/view/wire.h"
#include "protocol/json.h"
#include "protocol/lockname.h"
#include "protocol/methods.h"

/*
 * Contents:
 *	Making: row_new(): a row of the engine as JSON; row_unknown(): a slot without one.
 *	Checking: row_is_sane(): whether a daemon could have made that row.
 *	Reading: row_*(): members of a row, and whether two rows are equal.
 *	Our own rows: view_row(): a row of this daemon.
 *	A walk: walk_*(): goes through the rows of this daemon in steps.
 */

/* A fencing number is smaller than 2^53. */
#define FENCE_MOST ((INT64_C(1) << 53) - 1)

/* ---- making ---- */

static void
row_add_id(struct cJSON *row, const char *name, uint32_t run, uint64_t number)
{
	char id[WIRE_ID_SIZE];

	if (number == 0)
		json_add_null(row, name);
	else
		json_add_string(row, name, wire_id_write(id, run, number));
}

/* Counted from 1; 0 is none. */
static void
row_add_place(struct cJSON *row, const char *name, int place)
{
	if (place > 0)
		json_add_integer(row, name, place);
	else
		json_add_null(row, name);
}

static void
row_add_since(struct cJSON *row, const struct row_facts *facts, int64_t since)
{
	int64_t age = facts->now > since ? facts->now - since : 0;
	time_t seconds = (time_t)((facts->wall - age) / NSEC_PER_SEC);
	char text[32];
	struct tm tm;

	gmtime_r(&seconds, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	json_add_string(row, "since", text);
	json_add_seconds(row, "age", age);
}

struct cJSON *
row_new(const struct row_facts *facts, const struct lock_row *source)
{
	struct cJSON *row = json_new_object();

	row_add_id(row, "waiter", facts->run, source->waiter);
	row_add_id(row, "lock", facts->run, source->lock);
	json_add_string(row, "state", lock_row_word(source->state));
	json_add_string(row, "name", source->name);
	json_add_string(row, "kind", lock_kind_word(source->kind));
	row_add_place(row, "slot", source->slot);
	row_add_place(row, "position", source->position);
	if (source->lock == 0)
		json_add_integer(row, "priority", source->priority);
	else
		json_add_null(row, "priority");
	json_add_string(row, "who", source->who);
	json_add_string(row, "why", source->why);
	json_add_string(row, "command", source->command);
	json_add_string(row, "host", facts->host);
	json_add_integer(row, "uid", source->uid);
	json_add_integer(row, "pid", source->pid);
	row_add_since(row, facts, source->since);
	json_add_bool(row, "revoked", source->revoked);
	json_add_bool(row, "evicted", source->evicted);
	json_add_bool(row, "unknown", false);
	if (source->fence == 0)
		json_add_null(row, "fence");
	else
		json_add_integer(row, "fence", (int64_t)source->fence);
	return row;
}

struct cJSON *
row_unknown(const char *name, int slot)
{
	static const char *const not_known[] = {
	    "position", "priority", "who", "why", "command", "host", "uid", "pid", "since", "age"};
	struct cJSON *row = json_new_object();

	json_add_null(row, "waiter");
	json_add_null(row, "lock");
	json_add_string(row, "state", lock_row_word(LOCK_ROW_BUSY));
	json_add_string(row, "name", name);
	json_add_string(
	    row, "kind", lock_kind_word(slot > 0 ? LOCK_KIND_SEMAPHORE : LOCK_KIND_MUTEX));
	row_add_place(row, "slot", slot);
	for (size_t i = 0; i < sizeof(not_known) / sizeof(not_known[0]); i++)
		json_add_null(row, not_known[i]);
	json_add_bool(row, "revoked", false);
	json_add_bool(row, "evicted", false);
	json_add_bool(row, "unknown", true);
	json_add_null(row, "fence");
	return row;
}

/* ---- checking ---- */

static bool
row_is_id(const struct cJSON *value, uint32_t run)
{
	const char *text;
	uint64_t number;
	uint32_t its;

	if (!json_string(value, &text) || !wire_id_parse(text, &its, &number) || number == 0)
		return false;
	FAULT(ROW_OF_ANOTHER, return true);
	return its == run;
}

static bool
row_is_word(const struct cJSON *value, const char *const *words)
{
	const char *text;

	if (!json_string(value, &text))
		return false;
	while (*words != NULL && strcmp(*words, text) != 0)
		words++;
	return *words != NULL;
}

static bool
row_is_integer(const struct cJSON *value, int64_t min, int64_t max)
{
	int64_t integer;

	return json_integer(value, &integer) && integer >= min && integer <= max;
}

static bool
row_is_words_or_null(const struct cJSON *value)
{
	const char *text;

	return json_is_null(value) ||
	       (json_string(value, &text) && strlen(text) <= METHODS_WORDS_MAX);
}

/* "2026-01-31T23:59:59Z" */
static bool
row_is_time(const struct cJSON *value)
{
	static const char form[] = "0000-00-00T00:00:00Z";
	const char *text;

	if (!json_string(value, &text) || strlen(text) != strlen(form))
		return false;
	for (size_t i = 0; form[i] != '\0'; i++) {
		bool digit = text[i] >= '0' && text[i] <= '9';

		if (form[i] == '0' ? !digit : text[i] != form[i])
			return false;
	}
	return true;
}

static bool
row_is_age(const struct cJSON *value)
{
	double age;

	return json_number(value, &age) && age >= 0;
}

static bool
row_is_named(const struct cJSON *row)
{
	const char *name;

	return json_string(json_get(row, "name"), &name) &&
	       lockname_error(name, strlen(name)) == NULL &&
	       row_is_word(json_get(row, "kind"), lock_kind_words);
}

/* Where it stands: in the line, or with a hold. */
static bool
row_is_placed(const struct cJSON *row, uint32_t run)
{
	static const char *const holding[] = {"busy", "granted", NULL};
	static const char *const waiting[] = {"waiting", NULL};
	const struct cJSON *state = json_get(row, "state"), *slot = json_get(row, "slot");

	if (row_is_word(state, waiting))
		return json_is_null(json_get(row, "lock")) && json_is_null(slot) &&
		       row_is_integer(json_get(row, "position"), 1, INT32_MAX) &&
		       row_is_integer(json_get(row, "priority"), -METHODS_PRIORITY_MOST,
			   METHODS_PRIORITY_MOST);
	return row_is_word(state, holding) && row_is_id(json_get(row, "lock"), run) &&
	       (json_is_null(slot) || row_is_integer(slot, 1, METHODS_SLOTS_MAX)) &&
	       json_is_null(json_get(row, "position")) && json_is_null(json_get(row, "priority"));
}

/* A daemon of version 0.1.0 sends neither `fence` nor `evicted`. */
static bool
row_is_fence_or_null(const struct cJSON *value)
{
	return value == NULL || json_is_null(value) || row_is_integer(value, 1, FENCE_MOST);
}

bool
row_is_sane(const struct cJSON *row, uint32_t run, const char *host)
{
	const char *its_host;
	const struct cJSON *evicted = json_get(row, "evicted");
	bool flag, unknown;

	return json_is_object(row) && row_is_id(json_get(row, "waiter"), run) &&
	       row_is_placed(row, run) && row_is_named(row) &&
	       row_is_words_or_null(json_get(row, "who")) &&
	       row_is_words_or_null(json_get(row, "why")) &&
	       row_is_words_or_null(json_get(row, "command")) &&
	       json_string(json_get(row, "host"), &its_host) && strcmp(its_host, host) == 0 &&
	       row_is_integer(json_get(row, "uid"), 0, UINT32_MAX) &&
	       row_is_integer(json_get(row, "pid"), 0, INT32_MAX) &&
	       row_is_time(json_get(row, "since")) && row_is_age(json_get(row, "age")) &&
	       json_bool(json_get(row, "revoked"), &flag) &&
	       (evicted == NULL || json_bool(evicted, &flag)) &&
	       row_is_fence_or_null(json_get(row, "fence")) &&
	       json_bool(json_get(row, "unknown"), &unknown) && !unknown;
}

static bool
row_flag(const struct cJSON *row, const char *name)
{
	bool flag = false;

	json_bool(json_get(row, name), &flag);
	return flag;
}

struct cJSON *
row_copy(const struct cJSON *row)
{
	static const char *const members[] = {"waiter", "lock", "state", "name", "kind", "slot",
	    "position", "priority", "who", "why", "command", "host", "uid", "pid", "since", "age",
	    "revoked"};
	struct cJSON *copy = json_new_object();

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		json_add(copy, members[i], json_copy_clean(json_get(row, members[i])));
	json_add_bool(copy, "evicted", row_flag(row, "evicted"));
	json_add_bool(copy, "unknown", row_flag(row, "unknown"));
	if (json_get(row, "fence") == NULL)
		json_add_null(copy, "fence");
	else
		json_add(copy, "fence", json_copy_clean(json_get(row, "fence")));
	return copy;
}

/* ---- reading ---- */

static const char *
row_text(const struct cJSON *row, const char *name)
{
	const char *text = "";

	json_string(json_get(row, name), &text);
	return text;
}

const char *
row_waiter(const struct cJSON *row)
{
	return row_text(row, "waiter");
}

const char *
row_name(const struct cJSON *row)
{
	return row_text(row, "name");
}

int
row_slot(const struct cJSON *row)
{
	int64_t slot = 0;

	json_integer(json_get(row, "slot"), &slot);
	return (int)slot;
}

int
row_takes(const struct cJSON *row)
{
	bool mutex = strcmp(row_text(row, "kind"), lock_kind_word(LOCK_KIND_MUTEX)) == 0;
	int slot = row_slot(row);

	if (slot > 0)
		return slot;
	return mutex && strcmp(row_text(row, "state"), lock_row_word(LOCK_ROW_BUSY)) == 0 ? 0 : -1;
}

bool
row_waits(const struct cJSON *row)
{
	return strcmp(row_text(row, "state"), lock_row_word(LOCK_ROW_WAITING)) == 0;
}

bool
row_same(const struct cJSON *a, const struct cJSON *b)
{
	/* The rest is of the acquire, and stays. */
	return strcmp(row_text(a, "state"), row_text(b, "state")) == 0 &&
	       strcmp(row_text(a, "lock"), row_text(b, "lock")) == 0 &&
	       row_slot(a) == row_slot(b) && row_flag(a, "revoked") == row_flag(b, "revoked") &&
	       row_flag(a, "evicted") == row_flag(b, "evicted");
}

/* ---- our own rows ---- */

struct cJSON *
view_row(const struct view *view, const struct lock_row *source)
{
	const struct row_facts facts = {.run = view->run,
	    .host = view->host,
	    .now = view_now(view),
	    .wall = clock_now(&clock_wall)};

	return row_new(&facts, source);
}

/* ---- a walk ---- */

struct walk_row {
	uint64_t waiter, lock;
};

static void
walk_note(void *ctx, const struct lock_row *row)
{
	struct walk *walk = ctx;

	if (walk->count == walk->room) {
		walk->room *= 2;
		walk->rows = mem_grow(walk->rows, walk->room, sizeof(*walk->rows));
	}
	walk->rows[walk->count++] = (struct walk_row){row->waiter, row->lock};
}

void
walk_begin(struct walk *walk, const struct lock_engine *engine, const char *name)
{
	*walk = (struct walk){.name = name, .room = 16};
	walk->rows = mem_grow(NULL, walk->room, sizeof(*walk->rows));
	if (name == NULL)
		lock_each(engine, NULL, walk_note, walk);
	else
		lock_each_holding(engine, name, walk_note, walk);
}

size_t
walk_size(const struct walk *walk)
{
	return walk->room * sizeof(*walk->rows);
}

bool
walk_next(struct walk *walk, const struct lock_engine *engine, struct lock_row *ret)
{
	while (walk->next < walk->count) {
		const struct walk_row *row = &walk->rows[walk->next++];

		if (lock_row_find(engine, row->waiter, row->lock, ret))
			return true;
	}
	return walk->name != NULL && lock_next_waiting(engine, walk->name, &walk->place, ret);
}

void
walk_end(struct walk *walk)
{
	free(walk->rows);
	*walk = (struct walk){.count = 0};
}
