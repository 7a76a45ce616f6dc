/*
 * The Unix socket below a session: it connects, sends, receives, and waits until a deadline. It
 * does not know the meaning of the bytes. It returns errno values, raises no signal, and continues
 * after EINTR.
 */
#ifndef CLIENT_LIB_TRANSPORT_H
#define CLIENT_LIB_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Deadlines are ms of CLOCK_BOOTTIME. */
#define TRANSPORT_NEVER INT64_MAX
/*
 * poll() uses CLOCK_MONOTONIC, which stops while the machine sleeps. A deadline is therefore
 * checked at least once a minute.
 */
#define TRANSPORT_POLL_LONGEST_MS 60000

/* Now plus timeout_ms. Negative: TRANSPORT_NEVER. */
int64_t transport_deadline(int64_t timeout_ms);

/*
 * Returns 0 and a non-blocking, close-on-exec descriptor, or an errno: ETIMEDOUT, ENAMETOOLONG, or
 * connect(2)'s.
 */
int transport_connect(const char *path, int64_t deadline, int *ret_fd)
    __attribute__((warn_unused_result));
/*
 * Return the number of bytes sent or received, or -errno; -EAGAIN: it would block. 0 from receive:
 * end of file.
 */
ssize_t transport_send(int fd, const void *bytes, size_t len) __attribute__((warn_unused_result));
ssize_t transport_receive(int fd, void *bytes, size_t len) __attribute__((warn_unused_result));
/* Returns 0 if fd is ready for one of the events, ETIMEDOUT at the deadline, or an errno. */
int transport_poll(int fd, short events, int64_t deadline) __attribute__((warn_unused_result));
/* Ends the connection for all copies of the descriptor. The caller closes fd. */
void transport_shutdown(int fd);

#endif
