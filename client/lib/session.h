/*
 * The client's half of the protocol without I/O: requests become bytes, bytes become events. Owns
 * the ids, the table of unanswered requests, and both buffers. It knows no socket and no clock, and
 * not the meaning of methods. The caller gives each request a number, its tag.
 *
 * An answer without a request, or a line that breaks the protocol, breaks the session for good. The
 * owner of the connection must then close it.
 */
#ifndef CLIENT_LIB_SESSION_H
#define CLIENT_LIB_SESSION_H

#include <stddef.h>
#include <stdint.h>

#include "protocol/message.h"

struct session;

enum session_status {
	SESSION_OK,     /* session_next: needs more bytes */
	SESSION_EVENT,  /* session_next: one event */
	SESSION_BROKEN, /* session_why() has the reason */
	SESSION_NO_MEMORY
};

struct session_event {
	struct message_answer answer; /* owned: message_answer_done() */
	int64_t id;                   /* of the answered request; 0: a notification */
	int tag;
};

/* NULL: out of memory. */
struct session *session_new(void);
void session_free(struct session *session);

/* Takes params (NULL: none) in every case. *ret_id is above 0, and no id is used twice. */
enum session_status session_request(struct session *session, const char *method,
    struct cJSON *params, int tag, int64_t *ret_id) __attribute__((warn_unused_result));
/*
 * session_tag() returns the tag of an unanswered request, or -1. session_retag() replaces the tag.
 */
int session_tag(const struct session *session, int64_t id);
void session_retag(struct session *session, int64_t id, int tag);

/*
 * session_output() returns the bytes to send, borrowed until the next call. session_sent() removes
 * len of them.
 */
const char *session_output(const struct session *session, size_t *ret_len);
void session_sent(struct session *session, size_t len);

enum session_status session_input(struct session *session, const void *bytes, size_t len)
    __attribute__((warn_unused_result));
enum session_status session_next(struct session *session, struct session_event *ret)
    __attribute__((warn_unused_result));
/* The reason why the session is broken; static or owned by the session. */
const char *session_why(const struct session *session);

#endif
