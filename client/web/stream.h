/*
 * The event streams of the pages: each begins with everything, and then gets the same patches as the others,
 * at most ten a second. A page that reads too slowly gets everything again instead of the patches that it
 * missed. Owns the texts that the pages have not read yet, within limits. It knows no rows and no visitors.
 */
#ifndef CLIENT_WEB_STREAM_H
#define CLIENT_WEB_STREAM_H

#include <stdint.h>

#include <microhttpd.h>

#include "client/web/feed.h"

struct streams;

struct streams *streams_new(struct web_feed *feed);
/* Ends all streams. The owner of the connections must run once more before streams_free(). */
void streams_end(struct streams *streams);
/* No stream may be left. */
void streams_free(struct streams *streams);
/*
 * A body that never ends by itself. *deadline: the time until which the page must read something; it lives as
 * long as the connection. NULL: there are too many pages.
 */
struct MHD_Response *stream_open(
    struct streams *streams, struct MHD_Connection *connection, int64_t *deadline);
/* Sends what is due. Returns the time of the next call if nothing changes before. */
int64_t streams_turn(struct streams *streams, int64_t now);

#endif
