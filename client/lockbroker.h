/*
 * liblockbroker: locks of this host's lockbrokerd for C and C++ programs.
 *
 * A handle (struct lb) is one connection to the daemon. What it acquires belongs to that connection:
 * a hold ends when it is released, when the daemon says so, or when the connection is gone.
 *
 *	struct lb *lb = lb_new();
 *	struct lb_lock *lock;
 *
 *	if (lb == NULL || lb_connect(lb, NULL, 5000) != LB_OK ||
 *	    lb_acquire(lb, "backup", NULL, &lock) != LB_OK)
 *		errx(1, "%s", lb_message(lb));
 *	... work, now and then lb_verify(lock, 1000) ...
 *	lb_release(lock, 5000);
 *	lb_free(lb);
 *
 * Threads: a handle and everything got from it are used by one thread at a time; different handles
 * are independent of each other. The library has no threads, no global state, installs no signal
 * handlers, raises no signals (a closed connection is LB_CLOSED, never SIGPIPE) and never exits.
 *
 * Fork: the socket is close-on-exec, so a program that the child executes knows nothing of it. A
 * child that goes on without exec has a copy of the descriptor, and as the hold lives until the
 * last copy is closed, a parent that dies does not free the lock while such a child lives. The child
 * cannot use the handle (every call there is LB_FORKED) and should lb_forget() it at once.
 *
 * The lease: the daemon says with a grant, and again and again, until when the broker certainly keeps
 * the slot (lb_lock_safe_until()). When that time passes without a newer word the library loses the
 * lock by itself, LB_EVENT_LOST with the reason "lease", and nothing brings it back: the daemon may be
 * stopped, or this process may have been. It can do so only when it is called, so a program that has no
 * thread in lb_wait() polls for no longer than lb_timeout().
 *
 * Times are milliseconds as int64_t; LB_FOREVER waits without end, 0 tries. They are counted on
 * CLOCK_BOOTTIME, so time asleep counts. Calls go on after EINTR.
 *
 * Functions that return int return LB_OK (0) or one of enum lb_code, and only then lb_message() says
 * more. ret_* is written on LB_OK only. Names, paths and words are NUL-terminated and copied; words are UTF-8,
 * and a byte that is not goes out as U+FFFD.
 */
#ifndef LOCKBROKER_H
#define LOCKBROKER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LB_PUBLIC __attribute__((visibility("default")))
#define LB_CHECK __attribute__((warn_unused_result))
#else
#define LB_PUBLIC
#define LB_CHECK
#endif

#define LB_FOREVER INT64_C(-1)
/* Where lb_connect(lb, NULL, ...) goes when $LOCKBROKER_SOCKET is not set. */
#define LB_DEFAULT_SOCKET "/run/lockbroker/lockbroker.sock"
/*
 * When the library gives up on the daemon: so long after the timeout of an acquire; and after asking
 * for one that only tries, to which the daemon's broker may take its request-timeout (10 s) to answer.
 */
#define LB_ANSWER_GRACE INT64_C(5000)
#define LB_TRY_PATIENCE INT64_C(15000)

