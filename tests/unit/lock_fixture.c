#include "tests/unit/lock_fixture.h"

#include <check.h>

struct lock_world *world;

void
world_begin(void)
{
	world = world_new();
}

void
world_begin_with_db(void)
{
	world_begin();
	world_make(world, "db", 1);
}

void
world_end(void)
{
	world_free(world);
}

struct lock_engine *
engine(int daemon)
{
	return world->daemon[daemon].engine;
}

const struct said *
acquire(int daemon, uint64_t peer, uint64_t request, const char *name, int64_t timeout)
{
	world_acquire(world, daemon, peer, request, name, timeout);
	return world_await(world, daemon, peer, request);
}

void
wait_as(int daemon, uint64_t peer, uint64_t request, enum lock_kind kind, int priority)
{
	struct lock_acquire wanted = {
	    .name = "db", .kind = kind, .timeout = DURATION_FOREVER, .priority = priority};

	lock_acquire(engine(daemon), peer, request, &wanted);
}

void
wait_for(int daemon, uint64_t peer, uint64_t request)
{
	wait_as(daemon, peer, request, LOCK_KIND_SEMAPHORE, 0);
}

bool
is_waiting(int daemon, uint64_t peer, uint64_t request)
{
	return world_answer(world, daemon, peer, request) == NULL;
}

const struct said *
now(int daemon, uint64_t peer, uint64_t request)
{
	const struct said *answer = world_answer(world, daemon, peer, request);

	ck_assert_ptr_nonnull(answer);
	return answer;
}

void
release(int daemon, uint64_t peer, uint64_t request, uint64_t lock)
{
	lock_release(engine(daemon), peer, request, lock);
	ck_assert_int_eq(world_await(world, daemon, peer, request)->reason, REASON_NONE);
}
