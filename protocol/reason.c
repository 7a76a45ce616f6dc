#include "protocol/reason.h"

#include <stddef.h>
#include <string.h>

static const enum reason all[] = {
    REASON_WOULD_BLOCK,
    REASON_TIMEOUT,
    REASON_CONTENDED,
    REASON_CANCELLED,
    REASON_NO_SUCH_LOCK,
    REASON_ALREADY_EXISTS,
    REASON_NOT_HELD,
    REASON_LOST,
    REASON_REVOKED,
    REASON_PERMISSION_DENIED,
    REASON_TOO_MANY_REQUESTS,
    REASON_TOO_MANY_LOCKS,
    REASON_TOO_MANY_WAITERS,
    REASON_DRAINING,
    REASON_BROKER_UNAVAILABLE,
    REASON_BROKER_BLOCKED,
    REASON_BROKER_DENIED,
    REASON_PARSE_ERROR,
    REASON_INVALID_REQUEST,
    REASON_METHOD_NOT_FOUND,
    REASON_INVALID_PARAMS,
    REASON_INTERNAL,
};

const char *
reason_word(enum reason reason)
{
	switch (reason) {
	case REASON_NONE:
		return "none";
	case REASON_WOULD_BLOCK:
		return "would-block";
	case REASON_TIMEOUT:
		return "timeout";
	case REASON_CONTENDED:
		return "contended";
	case REASON_CANCELLED:
		return "cancelled";
	case REASON_NO_SUCH_LOCK:
		return "no-such-lock";
	case REASON_ALREADY_EXISTS:
		return "already-exists";
	case REASON_NOT_HELD:
		return "not-held";
	case REASON_LOST:
		return "lost";
	case REASON_REVOKED:
		return "revoked";
	case REASON_PERMISSION_DENIED:
		return "permission-denied";
	case REASON_TOO_MANY_REQUESTS:
		return "too-many-requests";
	case REASON_TOO_MANY_LOCKS:
		return "too-many-locks";
	case REASON_TOO_MANY_WAITERS:
		return "too-many-waiters";
	case REASON_DRAINING:
		return "draining";
	case REASON_BROKER_UNAVAILABLE:
		return "broker-unavailable";
	case REASON_BROKER_BLOCKED:
		return "broker-blocked";
	case REASON_BROKER_DENIED:
		return "broker-denied";
	case REASON_PARSE_ERROR:
		return "parse-error";
	case REASON_INVALID_REQUEST:
		return "invalid-request";
	case REASON_METHOD_NOT_FOUND:
		return "method-not-found";
	case REASON_INVALID_PARAMS:
		return "invalid-params";
	case REASON_INTERNAL:
		return "internal";
	}
	return "none";
}

enum reason
reason_from_word(const char *word)
{
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strcmp(word, reason_word(all[i])) == 0)
			return all[i];
	return REASON_NONE;
}

enum reason
reason_from_code(int code)
{
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (code == (int)all[i])
			return all[i];
	return REASON_NONE;
}

const char *
reason_message(enum reason reason)
{
	switch (reason) {
	case REASON_NONE:
		return "no error";
	case REASON_WOULD_BLOCK:
		return "every slot is taken";
	case REASON_TIMEOUT:
		return "no slot became free in time";
	case REASON_CONTENDED:
		return "lost the race for a slot too often";
	case REASON_CANCELLED:
		return "the request was cancelled";
	case REASON_NO_SUCH_LOCK:
		return "there is no such lock";
	case REASON_ALREADY_EXISTS:
		return "the lock exists already";
	case REASON_NOT_HELD:
		return "no such lock is held here";
	case REASON_LOST:
		return "the lock was lost";
	case REASON_REVOKED:
		return "the slot was taken out of service";
	case REASON_PERMISSION_DENIED:
		return "permission denied";
	case REASON_TOO_MANY_REQUESTS:
		return "too many requests at once";
	case REASON_TOO_MANY_LOCKS:
		return "too many locks are held";
	case REASON_TOO_MANY_WAITERS:
		return "too many requests are waiting";
	case REASON_DRAINING:
		return "the daemon is stopping";
	case REASON_BROKER_UNAVAILABLE:
		return "the broker cannot be reached or does not answer";
	case REASON_BROKER_BLOCKED:
		return "the broker takes no publishes now (resource alarm)";
	case REASON_BROKER_DENIED:
		return "the broker refuses the daemon";
	case REASON_PARSE_ERROR:
		return "the line is no JSON";
	case REASON_INVALID_REQUEST:
		return "the JSON is no request";
	case REASON_METHOD_NOT_FOUND:
		return "there is no such method";
	case REASON_INVALID_PARAMS:
		return "the parameters are wrong";
	case REASON_INTERNAL:
		return "internal error";
	}
	return "unknown error";
}

bool
reason_retry(enum reason reason)
{
	switch (reason) {
	case REASON_WOULD_BLOCK:
	case REASON_TIMEOUT:
	case REASON_CONTENDED:
	case REASON_TOO_MANY_REQUESTS:
	case REASON_TOO_MANY_LOCKS:
	case REASON_TOO_MANY_WAITERS:
	case REASON_DRAINING:
	case REASON_BROKER_UNAVAILABLE:
	case REASON_BROKER_BLOCKED:
		return true;
	case REASON_NONE:
	case REASON_CANCELLED:
	case REASON_NO_SUCH_LOCK:
	case REASON_ALREADY_EXISTS:
	case REASON_NOT_HELD:
	case REASON_LOST:
	case REASON_REVOKED:
	case REASON_PERMISSION_DENIED:
	case REASON_BROKER_DENIED:
	case REASON_PARSE_ERROR:
	case REASON_INVALID_REQUEST:
	case REASON_METHOD_NOT_FOUND:
	case REASON_INVALID_PARAMS:
	case REASON_INTERNAL:
		return false;
	}
	return false;
}