/* What a call comes back with. Positive ones and those from -32000 down are the wire's own numbers. */
enum lb_code {
	LB_OK = 0,
	LB_WOULD_BLOCK = 1, /* all slots are busy, and the timeout was 0 */
	LB_TIMEOUT = 2,     /* all slots were busy until the timeout */
	LB_CONTENDED = 3,   /* lost too many races; trying again may help */
	LB_CANCELLED = 4,   /* by lb_cancel() */
	LB_NO_SUCH_LOCK = 5,
	LB_ALREADY_EXISTS = 6,
	LB_NOT_HELD = 7, /* nothing is held under that id */
	LB_LOST = 8,     /* the hold has ended without being released */
	LB_REVOKED = 9,  /* held on, but its slot was taken out of service */
	LB_PERMISSION_DENIED = 10,
	LB_TOO_MANY_REQUESTS = 11,
	LB_TOO_MANY_LOCKS = 12,
	LB_TOO_MANY_WAITERS = 13,
	LB_DRAINING = 14, /* the daemon is stopping */
	LB_BROKER_UNAVAILABLE = 15,
	LB_BROKER_BLOCKED = 16,
	LB_BROKER_REFUSED = 17, /* wrong credentials, vhost or permission at the broker */
	LB_NO_MEMORY = -1,
	LB_BAD_ARGUMENT = -2, /* nothing was sent */
	LB_NO_DAEMON = -3,    /* no such socket, or nobody listens on it */
	LB_NO_ACCESS = -4,    /* this user may not open the socket */
	LB_DEADLINE = -5, /* the daemon did not answer in time; what was asked may have been done */
	LB_CLOSED = -6,   /* the connection is not there (any more), nor is what it held */
	LB_BAD_ANSWER = -7, /* what came back is not the protocol; the connection was closed */
	LB_FORKED = -8,     /* the handle was made by another process */
	LB_BUSY = -9,       /* called from within the callback */
	LB_SYSTEM = -10,    /* the system refused something; lb_message() has errno's words */
	LB_PARSE_ERROR = -32700,
	LB_INVALID_REQUEST = -32600,
	LB_METHOD_NOT_FOUND = -32601,
	LB_INVALID_PARAMS = -32602,
	LB_INTERNAL = -32603
};

/* The word of a code, as the wire's data.reason ("would-block"). Static, never NULL. */
LB_PUBLIC const char *lb_code_word(int code);
/* The library's version, "1.2.3". Static. */
LB_PUBLIC const char *lb_version(void);

struct lb;      /* a connection */
struct lb_lock; /* a grant; belongs to its handle */

/* ---- the handle ---- */

/* A handle without a connection; NULL when out of memory. Free it with lb_free(). */
LB_PUBLIC struct lb *lb_new(void);
/*
 * Closes the connection for every process that has a copy of it, so that all it held is released,
 * and frees the handle with its locks and events. NULL is fine; in a forked child like lb_forget().
 * Never blocks. Not to be called from within the callback.
 */
LB_PUBLIC void lb_free(struct lb *lb);
/*
 * For a child after fork(): closes this process's copy only and frees the handle. The hold lives on
 * with the other copies. NULL is fine; never blocks.
 */
LB_PUBLIC void lb_forget(struct lb *lb);
/*
 * Connects to the socket at path; NULL or "": $LOCKBROKER_SOCKET, else LB_DEFAULT_SOCKET. Blocks
 * only while the daemon's backlog is full. May be called again after LB_CLOSED; locks of the earlier
 * connection stay lost. LB_NO_DAEMON, LB_NO_ACCESS, LB_BAD_ARGUMENT (path too long, or there is a
 * connection), LB_DEADLINE, LB_NO_MEMORY, LB_SYSTEM.
 */
LB_PUBLIC int lb_connect(struct lb *lb, const char *path, int64_t timeout_ms) LB_CHECK;
/* The path that lb_connect() took last; NULL before. Borrowed until the next lb_connect(). */
LB_PUBLIC const char *lb_socket_path(const struct lb *lb);
/* What went wrong last, as one sentence without line end. Borrowed until the next call. Not NULL. */
LB_PUBLIC const char *lb_message(const struct lb *lb);
/*
 * The last call's result as the wire had it, or its error as {"code", "message", "data"}, on one
 * line. NULL when it did not end that way, or out of memory. Borrowed until the next call.
 */
LB_PUBLIC const char *lb_result_json(struct lb *lb);
LB_PUBLIC const char *lb_error_json(struct lb *lb);

/* ---- locks ---- */

enum lb_kind {
	LB_SEMAPHORE = 0,
	LB_MUTEX = 1,           /* a mutex that needs no create */
	LB_PERSISTENT_MUTEX = 2 /* slot 1 of a semaphore of one slot */
};

