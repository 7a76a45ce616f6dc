#include "tests/sim/tap.h"

#include <stdlib.h>

#include "daemon/base/mem.h"
#include "tests/sim/check.h"

/* The broker's own, and the same with our ears. */
static const struct broker_ops *real;
static struct broker_ops tapped;
/* What the engines have to say to the news of lines. */
static void (*heard)(void *ctx, const struct broker_line_event *event);
/* Whose daemons these are: one schedule runs at a time. */
static struct sim *running;

static struct sim_daemon *
daemon_of(const struct broker *broker)
{
	struct sim_daemon *daemon = running->daemons;

	while (daemon->broker != broker)
		daemon++;
	return daemon;
}

/* ---- what it says ---- */

static void
claim(struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	struct queue_id id = queue_find(queue);
	struct sim_daemon *daemon = daemon_of(broker);

	if (id.part == QUEUE_B) {
		running->waits.names[id.name].slots[id.slot].seen[daemon->number].claim_sent =
		    ++running->truth.moment;
		check_claim_sent(running, daemon, id);
		running->stuck = running->stuck_claim;
		running->stuck_claim = 0;
	}
	real->claim(broker, lane, queue, done);
}

/* The slot of which a hint speaks; of a true mutex whatever it says; -1: of none, or an unknown one. */
static int
hinted_slot(struct queue_id line, int slot)
{
	if (line.slot == 1)
		return 0;
	return slot >= 1 && slot <= SLOTS_KNOWN ? slot : -1;
}

static void
line_wake(struct broker *broker, const char *queue, int slot)
{
	struct queue_id line = queue_find(queue);
	struct sim_daemon *daemon = daemon_of(broker);
	struct sim *sim = running;

	sim->waits.published[daemon->number]++;
	if (daemon->hearing)
		sim->waits.names[line.name].passed_on_at[daemon->number] = sim->now;
	sim->truth.moment++;
	if (hinted_slot(line, slot) >= 0)
		check_hint_sent(sim, daemon, line.name, hinted_slot(line, slot));
	if (sim_has(sim, TROUBLE_LINES) && dice_percent(&sim->dice, 20)) {
		NOTE(sim, .text = "a hint of {d} to {q}, slot {n}, is lost",
		    .daemon = daemon->number, .queue = queue_text(line), .n = slot);
		return;
	}
	NOTE(sim, .text = "{d} has a hint for {q}, slot {n}", .daemon = daemon->number,
	    .queue = queue_text(line), .n = slot);
	real->line_wake(broker, queue, slot);
}

static unsigned *
places_of(const struct broker *broker, const char *queue)
{
	struct queue_id line = queue_find(queue);

	return &running->waits.names[line.name].places[daemon_of(broker)->number][line.slot == 1];
}

/* Of priorities -1 to 1. */
static void
line_join(struct broker *broker, const char *queue, int priority, unsigned credit)
{
	*places_of(broker, queue) |= 1U << (priority + 1);
	real->line_join(broker, queue, priority, credit);
}

static void
line_leave(struct broker *broker, const char *queue, int priority)
{
	*places_of(broker, queue) &= ~(1U << (priority + 1));
	real->line_leave(broker, queue, priority);
}

/* A count that is not answered yet. */
struct tap_count {
	struct sim_daemon *daemon;
	struct broker_count_done done; /* the engine's */
	TAILQ_ENTRY(tap_count) entry;
};

static void
on_counted(void *ctx, uint64_t id, int consumers)
{
	struct tap_count *count = ctx;
	struct sim_daemon *daemon = count->daemon;
	struct broker_count_done done = count->done;

	(void)id;
	TAILQ_REMOVE(&daemon->counts, count, entry);
	free(count);
	daemon->counting = true;
	done.fn(done.ctx, done.id, consumers);
	daemon->counting = false;
}

static void
line_count(struct broker *broker, const char *queue, struct broker_count_done done)
{
	struct tap_count *count = mem_alloc(sizeof(*count));

	count->daemon = daemon_of(broker);
	count->done = done;
	TAILQ_INSERT_TAIL(&count->daemon->counts, count, entry);
	real->line_count(broker, queue, (struct broker_count_done){on_counted, count, done.id});
}

static void
probe(struct broker *broker, const char *const *queues, size_t count, struct broker_probe_done done)
{
	running->waits.published[daemon_of(broker)->number] += count;
	check_method(running, daemon_of(broker)->number);
	NOTE(running, .text = "{d} probes {n} queues", .daemon = daemon_of(broker)->number,
	    .n = (int64_t)count);
	real->probe(broker, queues, count, done);
}

void
tap_broker(struct sim_daemon *daemon)
{
	struct broker_base *base = (struct broker_base *)daemon->broker;

	running = daemon->sim;
	real = base->ops;
	tapped = *real;
	tapped.claim = claim;
	tapped.line_join = line_join;
	tapped.line_leave = line_leave;
	tapped.line_wake = line_wake;
	tapped.line_count = line_count;
	tapped.probe = probe;
	base->ops = &tapped;
	TAILQ_INIT(&daemon->counts);
}

void
tap_done(struct sim_daemon *daemon)
{
	struct tap_count *count;

	while ((count = TAILQ_FIRST(&daemon->counts)) != NULL) {
		TAILQ_REMOVE(&daemon->counts, count, entry);
		free(count);
	}
}

/* ---- what it hears ---- */

static const char *
news_word(enum broker_line_news news)
{
	switch (news) {
	case BROKER_LINE_JOINED:
		return "it has joined";
	case BROKER_LINE_HINT:
		return "a hint";
	case BROKER_LINE_LEFT:
		return "it is out";
	case BROKER_LINE_NOBODY:
		return "nobody waits";
	}
	return "?";
}

/* ctx: the engine. */
static void
on_line(void *ctx, const struct broker_line_event *event)
{
	struct sim *sim = running;
	struct sim_daemon *daemon = sim->daemons;
	struct queue_id line = queue_find(event->queue);
	int slot = hinted_slot(line, event->slot);
	uint64_t moment;

	while (daemon->engine != ctx)
		daemon++;
	sim->truth.moment++;
	NOTE(sim, .text = "{d} hears of {q}, priority {m}: {w}, slot {n}", .daemon = daemon->number,
	    .queue = queue_text(line), .m = event->priority, .word = news_word(event->news),
	    .n = event->slot);
	if (slot >= 0 && (event->news == BROKER_LINE_HINT || event->news == BROKER_LINE_NOBODY))
		sim->waits.names[line.name].slots[slot].seen[daemon->number].hinted_at = 0;
	moment = sim->truth.moment;
	daemon->hearing = true;
	heard(ctx, event);
	daemon->hearing = false;
	/* Nothing was said. */
	if (event->news == BROKER_LINE_HINT && moment == sim->truth.moment &&
	    *places_of(daemon->broker, event->queue) != 0)
		check_hint_ignored(sim, daemon, line.name);
}

void
tap_engine(struct sim_daemon *daemon)
{
	struct broker_base *base = (struct broker_base *)daemon->broker;

	heard = base->events.line;
	base->events.line = on_line;
}
