/*
 * The log lines of a lock's life: requested, granted, refused, released, revoked, lost (a warning), each with
 * name, slot, uid, pid and age; those of changes to semaphores (journal_change.h); and of who was not allowed
 * what. Owns what it must remember of a hold for that; decides nothing.
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
	JOURNAL_LOOK     /* the same of what only looks, at debug */
};

/* It is handed on now. */
void journal_request(struct journal *journal, enum journal_kind kind, const struct conn *conn,
    const struct request *request, const char *method, const struct method_params *params);
/* It has ended; what its peer is told. */
void journal_answer(struct journal *journal, enum journal_kind kind, const struct conn *conn,
    const struct request *request, const char *method, const struct lock_answer *answer);
/* It waits, and its peer has ended: nothing more is heard of it. */
void journal_left(struct journal *journal, uint64_t peer, uint64_t number);
/* It has ended when nobody was there any more to be told. */
void journal_unheard(
    struct journal *journal, uint64_t peer, uint64_t number, const struct lock_answer *answer);
void journal_notice(struct journal *journal, const struct lock_notice *notice);
/* Refused by the access rules; name may be NULL. */
void journal_denied(struct journal *journal, const struct conn *conn, const char *method,
    const char *name, const char *why);
/* The peer's side has ended: what it holds is on its way back. */
void journal_gone(struct journal *journal, uint64_t peer);

#endif
