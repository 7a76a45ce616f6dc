/*
 * The state that a daemon leaves to its successor, as text. The reader accepts the writer's text,
 * and those of earlier and later programs with other members.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/state/state.h"
#include "tests/unit/unit.h"

struct sample {
	uint64_t number;
	int64_t time;
	int count;
	bool flag;
	const char *text;
	struct state_bytes bytes;
	int fd;
};

static const struct state_field fields[] = {
    STATE_FIELD(sample, number, STATE_NUMBER),
    STATE_FIELD(sample, time, STATE_SIGNED),
    STATE_RANGE(sample, count, -5, 5),
    STATE_FIELD(sample, flag, STATE_BOOL),
    STATE_FIELD(sample, text, STATE_TEXT),
    STATE_FIELD(sample, bytes, STATE_BYTES),
    STATE_FIELD(sample, fd, STATE_SOCKET),
    {0},
};

#define HEADER "{\"record\":\"lockbrokerd\",\"state\":1,\"version\":\"9.9\"}\n"
#define MEMBERS                                                                                    \
	"\"number\":\"7\",\"time\":\"-7\",\"count\":5,\"flag\":true,\"text\":null,\"bytes\":"      \
	"\"00ff\""
#define SAMPLE "{\"record\":\"sample\"," MEMBERS ",\"fd\":\"-1\"}\n"
#define END "{\"record\":\"end\",\"records\":1}\n"

static struct state_reader *reader;

static void
teardown(void)
{
	state_reader_free(reader);
	reader = NULL;
}

static void
read_text(const char *text)
{
	reader = state_reader_new(text, strlen(text), NULL, 0);
}

/* ---- there and back ---- */

static void
check_same(const struct sample *wrote)
{
	struct state_writer *writer = state_writer_new(STATE_VERSION);
	struct sample got;
	struct state_text text;

	state_put(writer, "sample", fields, wrote);
	text = state_finish(writer);
	ck_assert_uint_eq(text.len, strlen(text.text));
	reader = state_reader_new(text.text, text.len, NULL, 0);
	ck_assert(state_is(reader, "sample") && !state_is(reader, "other"));
	ck_assert_msg(state_take(reader, "sample", fields, &got), "%s", state_error(reader));
	ck_assert_uint_eq(got.number, wrote->number);
	ck_assert_int_eq(got.time, wrote->time);
	ck_assert_int_eq(got.count, wrote->count);
	ck_assert(got.flag == wrote->flag);
	if (wrote->text == NULL)
		ck_assert_ptr_null(got.text);
	else
		ck_assert_str_eq(got.text, wrote->text);
	ck_assert_uint_eq(got.bytes.len, wrote->bytes.len);
	if (got.bytes.len > 0)
		ck_assert_mem_eq(got.bytes.bytes, wrote->bytes.bytes, got.bytes.len);
	ck_assert_int_eq(got.fd, wrote->fd);
	ck_assert(state_end(reader));
	ck_assert_ptr_null(state_error(reader));
	state_reader_free(reader);
	reader = NULL;
	state_text_done(&text);
}

