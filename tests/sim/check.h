/*
 * The invariants of docs/ARCHITECTURE.md ("Invariants"), held against the world's own truth. One function each for
 * what is checked when something happens, and check_step() for what holds always. The first
 * violation is kept in the sim; nothing else is changed here.
 */
#ifndef TESTS_SIM_CHECK_H
#define TESTS_SIM_CHECK_H

#include "tests/sim/sim.h"

/* When the world performed a request. deeds: NULL when it was not on a daemon's present lock connection. */
void check_claim(struct sim *sim, const struct memory_performed *what, struct queue_id id);
/* A claim was lost. */
void check_claim_lost(struct sim *sim, struct truth_slot *slot, int daemon, struct queue_id id);
/* The daemon's present lock connection looked at a queue of a slot. */
void check_look(struct sim *sim, const struct truth_deeds *deeds, struct queue_id id);
void check_drop(struct sim *sim, const struct truth_deeds *deeds, int daemon, struct queue_id id);
void check_admin_claim(struct sim *sim, const struct memory_performed *what, struct queue_id id);
void check_admin_work(struct sim *sim, const struct memory_performed *what, struct queue_id id);
/* lock: which is entered or taken out; NULL: none is. */
void check_directory(
    struct sim *sim, int daemon, const struct memory_performed *what, const char *lock);
/* When the last of it was deleted. */
void check_gone(struct sim *sim, int name, int daemon);
/* When its slots or its entry have changed. */
void check_listed(struct sim *sim, int name);
void check_contiguous(struct sim *sim, int name);
void check_whole(struct sim *sim, struct queue_id id, int daemon);

/* When a daemon answered; ask: what was asked, NULL when nothing was. */
void check_answer(struct sim *sim, struct sim_daemon *daemon, const struct ask *ask,
    const struct lock_answer *answer);
void check_admin(struct sim *sim, const struct sim_daemon *daemon, const struct ask *ask,
    const struct lock_answer *answer);
/* Whether there was a moment since then at which there was none; at which there was one; an alarm. */
bool check_was_no_lock(const struct sim *sim, int name, uint64_t since);
bool check_was_there(const struct sim *sim, int name, uint64_t since);
bool check_was_alarm(const struct sim *sim, uint64_t since);
/* When a daemon told a peer something; and that its acquire waits. */
void check_peer(struct sim *sim, const struct sim_daemon *daemon, uint64_t peer);
void check_waiting(struct sim *sim, const struct ask *ask);
/* The same of an administrator, for holders. */
void check_holder_wait(struct sim *sim, const struct ask *ask);
/* When a daemon told a peer about a lock; belief: NULL when it holds no such lock. */
void check_notice(struct sim *sim, struct sim_daemon *daemon, const struct belief *belief,
    const struct lock_notice *notice);

/* The daemon said until when a lock is safe; and told a peer, because it asked to hear of it. */
void check_safe_until(struct sim *sim, struct sim_daemon *daemon, int64_t safe_until);
void check_lease_notice(struct sim *sim, struct sim_daemon *daemon, struct sim_peer *peer,
    const struct lock_notice *notice);
/* Whether the daemon may say that a lock is lost although B is still ours. */
bool check_lease_is_over(const struct sim *sim, const struct sim_daemon *daemon);
/* Always: a lock and its lease, and that its B is looked at. */
void check_lease(struct sim *sim, struct belief *belief);
/* Whether a B may have been freed while its peer believes in it: what docs/SAFETY.md excepts. */
bool check_is_excepted(const struct sim *sim, const struct belief *belief);

/*
 * When a daemon sends a claim, or a hint; and hears one of which it makes no use, and stays in the line.
 * slot 0: of the true mutex.
 */
void check_claim_sent(struct sim *sim, const struct sim_daemon *daemon, struct queue_id id);
void check_hint_sent(struct sim *sim, const struct sim_daemon *daemon, int name, int slot);
void check_hint_ignored(struct sim *sim, const struct sim_daemon *daemon, int name);
/* A slot was granted that its daemon had already: it was handed on. */
void check_handed_on(struct sim *sim, int daemon, int name, const struct lock_answer *answer);
/* Whether whoever is told now that he has a slot has it from somebody else here. */
bool check_has_passed(const struct sim *sim, int daemon, int name, int slot);
/* Nobody who stood before it was passed over; of what takes a slot. */
void check_turn(struct sim *sim, const struct sim_daemon *daemon, const struct ask *ask, int slot);
/* Somebody was told that he holds a slot: with it his user has no more channels than it may. */
void check_charged(struct sim *sim, const struct sim_daemon *daemon, const struct belief *belief);
/* Always: whether there are channels. And since when there is one for the ask; INT64_MAX: there is none. */
void check_channels(struct sim *sim);
int64_t check_channel_since(const struct sim *sim, const struct ask *ask);
/* Always: nothing stays free while somebody waits who could have it; what was passed on has somebody. */
void check_waits(struct sim *sim);
/* So long all was as it is, and nothing happened: so many messages have been sent since `before`. */
void check_idle(struct sim *sim, const uint64_t *before, int64_t time);
/* Something happens that makes daemons work. */
void check_is_caused(struct sim *sim);
/* Always: what a daemon asks of the broker has a cause. A flush of probes is one method. */
void check_method(struct sim *sim, int daemon);
/* Who waits and who holds here, as its rows say. */
void check_rows(struct sim *sim, const struct sim_daemon *daemon);

/* After every step. */
void check_step(struct sim *sim);
/* When a daemon is to be ended after an orderly stop. */
void check_stopped(struct sim *sim, const struct sim_daemon *daemon);
/* All has been still for a while. */
void check_healed(struct sim *sim);
/* Whether there is nothing about it for fsck to find. */
bool check_is_clean(const struct sim *sim, int name);
/* All is still, and it was repaired. */
void check_repaired(struct sim *sim, int name);
/* All is still: the watches are those of what is held. */
void check_watches(struct sim *sim);
/* All is still, and every lock that is believed to be held was just verified. */
void check_verified(struct sim *sim);
/* All is still, and nobody holds or wants anything. */
void check_quiet(struct sim *sim);

/* number: of the invariant; 0: none of the numbered ones. */
void check_fail(struct sim *sim, unsigned number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
