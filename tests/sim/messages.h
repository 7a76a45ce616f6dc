/*
 * What daemons ask each other: messages with texts by which whoever hears one sees whether it is whole, and
 * whether it is meant for him.
 */
#ifndef TESTS_SIM_MESSAGES_H
#define TESTS_SIM_MESSAGES_H

#include "tests/sim/sim.h"

/* Its broker was made: it is ready to be asked, where the schedule has messages. */
void messages_start(struct sim_daemon *daemon);
/* Somebody asks all others. */
void messages_step(struct sim *sim);
/* The same of each, and that each answers each once: when all is well. */
void messages_meet(struct sim *sim);
/* What a daemon's broker says. */
void messages_asked(struct sim_daemon *daemon, const struct broker_message *message);
void messages_replied(struct sim_daemon *daemon, const struct broker_message *message);

#endif
