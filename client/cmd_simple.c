/* The subcommands about the daemon, about a hold that is somebody else's, and the raw call. */
#include "client/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/exit_status.h"
#include "client/tool/json_text.h"
#include "client/tool/output.h"
#include "client/tool/watch.h"

/* It answers by itself, asking nobody: more would be no sign of health. */
#define PING_ANSWER_MS 5000

static const char *
lock_meant(char *operands[])
{
	return operands[0] != NULL ? operands[0] : getenv("LOCKBROKER_LOCK");
}

static bool
check_verify(const struct tool_options *options, char *operands[])
{
	const char *lock = lock_meant(operands);

	(void)options;
	if (lock != NULL && *lock != '\0')
		return true;
	say("verify: missing LOCK, and $LOCKBROKER_LOCK is not set");
	return false;
}

static int
ask_verify(struct asking *asking)
{
	int slot = 0, code;

	asking->name = lock_meant(asking->operands);
	code = lb_verify_id(
	    asking->lb, asking->name, asking_patience(asking, ASKING_ANSWER_MS), &slot);
	if (code != LB_OK || asking_printed_json(asking))
		return code;
	if (slot > 0)
		printf("held, slot %d\n", slot);
	else if (json_value_is(lb_result_json(asking->lb), "kind", "mutex"))
		printf("held\n");
	else
		printf("held, without a slot (unlimited)\n");
	return LB_OK;
}

const struct question question_verify = {.check = check_verify, .ask = ask_verify};

static int
ask_info(struct asking *asking)
{
	int code =
	    lb_call(asking->lb, "info", NULL, asking_patience(asking, ASKING_ANSWER_MS), NULL);

	if (code == LB_OK && !asking_printed_json(asking))
		print_members(lb_result_json(asking->lb));
	return code;
}

const struct question question_info = {.ask = ask_info};

static int
ask_ping(struct asking *asking)
{
	int64_t began = watch_now();
	int code =
	    lb_ping(asking->lb, asking->options->broker, asking_patience(asking, PING_ANSWER_MS));
	char state[16], why[256], silent[24], suspect[8];
	const struct json_wanted wanted[] = {{"broker.state", state, sizeof(state)},
	    {"broker.why", why, sizeof(why)}, {"broker.silent", silent, sizeof(silent)},
	    {"broker.suspect", suspect, sizeof(suspect)}};

	if (code != LB_OK)
		return code;
	if (!asking_printed_json(asking)) {
		printf("answered within %lld ms\n", (long long)(watch_now() - began) + 1);
		print_members(lb_result_json(asking->lb));
	}
	json_values(lb_result_json(asking->lb), wanted, 4);
	if (*state != '\0' && strcmp(state, "up") != 0)
		say("%s%s%s", broker_words(state), *why != '\0' ? ": " : "", why);
	else if (strcmp(suspect, "true") == 0)
		say("the broker has been silent for %.1f s: locks are suspect", atof(silent));
	else
		return LB_OK;
	asking->status = EXIT_STATUS_UNREACHABLE;
	return LB_OK;
}

const struct question question_ping = {.ask = ask_ping};

/* Unless told, waits as long as it takes: how long a method may wait is in its params. */
static int
ask_call(struct asking *asking)
{
	int code = lb_call(asking->lb, asking->operands[0], asking->operands[1],
	    asking_patience(asking, LB_FOREVER), NULL);

	if (code == LB_OK)
		print_json(lb_result_json(asking->lb));
	return code;
}

const struct question question_call = {.ask = ask_call};
