#include "tests/unit/test_protocol.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/duration.h"
#include "protocol/lockname.h"
#include "protocol/reason.h"

#define SECOND INT64_C(1000000000)

static const struct {
	const char *text;
	int64_t ns;
} durations[] = {
    {"0", 0},
    {"1", SECOND},
    {"1.5", 3 * SECOND / 2},
    {"90s", 90 * SECOND},
    {"2m", 120 * SECOND},
    {"1h", 3600 * SECOND},
    {"7d", 7 * 86400 * SECOND},
    {"0.5d", 43200 * SECOND},
    {"0.000000001", 1},
    {"0.0000000001", 1}, /* rounded up: a wait is never shorter than asked for */
    {"0.0000000000", 0},
    {"0.9999999999", SECOND},
    {"007", 7 * SECOND},
    {"315360000", 315360000 * SECOND},
    {"3650d", 315360000 * SECOND},
};

static const char *const no_durations[] = {"", " 1", "1 ", "-1", "+1", ".5", "1.", "1.s", "1e3",
    "1x", "1ms", "s", "inf", "0x10", "315360001", "3651d", "3650.1d", "99999999999999999999",
    "315360000.0000000001", "1,5"};

START_TEST(durations_parse)
{
	int64_t ns = -1;

	ck_assert_ptr_null(duration_parse(durations[_i].text, &ns));
	ck_assert_int_eq(ns, durations[_i].ns);
}
END_TEST

START_TEST(invalid_durations_are_refused)
{
	int64_t ns = -1;

	ck_assert_msg(duration_parse(no_durations[_i], &ns) != NULL, "%s", no_durations[_i]);
	ck_assert_int_eq(ns, -1);
}
END_TEST

START_TEST(durations_of_the_wire_round_up)
{
	ck_assert_int_eq(duration_from_seconds(0), 0);
	ck_assert_int_eq(duration_from_seconds(1.5), 3 * SECOND / 2);
	ck_assert_int_eq(duration_from_seconds(0.1), SECOND / 10);
	ck_assert_int_eq(duration_from_seconds(1e-12), 1);
	ck_assert_int_eq(duration_from_seconds(DURATION_MAX_SECONDS), 315360000 * SECOND);
	ck_assert_double_eq(duration_to_seconds(3 * SECOND / 2), 1.5);
}
END_TEST

static const struct {
	int64_t ns;
	const char *text;
} written[] = {{0, "0"}, {1, "0.000000001"}, {SECOND, "1"}, {3 * SECOND / 2, "1.5"},
    {20 * SECOND, "20"}, {-SECOND / 4, "-0.25"}, {13155 * SECOND + 100, "13155.0000001"},
    {INT64_MAX, "9223372036.854775807"}, {INT64_MIN, "-9223372036.854775808"}};

START_TEST(durations_are_written_whole)
{
	char text[DURATION_TEXT_SIZE];

	duration_write(text, written[_i].ns);
	ck_assert_str_eq(text, written[_i].text);
}
END_TEST

static const char *const names[] = {"a", "db", "deploy:web/eu-1", "A", "B.b_c", "-", "a-1", "a-A1",
    "a-1-", "x-C", "x-a", "x-A-", "x-A-1b", "xA-1", "A-1", "amq", "amqp.x", "xamq.", "a-AB",
    "a-C-1", "a--", "x-1-2"};

static const char *const no_names[] = {"", " ", "a b", "a\n", "\xc3\xa4", "a*", "a#", "amq.",
    "amq.x", "x-A", "x-B", "x-W", "x-G", "x-U", "x-M", "x-1-A", "x-1-B", "x-A-1", "x-B-1",
    "x-A-001", "x-12-A", "x-B-9999", "-A", "-A-1", "x-A-B"};

START_TEST(lock_names_are_accepted)
{
	const char *error = lockname_error(names[_i], strlen(names[_i]));

	ck_assert_msg(error == NULL, "%s: %s", names[_i], error);
}
END_TEST

START_TEST(invalid_lock_names_are_refused)
{
	ck_assert_msg(
	    lockname_error(no_names[_i], strlen(no_names[_i])) != NULL, "%s", no_names[_i]);
}
END_TEST

START_TEST(lock_names_have_a_length)
{
	char name[LOCKNAME_MAX + 1];

	memset(name, 'x', sizeof(name));
	ck_assert_ptr_null(lockname_error(name, LOCKNAME_MAX));
	ck_assert_ptr_nonnull(lockname_error(name, LOCKNAME_MAX + 1));
	name[3] = '\0';
	ck_assert_ptr_nonnull(lockname_error(name, LOCKNAME_MAX));
}
END_TEST

START_TEST(lock_kinds_have_words)
{
	ck_assert_str_eq(lock_kind_word(LOCK_KIND_SEMAPHORE), "semaphore");
	ck_assert_str_eq(lock_kind_word(LOCK_KIND_MUTEX), "mutex");
	ck_assert_str_eq(lock_kind_word(LOCK_KIND_PERSISTENT_MUTEX), "persistent-mutex");
}
END_TEST

