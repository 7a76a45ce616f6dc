/*
 * The subcommands that read or check semaphores: size, await, list, show, explain and fsck.
 */
#include "client/commands.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/all_rows.h"
#include "client/exit_status.h"
#include "client/tool/json_text.h"
#include "client/tool/option_values.h"
#include "client/tool/output.h"
#include "client/tool/row.h"
#include "client/tool/table.h"
#include "client/tool/terminal_line.h"

/* The limit for an answer: the daemon can scan many semaphores, or repair many slots. */
#define SCAN_ANSWER_MS 600000

/* ---- size ---- */

static int
ask_size(struct asking *asking)
{
	int slots;
	int code =
	    lb_size(asking->lb, asking->name, asking_patience(asking, ASKING_ANSWER_MS), &slots);

	if (code != LB_OK || asking_printed_json(asking))
		return code;
	if (slots == LB_UNLIMITED)
		printf("unlimited\n");
	else
		printf("%d\n", slots);
	return LB_OK;
}

const struct question question_size = {.semaphore = true, .ask = ask_size};

/* ---- await ---- */

static bool
check_await(const struct tool_options *options, char *operands[])
{
	int slot;

	(void)options;
	if (option_number(operands[1], 1, 10000, "", &slot) != NULL) {
		say("await: '%s': expected a slot number, 1 to 10000", operands[1]);
		return false;
	}
	if (strcmp(operands[2], "free") != 0 && strcmp(operands[2], "busy") != 0) {
		say("await: '%s': expected free or busy", operands[2]);
		return false;
	}
	return true;
}

static int
ask_await(struct asking *asking)
{
	bool busy = strcmp(asking->operands[2], "busy") == 0;
	int code = lb_await(asking->lb, asking->name, atoi(asking->operands[1]),
	    busy ? LB_SLOT_BUSY : LB_SLOT_FREE, asking->options->wait_ms);

	if (code == LB_OK)
		asking_printed_json(asking);
	return code;
}

const struct question question_await = {.semaphore = true, .check = check_await, .ask = ask_await};

/* ---- list, fsck ---- */

#define COLUMNS(columns) (sizeof(columns) / sizeof(columns[0]))

static const char *
show_number(const char *value)
{
	return *value == '\0' ? "?" : value;
}

/* Holders beyond the slots. */
static const char *
show_extra(const char *value)
{
	static char words[24];

	*words = '\0';
	if (atoi(value) > 0)
		snprintf(words, sizeof(words), " (+%d)", atoi(value));
	return words;
}

static const char *
show_missing(const char *value)
{
	return strcmp(value, "false") == 0 ? "missing" : "";
}

static const struct table_column list_columns[] = {
    {.title = "NAME", .member = "name"},
    {.title = "SLOTS", .member = "slots", .number = true, .show = show_number},
    {.member = "kind", .over = true},
    {.title = "BUSY", .member = "busy", .number = true, .show = show_number},
    {.member = "extra", .behind = true, .show = show_extra},
    {.title = "WAITING", .member = "waiting", .number = true, .show = show_number},
    {.title = "", .member = "exists", .show = show_missing},
};
static const char *const list_arrays[] = {"semaphores", "mutexes", NULL};

static const char *
show_yes(const char *value)
{
	return strcmp(value, "true") == 0 ? "yes" : "no";
}

static const struct table_column fsck_columns[] = {
    {.title = "PROBLEM", .member = "problem"},
    {.title = "SLOT", .member = "slot", .number = true},
    {.title = "REPAIRED", .member = "repaired", .show = show_yes},
    {.title = "WHAT", .member = "text"},
};
static const char *const fsck_arrays[] = {"findings", NULL};

