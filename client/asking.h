/*
 * What the subcommands have in common that ask one thing, print the answer and end: the connection, and
 * failures in words.
 */
#ifndef CLIENT_ASKING_H
#define CLIENT_ASKING_H

#include <stdbool.h>

#include "client/lockbroker.h"
#include "client/options.h"

struct asking {
	const char *name; /* what a failure is about; NULL = nothing */
	bool semaphore;   /* and that is the name of one */
	/*
	 * Asks over a connection that stands; operands as cmd_*(). Prints on LB_OK, and may set *ret_status, which
	 * is EXIT_STATUS_OK.
	 */
	int (*ask)(struct lb *lb, const struct options *options, char *operands[], int *ret_status);
	/* Says what else there is to say about a failure, if it is not said as JSON; NULL = nothing. */
	void (*failed)(struct lb *lb, int code, char *operands[]);
};

/* What does not wait for anybody is answered by then. */
#define ASKING_ANSWER_MS 60000

/* How long to wait for an answer: --timeout, or what is usual for that question. */
int64_t asking_patience(const struct options *options, int64_t usual_ms);
/* Connects, asks, and returns the exit status. A signal ends it at once, the command too. */
int asking_perform(const struct asking *asking, const struct options *options, char *operands[]);
/* Prints the result as it came, and true, if that was asked for. */
bool asking_printed_json(struct lb *lb, const struct options *options);

#endif
