#include "daemon/broker/memory_probe.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/mem.h"

enum probe_state {
	PROBE_WAITING, /* the link is not up */
	PROBE_SENT,
	PROBE_PERFORMED, /* every queue was looked at */
	PROBE_ANSWERED   /* and the confirms have come back */
};

struct memory_probe {
	struct memory_world *world; /* borrowed */
	struct timers *client;      /* borrowed */
	enum probe_state state;
	struct broker_probe_done done;
	void (*over)(void *ctx);
	void *ctx; /* borrowed */
	size_t count;
	size_t performed;            /* queues that were looked at */
	char **queues;               /* owned, each too */
	enum broker_answer *answers; /* owned */
	bool silent;                 /* no confirm will come */
	struct timer first_half, second_half, answer, deadline;
};

static void
probe_set_state(struct memory_probe *probe, enum probe_state state)
{
	assert(state == probe->state + 1);
	probe->state = state;
}

static struct timers *
timers_of(const struct memory_probe *probe)
{
	return memory_world_timers(probe->world);
}

static int64_t
now_of(const struct memory_probe *probe)
{
	return clock_now(timers_clock(timers_of(probe)));
}

/* A publish does not mind whose queue it reaches: exclusive ones are routed to as well. */
static void
perform(struct memory_probe *probe, size_t until)
{
	for (; probe->performed < until; probe->performed++) {
		enum broker_answer *answer = &probe->answers[probe->performed];

		if (memory_world_nacks(probe->world))
			*answer = BROKER_UNKNOWN;
		else if (memory_world_has(probe->world, probe->queues[probe->performed], NULL))
			*answer = BROKER_OK;
		else
			*answer = BROKER_ABSENT;
	}
}

static void
on_first_half(void *ctx, uint64_t id)
{
	struct memory_probe *probe = ctx;

	(void)id;
	if (!memory_world_blocked(probe->world))
		perform(probe, probe->count / 2);
}

static void
on_second_half(void *ctx, uint64_t id)
{
	struct memory_probe *probe = ctx;

	(void)id;
	if (memory_world_blocked(probe->world))
		return;
	perform(probe, probe->count);
	probe_set_state(probe, PROBE_PERFORMED);
}

static void
on_answer(void *ctx, uint64_t id)
{
	struct memory_probe *probe = ctx;

	(void)id;
	if (timer_is_set(&probe->second_half)) {
		/* The client's timers ran before the world's. */
		timers_set(probe->client, &probe->answer, probe->second_half.when);
		return;
	}
	if (probe->state != PROBE_PERFORMED)
		return; /* held back by an alarm */
	probe_set_state(probe, PROBE_ANSWERED);
	probe->over(probe->ctx);
}

static void
on_deadline(void *ctx, uint64_t id)
{
	struct memory_probe *probe = ctx;

	(void)id;
	probe->over(probe->ctx);
}

struct memory_probe *
memory_probe_new(struct memory_world *world, struct timers *timers, const char *const *queues,
    size_t count, struct broker_probe_done done, void (*over)(void *ctx), void *ctx)
{
	struct memory_probe *probe = mem_alloc(sizeof(*probe));

	probe->world = world;
	probe->client = timers;
	probe->done = done;
	probe->over = over;
	probe->ctx = ctx;
	probe->count = count;
	probe->queues = mem_grow(NULL, count, sizeof(*probe->queues));
	probe->answers = mem_grow(NULL, count, sizeof(*probe->answers));
	for (size_t i = 0; i < count; i++)
		probe->queues[i] = mem_strdup(queues[i]);
	timer_init(&probe->first_half, on_first_half, probe, 0);
	timer_init(&probe->second_half, on_second_half, probe, 0);
	timer_init(&probe->answer, on_answer, probe, 0);
	timer_init(&probe->deadline, on_deadline, probe, 0);
	timers_set(probe->client, &probe->deadline, now_of(probe) + MEMORY_PROBE_TIMEOUT);
	return probe;
}

void
memory_probe_free(struct memory_probe *probe)
{
	if (probe == NULL)
		return;
	timers_cancel(timers_of(probe), &probe->first_half);
	timers_cancel(timers_of(probe), &probe->second_half);
	timers_cancel(probe->client, &probe->answer);
	timers_cancel(probe->client, &probe->deadline);
	for (size_t i = 0; i < probe->count; i++)
		free(probe->queues[i]);
	free(probe->queues);
	free(probe->answers);
	free(probe);
}

void
memory_probe_send(struct memory_probe *probe)
{
	int64_t delay = memory_world_delay(probe->world);
	int64_t now = now_of(probe);

	assert(delay >= 0);
	probe->silent = memory_world_silent(probe->world);
	probe_set_state(probe, PROBE_SENT);
	timers_set(timers_of(probe), &probe->first_half, now + delay / 4);
	timers_set(timers_of(probe), &probe->second_half, now + delay / 2);
	if (!probe->silent)
		timers_set(probe->client, &probe->answer, now + delay);
}

void
memory_probe_freeze(struct memory_probe *probe)
{
	timers_cancel(timers_of(probe), &probe->first_half);
	timers_cancel(timers_of(probe), &probe->second_half);
	timers_cancel(probe->client, &probe->answer);
}

void
memory_probe_unblocked(struct memory_probe *probe)
{
	int64_t now = now_of(probe);

	if (probe->state != PROBE_SENT || timer_is_set(&probe->second_half))
		return;
	timers_set(timers_of(probe), &probe->second_half, now);
	/* An answer still to come at its own time comes behind it anyway. */
	if (!probe->silent && !timer_is_set(&probe->answer))
		timers_set(probe->client, &probe->answer, now);
}

void
memory_probe_tell(struct memory_probe *probe)
{
	if (probe->state != PROBE_ANSWERED) {
		for (size_t i = 0; i < probe->count; i++)
			probe->answers[i] = BROKER_UNKNOWN;
	}
	probe->done.fn(probe->done.ctx, probe->done.id, probe->answers, probe->count);
	memory_probe_free(probe);
}
