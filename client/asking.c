#include "client/asking.h"

#include "client/exit_status.h"
#include "client/output.h"
#include "client/signals.h"

#define CONNECT_TIMEOUT_MS 10000
/*
 * Also while an answer may take its time, as with --wait: a daemon that says nothing for half of that is
 * pinged, and answers at once unless it is stopped, or its user has used up its memory there.
 */
#define SILENCE_LIMIT_MS 10000

int64_t
asking_patience(const struct options *options, int64_t usual_ms)
{
	return options->timeout_ms >= 0 ? options->timeout_ms : usual_ms;
}

int
asking_perform(const struct asking *asking, const struct options *options, char *operands[])
{
	struct lb *lb = lb_new();
	int code = LB_NO_MEMORY, status = EXIT_STATUS_OK;

	signals_end_at_once();
	if (lb != NULL) {
		lb_set_silence_limit(lb, SILENCE_LIMIT_MS);
		code =
		    lb_connect(lb, options->socket, asking_patience(options, CONNECT_TIMEOUT_MS));
	}
	if (code != LB_OK) {
		status = say_failure(lb, code, options, NULL);
	} else {
		code = asking->ask(lb, options, operands, &status);
		if (code != LB_OK) {
			status = say_failure(lb, code, options, asking->name);
			if (code == LB_NO_SUCH_LOCK && asking->semaphore && !options->json)
				say("`lockbroker list` tells which there are; to create it: "
				    "lockbroker create %s SLOTS",
				    asking->name);
			if (asking->failed != NULL && !options->json)
				asking->failed(lb, code, operands);
		}
	}
	lb_free(lb);
	return status;
}

bool
asking_printed_json(struct lb *lb, const struct options *options)
{
	if (options->json)
		print_json(lb_result_json(lb));
	return options->json;
}
