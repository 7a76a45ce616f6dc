#include "client/web/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "client/tool/watch.h"
#include "client/web/note.h"
#include "protocol/json.h"

#define REFRESH_MS 1000
/* A lost connection is tried again after the first time, then after twice as long, up to the last one. */
#define RETRY_FIRST_MS 500
#define RETRY_LAST_MS 8000
/* A daemon that is silent for so long is worth a word; and so long, a new connection. */
#define SILENCE_MS 3000
#define SILENCE_LAST_MS 30000
#define ASK_MS 60000

/* Limits of what a daemon can make us keep. */
#define ENTRIES_MOST 20000 /* of a table */
#define ENTRY_MOST 8192    /* bytes of a row or a lock */
#define STATE_MOST 65536   /* bytes of the broker's state, or of all names of silent hosts */
#define ASKS_MOST 32
#define KEY_SIZE 201 /* bytes of a name or an id, with the NUL */

/* A row or a lock, by its id or name; or a member of the state. The pages know it. */
struct entry {
	UT_hash_handle hh;
	char *json;         /* owned; without the age of an object */
	int64_t born;       /* the time at which its age was 0; 0: it has none */
	bool gone;          /* removed once the pages know it */
	bool changed;       /* since the last patch */
	unsigned long seen; /* as in the table when the daemon named it last */
	char key[KEY_SIZE];
};

struct feed_table {
	struct entry *entries; /* owned */
	size_t entry_most;     /* bytes */
	int64_t more;          /* entries that the daemon or this table left out */
	unsigned long seen;    /* grows when the daemon begins to name all again */
	bool known;            /* the daemon has named all; they can be outdated */
};

/* The repeated questions. At most one of each kind is unanswered. */
enum question_kind { QUESTION_WATCH, QUESTION_LIST, QUESTION_PING, QUESTION_KINDS };

struct feed_question {
	int64_t request; /* unanswered; 0: none */
	int64_t due;
	char error[256]; /* of the last answer; "": none */
};

struct ask {
	int64_t request; /* 0: this place is free */
	int64_t deadline;
	feed_answer_fn *answer;
	void *ctx; /* borrowed */
};

struct web_feed {
	const char *path; /* borrowed */
	struct lb *lb;    /* owned */
	bool up;          /* there is a connection */
	char why[256];    /* there is none */
	int64_t retry_at; /* when it is tried again */
	int64_t retry_ms; /* the pause after the next failure */
	int64_t heard_at; /* the last word of the daemon; 0: none yet */
	int pages;
	struct feed_question questions[QUESTION_KINDS];
	struct ask asks[ASKS_MOST];
	struct feed_table rows, locks; /* by id, and by name */
	struct feed_table state;       /* link, broker, silent_hosts and more */
	bool changed;                  /* since the last patch */
};

struct web_feed *
feed_new(const char *path)
{
	struct web_feed *feed = web_alloc(sizeof(*feed));

	feed->path = path;
	feed->lb = web_have(lb_new());
	feed->retry_ms = RETRY_FIRST_MS;
	feed->rows.entry_most = feed->locks.entry_most = ENTRY_MOST;
	feed->state.entry_most = STATE_MOST;
	return feed;
}

struct lb *
feed_handle(const struct web_feed *feed)
{
	return feed->lb;
}

/* ---- tables ---- */

static struct entry *
find(const struct feed_table *table, const char *key)
{
	struct entry *entry;

	HASH_FIND_STR(table->entries, key, entry);
	return entry;
}

static void
table_remove(struct feed_table *table, struct entry *entry)
{
	HASH_DEL(table->entries, entry);
	free(entry->json);
	free(entry);
}

static void
table_clear(struct feed_table *table)
{
	struct entry *entry, *next;

	HASH_ITER (hh, table->entries, entry, next)
		table_remove(table, entry);
	table->known = false;
	table->more = 0;
}

