/*
 * What others do to the queues behind everybody's back: foreign clients, administrators of another make,
 * and the server's bug.
 */
#ifndef TESTS_SIM_MEDDLE_H
#define TESTS_SIM_MEDDLE_H

#include "tests/sim/sim.h"

void meddle_init(struct sim *sim);
/* Foreign clients leave. */
void meddle_end(struct sim *sim);
/* One comes, or leaves. */
void meddle_foreign(struct sim *sim);
/* A B, or an A, is deleted; the A may come back. */
void meddle_lose_b(struct sim *sim);
void meddle_lose_a(struct sim *sim);
/* A B that was declared just now is going to be. */
void meddle_by_name(struct sim *sim);
/* A wait queue is deleted, or somebody sends a hint that is none. */
void meddle_lines(struct sim *sim);

#endif