/* The wire's word of a kind ("persistent-mutex"); NULL when there is no such kind. Static. */
LB_PUBLIC const char *lb_kind_word(int kind);
/* NULL when it may be a lock's name, else why not, static. The daemon's configuration may rule out more. */
LB_PUBLIC const char *lb_name_error(const char *name);

/*
 * How to acquire. Start from LB_OPTIONS_INIT; new members come at the end, and `size` tells which there are.
 */
struct lb_options {
	size_t size;                     /* sizeof(struct lb_options) */
	int64_t timeout_ms;              /* 0 tries */
	int kind;                        /* enum lb_kind */
	int priority;                    /* -100 to 100, higher first */
	int progress;                    /* not 0: tell of LB_EVENT_WAITING */
	const char *who, *why, *command; /* this side's own words for others to read; NULL = none */
	int create; /* slots to create it with when there is none, 1 to 10,000; 0 = do not */
};
#define LB_OPTIONS_INIT                                                                            \
	{                                                                                          \
		sizeof(struct lb_options), LB_FOREVER, LB_SEMAPHORE, 0, 0, NULL, NULL, NULL, 0     \
	}

/*
 * Acquires and blocks until granted or refused; options NULL means LB_OPTIONS_INIT. *ret belongs to
 * the handle. Besides the wire's codes: LB_BAD_ARGUMENT, LB_CLOSED, LB_BAD_ANSWER, LB_NO_MEMORY,
 * LB_BUSY, LB_FORKED, and LB_DEADLINE when the daemon is silent for too long (LB_ANSWER_GRACE,
 * LB_TRY_PATIENCE).
 *
 * LB_DEADLINE means that the acquire is withdrawn: the library has written a cancel to the socket, and a daemon
 * that reads it does not grant any more. If the socket takes no more bytes, the library closes the connection
 * instead (LB_CLOSED). One race is left: the daemon grants before it reads the cancel. The next call that reads
 * gives such a lock back, and lb_free() does. Until then this connection holds it, so a program that calls
 * nothing for long after LB_DEADLINE calls lb_free().
 */
LB_PUBLIC int lb_acquire(struct lb *lb, const char *name, const struct lb_options *options,
    struct lb_lock **ret) LB_CHECK;
/*
 * Asks, and does not wait: *ret_request comes back in LB_EVENT_GRANTED, LB_EVENT_REFUSED or
 * LB_EVENT_WAITING. Without a deadline of its own on this side. Does not block.
 */
LB_PUBLIC int lb_acquire_start(struct lb *lb, const char *name, const struct lb_options *options,
    int64_t *ret_request) LB_CHECK;
/*
 * Withdraws what lb_acquire_start() asked, or lb_call_start() if that waits. Does not block: the request
 * still ends in one event, with LB_CANCELLED or, when the grant was faster, LB_EVENT_GRANTED.
 * LB_BAD_ARGUMENT when it has ended.
 */
LB_PUBLIC int lb_cancel(struct lb *lb, int64_t request) LB_CHECK;
/*
 * Asks the daemon whether the hold stands. LB_OK, LB_LOST or LB_NOT_HELD, LB_REVOKED (held, but to
 * be given up soon), LB_CLOSED; or it cannot say: LB_BROKER_UNAVAILABLE, LB_DEADLINE. Blocks, but not
 * past the end of the lease; a lock that is lost already is not asked about.
 */
LB_PUBLIC int lb_verify(struct lb_lock *lock, int64_t timeout_ms) LB_CHECK;
/* The same for an id of any connection of this user; *ret_slot (may be NULL) is 0 for none. */
LB_PUBLIC int lb_verify_id(
    struct lb *lb, const char *id, int64_t timeout_ms, int *ret_slot) LB_CHECK;