/* Takes value, and frees it. NULL: the table is full, or the entry is too long. */
static struct entry *
table_put(struct web_feed *feed, struct feed_table *table, const char *key, struct cJSON *value)
{
	struct entry *entry = find(table, key);
	char *json = web_have(json_print(value));

	json_free(value);
	if (strlen(key) >= KEY_SIZE || strlen(json) > table->entry_most ||
	    (entry == NULL && HASH_COUNT(table->entries) >= ENTRIES_MOST)) {
		free(json);
		return NULL;
	}
	if (entry == NULL) {
		entry = web_alloc(sizeof(*entry));
		strcpy(entry->key, key);
		HASH_ADD_STR(table->entries, key, entry);
	}
	entry->seen = table->seen;
	if (entry->gone || entry->json == NULL || strcmp(json, entry->json) != 0)
		entry->changed = feed->changed = true;
	entry->gone = false;
	free(entry->json);
	entry->json = json;
	return entry;
}

static void
set_gone(struct web_feed *feed, struct entry *entry)
{
	entry->gone = feed->changed = true;
}

/* The daemon has named all. The other entries are gone. */
static void
table_complete(struct web_feed *feed, struct feed_table *table)
{
	struct entry *entry, *next;

	HASH_ITER (hh, table->entries, entry, next)
		if (entry->seen != table->seen)
			set_gone(feed, entry);
	feed->changed = feed->changed || !table->known;
	table->known = true;
}

/* As the pages are told. */
static void
set_link(struct web_feed *feed, bool up, const char *why)
{
	struct cJSON *link = json_new_object();

	json_add_bool(link, "up", up);
	json_add_string(link, "why", *why != '\0' ? why : NULL);
	table_put(feed, &feed->state, "link", link);
}

/* ---- the connection ---- */

static void
ask_finish(struct ask *ask, int code, const char *json, const char *text)
{
	ask->request = 0;
	ask->answer(ask->ctx, code, json, text);
}

/* The library has no other way to end a connection than with its handle. */
static void
hang_up(struct web_feed *feed)
{
	lb_free(feed->lb);
	feed->lb = web_have(lb_new());
	feed->up = false;
}

static void
set_away(struct web_feed *feed, const char *why, int64_t now)
{
	snprintf(feed->why, sizeof(feed->why), "%s", why);
	hang_up(feed);
	feed->retry_at = now + feed->retry_ms;
	feed->retry_ms = feed->retry_ms * 2 < RETRY_LAST_MS ? feed->retry_ms * 2 : RETRY_LAST_MS;
	set_link(feed, false, feed->why);
	for (size_t i = 0; i < ASKS_MOST; i++)
		if (feed->asks[i].request != 0)
			ask_finish(&feed->asks[i], LB_CLOSED, NULL,
			    "the connection to lockbrokerd ended; the change may have been made");
}

/* Without patience: a daemon that accepts nobody is tried again, as one that is not there. */
static void
connect_now(struct web_feed *feed, int64_t now)
{
	if (lb_connect(feed->lb, feed->path, 0) != LB_OK) {
		set_away(feed, lb_message(feed->lb), now);
		return;
	}
	feed->up = true;
	feed->heard_at = now;
	memset(feed->questions, 0, sizeof(feed->questions));
	set_link(feed, true, "");
}

/* Nobody looks, and no request waits. */
static void
set_idle(struct web_feed *feed)
{
	if (feed->up)
		hang_up(feed);
	feed->retry_ms = RETRY_FIRST_MS;
	feed->retry_at = feed->heard_at = 0;
	table_clear(&feed->rows);
	table_clear(&feed->locks);
	table_clear(&feed->state);
	feed->changed = false;
}

/* ---- answers ---- */

static int64_t
integer_of(const struct cJSON *object, const char *name)
{
	int64_t value;

	return json_integer(json_get(object, name), &value) && value > 0 ? value : 0;
}

/*
 * Mutexes have the member kind, and semaphores get it. A semaphore hides a mutex of the same name: the pages know a
 * lock by its name.
 */
