#include "daemon/view/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/json.h"
#include "protocol/lockname.h"
#include "protocol/methods.h"

/*
 * Contents:
 *	Ids: wire_id_*() write and read the ids of locks and waiters, and the runs of daemons.
 *	Daemon messages, writing: daemon_message_new() begins a message to other daemons, to which its sender
 *	   adds members. daemon_message_text() ends it.
 *	Daemon messages, reading: message_read_*() read the parts of a message that arrived, and
 *	   message_*_are_sane() check its lists. daemon_message_parse() checks a whole message, whose text
 *	   becomes a struct.
 */

/* Limit of a count of rows or waiters: the sum over all messages remains exact in JSON. */
#define DAEMON_MESSAGE_COUNT_MAX 10000000

/* ---- ids ---- */

const char *
wire_id_write(char buf[WIRE_ID_SIZE], uint32_t run, uint64_t number)
{
	snprintf(buf, WIRE_ID_SIZE, "%08" PRIx32 "-%" PRIu64, run, number);
	return buf;
}

bool
wire_id_parse(const char *text, uint32_t *ret_run, uint64_t *ret_number)
{
	char again[WIRE_ID_SIZE];
	const char *dash = strchr(text, '-');
	uint64_t number;
	uint32_t run;

	if (dash == NULL)
		return false;
	run = (uint32_t)strtoul(text, NULL, 16);
	number = strtoull(dash + 1, NULL, 10);
	/* Written again it must be the same text: so there is no second spelling of an id. */
	if (strcmp(wire_id_write(again, run, number), text) != 0)
		return false;
	*ret_run = run;
	*ret_number = number;
	return true;
}

const char *
wire_id_run(char buf[WIRE_ID_SIZE], uint32_t run)
{
	snprintf(buf, WIRE_ID_SIZE, "%08" PRIx32, run);
	return buf;
}

bool
wire_id_parse_run(const char *text, uint32_t *ret_run)
{
	char again[WIRE_ID_SIZE];
	uint32_t run = (uint32_t)strtoul(text, NULL, 16);

	if (strcmp(wire_id_run(again, run), text) != 0)
		return false;
	*ret_run = run;
	return true;
}

/* ---- daemon messages, writing ---- */

static const char *const message_ops[DAEMON_MESSAGE_OPS] = {
    [DAEMON_MESSAGE_HELLO] = "hello",
    [DAEMON_MESSAGE_BYE] = "bye",
    [DAEMON_MESSAGE_ROWS] = "rows",
    [DAEMON_MESSAGE_WAITING] = "waiting",
    [DAEMON_MESSAGE_FIND] = "find",
    [DAEMON_MESSAGE_GRANT] = "grant",
    [DAEMON_MESSAGE_DENY] = "deny",
    [DAEMON_MESSAGE_HOLDER] = "holder",
    [DAEMON_MESSAGE_EVICT] = "evict",
};

struct cJSON *
daemon_message_new(const struct daemon_message_head *head, enum daemon_message_op op, bool answer)
{
	struct cJSON *message = json_new_object();
	char run[WIRE_ID_SIZE];

	json_add_integer(message, "lockbroker", DAEMON_MESSAGE_VERSION);
	json_add_string(message, answer ? "answer" : "ask", message_ops[op]);
	json_add_string(message, "naming", head->naming);
	json_add_string(message, "run", wire_id_run(run, head->run));
	json_add_string(message, "host", head->host);
	json_add_bool(message, "stays", head->stays);
	return message;
}

char *
daemon_message_text(struct cJSON *message)
{
	char *text = json_print(message);

	json_free(message);
	return text;
}

/* ---- daemon messages, reading ---- */

static bool
message_read_number(const struct cJSON *tree, const char *name, int64_t most, uint64_t *ret)
{
	const struct cJSON *value = json_get(tree, name);
	int64_t integer = 0;

	if (value != NULL && (!json_integer(value, &integer) || integer < 0 || integer > most))
		return false;
	*ret = (uint64_t)integer;
	return true;
}

static bool
message_read_array(const struct cJSON *tree, const char *name, const struct cJSON **ret)
{
	*ret = json_get(tree, name);
	return *ret == NULL || json_is_array(*ret);
}

/* [["db", 3], ...]: names of locks, and so many numbers of each. */
static bool
message_counts_are_sane(const struct cJSON *counts, int numbers)
{
	const struct cJSON *one, *number;
	const char *name;
	int64_t value;

	for (one = json_first(counts); one != NULL; one = json_next(one)) {
		if (!json_is_array(one) || !json_string(json_first(one), &name) ||
		    lockname_error(name, strlen(name)) != NULL)
			return false;
		number = json_next(json_first(one));
		for (int i = 0; i < numbers; i++, number = json_next(number)) {
			if (number == NULL || !json_integer(number, &value) || value < 0 ||
			    value > DAEMON_MESSAGE_COUNT_MAX)
				return false;
		}
		if (number != NULL)
			return false;
	}
	return true;
}

static bool
message_slots_are_sane(const struct cJSON *slots)
{
	int64_t slot;

	for (const struct cJSON *one = json_first(slots); one != NULL; one = json_next(one)) {
		if (!json_integer(one, &slot) || slot < 0 || slot > INT32_MAX)
			return false;
	}
	return true;
}

static bool
message_is_host(const char *text)
{
	size_t len = strlen(text);

	if (len == 0 || len > DAEMON_MESSAGE_HOST_MAX)
		return false;
	for (; *text != '\0'; text++) {
		if (*text <= ' ' || *text > '~')
			return false;
	}
	return true;
}

