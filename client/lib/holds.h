/*
 * The holds of a connection, and its events. Grants become locks. Notifications change their states
 * and become events in a queue. Owns the locks and the events. No I/O.
 */
#ifndef CLIENT_LIB_HOLDS_H
#define CLIENT_LIB_HOLDS_H

#include <stdbool.h>
#include <sys/queue.h>

#include "client/lockbroker.h"
#include "protocol/json.h"
#include "protocol/lockname.h"
#include "protocol/methods.h"

#define HOLDS_NO_LEASE INT64_MAX

struct lb_lock {
	TAILQ_ENTRY(lb_lock) entry;
	struct lb *lb; /* borrowed; the handle */
	enum lb_lock_state state;
	char id[METHODS_LOCK_MAX + 1];
	char name[LOCKNAME_MAX + 1];
	int slot;
	int64_t waited_ms, heartbeat_ms, margin_ms, lease_ms;
	uint64_t fence;     /* of the grant; 0: none */
	int64_t safe_until; /* ms of CLOCK_BOOTTIME; HOLDS_NO_LEASE */
	int64_t evict_at;   /* the same: an administrator ends the hold then */
	bool suspect;       /* the notification `lease` does not extend it */
	/*
	 * Lost, and its release is of use: holds_until() has passed, so that the daemon may still have it.
	 * Or it was held by quorum, and the daemon waits for the end of the work to free the slot.
	 */
	bool lapsed;
	bool releasing; /* release requested: no longer protected, so the lease does not matter */
	char *json;     /* owned */
};

struct hold_event {
	TAILQ_ENTRY(hold_event) entry;
	struct lb_event event; /* reason, text and json point to the members below */
	char reason[32];
	char text[256];
	char *json; /* owned */
};

struct holds {
	TAILQ_HEAD(, lb_lock) locks;
	TAILQ_HEAD(, hold_event) events; /* oldest first */
	struct hold_event *shown;        /* owned; lent by lb_event_next() */
};

void holds_init(struct holds *holds);
void holds_done(struct holds *holds);

/*
 * The functions that return an int return LB_OK, LB_NO_MEMORY, or LB_BAD_ANSWER. LB_BAD_ANSWER: the
 * daemon's message makes no sense.
 */

/* Makes a lock of the result of an acquire. */
int holds_grant(struct holds *holds, struct lb *lb, const struct cJSON *result,
    struct lb_lock **ret) __attribute__((warn_unused_result));
/*
 * Adds the event of a request that no call waits for: LB_EVENT_GRANTED (with its lock),
 * LB_EVENT_REFUSED or LB_EVENT_ANSWERED. Takes json; NULL: there was no memory for it.
 */
int holds_answered(struct holds *holds, enum lb_event_type type, int64_t request, int code,
    const char *text, struct lb_lock *lock, char *json) __attribute__((warn_unused_result));
/* Takes a notification. An unknown method makes no event. */
int holds_notice(struct holds *holds, const char *method, const struct cJSON *params)
    __attribute__((warn_unused_result));
/* The connection ended: adds a LOST for each hold, then CLOSED. */
int holds_closed(struct holds *holds, int code, const char *text)
    __attribute__((warn_unused_result));
/*
 * The lease, and the deadline of an eviction, which ends a hold in the same way: holds_until() is the earlier
 * one. holds_safe_until() is the time at which the first hold is lost unless it is renewed
 * (HOLDS_NO_LEASE: never). holds_lapse() ends all holds whose time has come. holds_renew() takes a
 * newer time from an answer about the lock. A time that comes after the loss is ignored.
 */
int64_t holds_until(const struct lb_lock *lock);
int64_t holds_safe_until(const struct holds *holds);
int holds_lapse(struct holds *holds, int64_t now) __attribute__((warn_unused_result));
int holds_renew(struct lb_lock *lock, const struct cJSON *answer)
    __attribute__((warn_unused_result));
void holds_free_lock(struct holds *holds, struct lb_lock *lock);
/* The oldest event, borrowed until the next call. NULL: none. */
const struct lb_event *holds_next(struct holds *holds);

#endif