/* Numbers and words are fixed for ever: a change here breaks clients that are out there. */
static const struct {
	int code;
	const char *word;
	bool retry;
} reasons[] = {
    {1, "would-block", true},
    {2, "timeout", true},
    {3, "contended", true},
    {4, "cancelled", false},
    {5, "no-such-lock", false},
    {6, "already-exists", false},
    {7, "not-held", false},
    {8, "lost", false},
    {9, "revoked", false},
    {10, "permission-denied", false},
    {11, "too-many-requests", true},
    {12, "too-many-locks", true},
    {13, "too-many-waiters", true},
    {14, "draining", true},
    {15, "broker-unavailable", true},
    {16, "broker-blocked", true},
    {17, "broker-refused", false},
    {-32700, "parse-error", false},
    {-32600, "invalid-request", false},
    {-32601, "method-not-found", false},
    {-32602, "invalid-params", false},
    {-32603, "internal", false},
};

START_TEST(reasons_are_fixed)
{
	enum reason reason = reason_from_code(reasons[_i].code);

	ck_assert_int_eq(reason, reasons[_i].code);
	ck_assert_str_eq(reason_word(reason), reasons[_i].word);
	ck_assert_int_eq(reason_from_word(reasons[_i].word), reason);
	ck_assert_int_eq(reason_retry(reason), reasons[_i].retry);
	ck_assert_int_gt(strlen(reason_message(reason)), 0);
}
END_TEST

/* Around all of them: the compiler names the one that is missing here (-Wswitch). */
static enum reason
next_reason(enum reason reason)
{
	switch (reason) {
	case REASON_NONE:
		return REASON_WOULD_BLOCK;
	case REASON_WOULD_BLOCK:
		return REASON_TIMEOUT;
	case REASON_TIMEOUT:
		return REASON_CONTENDED;
	case REASON_CONTENDED:
		return REASON_CANCELLED;
	case REASON_CANCELLED:
		return REASON_NO_SUCH_LOCK;
	case REASON_NO_SUCH_LOCK:
		return REASON_ALREADY_EXISTS;
	case REASON_ALREADY_EXISTS:
		return REASON_NOT_HELD;
	case REASON_NOT_HELD:
		return REASON_LOST;
	case REASON_LOST:
		return REASON_REVOKED;
	case REASON_REVOKED:
		return REASON_PERMISSION_DENIED;
	case REASON_PERMISSION_DENIED:
		return REASON_TOO_MANY_REQUESTS;
	case REASON_TOO_MANY_REQUESTS:
		return REASON_TOO_MANY_LOCKS;
	case REASON_TOO_MANY_LOCKS:
		return REASON_TOO_MANY_WAITERS;
	case REASON_TOO_MANY_WAITERS:
		return REASON_DRAINING;
	case REASON_DRAINING:
		return REASON_BROKER_UNAVAILABLE;
	case REASON_BROKER_UNAVAILABLE:
		return REASON_BROKER_BLOCKED;
	case REASON_BROKER_BLOCKED:
		return REASON_BROKER_REFUSED;
	case REASON_BROKER_REFUSED:
		return REASON_PARSE_ERROR;
	case REASON_PARSE_ERROR:
		return REASON_INVALID_REQUEST;
	case REASON_INVALID_REQUEST:
		return REASON_METHOD_NOT_FOUND;
	case REASON_METHOD_NOT_FOUND:
		return REASON_INVALID_PARAMS;
	case REASON_INVALID_PARAMS:
		return REASON_INTERNAL;
	case REASON_INTERNAL:
		return REASON_NONE;
	}
	abort();
}

START_TEST(each_reason_has_a_row)
{
	int count = 0;

	for (enum reason reason = next_reason(REASON_NONE); reason != REASON_NONE;
	     reason = next_reason(reason), count++)
		ck_assert_int_eq(reason_from_word(reason_word(reason)), reason);
	ck_assert_int_eq(count, sizeof(reasons) / sizeof(reasons[0]));
}
END_TEST

START_TEST(reasons_are_a_closed_list)
{
	ck_assert_int_eq(reason_from_code(0), REASON_NONE);
	ck_assert_int_eq(reason_from_code(18), REASON_NONE);
	ck_assert_int_eq(reason_from_code(-32000), REASON_NONE);
	ck_assert_int_eq(reason_from_word("none"), REASON_NONE);
	ck_assert_int_eq(reason_from_word("Timeout"), REASON_NONE);
	ck_assert_str_eq(reason_word(REASON_NONE), "none");
}
END_TEST

#define COUNT(table) ((int)(sizeof(table) / sizeof(table)[0]))

Suite *
words_suite(void)
{
	Suite *suite = suite_create("words");
	TCase *tcase = tcase_create("duration");

	tcase_add_loop_test(tcase, durations_parse, 0, COUNT(durations));
	tcase_add_loop_test(tcase, invalid_durations_are_refused, 0, COUNT(no_durations));
	tcase_add_test(tcase, durations_of_the_wire_round_up);
	tcase_add_loop_test(tcase, durations_are_written_whole, 0, COUNT(written));
	suite_add_tcase(suite, tcase);

	tcase = tcase_create("lockname");
	tcase_add_loop_test(tcase, lock_names_are_accepted, 0, COUNT(names));
	tcase_add_loop_test(tcase, invalid_lock_names_are_refused, 0, COUNT(no_names));
	tcase_add_test(tcase, lock_names_have_a_length);
	tcase_add_test(tcase, lock_kinds_have_words);
	suite_add_tcase(suite, tcase);

	tcase = tcase_create("reason");
	tcase_add_loop_test(tcase, reasons_are_fixed, 0, COUNT(reasons));
	tcase_add_test(tcase, each_reason_has_a_row);
	tcase_add_test(tcase, reasons_are_a_closed_list);
	suite_add_tcase(suite, tcase);
	return suite;
}
