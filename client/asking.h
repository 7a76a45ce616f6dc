/*
 * What the subcommands have in common that ask one thing, print the answer and end: the connection, and
 * failures in words.
 */
#ifndef CLIENT_ASKING_H
#define CLIENT_ASKING_H

#include <stdbool.h>

#include "client/lockbroker.h"
#include "client/tool/options.h"

struct asking {
	struct lb *lb; /* its connection stands */
	const struct options *options;
	char **operands; /* NULL-terminated, as many as the subcommand's row allows */
	const char
	    *name;  /* what a failure is about: the first operand, unless ask() has a better one */
	int status; /* what to exit with when it is answered: EXIT_STATUS_OK */
};

struct question {
	bool named;     /* the first operand, if there is one, is to be what a lock can be called */
	bool semaphore; /* it is the name of one that has to exist */
	/* Whether that can be asked; false after telling why not. NULL = always. */
	bool (*check)(const struct options *options, char *operands[]);
	/* Prints on LB_OK. */
	int (*ask)(struct asking *asking);
	/* Says what else there is to say about a failure, if it is not said as JSON; NULL = nothing. */
	void (*failed)(const struct asking *asking, int code);
};

/* What does not wait for anybody is answered by then. */
#define ASKING_ANSWER_MS 60000

/* How long to wait for an answer: --timeout, or what is usual for that question. */
int64_t asking_patience(const struct asking *asking, int64_t usual_ms);
/*
 * Connects, asks, and returns the exit status. A signal ends it at once, the command too. `command` is what the
 * subcommand is called.
 */
int asking_perform(const struct question *question, const char *command,
    const struct options *options, char *operands[]);
/* Calls a method about one name or waiter: "MEMBER":"VALUE", and more of JSON behind that. */
int asking_call(const struct asking *asking, const char *method, const char *member,
    const char *value, const char *more, int64_t usual_ms);
/* Prints the result as it came, and true, if that was asked for. */
bool asking_printed_json(const struct asking *asking);
/*
 * Tells which hosts did not answer, according to a result, and what that means. Returns how many rows there are for
 * which the result has no room.
 */
int asking_say_missing(const char *json, const char *meaning);

#endif
