/* The subcommands that look at semaphores: how large they are, what is wrong with them, who they let in. */
#include "client/commands.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/asking.h"
#include "client/exit_status.h"
#include "client/option_values.h"
#include "client/output.h"
#include "client/row.h"
#include "client/table.h"

/* So many semaphores, or slots to mend, are looked at one after another. */
#define LOOK_ANSWER_MS 600000

/* ---- size ---- */

static int
ask_size(struct lb *lb, const struct options *options, char *operands[], int *ret_status)
{
	int slots;
	int code = lb_size(lb, operands[0], asking_patience(options, ASKING_ANSWER_MS), &slots);

	(void)ret_status;
	if (code != LB_OK || asking_printed_json(lb, options))
		return code;
	if (slots == LB_UNLIMITED)
		printf("unlimited\n");
	else
		printf("%d\n", slots);
	return LB_OK;
}

int
cmd_size(const struct options *options, char *operands[])
{
	const struct asking asking = {.name = operands[0], .semaphore = true, .ask = ask_size};

	return asking_perform(&asking, options, operands);
}

/* ---- await ---- */

static int
ask_await(struct lb *lb, const struct options *options, char *operands[], int *ret_status)
{
	enum lb_slot_state state = strcmp(operands[2], "taken") == 0 ? LB_SLOT_TAKEN : LB_SLOT_FREE;
	int slot = atoi(operands[1]), code;

	(void)ret_status;
	code = lb_await(lb, operands[0], slot, state, options->wait_ms);
	if (code == LB_OK)
		asking_printed_json(lb, options);
	return code;
}

int
cmd_await(const struct options *options, char *operands[])
{
	const struct asking asking = {.name = operands[0], .semaphore = true, .ask = ask_await};
	int slot;

	if (option_number(operands[1], 1, 10000, "", &slot) != NULL) {
		say("await: '%s': want the number of a slot, 1 to 10000", operands[1]);
		return EXIT_STATUS_USAGE;
	}
	if (strcmp(operands[2], "free") != 0 && strcmp(operands[2], "taken") != 0) {
		say("await: '%s': want free or taken", operands[2]);
		return EXIT_STATUS_USAGE;
	}
	return asking_perform(&asking, options, operands);
}

/* ---- list, fsck ---- */

#define COLUMNS(columns) (sizeof(columns) / sizeof(columns[0]))

static const char *
show_number(const char *value)
{
	return *value == '\0' ? "?" : value;
}

static const char *
show_missing(const char *value)
{
	return strcmp(value, "false") == 0 ? "missing" : "";
}

static const struct table_column list_columns[] = {
    {.title = "NAME", .member = "name"},
    {.title = "SLOTS", .member = "slots", .number = true, .show = show_number},
    {.title = "BUSY", .member = "busy", .number = true, .show = show_number},
    {.title = "WAITING", .member = "waiting", .number = true, .show = show_number},
    {.title = "", .member = "exists", .show = show_missing},
};
static const char *const list_arrays[] = {"semaphores", NULL};

static const char *
show_yes(const char *value)
{
	return strcmp(value, "true") == 0 ? "yes" : "no";
}

static const struct table_column fsck_columns[] = {
    {.title = "FLAW", .member = "flaw"},
    {.title = "SLOT", .member = "slot", .number = true},
    {.title = "MENDED", .member = "repaired", .show = show_yes},
    {.title = "WHAT", .member = "text"},
};
static const char *const fsck_arrays[] = {"findings", NULL};

/* What did not fit into the answer, as the daemon's lines have an end; and who did not answer. */
static int
find_more(const char *path, const char *value, void *arg)
{
	if (strcmp(path, "more") == 0)
		*(int *)arg = atoi(value);
	else if (strncmp(path, "unknown_hosts.", 14) == 0)
		say("%s does not answer: what waits there is missing", value);
	return 0;
}

/* Without any, a word to who would see nothing. */
static void
print_rows(struct lb *lb, const char *const *arrays, const struct table_column *columns,
    size_t count, const char *none, int *ret_status)
{
	const char *result = lb_result_json(lb);
	int more = 0;
	size_t rows;

	if (!table_print(result, arrays, columns, count, &rows)) {
		say("out of memory");
		*ret_status = EXIT_STATUS_INTERNAL;
		return;
	}
	if (rows == 0 && isatty(STDOUT_FILENO) == 1)
		printf("%s\n", none);
	(void)lb_json_each(result, find_more, &more);
	if (more > 0)
		say("and %d more, for which there is no room in one answer", more);
}

static int
ask_list(struct lb *lb, const struct options *options, char *operands[], int *ret_status)
{
	int code = lb_call(lb, "list", NULL, asking_patience(options, LOOK_ANSWER_MS), NULL);

	(void)operands;
	if (code == LB_OK && !asking_printed_json(lb, options))
		print_rows(lb, list_arrays, list_columns, COLUMNS(list_columns),
		    "There are no semaphores.", ret_status);
	return code;
}

