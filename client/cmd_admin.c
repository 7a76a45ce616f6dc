/* The subcommands that create, change and remove semaphores. */
#include "client/commands.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/asking.h"
#include "client/exit_status.h"
#include "client/option_values.h"
#include "client/output.h"
#include "client/progress.h"
#include "client/slot_words.h"

/* The daemon gives up by itself on what does not answer; ten thousand slots take their time. */
#define ADMIN_ANSWER_MS 600000

/* ---- what there is to say besides ---- */

struct found {
	const char *path;
	char value[320];
};

static int
find_one(const char *path, const char *value, void *arg)
{
	struct found *found = arg;

	if (strcmp(path, found->path) == 0)
		snprintf(found->value, sizeof(found->value), "%s", value);
	return 0;
}

/* The value at that path; "" = there is none. */
static const char *
find(struct found *found, const char *json, const char *path)
{
	*found = (struct found){.path = path};
	(void)lb_json_each(json, find_one, found);
	return found->value;
}

static void
tell_warning(const char *name, const char *json, const char *path)
{
	struct found found;

	if (*find(&found, json, path) != '\0')
		say("%s: %s", name, found.value);
}

/* Of a wait that ended too soon: what the change has done, but for who still holds. False: it did not wait. */
static bool
tell_held(const char *name, const char *error)
{
	struct slot_words slots = {.count = 0};
	struct found left;

	slot_words_read(&slots, error, "data.held");
	if (slots.count == 0)
		return false;
	say("%s: removed and still held: %s; to wait on: lockbroker await %s SLOT free", name,
	    slot_words_end(&slots, atoi(find(&left, error, "data.left"))), name);
	tell_warning(name, error, "data.warning");
	return true;
}

static void
tell_done(struct lb *lb, const struct options *options, const char *name)
{
	if (!asking_printed_json(lb, options))
		tell_warning(name, lb_result_json(lb), "warning");
}

static struct lb_change
change_of(const struct options *options)
{
	struct lb_change how = LB_CHANGE_INIT;

	how.kind = options->kind;
	how.exist_ok = options->exist_ok;
	how.wait_ms = options->drain_ms;
	how.progress = options->drain_ms != 0 && progress_wanted();
	how.ascending = options->ascending;
	how.overshoot = options->overshoot;
	return how;
}

/* ---- create ---- */

static int
ask_create(struct lb *lb, const struct options *options, char *operands[], int *ret_status)
{
	const struct lb_change how = change_of(options);
	int slots = 1, code;

	(void)ret_status;
	if (operands[1] != NULL)
		(void)option_slots(operands[1], &slots);
	code = lb_create(lb, operands[0], slots, &how, asking_patience(options, ADMIN_ANSWER_MS));
	if (code == LB_OK)
		tell_done(lb, options, operands[0]);
	return code;
}

/* Whether what the error tells of has that size already. */
static bool
has_size(const char *error, const char *wanted)
{
	struct found found;
	int slots = 0, there = 0;

	(void)option_slots(wanted, &slots);
	return option_slots(find(&found, error, "data.slots"), &there) == NULL && there == slots;
}

static void
create_failed(struct lb *lb, int code, char *operands[])
{
	const char *name = operands[0], *slots = operands[1] != NULL ? operands[1] : "1";

	switch (code) {
	case LB_ALREADY_EXISTS:
		if (has_size(lb_error_json(lb), slots))
			say("--exist-ok makes that a success");
		else
			say("to change its size: lockbroker resize %s %s", name, slots);
		break;
	case LB_BROKER_BLOCKED:
	case LB_BROKER_UNAVAILABLE:
	case LB_CLOSED:
	case LB_DEADLINE:
		say("%s: whatever was done of it, lockbroker create --exist-ok %s %s completes it",
		    name, name, slots);
		break;
	default:
		break;
	}
}

