/*
 * The processes of `run`: one child in its own process group, and all that it leaves behind. The
 * command is a child subreaper, so no process escapes: orphans become its children.
 */
#ifndef CLIENT_RUN_CHILD_H
#define CLIENT_RUN_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "client/tool/signals.h"

struct child {
	pid_t pid;      /* 0: reaped */
	bool own_group; /* its process group is `pid` */
	bool terminal;  /* its group is the terminal's foreground group */
	int status;     /* valid when reaped: exit status, or 128 + n for signal n */
};

enum child_news {
	CHILD_NOTHING,
	CHILD_STOPPED, /* by job control: TSTP, TTIN, TTOU */
	CHILD_ALL_GONE /* the child and all processes that it started */
};

/*
 * Starts the child. False: it has said why not. foreground: the child stays in the command's group.
 */
bool child_start(struct child *child, char *argv[], bool foreground, const struct signals *signals);
/* Starts STRING by the shell as another child, in its own group. */
void child_shell(const char *string, const struct signals *signals);
/* Sends a signal to the child's group. If the child has ended, its orphans get the signal, too. */
void child_signal(const struct child *child, int signo);
/* Sends a signal to the child's group and to all orphans outside it. */
void child_signal_all(const struct child *child, int signo);
/*
 * The number of processes that must end first: the direct orphans, without their own children. Also
 * 0 if /proc is not readable.
 */
int child_left_behind(const struct child *child);
/* Reaps all ended processes. */
enum child_news child_reap(struct child *child);
/* The child has stopped: stops the command as well. Returns when the command is continued. */
void child_stop_with(struct child *child);
/* Continues the child. */
void child_go_on(struct child *child);
/* Takes the terminal's foreground back. */
void child_done(struct child *child);

#endif
