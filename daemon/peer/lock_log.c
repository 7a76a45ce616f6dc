#include "daemon/peer/lock_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/base/users.h"
#include "daemon/peer/dispatch_internal.h"
#include "daemon/view/wire.h"

/*
 * Contents:
 *	The limit: log_limit_*(): lines of each user in a second.
 *	Entries: changes and releases that are not answered yet.
 *	Words: users, slots, times and parameters in words.
 *	Holds: acquired, refused, lost, revoked, evicted, released.
 *	Requests and their answers: changes and reads: requested, then done or refused.
 */

/* Lines of one user in a second. */
#define LOG_LIMIT_LINES 64
#define PERIOD NSEC_PER_SEC

/* A user with lines in the last second. */
struct log_writer {
	uid_t uid;
	uint64_t lines; /* with those that were left out */
	struct timer end;
	UT_hash_handle hh;
};

/* Has room for all that log_what_words() and log_outcome_words() may say. */
#define WHAT_MAX 192

struct log_entry_key {
	uint64_t peer, number;
};

/* A change, a read, or a release. */
struct log_entry {
	struct log_entry_key key;
	bool loud;     /* at info, not at debug */
	bool unproven; /* whether its user has the right is not known yet */
	uid_t uid;
	pid_t pid;
	const char *method;   /* static */
	const char *name;     /* owned unless the request only reads; NULL: no name */
	struct lock_row hold; /* a release: its hold; of the strings only the name is valid */
	UT_hash_handle hh;
};

struct lock_log {
	const struct clock *clock;  /* borrowed */
	struct timers *timers;      /* borrowed */
	struct log_writer *writers; /* owned */
	uint32_t run;               /* of the ids of locks */
	struct log_entry *entries;  /* owned */
};

/* ---- the limit ---- */

static void
log_writer_end(struct lock_log *lock_log, struct log_writer *writer)
{
	const char *name = user_name(writer->uid);

	if (writer->lines > LOG_LIMIT_LINES)
		log_info("uid %u%s%.60s%s: %" PRIu64 " log lines about its requests were left out",
		    (unsigned)writer->uid, name == NULL ? "" : " (", name == NULL ? "" : name,
		    name == NULL ? "" : ")", writer->lines - LOG_LIMIT_LINES);
	timers_cancel(lock_log->timers, &writer->end);
	HASH_DEL(lock_log->writers, writer);
	free(writer);
}

static void
log_writer_second_is_over(void *ctx, uint64_t uid)
{
	struct lock_log *lock_log = ctx;
	const uid_t key = (uid_t)uid;
	struct log_writer *writer;

	HASH_FIND(hh, lock_log->writers, &key, sizeof(key), writer);
	log_writer_end(lock_log, writer);
}

/* Whether a line about a request of that user may be written. Counts it. */
static bool
log_limit_takes(struct lock_log *lock_log, uid_t uid)
{
	struct log_writer *writer;

	HASH_FIND(hh, lock_log->writers, &uid, sizeof(uid), writer);
	if (writer == NULL) {
		writer = mem_alloc(sizeof(*writer));
		writer->uid = uid;
		timer_init(&writer->end, log_writer_second_is_over, lock_log, uid);
		timers_set(lock_log->timers, &writer->end,
		    clock_now(timers_clock(lock_log->timers)) + PERIOD);
		HASH_ADD(hh, lock_log->writers, uid, sizeof(writer->uid), writer);
	}
	FAULT(FLOOD_IS_LOGGED, return true);
	return ++writer->lines <= LOG_LIMIT_LINES;
}

/* ---- entries ---- */

struct lock_log *
lock_log_new(struct timers *timers, uint32_t run)
{
	struct lock_log *lock_log = mem_alloc(sizeof(*lock_log));

	lock_log->clock = timers_clock(timers);
	lock_log->timers = timers;
	lock_log->run = run;
	return lock_log;
}

static void
log_entry_free(struct lock_log *lock_log, struct log_entry *entry)
{
	HASH_DELETE(hh, lock_log->entries, entry);
	free((char *)entry->name);
	free(entry);
}

