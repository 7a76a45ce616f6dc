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

/*
 * alone: the batch has no other question. Else it may be that of a wait for removed slots, and no
 * await hears that the slot is held.
 */
static void
see_slot(
    struct seen_slot *slot, const struct probes_asked *asked, enum broker_answer answer, bool alone)
{
	if (asked->began < slot->last)
		return; /* its batch was answered after a later one */
	if (answer == BROKER_ABSENT && slot->last != 0)
		slot->twice = slot->last;
	if (answer == BROKER_ABSENT)
		*slot = (struct seen_slot){asked->began, slot->last, slot->twice};
	else if (answer == BROKER_OK && alone)
		*slot = (struct seen_slot){.twice = slot->twice};
}

static void
on_probed(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	struct probes_asked *asked = ctx;
	struct sim_daemon *daemon = asked->daemon;
	struct broker_probe_done done = asked->done;

	(void)id;
	for (size_t i = 0; i < seen->count; i++)
		see_slot(&daemon->awaited[asked->queues[i].name][asked->queues[i].slot], asked,
		    seen->answers[i], seen->count == 1);
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

	/* The probes of waits for holders have no number. */
	if (done.id != 0 || queue_find(questions[0].queue).part != QUEUE_B ||
	    queue_find(questions[0].queue).slot == 0)
		return done;
	asked = mem_alloc(sizeof(*asked));
	asked->daemon = daemon;
	asked->done = done;
	asked->queues = mem_alloc(count * sizeof(*asked->queues));
	for (size_t i = 0; i < count; i++)
		asked->queues[i] = queue_find(questions[i].queue);
	asked->began = daemon->sim->truth.moment;
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
	for (int slot = 1; slot <= SLOTS_KNOWN; slot++) {
		if (wanted[slot] && daemon->awaited[name][slot].twice < since)
			return false;
	}
	return true;
}

bool
probes_saw_free(const struct sim_daemon *daemon, int name, int slot, uint64_t since)
{
	const struct seen_slot *seen = &daemon->awaited[name][slot];

	return seen->before != 0 && seen->before >= since;
}