static void
take_locks(struct web_feed *feed, const struct cJSON *list, bool mutexes)
{
	const struct cJSON *lock = json_first(list);
	const struct entry *known;
	struct cJSON *copy;
	const char *name;

	for (; lock != NULL; lock = json_next(lock)) {
		if (!json_is_object(lock) || !json_string(json_get(lock, "name"), &name) ||
		    lb_name_error(name) != NULL)
			continue;
		known = find(&feed->locks, name);
		if (mutexes && known != NULL && known->seen == feed->locks.seen)
			continue;
		copy = json_copy(lock);
		if (!mutexes)
			json_add_string(copy, "kind", "semaphore");
		if (table_put(feed, &feed->locks, name, copy) == NULL)
			feed->locks.more++;
	}
}

static void
take_list(struct web_feed *feed, const struct cJSON *result)
{
	const struct cJSON *semaphores = json_get(result, "semaphores");
	const struct cJSON *silent = json_get(result, "silent_hosts");

	if (!json_is_array(semaphores)) {
		snprintf(feed->questions[QUESTION_LIST].error, sizeof(feed->questions->error),
		    "the daemon's list is invalid");
		return;
	}
	feed->locks.more = integer_of(result, "more");
	feed->locks.seen++;
	take_locks(feed, semaphores, false);
	take_locks(feed, json_get(result, "mutexes"), true);
	table_complete(feed, &feed->locks);
	if (json_is_array(silent))
		table_put(feed, &feed->state, "silent_hosts", json_copy(silent));
}

/* The age of the row is another one when the row is sent. */
static void
take_row(struct web_feed *feed, const struct cJSON *row, int64_t now)
{
	const struct cJSON *member = json_first(row);
	const char *waiter, *state;
	struct cJSON *copy;
	struct entry *entry;
	double age;

	if (!json_is_object(row) || !json_string(json_get(row, "waiter"), &waiter) ||
	    !json_string(json_get(row, "state"), &state))
		return;
	copy = json_new_object();
	for (; member != NULL; member = json_next(member))
		if (strcmp(json_name(member), "age") != 0)
			json_add(copy, json_name(member), json_copy(member));
	entry = table_put(feed, &feed->rows, waiter, copy);
	if (entry == NULL)
		feed->rows.more++;
	else if (json_number(json_get(row, "age"), &age) && age >= 0 && age < 1e9)
		entry->born = now - (int64_t)(age * 1000);
	else
		entry->born = 0;
}

static void
take_notification(struct web_feed *feed, const char *what, const struct cJSON *params, int64_t now)
{
	const char *waiter;
	struct entry *entry;

	if (strcmp(what, "row") == 0) {
		take_row(feed, json_get(params, "row"), now);
	} else if (strcmp(what, "gone") == 0 && json_string(json_get(params, "waiter"), &waiter)) {
		entry = find(&feed->rows, waiter);
		if (entry != NULL)
			set_gone(feed, entry);
	} else if (strcmp(what, "resync") == 0) {
		/* The rows stay on the page until the daemon has named them again, or not. */
		feed->rows.seen++;
	} else if (strcmp(what, "synced") == 0) {
		table_complete(feed, &feed->rows);
		feed->rows.more = integer_of(params, "more");
	}
}

/* The trouble is no reason to end the connection: the other data are right. */
static void
take_answer(struct web_feed *feed, const struct lb_event *event, const struct cJSON *json)
{
	struct feed_question *question = feed->questions;

	for (int kind = 0; kind < QUESTION_KINDS; kind++, question++) {
		if (event->request != question->request)
			continue;
		question->request = 0;
		snprintf(question->error, sizeof(question->error), "%s",
		    event->code != LB_OK ? event->text : "");
		if (event->code == LB_OK && kind == QUESTION_LIST)
			take_list(feed, json);
		if (event->code == LB_OK && json_is_object(json_get(json, "broker")))
			table_put(
			    feed, &feed->state, "broker", json_copy(json_get(json, "broker")));
	}
	for (size_t i = 0; i < ASKS_MOST; i++) {
		if (feed->asks[i].request != event->request)
			continue;
		/* It can have changed a lock. */
		feed->questions[QUESTION_LIST].due = 0;
		ask_finish(&feed->asks[i], event->code, event->json, event->text);
	}
}

