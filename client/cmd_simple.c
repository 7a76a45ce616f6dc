/* The subcommands about the daemon, about a hold that is somebody else's, and the raw call. */
#include "client/commands.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/asking.h"
#include "client/exit_status.h"
#include "client/output.h"
#include "client/watch.h"

/* It answers by itself, asking nobody: more would be no sign of health. */
#define PING_ANSWER_MS 5000

static int
find_kind(const char *path, const char *value, void *arg)
{
	if (strcmp(path, "kind") == 0)
		*(bool *)arg = strcmp(value, "mutex") == 0;
	return 0;
}

static int
ask_verify(struct lb *lb, const struct options *options, char *operands[], int *ret_status)
{
	bool mutex = false;
	int slot = 0;
	int code = lb_verify_id(lb, operands[0], asking_patience(options, ASKING_ANSWER_MS), &slot);

	(void)ret_status;
	if (code != LB_OK || asking_printed_json(lb, options))
		return code;
	(void)lb_json_each(lb_result_json(lb), find_kind, &mutex);
	if (slot > 0)
		printf("held, slot %d\n", slot);
	else
		printf(mutex ? "held\n" : "held, without a slot (unlimited)\n");
	return LB_OK;
}

int
cmd_verify(const struct options *options, char *operands[])
{
	char *lock[] = {operands[0] != NULL ? operands[0] : getenv("LOCKBROKER_LOCK"), NULL};
	const struct asking asking = {.name = lock[0], .ask = ask_verify};

	if (lock[0] == NULL || lock[0][0] == '\0') {
		say("verify: no LOCK, and $LOCKBROKER_LOCK is not set");
		return EXIT_STATUS_USAGE;
	}
	return asking_perform(&asking, options, lock);
}

static int
ask_info(struct lb *lb, const struct options *options, char *operands[], int *ret_status)
{
	int code = lb_call(lb, "info", NULL, asking_patience(options, ASKING_ANSWER_MS), NULL);

	(void)operands;
	(void)ret_status;
	if (code == LB_OK && !asking_printed_json(lb, options))
		print_members(lb_result_json(lb));
	return code;
}

int
cmd_info(const struct options *options, char *operands[])
{
	const struct asking asking = {.ask = ask_info};

	return asking_perform(&asking, options, operands);
}

static int
find_state(const char *path, const char *value, void *arg)
{
	if (strcmp(path, "broker.state") == 0)
		snprintf(arg, 16, "%s", value);
	return 0;
}

static int
ask_ping(struct lb *lb, const struct options *options, char *operands[], int *ret_status)
{
	int64_t began = watch_now();
	int code = lb_ping(lb, options->broker, asking_patience(options, PING_ANSWER_MS));
	char state[16] = "up";

	(void)operands;
	if (code != LB_OK)
		return code;
	if (!asking_printed_json(lb, options)) {
		printf("answered within %lld ms\n", (long long)(watch_now() - began) + 1);
		print_members(lb_result_json(lb));
	}
	(void)lb_json_each(lb_result_json(lb), find_state, state);
	if (strcmp(state, "up") != 0) {
		say("the broker is %s", state);
		*ret_status = EXIT_STATUS_UNREACHABLE;
	}
	return LB_OK;
}

int
cmd_ping(const struct options *options, char *operands[])
{
	const struct asking asking = {.ask = ask_ping};

	return asking_perform(&asking, options, operands);
}

/* Unless told, waits as long as it takes: how long a method may wait is in its params. */
static int
ask_call(struct lb *lb, const struct options *options, char *operands[], int *ret_status)
{
	char *result;
	int code =
	    lb_call(lb, operands[0], operands[1], asking_patience(options, LB_FOREVER), &result);

	(void)ret_status;
	if (code != LB_OK)
		return code;
	print_json(result);
	free(result);
	return LB_OK;
}

int
cmd_call(const struct options *options, char *operands[])
{
	const struct asking asking = {.name = operands[0], .ask = ask_call};

	return asking_perform(&asking, options, operands);
}
