/*
 * Crowds at rest: waiters cost nothing while nothing happens, and every waiter gets its turn.
 */
#ifndef TESTS_SIM_CROWD_H
#define TESTS_SIM_CROWD_H

#include "tests/sim/sim.h"

/* There are waiters, and no holder releases. */
void crowd_waits(struct sim *sim);
/*
 * There is no holder and no waiter. Two clients of each daemon acquire and release one lock
 * repeatedly.
 */
void crowd_takes_turns(struct sim *sim);
/*
 * The same at one daemon alone. It must withhold the slot after some hand-offs, for clients that poll.
 */
void crowd_is_alone(struct sim *sim);
/* One client begins to wait while another one releases. */
void crowd_meets(struct sim *sim);
/* A newcomer gets a true mutex before a waiter that got the hint, and gives it back at once. */
void crowd_races(struct sim *sim);
/* A holder releases to a waiter after the lock connection was silent for more than a second. */
void crowd_is_unheard(struct sim *sim);
/*
 * Exclusive holder queues are deleted while clients hold and wait. Another daemon may take a durable
 * one in its place.
 */
void crowd_loses_holders(struct sim *sim);
/* One daemon has no channel left and forwards its hints to another daemon. Later it has one. */
void crowd_starves(struct sim *sim);
/*
 * There are few channels. Slots are handed off between users, and each user takes all channels that
 * it may have.
 */
void crowd_hands_over(struct sim *sim);
/* The waiter of a hint has just left the wait queue. */
void crowd_wavers(struct sim *sim);
/* One daemon is replaced while its clients hold and wait, and its holders release. */
void crowd_is_replaced(struct sim *sim);
/*
 * One daemon is replaced while channels are few. Its users hold some, and then ask for more than
 * they may have.
 */
void crowd_is_short(struct sim *sim);
/* One daemon is frozen for two seconds, and goes on itself. It has its hold and its waiter. */
void crowd_is_frozen(struct sim *sim);
/* A claim is answered while the lease is suspect. */
void crowd_is_suspect(struct sim *sim);
/* Clients of one daemon come one after another while an unlimited semaphore gets a limit. */
void crowd_is_limited(struct sim *sim);
/* A claim is never answered while its daemon has another hold. Every waiter gets its turn. */
void crowd_is_stuck(struct sim *sim);

#endif
