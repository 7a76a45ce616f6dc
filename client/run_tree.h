/*
 * The processes that `run` starts: COMMAND, all its descendants, and the shell of --on-lost. This
 * process is a child subreaper (prctl(2)), so none of them escapes: an orphan becomes its child.
 * /proc names them. Without it (hidepid, a chroot) a signal reaches only COMMAND.
 */
#ifndef CLIENT_RUN_TREE_H
#define CLIENT_RUN_TREE_H

#include <stdbool.h>
#include <sys/types.h>

#include "client/tool/signals.h"

/* The name (PR_SET_NAME) of the guard of a `run`. */
#define GUARD_PROCESS_NAME "lockbroker-grd"

/* Orphans of this process become its children. False: it has said why not. */
bool tree_adopt(void);
/*
 * Starts argv as a child, in the session and process group of this process. It dies with this
 * process. Returns its number, or -1 after saying why not.
 */
pid_t tree_start(char *argv[], const struct signals *signals);
/*
 * Sends a signal to all descendants of this process, COMMAND among them. command 0: it is reaped.
 * group: only to those in that process group; 0: to all. had: not to those in that group. A `run`
 * among them passes it on, so its guard's descendants are left out.
 */
void tree_signal(pid_t command, int signo, pid_t group, pid_t had);
/*
 * Sends SIGKILL to all descendants but `left_out`, which is 0 or a child. Each is stopped before its
 * children are listed, so it starts no more. Returns one that this user may not signal, as it has
 * taken another user; 0: there is none. Reap, and call it again after each SIGCHLD.
 */
pid_t tree_kill(pid_t command, pid_t left_out);
/*
 * Kills and reaps all but *left_out, until none is left. If *left_out has ended, it becomes 0. With
 * *left_out and without /proc, it does not wait for the orphans of COMMAND.
 */
void tree_end(pid_t command, pid_t *left_out, const struct signals *signals);
/* How many descendants /proc shows, and names and numbers of the first ones. */
size_t tree_names(char *ret, size_t size);

#endif
