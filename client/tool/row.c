#include "client/tool/row.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lockbroker.h"

static const char *const state_words[ROW_STATES] = {
    [ROW_WAITING] = "waiting",
    [ROW_BUSY] = "busy",
    [ROW_GRANTED] = "granted",
    [ROW_CANCELLED] = "cancelled",
    [ROW_REVOKED] = "revoked",
    [ROW_EVICTED] = "evicted",
    [ROW_UNKNOWN] = "unknown",
};

void
row_init(struct row *row)
{
	*row = (struct row){.state = ROW_UNKNOWN, .uid = -1, .pid = -1, .age = -1};
}

/*
 * The four states of the wire. The state of a newer daemon is unknown.
 */
static enum row_state
read_state(const char *word)
{
	for (int state = ROW_WAITING; state <= ROW_CANCELLED; state++)
		if (strcmp(word, state_words[state]) == 0)
			return (enum row_state)state;
	return ROW_UNKNOWN;
}

static bool
take_words(struct row *row, const char *member, const char *value)
{
	const struct {
		const char *member;
		char *at;
		size_t size;
	} words[] = {
	    {"waiter", row->waiter, sizeof(row->waiter)},
	    {"name", row->name, sizeof(row->name)},
	    {"who", row->who, sizeof(row->who)},
	    {"why", row->why, sizeof(row->why)},
	    {"command", row->command, sizeof(row->command)},
	    {"host", row->host, sizeof(row->host)},
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(member, words[i].member) != 0)
			continue;
		snprintf(words[i].at, words[i].size, "%s", value);
		return true;
	}
	return false;
}

void
row_take(struct row *row, const char *member, const char *value)
{
	if (take_words(row, member, value) || *value == '\0')
		return;
	if (strcmp(member, "state") == 0) {
		row->state = read_state(value);
		row->aside |= row->state == ROW_GRANTED;
	} else if (strcmp(member, "slot") == 0) {
		row->slot = atoi(value);
	} else if (strcmp(member, "position") == 0) {
		row->position = atoi(value);
	} else if (strcmp(member, "uid") == 0) {
		row->uid = atoll(value);
	} else if (strcmp(member, "pid") == 0) {
		row->pid = atoll(value);
	} else if (strcmp(member, "age") == 0) {
		row->age = atof(value);
	} else if (strcmp(member, "revoked") == 0 && strcmp(value, "true") == 0) {
		row->state = ROW_REVOKED;
		row->aside = true;
	} else if (strcmp(member, "evicted") == 0 && strcmp(value, "true") == 0) {
		row->state = ROW_EVICTED;
	} else if (strcmp(member, "unknown") == 0 && strcmp(value, "true") == 0) {
		row->state = ROW_UNKNOWN;
	}
}

const char *
row_user(const char *uid)
{
	const struct passwd *user = *uid != '\0' ? getpwuid((uid_t)atoll(uid)) : NULL;

	return user != NULL ? user->pw_name : uid;
}

const char *
row_state_word(enum row_state state)
{
	return state_words[state];
}

void
row_whom(const struct row *row, char *ret, size_t size)
{
	if (row->state == ROW_UNKNOWN)
		snprintf(ret, size, "unknown");
	else if (*row->who != '\0')
		snprintf(ret, size, "%s", row->who);
	else if (*row->command != '\0')
		snprintf(ret, size, "%s", row->command);
	else if (row->pid >= 0)
		snprintf(ret, size, "pid %lld", (long long)row->pid);
	else
		snprintf(ret, size, "somebody");
}

void
row_age_words(double seconds, char *ret, size_t size)
{
	long long whole = seconds < 1e12 ? (long long)seconds : 0;

	if (seconds < 0)
		snprintf(ret, size, "%s", "");
	else if (whole < 60)
		snprintf(ret, size, "%llds", whole);
	else if (whole < 3600)
		snprintf(ret, size, "%lldm%02llds", whole / 60, whole % 60);
	else if (whole < 86400)
		snprintf(ret, size, "%lldh%02lldm", whole / 3600, whole / 60 % 60);
	else
		snprintf(ret, size, "%lldd%02lldh", whole / 86400, whole / 3600 % 24);
}

/* ---- those that hold ---- */

/* More names than this make no line. */
#define NAMED_MOST 3

struct holders {
	struct row row; /* the one that is read */
	bool mutex;     /* it holds a mutex */
	long index;     /* its index in the daemon's array; -1: none yet */
	void (*take)(struct holders *holders, const struct row *row);
	/* holders_words() */
	int count; /* of both */
	char *words;
	size_t size, len;
	/* holders_longest() */
	bool of_mutex;
	struct row *longest;
};

/* Adds a row to the text. */
static void
add(struct holders *holders, const struct row *row)
{
	const char *comma = holders->len > 0 ? ", " : "";
	char whom[ROW_WORDS_SIZE];
	int added;

	if (++holders->count > NAMED_MOST)
		return;
	row_whom(row, whom, sizeof(whom));
	added = snprintf(holders->words + holders->len, holders->size - holders->len,
	    *row->why != '\0' ? "%s%s (%s)" : "%s%s", comma, whom, row->why);
	holders->len += (size_t)added < holders->size - holders->len
			    ? (size_t)added
			    : holders->size - holders->len - 1;
}

static void
keep_longest(struct holders *holders, const struct row *row)
{
	struct row *longest = holders->longest;
	bool ends = row->state == ROW_EVICTED, other_ends = longest->state == ROW_EVICTED;

	if (row->aside || holders->mutex != holders->of_mutex ||
	    (row->slot == 0 && !holders->mutex))
		return;
	holders->count++;
	if ((row->state != ROW_BUSY && !ends) || *row->waiter == '\0')
		return;
	if (*longest->waiter == '\0' || (ends == other_ends ? row->age > longest->age : other_ends))
		*longest = *row;
}

static void
take_last(struct holders *holders)
{
	if (holders->index >= 0)
		holders->take(holders, &holders->row);
}

static int
read_holder(const char *path, const char *value, void *arg)
{
	struct holders *holders = arg;
	char *member;
	long index;

	if (strncmp(path, "holders.", 8) != 0)
		return 0;
	index = strtol(path + 8, &member, 10);
	if (*member != '.')
		return 0;
	if (index != holders->index) {
		take_last(holders);
		row_init(&holders->row);
		holders->mutex = false;
		holders->index = index;
	}
	holders->mutex |= strcmp(member, ".kind") == 0 && strcmp(value, "mutex") == 0;
	row_take(&holders->row, member + 1, value);
	return 0;
}

void
holders_words(const char *show_json, char *ret, size_t size)
{
	struct holders holders = {.index = -1, .take = add, .words = ret, .size = size};

	*ret = '\0';
	if (lb_json_each(show_json, read_holder, &holders) != LB_OK)
		return;
	take_last(&holders);
	if (holders.count > NAMED_MOST)
		snprintf(ret + holders.len, size - holders.len, ", and %d more",
		    holders.count - NAMED_MOST);
}

bool
holders_longest(const char *show_json, bool mutex, struct row *ret, int *ret_busy)
{
	struct holders holders = {
	    .index = -1, .take = keep_longest, .of_mutex = mutex, .longest = ret};

	row_init(ret);
	*ret_busy = 0;
	if (lb_json_each(show_json, read_holder, &holders) != LB_OK)
		return false;
	take_last(&holders);
	*ret_busy = holders.count;
	return *ret->waiter != '\0';
}
