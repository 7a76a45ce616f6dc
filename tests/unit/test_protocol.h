/*
 * The suites of test_protocol: one for each module of protocol/.
 */
#ifndef TESTS_UNIT_TEST_PROTOCOL_H
#define TESTS_UNIT_TEST_PROTOCOL_H

#include <check.h>

Suite *json_suite(void);
Suite *line_suite(void);
Suite *message_suite(void);
Suite *methods_suite(void);
Suite *openrpc_suite(void);
Suite *words_suite(void); /* duration, lockname, reason */

#endif
