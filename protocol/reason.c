#include "protocol/reason.h"

#include <stddef.h>
#include <string.h>

static const struct reason_row {
	enum reason reason;
	const char *word;
	const char *message;
	bool retry;
} rows[] = {
    {REASON_NONE, "none", "no error", false},
    {REASON_WOULD_BLOCK, "would-block", "every slot is busy", true},
    {REASON_TIMEOUT, "timeout", "no slot became free in time", true},
    {REASON_CONTENDED, "contended", "the request lost the race for a slot too often", true},
    {REASON_CANCELLED, "cancelled", "the request was cancelled", false},
    {REASON_NO_SUCH_LOCK, "no-such-lock", "the lock does not exist", false},
    {REASON_ALREADY_EXISTS, "already-exists", "the lock exists already", false},
    {REASON_NOT_HELD, "not-held", "this connection does not hold the lock", false},
    {REASON_LOST, "lost", "the lock was lost", false},
    {REASON_REVOKED, "revoked", "the slot was removed", false},
    {REASON_PERMISSION_DENIED, "permission-denied", "permission denied", false},
    {REASON_TOO_MANY_REQUESTS, "too-many-requests", "too many requests at once", true},
    {REASON_TOO_MANY_LOCKS, "too-many-locks", "too many locks are held", true},
    {REASON_TOO_MANY_WAITERS, "too-many-waiters", "too many requests wait", true},
    {REASON_DRAINING, "draining", "the daemon is stopping", true},
    {REASON_BROKER_UNAVAILABLE, "broker-unavailable",
	"the broker cannot be reached or does not answer", true},
    {REASON_BROKER_BLOCKED, "broker-blocked", "the broker accepts no messages (resource alarm)",
	true},
    {REASON_BROKER_REFUSED, "broker-refused", "the broker refused the daemon", false},
    {REASON_PARSE_ERROR, "parse-error", "the line is not JSON", false},
    {REASON_INVALID_REQUEST, "invalid-request", "the JSON is not a request", false},
    {REASON_METHOD_NOT_FOUND, "method-not-found", "unknown method", false},
    {REASON_INVALID_PARAMS, "invalid-params", "the parameters are wrong", false},
    {REASON_INTERNAL, "internal", "internal error", false},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* The first row for a number that is in none. */
static const struct reason_row *
row_of(int code)
{
	for (size_t i = 0; i < ROWS; i++)
		if ((int)rows[i].reason == code)
			return &rows[i];
	return rows;
}

const char *
reason_word(enum reason reason)
{
	return row_of((int)reason)->word;
}

enum reason
reason_from_word(const char *word)
{
	for (size_t i = 0; i < ROWS; i++)
		if (strcmp(word, rows[i].word) == 0)
			return rows[i].reason;
	return REASON_NONE;
}

enum reason
reason_from_code(int code)
{
	return row_of(code)->reason;
}

const char *
reason_message(enum reason reason)
{
	return row_of((int)reason)->message;
}

bool
reason_retry(enum reason reason)
{
	return row_of((int)reason)->retry;
}