void
lock_log_free(struct lock_log *lock_log)
{
	struct log_entry *entry, *next;

	if (lock_log == NULL)
		return;
	HASH_ITER (hh, lock_log->entries, entry, next)
		log_entry_free(lock_log, entry);
	lock_log_end_second(lock_log);
	free(lock_log);
}

void
lock_log_end_second(struct lock_log *lock_log)
{
	struct log_writer *writer, *next;

	HASH_ITER (hh, lock_log->writers, writer, next)
		log_writer_end(lock_log, writer);
}

/* Whether a line about a request of that user is written. */
static bool
lock_log_takes(struct lock_log *lock_log, enum log_level level, uid_t uid)
{
	return log_takes(level) && log_limit_takes(lock_log, uid);
}

static struct log_entry *
log_entry_find(const struct lock_log *lock_log, uint64_t peer, uint64_t number)
{
	const struct log_entry_key key = {.peer = peer, .number = number};
	struct log_entry *entry;

	HASH_FIND(hh, lock_log->entries, &key, sizeof(key), entry);
	return entry;
}

/* On the stack: the name is borrowed. */
static struct log_entry
log_entry_of(
    bool loud, const struct conn *conn, const struct peer_request *request, const char *name)
{
	return (struct log_entry){
	    .key = {.peer = conn->id, .number = request->number},
	    .loud = loud,
	    .unproven = request->row->name_later && name == NULL,
	    .uid = conn->subject.uid,
	    .pid = conn->subject.pid,
	    .method = request->row->method,
	    .name = name,
	};
}

static struct log_entry *
log_entry_add(struct lock_log *lock_log, const struct conn *conn,
    const struct peer_request *request, const char *name)
{
	struct log_entry *entry = mem_alloc(sizeof(*entry));

	*entry = log_entry_of(true, conn, request, mem_strdup(name));
	HASH_ADD(hh, lock_log->entries, key, sizeof(entry->key), entry);
	return entry;
}

/* ---- words ---- */

#define USER_MAX 80

/* "uid 1000 (alice)", or "uid 1000". Returns buf. */
static const char *
log_user_words(char buf[USER_MAX], const struct log_event *event)
{
	if (event->user == NULL)
		snprintf(buf, USER_MAX, "uid %u", (unsigned)*event->uid);
	else
		snprintf(buf, USER_MAX, "uid %u (%.60s)", (unsigned)*event->uid, event->user);
	return buf;
}

static struct log_event
log_event_of(enum log_kind kind, const char *method, const char *name, const uid_t *uid, pid_t pid)
{
	return (struct log_event){.kind = kind,
	    .method = method,
	    .name = name,
	    .uid = uid,
	    .user = user_name(*uid),
	    .pid = pid};
}

/* " slot 3", or "" for a hold without one. */
static const char *
log_slot_words(char buf[24], int slot)
{
	buf[0] = '\0';
	if (slot > 0)
		snprintf(buf, 24, " slot %d", slot);
	return buf;
}

/* "without a limit", or "5.000 s". Returns buf. */
static const char *
log_time_words(char buf[32], int64_t ns)
{
	if (ns == DURATION_FOREVER)
		snprintf(buf, 32, "without a limit");
	else
		snprintf(buf, 32, "%.3f s", duration_to_seconds(ns));
	return buf;
}

/* "3 slots", or "unlimited". */
static const char *
log_count_words(char buf[24], int slots)
{
	if (slots == LOCK_UNLIMITED)
		snprintf(buf, 24, "unlimited");
	else
		snprintf(buf, 24, "%d slot%s", slots, slots == 1 ? "" : "s");
	return buf;
}

