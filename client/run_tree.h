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

/* Orphans of this process become its children. False: it has said why not. */
bool tree_adopt(void);
/*
 * Starts argv as a child, in the process group of this process. It dies with this process. Returns
 * its number, or -1 after saying why not.
 */
pid_t tree_start(char *argv[], const struct signals *signals);
/* Sends a signal to COMMAND, and to its descendants if they are in its process group. */
void tree_signal_group(pid_t command, int signo);
/* Sends a signal to all descendants of this process, and to COMMAND. command 0: it is reaped. */
void tree_signal(pid_t command, int signo);
/*
 * Sends SIGKILL to all descendants but `left_out`. Each is stopped before its children are listed, so
 * it starts no more. Returns their number: call it again after each SIGCHLD, until that is 0.
 * *ret_foreign: one that this user may not signal, as it runs a set-user-ID program; 0: there is none.
 */
size_t tree_kill(pid_t left_out, pid_t *ret_foreign);
/* How many descendants this process has, and names and numbers of the first ones. */
size_t tree_names(char *ret, size_t size);

#endif
