/*
 * The guard: the process that holds the lock of `run`. It is the parent of COMMAND, and ends COMMAND
 * and its descendants if the lock is lost or if `run` dies. It has a session of its own, so the
 * terminal neither stops nor ends it. cmd_run.c has a table of the signals and their receivers.
 */
#ifndef CLIENT_RUN_GUARD_H
#define CLIENT_RUN_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

#include "client/lockbroker.h"
#include "client/tool/options.h"
#include "client/tool/signals.h"

/* The guard's task, which is all borrowed. */
struct guard_task {
	const struct tool_options *options;
	const char *name;
	char **argv; /* COMMAND */
	struct lb *lb;
	struct lb_lock *lock; /* the handle's */
	const struct signals *signals;
};

/* A signal of the terminal, in the byte that `run` sends for it. */
#define GUARD_FROM_TERMINAL 0x80

/* A message of the guard to `run`. END is the last one. */
struct guard_word {
	enum {
		GUARD_SILENT,  /* the broker does not answer */
		GUARD_ANSWERS, /* it answers again */
		GUARD_STOPPED, /* COMMAND was stopped, as a key of the terminal stops it */
		GUARD_END
	} kind;
	pid_t command; /* STOPPED: its process */
	int status;    /* END: the exit status */
	int signo;     /* END: COMMAND died of this signal, and that is the status; 0: it did not */
	bool disturbed; /* END: COMMAND could not tidy up the terminal */
};

/*
 * Starts the guard, which starts COMMAND in the process group of this process. Returns its number,
 * or -1 after saying why not. From then on the handle is the guard's. This process keeps its copy
 * of the connection, so that the lock outlives a guard that is killed.
 *
 * *ret_socket: the guard reads a byte for each signal that COMMAND is to get, and writes words. Its
 * end without GUARD_END: the guard was killed.
 */
pid_t guard_start(const struct guard_task *task, int *ret_socket);

#endif