/*
 * Ends the hold; blocks until others can have the slot. The object stays, as LB_LOCK_RELEASED. After
 * LB_DEADLINE the release may still happen. LB_LOST does not block; for a lock that the library lost by
 * its lease the daemon is told, as it may hold it still.
 */
LB_PUBLIC int lb_release(struct lb_lock *lock, int64_t timeout_ms);
/*
 * Frees the object before its handle is freed. Releases nothing: a hold that has not ended stays
 * with the connection. NULL is fine. Events of it that are still queued lose their `lock`.
 */
LB_PUBLIC void lb_lock_free(struct lb_lock *lock);

enum lb_lock_state {
	LB_LOCK_HELD = 1,
	LB_LOCK_REVOKED = 2, /* held, and its slot was taken out of service: give it up */
	LB_LOCK_LOST = 3,
	LB_LOCK_RELEASED = 4
};

/*
 * As far as read, and by a fresh clock: reading is done by every blocking call, by lb_dispatch(), and here
 * when the lease has passed as far as was read.
 */
LB_PUBLIC enum lb_lock_state lb_lock_state(const struct lb_lock *lock);
/* Strings are borrowed from the lock. */
LB_PUBLIC const char *lb_lock_id(const struct lb_lock *lock);
LB_PUBLIC const char *lb_lock_name(const struct lb_lock *lock);
/* From 1; 0 = takes none: a mutex, or what was granted while its semaphore was unlimited. */
LB_PUBLIC int lb_lock_slot(const struct lb_lock *lock);
LB_PUBLIC int64_t lb_lock_waited(const struct lb_lock *lock);    /* ms from asking to grant */
LB_PUBLIC int64_t lb_lock_heartbeat(const struct lb_lock *lock); /* ms; 0 = no lease */
LB_PUBLIC int64_t lb_lock_margin(const struct lb_lock *lock);
/* ms of CLOCK_BOOTTIME, as far as read: until then the broker keeps the slot; -1 = no lease. */
LB_PUBLIC int64_t lb_lock_safe_until(const struct lb_lock *lock);
LB_PUBLIC const char *lb_lock_json(const struct lb_lock *lock); /* the grant as the wire had it */

/* ---- what happens meanwhile ---- */

enum lb_event_type {
	LB_EVENT_GRANTED = 1,  /* lock, request */
	LB_EVENT_REFUSED = 2,  /* request, code, text, json: the error */
	LB_EVENT_LOST = 3,     /* lock, reason: the hold has ended. Stop what it protected */
	LB_EVENT_REVOKED = 4,  /* lock, reason */
	LB_EVENT_WAITING = 5,  /* request, position, busy */
	LB_EVENT_BROKER = 6,   /* reason: the state of the daemon's link to the broker; text */
	LB_EVENT_DRAINING = 7, /* grace_ms: release until then, the daemon is stopping */
	LB_EVENT_CLOSED =
	    8, /* code, text: the connection is gone; comes after a LOST for each hold */
	LB_EVENT_SUSPECT = 9,   /* lock: the broker does not answer; lost at safe_until, unless */
	LB_EVENT_RESTORED = 10, /* lock: it has answered again */
	/* busy, json: so many removed slots are still held, for a change that waits for them */
	LB_EVENT_HOLDERS = 11,
	LB_EVENT_ANSWERED = 12, /* request, code, text, json: the result, or the error */
	/* request, reason ("row", "gone", "synced", "resync"), json: of a "watch" that was asked for */
	LB_EVENT_WATCH = 13
};

struct lb_event {
	enum lb_event_type type;
	int code;             /* enum lb_code */
	struct lb_lock *lock; /* NULL: none, or already freed */
	int64_t request;      /* of lb_acquire_start() or lb_call_start(), 0 = none */
	const char *reason;   /* a word, "" = none */
	const char *text;     /* a sentence, "" = none */
	/*
	 * As the wire had it: an object on one line; "{}" = it was not on the wire. But what the library
	 * lost by itself is there as if it had been, with the reason "closed" or "lease".
	 */
	const char *json;
	int position; /* from 1 */
	int busy;     /* -1 = not known */
	int64_t grace_ms;
};

