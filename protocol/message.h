/*
 * JSON-RPC 2.0 messages as PROTOCOL.md restricts them: what a line says, and lines made from what is
 * to be said. Both directions, both ends. Never logs; every failure is an error the peer can be told.
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

/* A string of at most MESSAGE_ID_MAX bytes or an integer; else false and *ret is untouched. */
bool message_id_read(const struct cJSON *value, struct message_id *ret)
    __attribute__((warn_unused_result));

/* What was wrong with a line or its params; goes out with message_error_line(). */
struct message_error {
	enum reason reason;
	char text[MESSAGE_ERROR_MAX]; /* says what and where; made of printable characters */
	char parameter[32];           /* data.parameter of REASON_INVALID_PARAMS; may be "" */
};

/* Sets reason and text (parameter to none); what is too long for the text is cut off. */
void message_error_set(struct message_error *error, enum reason reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/*
 * A peer's bytes for an error's text: printable ASCII stays, the rest becomes \xNN, what does not fit
 * in size is cut off. Returns buf.
 */
char *message_escape(char *buf, size_t size, const char *bytes);

/* ---- at the daemon ---- */

struct message_request {
	struct message_id id;
	const char *method;         /* borrowed from tree */
	const struct cJSON *params; /* borrowed from tree; NULL when left out */
	struct cJSON *tree;         /* owned */
};

/*
 * Reads a request. On failure false, *ret_error, and ret->id is the request's id when it could be
 * told (else null); nothing else is set. A request without id is refused.
 */
bool message_parse_request(const char *line, size_t len, struct message_request *ret,
    struct message_error *ret_error) __attribute__((warn_unused_result));
void message_request_done(struct message_request *request);

/*
 * The lines that the daemon sends; each ends in LF, is malloc'ed, and NULL when out of memory or when
 * a latched result came in. `result`, `data` and `params` are taken, whatever happens. data gets
 * `reason` and `retry` (and `parameter` with REASON_INVALID_PARAMS) added in front; NULL data is an
 * empty object, a NULL result or NULL params are one that could not be made. An error without text says
 * its reason's.
 */
char *message_result_line(const struct message_id *id, struct cJSON *result);
char *message_error_line(
    const struct message_id *id, const struct message_error *error, struct cJSON *data);
char *message_notification_line(const char *method, struct cJSON *params);

/* ---- at the client ---- */

/* A request line with an integer id; params taken, NULL = none. NULL when out of memory. */
char *message_request_line(int64_t id, const char *method, struct cJSON *params);

enum message_kind { MESSAGE_RESULT, MESSAGE_ERROR, MESSAGE_NOTIFICATION };

struct message_answer {
	enum message_kind kind;
	struct message_id id; /* result, error */
	const char *method;   /* notification; borrowed from tree */
	/* result, params or error.data; the last two may be NULL; borrowed */
	const struct cJSON *content;
	int code;           /* error */
	const char *text;   /* error.message; borrowed */
	struct cJSON *tree; /* owned */
};

/*
 * Reads what the daemon sent; ignores members it does not know. False: *ret_what is why (static), or
 * NULL when out of memory.
 */
bool message_parse_answer(const char *line, size_t len, struct message_answer *ret,
    const char **ret_what) __attribute__((warn_unused_result));
void message_answer_done(struct message_answer *answer);

#endif
