/*
 * struct lb, for the library's own files: one socket, one session over it, its holds, and at most
 * one blocking call. handle.c moves bytes and matches answers to requests. The calls of the public
 * header use handle_call().
 */
#ifndef CLIENT_LIB_HANDLE_H
#define CLIENT_LIB_HANDLE_H

#include <stdbool.h>
#include <sys/types.h>

#include "client/lib/holds.h"
#include "client/lib/session.h"

/* The purpose of an unanswered request (session_request's tag). */
enum call_tag {
	CALL_WAITED,         /* handle_await() waits for the answer */
	CALL_ACQUIRE_WAITED, /* the same; the answer is a grant */
	CALL_STARTED,        /* lb_acquire_start(): the answer becomes an event */
	CALL_ASKED,          /* lb_call_start(): the answer becomes an event */
	CALL_IGNORED,        /* no call waits any more; the answer is ignored */
	CALL_ACQUIRE_IGNORED /* no call waits any more; a grant is released */
};

struct lb {
	pid_t pid;               /* the process that may use the handle */
	int fd;                  /* -1: not connected */
	int ended;               /* the code of the end of the connection */
	char *path;              /* owned; NULL before lb_connect() */
	struct session *session; /* owned; NULL: not connected */
	struct holds holds;
	void (*fn)(struct lb *lb, const struct lb_event *event, void *arg);
	void *arg; /* borrowed from the program */
	bool in_callback;
	uint64_t told;               /* number of events given to fn */
	int64_t silence_ms;          /* handle_await() gives up after this silence; LB_FOREVER */
	int64_t silent_since;        /* clock time of the last byte, start of the call, or ping */
	bool pinged;                 /* a ping was sent, and no byte has come since */
	int64_t awaited;             /* request of handle_await(); 0: none, or answered */
	struct lb_lock *granted;     /* by the answer to a CALL_ACQUIRE_WAITED; owned by holds */
	const struct lb_lock *about; /* its loss ends handle_await(); NULL: none */
	struct message_answer last;  /* owned; of the last call; tree NULL: none */
	char *shown;                 /* owned; lent by lb_result_json() or lb_error_json() */
	int code;                    /* of the last call */
	char message[512];
};

/* Keeps the code and its text for lb_message(), and returns code. format NULL: the default text. */
int handle_fail(struct lb *lb, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/*
 * Begins each public call: forgets the outcome of the last one. LB_FORKED or LB_BUSY: the handle
 * must not be used here, or not now.
 */
int handle_enter(struct lb *lb) __attribute__((warn_unused_result));
/* Closes the connection. Its holds are lost, and the program gets the events. Returns code. */
int handle_break(struct lb *lb, int code, const char *text);
/* Sends and reads without blocking. Then it ends the holds that are no longer safe. */
int handle_move(struct lb *lb) __attribute__((warn_unused_result));
/*
 * Ends the holds that are no longer safe, by a fresh clock. It first reads pending input, which may
 * renew the lease. For calls that use a hold without reading. It calls no callback.
 */
void handle_lapse(struct lb *lb);
/*
 * Waits for the socket or the end of a lease, then calls handle_move(). LB_DEADLINE: neither came
 * before the deadline.
 */
int handle_wait(struct lb *lb, int64_t deadline) __attribute__((warn_unused_result));
/* Sends a request; takes params. params NULL: there was no memory for them. */
int handle_ask(struct lb *lb, const char *method, struct cJSON *params, enum call_tag tag,
    int64_t *ret_id) __attribute__((warn_unused_result));
/* How long to wait for the answer if the daemon waits up to timeout_ms (LB_ANSWER_GRACE). */
int64_t handle_patience(int64_t timeout_ms);
/*
 * Waits for the answer to the request lb->awaited, which becomes lb->last. A request that it gives
 * up gets the tag CALL_IGNORED. The answer to a CALL_ACQUIRE_WAITED becomes lb->granted as soon as
 * it is read. Notifications behind the answer therefore find the lock. The lock may be lost by
 * then.
 */
int handle_await(struct lb *lb, int64_t timeout_ms) __attribute__((warn_unused_result));
/* Sends a request and waits for the answer; takes params. */
int handle_call(struct lb *lb, const char *method, struct cJSON *params, int64_t timeout_ms)
    __attribute__((warn_unused_result));
/* Release a lock or cancel a request. No call waits for the answer. */
int handle_release(struct lb *lb, const char *lock_id) __attribute__((warn_unused_result));
int handle_cancel(struct lb *lb, int64_t request) __attribute__((warn_unused_result));

#endif
