/*
 * The invariants of docs/ARCHITECTURE.md ("Invariants"), checked against the truth of the world.
 * Each event has a function. check_step() checks the invariants that always hold. The first
 * violation is kept in the sim. The checks change nothing else.
 */
#ifndef TESTS_SIM_CHECK_H
#define TESTS_SIM_CHECK_H

#include "tests/sim/sim.h"

/* The world performed a request. deeds NULL: it was not on a daemon's present lock connection. */
void check_claim(struct sim *sim, const struct memory_performed *what, struct queue_id id);
/* A claim was lost. */
void check_claim_lost(struct sim *sim, struct truth_slot *slot, int daemon, struct queue_id id);
/* The daemon's present lock connection checked a queue of a slot. */
void check_queue_check(struct sim *sim, const struct truth_deeds *deeds, struct queue_id id);
void check_drop(struct sim *sim, const struct truth_deeds *deeds, int daemon,
    const struct memory_performed *what, struct queue_id id);
/* A daemon makes a durable B, or uses the one that exists. */
void check_make_holder(struct sim *sim, int daemon, struct queue_id id);
/* Somebody deletes a B that is durable, or would be. */
void check_remove_holder(struct sim *sim, const struct memory_performed *what, struct queue_id id);
/* The broker layer answers a daemon's claim. */
void check_claim_answered(struct sim *sim, const struct sim_daemon *daemon,
    const struct wait_seen *seen, enum broker_answer answer);
void check_admin_claim(struct sim *sim, const struct memory_performed *what, struct queue_id id);
void check_admin_work(struct sim *sim, const struct memory_performed *what, struct queue_id id);
/* lock: the name that is entered or removed; NULL: none. */
void check_directory(
    struct sim *sim, int daemon, const struct memory_performed *what, const char *lock);
/* The last queue of the lock was deleted. */
void check_gone(struct sim *sim, int name, int daemon);
/* The slots or the entry of the name changed. */
void check_listed(struct sim *sim, int name);
void check_contiguous(struct sim *sim, int name);
void check_whole(struct sim *sim, struct queue_id id, int daemon);

/* A daemon answered. ask: the request; NULL: there is none. */
void check_answer(struct sim *sim, struct sim_daemon *daemon, const struct ask *ask,
    const struct lock_answer *answer);
void check_admin(struct sim *sim, const struct sim_daemon *daemon, const struct ask *ask,
    const struct lock_answer *answer);
/* Whether since that moment there was a time without the lock, a time with it, or an alarm. */
bool check_was_no_lock(const struct sim *sim, int name, uint64_t since);
bool check_was_there(const struct sim *sim, int name, uint64_t since);
bool check_was_alarm(const struct sim *sim, uint64_t since);
/* A daemon notified a client, or notified it that its acquire waits. */
void check_peer(struct sim *sim, const struct sim_daemon *daemon, uint64_t peer);
void check_waiting(struct sim *sim, const struct ask *ask);
/* A daemon notified an administrator that it waits for holders. */
void check_holder_wait(struct sim *sim, const struct ask *ask);
/* A daemon sent a notice about a lock. belief NULL: the client holds no such lock. */
void check_notice(struct sim *sim, struct sim_daemon *daemon, const struct belief *belief,
    const struct lock_notice *notice);

/* The daemon stated safe_until of a lock, or sent it to a client that had asked for such notices. */
void check_safe_until(
    struct sim *sim, struct sim_daemon *daemon, int name, int slot, int64_t safe_until);
void check_lease_notice(struct sim *sim, struct sim_daemon *daemon, struct sim_peer *peer,
    const struct lock_notice *notice);
/* Whether the daemon may report a lock as lost although B still belongs to it. */
bool check_lease_is_over(
    const struct sim *sim, const struct sim_daemon *daemon, int name, int slot);
