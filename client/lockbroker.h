/*
 * liblockbroker: a client of lockbrokerd for C and C++ programs.
 *
 * A handle (struct lb) is one connection to the daemon on this host. A hold belongs to the connection on which
 * it was acquired. It ends when the program releases it, when the daemon reports it lost, or when the
 * connection ends.
 *
 *	struct lb *lb = lb_new();
 *	struct lb_lock *lock;
 *
 *	if (lb == NULL || lb_connect(lb, NULL, 5000) != LB_OK ||
 *	    lb_acquire(lb, "backup", NULL, &lock) != LB_OK)
 *		errx(1, "%s", lb_message(lb));
 *	while (there_is_work() && lb_verify(lock, 1000) == LB_OK)
 *		work_for_less_than_the_lease();
 *	lb_release(lock, 5000);
 *	lb_free(lb);
 *
 * Results: a function that can fail returns LB_OK (0) or another enum lb_code; then lb_message() has the
 * details. Arguments ret and ret_* are written only with LB_OK. Every such function with a handle can return
 * LB_FORKED and LB_BUSY. If it uses the connection, it can also return LB_CLOSED, LB_BAD_ANSWER, LB_SYSTEM and
 * LB_NO_MEMORY. The comments name only the other codes.
 *
 * Time: milliseconds in int64_t. As a timeout, 0 tries once and LB_FOREVER has no limit. The clock is
 * CLOCK_BOOTTIME, which also counts while the machine sleeps. Calls continue after EINTR.
 *
 * Strings: arguments end in NUL, and the library copies them. Text is UTF-8. The library replaces invalid bytes
 * by U+FFFD.
 *
 * Threads: only one thread at a time may use a handle and its locks and events. Different handles are
 * independent. The library has no threads and no global state. It installs no signal handlers, raises no signal
 * (a closed connection is LB_CLOSED, never SIGPIPE) and never exits.
 *
 * Fork: the socket is close-on-exec. A child without exec has a copy of the socket, and a hold lives until the
 * last copy is closed. If the parent dies, the lock stays held while such a child lives. The child cannot use
 * the handle: calls return LB_FORKED. Call lb_forget() in the child at once, or lb_adopt() to go on there.
 *
 * Lease: the broker keeps a hold at least until lb_lock_safe_until(). The daemon moves this time forward while
 * the broker answers. If the time passes without news from the daemon, the library reports the lock as lost:
 * LB_EVENT_LOST with the reason "lease". The loss is final. The library notices it only inside a call. A
 * program that does not block in lb_wait() must poll for no longer than lb_timeout() (PROTOCOL.md, "Holds and
 * leases").
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

/* As a timeout: no limit. */
#define LB_FOREVER INT64_C(-1)
/* The path for lb_connect(lb, NULL, ...) if $LOCKBROKER_SOCKET is not set. */
#define LB_DEFAULT_SOCKET "/run/lockbroker/lockbroker.sock"
/*
 * How long the library waits for the daemon's answer, in ms. GRACE: beyond the timeout of the request.
 * PATIENCE: for a request with timeout 0. Both are longer than the daemon's request-timeout (default 10 s). If a
 * claim is on its way at the timeout of an acquire, the daemon has that time to finish it.
 */
#define LB_ANSWER_GRACE INT64_C(15000)
#define LB_TRY_PATIENCE INT64_C(15000)

/*
 * Results of calls. Codes above 0 and below -32000 come from the daemon: they are error.code of the protocol
 * (PROTOCOL.md, "Answers and errors"). The others come from the library.
 */
