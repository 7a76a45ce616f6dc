#include "daemon/lock/core/probe.h"

#include <stdlib.h>

#include "daemon/base/mem.h"

void
probe_add(struct probe *probe, struct queue_name queue)
{
	if (probe->count == probe->room) {
		probe->room = probe->room == 0 ? 32 : 2 * probe->room;
		probe->queues = mem_grow(probe->queues, probe->room, sizeof(*probe->queues));
	}
	probe->queues[probe->count++] = queue;
}

void
probe_send(struct lock_engine *engine, struct probe *probe, probe_done_fn *done, uint64_t id)
{
	const char **texts = mem_alloc(probe->count * sizeof(*texts));

	for (size_t i = 0; i < probe->count; i++)
		texts[i] = probe->queues[i].text;
	broker_probe(
	    engine->broker, texts, probe->count, (struct broker_probe_done){done, engine, id});
	free(texts);
	free(probe->queues);
}

void
probe_one(struct lock_engine *engine, struct queue_name queue, probe_done_fn *done, uint64_t id)
{
	const char *text = queue.text;

	broker_probe(engine->broker, &text, 1, (struct broker_probe_done){done, engine, id});
}
