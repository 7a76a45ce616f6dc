/*
 * One listening Unix stream socket, created here or passed by the service manager
 * (sd_listen_fds(3)). Owns the socket, and its file if it created one. It passes accepted sockets
 * to `accepted`, non-blocking and close-on-exec. It does not know the credentials of peers.
 */
#ifndef PEER_LISTENER_H
#define PEER_LISTENER_H

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/base/timers.h"

struct event_base;
struct listener;

struct listener_address {
	const char *path;
	unsigned mode;     /* of the file, e.g. 0660 */
	const char *group; /* "": unchanged */
};

/* The file that was created, so that only this file is removed. */
struct listener_file {
	char *path; /* owned; NULL: none */
	dev_t device;
	ino_t inode;
};

/*
 * Creates a socket on a new file and listens. Returns -2 and *ret_error on failure. It blocks for a
 * moment, so call it only at start.
 */
int listener_socket_make(
    const struct listener_address *address, struct listener_file *file, char **ret_error);
/* Removes the file if it is still the one that was created. */
void listener_file_remove(struct listener_file *file);

struct listener *listener_new(
    struct event_base *base, struct timers *timers, void (*accepted)(void *ctx, int fd), void *ctx);
/*
 * Listens on the socket that the service manager passed, else on the address. False and *ret_error
 * (malloc'ed, one line for the log) on failure. If nobody listens on an existing socket file, it is
 * replaced. If a process listens on it, it stays, and the error names the process.
 */
bool listener_open(struct listener *listener, const struct listener_address *address,
    char **ret_error) __attribute__((warn_unused_result));
/* The socket, and the file that was created, for a successor (daemon/state). Borrowed. */
int listener_save(const struct listener *listener, struct listener_file *ret_file);
/*
 * Instead of listener_open(): goes on with them. fd: owned from now on. file: its path is copied. If
 * the service manager passed a socket, it is used instead: its unit may have been restarted.
 */
bool listener_restore(struct listener *listener, int fd, const struct listener_file *file,
    char **ret_error) __attribute__((warn_unused_result));
/* Accepts no more peers. Removes the file if it was created here. */
void listener_close(struct listener *listener);
/*
 * For a daemon that cannot start: disconnects the clients that wait at the service manager's socket.
 * Otherwise the service manager starts it again and again for the same clients, which are not told.
 */
void listener_turn_away(void);
void listener_free(struct listener *listener); /* closes first; NULL is allowed */

#endif
