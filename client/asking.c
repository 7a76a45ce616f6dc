#include "client/asking.h"

#include <stdlib.h>
#include <string.h>

#include "client/exit_status.h"
#include "client/private_daemon.h"
#include "client/tool/json_text.h"
#include "client/tool/output.h"
#include "client/tool/signals.h"

#define CONNECT_TIMEOUT_MS 10000
/*
 * The limit of silence while a request waits, as with --wait. After half of it the library sends a
 * ping. The daemon answers a ping at once, unless it is stopped, or the user has used up its memory
 * there.
 */
#define SILENCE_LIMIT_MS 10000

int64_t
asking_patience(const struct asking *asking, int64_t usual_ms)
{
	return asking->options->timeout_ms >= 0 ? asking->options->timeout_ms : usual_ms;
}

/* After the call that failed with this code. */
static void
say_failed(const struct question *question, struct asking *asking, int code)
{
	const struct tool_options *options = asking->options;

	asking->status = say_failure(asking->lb, code, options, asking->name);
	if (question->failed != NULL && !options->json)
		question->failed(asking, code);
	/* The last: after its question the error is gone. */
	if (code == LB_NO_SUCH_LOCK && question->semaphore && !options->json &&
	    !say_mutex_is_held(asking->lb, asking->name))
		say("lockbroker list shows all semaphores; to create this one: lockbroker "
		    "create %s SLOTS",
		    asking->name);
}

/* With a private daemon, if the user wants one. False: the exit status is set, and a message said why. */
static bool
connect_to_daemon(
    struct asking *asking, struct tool_options *options, struct private_daemon *daemon)
{
	bool private = options_want_private(options);
	struct signals signals;
	int code;

	if (private)
		asking->status = private_daemon_start(daemon, options, &signals);
	if (asking->status != EXIT_STATUS_OK)
		return false;
	lb_set_silence_limit(asking->lb, SILENCE_LIMIT_MS);
	code = lb_connect(asking->lb, options->socket, asking_patience(asking, CONNECT_TIMEOUT_MS));
	/* From here on there is nothing to tidy up: a signal may end this process. */
	private_daemon_hide(daemon);
	if (private)
		signals_restore(&signals);
	if (code != LB_OK)
		asking->status = say_failure(asking->lb, code, options, NULL);
	return code == LB_OK;
}

int
asking_perform(const struct question *question, const char *command,
    const struct tool_options *options, char *operands[])
{
	struct tool_options own = *options;
	struct private_daemon daemon = {.pid = 0};
	struct asking asking = {.options = &own, .operands = operands, .name = operands[0]};
	const char *wrong =
	    question->named && operands[0] != NULL ? lb_name_error(operands[0]) : NULL;
	int code;

	if (wrong != NULL)
		say("%s: '%s': %s", command, operands[0], wrong);
	if (wrong != NULL || (question->check != NULL && !question->check(options, operands)))
		return EXIT_STATUS_USAGE;
	signals_end_at_once();
	asking.lb = lb_new();
	if (asking.lb == NULL)
		return say_failure(NULL, LB_NO_MEMORY, options, NULL);
	if (connect_to_daemon(&asking, &own, &daemon) && (code = question->ask(&asking)) != LB_OK)
		say_failed(question, &asking, code);
	lb_free(asking.lb);
	private_daemon_stop(&daemon);
	return asking.status;
}

int
asking_call(const struct asking *asking, const char *method, const char *member, const char *value,
    const char *more, int64_t usual_ms)
{
	char params[JSON_PARAMS_SIZE];

	json_params(params, member, value, more);
	return lb_call(asking->lb, method, params, asking_patience(asking, usual_ms), NULL);
}

bool
asking_printed_json(const struct asking *asking)
{
	if (asking->options->json)
		print_json(lb_result_json(asking->lb));
	return asking->options->json;
}

struct missing {
	const char *meaning;
	int more;
};

static int
find_missing(const char *path, const char *value, void *arg)
{
	struct missing *missing = arg;

	if (strncmp(path, "silent_hosts.", 13) == 0)
		say("host %s does not answer: %s", value, missing->meaning);
	else if (strcmp(path, "more") == 0)
		missing->more = atoi(value);
	return 0;
}

int
asking_say_missing(const char *json, const char *meaning)
{
	struct missing missing = {.meaning = meaning};

	(void)lb_json_each(json, find_missing, &missing);
	return missing.more;
}
