/*
 * The lock log. It has the events of each lock: requested, acquired, refused, released, revoked, and
 * lost (a warning). Each line has name, slot, user, pid and age, and the id of the wire. It also has
 * changes to semaphores, requests that the access rules refused, and, at debug, requests that only
 * read. It remembers changes and releases until they end, because they continue when their peer
 * hangs up. It takes holds from the engine's rows. It decides nothing.
 *
 * Lines about requests are limited for each user: LOG_LIMIT_LINES a second. Then one line has the
 * number of those that were left out. No user can then drive the other lines out of the log. A
 * user's count outlives its connections. The limit covers acquires and releases, requests that are
 * forbidden, and requests that only read. It covers neither losses and other events that come from
 * the broker, nor changes by a user that has the right.
 */
#ifndef PEER_LOCK_LOG_H
#define PEER_LOCK_LOG_H

#include "daemon/base/timers.h"
#include "daemon/lock/lock.h"
#include "daemon/peer/conn.h"

struct lock_log;
struct method_params;
struct peer_request;

struct lock_log *lock_log_new(struct timers *timers, uint32_t run);
void lock_log_free(struct lock_log *lock_log); /* as lock_log_end_second() first */
/* Another program goes on with the process: writes the numbers of lines that were left out. */
void lock_log_end_second(struct lock_log *lock_log);

/* The events of a method that are logged. A column of the dispatch table. */
enum lock_log_kind {
	LOCK_LOG_NOTHING,
	LOCK_LOG_ACQUIRE, /* requested, and granted or refused */
	LOCK_LOG_RELEASE, /* the end of a hold */
	LOCK_LOG_CHANGE,  /* a change to semaphores: requested, and done or refused */
	LOCK_LOG_READ     /* the same for requests that only read, at debug */
};

/* The request was passed on. */
void lock_log_request(struct lock_log *lock_log, const struct conn *conn,
    const struct peer_request *request, const struct method_params *params);
/* The same for a request of an earlier program, which has logged it. */
void lock_log_resume(struct lock_log *lock_log, const struct conn *conn,
    const struct peer_request *request, const struct method_params *params);
/* The same for a release of that hold. */
void lock_log_releases(struct lock_log *lock_log, const struct conn *conn,
    const struct peer_request *request, const struct lock_row *hold);
/* The request has ended with this answer to its peer. */
void lock_log_answer(struct lock_log *lock_log, const struct conn *conn,
    const struct peer_request *request, const struct lock_answer *answer);
/* The request waits by design, and its peer has ended: there will be no answer. */
void lock_log_left(struct lock_log *lock_log, uint64_t peer, uint64_t number);
/* The request has ended after its peer. */
void lock_log_unheard(
    struct lock_log *lock_log, uint64_t peer, uint64_t number, const struct lock_answer *answer);
/* hold: the hold of the notice; NULL: none. */
void lock_log_notice(
    struct lock_log *lock_log, const struct lock_notice *notice, const struct lock_row *hold);
/* The access rules refused a request. name may be NULL. */
void lock_log_forbidden(struct lock_log *lock_log, const struct conn *conn, const char *method,
    const char *name, const char *why);
/* The peer of the hold has ended: the hold is released. */
void lock_log_gone(struct lock_log *lock_log, const struct lock_row *hold);

#endif
