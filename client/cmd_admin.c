/* The subcommands that create, change and remove semaphores. */
#include "client/commands.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tool/json_text.h"
#include "client/tool/option_values.h"
#include "client/tool/output.h"
#include "client/tool/terminal_line.h"

/* The daemon gives up by itself on what does not answer; ten thousand slots take their time. */
#define ADMIN_ANSWER_MS 600000

/* ---- further output ---- */

/* More bytes than a warning of the daemon has. */
#define WORDS_SIZE 320

static void
tell_warning(const char *name, const char *json, const char *path)
{
	char warning[WORDS_SIZE];

	if (*json_value(json, path, warning, sizeof(warning)) != '\0')
		say("%s: %s", name, warning);
}

/*
 * The state after a wait that ended too soon: the change is done, but these holders are left.
 * False: there was no wait.
 */
static bool
tell_holders(const char *name, const char *error)
{
	char slots[SLOT_WORDS_SIZE], left[16];

	json_value(error, "data.left", left, sizeof(left));
	if (!slot_words(slots, error, "data.holders", atoi(left)))
		return false;
	say("%s: removed, but still busy: %s; to keep waiting: lockbroker await %s SLOT free", name,
	    slots, name);
	tell_warning(name, error, "data.warning");
	return true;
}

static void
tell_done(const struct asking *asking)
{
	if (!asking_printed_json(asking))
		tell_warning(asking->name, lb_result_json(asking->lb), "warning");
}

static struct lb_change
change_of(const struct tool_options *options)
{
	struct lb_change how = LB_CHANGE_INIT;

	how.kind = options->kind;
	how.exist_ok = options->exist_ok;
	how.claim = options->claim;
	how.takeover_grace_ms = options->takeover_grace_ms;
	how.force = options->force;
	how.wait_ms = options->holder_wait_ms;
	how.progress = options->holder_wait_ms != 0 && terminal_line_possible();
	how.ascending = options->ascending;
	how.overshoot = options->overshoot;
	return how;
}

/* ---- create ---- */

static bool
check_create(const struct tool_options *options, char *operands[])
{
	int slots = 1;
	const char *wanted = operands[1] != NULL ? option_slots(operands[1], &slots) : NULL;

	if (wanted != NULL) {
		say("create: '%s': expected %s", operands[1], wanted);
		return false;
	}
	if (options->kind == LB_PERSISTENT_MUTEX && slots != 1) {
		say("create: a persistent-mutex has one slot (to close it: lockbroker resize %s 0)",
		    operands[0]);
		return false;
	}
	return true;
}

static int
ask_create(struct asking *asking)
{
	const struct lb_change how = change_of(asking->options);
	int slots = 1, code;

	if (asking->operands[1] != NULL)
		(void)option_slots(asking->operands[1], &slots);
	code = lb_create(
	    asking->lb, asking->name, slots, &how, asking_patience(asking, ADMIN_ANSWER_MS));
	if (code != LB_OK)
		return code;
	tell_done(asking);
	if (!asking->options->json && ask_mutex_is_held(asking->lb, asking->name))
		say("%s: a mutex of this name is in use, and the semaphore does not exclude its "
		    "holder",
		    asking->name);
	return LB_OK;
}

static void
create_failed(const struct asking *asking, int code)
{
	const char *name = asking->name;
	const char *slots = asking->operands[1] != NULL ? asking->operands[1] : "1";
	const char *way = lb_claim_word(asking->options->claim);
	char found[16];
	int there, wanted;

	if (code == LB_ALREADY_EXISTS) {
		json_value(lb_error_json(asking->lb), "data.slots", found, sizeof(found));
		if (asking->options->exist_ok && way != NULL &&
		    option_slots(found, &there) == NULL && option_slots(slots, &wanted) == NULL &&
		    there == wanted)
			say("to change how its slots are held: lockbroker fsck --repair "
			    "--convert=%s %s",
			    way, name);
		else if (option_slots(found, &there) == NULL &&
			 option_slots(slots, &wanted) == NULL && there == wanted)
			say("use --exist-ok to accept that");
		else
			say("to change its size: lockbroker resize %s %s", name, slots);
	} else if (code == LB_WOULD_BLOCK) {
		say("to hold its slots by exclusive queues, too: lockbroker create "
		    "--claim=exclusive-queue %s %s",
		    name, slots);
	} else if ((code == LB_BROKER_BLOCKED || code == LB_BROKER_UNAVAILABLE ||
		       code == LB_CLOSED || code == LB_DEADLINE) &&
		   !json_value_is(lb_error_json(asking->lb), "data.changed", "false")) {
		say("%s: the semaphore may be incomplete; to complete it: lockbroker create "
		    "--exist-ok %s %s",
		    name, name, slots);
	}
}

const struct question question_create = {
    .check = check_create, .ask = ask_create, .failed = create_failed};

