#include "client/asking.h"

#include <stdlib.h>
#include <string.h>

#include "client/exit_status.h"
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

int
asking_perform(const struct question *question, const char *command, const struct options *options,
    char *operands[])
{
	struct asking asking = {.options = options, .operands = operands, .name = operands[0]};
	const char *wrong =
	    question->named && operands[0] != NULL ? lb_name_error(operands[0]) : NULL;
	int code = LB_NO_MEMORY;

	if (wrong != NULL)
		say("%s: '%s': %s", command, operands[0], wrong);
	if (wrong != NULL || (question->check != NULL && !question->check(options, operands)))
		return EXIT_STATUS_USAGE;
	signals_end_at_once();
	asking.lb = lb_new();
	if (asking.lb != NULL) {
		lb_set_silence_limit(asking.lb, SILENCE_LIMIT_MS);
		code = lb_connect(
		    asking.lb, options->socket, asking_patience(&asking, CONNECT_TIMEOUT_MS));
	}
	if (code != LB_OK) {
		asking.status = say_failure(asking.lb, code, options, NULL);
	} else if ((code = question->ask(&asking)) != LB_OK) {
		asking.status = say_failure(asking.lb, code, options, asking.name);
		if (question->failed != NULL && !options->json)
			question->failed(&asking, code);
		/* The last: after its question the error is gone. */
		if (code == LB_NO_SUCH_LOCK && question->semaphore && !options->json &&
		    !say_mutex_is_held(asking.lb, asking.name))
			say("lockbroker list shows all semaphores; to create this one: lockbroker "
			    "create %s SLOTS",
			    asking.name);
	}
	lb_free(asking.lb);
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
