/*
 * Crowds, when all is still: those who wait cost nothing while nothing happens, and everybody has his turn.
 */
#ifndef TESTS_SIM_CROWD_H
#define TESTS_SIM_CROWD_H

#include "tests/sim/sim.h"

/* Somebody waits, and nobody lets go. */
void crowd_waits(struct sim *sim);
/* Nobody holds or waits: two at each daemon want one lock again and again, and let go at once. */
void crowd_takes_turns(struct sim *sim);
/* The same at one daemon alone: what it hands on is let go now and then, for clients that poll. */
void crowd_is_alone(struct sim *sim);
/* Somebody begins to wait just as somebody else lets go. */
void crowd_meets(struct sim *sim);
/* Somebody lets go with somebody behind him, just as the lock connection was not heard for more than a second. */
void crowd_is_unheard(struct sim *sim);
/* One daemon has no channel left: what it is told of goes to another one. And then it has one. */
void crowd_starves(struct sim *sim);
/* Who is told of what is free has just left the line. */
void crowd_wavers(struct sim *sim);
/* One's claim is answered when the lease is suspect. */
void crowd_is_suspect(struct sim *sim);
/* One's claim is never answered, and its daemon holds something else: everybody has his turn. */
void crowd_is_stuck(struct sim *sim);

#endif
