/*
 * Queries between daemons. Their texts show a receiver whether a message is complete and meant for
 * it.
 */
#ifndef TESTS_SIM_MESSAGES_H
#define TESTS_SIM_MESSAGES_H

#include "tests/sim/sim.h"

/* Call it when the daemon's broker was made: it opens its inbox if the schedule has messages. */
void messages_start(struct sim_daemon *daemon);
/* One daemon asks all others. */
void messages_step(struct sim *sim);
/*
 * Each daemon asks all others, and each must answer each query once. For a world without troubles.
 */
void messages_meet(struct sim *sim);
/* Messages from a daemon's broker. */
void messages_asked(struct sim_daemon *daemon, const struct broker_message *message);
void messages_replied(struct sim_daemon *daemon, const struct broker_message *message);

#endif
