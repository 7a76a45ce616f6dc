#include "tests/sim/probes.h"

#include <stdlib.h>

#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "tests/sim/queues.h"

struct asked_slot {
	int name, slot;
	bool shared; /* two waits of the daemon ask about it, each one for itself */
};

/* A probe that is not answered yet. */
struct probes_asked {
	struct sim_daemon *daemon;
	struct broker_probe_done done; /* the engine's */
	struct asked_slot *slots;      /* owned */
	uint64_t began;                /* moment */
	TAILQ_ENTRY(probes_asked) entry;
};

/*
 * The awaits of a slot share its questions, but each wait for removed slots asks for itself. If
 * there are several, the others do not hear that the slot is held.
 */
static bool
is_shared(const struct sim_daemon *daemon, int name, int slot)
{
	const struct book *book = &daemon->sim->book;
	bool awaited = false;
	int waits = 0;

	for (size_t i = 0; i < book->ask_count; i++) {
		const struct ask *ask = &book->asks[i];

		if (ask->daemon != daemon->number || ask->name != name)
			continue;
		awaited |= ask->what == ASK_AWAIT && ask->slot == slot;
		waits += ask->order.wait != 0;
	}
	return waits + awaited > 1;
}

static void
see_slot(struct seen_slot *slot, const struct probes_asked *asked, enum broker_answer answer,
    bool shared)
{
	if (asked->began < slot->last)
		return; /* its batch was answered after a later one */
	if (answer == BROKER_ABSENT && slot->last != 0)
		slot->twice = slot->last;
	if (answer == BROKER_ABSENT)
		*slot = (struct seen_slot){asked->began, slot->last, slot->twice};
	else if (answer == BROKER_OK && !shared)
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
		see_slot(&daemon->awaited[asked->slots[i].name][asked->slots[i].slot], asked,
		    seen->answers[i], asked->slots[i].shared);
	TAILQ_REMOVE(&daemon->asked, asked, entry);
	free(asked->slots);
	free(asked);
	done.fn(done.ctx, done.id, seen);
}

struct broker_probe_done
probes_ask(struct sim_daemon *daemon, const struct broker_question *questions, size_t count,
    struct broker_probe_done done)
{
	struct probes_asked *asked;
	struct queue_id first = queue_find(questions[0].queue);

	/* The probes of waits for holders have no number. They can begin with a gate. */
	if (done.id != 0 ||
	    (first.part != QUEUE_GATE && (first.part != QUEUE_B || first.slot == 0)))
		return done;
	asked = mem_alloc(sizeof(*asked));
	asked->daemon = daemon;
	asked->done = done;
	asked->slots = mem_alloc(count * sizeof(*asked->slots));
	for (size_t i = 0; i < count; i++) {
		struct queue_id queue = queue_find(questions[i].queue);

		asked->slots[i] = (struct asked_slot){
		    queue.name, queue.slot, is_shared(daemon, queue.name, queue.slot)};
	}
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
		free(asked->slots);
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