/* The parameters of a request besides method and name; "": none. Returns buf. */
static const char *
log_what_words(char buf[WHAT_MAX], const char *method, const struct method_params *params)
{
	char slots[24], wait[32], waiter[80];
	int used = 0;

	buf[0] = '\0';
	if (params->add > 0)
		used = snprintf(buf, WHAT_MAX, ", adds %d", params->add);
	else if (params->remove > 0)
		used = snprintf(buf, WHAT_MAX, ", removes %d", params->remove);
	else if (strcmp(method, "create") == 0)
		used = snprintf(buf, WHAT_MAX, ", %s", log_count_words(slots, params->slots));
	else if (strcmp(method, "resize") == 0)
		used = snprintf(buf, WHAT_MAX, ", to %s", log_count_words(slots, params->slots));
	if (params->order == METHOD_ORDER_ASCENDING)
		used += snprintf(buf + used, WHAT_MAX - (size_t)used, ", ascending");
	if (params->overshoot > 0)
		used += snprintf(
		    buf + used, WHAT_MAX - (size_t)used, ", overshoot %d", params->overshoot);
	if (params->claim != METHOD_CLAIM_ABSENT)
		used += snprintf(buf + used, WHAT_MAX - (size_t)used, ", held by %s",
		    method_claim_words[params->claim]);
	if (params->convert != METHOD_CLAIM_ABSENT)
		used += snprintf(buf + used, WHAT_MAX - (size_t)used, ", converts to %s",
		    method_claim_words[params->convert]);
	if (params->exist_ok)
		used += snprintf(buf + used, WHAT_MAX - (size_t)used, ", may exist");
	if (params->waiter != NULL)
		used += snprintf(buf + used, WHAT_MAX - (size_t)used, ", waiter %s",
		    message_escape(waiter, sizeof(waiter), params->waiter));
	if (params->holder != NULL)
		used += snprintf(buf + used, WHAT_MAX - (size_t)used, ", holder %s",
		    message_escape(waiter, sizeof(waiter), params->holder));
	if (params->repair)
		used += snprintf(buf + used, WHAT_MAX - (size_t)used, ", repairs");
	if (params->wait != 0)
		snprintf(buf + used, WHAT_MAX - (size_t)used, ", waits %s for holders",
		    log_time_words(wait, params->wait));
	return buf;
}

/* Whether the size is what the method is about. */
static bool
log_is_about_size(const char *method)
{
	return strcmp(method, "create") == 0 || strcmp(method, "resize") == 0 ||
	       strcmp(method, "size") == 0;
}

/* The state of the semaphore according to the answer. */
static const char *
log_outcome_words(char buf[WHAT_MAX], const char *method, const struct lock_answer *answer)
{
	char number[24];
	int used = 0;

	buf[0] = '\0';
	if (log_is_about_size(method) && answer->target != -1 && answer->target != answer->slots)
		used +=
		    snprintf(buf, WHAT_MAX, ", target %s", log_count_words(number, answer->target));
	if (log_is_about_size(method) && answer->slots != -1)
		used += snprintf(buf + used, WHAT_MAX - (size_t)used, ", %s",
		    log_count_words(number, answer->slots));
	if (answer->held_count > 0)
		used += snprintf(
		    buf + used, WHAT_MAX - (size_t)used, ", %zu still held", answer->held_count);
	if (answer->converted > 0)
		used += snprintf(
		    buf + used, WHAT_MAX - (size_t)used, ", %d converted", answer->converted);
	if (answer->finding_count > 0)
		snprintf(
		    buf + used, WHAT_MAX - (size_t)used, ", %zu findings", answer->finding_count);
	return buf;
}

/* ---- holds ---- */

static void
log_hold(struct lock_log *lock_log, enum log_level level, enum log_kind kind,
    const struct lock_row *hold, const char *why)
{
	struct log_event event = log_event_of(kind, NULL, hold->name, &hold->uid, hold->pid);
	char slot[24], id[WIRE_ID_SIZE], user[USER_MAX];

	FAULT_IF(LOSS_IS_LEFT_OUT, !lock_log_takes(lock_log, level, hold->uid), return );
	if ((kind == LOG_RELEASED || kind == LOG_NOT_RELEASED) &&
	    !lock_log_takes(lock_log, level, hold->uid))
		return;
	event.lock = wire_id_write(id, lock_log->run, hold->lock);
	event.slot = hold->slot;
	log_event_at(level, &event, "%s%s: lock %s, %s, pid %d, held %.3f s%s%s", hold->name,
	    log_slot_words(slot, hold->slot), id, log_user_words(user, &event), (int)hold->pid,
	    duration_to_seconds(clock_now(lock_log->clock) - hold->since),
	    why[0] == '\0' ? "" : ", ", why);
}

