#include "tests/unit/test_protocol.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/message.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof(table)[0]))
#define X16 "xxxxxxxxxxxxxxxx"
#define X128 X16 X16 X16 X16 X16 X16 X16 X16

/* A bad line, and the whole answer to it. */
static const struct {
	const char *line, *answer_id;
	enum reason reason;
	const char *text;
} bad[] = {
    {"{", "null", REASON_PARSE_ERROR, "not JSON: member name expected at byte 1"},
    {"{\"id\":1,\"method\":\"ping\",\"method\":\"info\"}", "null", REASON_PARSE_ERROR,
	"not JSON: duplicate member name at byte 24"},
    {"{\"id\":1,\"method\":\"\xff\"}", "null", REASON_PARSE_ERROR,
	"not JSON: invalid UTF-8 at byte 18"},
    {"[]", "null", REASON_INVALID_REQUEST, "batches are not supported: one request a line"},
    {"[{\"id\":1,\"method\":\"ping\"}]", "null", REASON_INVALID_REQUEST,
	"batches are not supported: one request a line"},
    {"7", "null", REASON_INVALID_REQUEST, "a request is a JSON object"},
    {"null", "null", REASON_INVALID_REQUEST, "a request is a JSON object"},
    {"{}", "null", REASON_INVALID_REQUEST, "id is missing; every request is answered"},
    {"{\"method\":\"ping\"}", "null", REASON_INVALID_REQUEST,
	"id is missing; every request is answered"},
    {"{\"ID\":1,\"method\":\"ping\"}", "null", REASON_INVALID_REQUEST,
	"id is missing; every request is answered"},
    {"{\"id\":null,\"method\":\"ping\"}", "null", REASON_INVALID_REQUEST,
	"id must be a string of at most 128 bytes or an integer below 2^53"},
    {"{\"id\":1.5,\"method\":\"ping\"}", "null", REASON_INVALID_REQUEST,
	"id must be a string of at most 128 bytes or an integer below 2^53"},
    {"{\"id\":9007199254740992,\"method\":\"ping\"}", "null", REASON_INVALID_REQUEST,
	"id must be a string of at most 128 bytes or an integer below 2^53"},
    {"{\"id\":\"" X128 "x\",\"method\":\"ping\"}", "null", REASON_INVALID_REQUEST,
	"id must be a string of at most 128 bytes or an integer below 2^53"},
    {"{\"id\":[1],\"method\":\"ping\"}", "null", REASON_INVALID_REQUEST,
	"id must be a string of at most 128 bytes or an integer below 2^53"},
    {"{\"id\":true,\"method\":\"ping\"}", "null", REASON_INVALID_REQUEST,
	"id must be a string of at most 128 bytes or an integer below 2^53"},
    {"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", "1", REASON_INVALID_REQUEST,
	"jsonrpc must be \"2.0\" or left out"},
    {"{\"jsonrpc\":2.0,\"id\":1,\"method\":\"ping\"}", "1", REASON_INVALID_REQUEST,
	"jsonrpc must be \"2.0\" or left out"},
    {"{\"jsonrpc\":null,\"id\":1,\"method\":\"ping\"}", "1", REASON_INVALID_REQUEST,
	"jsonrpc must be \"2.0\" or left out"},
    {"{\"id\":\"a\\nb\",\"method\":\"ping\",\"extra\":1}", "\"a\\nb\"", REASON_INVALID_REQUEST,
	"a request has no member 'extra' (only jsonrpc, id, method, params)"},
    {"{\"id\":1,\"method\":\"ping\",\"\xc3\xa4\\u001b\":1}", "1", REASON_INVALID_REQUEST,
	"a request has no member '\\xc3\\xa4\\x1b' (only jsonrpc, id, method, params)"},
    {"{\"id\":1}", "1", REASON_INVALID_REQUEST, "method must be a string"},
    {"{\"id\":1,\"method\":7}", "1", REASON_INVALID_REQUEST, "method must be a string"},
    {"{\"id\":1,\"method\":\"ping\",\"params\":[]}", "1", REASON_INVALID_REQUEST,
	"params must be an object: parameters are named"},
    {"{\"id\":1,\"method\":\"ping\",\"params\":null}", "1", REASON_INVALID_REQUEST,
	"params must be an object: parameters are named"},
};

static struct cJSON *
parse(const char *text)
{
	struct json_error error = {0};
	struct cJSON *value = json_parse(text, strlen(text), &error);

	ck_assert_msg(value != NULL, "%s: %s at %zu", text, error.what, error.at);
	return value;
}