static void
heed_events(struct web_feed *feed, int64_t now)
{
	const struct lb_event *event;
	struct json_error error;
	struct cJSON *json;
	char more[24];

	while ((event = lb_event_next(feed->lb)) != NULL) {
		if (event->type == LB_EVENT_CLOSED) {
			set_away(feed, event->text, now);
			continue;
		}
		json = json_parse(event->json, strlen(event->json), &error);
		if (json == NULL && error.no_memory)
			web_have(NULL);
		feed->heard_at = now;
		feed->retry_ms = RETRY_FIRST_MS;
		if (event->type == LB_EVENT_ANSWERED)
			take_answer(feed, event, json);
		else if (event->type == LB_EVENT_WATCH &&
			 event->request == feed->questions[QUESTION_WATCH].request)
			take_notification(feed, event->reason, json, now);
		json_free(json);
	}
	if (!feed->up)
		return;
	snprintf(more, sizeof(more), "%lld", (long long)(feed->rows.more + feed->locks.more));
	table_put(feed, &feed->state, "more", json_new_text(more));
}

/* ---- asking ---- */

/* Without pages, only a daemon that is silent must show that it lives. */
static void
ask_questions(struct web_feed *feed, int64_t now)
{
	static const char *const methods[] = {"watch", "list", "ping"};
	static const char *const params[] = {NULL, NULL, "{\"broker\":true}"};
	bool silent = now - feed->heard_at >= REFRESH_MS;
	struct feed_question *question = feed->questions;

	for (int kind = 0; kind < QUESTION_KINDS; kind++, question++) {
		if (question->request != 0 || now < question->due ||
		    (feed->pages == 0 && !(silent && kind == QUESTION_PING)))
			continue;
		if (kind == QUESTION_WATCH)
			feed->rows.seen++;
		question->due = now + REFRESH_MS;
		/* If the connection has ended, its event says so. */
		if (lb_call_start(feed->lb, methods[kind], params[kind], &question->request) !=
		    LB_OK)
			question->request = 0;
	}
}

void
feed_ask(struct web_feed *feed, const char *method, const char *params, feed_answer_fn *answer,
    void *ctx)
{
	struct ask *ask = feed->asks;
	int64_t now = watch_now();
	int code;

	while (ask < feed->asks + ASKS_MOST && ask->request != 0)
		ask++;
	if (ask == feed->asks + ASKS_MOST) {
		answer(ctx, LB_TOO_MANY_REQUESTS, NULL,
		    "too many requests wait for lockbrokerd; try again later");
		return;
	}
	if (!feed->up && now >= feed->retry_at)
		connect_now(feed, now);
	if (!feed->up) {
		answer(ctx, LB_NO_DAEMON, NULL, feed->why);
		return;
	}
	*ask = (struct ask){.deadline = now + ASK_MS, .answer = answer, .ctx = ctx};
	code = lb_call_start(feed->lb, method, params, &ask->request);
	if (code != LB_OK)
		ask_finish(ask, code, NULL, lb_message(feed->lb));
}

/* Whether a request waits. Ends those that are late: the daemon's answer comes too late, then. */
static bool
end_late_asks(struct web_feed *feed, int64_t now)
{
	bool left = false;

	for (struct ask *ask = feed->asks; ask < feed->asks + ASKS_MOST; ask++) {
		if (ask->request != 0 && now >= ask->deadline) {
			ask_finish(ask,
			    lb_cancel(feed->lb, ask->request) == LB_OK ? LB_DEADLINE : LB_CLOSED,
			    NULL,
			    "lockbrokerd has not answered in time; the change may have been made");
		}
		left = left || ask->request != 0;
	}
	return left;
}

