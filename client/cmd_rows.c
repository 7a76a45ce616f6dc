/* The subcommands that watch who holds and who waits, and that grant, deny and evict. */
#include "client/commands.h"

#include <locale.h>
#include <poll.h>
#include <search.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/exit_status.h"
#include "client/tool/json_text.h"
#include "client/tool/output.h"
#include "client/tool/row.h"
#include "client/tool/text.h"
#include "client/top/top.h"

/* Bytes of a waiter's id on the wire. */
#define WAITER_MAX 64
/* When the daemon has told nothing for so long it is pinged, and has as long to answer that. */
#define SILENCE_MS 5000
#define LINE_SIZE 2048

/* ---- grant, deny, evict ---- */

static bool
good_row(const char *command, const char *what, const char *waiter)
{
	if (*waiter != '\0' && strlen(waiter) <= WAITER_MAX)
		return true;
	say("%s: '%s': not the id of a %s", command, waiter, what);
	return false;
}

static int
ask_grant(struct asking *asking)
{
	int code = asking_call(asking, "grant", "waiter", asking->name, "", ASKING_ANSWER_MS);
	char name[256], host[256];
	const struct json_wanted wanted[] = {
	    {"name", name, sizeof(name)}, {"host", host, sizeof(host)}};

	if (code != LB_OK || asking_printed_json(asking))
		return code;
	json_values(lb_result_json(asking->lb), wanted, 2);
	print_clean("granted: %s on %s, without a slot", name, host);
	return LB_OK;
}

/* Prints how many of one lock or one row have ended: the member `ended`. */
static int
tell_ended(struct asking *asking, const char *ended, const char *whose, const char *does)
{
	const char *result = lb_result_json(asking->lb);
	char meaning[64], count[16], silent[4];
	int slots, code;

	if (asking_printed_json(asking))
		return LB_OK;
	snprintf(meaning, sizeof(meaning), "its %s are perhaps not %s", whose, ended);
	(void)asking_say_missing(result, meaning);
	json_value(result, ended, count, sizeof(count));
	json_value(result, "silent_hosts.0", silent, sizeof(silent));
	printf("%s: %d\n", ended, atoi(count));
	if (!asking->options->all || atoi(count) > 0)
		return LB_OK;
	code = lb_size(asking->lb, asking->name, ASKING_ANSWER_MS, &slots);
	if (code == LB_BROKER_UNAVAILABLE) {
		say("%s: the broker does not answer: only this daemon was asked", asking->name);
		/* The holders on other hosts hold on. */
		if (strcmp(ended, "evicted") == 0)
			asking->status = EXIT_STATUS_NOT_ACQUIRED;
		return LB_OK;
	}
	/* A silent host may have some. */
	if (*silent != '\0')
		return LB_OK;
	if (code != LB_NO_SUCH_LOCK || ask_mutex_is_held(asking->lb, asking->name)) {
		say("%s: no %s", asking->name, whose);
		return LB_OK;
	}
	say("%s: the lock does not exist, and nobody %s it", asking->name, does);
	asking->status = EXIT_STATUS_NO_SUCH_LOCK;
	return LB_OK;
}

static int
ask_deny(struct asking *asking)
{
	bool all = asking->options->all;
	int code = asking_call(asking, "deny", all ? "name" : "waiter", asking->name,
	    all ? ",\"all\":true" : "", ASKING_ANSWER_MS);

	return code == LB_OK ? tell_ended(asking, "denied", "waiters", "waits for") : code;
}

static int
ask_evict(struct asking *asking)
{
	const struct tool_options *options = asking->options;
	char params[JSON_PARAMS_SIZE], silent[4];
	int code;

	json_evict_params(params, options->all ? NULL : asking->name, asking->name,
	    options->grace_ms, options->why);
	code =
	    lb_call(asking->lb, "evict", params, asking_patience(asking, ASKING_ANSWER_MS), NULL);
	if (code != LB_OK)
		return code;
	/* Of one holder, the daemon refuses then. */
	json_value(lb_result_json(asking->lb), "silent_hosts.0", silent, sizeof(silent));
	if (*silent != '\0' && json_value_is(lb_result_json(asking->lb), "evicted", "0"))
		asking->status = EXIT_STATUS_NOT_ACQUIRED;
	return tell_ended(asking, "evicted", "holders", "holds");
}

static void
grant_deny_failed(const struct asking *asking, int code)
{
	(void)asking;
	if (code == LB_NOT_HELD)
		say("lockbroker show NAME lists the waiters: the last column is the WAITER");
}