START_TEST(bad_lines_are_answered)
{
	struct message_request request;
	struct message_error error = {.reason = REASON_NONE}, read_error;
	struct message_answer answer;
	struct cJSON *tree;
	const char *what, *word;
	char *line, *id;

	ck_assert_msg(!message_parse_request(bad[_i].line, strlen(bad[_i].line), &request, &error),
	    "%s", bad[_i].line);
	ck_assert_int_eq(error.reason, bad[_i].reason);
	ck_assert_str_eq(error.text, bad[_i].text);
	ck_assert_str_eq(error.parameter, "");

	line = message_error_line(&request.id, &error, NULL);
	ck_assert_ptr_nonnull(line);
	ck_assert_int_eq(line[strlen(line) - 1], '\n');
	ck_assert(message_parse_answer(line, strlen(line), &answer, &what));
	ck_assert_int_eq(answer.kind, MESSAGE_ERROR);
	ck_assert_int_eq(answer.code, (int)bad[_i].reason);
	ck_assert_str_eq(answer.text, bad[_i].text);
	ck_assert(json_string(json_get(answer.content, "reason"), &word));
	ck_assert_str_eq(word, reason_word(bad[_i].reason));
	tree = parse(line);
	id = json_print(json_get(tree, "id"));
	ck_assert_str_eq(id, bad[_i].answer_id);
	json_free(tree);
	free(id);
	message_answer_done(&answer);
	/* An answer is no request. */
	ck_assert(!message_parse_request(line, strlen(line), &request, &read_error));
	free(line);
}
END_TEST

static const struct {
	const char *line, *answer;
} good[] = {
    {"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\",\"params\":{}}", "7"},
    {"{\"method\":\"ping\",\"id\":\"seven\"}", "\"seven\""},
    {" { \"id\" : -9007199254740991 , \"method\" : \"ping\" } ", "-9007199254740991"},
    {"{\"id\":9007199254740991,\"method\":\"ping\"}", "9007199254740991"},
    {"{\"id\":1e3,\"method\":\"ping\"}", "1000"},
    {"{\"id\":\"\",\"method\":\"ping\"}", "\"\""},
    {"{\"id\":\"" X128 "\",\"method\":\"ping\"}", "\"" X128 "\""},
    {"{\"id\":\"\\u00e4\\\"\\\\\",\"method\":\"ping\"}", "\"\xc3\xa4\\\"\\\\\""},
};

START_TEST(good_lines_are_read_and_ids_echoed)
{
	struct message_request request;
	struct message_error error;
	char expected[512], *line;

	ck_assert_msg(message_parse_request(good[_i].line, strlen(good[_i].line), &request, &error),
	    "%s: %s", good[_i].line, error.text);
	ck_assert_str_eq(request.method, "ping");
	line = message_result_line(&request.id, json_new_object());
	snprintf(expected, sizeof(expected), "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n",
	    good[_i].answer);
	ck_assert_str_eq(line, expected);
	free(line);
	message_request_done(&request);
}
END_TEST

START_TEST(params_are_lent)
{
	static const char line[] = "{\"id\":1,\"method\":\"x\",\"params\":{\"a\":\"b\"}}";
	struct message_request request;
	struct message_error error;
	const char *value = NULL;

	ck_assert(message_parse_request(line, sizeof(line) - 1, &request, &error));
	ck_assert(json_string(json_get(request.params, "a"), &value));
	ck_assert_str_eq(value, "b");
	message_request_done(&request);
	ck_assert(message_parse_request("{\"id\":1,\"method\":\"x\"}", 21, &request, &error));
	ck_assert_ptr_null(request.params);
	message_request_done(&request);
}
END_TEST

START_TEST(errors_carry_data_behind_reason_and_retry)
{
	struct message_id id = {.kind = MESSAGE_ID_STRING, .string = "a"};
	struct message_error error = {.reason = REASON_WOULD_BLOCK};
	char *line = message_error_line(&id, &error, parse("{\"slots\":3,\"busy\":null}"));

	ck_assert_str_eq(line,
	    "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"error\":{\"code\":1,"
	    "\"message\":\"every slot is busy\",\"data\":{\"reason\":\"would-block\","
	    "\"retry\":true,\"slots\":3,\"busy\":null}}}\n");
	free(line);
	message_error_set(&error, REASON_INVALID_PARAMS, "%s", "no good");
	strcpy(error.parameter, "name");
	line = message_error_line(&id, &error, NULL);
	ck_assert_str_eq(line, "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"error\":{\"code\":-32602,"
			       "\"message\":\"no good\",\"data\":{\"reason\":\"invalid-params\","
			       "\"retry\":false,\"parameter\":\"name\"}}}\n");
	free(line);
}
END_TEST