/* The sender and the op. */
static const char *
message_read_head(struct daemon_message *message)
{
	const struct cJSON *tree = message->tree;
	const char *word, *run;
	int op = 0;

	message->answer = json_get(tree, "answer") != NULL;
	if (!json_string(json_get(tree, message->answer ? "answer" : "ask"), &word))
		return "it is neither a query nor an answer";
	while (op < DAEMON_MESSAGE_OPS && strcmp(message_ops[op], word) != 0)
		op++;
	if (op == DAEMON_MESSAGE_OPS)
		return "it is an unknown query";
	message->op = (enum daemon_message_op)op;
	if (!json_string(json_get(tree, "run"), &run) || !wire_id_parse_run(run, &message->run) ||
	    !json_string(json_get(tree, "host"), &message->host) ||
	    !message_is_host(message->host) || !json_bool(json_get(tree, "stays"), &message->stays))
		return "it does not name its sender";
	return NULL;
}

/* NULL: it is fine. */
static const char *
message_read_body(struct daemon_message *message)
{
	const struct cJSON *tree = message->tree, *last = json_get(tree, "last");
	const struct cJSON *name = json_get(tree, "name"), *waiter = json_get(tree, "waiter");
	const struct cJSON *reason = json_get(tree, "reason"), *why = json_get(tree, "why");
	const char *text;
	uint64_t uid;

	message->last = true;
	if (last != NULL && !json_bool(last, &message->last))
		return "a flag is invalid";
	if ((name != NULL && !json_is_null(name) &&
		(!json_string(name, &message->name) ||
		    lockname_error(message->name, strlen(message->name)) != NULL)) ||
	    (waiter != NULL && (!json_string(waiter, &text) ||
				   !wire_id_parse(text, &message->waiter_run, &message->waiter) ||
				   message->waiter == 0)) ||
	    !message_read_number(tree, "uid", UINT32_MAX, &uid))
		return "a name, an id or a uid is invalid";
	message->uid = (uid_t)uid;
	if (reason != NULL && json_string(reason, &text))
		message->reason = reason_from_word(text);
	if ((reason != NULL && message->reason == REASON_NONE) ||
	    !message_read_number(tree, "count", DAEMON_MESSAGE_COUNT_MAX, &message->count) ||
	    !message_read_number(tree, "waiting", DAEMON_MESSAGE_COUNT_MAX, &message->waiting) ||
	    !message_read_number(tree, "more", DAEMON_MESSAGE_COUNT_MAX, &message->more))
		return "an outcome or a number is invalid";
	if (!message_read_array(tree, "rows", &message->rows) ||
	    !message_read_array(tree, "slots", &message->slots) ||
	    !message_slots_are_sane(message->slots) ||
	    !message_read_array(tree, "counts", &message->counts) ||
	    !message_counts_are_sane(message->counts, 1) ||
	    !message_read_array(tree, "mutexes", &message->mutexes) ||
	    !message_counts_are_sane(message->mutexes, 2) ||
	    !message_read_array(tree, "extra", &message->extra) ||
	    !message_counts_are_sane(message->extra, 3))
		return "a list is invalid";
	if (!message->answer && message->waiter == 0 &&
	    (message->op == DAEMON_MESSAGE_FIND || message->op == DAEMON_MESSAGE_GRANT ||
		message->op == DAEMON_MESSAGE_HOLDER ||
		((message->op == DAEMON_MESSAGE_DENY || message->op == DAEMON_MESSAGE_EVICT) &&
		    message->name == NULL)))
		return "it does not name a waiter or a holder";
	if ((!message->answer && message->op == DAEMON_MESSAGE_EVICT &&
		json_get(tree, "grace") == NULL) ||
	    !message_read_number(
		tree, "grace", INT64_C(1000) * METHODS_GRACE_MOST, &message->grace) ||
	    (why != NULL && !json_is_null(why) &&
		(!json_string(why, &message->why) || strlen(message->why) > METHODS_WORDS_MAX)))
		return "a grace or a reason is invalid";
	return NULL;
}

enum daemon_message_status
daemon_message_parse(const char *text, size_t len, const char *naming, struct daemon_message *ret,
    const char **ret_what)
{
	struct json_error error;
	struct daemon_message message = {.tree = json_parse(text, len, &error)};
	const char *its_naming;
	int64_t version;

	if (message.tree == NULL) {
		*ret_what = "it is not JSON";
		return DAEMON_MESSAGE_GARBLED;
	}
	if (!json_integer(json_get(message.tree, "lockbroker"), &version) ||
	    version != DAEMON_MESSAGE_VERSION ||
	    !json_string(json_get(message.tree, "naming"), &its_naming))
		*ret_what = "it has another version, or is not from a lockbrokerd";
	else if (strcmp(its_naming, naming) != 0)
		*ret_what = NULL;
	else if ((*ret_what = message_read_head(&message)) == NULL &&
		 (*ret_what = message_read_body(&message)) == NULL) {
		*ret = message;
		return DAEMON_MESSAGE_READ;
	}
	json_free(message.tree);
	return *ret_what == NULL ? DAEMON_MESSAGE_FOREIGN : DAEMON_MESSAGE_GARBLED;
}

void
daemon_message_done(struct daemon_message *message)
{
	json_free(message->tree);
	message->tree = NULL;
}