static void
evicting_failed(const struct asking *asking, int code)
{
	if (code != LB_NOT_HELD)
		return;
	say("lockbroker show NAME lists the holders: the last column is the WAITER");
	if (lb_name_error(asking->name) == NULL)
		say("to evict all holders of a lock: lockbroker evict --all NAME");
}

/* The name of a lock is no WAITER, though it may look like one. */
static void
denying_failed(const struct asking *asking, int code)
{
	grant_deny_failed(asking, code);
	if (code == LB_NOT_HELD && lb_name_error(asking->name) == NULL)
		say("to deny all waiters of a lock: lockbroker deny --all NAME");
}

static bool
check_grant(const struct tool_options *options, char *operands[])
{
	(void)options;
	return good_row("grant", "waiter", operands[0]);
}

/* Of one row, or with --all of a lock. */
static bool
good_subject(
    const char *command, const char *what, const struct tool_options *options, const char *subject)
{
	const char *wrong = options->all ? lb_name_error(subject) : NULL;

	if (wrong != NULL)
		say("%s: '%s': %s", command, subject, wrong);
	return wrong == NULL && (options->all || good_row(command, what, subject));
}

static bool
check_deny(const struct tool_options *options, char *operands[])
{
	return good_subject("deny", "waiter", options, operands[0]);
}

static bool
check_evict(const struct tool_options *options, char *operands[])
{
	if (options->why != NULL && strlen(options->why) > JSON_WHY_MOST) {
		say("evict: --why: more than %d bytes", JSON_WHY_MOST);
		return false;
	}
	return good_subject("evict", "holder", options, operands[0]);
}

const struct question question_grant = {
    .check = check_grant, .ask = ask_grant, .failed = grant_deny_failed};
const struct question question_deny = {
    .check = check_deny, .ask = ask_deny, .failed = denying_failed};
const struct question question_evict = {
    .check = check_evict, .ask = ask_evict, .failed = evicting_failed};

/* ---- watch: a line for each row that comes, changes or is gone ---- */

struct known {
	char waiter[ROW_ID_SIZE]; /* first: a known is looked up by it */
	char name[ROW_NAME_SIZE];
	char whom[ROW_WORDS_SIZE];
};

/* Whose rows there are, so that it can be said who is gone. */
struct row_lines {
	void *known; /* owned; a tree of struct known, by waiter (tsearch(3)) */
	int count;
};

static int
compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void
forget_all(struct row_lines *lines)
{
	tdestroy(lines->known, free);
	lines->known = NULL;
	lines->count = 0;
}

/* Without memory it is not remembered, and its end is told by its id alone. */
static void
remember(struct row_lines *lines, const struct row *row)
{
	struct known *known = calloc(1, sizeof(*known)), **found;

	if (known == NULL)
		return;
	snprintf(known->waiter, sizeof(known->waiter), "%s", row->waiter);
	found = tsearch(known, &lines->known, compare);
	if (found == NULL || *found != known)
		free(known);
	else
		lines->count++;
	if (found == NULL)
		return;
	snprintf((*found)->name, sizeof((*found)->name), "%s", row->name);
	row_whom(row, (*found)->whom, sizeof((*found)->whom));
}

static int
read_row(const char *path, const char *value, void *arg)
{
	if (strncmp(path, "row.", 4) == 0)
		row_take(arg, path + 4, value);
	else if (strcmp(path, "waiter") == 0)
		row_take(arg, path, value);
	return 0;
}

/* Where it stands: " slot 2", " position 1", or nothing. */
static void
place_words(const struct row *row, char *ret, size_t size)
{
	if (row->slot > 0)
		snprintf(ret, size, " slot %d,", row->slot);
	else if (row->position > 0)
		snprintf(ret, size, " position %d,", row->position);
	else
		snprintf(ret, size, "%s", "");
}

static void
print_row(const struct row *row)
{
	char line[LINE_SIZE], whom[ROW_WORDS_SIZE], place[32], process[400] = "", age[24], uid[24];

	/* Whose process it is follows in any case. */
	if (*row->who == '\0' && *row->command == '\0')
		snprintf(whom, sizeof(whom), "somebody");
	else
		row_whom(row, whom, sizeof(whom));
	place_words(row, place, sizeof(place));
	snprintf(uid, sizeof(uid), "%lld", (long long)row->uid);
	if (row->pid >= 0)
		snprintf(process, sizeof(process), ", user %s, pid %lld on %s", row_user(uid),
		    (long long)row->pid, row->host);
	row_age_words(row->age, age, sizeof(age));
	snprintf(line, sizeof(line), "%s: %s,%s %s%s%s%s%s, for %s [%s]", row->name,
	    row_state_word(row->state), place, whom, *row->why != '\0' ? " (" : "", row->why,
	    *row->why != '\0' ? ")" : "", process, age, row->waiter);
	print_clean("%s", line);
}

