#include "tests/unit/test_protocol.h"

#include <stdlib.h>
#include <string.h>

#include "protocol/line.h"

static struct line_reader *reader;

static void
setup(void)
{
	reader = line_reader_new(16);
	ck_assert_ptr_nonnull(reader);
}

static void
teardown(void)
{
	line_reader_free(reader);
}

static void
feed(const char *text)
{
	ck_assert_int_eq(line_reader_feed(reader, text, strlen(text)), LINE_NONE);
}

static void
expect_line(const char *text)
{
	const char *line;
	size_t len;

	ck_assert_int_eq(line_reader_next(reader, &line, &len), LINE_READY);
	ck_assert_str_eq(line, text);
	ck_assert_uint_eq(len, strlen(text));
}

static void
expect(enum line_status status)
{
	const char *line = NULL;
	size_t len = 0;

	ck_assert_int_eq(line_reader_next(reader, &line, &len), status);
	ck_assert_ptr_null(line);
}

START_TEST(lines_come_one_by_one)
{
	expect(LINE_NONE);
	feed("one\ntwo\nthr");
	expect_line("one");
	expect_line("two");
	expect(LINE_NONE);
	feed("ee\n");
	expect_line("three");
	expect(LINE_NONE);
}
END_TEST

START_TEST(a_line_that_is_not_taken_comes_again)
{
	const char *line;
	size_t len;

	feed("one\r\ntwo\nthr");
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(line_reader_next(reader, &line, &len), LINE_READY);
		ck_assert_str_eq(line, "one");
		line_reader_untake(reader, line, len);
	}
	feed("ee\n");
	expect_line("one");
	ck_assert_int_eq(line_reader_next(reader, &line, &len), LINE_READY);
	line_reader_untake(reader, line, len);
	expect_line("two");
	expect_line("three");
	expect(LINE_NONE);
}
END_TEST

START_TEST(lines_do_not_depend_on_how_bytes_arrive)
{
	static const char text[] = "{}\r\n\n\r\n[1]\nx\ry\n";

	for (const char *at = text; *at != '\0'; at++) {
		ck_assert_int_eq(line_reader_feed(reader, at, 1), LINE_NONE);
		if (at == text + 3)
			expect_line("{}");
		else if (at == text + 10)
			expect_line("[1]");
		else if (at == text + 14)
			expect_line("x\ry");
		else
			expect(LINE_NONE);
	}
	feed(text);
	expect_line("{}");
	expect_line("[1]");
	expect_line("x\ry");
	expect(LINE_NONE);
}
END_TEST

START_TEST(a_line_of_the_most_bytes_passes)
{
	feed("123456789012345\n");
	expect_line("123456789012345");
	feed("12345678901234\r\nx");
	expect_line("12345678901234");
	expect(LINE_NONE);
}
END_TEST

START_TEST(a_line_too_long_is_told_with_and_without_its_end)
{
	feed("ok\n123456789012345");
	expect_line("ok");
	expect(LINE_NONE);
	feed("6");
	expect(LINE_TOO_LONG);
	feed("\n");
	expect(LINE_TOO_LONG);
	expect(LINE_TOO_LONG);
}
END_TEST

START_TEST(lines_may_hold_nul_bytes)
{
	const char *line;
	size_t len;

	ck_assert_int_eq(line_reader_feed(reader, "a\0b\n", 4), LINE_NONE);
	ck_assert_int_eq(line_reader_next(reader, &line, &len), LINE_READY);
	ck_assert_uint_eq(len, 3);
	ck_assert_mem_eq(line, "a\0b", 4);
}
END_TEST

/* More than the buffer that an idle reader keeps, so that it is grown, let go and made again. */
START_TEST(large_feeds_come_out_whole)
{
	enum { LINES = 4000 };
	char *text = malloc(LINES * 4 + 1);

	ck_assert_ptr_nonnull(text);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < LINES; i++)
			memcpy(text + 4 * i, "abc\n", 5);
		feed(text);
		for (int i = 0; i < LINES; i++)
			expect_line("abc");
		expect(LINE_NONE);
		feed("x\n");
		expect_line("x");
	}
	free(text);
}
END_TEST

START_TEST(memory_goes_with_the_lines_that_took_it)
{
	enum { LONG = 60000 };
	char text[LONG + 3];

	line_reader_free(reader);
	reader = line_reader_new(LINE_MAX_IN);
	ck_assert_uint_eq(line_reader_size(reader), 0);
	memset(text, 'x', LONG);
	memcpy(text + LONG, "\ny", 3);
	feed(text);
	ck_assert_uint_ge(line_reader_size(reader), LONG);
	text[LONG] = '\0';
	expect_line(text);
	expect(LINE_NONE);
	ck_assert_uint_le(line_reader_size(reader), 1024);
	feed("\n");
	expect_line("y");
	expect(LINE_NONE);
	ck_assert_uint_eq(line_reader_size(reader), 0);
}
END_TEST

START_TEST(an_empty_feed_has_no_effect)
{
	ck_assert_int_eq(line_reader_feed(reader, NULL, 0), LINE_NONE);
	expect(LINE_NONE);
	line_reader_free(NULL);
}
END_TEST

Suite *
line_suite(void)
{
	Suite *suite = suite_create("line");
	TCase *tcase = tcase_create("reader");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, lines_come_one_by_one);
	tcase_add_test(tcase, a_line_that_is_not_taken_comes_again);
	tcase_add_test(tcase, lines_do_not_depend_on_how_bytes_arrive);
	tcase_add_test(tcase, a_line_of_the_most_bytes_passes);
	tcase_add_test(tcase, a_line_too_long_is_told_with_and_without_its_end);
	tcase_add_test(tcase, lines_may_hold_nul_bytes);
	tcase_add_test(tcase, large_feeds_come_out_whole);
	tcase_add_test(tcase, memory_goes_with_the_lines_that_took_it);
	tcase_add_test(tcase, an_empty_feed_has_no_effect);
	suite_add_tcase(suite, tcase);
	return suite;
}
