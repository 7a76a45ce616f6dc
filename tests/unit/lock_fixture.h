/*
 * What most tests of the lock engine stand on: a world that is made before each test and freed after it,
 * and what they do most in it.
 */
#ifndef TESTS_UNIT_LOCK_FIXTURE_H
#define TESTS_UNIT_LOCK_FIXTURE_H

#include "tests/unit/lock_world.h"

#define TRY 0
#define SECOND NSEC_PER_SEC
#define MS NSEC_PER_MSEC

/* Of the test that runs. */
extern struct lock_world *world;

void world_begin(void);
/* The same, with one semaphore: db, of one slot. */
void world_begin_with_db(void);
void world_end(void);

struct lock_engine *engine(int daemon);
/* The answer to an acquire, awaited. */
const struct said *acquire(
    int daemon, uint64_t peer, uint64_t request, const char *name, int64_t timeout);
/* An acquire of db without a deadline, sent. */
void wait_as(int daemon, uint64_t peer, uint64_t request, enum lock_kind kind, int priority);
void wait_for(int daemon, uint64_t peer, uint64_t request);
bool is_waiting(int daemon, uint64_t peer, uint64_t request);
/* The answer, which must be there already: what the daemon knows was enough, or time has passed. */
const struct said *now(int daemon, uint64_t peer, uint64_t request);
/* A release, answered without an error. */
void release(int daemon, uint64_t peer, uint64_t request, uint64_t lock);

#endif
