/*
 * The door: one listening Unix stream socket, made here or handed over by the service manager
 * (sd_listen_fds(3)). Owns the socket and, when it made it, its file. Accepted sockets go to
 * `accepted`, non-blocking and close-on-exec; who they are is no business of this file.
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
	const char *group; /* "" = leave it */
};

/* The file that was made, so that only that very one is removed. */
struct listener_file {
	char *path; /* owned; NULL = none */
	dev_t device;
	ino_t inode;
};

/* A listening socket on a new file, or -2 and *ret_error. Blocks for a moment, so only at start. */
int listener_socket_make(
    const struct listener_address *address, struct listener_file *file, char **ret_error);
/* Removes the file if it is still the one that was made. */
void listener_file_remove(struct listener_file *file);

struct listener *listener_new(
    struct event_base *base, struct timers *timers, void (*accepted)(void *ctx, int fd), void *ctx);
/*
 * Listens: on the socket the service manager handed over, if it did, else on the address. False and
 * *ret_error (malloc'ed, one line for the log) when that is impossible. A socket file that nobody
 * listens on is replaced; one that somebody listens on is left alone, and the error says who.
 */
bool listener_open(struct listener *listener, const struct listener_address *address,
    char **ret_error) __attribute__((warn_unused_result));
/* Accepts nobody any more. Removes the file if it is the one made here. */
void listener_close(struct listener *listener);
void listener_free(struct listener *listener); /* closes first; NULL is fine */

#endif
