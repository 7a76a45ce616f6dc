#include "client/exit_status.h"

#include "client/lockbroker.h"

enum exit_status
exit_status_of(int code)
{
	switch ((enum lb_code)code) {
	case LB_OK:
		return EXIT_STATUS_OK;
	case LB_BAD_ARGUMENT:
	case LB_METHOD_NOT_FOUND:
	case LB_INVALID_PARAMS:
		return EXIT_STATUS_USAGE;
	case LB_NOT_HELD:
		return EXIT_STATUS_NOT_HELD;
	case LB_NO_SUCH_LOCK:
		return EXIT_STATUS_NO_SUCH_LOCK;
	case LB_NO_DAEMON:
	case LB_DEADLINE:
	case LB_CLOSED:
	case LB_DRAINING:
	case LB_BROKER_UNAVAILABLE:
	case LB_BROKER_BLOCKED:
		return EXIT_STATUS_UNREACHABLE;
	case LB_ALREADY_EXISTS:
		return EXIT_STATUS_EXISTS;
	case LB_WOULD_BLOCK:
	case LB_TIMEOUT:
	case LB_CONTENDED:
	case LB_CANCELLED:
	case LB_TOO_MANY_REQUESTS:
	case LB_TOO_MANY_LOCKS:
	case LB_TOO_MANY_WAITERS:
		return EXIT_STATUS_NOT_ACQUIRED;
	case LB_PERMISSION_DENIED:
	case LB_BROKER_DENIED:
	case LB_NO_ACCESS:
		return EXIT_STATUS_DENIED;
	case LB_LOST:
		return EXIT_STATUS_LOST;
	case LB_REVOKED:
		return EXIT_STATUS_REVOKED;
	case LB_NO_MEMORY:
	case LB_BAD_ANSWER:
	case LB_FORKED:
	case LB_BUSY:
	case LB_SYSTEM:
	case LB_PARSE_ERROR:
	case LB_INVALID_REQUEST:
	case LB_INTERNAL:
		break;
	}
	return EXIT_STATUS_INTERNAL;
}