START_TEST(each_type_goes_there_and_back)
{
	static const uint8_t bytes[] = {0, 1, 0x7f, 0x80, 0xff};
	int ends[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	check_same(&(struct sample){.number = UINT64_MAX,
	    .time = INT64_MIN,
	    .count = -5,
	    .text = "a \"text\" of \xc3\xa4\n",
	    .bytes = {bytes, sizeof(bytes)},
	    .fd = ends[1]});
	check_same(&(struct sample){
	    .number = 0, .time = INT64_MAX, .count = 5, .flag = true, .text = "", .fd = -1});
	close(ends[0]);
	close(ends[1]);
}
END_TEST

static struct sample
pass_socket(int fd, const int *fds, size_t fd_count)
{
	struct state_writer *writer = state_writer_new(STATE_VERSION);
	struct sample got;
	struct state_text text;

	state_put(writer, "sample", fields, &(struct sample){.fd = fd});
	text = state_finish(writer);
	reader = state_reader_new(text.text, text.len, fds, fd_count);
	ck_assert(state_take(reader, "sample", fields, &got));
	state_reader_free(reader);
	reader = NULL;
	state_text_done(&text);
	return got;
}

/* The first socket of the text is the first one that came, whatever its number. */
START_TEST(a_socket_has_the_place_of_its_record)
{
	int ends[2], came[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	came[0] = dup(ends[0]);
	came[1] = ends[1];
	ck_assert_int_eq(pass_socket(ends[0], came, 2).fd, came[0]);
	ck_assert_int_eq(pass_socket(ends[0], came + 1, 1).fd, -1);
	ck_assert_int_eq(pass_socket(ends[0], came, 0).fd, -1);
	ck_assert_int_eq(pass_socket(ends[0], NULL, 0).fd, ends[0]);
	close(came[0]);
	close(ends[0]);
	close(ends[1]);
}
END_TEST

/* Its number is that of another file now. */
START_TEST(another_file_is_not_taken_for_the_socket)
{
	struct state_writer *writer = state_writer_new(STATE_VERSION);
	struct sample got;
	int ends[2];
	struct state_text text;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	state_put(writer, "sample", fields, &(struct sample){.fd = ends[0]});
	text = state_finish(writer);
	dup2(ends[1], ends[0]);
	reader = state_reader_new(text.text, text.len, NULL, 0);
	ck_assert(state_take(reader, "sample", fields, &got));
	ck_assert_int_eq(got.fd, -1);
	state_text_done(&text);
	close(ends[0]);
	close(ends[1]);
}
END_TEST

START_TEST(the_writers_version_is_known)
{
	read_text(HEADER END);
	ck_assert_str_eq(state_writer_version(reader), "9.9");
}
END_TEST

/* ---- other texts ---- */

static const char *const refused[] = {
    "",
    "\n",
    "no JSON\n",
    "[]\n",
    HEADER,
    HEADER SAMPLE,
    HEADER SAMPLE "{\"record\":\"end\",\"records\":1}",
    HEADER SAMPLE END "\n",
    HEADER SAMPLE END END,
    HEADER SAMPLE "{\"record\":\"end\",\"records\":0}\n",
    HEADER SAMPLE "{\"record\":\"end\",\"records\":2}\n",
    HEADER SAMPLE "{\"record\":\"end\"}\n",
    HEADER SAMPLE SAMPLE END,
    SAMPLE END,
    "{\"record\":\"lockbrokerd\",\"state\":3,\"version\":\"9.9\"}\n" SAMPLE END,
    "{\"record\":\"lockbrokerd\",\"state\":0,\"version\":\"9.9\"}\n" SAMPLE END,
    "{\"record\":\"lockbrokerd\",\"version\":\"9.9\"}\n" SAMPLE END,
    HEADER "{\"record\":\"sample\"," MEMBERS ",\"fd\":\"-1\",\"fd\":\"-1\"}\n" END,
    HEADER "{" MEMBERS ",\"fd\":\"-1\"}\n" END,
    HEADER "{\"record\":\"another\"," MEMBERS ",\"fd\":\"-1\"}\n" END,
};

START_TEST(another_text_is_refused)
{
	struct sample got;

	read_text(refused[_i]);
	ck_assert(!state_take(reader, "sample", fields, &got) || !state_end(reader));
	ck_assert_ptr_nonnull(state_error(reader));
	ck_assert_int_eq(strncmp(state_error(reader), "line ", 5), 0);
	/* The error remains. */
	ck_assert(!state_take(reader, "sample", fields, &got) && !state_end(reader));
	ck_assert(!state_is(reader, "sample"));
}
END_TEST

static const struct {
	const char *member, *value;
} invalid[] = {
    {"number", "7"},
    {"number", "\"\""},
    {"number", "\"-7\""},
    {"number", "\"+7\""},
    {"number", "\" 7\""},
    {"number", "\"7 \""},
    {"number", "\"0x7\""},
    {"number", "\"18446744073709551616\""},
    {"time", "\"-\""},
    {"time", "\"--7\""},
    {"time", "\"9223372036854775808\""},
    {"time", "\"-9223372036854775809\""},
    {"count", "6"},
    {"count", "-6"},
    {"count", "0.5"},
    {"count", "\"5\""},
    {"count", "null"},
    {"flag", "1"},
    {"flag", "null"},
    {"text", "7"},
    {"text", "{}"},
    {"bytes", "null"},
    {"bytes", "\"0\""},
    {"bytes", "\"0g\""},
    {"bytes", "\"0F\""},
    {"bytes", "\"0x\""},
    {"fd", "-1"},
    {"fd", "\"\""},
    {"fd", "\"7\""},
    {"fd", "\":7\""},
    {"fd", "\"7:\""},
    {"fd", "\"-7:7\""},
    {"fd", "\"4294967296:7\""},
    {"fd", "\"00000000000000000000007:7\""},
};

START_TEST(an_invalid_value_is_refused)
{
	static const char *const values[] = {
	    "\"7\"", "\"-7\"", "5", "true", "null", "\"00ff\"", "\"-1\""};
	char text[512] = HEADER "{\"record\":\"sample\"";
	struct sample got;

	for (int i = 0; fields[i].name != NULL; i++) {
		bool is = strcmp(fields[i].name, invalid[_i].member) == 0;
		size_t len = strlen(text);

		snprintf(text + len, sizeof(text) - len, ",\"%s\":%s", fields[i].name,
		    is ? invalid[_i].value : values[i]);
	}
	strcat(text, "}\n" END);
	read_text(text);
	ck_assert(!state_take(reader, "sample", fields, &got));
	ck_assert_ptr_nonnull(strstr(state_error(reader), invalid[_i].member));
	ck_assert_int_eq(strncmp(state_error(reader), "line 2:", 7), 0);
}
END_TEST

START_TEST(the_sample_is_accepted)
{
	struct sample got;

	read_text(HEADER SAMPLE END);
	ck_assert(state_take(reader, "sample", fields, &got) && state_end(reader));
}
END_TEST

/* ---- members of other programs ---- */

static const char *const accepted[] = {
    "{\"record\":\"lockbrokerd\",\"state\":2,\"version\":\"9.9\"}\n" SAMPLE END,
    "{\"record\":\"lockbrokerd\",\"state\":1,\"later\":{\"a\":[1]}}\n" SAMPLE END,
    HEADER "{\"record\":\"sample\",\"more\":1," MEMBERS ",\"fd\":\"-1\",\"other\":null}\n" END,
    HEADER "{\"record\":\"sample\",\"fd\":\"-1\"," MEMBERS "}\n" END,
};

START_TEST(unknown_members_are_ignored)
{
	struct sample got;

	read_text(accepted[_i]);
	ck_assert_msg(state_take(reader, "sample", fields, &got), "%s", state_error(reader));
	ck_assert(state_end(reader));
	ck_assert_uint_eq(got.number, 7);
	ck_assert_int_eq(got.time, -7);
	ck_assert_int_eq(got.count, 5);
}
END_TEST

START_TEST(missing_members_have_defaults)
{
	static const uint8_t byte[] = {1};
	struct sample got = {.number = 1,
	    .time = 1,
	    .count = 1,
	    .flag = true,
	    .text = "x",
	    .bytes = {byte, 1},
	    .fd = 1};

	read_text(HEADER "{\"record\":\"sample\"}\n" END);
	ck_assert_msg(state_take(reader, "sample", fields, &got), "%s", state_error(reader));
	ck_assert(state_end(reader));
	ck_assert(got.number == 0 && got.time == 0 && got.count == 0 && !got.flag);
	ck_assert_ptr_null(got.text);
	ck_assert_uint_eq(got.bytes.len, 0);
	ck_assert_int_eq(got.fd, -1);
}
END_TEST

START_TEST(a_member_that_cannot_be_0_is_needed)
{
	static const struct state_field above[] = {STATE_RANGE(sample, count, 1, 5), {0}};
	struct sample got;

	read_text(HEADER "{\"record\":\"sample\"}\n" END);
	ck_assert(!state_take(reader, "sample", above, &got));
	ck_assert_str_eq(state_error(reader), "line 2: sample: expected the member \"count\"");
}
END_TEST

START_TEST(a_later_version_is_refused_in_words)
{
	read_text("{\"record\":\"lockbrokerd\",\"state\":3,\"version\":\"9.9\"}\n" END);
	ck_assert_str_eq(state_error(reader),
	    "line 1: the state has version 3, and this program reads versions 1 to 2");
}
END_TEST

/* A state may be cut off anywhere. */
START_TEST(a_part_is_refused)
{
	static const char all[] = HEADER SAMPLE END;
	struct sample got;

	for (size_t len = 0; len < sizeof(all) - 1; len++) {
		char *part = malloc(len + 1);

		memcpy(part, all, len);
		reader = state_reader_new(part, len, NULL, 0);
		ck_assert(!state_take(reader, "sample", fields, &got) || !state_end(reader));
		teardown();
		free(part);
	}
}
END_TEST

START_TEST(the_first_error_is_kept)
{
	struct sample got;

	read_text(HEADER SAMPLE END);
	ck_assert(state_take(reader, "sample", fields, &got));
	ck_assert(!state_spoil(reader, "no such thing"));
	ck_assert(!state_spoil(reader, "another thing"));
	ck_assert(!state_end(reader));
	ck_assert_str_eq(state_error(reader), "line 2: no such thing");
}
END_TEST

#define COUNT(list) ((int)(sizeof(list) / sizeof((list)[0])))

static Suite *
state_suite(void)
{
	Suite *suite = suite_create("state");
	TCase *tests = tcase_create("state");

	tcase_add_checked_fixture(tests, NULL, teardown);
	tcase_add_test(tests, each_type_goes_there_and_back);
	tcase_add_test(tests, a_socket_has_the_place_of_its_record);
	tcase_add_test(tests, another_file_is_not_taken_for_the_socket);
	tcase_add_test(tests, the_writers_version_is_known);
	tcase_add_test(tests, the_sample_is_accepted);
	tcase_add_loop_test(tests, another_text_is_refused, 0, COUNT(refused));
	tcase_add_loop_test(tests, an_invalid_value_is_refused, 0, COUNT(invalid));
	tcase_add_loop_test(tests, unknown_members_are_ignored, 0, COUNT(accepted));
	tcase_add_test(tests, missing_members_have_defaults);
	tcase_add_test(tests, a_member_that_cannot_be_0_is_needed);
	tcase_add_test(tests, a_later_version_is_refused_in_words);
	tcase_add_test(tests, a_part_is_refused);
	tcase_add_test(tests, the_first_error_is_kept);
	suite_add_tcase(suite, tests);
	return suite;
}

int
main(void)
{
	Suite *(*const makers[])(void) = {state_suite};

	return unit_run(makers, 1);
}
