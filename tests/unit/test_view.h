/*
 * The suites of the view's tests: one in each file.
 */
#ifndef TESTS_UNIT_TEST_VIEW_H
#define TESTS_UNIT_TEST_VIEW_H

#include <check.h>

Suite *suite_view_feed(void);
Suite *suite_view_metrics(void);
Suite *suite_view_show(void);
Suite *suite_view_grant_deny(void);
Suite *suite_view_round_robin(void);

#endif
