/*
 * The one connection to the daemon: a watch of all rows, the list of locks each second, and requests of
 * visitors. It exists only while a page looks or a request waits. Owns the library's handle, and the tables of
 * rows and locks. It never blocks. It knows no HTTP: pages get its texts from stream.c.
 */
#ifndef CLIENT_WEB_FEED_H
#define CLIENT_WEB_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/lockbroker.h"

struct web_feed;

/* path: as in lb_connect(). */
struct web_feed *feed_new(const char *path);
/* Ends the connection and all requests: each gets its answer. */
void feed_end(struct web_feed *feed);
void feed_free(struct web_feed *feed);
/* The handle for the poll loop. Borrowed until the next feed_turn(). */
struct lb *feed_handle(const struct web_feed *feed);
/*
 * Connects, asks and handles answers, as far as they are due. Returns the time of the next call (watch_now()'s
 * clock) if nothing comes before.
 */
int64_t feed_turn(struct web_feed *feed, int64_t now);

/* One more page looks, or one less. */
void feed_look(struct web_feed *feed, int pages);
/* Whether the next feed_patch() has a text. */
bool feed_changed(const struct web_feed *feed);
/*
 * An event of the stream: the changes since the last call, or with `whole` everything. The caller frees it. A
 * whole text has what the last patch had, and no newer changes.
 */
char *feed_patch(struct web_feed *feed, bool whole, int64_t now, size_t *ret_len);

/* json: the result, or the error of the daemon; NULL: the failure is not the daemon's. */
typedef void feed_answer_fn(void *ctx, int code, const char *json, const char *text);

/*
 * Sends a request; params: a JSON object. `answer` is called once, also before this returns. After a minute a
 * request that waits is cancelled.
 */
void feed_ask(struct web_feed *feed, const char *method, const char *params, feed_answer_fn *answer,
    void *ctx);

#endif