/* Prints the rows. Without rows a user at a terminal gets `none`. */
static void
print_rows(struct asking *asking, const char *result, const char *const *arrays,
    const struct table_column *columns, size_t count, const char *none)
{
	size_t rows;
	int more;

	if (!table_print(result, arrays, columns, count, !asking->options->no_headers, &rows)) {
		say("out of memory");
		asking->status = EXIT_STATUS_INTERNAL;
		return;
	}
	if (rows == 0 && isatty(STDOUT_FILENO) == 1)
		printf("%s\n", none);
	/* There is an end to what fits into the daemon's lines. */
	more = asking_say_missing(result, "its waiters are not included");
	if (more > 0)
		say("%d more do not fit into one answer", more);
}

static int
ask_list(struct asking *asking)
{
	int code = lb_call(asking->lb, "list", NULL, asking_patience(asking, SCAN_ANSWER_MS), NULL);

	if (code == LB_OK && !asking_printed_json(asking))
		print_rows(asking, lb_result_json(asking->lb), list_arrays, list_columns,
		    COLUMNS(list_columns), "There are no semaphores.");
	return code;
}

const struct question question_list = {.ask = ask_list};

/* Of findings; of those that there is no room for, it is not known, so they count. */
struct fsck_tally {
	int unrepaired;
	int repairable;            /* of a kind that --repair may repair */
	int unrepaired_repairable; /* both */
	int claims;                /* slots that are held in another way */
	/* the finding in hand: of the two members that are counted */
	int members;
	bool is_repaired, is_repairable;
};

static void
count_finding(struct fsck_tally *tally)
{
	tally->members = 0;
	tally->unrepaired += !tally->is_repaired;
	tally->repairable += tally->is_repairable;
	tally->unrepaired_repairable += !tally->is_repaired && tally->is_repairable;
}

static int
count_findings(const char *path, const char *value, void *arg)
{
	struct fsck_tally *tally = arg;
	const char *dot = strrchr(path, '.');
	bool finding = strncmp(path, "findings.", 9) == 0;

	if (finding && strcmp(dot, ".repaired") == 0) {
		tally->is_repaired = strcmp(value, "true") == 0;
		tally->members++;
	} else if (finding && strcmp(dot, ".problem") == 0) {
		tally->is_repairable =
		    strcmp(value, "orphan") != 0 && strcmp(value, "arguments") != 0 &&
		    strcmp(value, "claim") != 0 && strcmp(value, "unreachable") != 0;
		tally->claims += strcmp(value, "claim") == 0;
		tally->members++;
	} else if (strcmp(path, "more") == 0 && strcmp(value, "0") != 0) {
		tally->unrepaired++;
		tally->repairable++;
		tally->unrepaired_repairable++;
	}
	if (tally->members == 2)
		count_finding(tally);
	return 0;
}

/* The parameters besides the name. */
static void
fsck_params(char *buf, size_t size, const struct tool_options *options)
{
	int used = snprintf(buf, size, "%s", options->repair ? ",\"repair\":true" : "");

	if (options->convert != LB_CLAIM_DEFAULT)
		used += snprintf(buf + used, size - (size_t)used, ",\"convert\":\"%s\"",
		    lb_claim_word(options->convert));
	if (options->takeover_grace_ms > 0)
		used += snprintf(buf + used, size - (size_t)used, ",\"takeover_grace\":%.3f",
		    (double)options->takeover_grace_ms / 1000);
	if (options->holder_wait_ms == LB_FOREVER)
		used += snprintf(buf + used, size - (size_t)used, ",\"wait\":null");
	else if (options->holder_wait_ms > 0)
		used += snprintf(buf + used, size - (size_t)used, ",\"wait\":%.3f",
		    (double)options->holder_wait_ms / 1000);
	if (options->holder_wait_ms != 0 && terminal_line_possible())
		snprintf(buf + used, size - (size_t)used, ",\"progress\":true");
}