enum lb_code {
	LB_OK = 0,
	LB_WOULD_BLOCK = 1, /* every slot is busy, and the timeout is 0 */
	LB_TIMEOUT = 2,     /* the deadline passed */
	LB_CONTENDED = 3,   /* others claimed the free slots first, too often */
	LB_CANCELLED = 4,   /* by lb_cancel(), or an administrator denied the acquire */
	LB_NO_SUCH_LOCK = 5,
	LB_ALREADY_EXISTS = 6,
	LB_NOT_HELD = 7, /* the lock is not held, or not by this client */
	LB_LOST = 8,     /* the hold ended without a release */
	LB_REVOKED = 9,  /* the slot was removed; the hold continues until its release */
	LB_PERMISSION_DENIED = 10,
	LB_TOO_MANY_REQUESTS = 11,
	LB_TOO_MANY_LOCKS = 12,
	LB_TOO_MANY_WAITERS = 13,
	LB_DRAINING = 14, /* the daemon stops */
	LB_BROKER_UNAVAILABLE = 15,
	LB_BROKER_BLOCKED = 16, /* the broker has raised a resource alarm */
	/* the broker refused the daemon: credentials, vhost or permissions */
	LB_BROKER_REFUSED = 17,
	LB_NO_MEMORY = -1,
	LB_BAD_ARGUMENT = -2, /* the library sent nothing */
	LB_NO_DAEMON = -3,    /* the socket does not exist, or no process listens on it */
	LB_NO_ACCESS = -4,    /* this user may not open the socket */
	LB_DEADLINE = -5,     /* the daemon did not answer in time; the request may still succeed */
	LB_CLOSED = -6,       /* there is no connection; all its holds are lost */
	LB_BAD_ANSWER = -7,   /* the daemon broke the protocol; the library closed the connection */
	LB_FORKED = -8,       /* another process made the handle */
	LB_BUSY = -9,         /* the call came from inside the callback */
	LB_SYSTEM = -10,      /* a system call failed; lb_message() has the text of errno */
	LB_PARSE_ERROR = -32700,
	LB_INVALID_REQUEST = -32600,
	LB_METHOD_NOT_FOUND = -32601,
	LB_INVALID_PARAMS = -32602,
	LB_INTERNAL = -32603 /* a defect of the daemon, or a code that this library does not know */
};

/* The word of a code, such as "would-block" (data.reason of the protocol). Static, never NULL. */
LB_PUBLIC const char *lb_code_word(int code);
/* The version of the library, such as "1.2.3". Static. */
LB_PUBLIC const char *lb_version(void);

struct lb;      /* a connection */
struct lb_lock; /* a hold; its handle owns it */

/* ---- the handle ---- */

/* Makes a handle without a connection. NULL: out of memory. Free it with lb_free(). */
LB_PUBLIC struct lb *lb_new(void);
/*
 * Closes the connection, also for processes that have a copy of the socket, and thus ends all holds. Then frees
 * the handle with its locks and events. NULL is allowed. In a forked child it does the same as lb_forget().
 * Does not block. Do not call it from inside the callback.
 */
LB_PUBLIC void lb_free(struct lb *lb);
/*
 * For a child after fork(): closes only the copy of this process, and frees the handle. Other copies keep the
 * holds. NULL is allowed. Does not block.
 */
LB_PUBLIC void lb_forget(struct lb *lb);
/*
 * For a child after fork(): makes the handle, with its locks and requests, the child's own. From then on the
 * parent must call nothing but lb_forget() with its copy: two readers of one socket lose messages. If the parent
 * keeps its copy, the holds outlive the child until the copy is closed. Does not block. Since 0.2.0.
 */
LB_PUBLIC void lb_adopt(struct lb *lb);
/*
 * Connects to the socket at path. NULL or "": $LOCKBROKER_SOCKET (not in set-user-ID programs,
 * secure_getenv(3)), else LB_DEFAULT_SOCKET. Blocks up to timeout_ms, but only while the backlog of the daemon
 * is full. After LB_CLOSED it can be called again; the locks of the earlier connection stay lost.
 *
 * LB_NO_DAEMON, LB_NO_ACCESS, LB_DEADLINE, LB_SYSTEM; LB_BAD_ARGUMENT: the path is too long, or the handle
 * already has a connection.
 */
