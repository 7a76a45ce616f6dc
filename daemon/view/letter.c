#include "daemon/view/letter.h"

#include <string.h>

#include "daemon/view/wire_id.h"
#include "protocol/json.h"
#include "protocol/lockname.h"

/* In the order of enum letter_op. */
static const char *const ops[LETTER_OPS] = {
    "hello", "bye", "rows", "waiting", "find", "grant", "deny"};

struct cJSON *
letter_new(const struct letter_head *head, enum letter_op op, bool answer)
{
	struct cJSON *letter = json_new_object();
	char run[WIRE_ID_SIZE];

	json_add_integer(letter, "lockbroker", LETTER_VERSION);
	json_add_string(letter, answer ? "answer" : "ask", ops[op]);
	json_add_string(letter, "naming", head->naming);
	json_add_string(letter, "run", wire_id_run(run, head->run));
	json_add_string(letter, "host", head->host);
	json_add_bool(letter, "stays", head->stays);
	return letter;
}

char *
letter_text(struct cJSON *letter)
{
	char *text = json_print(letter);

	json_free(letter);
	return text;
}

/* ---- reading ---- */

static bool
read_number(const struct cJSON *tree, const char *name, int64_t most, uint64_t *ret)
{
	const struct cJSON *value = json_get(tree, name);
	int64_t integer = 0;

	if (value != NULL && (!json_integer(value, &integer) || integer < 0 || integer > most))
		return false;
	*ret = (uint64_t)integer;
	return true;
}

static bool
read_array(const struct cJSON *tree, const char *name, const struct cJSON **ret)
{
	*ret = json_get(tree, name);
	return *ret == NULL || json_is_array(*ret);
}

/* [["db", 3], ...] */
static bool
counts_are_sane(const struct cJSON *counts)
{
	const struct cJSON *pair, *number;
	const char *name;
	int64_t waiting;

	for (pair = json_first(counts); pair != NULL; pair = json_next(pair)) {
		if (!json_is_array(pair) || !json_string(json_first(pair), &name) ||
		    lockname_error(name, strlen(name)) != NULL)
			return false;
		number = json_next(json_first(pair));
		if (number == NULL || !json_integer(number, &waiting) || waiting < 0 ||
		    waiting > LETTER_COUNT_MAX || json_next(number) != NULL)
			return false;
	}
	return true;
}

static bool
slots_are_sane(const struct cJSON *slots)
{
	int64_t slot;

	for (const struct cJSON *one = json_first(slots); one != NULL; one = json_next(one)) {
		if (!json_integer(one, &slot) || slot < 0 || slot > INT32_MAX)
			return false;
	}
	return true;
}

static bool
is_host(const char *text)
{
	size_t len = strlen(text);

	if (len == 0 || len > LETTER_HOST_MAX)
		return false;
	for (; *text != '\0'; text++) {
		if (*text <= ' ' || *text > '~')
			return false;
	}
	return true;
}

/* Who sends it, and what kind it is. */
static const char *
read_head(struct letter *letter)
{
	const struct cJSON *tree = letter->tree;
	const char *word, *run;
	int op = 0;

	letter->answer = json_get(tree, "answer") != NULL;
	if (!json_string(json_get(tree, letter->answer ? "answer" : "ask"), &word))
		return "it is neither a query nor an answer";
	while (op < LETTER_OPS && strcmp(ops[op], word) != 0)
		op++;
	if (op == LETTER_OPS)
		return "it is an unknown query";
	letter->op = (enum letter_op)op;
	if (!json_string(json_get(tree, "run"), &run) || !wire_id_parse_run(run, &letter->run) ||
	    !json_string(json_get(tree, "host"), &letter->host) || !is_host(letter->host) ||
	    !json_bool(json_get(tree, "stays"), &letter->stays))
		return "it does not name its sender";
	return NULL;
}

/* NULL: it is fine. */
static const char *
read_body(struct letter *letter)
{
	const struct cJSON *tree = letter->tree, *last = json_get(tree, "last");
	const struct cJSON *name = json_get(tree, "name"), *waiter = json_get(tree, "waiter");
	const struct cJSON *reason = json_get(tree, "reason");
	const char *text;
	uint64_t uid;

	letter->last = true;
	if (last != NULL && !json_bool(last, &letter->last))
		return "a flag is invalid";
	if ((name != NULL && !json_is_null(name) &&
		(!json_string(name, &letter->name) ||
		    lockname_error(letter->name, strlen(letter->name)) != NULL)) ||
	    (waiter != NULL && (!json_string(waiter, &text) ||
				   !wire_id_parse(text, &letter->waiter_run, &letter->waiter) ||
				   letter->waiter == 0)) ||
	    !read_number(tree, "uid", UINT32_MAX, &uid))
		return "a name, an id or a uid is invalid";
	letter->uid = (uid_t)uid;
	if (reason != NULL && json_string(reason, &text))
		letter->reason = reason_from_word(text);
	if ((reason != NULL && letter->reason == REASON_NONE) ||
	    !read_number(tree, "count", LETTER_COUNT_MAX, &letter->count) ||
	    !read_number(tree, "waiting", LETTER_COUNT_MAX, &letter->waiting) ||
	    !read_number(tree, "more", LETTER_COUNT_MAX, &letter->more))
		return "an outcome or a number is invalid";
	if (!read_array(tree, "rows", &letter->rows) ||
	    !read_array(tree, "slots", &letter->slots) || !slots_are_sane(letter->slots) ||
	    !read_array(tree, "counts", &letter->counts) || !counts_are_sane(letter->counts))
		return "a list is invalid";
	if (!letter->answer && letter->waiter == 0 &&
	    (letter->op == LETTER_FIND || letter->op == LETTER_GRANT ||
		(letter->op == LETTER_DENY && letter->name == NULL)))
		return "it does not name a waiter";
	return NULL;
}

enum letter_look
letter_parse(
    const char *text, size_t len, const char *naming, struct letter *ret, const char **ret_what)
{
	struct json_error error;
	struct letter letter = {.tree = json_parse(text, len, &error)};
	const char *its_naming;
	int64_t version;

	if (letter.tree == NULL) {
		*ret_what = "it is not JSON";
		return LETTER_GARBLED;
	}
	if (!json_integer(json_get(letter.tree, "lockbroker"), &version) ||
	    version != LETTER_VERSION || !json_string(json_get(letter.tree, "naming"), &its_naming))
		*ret_what = "it has another version, or is not from a lockbrokerd";
	else if (strcmp(its_naming, naming) != 0)
		*ret_what = NULL;
	else if ((*ret_what = read_head(&letter)) == NULL &&
		 (*ret_what = read_body(&letter)) == NULL) {
		*ret = letter;
		return LETTER_READ;
	}
	json_free(letter.tree);
	return *ret_what == NULL ? LETTER_FOREIGN : LETTER_GARBLED;
}

void
letter_done(struct letter *letter)
{
	json_free(letter->tree);
	letter->tree = NULL;
}
