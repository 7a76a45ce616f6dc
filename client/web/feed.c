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
/* A connection that nobody needs ends after this time. */
#define LINGER_MS 1000
#define ASK_MS 60000
/* A cancelled request still has so long to end. */
#define CANCEL_MS 5000

/* Limits of what a daemon can make us keep. */
#define ENTRIES_MOST 20000 /* of a table */
#define ENTRY_MOST 8192    /* bytes of a row or a lock */
#define TEXT_MOST 65536    /* bytes of the broker's state, or of all names of silent hosts */
#define ASKS_MOST 32
#define KEY_SIZE 201 /* bytes of a name or an id, with the NUL */

/* A row or a lock, by its id or name. */
struct entry {
	UT_hash_handle hh;
	char *json;         /* owned; without the number of its age */
	size_t age_at;      /* the place of that number; 0: it has none */
	int64_t born;       /* the time at which its age was 0 */
	bool gone;          /* removed once the pages know it */
	bool changed;       /* since the last patch */
	bool cancelled;     /* a row whose request ended without a hold */
	unsigned long seen; /* as in the table when the daemon named it last */
	char key[KEY_SIZE];
};

struct table {
	struct entry *entries; /* owned */
	unsigned long seen;    /* grows when the daemon begins to name all again */
	bool known;            /* the daemon has named all; they can be outdated */
	bool told;             /* so do the pages */
};

/* A repeated question. At most one of each is unanswered. */
struct question {
	int64_t request; /* unanswered; 0: none */
	int64_t due;
	char error[256]; /* of the last answer; "": none */
};

struct ask {
	int64_t request; /* 0: this place is free */
	int64_t deadline;
	bool withdrawn;
	feed_answer_fn *answer;
	void *ctx; /* borrowed */
};

enum feed_state {
	FEED_IDLE, /* nobody looks: no connection, empty tables */
	FEED_AWAY, /* a page looks, and the connection failed: the next try is at retry_at */
	FEED_UP
};

struct feed {
	const char *path; /* borrowed */
	struct lb *lb;    /* owned */
	enum feed_state state;
	int64_t retry_at, retry_ms;
	int64_t heard_at; /* the last word of the daemon; 0: none yet */
	int64_t idle_at;  /* the last time at which somebody needed the connection */
	int pages;
	struct question watch, list, ping;
	struct ask asks[ASKS_MOST];

	struct table rows, locks;
	char *broker; /* owned JSON; NULL: unknown */
	char *silent; /* owned JSON: names of hosts; NULL: unknown */
	int64_t rows_more, locks_more;

	bool up; /* as the pages are told */
	char why[256];
	bool changed, link_changed, broker_changed, hosts_changed;
};

struct feed *
feed_new(const char *path)
{
	struct feed *feed = web_alloc(sizeof(*feed));

	feed->path = path;
	feed->lb = web_have(lb_new());
	feed->retry_ms = RETRY_FIRST_MS;
	return feed;
}

struct lb *
feed_handle(const struct feed *feed)
{
	return feed->lb;
}

/* ---- tables ---- */

static struct entry *
find(const struct table *table, const char *key)
{
	struct entry *entry;

	HASH_FIND_STR(table->entries, key, entry);
	return entry;
}

static void
table_remove(struct table *table, struct entry *entry)
{
	HASH_DEL(table->entries, entry);
	free(entry->json);
	free(entry);
}

static void
table_clear(struct table *table)
{
	struct entry *entry, *next;

	HASH_ITER (hh, table->entries, entry, next)
		table_remove(table, entry);
	table->known = table->told = false;
}

