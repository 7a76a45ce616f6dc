/*
 * The client's half of the protocol without any I/O: requests become bytes, bytes become events.
 * Owns the ids, the table of unanswered requests and both buffers. Knows no socket, no clock, and
 * nothing of what methods mean; what a request was for is a number of the caller's (tag).
 *
 * An answer to a request that was never made, or a line that is not the protocol, breaks the session
 * for good: whoever owns the connection must close it.
 */
#ifndef CLIENT_LIB_SESSION_H
#define CLIENT_LIB_SESSION_H

#include <stddef.h>
#include <stdint.h>

#include "protocol/message.h"

struct session;

enum session_status {
	SESSION_OK,     /* session_next: nothing more until more bytes come */
	SESSION_EVENT,  /* session_next: one event */
	SESSION_BROKEN, /* session_why() says why */
	SESSION_NO_MEMORY
};

struct session_event {
	struct message_answer answer; /* owned: message_answer_done() */
	int64_t id;                   /* of the request answered; 0 for a notification */
	int tag;
};

/* NULL when out of memory. */
struct session *session_new(void);
void session_free(struct session *session);

/* Takes params (NULL = none), whatever happens. *ret_id is above 0 and never used twice. */
enum session_status session_request(struct session *session, const char *method,
    struct cJSON *params, int tag, int64_t *ret_id) __attribute__((warn_unused_result));
/* The tag of an unanswered request, or -1; and what it was for is something else from now on. */
int session_tag(const struct session *session, int64_t id);
void session_retag(struct session *session, int64_t id, int tag);

/* What is to be sent: borrowed until the next call; and that len bytes of it were sent. */
const char *session_output(const struct session *session, size_t *ret_len);
void session_sent(struct session *session, size_t len);

enum session_status session_input(struct session *session, const void *bytes, size_t len)
    __attribute__((warn_unused_result));
enum session_status session_next(struct session *session, struct session_event *ret)
    __attribute__((warn_unused_result));
/* Why it is broken; static or the session's. */
const char *session_why(const struct session *session);

#endif
