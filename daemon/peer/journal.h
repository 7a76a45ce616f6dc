/*
 * The log lines of a lock's life: requested, granted, refused, released, revoked, lost, each with name,
 * slot, uid, pid and age; and those of changes to semaphores, and of who was not allowed what. Owns what it must remember of a hold for that; decides nothing.
 */
#ifndef PEER_JOURNAL_H
#define PEER_JOURNAL_H

#include "daemon/base/clock.h"
#include "daemon/lock/lock.h"
#include "daemon/peer/conn.h"

struct journal;
struct method_params;

struct journal *journal_new(const struct clock *clock);
void journal_free(struct journal *journal);

void journal_requested(
    struct journal *journal, const struct conn *conn, const struct method_params *params);
void journal_granted(
    struct journal *journal, const struct conn *conn, const struct lock_answer *answer);
void journal_refused(
    struct journal *journal, const struct conn *conn, const struct lock_answer *answer);
void journal_released(struct journal *journal, uint64_t lock);
void journal_notice(struct journal *journal, const struct lock_notice *notice);
/* What changes semaphores for others, when it is asked for and how it ended. slots 0: no matter. */
void journal_asked(struct journal *journal, const struct conn *conn, const char *method,
    const char *name, int slots);
void journal_changed(struct journal *journal, const struct conn *conn, const char *method,
    const struct lock_answer *answer);
/* Refused by the access rules; name may be NULL. */
void journal_denied(struct journal *journal, const struct conn *conn, const char *method,
    const char *name, const char *why);
/* The peer's side has ended: what it holds is on its way back. */
void journal_gone(struct journal *journal, uint64_t peer);

#endif