LB_PUBLIC int lb_connect(struct lb *lb, const char *path, int64_t timeout_ms) LB_CHECK;
/* The path of the last lb_connect(); NULL before. Borrowed until the next lb_connect(). */
LB_PUBLIC const char *lb_socket_path(const struct lb *lb);
/*
 * The last error as one sentence without a line end; "" if there was none. Never NULL. Borrowed until the next
 * call. lb NULL: the sentence for LB_NO_MEMORY.
 */
LB_PUBLIC const char *lb_message(const struct lb *lb);
/*
 * The outcome of the last call as JSON on one line: the result, or the error with its code, message and data.
 * For an error of the library, data has only the reason. NULL: the call did not end in this way, or out of
 * memory. Borrowed until the next call.
 */
LB_PUBLIC const char *lb_result_json(struct lb *lb);
LB_PUBLIC const char *lb_error_json(struct lb *lb);

/* ---- locks ---- */

enum lb_kind {
	LB_SEMAPHORE = 0,
	LB_MUTEX = 1,           /* one holder at a time; it is not created */
	LB_PERSISTENT_MUTEX = 2 /* a semaphore with one slot */
};

/* The word of a kind, such as "persistent-mutex". NULL: there is no such kind. Static. */
LB_PUBLIC const char *lb_kind_word(int kind);
/* NULL: a lock can have this name. Else the reason why not, static. The daemon can refuse more names. */
LB_PUBLIC const char *lb_name_error(const char *name);

/*
 * How to acquire. Start from LB_OPTIONS_INIT. Later versions add members at the end; `size` tells the library
 * which members the program knows.
 */
struct lb_options {
	size_t size;                     /* sizeof(struct lb_options) */
	int64_t timeout_ms;              /* 0: try once */
	int kind;                        /* enum lb_kind */
	int priority;                    /* -100 to 100; higher is served first */
	int progress;                    /* not 0: report LB_EVENT_WAITING */
	const char *who, *why, *command; /* for logs and rows, at most 256 bytes; NULL: none */
	int create; /* 1 to 10,000: create a missing semaphore with this size; 0: do not */
};
#define LB_OPTIONS_INIT                                                                            \
	{                                                                                          \
		sizeof(struct lb_options), LB_FOREVER, LB_SEMAPHORE, 0, 0, NULL, NULL, NULL, 0     \
	}

/*
 * Acquires a lock. Blocks until the daemon grants or refuses it. options NULL: LB_OPTIONS_INIT. *ret belongs to
 * the handle; lb_lock_free() can free it earlier.
 *
 * Codes of the daemon (PROTOCOL.md, "acquire"); LB_BAD_ARGUMENT; LB_LOST: the hold ended together with the
 * grant; LB_DEADLINE: the daemon did not answer in time (LB_ANSWER_GRACE, LB_TRY_PATIENCE).
 *
 * After LB_DEADLINE the acquire is withdrawn. The library has written a cancel to the socket; once the daemon
 * has read it, it does not grant the lock. If the socket accepts no more bytes, the library closes the
 * connection instead (LB_CLOSED). One race is left: the daemon can grant the lock before it reads the cancel.
 * The next call that reads releases such a lock, and so does lb_free(). Until then the connection holds it. A
 * program that makes no more calls for a long time should call lb_free().
 */
LB_PUBLIC int lb_acquire(struct lb *lb, const char *name, const struct lb_options *options,
    struct lb_lock **ret) LB_CHECK;
/*
 * Begins an acquire and does not wait for the answer. The next lb_dispatch() or blocking call sends it. The
 * answer is LB_EVENT_GRANTED or LB_EVENT_REFUSED; LB_EVENT_WAITING can come before. Their `request` is
 * *ret_request. The library has no deadline for it. Does not block. LB_BAD_ARGUMENT.
 */
LB_PUBLIC int lb_acquire_start(struct lb *lb, const char *name, const struct lb_options *options,
    int64_t *ret_request) LB_CHECK;
/*
 * Withdraws a request of lb_acquire_start(), or a waiting request of lb_call_start(). Does not block. The
 * request still ends with one event: LB_CANCELLED, or LB_EVENT_GRANTED if the grant was faster.
 * LB_BAD_ARGUMENT: the request has ended.
 */
