/*
 * liblockbroker's core without I/O, by tables of bytes.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "client/lib/session.h"
#include "protocol/line.h"
#include "tests/unit/unit.h"

static int64_t
ask(struct session *session, const char *method, int tag)
{
	int64_t id = 0;

	ck_assert_int_eq(session_request(session, method, NULL, tag, &id), SESSION_OK);
	return id;
}

START_TEST(requests_become_bytes)
{
	struct session *session = session_new();
	struct cJSON *params = json_new_object();
	const char *expected =
	    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"size\",\"params\":{\"name\":\"db\"}}\n";
	int64_t id = 0;
	size_t len;

	json_add_string(params, "name", "db");
	ck_assert_int_eq(session_request(session, "size", params, 0, &id), SESSION_OK);
	ck_assert_int_eq(id, 1);
	ck_assert_mem_eq(session_output(session, &len), expected, strlen(expected));
	ck_assert_uint_eq(len, strlen(expected));
	session_sent(session, 10);
	ck_assert_mem_eq(session_output(session, &len), expected + 10, len);
	ck_assert_int_eq(ask(session, "ping", 0), 2);
	session_sent(session, strlen(expected) - 10);
	ck_assert_mem_eq(session_output(session, &len), "{\"jsonrpc\":\"2.0\",\"id\":2", 23);
	session_free(session);
}
END_TEST

/* Input after requests 1 (tag 11) and 2 (tag 22), and its meaning. */
static const struct incoming {
	const char *bytes;
	enum session_status status;
	enum message_kind kind;
	int64_t id;
	int tag;
} incoming[] = {
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n", SESSION_EVENT, MESSAGE_RESULT, 1, 11},
    {"\r\n\n{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"new\":[1]},\"more\":1}\r\n", SESSION_EVENT,
	MESSAGE_RESULT, 2, 22},
    {"{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":1,\"message\":\"m\",\"data\":{}}}\n",
	SESSION_EVENT, MESSAGE_ERROR, 2, 22},
    {"{\"jsonrpc\":\"2.0\",\"method\":\"lost\",\"params\":{}}\n", SESSION_EVENT,
	MESSAGE_NOTIFICATION, 0, -1},
    {"{\"jsonrpc\":\"2.0\",\"method\":\"draining\"}\n", SESSION_EVENT, MESSAGE_NOTIFICATION, 0, -1},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"res", SESSION_OK, MESSAGE_RESULT, 0, 0},
    {"{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}\n", SESSION_BROKEN, MESSAGE_RESULT, 0, 0},
    {"{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{}}\n", SESSION_BROKEN, MESSAGE_RESULT, 0, 0},
    {"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"m\"}}\n",
	SESSION_BROKEN, MESSAGE_RESULT, 0, 0},
    {"{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{}}\n", SESSION_BROKEN, MESSAGE_RESULT, 0, 0},
    {"HTTP/1.1 400 Bad Request\r\n", SESSION_BROKEN, MESSAGE_RESULT, 0, 0},
    {"[]\n", SESSION_BROKEN, MESSAGE_RESULT, 0, 0},
    {"{\"jsonrpc\":\"2.0\",\"id\":1}\n", SESSION_BROKEN, MESSAGE_RESULT, 0, 0},
    {"{\"id\":1,\"result\":{\"a\":\xff\xfe}}\n", SESSION_BROKEN, MESSAGE_RESULT, 0, 0},
};

