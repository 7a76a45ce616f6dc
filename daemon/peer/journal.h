/*
 * The log lines of a lock's life: requested, granted, refused, released, revoked, lost (a warning), each with
 * name, slot, uid, pid and age; of changes to semaphores, and at debug of requests that only read them: who
 * asked for what, and how it ended; and of who was not allowed what. Remembers changes and releases until
 * they end, as they go on when their peer has hung up; of holds it is told by the engine's rows. Decides nothing.
 */
#ifndef PEER_JOURNAL_H
#define PEER_JOURNAL_H

#include "daemon/base/clock.h"
#include "daemon/lock/lock.h"
#include "daemon/peer/conn.h"

struct journal;
struct method_params;
struct request;

struct journal *journal_new(const struct clock *clock);
void journal_free(struct journal *journal);

/* What of a method's life goes into the log. A column of the dispatch table. */
enum journal_kind {
	JOURNAL_NOTHING,
	JOURNAL_ACQUIRE, /* requested, and granted or refused */
	JOURNAL_RELEASE, /* the end of a hold */
	JOURNAL_CHANGE,  /* what changes semaphores for others: asked for, and done or refused */
	JOURNAL_READ     /* the same of what only reads, at debug */
};

/* It is handed on now. */
void journal_request(struct journal *journal, const struct conn *conn,
    const struct request *request, const struct method_params *params);
/* The same of a release: of that hold. */
void journal_releases(struct journal *journal, const struct conn *conn,
    const struct request *request, const struct lock_party *hold);
/* It has ended; what its peer is told. */
void journal_answer(struct journal *journal, const struct conn *conn, const struct request *request,
    const struct lock_answer *answer);
/* It waits, and its peer has ended: nothing more is heard of it. */
void journal_left(struct journal *journal, uint64_t peer, uint64_t number);
/* It has ended when nobody was there any more to be told. */
void journal_unheard(
    struct journal *journal, uint64_t peer, uint64_t number, const struct lock_answer *answer);
/* hold: that it is about; NULL: none. */
void journal_notice(
    struct journal *journal, const struct lock_notice *notice, const struct lock_party *hold);
/* Refused by the access rules; name may be NULL. */
void journal_denied(const struct conn *conn, const char *method, const char *name, const char *why);
/* The side of its peer has ended: it is on its way back. */
void journal_gone(const struct journal *journal, const struct lock_party *hold);

#endif
