/*
 * JSON-RPC 2.0 messages with the restrictions of PROTOCOL.md: reads lines and makes lines, for the daemon and
 * the client. Does not log. Each failure is an error that can be sent to the client.
 */
#ifndef PROTOCOL_MESSAGE_H
#define PROTOCOL_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/json.h"
#include "protocol/reason.h"

#define MESSAGE_ID_MAX 128 /* bytes of a string id */
#define MESSAGE_ERROR_MAX 320

struct message_id {
	enum { MESSAGE_ID_NULL, MESSAGE_ID_INTEGER, MESSAGE_ID_STRING } kind;
	int64_t integer;
	char string[MESSAGE_ID_MAX + 1];
};

/* Reads a string of at most MESSAGE_ID_MAX bytes, or an integer. False: neither; *ret is unchanged. */
bool message_id_read(const struct cJSON *value, struct message_id *ret)
    __attribute__((warn_unused_result));

/* An error of a line or its params, for message_error_line(). */
struct message_error {
	enum reason reason;
	char text[MESSAGE_ERROR_MAX]; /* printable ASCII */
	char parameter[32];           /* data.parameter of REASON_INVALID_PARAMS; can be "" */
};

/* Sets reason and text, and parameter to "". A text that is too long is cut off. */
void message_error_set(struct message_error *error, enum reason reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/*
 * Makes bytes of a client or broker safe for an error text: keeps printable ASCII, and writes other bytes as
 * \xNN. A text that does not fit is cut off. Returns buf.
 */
char *message_escape(char *buf, size_t size, const char *bytes);

/* ---- at the daemon ---- */

struct message_request {
	struct message_id id;
	const char *method;         /* borrowed from tree */
	const struct cJSON *params; /* borrowed from tree; NULL: absent */
	struct cJSON *tree;         /* owned */
};

/*
 * Reads a request. False: *ret_error, and only ret->id is set: the id, or null if it could not be read. A
 * request without an id is refused.
 */
bool message_parse_request(const char *line, size_t len, struct message_request *ret,
    struct message_error *ret_error) __attribute__((warn_unused_result));
void message_request_done(struct message_request *request);

/*
 * The lines that the daemon sends. Each ends in LF, and the caller frees it. NULL: out of memory, or an
 * argument has latched (json.h). They take ownership of `result`, `data` and `params`, also on failure.
 *
 * `reason` and `retry` are put before the members of data, and `parameter` with REASON_INVALID_PARAMS. NULL
 * data is an empty object. A NULL result, and NULL params, have latched. An error without a text gets that of
 * its reason.
 */
char *message_result_line(const struct message_id *id, struct cJSON *result);
char *message_error_line(
    const struct message_id *id, const struct message_error *error, struct cJSON *data);
char *message_notification_line(const char *method, struct cJSON *params);

/* ---- at the client ---- */

/* A request with an integer id. Takes ownership of params; NULL: none. Returns NULL: out of memory. */
char *message_request_line(int64_t id, const char *method, struct cJSON *params);

enum message_kind { MESSAGE_RESULT, MESSAGE_ERROR, MESSAGE_NOTIFICATION };

struct message_answer {
	enum message_kind kind;
	struct message_id id; /* result, error */
	const char *method;   /* notification; borrowed from tree */
	/* result, params or error.data; borrowed from tree; the last two can be NULL */
	const struct cJSON *content;
	int code;           /* error */
	const char *text;   /* error.message; borrowed */
	struct cJSON *tree; /* owned */
};

/*
 * Reads a line from the daemon. Ignores unknown members. False: *ret_what is the reason (static), or NULL if
 * out of memory.
 */
bool message_parse_answer(const char *line, size_t len, struct message_answer *ret,
    const char **ret_what) __attribute__((warn_unused_result));
void message_answer_done(struct message_answer *answer);

#endif