static void
log_acquire_requested(
    struct lock_log *lock_log, const struct conn *conn, const struct method_params *params)
{
	const struct access_subject *subject = &conn->subject;
	const struct log_event event =
	    log_event_of(LOG_REQUESTED, "acquire", params->name, &subject->uid, subject->pid);
	char who[LOG_QUOTE_MAX], why[LOG_QUOTE_MAX], wait[32], create[64] = "", user[USER_MAX];

	if (!lock_log_takes(lock_log, LOG_LEVEL_INFO, subject->uid))
		return;
	if (params->create > 0)
		snprintf(create, sizeof(create), ", creates it with %d slot%s if it does not exist",
		    params->create, params->create == 1 ? "" : "s");
	log_event_at(LOG_LEVEL_INFO, &event,
	    "%s: client %" PRIu64 ", %s, pid %d, waits %s%s%s%s%s%s", params->name, conn->id,
	    log_user_words(user, &event), (int)subject->pid, log_time_words(wait, params->timeout),
	    create, params->who == NULL ? "" : ", who ",
	    params->who == NULL ? "" : log_quote(who, params->who, strlen(params->who)),
	    params->why == NULL ? "" : ", why ",
	    params->why == NULL ? "" : log_quote(why, params->why, strlen(params->why)));
}

static void
log_acquire_ended(
    struct lock_log *lock_log, const struct conn *conn, const struct lock_answer *answer)
{
	const struct access_subject *subject = &conn->subject;
	struct log_event event =
	    log_event_of(answer->reason == REASON_NONE ? LOG_ACQUIRED : LOG_REFUSED, "acquire",
		answer->name, &subject->uid, subject->pid);
	const char *words = answer->text == NULL ? "" : answer->text;
	char text[LOG_QUOTE_MAX], slot[24], id[WIRE_ID_SIZE], user[USER_MAX];

	if (!lock_log_takes(lock_log, LOG_LEVEL_INFO, subject->uid))
		return;
	log_user_words(user, &event);
	if (answer->reason == REASON_NONE) {
		event.lock = wire_id_write(id, lock_log->run, answer->lock);
		event.slot = answer->slot;
		log_event_at(LOG_LEVEL_INFO, &event,
		    "%s%s: lock %s, client %" PRIu64 ", %s, pid %d, waited %.3f s", answer->name,
		    log_slot_words(slot, answer->slot), id, conn->id, user, (int)subject->pid,
		    duration_to_seconds(answer->waited));
	} else {
		log_event_at(LOG_LEVEL_INFO, &event, "%s: client %" PRIu64 ", %s, pid %d, %s%s%s",
		    answer->name == NULL ? "a lock" : answer->name, conn->id, user,
		    (int)subject->pid, reason_word(answer->reason), words[0] == '\0' ? "" : ": ",
		    log_quote(text, words, strlen(words)));
	}
}

void
lock_log_forbidden(struct lock_log *lock_log, const struct conn *conn, const char *method,
    const char *name, const char *why)
{
	const struct access_subject *subject = &conn->subject;
	const struct log_event event =
	    log_event_of(LOG_FORBIDDEN, method, name, &subject->uid, subject->pid);
	char user[USER_MAX];

	if (!lock_log_takes(lock_log, LOG_LEVEL_INFO, subject->uid))
		return;
	log_event_at(LOG_LEVEL_INFO, &event, "%s%s%s: client %" PRIu64 ", %s, pid %d: %s", method,
	    name == NULL ? "" : " of ", name == NULL ? "" : name, conn->id,
	    log_user_words(user, &event), (int)subject->pid, why);
}

static void
log_evicted(
    struct lock_log *lock_log, const struct lock_eviction *eviction, const struct lock_row *hold)
{
	const char *why = eviction->why == NULL ? "" : eviction->why;
	int64_t left = eviction->deadline - clock_now(lock_log->clock);
	char text[LOG_QUOTE_MAX + DAEMON_MESSAGE_HOST_MAX + 80], quoted[LOG_QUOTE_MAX];

