/*
 * The Unix socket below a session: connecting, bytes both ways, waiting until a deadline. Knows
 * nothing of what the bytes say. Returns errno values; never raises a signal, goes on after EINTR.
 */
#ifndef CLIENT_LIB_TRANSPORT_H
#define CLIENT_LIB_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Deadlines are ms of CLOCK_BOOTTIME. */
#define TRANSPORT_NEVER INT64_MAX
/*
 * poll() counts on CLOCK_MONOTONIC, which stands still while the machine sleeps: one look a minute
 * bounds how late a deadline is seen after waking up.
 */
#define TRANSPORT_POLL_LONGEST_MS 60000

/* now + timeout_ms; negative = TRANSPORT_NEVER. */
int64_t transport_deadline(int64_t timeout_ms);

/* 0 and a non-blocking, close-on-exec descriptor, or an errno: ETIMEDOUT, ENAMETOOLONG, connect's. */
int transport_connect(const char *path, int64_t deadline, int *ret_fd)
    __attribute__((warn_unused_result));
/* Bytes sent or read (0 from receive: end of file), or -errno; -EAGAIN when it would block. */
ssize_t transport_send(int fd, const void *bytes, size_t len) __attribute__((warn_unused_result));
ssize_t transport_receive(int fd, void *bytes, size_t len) __attribute__((warn_unused_result));
/* 0 when fd is ready for one of events, ETIMEDOUT at the deadline, or an errno. */
int transport_poll(int fd, short events, int64_t deadline) __attribute__((warn_unused_result));
/* Ends the connection for all who have a copy of the descriptor; the close is the caller's. */
void transport_shutdown(int fd);

#endif