LB_PUBLIC int lb_cancel(struct lb *lb, int64_t request) LB_CHECK;
/*
 * Asks the daemon, and it asks the broker, whether the lock is held. Blocks up to timeout_ms, and not beyond
 * the end of the lease. Does not ask about a lock that has ended.
 *
 * LB_OK: it is held. LB_REVOKED: it is held, but release it soon. LB_LOST, LB_NOT_HELD, LB_CLOSED: it is not
 * held. LB_DEADLINE, LB_BROKER_UNAVAILABLE and the other codes: not known.
 */
LB_PUBLIC int lb_verify(struct lb_lock *lock, int64_t timeout_ms) LB_CHECK;
/*
 * The same for the id of a lock that any connection of this user holds. *ret_slot: as lb_lock_slot(); ret_slot
 * can be NULL. LB_BAD_ARGUMENT.
 */
LB_PUBLIC int lb_verify_id(
    struct lb *lb, const char *id, int64_t timeout_ms, int *ret_slot) LB_CHECK;
/*
 * Ends the hold. Blocks until another client can have the slot, at most timeout_ms. The object stays, with the
 * state LB_LOCK_RELEASED.
 *
 * If the lock is already lost, this does not block and returns LB_LOST. If it was lost by its lease, the daemon
 * may still hold it, so the library sends the release all the same. LB_NOT_HELD: it was released before.
 * LB_DEADLINE: the release may still happen. LB_BROKER_UNAVAILABLE and the other broker codes: the broker has
 * not confirmed the release.
 */
LB_PUBLIC int lb_release(struct lb_lock *lock, int64_t timeout_ms);
/*
 * Frees the object, but does not release the lock: a hold that has not ended stays with the connection. Queued
 * events of the lock get `lock` NULL. NULL is allowed. Has no effect inside the callback.
 */
LB_PUBLIC void lb_lock_free(struct lb_lock *lock);

enum lb_lock_state {
	LB_LOCK_HELD = 1,
	LB_LOCK_REVOKED = 2, /* held, but the slot was removed: release it soon */
	LB_LOCK_LOST = 3,
	LB_LOCK_RELEASED = 4
};

/*
 * The state by all that was read, and by the clock. Blocking calls and lb_dispatch() read the socket. This
 * function reads it only if a lease of the handle seems to be over. Does not block.
 */
LB_PUBLIC enum lb_lock_state lb_lock_state(const struct lb_lock *lock);
/* The getters do not block and do not read. The lock owns their strings. */
LB_PUBLIC const char *lb_lock_id(const struct lb_lock *lock);
LB_PUBLIC const char *lb_lock_name(const struct lb_lock *lock);
/* From 1. 0: a mutex, or a hold without a slot (the semaphore was unlimited, or an administrator granted it). */
LB_PUBLIC int lb_lock_slot(const struct lb_lock *lock);
LB_PUBLIC int64_t lb_lock_waited(const struct lb_lock *lock);    /* ms from request to grant */
LB_PUBLIC int64_t lb_lock_heartbeat(const struct lb_lock *lock); /* ms; 0: no lease */
LB_PUBLIC int64_t lb_lock_margin(const struct lb_lock *lock);    /* ms; 0: no lease */
/* ms that a lease lasts from the newest request that the broker answered; 0: no lease. Since 0.2. */
LB_PUBLIC int64_t lb_lock_lease(const struct lb_lock *lock);
/*
 * The end of the lease by all that was read, or the deadline of an eviction, if that is earlier: ms of
 * CLOCK_BOOTTIME. -1: neither.
 */
LB_PUBLIC int64_t lb_lock_safe_until(const struct lb_lock *lock);
/*
 * The fencing number of the grant, below 2^53. A store that gets it with each write can refuse late holders
 * (FENCING.md). 0: none, as the slot is not held by quorum. It stays the same while the hold lasts. The `fence`
 * in the answer to a verify can be larger, and is not for writes. Since 0.2.0.
 */
