/*
 * The common part of the subcommands that ask one question, print the answer and exit: the
 * connection, and the messages of failures.
 */
#ifndef CLIENT_ASKING_H
#define CLIENT_ASKING_H

#include <stdbool.h>

#include "client/lockbroker.h"
#include "client/tool/options.h"

struct asking {
	struct lb *lb; /* connected */
	const struct tool_options *options;
	char **operands; /* NULL-terminated; their number is checked */
	const char
	    *name;  /* the subject of a failure: the first operand, unless ask() sets another */
	int status; /* the exit status after an answer; EXIT_STATUS_OK at first */
};

struct question {
	bool named;     /* the first operand, if any, must be a valid lock name */
	bool semaphore; /* it must be the name of an existing semaphore */
	/* Whether the question can be asked. False: the function has said why not. NULL: always. */
	bool (*check)(const struct tool_options *options, char *operands[]);
	/* Prints the answer if it returns LB_OK. */
	int (*ask)(struct asking *asking);
	/* Adds details to the message of a failure that is not printed as JSON. NULL: none. */
	void (*failed)(const struct asking *asking, int code);
};

/* Default limit for questions that do not wait for other clients. */
#define ASKING_ANSWER_MS 60000

/* The time to wait for an answer: --timeout, or the usual time of that question. */
int64_t asking_patience(const struct asking *asking, int64_t usual_ms);
/*
 * Connects, asks, and returns the exit status. A signal ends the command at once. `command` is the
 * name of the subcommand.
 */
int asking_perform(const struct question *question, const char *command,
    const struct tool_options *options, char *operands[]);
/* Calls a method with {"MEMBER":"VALUE"}. `more` is appended inside the object. */
int asking_call(const struct asking *asking, const char *method, const char *member,
    const char *value, const char *more, int64_t usual_ms);
/* If the user wants JSON: prints the result unchanged and returns true. */
bool asking_printed_json(const struct asking *asking);
/*
 * Prints the silent hosts of a result, with `meaning`. Returns the number of rows that the result
 * left out.
 */
int asking_say_missing(const char *json, const char *meaning);

#endif
