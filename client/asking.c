#include "client/asking.h"

#include "client/exit_status.h"
#include "client/output.h"
#include "client/signals.h"

#define CONNECT_TIMEOUT_MS 10000

int
asking_perform(const struct asking *asking, const struct options *options, char *operands[])
{
	struct lb *lb = lb_new();
	int code = LB_NO_MEMORY, status = EXIT_STATUS_OK;

	signals_end_at_once();
	if (lb != NULL)
		code = lb_connect(lb, options->socket, CONNECT_TIMEOUT_MS);
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