static void
note_state(struct web_feed *feed, int64_t now)
{
	const char *why = "";
	char silence[80];

	for (int kind = 0; kind < QUESTION_KINDS && *why == '\0'; kind++)
		why = feed->questions[kind].error;
	if (now - feed->heard_at >= SILENCE_LAST_MS) {
		set_away(feed, "lockbrokerd does not answer", now);
	} else if (now - feed->heard_at >= SILENCE_MS) {
		snprintf(silence, sizeof(silence), "lockbrokerd has not answered for %lld s",
		    (long long)(now - feed->heard_at) / 1000);
		set_link(feed, false, silence);
	} else {
		set_link(feed, true, why);
	}
}

int64_t
feed_turn(struct web_feed *feed, int64_t now)
{
	heed_events(feed, now);
	if (!end_late_asks(feed, now) && feed->pages == 0) {
		set_idle(feed);
		return WATCH_NEVER;
	}
	if (!feed->up && now >= feed->retry_at)
		connect_now(feed, now);
	if (!feed->up)
		return feed->retry_at;
	ask_questions(feed, now);
	note_state(feed, now);
	return now + REFRESH_MS / 4;
}

void
feed_look(struct web_feed *feed, int pages)
{
	feed->pages += pages;
}

/* ---- patches ---- */

bool
feed_changed(const struct web_feed *feed)
{
	return feed->changed;
}

static void
write_entry(FILE *out, const struct entry *entry, int64_t now)
{
	if (entry->born != 0)
		fprintf(
		    out, "{\"age\":%.3f,%s", (double)(now - entry->born) / 1000, entry->json + 1);
	else
		fputs(entry->json, out);
}

/* Members of the patch: entries as a list of their texts, then the keys of those that are gone. */
static void
write_list(FILE *out, struct feed_table *table, const char *name, bool whole, int64_t now)
{
	struct cJSON *gone = json_new_array();
	struct entry *entry, *next;
	const char *comma = "";
	char *keys;

	fprintf(out, ",\"%s\":[", name);
	HASH_ITER (hh, table->entries, entry, next) {
		/* A row that changed is shown, even if its end comes with the same patch. */
		if (whole ? !entry->gone : entry->changed) {
			fputs(comma, out);
			comma = ",";
			write_entry(out, entry, now);
		}
		if (whole)
			continue;
		entry->changed = false;
		if (entry->gone) {
			json_append_string(gone, entry->key);
			table_remove(table, entry);
		}
	}
	keys = web_have(json_print(gone));
	fputc(']', out);
	if (json_first(gone) != NULL)
		fprintf(out, ",\"%s_gone\":%s", name, keys);
	free(keys);
	json_free(gone);
}

char *
feed_patch(struct web_feed *feed, bool whole, int64_t now, size_t *ret_len)
{
	char *text = NULL;
	FILE *out = web_have(open_memstream(&text, ret_len));
	struct entry *entry = find(&feed->state, "link"), *next;

	if (entry != NULL)
		entry->born = feed->heard_at;
	fprintf(out, "event: patch\ndata: {\"reset\":%s", whole ? "true" : "false");
	HASH_ITER (hh, feed->state.entries, entry, next) {
		if (whole || entry->changed) {
			fprintf(out, ",\"%s\":", entry->key);
			write_entry(out, entry, now);
		}
		entry->changed = entry->changed && whole;
	}
	if (feed->locks.known)
		write_list(out, &feed->locks, "locks", whole, now);
	if (feed->rows.known)
		write_list(out, &feed->rows, "rows", whole, now);
	fputs("}\n\n", out);
	if (fclose(out) != 0)
		web_have(NULL);
	feed->changed = feed->changed && whole;
	return text;
}

void
feed_end(struct web_feed *feed)
{
	set_away(feed, "lockbroker-web stops", watch_now());
}

void
feed_free(struct web_feed *feed)
{
	set_idle(feed);
	lb_free(feed->lb);
	free(feed);
}
