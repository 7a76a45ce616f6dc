/*
 * Steps that several tests of slots by quorum take. T is 20 s, so the lease is 18 s.
 */
#ifndef TESTS_UNIT_QUORUM_FIXTURE_H
#define TESTS_UNIT_QUORUM_FIXTURE_H

#include <check.h>
#include <stdio.h>

#include "tests/unit/lock_fixture.h"

#define T (20 * SECOND)
#define LEASE (18 * SECOND)
/* For a step of a protocol that needs some answers. */
#define SOON (SECOND / 10)

static inline void
count_made(void *made, uint64_t id, const struct broker_reply *reply)
{
	(void)id;
	ck_assert_int_eq(reply->answer, BROKER_OK);
	++*(int *)made;
}

/* The semaphore db, with that many slots. So many are made at once. */
#define BATCH 50
static inline void
make_slots(int slots)
{
	const struct broker_beads wanted = {.epoch = 100, .grace = T};
	char queue[64];
	int made = 0;

	ck_assert(memory_world_put(world->memory, "db-G", false));
	for (int slot = 1; slot <= slots; slot++) {
		snprintf(queue, sizeof(queue), "lockbroker=q=db=%d", slot);
		broker_make_beads(world->daemon[0].broker, queue, &wanted,
		    (struct broker_done){count_made, &made, 0});
		if (slot % BATCH != 0 && slot != slots)
			continue;
		for (int i = 0; i < 100 && made < slot; i++)
			world_pass(world, SOON);
		ck_assert_int_eq(made, slot);
	}
}

static inline const struct said *
take(int daemon, uint64_t peer, int64_t timeout)
{
	return acquire(daemon, peer, 1, "db", timeout);
}

/* The connections of holds by quorum end. */
static inline void
cut(int daemon)
{
	broker_reset(world->daemon[daemon].broker, BROKER_QUORUM, "cut");
	broker_reset(world->daemon[daemon].broker, BROKER_QUORUM + 1, "cut");
	world_pass(world, SOON);
}

/* The same, and they do not come back before join(). */
static inline void
sever(int daemon)
{
	memory_broker_cut(world->daemon[daemon].broker, BROKER_QUORUM, 0, -1, "cut");
	memory_broker_cut(world->daemon[daemon].broker, BROKER_QUORUM + 1, 0, -1, "cut");
	world_pass(world, SOON);
}

static inline void
join(int daemon)
{
	memory_broker_restore(world->daemon[daemon].broker, BROKER_QUORUM);
	memory_broker_restore(world->daemon[daemon].broker, BROKER_QUORUM + 1);
}

/* All holds of the daemon are lost, and their clients perhaps work on. */
static inline void
abandon(int daemon)
{
	lock_abandon(engine(daemon));
	world_pass(world, SOON);
}

static inline int64_t
waited(const struct said *answer, int64_t since)
{
	return answer->at - since;
}

#endif
