#include "daemon/peer/journal_change.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/lock/lock.h"
#include "daemon/peer/conn.h"
#include "daemon/peer/requests.h"
#include "protocol/methods.h"

struct change_key {
	uint64_t peer, number;
};

struct change {
	struct change_key key;
	bool loud; /* at info, not at debug */
	uid_t uid;
	pid_t pid;
	const char *method; /* static */
	const char *name;   /* owned (but for a look); NULL: it names none */
	UT_hash_handle hh;
};

struct changes {
	struct change *by_key; /* owned */
};

struct changes *
changes_new(void)
{
	return mem_alloc(sizeof(struct changes));
}

static void
change_free(struct changes *changes, struct change *change)
{
	HASH_DELETE(hh, changes->by_key, change);
	free((char *)change->name);
	free(change);
}

void
changes_free(struct changes *changes)
{
	struct change *change, *next;

	if (changes == NULL)
		return;
	HASH_ITER (hh, changes->by_key, change, next)
		change_free(changes, change);
	free(changes);
}

/* ---- words ---- */

/* Has room for all that what_words() and outcome_words() may say. */
#define WHAT_MAX 192
#define LINE_SIZE 1024

const char *
journal_change_time(char buf[32], int64_t ns)
{
	if (ns == DURATION_FOREVER)
		snprintf(buf, 32, "for ever");
	else
		snprintf(buf, 32, "%.3f s", duration_to_seconds(ns));
	return buf;
}

/* "3 slots", or "unlimited". */
static const char *
count_words(char buf[24], int slots)
{
	if (slots == LOCK_UNLIMITED)
		snprintf(buf, 24, "unlimited");
	else
		snprintf(buf, 24, "%d slot%s", slots, slots == 1 ? "" : "s");
	return buf;
}

/* What a request names beside the method and the name; "" for nothing. Returns buf. */
static const char *
what_words(char buf[WHAT_MAX], const char *method, const struct method_params *params)
{
	char slots[24], wait[32], waiter[80];
	int used = 0;

	buf[0] = '\0';
	if (params->add > 0)
		used = snprintf(buf, WHAT_MAX, ", adds %d", params->add);
	else if (params->remove > 0)
		used = snprintf(buf, WHAT_MAX, ", removes %d", params->remove);
	else if (strcmp(method, "create") == 0)
		used = snprintf(buf, WHAT_MAX, ", %s", count_words(slots, params->slots));
	else if (strcmp(method, "resize") == 0)
		used = snprintf(buf, WHAT_MAX, ", to %s", count_words(slots, params->slots));
	if (params->order == METHOD_ORDER_ASCENDING)
		used += snprintf(buf + used, WHAT_MAX - (size_t)used, ", ascending");
	if (params->overshoot > 0)
		used += snprintf(
		    buf + used, WHAT_MAX - (size_t)used, ", overshoot %d", params->overshoot);
	if (params->exist_ok)
		used += snprintf(buf + used, WHAT_MAX - (size_t)used, ", may exist");
	if (params->waiter != NULL)
		used += snprintf(buf + used, WHAT_MAX - (size_t)used, ", waiter %s",
		    message_escape(waiter, sizeof(waiter), params->waiter));
	if (params->repair)
		used += snprintf(buf + used, WHAT_MAX - (size_t)used, ", repairs");
	if (params->wait != 0)
		snprintf(buf + used, WHAT_MAX - (size_t)used, ", waits %s for holders",
		    journal_change_time(wait, params->wait));
	return buf;
}

/* Whether the size is what the method is about. */
static bool
is_about_size(const char *method)
{
	return strcmp(method, "create") == 0 || strcmp(method, "resize") == 0 ||
	       strcmp(method, "size") == 0;
}

