/*
 * Changes of the queues that no daemon makes: by foreign clients, by administrators with other
 * programs, and by the server's bug.
 */
#ifndef TESTS_SIM_MEDDLE_H
#define TESTS_SIM_MEDDLE_H

#include "tests/sim/sim.h"

void meddle_init(struct sim *sim);
/* All foreign clients leave. */
void meddle_end(struct sim *sim);
/* A foreign client comes or leaves. */
void meddle_foreign(struct sim *sim);
/* Makes the durable B of a slot that has none, or deletes one that nobody holds. */
void meddle_convert(struct sim *sim);
/* The server ends the consumer that holds some slot. */
void meddle_cancel_b(struct sim *sim);
/* Deletes a B, or deletes an A that may come back. */
void meddle_lose_b(struct sim *sim);
void meddle_lose_a(struct sim *sim);
/* Plans to delete, by its name, a B that was just declared. */
void meddle_by_name(struct sim *sim);
/* Deletes a wait queue, or sends an invalid hint. */
void meddle_wait_queues(struct sim *sim);

#endif