/* Always: the lease of a lock, and that its B is checked. */
void check_lease(struct sim *sim, struct belief *belief);
/* Whether B may be free while its client believes in the lock: the exceptions of docs/SAFETY.md. */
bool check_is_excepted(const struct sim *sim, const struct belief *belief);

/*
 * A daemon sends a claim or a hint, or ignores a hint and remains in the wait queue. slot 0: the
 * true mutex.
 */
void check_claim_sent(struct sim *sim, const struct sim_daemon *daemon, struct queue_id id);
void check_hint_sent(struct sim *sim, const struct sim_daemon *daemon, int name, int slot);
void check_hint_ignored(struct sim *sim, const struct sim_daemon *daemon, int name);
/* A daemon granted a slot that it had already: a hand-off. */
void check_hand_off(struct sim *sim, int daemon, int name, const struct lock_answer *answer);
/* The same: whether the daemon had seen lately that the slot exists and that its lease is good. */
void check_hand_off_in_time(
    struct sim *sim, int daemon, int name, const struct lock_answer *answer);
/* Whether a client of that daemon believes that it holds the slot. */
bool check_is_held(const struct sim *sim, int daemon, int name, int slot);
/* Whether a grant of that slot by that daemon is a hand-off. */
bool check_has_passed(const struct sim *sim, int daemon, int name, int slot);
/* No waiter that came first was passed over. For grants that take a slot. */
void check_turn(struct sim *sim, const struct sim_daemon *daemon, const struct ask *ask, int slot);
/* A slot was granted. Its user must not have more channels than the limit. */
void check_charged(struct sim *sim, const struct sim_daemon *daemon, const struct belief *belief);
/*
 * check_channels() notes whether channels are available. check_channel_since() returns since when
 * the request could have one; INT64_MAX: it cannot.
 */
void check_channels(struct sim *sim);
int64_t check_channel_since(const struct sim *sim, const struct ask *ask);
/* Whether the time of an acquire is over. That of a try always is. */
bool check_is_over(const struct sim *sim, const struct ask *ask);
/* A wait was answered `timeout`. */
void check_timed_out(struct sim *sim, const struct sim_daemon *daemon, const struct ask *ask);
/* Always: a slot that was handed off is granted. */
void check_passed(struct sim *sim);
/* Always: no slot stays free while there is a waiter for it. */
void check_waits(struct sim *sim);
/* For that time nothing happened. Checks the number of messages sent since `before`. */
void check_idle(struct sim *sim, const uint64_t *before, int64_t time);
/* An event happens that causes work for daemons. */
void check_is_caused(struct sim *sim);
/* Always: a daemon's request to the broker has a cause. A flush of probes is one method. */
void check_method(struct sim *sim, int daemon);
/* The daemon's rows match its holders and waiters. */
void check_rows(struct sim *sim, const struct sim_daemon *daemon);

/* Called after every step. */
void check_step(struct sim *sim);
/* A daemon ended after an orderly stop. */
void check_stopped(struct sim *sim, const struct sim_daemon *daemon);
/* Nothing has happened for a while. */
void check_healed(struct sim *sim);
/* Whether fsck can find no problem with the name. */
bool check_is_clean(const struct sim *sim, int name);
/* At rest, after a repair. */
void check_repaired(struct sim *sim, int name);
/* Whether no channel may be left for the checks of the slot queues of holds by consumer. */
bool check_is_unseen(const struct sim *sim, const struct belief *belief);
/* At rest: the watches are those of the held slots. */
void check_watches(struct sim *sim);
/* At rest, and every lock that is believed to be held was just verified. */
void check_verified(struct sim *sim);
/* At rest, with no holder and no waiter. */
void check_quiet(struct sim *sim);

/* The invariant is judged now: no trouble excuses a violation. The schedule says which ones were. */
static inline void
check_judged(struct sim *sim, unsigned number)
{
	sim->judged |= UINT32_C(1) << number;
}

/* number: of the invariant; 0: not a numbered one. */
void check_fail(struct sim *sim, unsigned number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
