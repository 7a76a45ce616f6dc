/* The subcommands that ask one thing, print the answer and end. */
#include "client/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/exit_status.h"
#include "client/output.h"
#include "client/watch.h"

#define CONNECT_TIMEOUT_MS 10000
#define ANSWER_TIMEOUT_MS 60000

/* What a subcommand asks over a connection that stands; operands as cmd_*(). Prints on LB_OK. */
struct asking {
	const char *name; /* what a failure is about; NULL = nothing */
	int (*ask)(struct lb *lb, const struct options *options, char *operands[]);
};

static int
ask_one(const struct asking *asking, const struct options *options, char *operands[])
{
	struct lb *lb = lb_new();
	int code = LB_NO_MEMORY, status = EXIT_STATUS_OK;

	if (lb != NULL)
		code = lb_connect(lb, options->socket, CONNECT_TIMEOUT_MS);
	if (code != LB_OK) {
		status = say_failure(lb, code, options, NULL);
	} else {
		code = asking->ask(lb, options, operands);
		/* Without words of the library's, it has been told already. */
		if (code != LB_OK && *lb_message(lb) == '\0')
			status = (int)exit_status_of(code);
		else if (code != LB_OK)
			status = say_failure(lb, code, options, asking->name);
	}
	lb_free(lb);
	return status;
}

/* The result as it came, if that was asked for. */
static bool
printed_json(struct lb *lb, const struct options *options)
{
	if (options->json)
		print_json(lb_result_json(lb));
	return options->json;
}

static bool
parse_slots(const char *text, int *ret)
{
	char *end;
	long slots = strtol(text, &end, 10);

	if (end == text || *end != '\0' || slots < 1 || slots > 10000)
		return false;
	*ret = (int)slots;
	return true;
}

static int
ask_verify(struct lb *lb, const struct options *options, char *operands[])
{
	int slot = 0;
	int code = lb_verify_id(lb, operands[0], ANSWER_TIMEOUT_MS, &slot);

	if (code != LB_OK || printed_json(lb, options))
		return code;
	if (slot > 0)
		printf("held, slot %d\n", slot);
	else
		printf("held\n");
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
	return ask_one(&asking, options, lock);
}

static int
ask_create(struct lb *lb, const struct options *options, char *operands[])
{
	int slots = 1, code;

	if (operands[1] != NULL)
		(void)parse_slots(operands[1], &slots);
	code = lb_create(lb, operands[0], slots, options->exist_ok, ANSWER_TIMEOUT_MS);
	if (code == LB_OK)
		printed_json(lb, options);
	return code;
}

int
cmd_create(const struct options *options, char *operands[])
{
	const struct asking asking = {.name = operands[0], .ask = ask_create};
	int slots;

	if (operands[1] != NULL && !parse_slots(operands[1], &slots)) {
		say("create: %s: SLOTS is a number from 1 to 10000", operands[1]);
		return EXIT_STATUS_USAGE;
	}
	return ask_one(&asking, options, operands);
}

static int
ask_destroy(struct lb *lb, const struct options *options, char *operands[])
{
	int code = lb_destroy(lb, operands[0], ANSWER_TIMEOUT_MS);

	if (code == LB_OK)
		printed_json(lb, options);
	return code;
}

int
cmd_destroy(const struct options *options, char *operands[])
{
	const struct asking asking = {.name = operands[0], .ask = ask_destroy};

	return ask_one(&asking, options, operands);
}

static int
ask_size(struct lb *lb, const struct options *options, char *operands[])
{
	int slots;
	int code = lb_size(lb, operands[0], ANSWER_TIMEOUT_MS, &slots);

	if (code == LB_OK && !printed_json(lb, options))
		printf("%d\n", slots);
	return code;
}

int
cmd_size(const struct options *options, char *operands[])
{
	const struct asking asking = {.name = operands[0], .ask = ask_size};

	return ask_one(&asking, options, operands);
}

static int
ask_info(struct lb *lb, const struct options *options, char *operands[])
{
	int code = lb_call(lb, "info", NULL, ANSWER_TIMEOUT_MS, NULL);

	(void)operands;
	if (code == LB_OK && !printed_json(lb, options))
		print_members(lb_result_json(lb));
	return code;
}

int
cmd_info(const struct options *options, char *operands[])
{
	const struct asking asking = {.ask = ask_info};

	return ask_one(&asking, options, operands);
}

static int
find_state(const char *path, const char *value, void *arg)
{
	if (strcmp(path, "broker.state") == 0)
		snprintf(arg, 16, "%s", value);
	return 0;
}

static int
ask_ping(struct lb *lb, const struct options *options, char *operands[])
{
	int64_t began = watch_now();
	int code = lb_ping(lb, options->broker, ANSWER_TIMEOUT_MS);
	char state[16] = "up";

	(void)operands;
	if (code != LB_OK)
		return code;
	if (!printed_json(lb, options)) {
		printf("answered within %lld ms\n", (long long)(watch_now() - began) + 1);
		print_members(lb_result_json(lb));
	}
	(void)lb_json_each(lb_result_json(lb), find_state, state);
	if (strcmp(state, "up") == 0)
		return LB_OK;
	say("the broker is %s", state);
	return LB_BROKER_UNAVAILABLE;
}

int
cmd_ping(const struct options *options, char *operands[])
{
	const struct asking asking = {.ask = ask_ping};

	return ask_one(&asking, options, operands);
}

/* Waits as long as it takes: how long a method may wait is in its params. */
static int
ask_call(struct lb *lb, const struct options *options, char *operands[])
{
	char *result;
	int code = lb_call(lb, operands[0], operands[1], LB_FOREVER, &result);

	(void)options;
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

	return ask_one(&asking, options, operands);
}
