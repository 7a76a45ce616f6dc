/*
 * The fixture of tests of holds by consumer: db, and mutexes, on the first daemon. Heartbeat 10 s, margin 2 s.
 */
#ifndef TESTS_UNIT_CONSUMER_FIXTURE_H
#define TESTS_UNIT_CONSUMER_FIXTURE_H

#include "tests/unit/lock_fixture.h"

#define HEARTBEAT (10 * SECOND)
#define MARGIN (2 * SECOND)

/* Of the first daemon: a test changes them, and calls lock_engine_set(). */
extern struct lock_settings consumer_settings;

void consumer_setup(void);
/* Makes the slots from..to of db, to be held by consumer. */
void consumer_make(int from, int to);
bool is_consumed(const char *queue);
int consumer_notices(uint64_t peer, enum lock_notice_kind kind);
/* Request 1 of that client: a slot of db; the mutex mx. */
const struct said *consumer_take(uint64_t peer, int64_t timeout);
const struct said *consumer_take_mutex(int daemon, uint64_t peer, int64_t timeout);

#endif
