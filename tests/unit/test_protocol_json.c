#include "tests/unit/test_protocol.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/json.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof(table)[0]))
#define TEXT(literal) literal, sizeof(literal) - 1
#define DEEP_8 "[[[[[[[["
#define SHUT_8 "]]]]]]]]"

static struct {
	const char *text;
	size_t len;
	const char *printed; /* NULL: as it was */
} const good[] = {
    {TEXT("{}"), NULL},
    {TEXT(" \t\r\n{ } \n"), "{}"},
    {TEXT("[]"), NULL},
    {TEXT("null"), NULL},
    {TEXT("[true,false,null]"), NULL},
    {TEXT("\"\""), NULL},
    {TEXT("\"\x7f\""), "\"\\u007f\""},
    {TEXT("{\"a\":1,\"A\":2,\"\":3}"), NULL},
    {TEXT("{\"a\":{\"a\":{\"a\":1}},\"b\":[{\"a\":1},{\"a\":1}]}"), NULL},
    {TEXT("[0,1,-1,10,1.5,1e3,1E+3,1e-3,0.25]"), "[0,1,-1,10,1.5,1000,1000,0.001,0.25]"},
    {TEXT("[9007199254740991,-9007199254740991,1000000000000000]"), NULL},
    {TEXT("[1e307,-1e307]"), "[1e+307,-1e+307]"},
    {TEXT("1e-400"), "0"},
    {TEXT("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), "\"\\\"\\\\/\\b\\f\\n\\r\\t\""},
    {TEXT("\"\\u0001\\u00e4\\uD83D\\ude00\\u0041\""), "\"\\u0001\xc3\xa4\xf0\x9f\x98\x80"
						      "A\""},
    {TEXT("\"a\xc2\x80\xc2\x9f\xc2\xa0\""), "\"a\\u0080\\u009f\xc2\xa0\""},
    {TEXT("\"\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\""), NULL},
    {TEXT("\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\""), NULL},
    {TEXT(DEEP_8 DEEP_8 SHUT_8 SHUT_8), NULL},
    {TEXT("0.1234567890123456789012345678901234567890123456789012345678901"),
	"0.12345678901234568"},
};

static struct {
	const char *text;
	size_t len;
	size_t at;
	const char *what;
} const bad[] = {
    {TEXT(""), 0, "value expected, but the text ends"},
    {TEXT("  "), 2, "value expected, but the text ends"},
    {TEXT("{\"a\":"), 5, "value expected, but the text ends"},
    {TEXT("["), 1, "value expected, but the text ends"},
    {TEXT("{"), 1, "member name expected"},
    {TEXT("{a:1}"), 1, "member name expected"},
    {TEXT("{'a':1}"), 1, "member name expected"},
    {TEXT("{\"a\":1,}"), 7, "member name expected"},
    {TEXT("{\"a\":1,,}"), 7, "member name expected"},
    {TEXT("{1:1}"), 1, "member name expected"},
    {TEXT("{\"a\" 1}"), 5, "':' expected"},
    {TEXT("{\"a\"}"), 4, "':' expected"},
    {TEXT("{\"a\":1 \"b\":2}"), 7, "',' or '}' expected"},
    {TEXT("{\"a\":1]"), 6, "',' or '}' expected"},
    {TEXT("[1 2]"), 3, "',' or ']' expected"},
    {TEXT("[1}"), 2, "',' or ']' expected"},
    {TEXT("[1"), 2, "',' or ']' expected"},
    {TEXT("[1,]"), 3, "not a JSON value"},
    {TEXT("[,1]"), 1, "not a JSON value"},
    {TEXT("True"), 0, "not a JSON value"},
    {TEXT("nul"), 0, "not a JSON value"},
    {TEXT("nan"), 0, "not a JSON value"},
    {TEXT("NaN"), 0, "not a JSON value"},
    {TEXT("Infinity"), 0, "not a JSON value"},
    {TEXT("+1"), 0, "not a JSON value"},
    {TEXT(".5"), 0, "not a JSON value"},
    {TEXT("'a'"), 0, "not a JSON value"},
    {TEXT("// x\n1"), 0, "not a JSON value"},
    {TEXT("\v1"), 0, "not a JSON value"},
    {TEXT("\xc2\xa0"
	  "1"),
	0, "not a JSON value"},
    {TEXT("nullx"), 4, "more text after the value"},
    {TEXT("{} {}"), 3, "more text after the value"},
    {TEXT("1 2"), 2, "more text after the value"},
    {TEXT("0x10"), 1, "more text after the value"},
    {TEXT("{}\0"), 2, "more text after the value"},
    {TEXT("\xef\xbb\xbf{}"), 0, "byte order mark"},
    {TEXT("01"), 0, "number with a leading zero"},
    {TEXT("[-01]"), 2, "number with a leading zero"},
    {TEXT("-"), 1, "number without digits"},
    {TEXT("-a"), 1, "number without digits"},
    {TEXT("-.5"), 1, "number without digits"},
    {TEXT("1."), 2, "number without digits after the point"},
    {TEXT("[1.e3]"), 3, "number without digits after the point"},
    {TEXT("1e"), 2, "number without digits in its exponent"},
    {TEXT("1e+"), 3, "number without digits in its exponent"},
    {TEXT("[1e309]"), 1, "number too large"},
    {TEXT("1e999999999999999999999"), 0, "number too large"},
    {TEXT("[1111111111222222222233333333334444444444555555555566666666667777]"), 1,
	"number too long"},
    {TEXT("\"a"), 2, "string without end"},
    {TEXT("\"a\\\""), 4, "string without end"},
    {TEXT("\"a\\"), 2, "unknown escape in a string"},
    {TEXT("\"\\x41\""), 1, "unknown escape in a string"},
    {TEXT("\"\\'\""), 1, "unknown escape in a string"},
    {TEXT("\"\\U0041\""), 1, "unknown escape in a string"},
    {TEXT("\"\\u004\""), 1, "\\u without four hexadecimal digits"},
    {TEXT("\"\\u00g0\""), 1, "\\u without four hexadecimal digits"},
    {TEXT("\"\\u00"), 1, "\\u without four hexadecimal digits"},
    {TEXT("\"a\\u0000b\""), 2, "\\u0000 is refused"},
    {TEXT("\"\\ud800\""), 1, "lone surrogate in a string"},
    {TEXT("\"\\ud800\\u0041\""), 1, "lone surrogate in a string"},
    {TEXT("\"\\ud800\\ud800\""), 1, "lone surrogate in a string"},
    {TEXT("\"\\udc00\\ud800\""), 1, "lone surrogate in a string"},
    {TEXT("\"\\ud83d\\u"), 1, "lone surrogate in a string"},
    {TEXT("\"a\0b\""), 2, "NUL byte"},
    {TEXT("\0"), 0, "NUL byte"},
    {TEXT("[\0]"), 1, "NUL byte"},
    {TEXT("\"a\tb\""), 2, "control byte in a string"},
    {TEXT("\"a\nb\""), 2, "control byte in a string"},
    {TEXT("\"\x1f\""), 1, "control byte in a string"},
    {TEXT("{\"\x01\":1}"), 2, "control byte in a string"},
    {TEXT("\"\x80\""), 1, "invalid UTF-8"},
    {TEXT("\"\xbf\""), 1, "invalid UTF-8"},
    {TEXT("\"\xc0\x80\""), 1, "invalid UTF-8"},
    {TEXT("\"\xc1\xbf\""), 1, "invalid UTF-8"},
    {TEXT("\"\xc3\""), 1, "invalid UTF-8"},
    {TEXT("\"\xc3"), 1, "invalid UTF-8"},
    {TEXT("\"\xe0\x9f\xbf\""), 1, "invalid UTF-8"},
    {TEXT("\"\xe2\x82\""), 1, "invalid UTF-8"},
    {TEXT("\"\xe2\x28\xa1\""), 1, "invalid UTF-8"},
    {TEXT("\"a\xed\xa0\x80\""), 2, "invalid UTF-8"},
    {TEXT("\"\xed\xbf\xbf\""), 1, "invalid UTF-8"},
    {TEXT("\"\xf0\x8f\xbf\xbf\""), 1, "invalid UTF-8"},
    {TEXT("\"\xf0\x9f\x98\""), 1, "invalid UTF-8"},
    {TEXT("\"\xf4\x90\x80\x80\""), 1, "invalid UTF-8"},
    {TEXT("\"\xf5\x80\x80\x80\""), 1, "invalid UTF-8"},
    {TEXT("\"\xff\""), 1, "invalid UTF-8"},
    {TEXT("{\"\xff\":1}"), 2, "invalid UTF-8"},
    {TEXT(DEEP_8 DEEP_8 "[" SHUT_8 SHUT_8 "]"), 16, "nested too deep"},
    {TEXT(DEEP_8 DEEP_8 "{}" SHUT_8 SHUT_8), 16, "nested too deep"},
    {TEXT("{\"a\":1,\"a\":2}"), 7, "duplicate member name"},
    {TEXT("{\"a\":1,\"b\":2, \"\\u0061\":3}"), 14, "duplicate member name"},
    {TEXT("[{\"x\":{\"y\":[1,{\"k\":1,\"l\":{\"m\":1},\"k\":{\"x\":1,\"x\":2}}]}}]"), 33,
	"duplicate member name"},
    {TEXT("{\"a\":{\"b\":1},\"c\":{\"b\":1,\"\":{},\"\":0}}"), 30, "duplicate member name"},
};

START_TEST(good_texts_are_parsed)
{
	struct json_error error = {0};
	struct cJSON *value = json_parse(good[_i].text, good[_i].len, &error);
	char *printed = json_print(value);

	ck_assert_msg(value != NULL, "%s: %s at %zu", good[_i].text, error.what, error.at);
	ck_assert_str_eq(printed, good[_i].printed != NULL ? good[_i].printed : good[_i].text);
	free(printed);
	json_free(value);
}
END_TEST

START_TEST(minus_zero_is_a_number)
{
	struct json_error error = {0};
	struct cJSON *value = json_parse(TEXT("-0"), &error);
	char *printed = json_print(value);

	ck_assert_ptr_nonnull(value);
	/* cJSON 1.7.15 and 1.7.18 differ. */
	ck_assert(strcmp(printed, "-0") == 0 || strcmp(printed, "0") == 0);
	free(printed);
	json_free(value);
}
END_TEST

/* From a buffer of just the right size: the sanitizer sees a byte read too far. */
START_TEST(bad_texts_are_refused_with_their_place)
{
	struct json_error error = {0};
	char *text = malloc(bad[_i].len > 0 ? bad[_i].len : 1);

	ck_assert_ptr_nonnull(text);
	memcpy(text, bad[_i].text, bad[_i].len);
	ck_assert_msg(json_parse(text, bad[_i].len, &error) == NULL, "%s", bad[_i].text);
	ck_assert_str_eq(error.what, bad[_i].what);
	ck_assert_uint_eq(error.at, bad[_i].at);
	ck_assert(!error.no_memory);
	free(text);
}
END_TEST

START_TEST(every_cut_of_a_good_text_is_refused)
{
	static const char text[] =
	    "{\"id\":-1.5e3,\"s\":\"\\ud83d\\ude00\xc3\xa4\\n\",\"l\":[true,null,{\"x\":{}}]}";
	struct json_error error;

	for (size_t len = 0; len < sizeof(text) - 1; len++) {
		char *copy = malloc(len > 0 ? len : 1);

		ck_assert_ptr_nonnull(copy);
		memcpy(copy, text, len);
		ck_assert_ptr_null(json_parse(copy, len, &error));
		ck_assert_uint_le(error.at, len);
		free(copy);
	}
}
END_TEST

static struct cJSON *
object_of(int members, struct json_error *error)
{
	char *text = malloc(16 * (size_t)members + 3), *at = text;
	struct cJSON *value;

	ck_assert_ptr_nonnull(text);
	*at++ = '{';
	for (int i = 0; i < members; i++)
		at += sprintf(at, "%s\"m%d\":%d", i > 0 ? "," : "", i, i);
	*at++ = '}';
	value = json_parse(text, (size_t)(at - text), error);
	free(text);
	return value;
}

START_TEST(members_are_limited)
{
	struct json_error error = {0};
	struct cJSON *value = object_of(JSON_MEMBERS_MAX, &error);

	ck_assert_ptr_nonnull(value);
	ck_assert_ptr_nonnull(json_get(value, "m255"));
	json_free(value);
	ck_assert_ptr_null(object_of(JSON_MEMBERS_MAX + 1, &error));
	ck_assert_str_eq(error.what, "too many members in an object");
}
END_TEST

static struct cJSON *
parse(const char *text)
{
	struct json_error error = {0};
	struct cJSON *value = json_parse(text, strlen(text), &error);

	ck_assert_msg(value != NULL, "%s: %s at %zu", text, error.what, error.at);
	return value;
}

START_TEST(lookups_are_by_type_and_case)
{
	struct cJSON *value =
	    parse("{\"s\":\"x\",\"n\":1.5,\"i\":-3,\"b\":true,\"z\":null,\"a\":[1,2]}");
	const struct cJSON *first = json_first(json_get(value, "a"));
	const char *string = NULL;
	double number = 0;
	int64_t integer = 0;
	bool boolean = false;

	ck_assert(json_string(json_get(value, "s"), &string) && strcmp(string, "x") == 0);
	ck_assert(json_number(json_get(value, "n"), &number) && number == 1.5);
	ck_assert(json_integer(json_get(value, "i"), &integer) && integer == -3);
	ck_assert(json_bool(json_get(value, "b"), &boolean) && boolean);
	ck_assert(json_is_null(json_get(value, "z")) && !json_is_null(NULL));
	ck_assert(json_is_array(json_get(value, "a")) && json_is_object(value));
	ck_assert_ptr_null(json_get(value, "S"));
	ck_assert_ptr_null(json_get(json_get(value, "a"), "s"));
	ck_assert_ptr_null(json_get(NULL, "s"));
	ck_assert(!json_string(json_get(value, "n"), &string));
	ck_assert(!json_number(json_get(value, "s"), &number));
	ck_assert(!json_integer(json_get(value, "n"), &integer));
	ck_assert(!json_bool(json_get(value, "z"), &boolean));
	ck_assert(!json_string(NULL, &string) && !json_bool(NULL, &boolean));
	ck_assert(json_integer(first, &integer) && integer == 1);
	ck_assert(json_integer(json_next(first), &integer) && integer == 2);
	ck_assert_ptr_null(json_next(json_next(first)));
	ck_assert_ptr_null(json_first(NULL));
	ck_assert_str_eq(json_name(json_first(value)), "s");
	json_free(value);
}
END_TEST

START_TEST(integers_are_exact_up_to_2_53)
{
	static const int64_t values[] = {0, 1, -1, 999999999999999, 1000000000000000,
	    9007199254740990, 9007199254740991, -9007199254740991};
	static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
	struct cJSON *object = json_new_object(), *back;
	char *printed;
	int64_t value;

	_Static_assert(COUNT(names) == COUNT(values), "a name for each");
	for (int i = 0; i < COUNT(values); i++) {
		json_add_integer(object, names[i], values[i]);
		ck_assert(json_integer(json_get(object, names[i]), &value) && value == values[i]);
	}
	printed = json_print(object);
	ck_assert_ptr_nonnull(printed);
	back = parse(printed);
	for (int i = 0; i < COUNT(values); i++) {
		ck_assert(json_integer(json_get(back, names[i]), &value));
		ck_assert_int_eq(value, values[i]);
	}
	json_free(back);
	back = parse("[9007199254740992,1e300,-9007199254740993]");
	for (const struct cJSON *large = json_first(back); large != NULL; large = json_next(large))
		ck_assert(!json_integer(large, &value));
	json_free(back);
	json_free(object);
	free(printed);
}
END_TEST

START_TEST(bytes_that_are_no_text_go_out_as_text)
{
	struct cJSON *object = json_new_object();
	char *printed;

	json_add_string(object, "x", "a\xff\xc3\xa4\xed\xa0\x80\xf0\x9f\n");
	json_add_string(object, "none", NULL);
	printed = json_print(object);
	ck_assert_str_eq(printed,
	    "{\"x\":\"a\xef\xbf\xbd\xc3\xa4\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
	    "\xef\xbf\xbd\xef\xbf\xbd\\n\",\"none\":null}");
	free(printed);
	json_free(object);
}
END_TEST

static void
expect_spoilt(struct cJSON *value)
{
	ck_assert_ptr_null(json_print(value));
	json_free(value);
}

START_TEST(an_incomplete_value_is_never_printed)
{
	struct cJSON *object = json_new_object(), *outer = json_new_object(),
		     *array = json_new_array();

	json_add_string(object, "a", "kept and freed");
	json_add(object, "b", NULL);
	json_add_integer(object, "c", 1);
	ck_assert_ptr_null(json_print(object));
	expect_spoilt(json_copy(object));
	json_add(outer, "inner", object);
	ck_assert_ptr_null(json_print(outer));
	json_append(array, outer);
	expect_spoilt(array);

	array = json_new_array();
	json_append(array, NULL);
	expect_spoilt(array);

	object = json_new_object();
	json_add_members(object, NULL);
	expect_spoilt(object);

	object = json_new_object();
	outer = json_new_object();
	json_add(outer, "b", NULL);
	json_add_members(object, outer);
	expect_spoilt(object);
}
END_TEST

START_TEST(adding_to_nothing_is_nothing)
{
	json_add(NULL, "x", json_new_object());
	json_add_string(NULL, "x", "y");
	json_append(NULL, json_new_array());
	json_add_members(NULL, parse("{\"a\":1}"));
	ck_assert_ptr_null(json_print(NULL));
	json_free(NULL);
}
END_TEST

START_TEST(members_move)
{
	struct cJSON *object = parse("{\"a\":1}");
	char *printed;

	json_add_members(object, parse("{\"b\":[2],\"c\":{\"d\":3}}"));
	json_add_members(object, parse("{}"));
	printed = json_print(object);
	ck_assert_str_eq(printed, "{\"a\":1,\"b\":[2],\"c\":{\"d\":3}}");
	free(printed);
	json_free(object);
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
make_and_print(void)
{
	struct cJSON *object = json_new_object(), *array = json_new_array(),
		     *more = json_new_object();
	char *printed;

	json_append_string(array, "x");
	json_append(array, json_new_object());
	json_add(object, "list", array);
	json_add_string(object, "s", "text");
	json_add_integer(object, "i", 9007199254740991);
	json_add_seconds(object, "n", 1500000000);
	json_add_bool(object, "b", true);
	json_add_null(object, "z");
	json_add_string(more, "more", "text");
	json_add_members(object, more);
	printed = json_print(object);
	json_free(object);
	return printed;
}

/* Fails every allocation in turn. If text is printed, it is complete. Nothing leaks. */
START_TEST(out_of_memory_is_whole_or_nothing)
{
	cJSON_Hooks hooks = {.malloc_fn = scarce_malloc, .free_fn = free};
	int refused = 0;
	char *printed = NULL;

	cJSON_InitHooks(&hooks);
	while (printed == NULL && refused < 1000) {
		budget = refused;
		printed = make_and_print();
		refused += printed == NULL;
	}
	cJSON_InitHooks(NULL);
	ck_assert_int_gt(refused, 10);
	ck_assert_str_eq(printed, "{\"list\":[\"x\",{}],\"s\":\"text\",\"i\":9007199254740991,"
				  "\"n\":1.5,\"b\":true,\"z\":null,\"more\":\"text\"}");
	free(printed);
}
END_TEST

START_TEST(out_of_memory_while_parsing_is_told)
{
	static const char text[] = "{\"a\":[1,\"x\",{\"b\":null}]}";
	cJSON_Hooks hooks = {.malloc_fn = scarce_malloc, .free_fn = free};
	struct cJSON *value = NULL;
	int refused = 0;

	cJSON_InitHooks(&hooks);
	while (value == NULL && refused < 1000) {
		struct json_error error = {0};

		budget = refused;
		value = json_parse(text, sizeof(text) - 1, &error);
		ck_assert(value != NULL || error.no_memory);
		refused += value == NULL;
	}
	cJSON_InitHooks(NULL);
	ck_assert_int_gt(refused, 5);
	json_free(value);
}
END_TEST

Suite *
json_suite(void)
{
	Suite *suite = suite_create("json");
	TCase *tcase = tcase_create("texts");

	tcase_add_test(tcase, minus_zero_is_a_number);
	tcase_add_loop_test(tcase, good_texts_are_parsed, 0, COUNT(good));
	tcase_add_loop_test(tcase, bad_texts_are_refused_with_their_place, 0, COUNT(bad));
	tcase_add_test(tcase, every_cut_of_a_good_text_is_refused);
	tcase_add_test(tcase, members_are_limited);
	suite_add_tcase(suite, tcase);

	tcase = tcase_create("values");
	tcase_add_test(tcase, lookups_are_by_type_and_case);
	tcase_add_test(tcase, integers_are_exact_up_to_2_53);
	tcase_add_test(tcase, bytes_that_are_no_text_go_out_as_text);
	tcase_add_test(tcase, members_move);
	suite_add_tcase(suite, tcase);

	tcase = tcase_create("out of memory");
	tcase_add_test(tcase, an_incomplete_value_is_never_printed);
	tcase_add_test(tcase, adding_to_nothing_is_nothing);
	tcase_add_test(tcase, out_of_memory_is_whole_or_nothing);
	tcase_add_test(tcase, out_of_memory_while_parsing_is_told);
	suite_add_tcase(suite, tcase);
	return suite;
}