/* Takes json. NULL: the table is full, or the entry is too long. */
static struct entry *
table_put(struct feed *feed, struct table *table, const char *key, char *json)
{
	struct entry *entry = find(table, key);

	if (strlen(key) >= KEY_SIZE || strlen(json) > ENTRY_MOST ||
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
	if (!entry->gone && entry->json != NULL && strcmp(json, entry->json) == 0) {
		free(json);
		return entry;
	}
	free(entry->json);
	entry->json = json;
	entry->gone = false;
	entry->changed = feed->changed = true;
	return entry;
}

static void
set_gone(struct feed *feed, struct entry *entry)
{
	entry->gone = entry->changed = feed->changed = true;
}

/* The daemon has named all. The other entries are gone. */
static void
table_complete(struct feed *feed, struct table *table)
{
	struct entry *entry, *next;

	HASH_ITER (hh, table->entries, entry, next)
		if (entry->seen != table->seen && !entry->gone)
			set_gone(feed, entry);
	table->known = true;
	feed->changed = feed->changed || !table->told;
}

static void
set_text(char **place, char *json, bool *changed, struct feed *feed)
{
	if (json == NULL || strlen(json) > TEXT_MOST ||
	    (*place != NULL && strcmp(*place, json) == 0)) {
		free(json);
		return;
	}
	free(*place);
	*place = json;
	*changed = feed->changed = true;
}

static void
set_link(struct feed *feed, bool up, const char *why)
{
	if (feed->up == up && strcmp(feed->why, why) == 0)
		return;
	feed->up = up;
	snprintf(feed->why, sizeof(feed->why), "%s", why);
	feed->link_changed = feed->changed = true;
}

/* ---- the connection ---- */

static void
ask_finish(struct ask *ask, int code, const char *json, const char *text)
{
	ask->request = 0;
	ask->answer(ask->ctx, code, json, text);
}

static void
set_away(struct feed *feed, const char *why, int64_t now)
{
	feed->state = FEED_AWAY;
	feed->retry_at = now + feed->retry_ms;
	feed->retry_ms = feed->retry_ms * 2 < RETRY_LAST_MS ? feed->retry_ms * 2 : RETRY_LAST_MS;
	feed->watch = feed->list = feed->ping = (struct question){.request = 0};
	set_link(feed, false, why);
	for (size_t i = 0; i < ASKS_MOST; i++)
		if (feed->asks[i].request != 0)
			ask_finish(&feed->asks[i], LB_CLOSED, NULL,
			    "the connection to lockbrokerd ended; the change may have been made");
}

/* The library has no other way to end a connection than with its handle. */
static void
hang_up(struct feed *feed)
{
	lb_free(feed->lb);
	feed->lb = web_have(lb_new());
}

static void
connect_now(struct feed *feed, int64_t now)
{
	char why[256];

	/* Without patience: a daemon that accepts nobody is tried again, as one that is not there. */
	if (lb_connect(feed->lb, feed->path, 0) != LB_OK) {
		snprintf(why, sizeof(why), "%s", lb_message(feed->lb));
		set_away(feed, why, now);
		return;
	}
	feed->state = FEED_UP;
	feed->heard_at = feed->idle_at = now;
	feed->rows.seen++;
	set_link(feed, true, "");
}

static void
set_idle(struct feed *feed)
{
	if (feed->state == FEED_UP)
		hang_up(feed);
	feed->state = FEED_IDLE;
	feed->retry_ms = RETRY_FIRST_MS;
	feed->heard_at = 0;
	feed->watch = feed->list = feed->ping = (struct question){.request = 0};
	table_clear(&feed->rows);
	table_clear(&feed->locks);
	free(feed->broker);
	free(feed->silent);
	feed->broker = feed->silent = NULL;
	feed->rows_more = feed->locks_more = 0;
	feed->changed = false;
	feed->up = false;
	feed->why[0] = '\0';
}

static bool
is_asked(const struct feed *feed)
{
	for (size_t i = 0; i < ASKS_MOST; i++)
		if (feed->asks[i].request != 0)
			return true;
	return false;
}

/* ---- answers ---- */

static char *
printed(const struct cJSON *value)
{
	return value == NULL ? NULL : web_have(json_print(value));
}

static int64_t
integer_of(const struct cJSON *object, const char *name)
{
	int64_t value;

	return json_integer(json_get(object, name), &value) && value > 0 ? value : 0;
}

static void
set_more(struct feed *feed, int64_t *place, int64_t more)
{
	if (*place != more)
		feed->hosts_changed = feed->changed = true;
	*place = more;
}

/*
 * Mutexes have the member kind, and semaphores get it. A semaphore hides a mutex of the same name: the pages know a
 * lock by its name.
 */
static void
take_locks(struct feed *feed, const struct cJSON *list, bool mutexes, int64_t *more)
{
	const struct cJSON *lock = json_first(list);
	const struct entry *known;
	char *plain, *json;
	const char *name;

	for (; lock != NULL; lock = json_next(lock)) {
		if (!json_is_object(lock) || !json_string(json_get(lock, "name"), &name) ||
		    lb_name_error(name) != NULL)
			continue;
		known = find(&feed->locks, name);
		if (mutexes && known != NULL && known->seen == feed->locks.seen)
			continue;
		plain = json = printed(lock);
		if (!mutexes && asprintf(&json, "{\"kind\":\"semaphore\",%s", plain + 1) < 0)
			web_have(NULL);
		if (!mutexes)
			free(plain);
		*more += table_put(feed, &feed->locks, name, json) == NULL;
	}
}

static void
take_list(struct feed *feed, const struct cJSON *result)
{
	int64_t more = integer_of(result, "more");
	const struct cJSON *semaphores = json_get(result, "semaphores");

	if (!json_is_array(semaphores)) {
		snprintf(
		    feed->list.error, sizeof(feed->list.error), "the daemon's list is invalid");
		return;
	}
	feed->locks.seen++;
	take_locks(feed, semaphores, false, &more);
	take_locks(feed, json_get(result, "mutexes"), true, &more);
	table_complete(feed, &feed->locks);
	set_more(feed, &feed->locks_more, more);
	set_text(
	    &feed->silent, printed(json_get(result, "silent_hosts")), &feed->hosts_changed, feed);
}

/*
 * Takes the number out of the text: it is another one when the text is sent. Quotes inside strings have an
 * escape.
 */
static size_t
cut_age(char *json)
{
	static const char name[] = "\"age\":";
	char *at = strstr(json, name);
	size_t len;

	if (at == NULL)
		return 0;
	at += sizeof(name) - 1;
	len = strcspn(at, ",}");
	memmove(at, at + len, strlen(at + len) + 1);
	return (size_t)(at - json);
}

static void
take_row(struct feed *feed, const struct cJSON *row, int64_t now)
{
	const char *waiter, *state;
	struct entry *entry;
	size_t age_at;
	double age;
	char *json;

	if (!json_is_object(row) || !json_string(json_get(row, "waiter"), &waiter) ||
	    !json_string(json_get(row, "state"), &state))
		return;
	json = printed(row);
	age_at =
	    json_number(json_get(row, "age"), &age) && age >= 0 && age < 1e9 ? cut_age(json) : 0;
	entry = table_put(feed, &feed->rows, waiter, json);
	if (entry == NULL) {
		set_more(feed, &feed->rows_more, feed->rows_more + 1);
		return;
	}
	entry->age_at = age_at;
	entry->born = age_at > 0 ? now - (int64_t)(age * 1000) : 0;
	entry->cancelled = strcmp(state, "cancelled") == 0;
}

static void
take_notification(struct feed *feed, const char *what, const struct cJSON *params, int64_t now)
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
		set_more(feed, &feed->rows_more, integer_of(params, "more"));
	}
}

