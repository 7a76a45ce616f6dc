/*
 * Queues that are probed together (broker.h): listed one by one, then asked for in one flush on the auxiliary
 * connection.
 */
#ifndef LOCK_PROBE_H
#define LOCK_PROBE_H

#include "daemon/lock/core/engine.h"

/* Zeroed: none yet. */
struct probe {
	struct queue_name *queues; /* owned */
	size_t count, room;
};

typedef void probe_done_fn(void *ctx, uint64_t id, const enum broker_answer *answers, size_t count);

void probe_add(struct probe *probe, struct queue_name queue);
/* `done` is called once, later, with the engine and `id`: an answer a queue. The list is gone. */
void probe_send(struct lock_engine *engine, struct probe *probe, probe_done_fn *done, uint64_t id);
/* The same, of one queue. */
void probe_one(
    struct lock_engine *engine, struct queue_name queue, probe_done_fn *done, uint64_t id);

#endif