LB_PUBLIC uint64_t lb_lock_fence(const struct lb_lock *lock);
LB_PUBLIC const char *lb_lock_json(const struct lb_lock *lock); /* the result of the acquire */

/* ---- events ---- */

/* After each type: the members of struct lb_event that it uses, besides type, code and json. */
enum lb_event_type {
	LB_EVENT_GRANTED = 1,  /* lock, request */
	LB_EVENT_REFUSED = 2,  /* request, text: an acquire failed */
	LB_EVENT_LOST = 3,     /* lock, reason, text: the hold has ended. Stop the work at once */
	LB_EVENT_REVOKED = 4,  /* lock, reason: the slot was removed; the hold continues */
	LB_EVENT_WAITING = 5,  /* request, position, busy: the acquire waits */
	LB_EVENT_BROKER = 6,   /* reason, text: state of the lock connection, and why */
	LB_EVENT_DRAINING = 7, /* grace_ms: the daemon stops; release the locks until then */
	/* text: the connection has ended. Comes after LB_EVENT_LOST of each hold */
	LB_EVENT_CLOSED = 8,
	LB_EVENT_SUSPECT = 9, /* lock: the broker does not answer about it; held until safe_until */
	LB_EVENT_RESTORED = 10, /* lock: the broker answers again */
	/* busy: so many removed slots are still busy; the resize or destroy waits for them */
	LB_EVENT_HOLDERS = 11,
	LB_EVENT_ANSWERED = 12, /* request, text: the answer to lb_call_start() */
	/* request, reason ("row", "gone", "synced", "resync"): a notification for a "watch" */
	LB_EVENT_WATCH = 13,
	/*
	 * lock, reason ("evicted"), text (who, on which host, and why), grace_ms: an administrator ends the hold
	 * then. Stop the work and release the lock before. Since 0.2.0. It comes again if the deadline moves: it
	 * only becomes earlier. LB_EVENT_LOST follows at the deadline.
	 */
	LB_EVENT_EVICTED = 14
};

struct lb_event {
	enum lb_event_type type;
	int code;             /* enum lb_code */
	struct lb_lock *lock; /* NULL: none, or it was freed */
	int64_t request;      /* of lb_acquire_start() or lb_call_start(); 0: none */
	/* A word; "": none. LOST: "lost", "draining", "evicted", "lease" or "closed". */
	const char *reason;
	const char *text; /* a sentence, cut off after 255 bytes; "": none */
	/*
	 * The result, the error or the params of the notification: an object on one line. If the library lost
	 * the lock by itself, it writes the params, with the reason "closed", "lease" or "evicted". "{}": none.
	 */
	const char *json;
	int position; /* from 1 */
	int busy;     /* -1: not known */
	int64_t grace_ms;
};

/*
 * For a poll loop of the program: the descriptor (-1: no connection), and the events to poll for (POLLIN, and
 * POLLOUT while output is unsent). Get both again before each poll. When the descriptor is ready, call
 * lb_dispatch(). Do not read, write or close the descriptor.
 */
LB_PUBLIC int lb_fd(const struct lb *lb);
LB_PUBLIC short lb_poll_events(const struct lb *lb);
/*
 * The longest time to poll before lb_dispatch() is due, in ms for poll(2): 0: now, -1: no limit. At most one
 * minute, because poll(2) does not count while the machine sleeps.
 */
LB_PUBLIC int lb_timeout(const struct lb *lb);
/*
 * Sends and reads as much as possible now. Does not block. Events go to the queue or to the callback. LB_CLOSED
 * or LB_BAD_ANSWER: the connection has ended.
 */
LB_PUBLIC int lb_dispatch(struct lb *lb);
/*
 * Blocks until an event is in the queue or went to the callback; the end of a lease is such an event, too.
 * LB_DEADLINE: none came within timeout_ms. Otherwise as lb_dispatch().
 */