/* ---- resize ---- */

struct size_wanted {
	int slots; /* when by is 0 */
	int by;
};

/* NULL, or the expected form. */
static const char *
parse_size(const char *text, struct size_wanted *ret)
{
	static const char wanted[] = "N, +N, -N or unlimited: slots, 0 to 10000";
	int number;

	ret->by = 0;
	if (*text != '+' && *text != '-')
		return option_slots(text, &ret->slots) == NULL ? NULL : wanted;
	if (text[1] < '0' || text[1] > '9' ||
	    option_number(text + 1, 1, 10000, wanted, &number) != NULL)
		return wanted;
	ret->by = *text == '+' ? number : -number;
	return NULL;
}

static bool
check_resize(const struct tool_options *options, char *operands[])
{
	struct size_wanted wanted;
	const char *wrong = parse_size(operands[1], &wanted);

	(void)options;
	if (wrong != NULL)
		say("resize: '%s': expected %s", operands[1], wrong);
	return wrong == NULL;
}

static int
ask_resize(struct asking *asking)
{
	const struct lb_change how = change_of(asking->options);
	int64_t patience = asking_patience(asking, ADMIN_ANSWER_MS);
	struct size_wanted wanted;
	int code, slots;

	(void)parse_size(asking->operands[1], &wanted);
	progress_begin(asking->lb, asking->name);
	code = wanted.by == 0
		   ? lb_resize(asking->lb, asking->name, wanted.slots, &how, patience)
		   : lb_resize_by(asking->lb, asking->name, wanted.by, &how, patience, &slots);
	progress_end(asking->lb);
	if (code != LB_OK)
		return code;
	tell_done(asking);
	if (wanted.by != 0 && !asking->options->json)
		printf("%d\n", slots);
	return LB_OK;
}

/*
 * If resize was given +N, a second +N would add to the first. The text therefore names the target
 * size.
 */
static void
resize_failed(const struct asking *asking, int code)
{
	const char *error = lb_error_json(asking->lb), *name = asking->name;
	const char *given = asking->operands[1];
	bool relative = *given == '+' || *given == '-';
	bool done = tell_holders(name, error);
	char slots[16];

	json_value(error, "data.target", slots, sizeof(slots));
	if (done)
		say_held_by(asking->lb, name);
	if (relative && *slots == '\0' && (code == LB_CLOSED || code == LB_DEADLINE))
		say("%s: the resize may be incomplete; see lockbroker size %s, and set the size "
		    "with lockbroker resize %s N",
		    name, name, name);
	if (!relative || *slots == '\0')
		return;
	if (done || code == LB_INVALID_PARAMS || json_value_is(error, "data.changed", "false"))
		say("%s: the target was %s slot%s", name, slots,
		    strcmp(slots, "1") == 0 ? "" : "s");
	else
		say("%s: the target was %s slot%s; to complete the resize: lockbroker resize %s %s",
		    name, slots, strcmp(slots, "1") == 0 ? "" : "s", name, slots);
}

const struct question question_resize = {
    .semaphore = true, .check = check_resize, .ask = ask_resize, .failed = resize_failed};

/* ---- destroy ---- */

static int
count_holder(const char *path, const char *value, void *arg)
{
	int index, end = 0;

	(void)value;
	if (sscanf(path, "holders.%d.waiter%n", &index, &end) == 1 && end > 0 && path[end] == '\0')
		++*(int *)arg;
	return 0;
}

/* The holders of the semaphore that was destroyed. */
static void
say_left(const struct asking *asking)
{
	int count = 0;

	if (asking_call(asking, "show", "name", asking->name, "", HINT_ANSWER_MS) != LB_OK)
		return;
	(void)lb_json_each(lb_result_json(asking->lb), count_holder, &count);
	if (count > 0)
		say("%s: %d holder%s until the release", asking->name, count,
		    count == 1 ? " keeps its slot" : "s keep their slots");
}

static int
ask_destroy(struct asking *asking)
{
	const struct lb_change how = change_of(asking->options);
	int code;

	progress_begin(asking->lb, asking->name);
	code = lb_destroy(asking->lb, asking->name, &how, asking_patience(asking, ADMIN_ANSWER_MS));
	progress_end(asking->lb);
	if (code != LB_OK)
		return code;
	tell_done(asking);
	if (!asking->options->json && how.wait_ms == 0)
		say_left(asking);
	return LB_OK;
}

static void
destroy_failed(const struct asking *asking, int code)
{
	if (tell_holders(asking->name, lb_error_json(asking->lb)))
		say_held_by(asking->lb, asking->name);
	if (code == LB_NO_SUCH_LOCK && !say_mutex_is_held(asking->lb, asking->name))
		say("lockbroker list shows all semaphores");
}

const struct question question_destroy = {.ask = ask_destroy, .failed = destroy_failed};