/*
 * For a poll loop of one's own: the descriptor (-1 = no connection), and what to poll it for
 * (POLLIN, and POLLOUT while something is unsent). When it is ready, call lb_dispatch(). Do not
 * read, write or close the descriptor. Ask for both anew before each poll.
 */
LB_PUBLIC int lb_fd(const struct lb *lb);
LB_PUBLIC short lb_poll_events(const struct lb *lb);
/*
 * The longest that such a loop may wait before lb_dispatch() is due though the descriptor is quiet, as
 * poll(2) takes it: 0 = now, -1 = for ever. A minute at most, as poll(2) does not count time asleep.
 */
LB_PUBLIC int lb_timeout(const struct lb *lb);
/*
 * Sends and reads what is possible now; never blocks. What was read is queued as events, or given to
 * the callback. LB_CLOSED or LB_BAD_ANSWER when the connection has ended, LB_NO_MEMORY.
 */
LB_PUBLIC int lb_dispatch(struct lb *lb);
/*
 * Blocks until an event is queued, or was given to the callback, the loss by lease among them. LB_DEADLINE
 * when none came, or as lb_dispatch().
 */
LB_PUBLIC int lb_wait(struct lb *lb, int64_t timeout_ms) LB_CHECK;
/*
 * The oldest queued event, or NULL; never blocks, and reads only as lb_lock_state() does. Borrowed until
 * the next lb_event_next(), lb_lock_free() or lb_free(). The queue is bounded by what was asked and
 * granted: of `waiting` (per request), `broker`, `draining`, and `suspect` with `restored` (per lock)
 * only the newest is kept. What a "watch" tells is kept until it is taken, whatever there is.
 */
LB_PUBLIC const struct lb_event *lb_event_next(struct lb *lb);
/*
 * Has events given to fn instead, by whatever call read them, also a blocking one in its middle. The
 * event is borrowed for the call. In fn all but the lb_lock_*() getters and lb_event fields is
 * LB_BUSY. NULL: back to the queue. What is queued stays queued until the next read.
 */
LB_PUBLIC void lb_set_callback(
    struct lb *lb, void (*fn)(struct lb *lb, const struct lb_event *event, void *arg), void *arg);

/*
 * A call that blocks ends with LB_DEADLINE when the daemon has said nothing for ms, however long its own
 * timeout is: after half of that it asks the daemon by a ping whether it is there. For requests that the
 * daemon may answer much later, by a handle on which nothing is held. LB_FOREVER, as at first: no limit.
 * lb_wait() has none.
 */
LB_PUBLIC void lb_set_silence_limit(struct lb *lb, int64_t ms);

/* ---- administration, and everything else. All of these block. ---- */

/*
 * Numbers of slots: 0 to 10,000, or LB_UNLIMITED, which is larger than any number. With 0 the semaphore is
 * a gate at which all who ask wait; with LB_UNLIMITED whoever asks is granted at once, without a slot.
 */
#define LB_UNLIMITED 2147483647

/*
 * How to create, resize or destroy. Start from LB_CHANGE_INIT; new members come at the end, and `size`
 * tells which there are.
 */
struct lb_change {
	size_t size;  /* sizeof(struct lb_change) */
	int kind;     /* create: LB_SEMAPHORE or LB_PERSISTENT_MUTEX */
	int exist_ok; /* create, not 0: one that exists with that many slots is LB_OK */
	/*
	 * resize, destroy: how long to wait for those who hold a removed slot, on top of timeout_ms; 0 does
	 * not wait. LB_TIMEOUT: the slots are removed, and some still held; lb_error_json() has them.
	 */
	int64_t wait_ms;
	int progress;  /* resize, destroy, not 0: tell of LB_EVENT_HOLDERS meanwhile */
	int ascending; /* resize, destroy, not 0: slots go from the lowest up */
	int overshoot; /* look for slots so far above the size, 0 to 10,000, and remove them */
};
#define LB_CHANGE_INIT                                                                             \
	{                                                                                          \
		sizeof(struct lb_change), LB_SEMAPHORE, 0, 0, 0, 0, 0                              \
	}

