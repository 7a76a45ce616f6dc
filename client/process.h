/*
 * Other processes of this user, by pidfd (pidfd_open(2)): a number that is used again is never taken for the
 * process that had it. Owns nothing.
 */
#ifndef CLIENT_PROCESS_H
#define CLIENT_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The name (PR_SET_NAME) of a process that holds a lock for another one. */
#define PROCESS_HOLDER_NAME "lockbroker-hold"

/*
 * A pidfd of a running process whose real, effective and saved user are those of this process. Else -1 and
 * errno: ESRCH: there is none; EPERM: it belongs to another user.
 */
int process_open(pid_t pid);
/* Whether it has ended. A zombie has. */
bool process_ended(int pidfd);
/* Whether it is stopped by a signal or a debugger. Also true of a process that /proc does not show. */
bool process_is_stopped(pid_t pid);
/*
 * Reads /proc/PID/WHAT into buf, with a NUL behind it. Returns the number of bytes, or -1. To know that it was
 * that process, check afterwards that its pidfd has not ended.
 */
ssize_t process_read(pid_t pid, const char *what, char *buf, size_t size);

#endif