/* The trouble is no reason to end the connection: the other data are right. */
static void
question_answered(struct question *question, const struct lb_event *event)
{
	question->request = 0;
	question->error[0] = '\0';
	if (event->code != LB_OK)
		snprintf(question->error, sizeof(question->error), "%s", event->text);
}

static void
take_answer(struct feed *feed, const struct lb_event *event, const struct cJSON *json, int64_t now)
{
	if (event->request == feed->list.request) {
		question_answered(&feed->list, event);
		if (event->code == LB_OK)
			take_list(feed, json);
	} else if (event->request == feed->ping.request) {
		question_answered(&feed->ping, event);
		if (event->code == LB_OK)
			set_text(&feed->broker, printed(json_get(json, "broker")),
			    &feed->broker_changed, feed);
	} else if (event->request == feed->watch.request) {
		/* It has no result: the daemon refused or ended it. */
		question_answered(&feed->watch, event);
		feed->watch.due = now + SILENCE_MS;
		feed->rows.seen++;
	}
	for (size_t i = 0; i < ASKS_MOST; i++) {
		if (feed->asks[i].request != event->request)
			continue;
		ask_finish(&feed->asks[i], event->code, event->json, event->text);
		/* It can have changed a lock. */
		feed->list.due = now;
	}
}

static void
heed_events(struct feed *feed, int64_t now)
{
	const struct lb_event *event;
	struct json_error error;
	struct cJSON *json;

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
			take_answer(feed, event, json, now);
		else if (event->type == LB_EVENT_WATCH && event->request == feed->watch.request)
			take_notification(feed, event->reason, json, now);
		json_free(json);
	}
}

