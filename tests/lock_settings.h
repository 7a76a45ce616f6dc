/*
 * Settings of the lock engine that tests share, as the beginning of an initializer.
 */
#ifndef TESTS_LOCK_SETTINGS_H
#define TESTS_LOCK_SETTINGS_H

#include "daemon/lock/lock.h"

#define TEST_LOCK_SETTINGS                                                                         \
	.naming = &queue_naming_amqp_locks, .wall_clock = &clock_wall, .max_races = 16,            \
	.rescan_interval = 5 * NSEC_PER_SEC, .hint_grace = 5 * NSEC_PER_MSEC,                      \
	.max_local_handoffs = 16, .request_timeout = 10 * NSEC_PER_SEC,                            \
	.max_mutexes_per_uid = 1000

#endif