	snprintf(text, sizeof(text), "by uid %u on %s, to end within %.3f s%s%s",
	    (unsigned)eviction->uid, eviction->host, duration_to_seconds(left > 0 ? left : 0),
	    why[0] == '\0' ? "" : ", ", why[0] == '\0' ? "" : log_quote(quoted, why, strlen(why)));
	log_hold(lock_log, LOG_LEVEL_INFO, LOG_EVICTED, hold, text);
}

void
lock_log_notice(
    struct lock_log *lock_log, const struct lock_notice *notice, const struct lock_row *hold)
{
	const char *words = notice->text == NULL ? "" : notice->text;
	char text[LOG_QUOTE_MAX], slot[24];

	const struct log_event reserved = {
	    .kind = LOG_RESERVED, .name = notice->name, .slot = notice->slot};

	if (notice->kind == LOCK_NOTICE_STUCK)
		log_event_at(LOG_LEVEL_WARNING, &reserved,
		    "%s%s: no answer to its claim or release for two heartbeats; not "
		    "granted until the broker answers, or until a reconnect without held locks",
		    notice->name, log_slot_words(slot, notice->slot));
	if (hold == NULL)
		return;
	switch (notice->kind) {
	case LOCK_NOTICE_LOST:
		log_hold(lock_log, LOG_LEVEL_WARNING, LOG_LOST, hold,
		    words[0] == '\0' ? reason_word(notice->reason)
				     : log_quote(text, words, strlen(words)));
		break;
	case LOCK_NOTICE_REVOKED:
		log_hold(lock_log, LOG_LEVEL_INFO, LOG_REVOKED, hold, "");
		break;
	case LOCK_NOTICE_EVICTED:
		log_evicted(lock_log, notice->eviction, hold);
		break;
	case LOCK_NOTICE_VANISHED:
		log_hold(lock_log, LOG_LEVEL_INFO, LOG_VANISHED, hold, "claimed again");
		break;
	case LOCK_NOTICE_SUSPECT:
		log_hold(lock_log, LOG_LEVEL_INFO, LOG_SUSPECT, hold,
		    "the broker has not answered for a heartbeat");
		break;
	case LOCK_NOTICE_RESTORED:
		log_hold(lock_log, LOG_LEVEL_INFO, LOG_RESTORED, hold, "the broker answers again");
		break;
	case LOCK_NOTICE_STUCK:
	case LOCK_NOTICE_LEASE:
	case LOCK_NOTICE_WAITING:
	case LOCK_NOTICE_HOLDERS:
	case LOCK_NOTICE_BROKER:
		break;
	}
}

void
lock_log_gone(struct lock_log *lock_log, const struct lock_row *hold)
{
	log_hold(lock_log, LOG_LEVEL_INFO, LOG_RELEASED, hold, "its client has disconnected");
}

/* ---- requests and their answers ---- */

/* "<kind> resize of db: client 3, uid 0 (root), pid 7<more>" */
static void
log_entry_write(
    struct lock_log *lock_log, const struct log_entry *entry, enum log_kind kind, const char *more)
{
	enum log_level level = entry->loud ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG;
	bool limited = !entry->loud || (entry->unproven && kind != LOG_DONE);
	const struct log_event event =
	    log_event_of(kind, entry->method, entry->name, &entry->uid, entry->pid);
	char user[USER_MAX];

	if (limited && !lock_log_takes(lock_log, level, entry->uid))
		return;
	log_event_at(level, &event, "%s%s%s: client %" PRIu64 ", %s, pid %d%s", entry->method,
	    entry->name == NULL ? "" : " of ", entry->name == NULL ? "" : entry->name,
	    entry->key.peer, log_user_words(user, &event), (int)entry->pid, more);
}

static void
log_entry_write_end(
    struct lock_log *lock_log, const struct log_entry *entry, const struct lock_answer *answer)
{
	const char *words = answer->reason == REASON_NONE ? answer->warning : answer->text;
	char more[512], text[LOG_QUOTE_MAX], outcome[WHAT_MAX];
	bool changed;