LB_PUBLIC int lb_wait(struct lb *lb, int64_t timeout_ms) LB_CHECK;
/*
 * Takes the oldest event from the queue; NULL: there is none. Does not block. Like lb_lock_state(), it reads the
 * socket only if a lease of the handle seems to be over. Borrowed until the next lb_event_next() or lb_free().
 * NULL inside the callback.
 *
 * The queue keeps only the newest WAITING and HOLDERS of a request, SUSPECT and RESTORED of a lock, EVICTED of a
 * lock, BROKER, and DRAINING. WATCH events stay until the program takes them. The number of other events is limited
 * by the requests and holds.
 */
LB_PUBLIC const struct lb_event *lb_event_next(struct lb *lb);
/*
 * Gives events to fn instead of the queue. Each call that reads can call fn, also before it returns. The event
 * is borrowed for the call. Inside fn only the lb_lock_*() getters work; calls that return a code return
 * LB_BUSY. fn NULL: use the queue again. Queued events go to fn at the next call that reads.
 */
LB_PUBLIC void lb_set_callback(
    struct lb *lb, void (*fn)(struct lb *lb, const struct lb_event *event, void *arg), void *arg);

/*
 * Limits the silence of the daemon: a blocking call returns LB_DEADLINE if the daemon has sent nothing for ms,
 * whatever its own timeout. After half of that time the library sends a ping. Use it for requests that can take
 * long, on a handle that holds nothing. Default: LB_FOREVER. Does not apply to lb_wait().
 */
LB_PUBLIC void lb_set_silence_limit(struct lb *lb, int64_t ms);

/* ---- administration and other calls: all of them block, except for lb_call_start() ---- */

/*
 * A size: 0 to 10,000 slots, or LB_UNLIMITED, which is above all numbers. At size 0 (a gate) every client
 * waits. If the semaphore is unlimited, every acquire is granted, without a slot.
 */
#define LB_UNLIMITED 2147483647

/* How the slots of a semaphore are held (PROTOCOL.md, create). */
enum lb_claim {
	LB_CLAIM_DEFAULT = 0, /* as the daemon's setting says */
	LB_CLAIM_EXCLUSIVE_QUEUE = 1,
	LB_CLAIM_CONSUMER = 2,
	LB_CLAIM_QUORUM = 3
};

/* The word of a way, such as "consumer". NULL: there is no such way, or it is the default. Static. */
LB_PUBLIC const char *lb_claim_word(int claim);

/*
 * How to create, resize or destroy. Start from LB_CHANGE_INIT. Later versions add members at the end; `size`
 * tells the library which members the program knows.
 */
struct lb_change {
	size_t size;  /* sizeof(struct lb_change) */
	int kind;     /* create: LB_SEMAPHORE or LB_PERSISTENT_MUTEX */
	int exist_ok; /* create, not 0: LB_OK if the semaphore exists with this size */
	/*
	 * resize, destroy: how long to wait for holders of removed slots, in addition to timeout_ms. 0: do not
	 * wait. LB_TIMEOUT: the slots are removed, but some are still busy; lb_error_json() lists them.
	 */
	int64_t wait_ms;
	int progress;  /* resize, destroy, not 0: report LB_EVENT_HOLDERS */
	int ascending; /* resize, destroy, not 0: remove the lowest slot first */
	int overshoot; /* 0 to 10,000: remove uncounted slots at least this far above the size */
	int claim;     /* create, resize: how the first slots are held; enum lb_claim */
	/*
	 * create, resize, of slots by quorum: how long the next holder waits after a hold that did not end
	 * cleanly, 5,000 to 300,000. 0: as the slots that exist, or 20 s. Since 0.2.0.
	 */
	int64_t takeover_grace_ms;
	/*
	 * create, resize, of slots by quorum, not 0: the clock of the daemon's host is right. It may be more than a
	 * year ahead of the newest epoch. Since 0.2.0.
	 */
	int force;
};
#define LB_CHANGE_INIT                                                                             \
	{                                                                                          \
		sizeof(struct lb_change), LB_SEMAPHORE, 0, 0, 0, 0, 0, LB_CLAIM_DEFAULT, 0, 0      \
	}

