#include "daemon/lock/core/probe.h"

#include <stdlib.h>

#include "daemon/base/mem.h"

void
probe_add(struct probe *probe, struct queue_name queue, enum broker_question_kind kind)
{
	if (probe->count == probe->room) {
		probe->room = probe->room == 0 ? 32 : 2 * probe->room;
		probe->queues = mem_grow(probe->queues, probe->room, sizeof(*probe->queues));
		probe->kinds = mem_grow(probe->kinds, probe->room, sizeof(*probe->kinds));
	}
	probe->kinds[probe->count] = kind;
	probe->queues[probe->count++] = queue;
}

void
probe_send(struct lock_engine *engine, struct probe *probe, probe_done_fn *done, uint64_t id)
{
	struct broker_question *questions = mem_alloc(probe->count * sizeof(*questions));

	for (size_t i = 0; i < probe->count; i++)
		questions[i] = (struct broker_question){probe->queues[i].text, probe->kinds[i]};
	broker_probe(
	    engine->broker, questions, probe->count, (struct broker_probe_done){done, engine, id});
	free(questions);
	free(probe->kinds);
	free(probe->queues);
}

void
probe_one(struct lock_engine *engine, struct queue_name queue, enum broker_question_kind kind,
    probe_done_fn *done, uint64_t id)
{
	const struct broker_question question = {queue.text, kind};

	broker_probe(engine->broker, &question, 1, (struct broker_probe_done){done, engine, id});
}
