/*
 * The suites of the lock engine's tests: one in each file.
 */
#ifndef TESTS_UNIT_TEST_LOCK_H
#define TESTS_UNIT_TEST_LOCK_H

#include <check.h>

Suite *suite_lock_acquire(void);
Suite *suite_lock_channels(void);
Suite *suite_lock_claims(void);
Suite *suite_lock_convert(void);
Suite *suite_lock_convert_quorum(void);
Suite *suite_lock_evict(void);
Suite *suite_lock_flight(void);
Suite *suite_lock_limits(void);
Suite *suite_lock_local_queue(void);
Suite *suite_lock_markers(void);
Suite *suite_lock_missing(void);
Suite *suite_lock_lifecycle(void);
Suite *suite_lock_consumer(void);
Suite *suite_lock_lease(void);
Suite *suite_lock_suspect(void);
Suite *suite_lock_quorum(void);
Suite *suite_lock_quorum_removed(void);
Suite *suite_lock_quorum_mutex(void);
Suite *suite_lock_quorum_ends(void);
Suite *suite_lock_quorum_successor(void);
Suite *suite_lock_mutex(void);
Suite *suite_lock_holder_wait(void);
Suite *suite_lock_fsck(void);
Suite *suite_lock_fsck_quorum(void);
Suite *suite_lock_list(void);
Suite *suite_lock_admin(void);
Suite *suite_lock_plan(void);
Suite *suite_lock_pollers(void);
Suite *suite_lock_rescan(void);
Suite *suite_lock_resize(void);
Suite *suite_lock_rows(void);
Suite *suite_lock_cut(void);
Suite *suite_lock_directory(void);
Suite *suite_lock_progress(void);
Suite *suite_lock_successor(void);
Suite *suite_lock_used_mutexes(void);
Suite *suite_lock_wait(void);
Suite *suite_lock_handoff(void);
Suite *suite_lock_watch(void);

#endif