/* ---- asking ---- */

/* When the connection has ended, its event says so. */
static int64_t
ask(struct feed *feed, const char *method, const char *params)
{
	int64_t request;

	return lb_call_start(feed->lb, method, params, &request) == LB_OK ? request : 0;
}

/* Each only when its last answer has come. Without pages, only a daemon that is silent must show that it lives. */
static void
ask_questions(struct feed *feed, int64_t now)
{
	if (feed->pages > 0 && feed->watch.request == 0 && now >= feed->watch.due)
		feed->watch.request = ask(feed, "watch", NULL);
	if (feed->pages > 0 && feed->list.request == 0 && now >= feed->list.due) {
		feed->list.request = ask(feed, "list", NULL);
		feed->list.due = now + REFRESH_MS;
	}
	if (feed->pages == 0 && now - feed->heard_at < REFRESH_MS)
		return;
	if (feed->ping.request == 0 && now >= feed->ping.due) {
		feed->ping.request = ask(feed, "ping", "{\"broker\":true}");
		feed->ping.due = now + REFRESH_MS;
	}
}

bool
feed_ask_start(struct feed *feed, const char *method, const char *params, feed_answer_fn *answer,
    void *ctx, struct feed_failure *ret_failure)
{
	struct ask *place = feed->asks;
	int64_t now = watch_now();

	while (place < feed->asks + ASKS_MOST && place->request != 0)
		place++;
	*ret_failure = (struct feed_failure){.code = LB_TOO_MANY_REQUESTS,
	    .text = "too many requests wait for lockbrokerd; try again later"};
	if (place == feed->asks + ASKS_MOST)
		return false;
	if (feed->state == FEED_IDLE)
		connect_now(feed, now);
	if (feed->state != FEED_UP) {
		ret_failure->code = LB_NO_DAEMON;
		snprintf(ret_failure->text, sizeof(ret_failure->text), "%s", feed->why);
		return false;
	}
	*place = (struct ask){.deadline = now + ASK_MS, .answer = answer, .ctx = ctx};
	ret_failure->code = lb_call_start(feed->lb, method, params, &place->request);
	if (ret_failure->code == LB_OK)
		return true;
	snprintf(ret_failure->text, sizeof(ret_failure->text), "%s", lb_message(feed->lb));
	place->request = 0;
	return false;
}

static void
end_late_asks(struct feed *feed, int64_t now)
{
	for (struct ask *late = feed->asks; late < feed->asks + ASKS_MOST; late++) {
		if (late->request == 0 || now < late->deadline)
			continue;
		if (!late->withdrawn && lb_cancel(feed->lb, late->request) == LB_OK) {
			late->withdrawn = true;
			late->deadline = now + CANCEL_MS;
		} else {
			ask_finish(late, LB_DEADLINE, NULL,
			    "lockbrokerd has not answered; the change may have been made");
		}
	}
}