int
cmd_list(const struct options *options, char *operands[])
{
	const struct asking asking = {.ask = ask_list};

	return asking_perform(&asking, options, operands);
}

/* Whether it may be a lock's name, which then needs no care in JSON; false after telling why not. */
static bool
good_name(const char *command, const char *name)
{
	const char *wrong = lb_name_error(name);

	if (wrong != NULL)
		say("%s: '%s': %s", command, name, wrong);
	return wrong == NULL;
}

/* Calls a method that takes a good name and one thing more, as a member of JSON; "" = nothing. */
static int
call_about(
    struct lb *lb, const char *method, const char *name, const char *more, int64_t patience_ms)
{
	char params[512];

	snprintf(params, sizeof(params), "{\"name\":\"%s\"%s}", name, more);
	return lb_call(lb, method, params, patience_ms, NULL);
}

/* Of findings; of those that there is no room for, it is not known, so they count. */
struct tally {
	int unmended;
	int mendable;          /* of a kind that --repair may mend */
	int unmended_mendable; /* both */
	/* the finding in hand: of the two members that are counted */
	int members;
	bool is_mended, is_mendable;
};

static void
count_finding(struct tally *tally)
{
	tally->members = 0;
	tally->unmended += !tally->is_mended;
	tally->mendable += tally->is_mendable;
	tally->unmended_mendable += !tally->is_mended && tally->is_mendable;
}

static int
count_findings(const char *path, const char *value, void *arg)
{
	struct tally *tally = arg;
	const char *dot = strrchr(path, '.');
	bool finding = strncmp(path, "findings.", 9) == 0;

	if (finding && strcmp(dot, ".repaired") == 0) {
		tally->is_mended = strcmp(value, "true") == 0;
		tally->members++;
	} else if (finding && strcmp(dot, ".flaw") == 0) {
		tally->is_mendable =
		    strcmp(value, "orphan") != 0 && strcmp(value, "arguments") != 0;
		tally->members++;
	} else if (strcmp(path, "more") == 0 && strcmp(value, "0") != 0) {
		tally->unmended++;
		tally->mendable++;
		tally->unmended_mendable++;
	}
	if (tally->members == 2)
		count_finding(tally);
	return 0;
}

static int
ask_fsck(struct lb *lb, const struct options *options, char *operands[], int *ret_status)
{
	const char *name = operands[0];
	int code = call_about(lb, "fsck", name, options->repair ? ",\"repair\":true" : "",
	    asking_patience(options, LOOK_ANSWER_MS));
	struct tally tally = {.members = 0};

	if (code != LB_OK)
		return code;
	(void)lb_json_each(lb_result_json(lb), count_findings, &tally);
	if (tally.unmended_mendable > 0)
		*ret_status = EXIT_STATUS_FOUND;
	else if (tally.unmended > 0)
		*ret_status = EXIT_STATUS_LEFT;
	if (asking_printed_json(lb, options))
		return LB_OK;
	print_rows(lb, fsck_arrays, fsck_columns, COLUMNS(fsck_columns),
	    "Nothing is wrong with it.", ret_status);
	if (tally.mendable > 0 && !options->repair)
		say("%s: lockbroker fsck --repair %s mends what can be mended", name, name);
	return LB_OK;
}

int
cmd_fsck(const struct options *options, char *operands[])
{
	const struct asking asking = {.name = operands[0], .semaphore = true, .ask = ask_fsck};

	if (!good_name("fsck", operands[0]))
		return EXIT_STATUS_USAGE;
	return asking_perform(&asking, options, operands);
}

/* ---- show ---- */

static const char *
show_age(const char *value)
{
	static char words[24];

	row_age_words(*value != '\0' ? atof(value) : -1, words, sizeof(words));
	return words;
}

static const char *
show_revoked(const char *value)
{
	return strcmp(value, "true") == 0 ? "revoked" : "";
}

static const char *
show_unknown(const char *value)
{
	return strcmp(value, "true") == 0 ? "unknown" : "";
}

static const struct table_column show_columns[] = {
    {.title = "STATE", .member = "state"},
    {.member = "revoked", .over = true, .show = show_revoked},
    {.title = "SLOT", .member = "slot", .number = true},
    {.title = "POSITION", .member = "position", .number = true},
    {.title = "WHO", .member = "who"},
    {.member = "unknown", .over = true, .show = show_unknown},
    {.title = "WHY", .member = "why"},
    {.title = "COMMAND", .member = "command"},
    {.title = "UID", .member = "uid", .number = true},
    {.title = "PID", .member = "pid", .number = true},
    {.title = "HOST", .member = "host"},
    {.title = "AGE", .member = "age", .number = true, .show = show_age},
    {.title = "WAITER", .member = "waiter"},
};
static const char *const show_arrays[] = {"holders", "waiters", NULL};

struct shown {
	char slots[16], busy[16], waiting[16];
	bool mutex;  /* of which there is no number of slots */
	bool silent; /* somebody did not answer */
};