static void
print_gone(struct row_lines *lines, const char *waiter)
{
	struct known **found = tfind(waiter, &lines->known, compare), *known;
	char line[LINE_SIZE];

	if (found == NULL) {
		snprintf(line, sizeof(line), "gone: [%s]", waiter);
		print_clean("%s", line);
		return;
	}
	known = *found;
	snprintf(line, sizeof(line), "%s: gone, %s [%s]", known->name, known->whom, waiter);
	print_clean("%s", line);
	tdelete(waiter, &lines->known, compare);
	free(known);
	lines->count--;
}

/* One notification, by its method. */
static void
print_told(struct row_lines *lines, const char *method, const char *params)
{
	struct row row;
	int more;

	row_init(&row);
	(void)lb_json_each(params, read_row, &row);
	if (strcmp(method, "row") == 0) {
		remember(lines, &row);
		print_row(&row);
	} else if (strcmp(method, "gone") == 0) {
		print_gone(lines, row.waiter);
	} else if (strcmp(method, "synced") == 0) {
		more = asking_say_missing(params, "its holders and waiters are not included");
		printf("synced: %d row%s; changes follow\n", lines->count,
		    lines->count == 1 ? "" : "s");
		if (more > 0)
			say("%d more rows were left out", more);
	} else if (strcmp(method, "resync") == 0) {
		forget_all(lines);
		printf("resync: all rows follow again\n");
	}
}

/* Prints the pending events. False: LB_EVENT_ANSWERED has ended the watch, or stdout failed. */
static bool
tell(struct asking *asking, struct row_lines *lines)
{
	const struct lb_event *event;

	while ((event = lb_event_next(asking->lb)) != NULL) {
		if (event->type == LB_EVENT_WATCH && asking->options->json)
			printf("{\"jsonrpc\":\"2.0\",\"method\":\"%s\",\"params\":%s}\n",
			    event->reason, event->json);
		else if (event->type == LB_EVENT_WATCH)
			print_told(lines, event->reason, event->json);
		if (event->type != LB_EVENT_ANSWERED)
			continue;
		asking->status = say_refusal(event, asking->options, asking->name);
		return false;
	}
	return print_done();
}

/*
 * Waits for the daemon, or for the time of a ping. False: the reader of stdout is gone. The watch
 * then ends at once, although there may be no output for hours. While there is a watch, all daemons
 * are asked every second.
 */
static bool
wait_for_more(struct lb *lb, int *ret_code)
{
	struct pollfd fds[] = {
	    {.fd = STDOUT_FILENO},
	    {.fd = lb_fd(lb), .events = lb_poll_events(lb)},
	};
	int ready = poll(fds, 2, SILENCE_MS);

	if (ready <= 0 || fds[0].revents == 0) {
		*ret_code = ready == 0 ? lb_ping(lb, 0, SILENCE_MS) : lb_dispatch(lb);
		return true;
	}
	if ((fds[0].revents & POLLERR) != 0)
		raise(SIGPIPE);
	say("stdout: closed by its reader");
	return false;
}

static int
ask_watch(struct asking *asking)
{
	struct row_lines lines = {.count = 0};
	char params[JSON_PARAMS_SIZE] = "{}";
	int64_t request;
	int code;

	/* The daemon sends UTF-8, whatever the user's locale is. */
	setlocale(LC_CTYPE, "C.UTF-8");
	if (asking->name != NULL)
		json_params(params, "name", asking->name, "");
	code = lb_call_start(asking->lb, "watch", params, &request);
	/*
	 * Events that came before the end of the connection are printed before that end is
	 * reported.
	 */
	while (tell(asking, &lines) && code == LB_OK) {
		if (wait_for_more(asking->lb, &code))
			continue;
		asking->status = EXIT_STATUS_IO;
		break;
	}
	forget_all(&lines);
	return code;
}

const struct question question_watch = {.named = true, .ask = ask_watch};

/* ---- top ---- */

int
cmd_top(const struct tool_options *options, char *operands[])
{
	if (options->json || isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1)
		return asking_perform(&question_watch, "watch", options, operands);
	return top_perform(options->socket);
}
