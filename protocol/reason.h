/*
 * Why a request failed: the reasons and codes of the protocol (PROTOCOL.md, "Answers and errors"). They never
 * change.
 */
#ifndef PROTOCOL_REASON_H
#define PROTOCOL_REASON_H

#include <stdbool.h>

enum reason {
	REASON_NONE = 0, /* no error */
	REASON_WOULD_BLOCK = 1,
	REASON_TIMEOUT = 2,
	REASON_CONTENDED = 3,
	REASON_CANCELLED = 4,
	REASON_NO_SUCH_LOCK = 5,
	REASON_ALREADY_EXISTS = 6,
	REASON_NOT_HELD = 7,
	REASON_LOST = 8,
	REASON_REVOKED = 9,
	REASON_PERMISSION_DENIED = 10,
	REASON_TOO_MANY_REQUESTS = 11,
	REASON_TOO_MANY_LOCKS = 12,
	REASON_TOO_MANY_WAITERS = 13,
	REASON_DRAINING = 14,
	REASON_BROKER_UNAVAILABLE = 15,
	REASON_BROKER_BLOCKED = 16,
	REASON_BROKER_REFUSED = 17,
	/* The codes of JSON-RPC 2.0. */
	REASON_PARSE_ERROR = -32700,
	REASON_INVALID_REQUEST = -32600,
	REASON_METHOD_NOT_FOUND = -32601,
	REASON_INVALID_PARAMS = -32602,
	REASON_INTERNAL = -32603
};

/* The word for data.reason, such as "would-block"; "none" for REASON_NONE. Static. */
const char *reason_word(enum reason reason);
/* The reason of a word, or of error.code. REASON_NONE: unknown. */
enum reason reason_from_word(const char *word);
enum reason reason_from_code(int code);
/* The default text of error.message. Static. */
const char *reason_message(enum reason reason);
/* data.retry: the same request can succeed later. */
bool reason_retry(enum reason reason);

#endif