static int
ask_fsck(struct asking *asking)
{
	bool repair = asking->options->repair;
	int64_t wait = asking->options->holder_wait_ms;
	const char *name = asking->name;
	char params[192], converted[16], slots[SLOT_WORDS_SIZE], extra[16];
	int code;
	struct fsck_tally tally = {.members = 0};

	fsck_params(params, sizeof(params), asking->options);
	progress_begin(asking->lb, name);
	code = asking_call(asking, "fsck", "name", name, params,
	    wait == LB_FOREVER ? LB_FOREVER : SCAN_ANSWER_MS + wait);
	progress_end(asking->lb);
	if (code != LB_OK)
		return code;
	json_value(lb_result_json(asking->lb), "converted", converted, sizeof(converted));
	(void)lb_json_each(lb_result_json(asking->lb), count_findings, &tally);
	if (tally.unrepaired_repairable > 0)
		asking->status = EXIT_STATUS_FOUND;
	else if (tally.unrepaired > 0)
		asking->status = EXIT_STATUS_LEFT;
	if (asking_printed_json(asking))
		return LB_OK;
	print_rows(asking, lb_result_json(asking->lb), fsck_arrays, fsck_columns,
	    COLUMNS(fsck_columns), "No problems.");
	json_value(lb_result_json(asking->lb), "extra", extra, sizeof(extra));
	if (slot_words(slots, lb_result_json(asking->lb), "holders", atoi(extra)))
		say("%s: removed, and its holder still works: %s", name, slots);
	if (atoi(converted) > 0)
		say("%s: %s slot%s converted", name, converted, atoi(converted) == 1 ? "" : "s");
	if (tally.repairable > 0 && !repair)
		say("%s: to repair: lockbroker fsck --repair %s", name, name);
	if (tally.claims > 0 && asking->options->convert == LB_CLAIM_DEFAULT)
		say("%s: to hold all slots in one way: lockbroker fsck --repair --convert=WAY %s",
		    name, name);
	return LB_OK;
}

const struct question question_fsck = {.named = true, .semaphore = true, .ask = ask_fsck};

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
show_evicted(const char *value)
{
	return strcmp(value, "true") == 0 ? "evicted" : "";
}

static const char *
show_unknown(const char *value)
{
	return strcmp(value, "true") == 0 ? "unknown" : "";
}

/* The first column is left out if there is only one name. */
static const struct table_column show_columns[] = {
    {.title = "NAME", .member = "name"},
    {.title = "STATE", .member = "state"},
    {.member = "revoked", .over = true, .show = show_revoked},
    {.member = "evicted", .over = true, .show = show_evicted},
    {.title = "SLOT", .member = "slot", .number = true},
    {.title = "POSITION", .member = "position", .number = true},
    {.title = "WHO", .member = "who"},
    {.member = "unknown", .over = true, .show = show_unknown},
    {.title = "WHY", .member = "why"},
    {.title = "COMMAND", .member = "command"},
    {.title = "USER", .member = "uid", .show = row_user},
    {.title = "PID", .member = "pid", .number = true},
    {.title = "HOST", .member = "host"},
    {.title = "AGE", .member = "age", .number = true, .show = show_age},
    {.title = "WAITER", .member = "waiter"},
};
static const char *const show_arrays[] = {"holders", "waiters", NULL};

/* Notes a mutex, which has no number of slots. */
static int
find_mutex(const char *path, const char *value, void *arg)
{
	const char *member = strrchr(path, '.');

	if (member != NULL && strcmp(member, ".kind") == 0 && strcmp(value, "mutex") == 0)
		*(bool *)arg = true;
	return 0;
}

static const char *const all_arrays[] = {"rows", NULL};

static int
ask_show_all(struct asking *asking)
{
	char *rows;
	int code = all_rows_read(asking, &rows);

	if (code != LB_OK)
		return code;
	if (asking->options->json)
		print_json(rows);
	else
		print_rows(asking, rows, all_arrays, show_columns, COLUMNS(show_columns),
		    "No holders, no waiters.");
	free(rows);
	return LB_OK;
}

