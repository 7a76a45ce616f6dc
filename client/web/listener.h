/*
 * The listening socket: one that the service manager passed, a Unix socket, or a port of 127.0.0.1. Owns the
 * file of a Unix socket that it made. Other addresses are refused: lockbroker-web has no TLS and no login of
 * its own.
 */
#ifndef CLIENT_WEB_LISTENER_H
#define CLIENT_WEB_LISTENER_H

#include <stdbool.h>

struct http_listener {
	int fd;
	bool is_unix;
	unsigned port;    /* of 127.0.0.1 */
	const char *path; /* borrowed; NULL: no file was made */
};

/* address: "unix:PATH" or "127.0.0.1:PORT"; NULL: the default port. False: it has said why. */
bool listener_open(struct http_listener *listener, const char *address);
/* Removes the file. The descriptor belongs to the server. */
void listener_remove(const struct http_listener *listener);

#endif
