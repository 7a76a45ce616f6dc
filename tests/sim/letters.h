/*
 * What daemons ask each other: letters with texts by which whoever hears one sees whether it is whole, and
 * whether it is meant for him.
 */
#ifndef TESTS_SIM_LETTERS_H
#define TESTS_SIM_LETTERS_H

#include "tests/sim/sim.h"

/* Its broker was made: it is ready to be asked, where the schedule has letters. */
void letters_start(struct sim_daemon *daemon);
/* Somebody asks all others. */
void letters_step(struct sim *sim);
/* The same of each, and that each answers each once: when all is well. */
void letters_meet(struct sim *sim);
/* What a daemon's broker says. */
void letters_asked(struct sim_daemon *daemon, const struct broker_letter *letter);
void letters_replied(struct sim_daemon *daemon, const struct broker_letter *letter);

#endif
