/*
 * The suites of test_memory: one in each file.
 */
#ifndef TESTS_UNIT_TEST_MEMORY_H
#define TESTS_UNIT_TEST_MEMORY_H

#include <check.h>

Suite *suite_memory_broker(void);
Suite *suite_memory_directory(void);
Suite *suite_memory_ends(void);
Suite *suite_memory_exclusion(void);
Suite *suite_memory_holders(void);
Suite *suite_memory_mailbox(void);
Suite *suite_memory_nodes(void);
Suite *suite_memory_quorum(void);
Suite *suite_memory_records(void);
Suite *suite_memory_wait_queues(void);
Suite *suite_memory_links(void);
Suite *suite_memory_watches(void);

#endif
