/*
 * The HTTP server: connections and their limits, the rules that each request must keep, and the way of a path
 * to its answer. Owns microhttpd's daemon, the connections and the requests. It has no loop of its own.
 */
#ifndef CLIENT_WEB_HTTP_H
#define CLIENT_WEB_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "client/web/feed.h"
#include "client/web/stream.h"
#include "client/web/visitor.h"

#define HTTP_HOSTS_MOST 16

struct http_settings {
	struct visitor_settings visitors;
	/*
	 * The names that a request may have in Host; borrowed. A name with a port stands for this port alone.
	 */
	const char *hosts[HTTP_HOSTS_MOST];
	unsigned hosts_count;
};

struct http;

/* listener: a listening socket, owned from now on. NULL: it could not begin. */
struct http *http_new(int listener, const struct http_settings *settings, struct web_feed *feed,
    struct streams *streams);
/* No request may wait for the daemon any more, and the streams have been ended. */
void http_free(struct http *http);
/* A descriptor that can be read when http_turn() is due. */
int http_fd(const struct http *http);
/*
 * Serves what is due, also what the feed and the streams have resumed: microhttpd does not wake its descriptor
 * for that. So their turns come before. Returns the time of the next turn of all (watch_now()'s clock) if
 * nothing comes before.
 */
int64_t http_turn(struct http *http, int64_t now);

#endif