/*
 * All four need the right to administrate (LB_PERMISSION_DENIED), and can be called again after an error
 * or a LB_DEADLINE, when what they do may be half done: the same call completes it, lb_create() with
 * exist_ok. lb_resize_by() becomes an absolute number as soon as the daemon knows the present one; after an
 * error call lb_resize() with that, which lb_error_json() has as data.target. `how` NULL means
 * LB_CHANGE_INIT. What the daemon has to say about a success is in lb_result_json(), as "warning".
 */
LB_PUBLIC int lb_create(struct lb *lb, const char *name, int slots, const struct lb_change *how,
    int64_t timeout_ms) LB_CHECK;
LB_PUBLIC int lb_resize(struct lb *lb, const char *name, int slots, const struct lb_change *how,
    int64_t timeout_ms) LB_CHECK;
/*
 * by: slots to add, or, below 0, to remove (10,000 at most, and not 0); there are never fewer than 0.
 * *ret_slots (may be NULL): the new number.
 */
LB_PUBLIC int lb_resize_by(struct lb *lb, const char *name, int by, const struct lb_change *how,
    int64_t timeout_ms, int *ret_slots) LB_CHECK;
LB_PUBLIC int lb_destroy(
    struct lb *lb, const char *name, const struct lb_change *how, int64_t timeout_ms) LB_CHECK;
LB_PUBLIC int lb_size(struct lb *lb, const char *name, int64_t timeout_ms, int *ret_slots) LB_CHECK;

enum lb_slot_state { LB_SLOT_FREE = 0, LB_SLOT_BUSY = 1 };
/*
 * Blocks until the slot (from 1) is in that state, whether or not it exists. LB_TIMEOUT when it was not by
 * timeout_ms, also when that is 0: then it looks, and does not wait.
 */
LB_PUBLIC int lb_await(struct lb *lb, const char *name, int slot, enum lb_slot_state state,
    int64_t timeout_ms) LB_CHECK;
/* broker not 0: there and back to the broker too. */
LB_PUBLIC int lb_ping(struct lb *lb, int broker, int64_t timeout_ms) LB_CHECK;
/*
 * Any method of the wire, with params as the text of a JSON object (NULL: none). *ret_json (may be
 * NULL) is malloc'ed: the caller frees it with free(). What an "acquire" made this way holds is the
 * connection's, but has no struct lb_lock.
 */
LB_PUBLIC int lb_call(struct lb *lb, const char *method, const char *params_json,
    int64_t timeout_ms, char **ret_json) LB_CHECK;
/*
 * The same without waiting: *ret_request comes back in one LB_EVENT_ANSWERED, unless the connection ends
 * before (LB_EVENT_CLOSED). Without a deadline on this side. Does not block.
 */
LB_PUBLIC int lb_call_start(
    struct lb *lb, const char *method, const char *params_json, int64_t *ret_request) LB_CHECK;
/*
 * Calls visit for each value in a JSON text that is no object or array itself, in order: path like
 * "lease.heartbeat" or "holders.0.pid", value as text (strings unquoted, null as ""). Stops when
 * visit returns other than 0, and returns that; LB_BAD_ARGUMENT when the text is not JSON, LB_NO_MEMORY.
 */
LB_PUBLIC int lb_json_each(
    const char *json, int (*visit)(const char *path, const char *value, void *arg), void *arg);

#ifdef __cplusplus
}
#endif

#endif
