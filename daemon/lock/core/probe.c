#include "daemon/lock/core/probe.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"

/* Of an empty list, in bytes: more than one question. */
#define FIRST_ROOM 1024

void
probe_add(struct probe *probe, struct queue_name queue, enum broker_question_kind kind)
{
	size_t size = strlen(queue.text) + 1;

	_Static_assert(FIRST_ROOM > sizeof(queue), "one question has room");
	if (probe->length + 1 + size > probe->room) {
		probe->room = 2 * probe->room + FIRST_ROOM;
		probe->questions = mem_grow(probe->questions, probe->room, 1);
	}
	probe->questions[probe->length] = (char)kind;
	memcpy(&probe->questions[probe->length + 1], queue.text, size);
	probe->length += 1 + size;
	probe->count++;
}

void
probe_send(struct lock_engine *engine, struct probe *probe, probe_done_fn *done, uint64_t id)
{
	struct broker_question *questions = mem_alloc(probe->count * sizeof(*questions));
	const char *next = probe->questions;

	for (size_t i = 0; i < probe->count; i++) {
		questions[i].kind = (unsigned char)*next++;
		questions[i].queue = next;
		next += strlen(next) + 1;
	}
	broker_probe(
	    engine->broker, questions, probe->count, (struct broker_probe_done){done, engine, id});
	free(questions);
	free(probe->questions);
}

void
probe_one(struct lock_engine *engine, struct queue_name queue, enum broker_question_kind kind,
    probe_done_fn *done, uint64_t id)
{
	const struct broker_question question = {queue.text, kind};

	broker_probe(engine->broker, &question, 1, (struct broker_probe_done){done, engine, id});
}
