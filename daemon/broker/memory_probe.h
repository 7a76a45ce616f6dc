/*
 * A probe on its way through the in-memory broker: a batch of mandatory publishes with confirms. Not
 * atomic (the second half of the queues is looked at later than the first), held back by an alarm,
 * over at its deadline at the latest.
 */
#ifndef BROKER_MEMORY_PROBE_H
#define BROKER_MEMORY_PROBE_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/broker/broker.h"
#include "daemon/broker/memory_world.h"

struct memory_probe;

/*
 * Its deadline runs from now on. over: called from a timer when the answers are there or the deadline
 * has passed; it tells, or frees. timers: the client's, borrowed.
 */
struct memory_probe *memory_probe_new(struct memory_world *world, struct timers *timers,
    const char *const *queues, size_t count, struct broker_probe_done done, void (*over)(void *ctx),
    void *ctx);
void memory_probe_free(struct memory_probe *probe); /* NULL is fine */
/* On a link that is up; asks the nature. */
void memory_probe_send(struct memory_probe *probe);
/* Nothing more is performed or answered: only its deadline is left. */
void memory_probe_freeze(struct memory_probe *probe);
/* The alarm is over: what it held back is read now. */
void memory_probe_unblocked(struct memory_probe *probe);
/* Answers, UNKNOWN for each queue unless all is known and was sent back, and frees. */
void memory_probe_tell(struct memory_probe *probe);

#endif
