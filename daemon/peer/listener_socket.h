/*
 * Where the listening socket comes from: the service manager, or a file made here. Everything that is
 * done before the first accept; blocks for a moment, so only at start.
 */
#ifndef PEER_LISTENER_SOCKET_H
#define PEER_LISTENER_SOCKET_H

#include <sys/types.h>

#include "daemon/peer/listener.h"

/* The file that was made, so that only that very one is removed. */
struct listener_file {
	char *path; /* owned; NULL = none */
	dev_t device;
	ino_t inode;
};

/*
 * The one socket the service manager handed over: its descriptor; -1 when it handed over none; -2 and
 * *ret_error when what it handed over is not one listening Unix stream socket.
 */
int listener_socket_inherit(char **ret_error);
/* A listening socket on a new file, or -2 and *ret_error. */
int listener_socket_make(
    const struct listener_address *address, struct listener_file *file, char **ret_error);
/* Removes the file if it is still the one that was made. */
void listener_file_remove(struct listener_file *file);

#endif
