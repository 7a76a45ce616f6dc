/*
 * Descriptors that pass over a Unix socket (SCM_RIGHTS, unix(7)).
 */
#ifndef BASE_FD_PASS_H
#define BASE_FD_PASS_H

#include <stdbool.h>
#include <stddef.h>

/* The most that one message carries; the kernel takes 253 (SCM_MAX_FD). */
#define FD_PASS_MAX 250

/*
 * Sends one message with a text that is not empty, and at most FD_PASS_MAX descriptors, which stay
 * open here. Blocks for at most so many ms until there is room. False: it was not sent.
 */
bool fd_pass_send(int socket, const char *text, const int *fds, size_t count, int patience);
/*
 * Receives one message of one byte. fds: room for FD_PASS_MAX descriptors, which the caller owns;
 * they are close-on-exec. Does not block. False: there is none, or not all of its descriptors can be
 * here (RLIMIT_NOFILE); *ret_count is then 0.
 */
bool fd_pass_receive(int socket, int *fds, size_t *ret_count);

#endif