int
cmd_create(const struct options *options, char *operands[])
{
	const struct asking asking = {
	    .name = operands[0], .ask = ask_create, .failed = create_failed};
	const char *wanted;
	int slots = 1;

	wanted = operands[1] != NULL ? option_slots(operands[1], &slots) : NULL;
	if (wanted != NULL) {
		say("create: '%s': want %s", operands[1], wanted);
		return EXIT_STATUS_USAGE;
	}
	if (options->kind == LB_PERSISTENT_MUTEX && slots != 1) {
		say("create: a persistent-mutex has one slot (resize %s 0 closes it for the time "
		    "being)",
		    operands[0]);
		return EXIT_STATUS_USAGE;
	}
	return asking_perform(&asking, options, operands);
}

/* ---- resize ---- */

struct size_wanted {
	int slots; /* when by is 0 */
	int by;
};

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

static int
ask_resize(struct lb *lb, const struct options *options, char *operands[], int *ret_status)
{
	const struct lb_change how = change_of(options);
	struct size_wanted wanted;
	int code, slots;

	(void)ret_status;
	(void)parse_size(operands[1], &wanted);
	progress_begin(lb, operands[0]);
	if (wanted.by == 0)
		code = lb_resize(
		    lb, operands[0], wanted.slots, &how, asking_patience(options, ADMIN_ANSWER_MS));
	else
		code = lb_resize_by(lb, operands[0], wanted.by, &how,
		    asking_patience(options, ADMIN_ANSWER_MS), &slots);
	progress_end(lb);
	if (code != LB_OK)
		return code;
	tell_done(lb, options, operands[0]);
	if (wanted.by != 0 && !options->json)
		printf("%d\n", slots);
	return LB_OK;
}

/* A second +N would come on top of what the first has done: what it was to become is the way to go on. */
static void
resize_failed(struct lb *lb, int code, char *operands[])
{
	const char *error = lb_error_json(lb), *name = operands[0], *slots;
	bool relative = operands[1][0] == '+' || operands[1][0] == '-';
	bool done = tell_held(name, error);
	struct found target;

	slots = find(&target, error, "data.target");
	if (relative && *slots == '\0' && (code == LB_CLOSED || code == LB_DEADLINE))
		say("%s: how much of it was done is not known: lockbroker size %s tells how many "
		    "slots there are, and lockbroker resize %s N makes them N",
		    name, name, name);
	if (!relative || *slots == '\0')
		return;
	if (done || code == LB_INVALID_PARAMS)
		say("%s: it was to have %s slot%s", name, slots,
		    strcmp(slots, "1") == 0 ? "" : "s");
	else
		say("%s: it was to have %s slot%s: lockbroker resize %s %s completes that", name,
		    slots, strcmp(slots, "1") == 0 ? "" : "s", name, slots);
}

int
cmd_resize(const struct options *options, char *operands[])
{
	const struct asking asking = {
	    .name = operands[0], .semaphore = true, .ask = ask_resize, .failed = resize_failed};
	struct size_wanted wanted;
	const char *wrong = parse_size(operands[1], &wanted);

	if (wrong != NULL) {
		say("resize: '%s': want %s", operands[1], wrong);
		return EXIT_STATUS_USAGE;
	}
	return asking_perform(&asking, options, operands);
}

/* ---- destroy ---- */

static int
ask_destroy(struct lb *lb, const struct options *options, char *operands[], int *ret_status)
{
	const struct lb_change how = change_of(options);
	int code;

	(void)ret_status;
	progress_begin(lb, operands[0]);
	code = lb_destroy(lb, operands[0], &how, asking_patience(options, ADMIN_ANSWER_MS));
	progress_end(lb);
	if (code == LB_OK)
		tell_done(lb, options, operands[0]);
	return code;
}

static void
destroy_failed(struct lb *lb, int code, char *operands[])
{
	(void)tell_held(operands[0], lb_error_json(lb));
	if (code == LB_NO_SUCH_LOCK)
		say("`lockbroker list` tells which there are");
}

int
cmd_destroy(const struct options *options, char *operands[])
{
	const struct asking asking = {
	    .name = operands[0], .ask = ask_destroy, .failed = destroy_failed};

	return asking_perform(&asking, options, operands);
}
