/*
 * struct lb as the library's own files see it: one socket, one session over it, what it holds, and
 * the one blocking call that may be going on. handle.c moves bytes and settles answers; the calls
 * of the public header are made of handle_call().
 */
#ifndef CLIENT_LIB_HANDLE_H
#define CLIENT_LIB_HANDLE_H

#include <stdbool.h>
#include <sys/types.h>

#include "client/lib/holds.h"
#include "client/lib/session.h"

/* What an unanswered request is for (session_request's tag). */
enum call_tag {
	CALL_WAITED,         /* handle_await() waits for it */
	CALL_ACQUIRE_WAITED, /* and so it does; the answer is a grant */
	CALL_STARTED,        /* lb_acquire_start(): its end is an event */
	CALL_ASKED,          /* lb_call_start(): its answer is an event */
	CALL_IGNORED,        /* nobody waits any more, and nothing comes of it */
	CALL_ACQUIRE_IGNORED /* nobody waits any more; a grant is given back */
};

struct lb {
	pid_t pid;               /* who may use it */
	int fd;                  /* -1 = no connection */
	int ended;               /* why there is none any more */
	char *path;              /* owned; NULL before lb_connect() */
	struct session *session; /* owned; NULL without a connection */
	struct holds holds;
	void (*fn)(struct lb *lb, const struct lb_event *event, void *arg);
	void *arg; /* borrowed from the program */
	bool in_callback;
	uint64_t told;           /* events given to fn so far */
	int64_t silence_ms;      /* handle_await() gives up on a daemon so silent; LB_FOREVER */
	int64_t silent_since;    /* clock time: the last byte, the call's beginning, or the ping */
	bool pinged;             /* since then, and no byte has come */
	int64_t awaited;         /* id that handle_await() waits for; 0 = none, or answered */
	struct lb_lock *granted; /* by the answer to a CALL_ACQUIRE_WAITED; the holds' */
	const struct lb_lock *about; /* whose loss ends handle_await()'s waiting; NULL = none's */
	struct message_answer last;  /* owned; the last call's answer, tree NULL = none */
	char *shown;                 /* owned; what lb_result_json() or lb_error_json() lent out */
	int code;                    /* the last call's */
	char message[512];
};

/* Notes the code and its sentence (format NULL: the code's own), for lb_message(); returns code. */
int handle_fail(struct lb *lb, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/*
 * What each public call starts with: forgets the last call's outcome. LB_FORKED or LB_BUSY when the
 * handle cannot be used here and now.
 */
int handle_enter(struct lb *lb) __attribute__((warn_unused_result));
/* Closes; what was held is lost and the program told so. Returns code. */
int handle_break(struct lb *lb, int code, const char *text);
/* Sends and reads what is possible now, and loses what by then is not safe any more. */
int handle_move(struct lb *lb) __attribute__((warn_unused_result));
/*
 * Loses what is not safe any more by a fresh clock. What lies unread may have renewed it long ago, so it
 * is read first. For who uses a hold without having read; tells no callback.
 */
void handle_lapse(struct lb *lb);
/* Waits until something can be sent or read, or a hold is over, and moves it. LB_DEADLINE. */
int handle_wait(struct lb *lb, int64_t deadline) __attribute__((warn_unused_result));
/* Makes a request; params taken, NULL means that there was no memory to make them. */
int handle_ask(struct lb *lb, const char *method, struct cJSON *params, enum call_tag tag,
    int64_t *ret_id) __attribute__((warn_unused_result));
/* How long to wait for the answer to what itself waits for up to timeout_ms (LB_ANSWER_GRACE). */
int64_t handle_patience(int64_t timeout_ms);
/*
 * Waits for the answer to what lb->awaited was asked, which then is lb->last. A request given up on is
 * CALL_IGNORED. That of a CALL_ACQUIRE_WAITED makes lb->granted while it is read, so that what is said about the
 * lock behind the answer finds it. It may have been lost by then.
 */
int handle_await(struct lb *lb, int64_t timeout_ms) __attribute__((warn_unused_result));
/* Asks and waits; params taken. */
int handle_call(struct lb *lb, const char *method, struct cJSON *params, int64_t timeout_ms)
    __attribute__((warn_unused_result));
/* Without an answer that anybody waits for: gives a lock back, withdraws a request. */
int handle_release(struct lb *lb, const char *lock_id) __attribute__((warn_unused_result));
int handle_cancel(struct lb *lb, int64_t request) __attribute__((warn_unused_result));

#endif