/* Fed whole, and byte by byte. */
static void
feed(const struct incoming *row, bool whole)
{
	struct session *session = session_new();
	struct session_event event = {.tag = 0};
	enum session_status status = SESSION_OK;
	size_t len = strlen(row->bytes);

	ask(session, "acquire", 11);
	ask(session, "release", 22);
	for (size_t at = 0; at < len && status == SESSION_OK; at += whole ? len : 1) {
		ck_assert_int_eq(
		    session_input(session, row->bytes + at, whole ? len : 1), SESSION_OK);
		status = session_next(session, &event);
	}
	ck_assert_int_eq(status, row->status);
	if (status == SESSION_EVENT) {
		ck_assert_int_eq(event.answer.kind, row->kind);
		ck_assert_int_eq(event.id, row->id);
		ck_assert_int_eq(event.tag, row->tag);
		message_answer_done(&event.answer);
		ck_assert_int_eq(session_next(session, &event), SESSION_OK);
	}
	if (status == SESSION_BROKEN) {
		ck_assert_int_gt(strlen(session_why(session)), 0);
		ck_assert_int_eq(session_input(session, "\n", 1), SESSION_BROKEN);
		ck_assert_int_eq(session_next(session, &event), SESSION_BROKEN);
	}
	session_free(session);
}

START_TEST(bytes_become_events)
{
	feed(&incoming[_i], true);
	feed(&incoming[_i], false);
}
END_TEST

START_TEST(an_answer_counts_once)
{
	const char *answer = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n";
	struct session *session = session_new();
	struct session_event event;

	ask(session, "ping", 5);
	session_retag(session, 1, 6);
	ck_assert_int_eq(session_tag(session, 1), 6);
	ck_assert_int_eq(session_input(session, answer, strlen(answer)), SESSION_OK);
	ck_assert_int_eq(session_input(session, answer, strlen(answer)), SESSION_OK);
	ck_assert_int_eq(session_next(session, &event), SESSION_EVENT);
	ck_assert_int_eq(event.tag, 6);
	ck_assert_int_eq(session_tag(session, 1), -1);
	message_answer_done(&event.answer);
	ck_assert_int_eq(session_next(session, &event), SESSION_BROKEN);
	session_free(session);
}
END_TEST

START_TEST(many_requests_are_told_apart)
{
	struct session *session = session_new();
	struct session_event event;
	char line[64];

	for (int i = 1; i <= 1000; i++)
		ck_assert_int_eq(ask(session, "ping", i * 2), i);
	for (int i = 1000; i >= 1; i -= 3) {
		int len = snprintf(
		    line, sizeof(line), "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{}}\n", i);

		ck_assert_int_eq(session_input(session, line, (size_t)len), SESSION_OK);
		ck_assert_int_eq(session_next(session, &event), SESSION_EVENT);
		ck_assert_int_eq(event.id, i);
		ck_assert_int_eq(event.tag, i * 2);
		message_answer_done(&event.answer);
	}
	session_free(session);
}
END_TEST

START_TEST(a_line_without_end_breaks_it)
{
	static char filler[64 * 1024];
	struct session *session = session_new();
	enum session_status status = SESSION_OK;
	struct session_event event;
	size_t fed = 0;

	memset(filler, ' ', sizeof(filler));
	while (status == SESSION_OK && fed < 2 * (size_t)LINE_MAX_OUT) {
		ck_assert_int_eq(session_input(session, filler, sizeof(filler)), SESSION_OK);
		fed += sizeof(filler);
		status = session_next(session, &event);
	}
	ck_assert_int_eq(status, SESSION_BROKEN);
	session_free(session);
}
END_TEST

static Suite *
session_suite(void)
{
	Suite *suite = suite_create("session");
	TCase *tcase = tcase_create("session");

	tcase_add_test(tcase, requests_become_bytes);
	tcase_add_loop_test(tcase, bytes_become_events, 0, sizeof(incoming) / sizeof(incoming[0]));
	tcase_add_test(tcase, an_answer_counts_once);
	tcase_add_test(tcase, many_requests_are_told_apart);
	tcase_add_test(tcase, a_line_without_end_breaks_it);
	suite_add_tcase(suite, tcase);
	return suite;
}

int
main(void)
{
	Suite *(*const makers[])(void) = {session_suite};

	return unit_run(makers, 1);
}