static int
read_shown(const char *path, const char *value, void *arg)
{
	struct shown *shown = arg;
	const char *member = strrchr(path, '.');

	if (member != NULL && strcmp(member, ".kind") == 0 && strcmp(value, "mutex") == 0)
		shown->mutex = true;
	if (strncmp(path, "unknown_hosts.", 14) == 0)
		shown->silent = true;
	value = show_number(value);
	if (strcmp(path, "slots") == 0)
		snprintf(shown->slots, sizeof(shown->slots), "%s", value);
	else if (strcmp(path, "busy") == 0)
		snprintf(shown->busy, sizeof(shown->busy), "%s", value);
	else if (strcmp(path, "waiting") == 0)
		snprintf(shown->waiting, sizeof(shown->waiting), "%s", value);
	return 0;
}

static int
find_broker_up(const char *path, const char *value, void *arg)
{
	if (strcmp(path, "broker.state") == 0)
		*(bool *)arg = strcmp(value, "up") == 0;
	return 0;
}

/* Neither slots nor busy are known, and it is no mutex. */
static void
say_what_is_missing(struct lb *lb, const struct options *options, const char *name)
{
	bool up = false;

	if (lb_call(lb, "ping", "{\"broker\":true}", asking_patience(options, ASKING_ANSWER_MS),
		NULL) == LB_OK)
		(void)lb_json_each(lb_result_json(lb), find_broker_up, &up);
	say(up ? "%s: there is no such semaphore any more"
	       : "%s: the broker cannot be asked: only what this host knows is shown",
	    name);
}

static int
ask_show(struct lb *lb, const struct options *options, char *operands[], int *ret_status)
{
	int code =
	    call_about(lb, "show", operands[0], "", asking_patience(options, ASKING_ANSWER_MS));
	struct shown shown = {.slots = ""};
	bool away;

	if (code != LB_OK || asking_printed_json(lb, options))
		return code;
	(void)lb_json_each(lb_result_json(lb), read_shown, &shown);
	if (isatty(STDOUT_FILENO) == 1)
		printf("%s: slots %s, busy %s, waiting %s\n", operands[0], shown.slots, shown.busy,
		    shown.waiting);
	away = strcmp(shown.busy, "?") == 0 && !shown.mutex;
	print_rows(lb, show_arrays, show_columns, COLUMNS(show_columns),
	    away || shown.silent ? "Nobody is known to hold it or to wait."
				 : "Nobody holds it, and nobody waits.",
	    ret_status);
	if (away)
		say_what_is_missing(lb, options, operands[0]);
	return LB_OK;
}

int
cmd_show(const struct options *options, char *operands[])
{
	const struct asking asking = {.name = operands[0], .semaphore = true, .ask = ask_show};

	if (!good_name("show", operands[0]))
		return EXIT_STATUS_USAGE;
	return asking_perform(&asking, options, operands);
}

/* ---- explain ---- */

struct explanation {
	char verdict[24];
	char text[768];
};

static int
read_explanation(const char *path, const char *value, void *arg)
{
	struct explanation *explanation = arg;

	if (strcmp(path, "verdict") == 0)
		snprintf(explanation->verdict, sizeof(explanation->verdict), "%s", value);
	else if (strcmp(path, "text") == 0)
		snprintf(explanation->text, sizeof(explanation->text), "%s", value);
	return 0;
}

static int
ask_explain(struct lb *lb, const struct options *options, char *operands[], int *ret_status)
{
	const char *name = operands[0];
	char kind[48];
	int code;
	struct explanation explanation = {.verdict = ""};

	snprintf(kind, sizeof(kind), ",\"kind\":\"%s\"", lb_kind_word(options->kind));
	code = call_about(lb, "explain", name, options->kind != LB_SEMAPHORE ? kind : "",
	    asking_patience(options, ASKING_ANSWER_MS));
	if (code != LB_OK)
		return code;
	(void)lb_json_each(lb_result_json(lb), read_explanation, &explanation);
	if (strcmp(explanation.verdict, "no-such-lock") == 0)
		*ret_status = EXIT_STATUS_NO_SUCH_LOCK;
	else if (strcmp(explanation.verdict, "already-exists") == 0)
		*ret_status = EXIT_STATUS_EXISTS;
	else if (*explanation.verdict == '\0' || strcmp(explanation.verdict, "unknown") == 0)
		*ret_status = EXIT_STATUS_UNREACHABLE;
	if (asking_printed_json(lb, options))
		return LB_OK;
	printf("%s: %s\n", name, explanation.text);
	if (strcmp(explanation.verdict, "gate") == 0)
		printf("To open it: lockbroker resize %s N\n", name);
	else if (strcmp(explanation.verdict, "no-such-lock") == 0)
		printf("To create it: lockbroker create %s SLOTS\n", name);
	return LB_OK;
}

int
cmd_explain(const struct options *options, char *operands[])
{
	const struct asking asking = {.name = operands[0], .semaphore = true, .ask = ask_explain};

	if (!good_name("explain", operands[0]))
		return EXIT_STATUS_USAGE;
	return asking_perform(&asking, options, operands);
}
