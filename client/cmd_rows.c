/* The subcommands that watch who holds and who waits, and that steer who waits. */
#include "client/commands.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/asking.h"
#include "client/exit_status.h"
#include "client/json_params.h"
#include "client/output.h"
#include "client/row_lines.h"

/* Bytes of a waiter's id on the wire. */
#define WAITER_MAX 64
/* When the daemon has told nothing for so long it is pinged, and has as long to answer that. */
#define SILENCE_MS 5000

/* ---- grant, deny ---- */

static bool
good_waiter(const char *command, const char *waiter)
{
	if (*waiter != '\0' && strlen(waiter) <= WAITER_MAX)
		return true;
	say("%s: '%s': nobody waits under such an id", command, waiter);
	return false;
}

static int
call_steering(struct lb *lb, const struct options *options, const char *method, const char *member,
    const char *value, const char *more)
{
	char params[JSON_PARAMS_SIZE];

	json_params(params, member, value, more);
	return lb_call(lb, method, params, asking_patience(options, ASKING_ANSWER_MS), NULL);
}

struct steered {
	char name[256], host[256];
	int denied;
};

static int
read_steered(const char *path, const char *value, void *arg)
{
	struct steered *steered = arg;

	if (strcmp(path, "name") == 0)
		snprintf(steered->name, sizeof(steered->name), "%s", value);
	else if (strcmp(path, "host") == 0)
		snprintf(steered->host, sizeof(steered->host), "%s", value);
	else if (strcmp(path, "denied") == 0)
		steered->denied = atoi(value);
	else if (strncmp(path, "unknown_hosts.", 14) == 0)
		say("%s does not answer: who waits there is not denied", value);
	return 0;
}

static int
ask_grant(struct lb *lb, const struct options *options, char *operands[], int *ret_status)
{
	int code = call_steering(lb, options, "grant", "waiter", operands[0], "");
	struct steered steered = {.denied = 0};

	(void)ret_status;
	if (code != LB_OK || asking_printed_json(lb, options))
		return code;
	(void)lb_json_each(lb_result_json(lb), read_steered, &steered);
	printf("granted: %s on %s, without a slot\n", steered.name, steered.host);
	return LB_OK;
}

static int
ask_deny(struct lb *lb, const struct options *options, char *operands[], int *ret_status)
{
	bool all = options->all;
	int code = call_steering(
	    lb, options, "deny", all ? "name" : "waiter", operands[0], all ? ",\"all\":true" : "");
	struct steered steered = {.denied = 0};

	(void)ret_status;
	if (code != LB_OK || asking_printed_json(lb, options))
		return code;
	(void)lb_json_each(lb_result_json(lb), read_steered, &steered);
	printf("denied: %d\n", steered.denied);
	if (all && steered.denied == 0)
		say("%s: nobody waits for a lock of that name", operands[0]);
	return LB_OK;
}

static void
steering_failed(struct lb *lb, int code, char *operands[])
{
	(void)lb;
	(void)operands;
	if (code == LB_NOT_HELD)
		say("`lockbroker show NAME` tells who waits: the last column is the WAITER");
}

/* The name of a lock is no WAITER, though it may look like one. */
static void
denying_failed(struct lb *lb, int code, char *operands[])
{
	steering_failed(lb, code, operands);
	if (code == LB_NOT_HELD && lb_name_error(operands[0]) == NULL)
		say("all that wait for a lock: lockbroker deny --all NAME");
}

int
cmd_grant(const struct options *options, char *operands[])
{
	const struct asking asking = {
	    .name = operands[0], .ask = ask_grant, .failed = steering_failed};

	if (!good_waiter("grant", operands[0]))
		return EXIT_STATUS_USAGE;
	return asking_perform(&asking, options, operands);
}

int
cmd_deny(const struct options *options, char *operands[])
{
	const struct asking asking = {
	    .name = operands[0], .ask = ask_deny, .failed = denying_failed};
	const char *wrong = options->all ? lb_name_error(operands[0]) : NULL;

	if (wrong != NULL)
		say("deny: '%s': %s", operands[0], wrong);
	if (wrong != NULL || (!options->all && !good_waiter("deny", operands[0])))
		return EXIT_STATUS_USAGE;
	return asking_perform(&asking, options, operands);
}

/* ---- watch ---- */

/* What was told so far; LB_EVENT_ANSWERED is the end. */
static bool
tell(struct lb *lb, const struct options *options, const char *name, struct row_lines *lines,
    int *ret_status)
{
	const struct lb_event *event;

	while ((event = lb_event_next(lb)) != NULL) {
		if (event->type == LB_EVENT_WATCH)
			row_lines_print(lines, event->reason, event->json, options->json);
		if (event->type != LB_EVENT_ANSWERED)
			continue;
		*ret_status = say_refusal(event, options, name);
		return false;
	}
	return print_done();
}

/*
 * Until the daemon says something, or should be asked whether it is there. False: nobody reads what is printed,
 * which is the end although there may be nothing to print for hours; as long as somebody watches all daemons
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
	say("stdout: nobody reads it");
	return false;
}

static int
ask_watch(struct lb *lb, const struct options *options, char *operands[], int *ret_status)
{
	struct row_lines *lines = row_lines_new();
	char params[JSON_PARAMS_SIZE] = "{}";
	int64_t request;
	int code;

	if (lines == NULL) {
		say("out of memory");
		*ret_status = EXIT_STATUS_INTERNAL;
		return LB_OK;
	}
	if (operands[0] != NULL)
		json_params(params, "name", operands[0], "");
	code = lb_call_start(lb, "watch", params, &request);
	/* What was said before the connection's end is printed before that is told. */
	while (tell(lb, options, operands[0], lines, ret_status) && code == LB_OK) {
		if (wait_for_more(lb, &code))
			continue;
		*ret_status = EXIT_STATUS_IO;
		break;
	}
	row_lines_free(lines);
	return code;
}

int
cmd_watch(const struct options *options, char *operands[])
{
	const struct asking asking = {.name = operands[0], .ask = ask_watch};
	const char *wrong = operands[0] != NULL ? lb_name_error(operands[0]) : NULL;

	if (wrong != NULL) {
		say("watch: '%s': %s", operands[0], wrong);
		return EXIT_STATUS_USAGE;
	}
	return asking_perform(&asking, options, operands);
}