/* What is known of the semaphore by then. */
static const char *
outcome_words(char buf[WHAT_MAX], const char *method, const struct lock_answer *answer)
{
	char number[24];
	int used = 0;

	buf[0] = '\0';
	if (is_about_size(method) && answer->target != -1 && answer->target != answer->slots)
		used += snprintf(buf, WHAT_MAX, ", target %s", count_words(number, answer->target));
	if (is_about_size(method) && answer->slots != -1)
		used += snprintf(buf + used, WHAT_MAX - (size_t)used, ", %s",
		    count_words(number, answer->slots));
	if (answer->held_count > 0)
		used += snprintf(
		    buf + used, WHAT_MAX - (size_t)used, ", %zu still held", answer->held_count);
	if (answer->finding_count > 0)
		snprintf(
		    buf + used, WHAT_MAX - (size_t)used, ", %zu findings", answer->finding_count);
	return buf;
}

/* "<began> resize of db: peer 3, uid 0, pid 7<more>" */
static void
change_log(const struct change *change, const char *began, const char *more)
{
	char line[LINE_SIZE];

	snprintf(line, sizeof(line), "%s %s%s%s: peer %" PRIu64 ", uid %u, pid %d%s", began,
	    change->method, change->name == NULL ? "" : " of ",
	    change->name == NULL ? "" : change->name, change->key.peer, (unsigned)change->uid,
	    (int)change->pid, more);
	if (change->loud)
		log_info("%s", line);
	else
		log_debug("%s", line);
}

/* ---- their life ---- */

/* On the stack: the name is borrowed. */
static struct change
change_of(bool loud, const struct conn *conn, const struct request *request, const char *method,
    const char *name)
{
	return (struct change){
	    .key = {.peer = conn->id, .number = request->number},
	    .loud = loud,
	    .uid = conn->subject.uid,
	    .pid = conn->subject.pid,
	    .method = method,
	    .name = name,
	};
}

static void
change_log_end(const struct change *change, const struct lock_answer *answer)
{
	const char *words = answer->reason == REASON_NONE ? answer->warning : answer->text;
	char more[LINE_SIZE / 2], text[LOG_QUOTE_MAX], outcome[WHAT_MAX];

	if (words == NULL)
		words = "";
	snprintf(more, sizeof(more), "%s%s%s%s%s", outcome_words(outcome, change->method, answer),
	    answer->reason == REASON_NONE ? "" : ", ",
	    answer->reason == REASON_NONE ? "" : reason_word(answer->reason),
	    words[0] == '\0' ? "" : ": ", log_quote(text, words, strlen(words)));
	change_log(change, answer->reason == REASON_NONE ? "done" : "refused", more);
}

void
look_requested(const struct conn *conn, const struct request *request, const char *method,
    const struct method_params *params)
{
	const struct change look = change_of(false, conn, request, method, params->name);
	char what[WHAT_MAX];

	change_log(&look, "requested", what_words(what, method, params));
}

void
look_ended(const struct conn *conn, const struct request *request, const char *method,
    const struct lock_answer *answer)
{
	const struct change look = change_of(false, conn, request, method, answer->name);

	change_log_end(&look, answer);
}

void
changes_add(struct changes *changes, const struct conn *conn, const struct request *request,
    const char *method, const struct method_params *params)
{
	struct change *change = mem_alloc(sizeof(*change));
	char what[WHAT_MAX];

	*change = change_of(true, conn, request, method, mem_strdup(params->name));
	HASH_ADD(hh, changes->by_key, key, sizeof(change->key), change);
	change_log(change, "requested", what_words(what, method, params));
}

static struct change *
change_find(const struct changes *changes, uint64_t peer, uint64_t number)
{
	const struct change_key key = {.peer = peer, .number = number};
	struct change *change;

	HASH_FIND(hh, changes->by_key, &key, sizeof(key), change);
	return change;
}

void
changes_end(
    struct changes *changes, uint64_t peer, uint64_t number, const struct lock_answer *answer)
{
	struct change *change = change_find(changes, peer, number);

	if (change == NULL)
		return;
	change_log_end(change, answer);
	change_free(changes, change);
}

void
changes_leave(struct changes *changes, uint64_t peer, uint64_t number)
{
	struct change *change = change_find(changes, peer, number);

	if (change == NULL)
		return;
	change_log(change, "left", ", its peer has ended");
	change_free(changes, change);
}
