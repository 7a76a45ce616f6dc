/*
 * Steps that several tests of slots by quorum take. T is 20 s, so the lease is 18 s.
 */
#ifndef TESTS_UNIT_QUORUM_FIXTURE_H
#define TESTS_UNIT_QUORUM_FIXTURE_H

#include "tests/unit/lock_fixture.h"

#define T (20 * SECOND)
#define LEASE (18 * SECOND)
/* For a step of a protocol that needs some answers. */
#define SOON (SECOND / 10)

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

static inline int64_t
waited(const struct said *answer, int64_t since)
{
	return answer->at - since;
}

#endif
