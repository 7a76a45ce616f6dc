/*
 * What `run` starts: one child in a process group of its own, and whatever that leaves behind.
 * The command is a child subreaper, so nothing escapes: orphans become its children.
 */
#ifndef CLIENT_RUN_CHILD_H
#define CLIENT_RUN_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "client/tool/signals.h"

struct child {
	pid_t pid;      /* 0 = reaped */
	bool own_group; /* and its number is pid */
	bool terminal;  /* its group has the terminal's foreground */
	int status;     /* when reaped: exit status, 128 + n for a signal */
};

enum child_news {
	CHILD_NOTHING,
	CHILD_STOPPED, /* by job control: TSTP, TTIN, TTOU */
	CHILD_ALL_GONE /* and everything it started */
};

/* Starts it; false after telling why. foreground: in the command's own group. */
bool child_start(struct child *child, char *argv[], bool foreground, const struct signals *signals);
/* Starts STRING by the shell as one more child, in a group of its own. */
void child_shell(const char *string, const struct signals *signals);
/* To the child's group. Once the child has ended, reaped or not, also to those it left behind. */
void child_signal(const struct child *child, int signo);
/* To the child's group and to every orphan outside of it. */
void child_signal_all(const struct child *child, int signo);
/*
 * How many processes there are besides the command itself that have to end first: its orphans, without
 * what these have started. 0 also when /proc does not tell.
 */
int child_left_behind(const struct child *child);
/* Reaps all that have ended. */
enum child_news child_reap(struct child *child);
/* The child has stopped: stops the command as well, and returns when that is continued. */
void child_stop_with(struct child *child);
/* Then the child is continued, too. */
void child_go_on(struct child *child);
/* Takes the terminal back. */
void child_done(struct child *child);

#endif
