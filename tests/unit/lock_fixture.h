/*
 * The fixture of most tests of the lock engine: a world for each test, and the most frequent steps.
 */
#ifndef TESTS_UNIT_LOCK_FIXTURE_H
#define TESTS_UNIT_LOCK_FIXTURE_H

#include "tests/unit/lock_world.h"

#define TRY 0
#define SECOND NSEC_PER_SEC
#define MS NSEC_PER_MSEC

/* The world of the running test. */
extern struct lock_world *world;

void world_begin(void);
/* The same, with the semaphore db of one slot. */
void world_begin_with_db(void);
void world_end(void);

struct lock_engine *engine(int daemon);
/* Sends an acquire and waits for the answer. */
const struct said *acquire(
    int daemon, uint64_t peer, uint64_t request, const char *name, int64_t timeout);
/* Sends an acquire of db without a deadline. */
void wait_as(int daemon, uint64_t peer, uint64_t request, enum lock_kind kind, int priority);
void wait_for(int daemon, uint64_t peer, uint64_t request);
bool is_waiting(int daemon, uint64_t peer, uint64_t request);
/* The answer. It must be there already, without more messages or time. */
const struct said *now(int daemon, uint64_t peer, uint64_t request);
/* Releases, and checks that it succeeds. */
void release(int daemon, uint64_t peer, uint64_t request, uint64_t lock);

#endif