static struct cJSON *
spoilt(void)
{
	struct cJSON *object = json_new_object();

	json_add(object, "x", NULL);
	return object;
}

START_TEST(an_incomplete_message_is_no_line)
{
	struct message_id id = {.kind = MESSAGE_ID_INTEGER, .integer = 1};
	struct message_error error = {.reason = REASON_INTERNAL};

	ck_assert_ptr_null(message_result_line(&id, NULL));
	ck_assert_ptr_null(message_result_line(&id, spoilt()));
	ck_assert_ptr_null(message_error_line(&id, &error, spoilt()));
	ck_assert_ptr_null(message_notification_line("lost", NULL));
	ck_assert_ptr_null(message_notification_line("lost", spoilt()));
	ck_assert_ptr_null(message_request_line(1, "ping", spoilt()));
}
END_TEST

START_TEST(error_texts_are_cut_and_printable)
{
	struct message_error error;
	char long_text[2 * MESSAGE_ERROR_MAX], buf[12];

	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	message_error_set(&error, REASON_INTERNAL, "%s", long_text);
	ck_assert_uint_eq(strlen(error.text), MESSAGE_ERROR_MAX - 1);
	ck_assert_str_eq(message_escape(buf, sizeof(buf), "a\x7f\nb"), "a\\x7f\\x0ab");
	ck_assert_str_eq(message_escape(buf, sizeof(buf), "abcdefgh\xff"), "abcdefgh");
	ck_assert_str_eq(message_escape(buf, sizeof(buf), "abcdefghijklm"), "abcdefghijk");
}
END_TEST

START_TEST(requests_are_made_and_read)
{
	struct message_request request;
	struct message_error error;
	char *line = message_request_line(5, "size", parse("{\"name\":\"db\"}"));

	ck_assert_str_eq(line,
	    "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"size\",\"params\":{\"name\":\"db\"}}\n");
	ck_assert(message_parse_request(line, strlen(line), &request, &error));
	ck_assert_int_eq(request.id.integer, 5);
	message_request_done(&request);
	free(line);
	line = message_request_line(6, "info", NULL);
	ck_assert_str_eq(line, "{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"info\"}\n");
	free(line);
}
END_TEST

START_TEST(answers_are_read)
{
	static const char result[] = "{\"id\":5,\"result\":{\"slots\":2},\"new\":1}";
	static const char note[] =
	    "{\"jsonrpc\":\"2.0\",\"method\":\"lost\",\"params\":{\"lock\":\"x\"}}";
	static const char bare[] = "{\"id\":null,\"error\":{\"code\":-32700,\"message\":\"m\"}}";
	struct message_answer answer;
	const char *what, *lock;
	int64_t slots;

	ck_assert(message_parse_answer(result, sizeof(result) - 1, &answer, &what));
	ck_assert_int_eq(answer.kind, MESSAGE_RESULT);
	ck_assert(answer.id.kind == MESSAGE_ID_INTEGER && answer.id.integer == 5);
	ck_assert(json_integer(json_get(answer.content, "slots"), &slots) && slots == 2);
	message_answer_done(&answer);

	ck_assert(message_parse_answer(note, sizeof(note) - 1, &answer, &what));
	ck_assert_int_eq(answer.kind, MESSAGE_NOTIFICATION);
	ck_assert_str_eq(answer.method, "lost");
	ck_assert(json_string(json_get(answer.content, "lock"), &lock));
	message_answer_done(&answer);

	ck_assert(message_parse_answer(bare, sizeof(bare) - 1, &answer, &what));
	ck_assert_int_eq(answer.kind, MESSAGE_ERROR);
	ck_assert_int_eq(answer.id.kind, MESSAGE_ID_NULL);
	ck_assert_int_eq(answer.code, REASON_PARSE_ERROR);
	ck_assert_ptr_null(answer.content);
	message_answer_done(&answer);
}
END_TEST

static const struct {
	const char *line, *what;
} no_answers[] = {
    {"", "value expected, but the text ends"},
    {"[]", "not an object"},
    {"{}", "an answer without a usable id"},
    {"{\"id\":1.5,\"result\":{}}", "an answer without a usable id"},
    {"{\"id\":1}", "neither a result nor an error"},
    {"{\"id\":1,\"result\":[]}", "a result that is no object"},
    {"{\"method\":\"x\",\"params\":[]}", "a notification whose params are no object"},
    {"{\"id\":null,\"result\":{}}", "a result without an id"},
    {"{\"id\":1,\"method\":\"x\"}", "a request from the daemon"},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"\"}}",
	"an error without code and message"},
    {"{\"id\":1,\"error\":{}}", "an error without code and message"},
    {"{\"id\":1,\"error\":{\"code\":1e12,\"message\":\"m\"}}", "an error without code and message"},
    {"{\"id\":1,\"error\":null}", "an error without code and message"},
};

