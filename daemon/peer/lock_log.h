/*
 * The log lines of a lock's life: requested, granted, refused, released, revoked, lost (a warning), each with
 * name, slot, uid, pid and age; of changes to semaphores, and at debug of requests that only read them: who
 * asked for what, and how it ended; and of who was not allowed what. Remembers changes and releases until
 * they end, as they go on when their peer has hung up; of holds it is told by the engine's rows. Decides nothing.
 */
#ifndef PEER_LOCK_LOG_H
#define PEER_LOCK_LOG_H

#include "daemon/base/clock.h"
#include "daemon/lock/lock.h"
#include "daemon/peer/conn.h"

struct lock_log;
struct method_params;
struct request;

struct lock_log *lock_log_new(const struct clock *clock);
void lock_log_free(struct lock_log *lock_log);

/* What of a method's life goes into the log. A column of the dispatch table. */
enum lock_log_kind {
	LOCK_LOG_NOTHING,
	LOCK_LOG_ACQUIRE, /* requested, and granted or refused */
	LOCK_LOG_RELEASE, /* the end of a hold */
	LOCK_LOG_CHANGE,  /* what changes semaphores for others: asked for, and done or refused */
	LOCK_LOG_READ     /* the same of what only reads, at debug */
};

/* It is handed on now. */
void lock_log_request(struct lock_log *lock_log, const struct conn *conn,
    const struct request *request, const struct method_params *params);
/* The same of a release: of that hold. */
void lock_log_releases(struct lock_log *lock_log, const struct conn *conn,
    const struct request *request, const struct lock_row *hold);
/* It has ended; what its peer is told. */
void lock_log_answer(struct lock_log *lock_log, const struct conn *conn,
    const struct request *request, const struct lock_answer *answer);
/* It waits, and its peer has ended: nothing more is heard of it. */
void lock_log_left(struct lock_log *lock_log, uint64_t peer, uint64_t number);
/* It has ended when nobody was there any more to be told. */
void lock_log_unheard(
    struct lock_log *lock_log, uint64_t peer, uint64_t number, const struct lock_answer *answer);
/* hold: that it is about; NULL: none. */
void lock_log_notice(
    struct lock_log *lock_log, const struct lock_notice *notice, const struct lock_row *hold);
/* Refused by the access rules; name may be NULL. */
void lock_log_denied(
    const struct conn *conn, const char *method, const char *name, const char *why);
/* The side of its peer has ended: it is on its way back. */
void lock_log_gone(const struct lock_log *lock_log, const struct lock_row *hold);

#endif
