/*
 * A batch of queues to probe (broker.h). The caller adds them one by one. One flush on the
 * auxiliary connection sends all probes.
 */
#ifndef LOCK_PROBE_H
#define LOCK_PROBE_H

#include "daemon/lock/core/engine.h"

/* Zeroed: empty. */
struct probe {
	char *questions;     /* owned; of each its kind, a byte, and its queue's name with NUL */
	size_t length, room; /* of `questions`, in bytes */
	size_t count;
};

typedef void probe_done_fn(void *ctx, uint64_t id, const struct broker_seen *seen);

void probe_add(struct probe *probe, struct queue_name queue, enum broker_question_kind kind);
/*
 * Sends the probes and frees the list. `done` is called once, later, with the engine as `ctx`, with
 * `id`, and with one answer for each queue, in order.
 */
void probe_send(struct lock_engine *engine, struct probe *probe, probe_done_fn *done, uint64_t id);
/* The same, for one queue. */
void probe_one(struct lock_engine *engine, struct queue_name queue, enum broker_question_kind kind,
    probe_done_fn *done, uint64_t id);

#endif