START_TEST(invalid_answers_are_refused)
{
	struct message_answer answer;
	const char *what = NULL;

	ck_assert(!message_parse_answer(
	    no_answers[_i].line, strlen(no_answers[_i].line), &answer, &what));
	ck_assert_str_eq(what, no_answers[_i].what);
}
END_TEST

/* How many allocations of cJSON succeed before all others fail. */
static int budget;

static void *
scarce_malloc(size_t size)
{
	return budget-- > 0 ? malloc(size) : NULL;
}

static char *
make_line(int kind)
{
	const struct message_id id = {.kind = MESSAGE_ID_STRING, .string = "a"};
	const struct message_error error = {
	    .reason = REASON_INVALID_PARAMS, .text = "x", .parameter = "name"};
	struct cJSON *content = json_new_object();

	json_add_integer(content, "n", 1);
	switch (kind) {
	case 0:
		return message_result_line(&id, content);
	case 1:
		/* NULL is no data here, so want of memory for it has to be seen before. */
		return content == NULL ? NULL : message_error_line(&id, &error, content);
	case 2:
		return message_notification_line("lost", content);
	default:
		return content == NULL ? NULL : message_request_line(7, "size", content);
	}
}

static const char *const lines[] = {
    "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"n\":1}}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"error\":{\"code\":-32602,\"message\":\"x\","
    "\"data\":{\"reason\":\"invalid-params\",\"retry\":false,\"parameter\":\"name\",\"n\":1}}}\n",
    "{\"jsonrpc\":\"2.0\",\"method\":\"lost\",\"params\":{\"n\":1}}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"size\",\"params\":{\"n\":1}}\n",
};

START_TEST(out_of_memory_is_a_whole_line_or_none)
{
	cJSON_Hooks hooks = {.malloc_fn = scarce_malloc, .free_fn = free};
	char *line = NULL;
	int refused = 0;

	cJSON_InitHooks(&hooks);
	while (line == NULL && refused < 1000) {
		budget = refused;
		line = make_line(_i);
		refused += line == NULL;
	}
	cJSON_InitHooks(NULL);
	ck_assert_int_gt(refused, 8);
	ck_assert_str_eq(line, lines[_i]);
	free(line);
}
END_TEST

START_TEST(out_of_memory_is_no_fault_of_the_client)
{
	static const char line[] = "{\"id\":1,\"method\":\"ping\",\"params\":{}}";
	cJSON_Hooks hooks = {.malloc_fn = scarce_malloc, .free_fn = free};
	struct message_request request;
	struct message_error error;
	bool read = false;
	int refused = 0;

	cJSON_InitHooks(&hooks);
	while (!read && refused < 1000) {
		budget = refused;
		read = message_parse_request(line, sizeof(line) - 1, &request, &error);
		ck_assert(read || error.reason == REASON_INTERNAL);
		refused += !read;
	}
	cJSON_InitHooks(NULL);
	ck_assert(read);
	ck_assert_int_gt(refused, 5);
	message_request_done(&request);
}
END_TEST

Suite *
message_suite(void)
{
	Suite *suite = suite_create("message");
	TCase *tcase = tcase_create("requests");

	tcase_add_loop_test(tcase, bad_lines_are_answered, 0, COUNT(bad));
	tcase_add_loop_test(tcase, good_lines_are_read_and_ids_echoed, 0, COUNT(good));
	tcase_add_test(tcase, params_are_lent);
	tcase_add_test(tcase, errors_carry_data_behind_reason_and_retry);
	tcase_add_test(tcase, an_incomplete_message_is_no_line);
	tcase_add_test(tcase, error_texts_are_cut_and_printable);
	suite_add_tcase(suite, tcase);

	tcase = tcase_create("answers");
	tcase_add_test(tcase, requests_are_made_and_read);
	tcase_add_test(tcase, answers_are_read);
	tcase_add_loop_test(tcase, invalid_answers_are_refused, 0, COUNT(no_answers));
	suite_add_tcase(suite, tcase);

	tcase = tcase_create("out of memory");
	tcase_add_loop_test(tcase, out_of_memory_is_a_whole_line_or_none, 0, COUNT(lines));
	tcase_add_test(tcase, out_of_memory_is_no_fault_of_the_client);
	suite_add_tcase(suite, tcase);
	return suite;
}