	if (words == NULL)
		words = "";
	snprintf(more, sizeof(more), "%s%s%s%s%s",
	    log_outcome_words(outcome, entry->method, answer),
	    answer->reason == REASON_NONE ? "" : ", ",
	    answer->reason == REASON_NONE ? "" : reason_word(answer->reason),
	    words[0] == '\0' ? "" : ": ", log_quote(text, words, strlen(words)));
	/* With holders, the change was made, and only the wait for the holders has failed. */
	changed = answer->reason == REASON_NONE || answer->held != NULL;
	log_entry_write(lock_log, entry, changed ? LOG_DONE : LOG_REFUSED, more);
}

void
lock_log_request(struct lock_log *lock_log, const struct conn *conn,
    const struct peer_request *request, const struct method_params *params)
{
	const char *method = request->row->method;
	char what[WHAT_MAX];
	struct log_entry read;

	switch (request->row->lock_log) {
	case LOCK_LOG_NOTHING:
	case LOCK_LOG_RELEASE:
		return;
	case LOCK_LOG_ACQUIRE:
		log_acquire_requested(lock_log, conn, params);
		return;
	case LOCK_LOG_CHANGE:
		log_entry_write(lock_log, log_entry_add(lock_log, conn, request, params->name),
		    LOG_REQUESTED, log_what_words(what, method, params));
		return;
	case LOCK_LOG_READ:
		read = log_entry_of(false, conn, request, params->name);
		log_entry_write(
		    lock_log, &read, LOG_REQUESTED, log_what_words(what, method, params));
		return;
	}
}

void
lock_log_resume(struct lock_log *lock_log, const struct conn *conn,
    const struct peer_request *request, const struct method_params *params)
{
	if (request->row->lock_log == LOCK_LOG_CHANGE)
		log_entry_add(lock_log, conn, request, params->name);
}

void
lock_log_releases(struct lock_log *lock_log, const struct conn *conn,
    const struct peer_request *request, const struct lock_row *hold)
{
	struct log_entry *entry = log_entry_add(lock_log, conn, request, hold->name);

	entry->hold = *hold;
	entry->hold.name = entry->name;
}

/* why: of a release that has succeeded. A release of what is not held has released nothing. */
static void
log_entry_end(struct lock_log *lock_log, struct log_entry *entry, const struct lock_answer *answer,
    const char *why)
{
	if (entry == NULL)
		return;
	if (entry->hold.lock == 0)
		log_entry_write_end(lock_log, entry, answer);
	else if (answer->reason == REASON_NONE)
		log_hold(lock_log, LOG_LEVEL_INFO, LOG_RELEASED, &entry->hold, why);
	else if (answer->reason != REASON_NOT_HELD)
		log_hold(lock_log, LOG_LEVEL_INFO, LOG_NOT_RELEASED, &entry->hold,
		    reason_word(answer->reason));
	log_entry_free(lock_log, entry);
}

void
lock_log_answer(struct lock_log *lock_log, const struct conn *conn,
    const struct peer_request *request, const struct lock_answer *answer)
{
	struct log_entry read;

	switch (request->row->lock_log) {
	case LOCK_LOG_NOTHING:
		return;
	case LOCK_LOG_ACQUIRE:
		log_acquire_ended(lock_log, conn, answer);
		return;
	case LOCK_LOG_READ:
		read = log_entry_of(false, conn, request, answer->name);
		log_entry_write_end(lock_log, &read, answer);
		return;
	case LOCK_LOG_RELEASE:
	case LOCK_LOG_CHANGE:
		log_entry_end(
		    lock_log, log_entry_find(lock_log, conn->id, request->number), answer, "");
		return;
	}
}

void
lock_log_unheard(
    struct lock_log *lock_log, uint64_t peer, uint64_t number, const struct lock_answer *answer)
{
	log_entry_end(lock_log, log_entry_find(lock_log, peer, number), answer,
	    "its client has disconnected");
}

void
lock_log_left(struct lock_log *lock_log, uint64_t peer, uint64_t number)
{
	struct log_entry *entry = log_entry_find(lock_log, peer, number);

	if (entry == NULL)
		return;
	log_entry_write(lock_log, entry, LOG_LEFT, ", its client has disconnected");
	log_entry_free(lock_log, entry);
}