/*
 * Create, resize, destroy. They need the right to administer (LB_PERMISSION_DENIED). how NULL: LB_CHANGE_INIT.
 * The library waits for the answer for timeout_ms, plus wait_ms. A warning of the daemon is in
 * lb_result_json().
 *
 * After any error, LB_DEADLINE too, the change may be half done. Repeat the call to complete it: lb_create()
 * with exist_ok. Instead of lb_resize_by(), repeat lb_resize() with data.target of lb_error_json().
 */
LB_PUBLIC int lb_create(struct lb *lb, const char *name, int slots, const struct lb_change *how,
    int64_t timeout_ms) LB_CHECK;
LB_PUBLIC int lb_resize(struct lb *lb, const char *name, int slots, const struct lb_change *how,
    int64_t timeout_ms) LB_CHECK;
/*
 * Adds `by` slots, or removes them if it is below 0: -10,000 to 10,000, not 0. The size does not go below 0.
 * *ret_slots: the new size; ret_slots can be NULL.
 */
LB_PUBLIC int lb_resize_by(struct lb *lb, const char *name, int by, const struct lb_change *how,
    int64_t timeout_ms, int *ret_slots) LB_CHECK;
LB_PUBLIC int lb_destroy(
    struct lb *lb, const char *name, const struct lb_change *how, int64_t timeout_ms) LB_CHECK;
/* *ret_slots: the size, or LB_UNLIMITED. LB_NO_SUCH_LOCK, LB_DEADLINE. */
LB_PUBLIC int lb_size(struct lb *lb, const char *name, int64_t timeout_ms, int *ret_slots) LB_CHECK;

enum lb_slot_state { LB_SLOT_FREE = 0, LB_SLOT_BUSY = 1 };
/*
 * Blocks until the slot (from 1) has this state. The slot need not exist. timeout_ms 0: checks once.
 * LB_TIMEOUT: it did not have the state in time. LB_DEADLINE: the daemon did not answer (LB_ANSWER_GRACE,
 * LB_TRY_PATIENCE).
 */
LB_PUBLIC int lb_await(struct lb *lb, const char *name, int slot, enum lb_slot_state state,
    int64_t timeout_ms) LB_CHECK;
/*
 * Checks that the daemon answers: LB_OK even if the broker is down. If broker is not 0, lb_result_json() has the
 * state of the daemon's lock connection. LB_DEADLINE.
 */
LB_PUBLIC int lb_ping(struct lb *lb, int broker, int64_t timeout_ms) LB_CHECK;
/*
 * Calls any method of the protocol. params_json: the text of a JSON object; NULL: no parameters. *ret_json is
 * the result, to be freed with free(); ret_json can be NULL. A lock that is acquired in this way belongs to the
 * connection, but has no struct lb_lock. LB_DEADLINE, LB_BAD_ARGUMENT.
 */
LB_PUBLIC int lb_call(struct lb *lb, const char *method, const char *params_json,
    int64_t timeout_ms, char **ret_json) LB_CHECK;
/*
 * The same, but does not wait for the answer, as lb_acquire_start(). The answer is LB_EVENT_ANSWERED, unless
 * the connection ends before (LB_EVENT_CLOSED). The library has no deadline for it. Does not block.
 */
LB_PUBLIC int lb_call_start(
    struct lb *lb, const char *method, const char *params_json, int64_t *ret_request) LB_CHECK;
/*
 * Calls visit for each value of a JSON text that is not an object or an array, in order. path: such as
 * "lease.heartbeat" or "holders.0.pid". value: the text, strings without quotes, null as "". If visit does not
 * return 0, the walk stops and returns that. LB_BAD_ARGUMENT: the text is not JSON. LB_NO_MEMORY. Uses no
 * handle.
 */
LB_PUBLIC int lb_json_each(
    const char *json, int (*visit)(const char *path, const char *value, void *arg), void *arg);

#ifdef __cplusplus
}
#endif

#endif