static int
ask_show_one(struct asking *asking)
{
	int code = asking_call(asking, "show", "name", asking->name, "", ASKING_ANSWER_MS);
	char slots[16], busy[16], waiting[16], silent[4], claim[24], reason[32], extra[16];
	const struct json_wanted wanted[] = {{"slots", slots, sizeof(slots)},
	    {"busy", busy, sizeof(busy)}, {"waiting", waiting, sizeof(waiting)},
	    {"silent_hosts.0", silent, sizeof(silent)}, {"claim", claim, sizeof(claim)},
	    {"reason", reason, sizeof(reason)}, {"extra", extra, sizeof(extra)}};
	bool mutex = false, away;

	if (code != LB_OK)
		return code;
	json_values(lb_result_json(asking->lb), wanted, 7);
	if (strcmp(reason, lb_code_word(LB_BROKER_REFUSED)) == 0)
		asking->status = EXIT_STATUS_BROKER_REFUSED;
	if (asking_printed_json(asking))
		return LB_OK;
	(void)lb_json_each(lb_result_json(asking->lb), find_mutex, &mutex);
	if (isatty(STDOUT_FILENO) == 1)
		printf("%s: slots %s, busy %s%s, waiting %s%s%s\n", asking->name,
		    show_number(slots), show_number(busy), show_extra(extra), show_number(waiting),
		    *claim != '\0' ? ", claim " : "", claim);
	/* Of a mutex no number is known anyway. */
	away = *busy == '\0' && (!mutex || asking->status != EXIT_STATUS_OK);
	print_rows(asking, lb_result_json(asking->lb), show_arrays, show_columns + 1,
	    COLUMNS(show_columns) - 1,
	    away || *silent != '\0' ? "No holders or waiters are known."
				    : "No holders, no waiters.");
	if (away && strcmp(reason, lb_code_word(LB_NO_SUCH_LOCK)) == 0) {
		say("%s: the semaphore does not exist any more", asking->name);
	} else if (away) {
		say("%s: %s: only the rows of the daemons are shown", asking->name,
		    asking->status != EXIT_STATUS_OK ? broker_words("refused")
						     : "the broker does not answer");
	}
	return LB_OK;
}

static int
ask_show(struct asking *asking)
{
	return asking->name != NULL ? ask_show_one(asking) : ask_show_all(asking);
}

/* The name may be that of a free mutex, which nobody creates. */
static void
show_failed(const struct asking *asking, int code)
{
	(void)asking;
	if (code == LB_NO_SUCH_LOCK)
		say("lockbroker list shows all semaphores, and the names of mutexes that are held "
		    "or "
		    "waited for");
}

const struct question question_show = {.named = true, .ask = ask_show, .failed = show_failed};

/* ---- explain ---- */

static int
ask_explain(struct asking *asking)
{
	int kind = asking->options->kind, code;
	char more[48] = "", verdict[24], reason[32], text[768];
	const struct json_wanted wanted[] = {{"verdict", verdict, sizeof(verdict)},
	    {"reason", reason, sizeof(reason)}, {"text", text, sizeof(text)}};
	const char *name = asking->name;

	if (kind != LB_SEMAPHORE)
		snprintf(more, sizeof(more), ",\"kind\":\"%s\"", lb_kind_word(kind));
	code = asking_call(asking, "explain", "name", name, more, ASKING_ANSWER_MS);
	if (code != LB_OK)
		return code;
	json_values(lb_result_json(asking->lb), wanted, 3);
	if (*reason != '\0')
		asking->status = status_of_word(reason);
	else if (*verdict == '\0')
		asking->status = EXIT_STATUS_UNREACHABLE;
	if (asking_printed_json(asking))
		return LB_OK;
	print_clean("%s: %s", name, text);
	if (asking->status == EXIT_STATUS_BROKER_REFUSED)
		say_daemon_refused(asking->options);
	if (strcmp(verdict, "gate") == 0)
		printf("To open it: lockbroker resize %s N\n", name);
	else if (strcmp(verdict, "no-such-lock") == 0 && !say_mutex_is_held(asking->lb, name))
		printf("To create it: lockbroker create %s SLOTS\n", name);
	return LB_OK;
}

const struct question question_explain = {.named = true, .semaphore = true, .ask = ask_explain};
