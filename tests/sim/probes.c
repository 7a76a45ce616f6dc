#include "tests/sim/probes.h"

#include <stdlib.h>

#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "tests/sim/queues.h"

/* A probe that is not answered yet. */
struct probes_asked {
	struct sim_daemon *daemon;
	struct broker_probe_done done; /* the engine's */
	struct queue_id *queues;       /* owned */
	uint64_t began;                /* moment */
	TAILQ_ENTRY(probes_asked) entry;
};

/* The wait with that number; the oldest gives way to a new one. */
static struct seen_wait *
wait_of(struct sim_daemon *daemon, uint64_t id, int name)
{
	struct seen_wait *wait = NULL;

	for (int i = 0; i < WAITS_SEEN; i++) {
		if (daemon->waits[i].id == id)
			return &daemon->waits[i];
		if (wait == NULL || daemon->waits[i].id < wait->id)
			wait = &daemon->waits[i];
	}
	*wait = (struct seen_wait){.id = id, .name = name, .began = daemon->sim->truth.moment};
	return wait;
}

static void
see_slot(struct seen_slot *slot, const struct probes_asked *asked, enum broker_answer answer)
{
	if (answer == BROKER_ABSENT)
		*slot = (struct seen_slot){.last = asked->began, .before = slot->last};
	else if (answer == BROKER_OK)
		*slot = (struct seen_slot){0};
}

/* Number 0: of slots that are awaited, of any names. */
static void
on_probed(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	struct probes_asked *asked = ctx;
	struct sim_daemon *daemon = asked->daemon;
	struct broker_probe_done done = asked->done;
	struct seen_wait *wait = id == 0 ? NULL : wait_of(daemon, id, asked->queues[0].name);

	for (size_t i = 0; id == 0 && i < seen->count; i++)
		see_slot(&daemon->awaited[asked->queues[i].name][asked->queues[i].slot], asked,
		    seen->answers[i]);
	for (size_t i = 0; id != 0 && i < seen->count; i++) {
		unsigned *absent = &wait->absent[asked->queues[i].slot];

		if (seen->answers[i] == BROKER_ABSENT)
			++*absent;
		else if (seen->answers[i] == BROKER_OK && *absent < 2)
			*absent = 0;
	}
	TAILQ_REMOVE(&daemon->asked, asked, entry);
	free(asked->queues);
	free(asked);
	done.fn(done.ctx, done.id, seen);
}

struct broker_probe_done
probes_ask(struct sim_daemon *daemon, const struct broker_question *questions, size_t count,
    struct broker_probe_done done)
{
	struct probes_asked *asked;

	if (queue_find(questions[0].queue).part != QUEUE_B ||
	    queue_find(questions[0].queue).slot == 0)
		return done;
	asked = mem_alloc(sizeof(*asked));
	asked->daemon = daemon;
	asked->done = done;
	asked->queues = mem_alloc(count * sizeof(*asked->queues));
	for (size_t i = 0; i < count; i++)
		asked->queues[i] = queue_find(questions[i].queue);
	asked->began = daemon->sim->truth.moment;
	if (done.id != 0)
		wait_of(daemon, done.id, asked->queues[0].name);
	TAILQ_INSERT_TAIL(&daemon->asked, asked, entry);
	return (struct broker_probe_done){on_probed, asked, done.id};
}

void
probes_init(struct sim_daemon *daemon)
{
	TAILQ_INIT(&daemon->asked);
}

void
probes_done(struct sim_daemon *daemon)
{
	struct probes_asked *asked;

	while ((asked = TAILQ_FIRST(&daemon->asked)) != NULL) {
		TAILQ_REMOVE(&daemon->asked, asked, entry);
		free(asked->queues);
		free(asked);
	}
}

bool
probes_saw_gone(const struct sim_daemon *daemon, int name, const bool *wanted, uint64_t since)
{
	for (int i = 0; i < WAITS_SEEN; i++) {
		const struct seen_wait *wait = &daemon->waits[i];
		bool all = wait->id != 0 && wait->name == name && wait->began >= since;

		for (int slot = 1; all && slot <= SLOTS_KNOWN; slot++)
			all = !wanted[slot] || wait->absent[slot] >= 2;
		if (all)
			return true;
	}
	return false;
}

bool
probes_saw_free(const struct sim_daemon *daemon, int name, int slot, uint64_t since)
{
	const struct seen_slot *seen = &daemon->awaited[name][slot];

	return seen->before != 0 && seen->before >= since;
}
