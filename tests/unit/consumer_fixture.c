#include "tests/unit/consumer_fixture.h"

#include <check.h>
#include <stdio.h>

struct lock_settings consumer_settings;

void
consumer_make(int from, int to)
{
	char queue[16];

	for (int slot = from; slot <= to; slot++) {
		snprintf(queue, sizeof(queue), "db-%d-B", slot);
		ck_assert(memory_world_put_holder(world->memory, queue));
		snprintf(queue, sizeof(queue), "db-%d-A", slot);
		ck_assert(memory_world_put(world->memory, queue, false));
	}
}

void
consumer_setup(void)
{
	world_begin();
	consumer_settings = world_settings;
	consumer_settings.margin = MARGIN;
	lock_engine_set(engine(0), &consumer_settings);
}

bool
is_consumed(const char *queue)
{
	return memory_world_holder(world->memory, queue, NULL) != 0;
}

int
consumer_notices(uint64_t peer, enum lock_notice_kind kind)
{
	return world_notices(world, 0, peer, kind);
}

const struct said *
consumer_take(uint64_t peer, int64_t timeout)
{
	return acquire(0, peer, 1, "db", timeout);
}

const struct said *
consumer_take_mutex(int daemon, uint64_t peer, int64_t timeout)
{
	struct lock_acquire wanted = {
	    .name = "mx", .kind = LOCK_KIND_MUTEX, .timeout = timeout, .uid = 1000};

	lock_acquire(engine(daemon), peer, 1, &wanted);
	return world_await(world, daemon, peer, 1);
}