static void
note_state(struct feed *feed, int64_t now)
{
	const char *why = feed->watch.error;
	char silence[80];

	if (*why == '\0')
		why = *feed->list.error != '\0' ? feed->list.error : feed->ping.error;
	if (now - feed->heard_at >= SILENCE_LAST_MS) {
		hang_up(feed);
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
feed_turn(struct feed *feed, int64_t now)
{
	bool asked;

	heed_events(feed, now);
	end_late_asks(feed, now);
	asked = is_asked(feed);
	if (feed->pages > 0 || asked)
		feed->idle_at = now;
	if (feed->pages == 0 && !asked) {
		if (feed->state == FEED_UP && now - feed->idle_at < LINGER_MS)
			return feed->idle_at + LINGER_MS;
		if (feed->state != FEED_IDLE)
			set_idle(feed);
		return WATCH_NEVER;
	}
	if (feed->state == FEED_IDLE || (feed->state == FEED_AWAY && now >= feed->retry_at))
		connect_now(feed, now);
	if (feed->state != FEED_UP)
		return feed->retry_at;
	ask_questions(feed, now);
	note_state(feed, now);
	return now + REFRESH_MS / 4;
}

void
feed_look(struct feed *feed, int pages)
{
	feed->pages += pages;
}

/* ---- patches ---- */

bool
feed_changed(const struct feed *feed)
{
	return feed->changed;
}

/* Writes one member of an object; *count: how many it has. */
static void
member(FILE *out, int *count, const char *name, const char *json)
{
	fprintf(out, "%s\"%s\":%s", (*count)++ > 0 ? "," : "", name, json);
}

static void
write_link(const struct feed *feed, FILE *out, int *count, int64_t now)
{
	struct cJSON *link = json_new_object();
	char *json;

	json_add_bool(link, "up", feed->up);
	json_add_string(link, "why", *feed->why != '\0' ? feed->why : NULL);
	if (feed->heard_at == 0)
		json_add_null(link, "age");
	else
		json_add_seconds(link, "age", (now - feed->heard_at) * INT64_C(1000000));
	json = printed(link);
	member(out, count, "link", json);
	free(json);
	json_free(link);
}

/* Entries as a list of their texts. */
static void
write_entries(
    const struct table *table, FILE *out, int *count, const char *name, bool whole, int64_t now)
{
	const struct entry *entry, *next;
	int entries = 0;

	if (!table->known)
		return;
	HASH_ITER (hh, table->entries, entry, next) {
		/* A request that was cancelled is shown, even if its end came with the same patch. */
		if (whole ? entry->gone : !entry->changed || (entry->gone && !entry->cancelled))
			continue;
		if (entries++ == 0)
			member(out, count, name, "[");
		fprintf(out, "%s%.*s", entries > 1 ? "," : "", (int)entry->age_at, entry->json);
		if (entry->age_at > 0)
			fprintf(out, "%.3f", (double)(now - entry->born) / 1000);
		fputs(entry->json + entry->age_at, out);
	}
	if (entries == 0 && (whole || !table->told))
		member(out, count, name, "[");
	if (entries > 0 || whole || !table->told)
		fputc(']', out);
}

/* The ids or names of entries that are gone. The table forgets them. */
static void
write_gone(struct table *table, FILE *out, int *count, const char *name)
{
	struct cJSON *keys = json_new_array();
	struct entry *entry, *next;
	char *json;

	table->told = table->known;
	HASH_ITER (hh, table->entries, entry, next) {
		entry->changed = entry->changed && !table->known;
		if (!entry->gone)
			continue;
		json_append_string(keys, entry->key);
		table_remove(table, entry);
	}
	json = printed(keys);
	if (json_first(keys) != NULL)
		member(out, count, name, json);
	free(json);
	json_free(keys);
}

static void
write_members(struct feed *feed, FILE *out, bool whole, int64_t now)
{
	char number[24];
	int count = 0;

	if (whole)
		member(out, &count, "reset", "true");
	if (whole || feed->link_changed)
		write_link(feed, out, &count, now);
	if (feed->broker != NULL && (whole || feed->broker_changed))
		member(out, &count, "broker", feed->broker);
	write_entries(&feed->locks, out, &count, "locks", whole, now);
	write_entries(&feed->rows, out, &count, "rows", whole, now);
	if (!whole) {
		write_gone(&feed->locks, out, &count, "locks_gone");
		write_gone(&feed->rows, out, &count, "rows_gone");
	}
	if (feed->silent != NULL && (whole || feed->hosts_changed))
		member(out, &count, "silent_hosts", feed->silent);
	if (whole || feed->hosts_changed) {
		snprintf(number, sizeof(number), "%lld",
		    (long long)(feed->rows_more + feed->locks_more));
		member(out, &count, "more", number);
	}
}

char *
feed_patch(struct feed *feed, bool whole, int64_t now, size_t *ret_len)
{
	char *text = NULL;
	FILE *out = web_have(open_memstream(&text, ret_len));

	fputs("event: patch\ndata: {", out);
	write_members(feed, out, whole, now);
	fputs("}\n\n", out);
	if (fclose(out) != 0)
		web_have(NULL);
	if (!whole)
		feed->changed = feed->link_changed = feed->broker_changed = feed->hosts_changed =
		    false;
	return text;
}

void
feed_end(struct feed *feed)
{
	hang_up(feed);
	set_away(feed, "lockbroker-web stops", watch_now());
}

void
feed_free(struct feed *feed)
{
	set_idle(feed);
	lb_free(feed->lb);
	free(feed);
}
