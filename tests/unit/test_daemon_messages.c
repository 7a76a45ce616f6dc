/*
 * Daemon messages and rows as text: written text is read back, and all other input is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/view/wire.h"
#include "daemon/view/row.h"
#include "protocol/json.h"
#include "tests/unit/unit.h"

/* ---- ids ---- */

START_TEST(ids_have_one_spelling)
{
	static const char *const wrong[] = {"", "-", "5", "0000abcd", "0000abcd-", "0000abcd-07",
	    "0000abcd-+7", "0000abcd- 7", "0000abcd-7 ", "0000ABCD-7", "abcd-7", "0000abcd-7x",
	    "0000abcd-18446744073709551617", "0000abcd--7", "x000abcd-7", "10000abcd-7", "-1"};
	char text[WIRE_ID_SIZE];
	uint64_t number = 0;
	uint32_t run = 0;

	ck_assert_str_eq(wire_id_write(text, 0xabcd, 7), "0000abcd-7");
	ck_assert(wire_id_parse("0000abcd-7", &run, &number));
	ck_assert(run == 0xabcd && number == 7);
	ck_assert(wire_id_parse("ffffffff-18446744073709551615", &run, &number));
	ck_assert(run == UINT32_MAX && number == UINT64_MAX);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		ck_assert_msg(!wire_id_parse(wrong[i], &run, &number), "%s", wrong[i]);
	ck_assert_str_eq(wire_id_run(text, 0xabcd), "0000abcd");
	ck_assert(wire_id_parse_run("0000abcd", &run));
	ck_assert(run == 0xabcd);
	ck_assert(!wire_id_parse_run("abcd", &run));
	ck_assert(!wire_id_parse_run("0000abcd-7", &run));
}
END_TEST

/* ---- messages ---- */

static const struct daemon_message_head head = {
    .run = 0xb0, .host = "there", .naming = "amqp-locks", .stays = true};

static enum daemon_message_status
parse(const char *text, struct daemon_message *ret)
{
	const char *what = NULL;
	enum daemon_message_status found =
	    daemon_message_parse(text, strlen(text), "amqp-locks", ret, &what);

	ck_assert_int_eq(found == DAEMON_MESSAGE_GARBLED, what != NULL);
	return found;
}

START_TEST(a_written_message_is_read)
{
	struct cJSON *made = daemon_message_new(&head, DAEMON_MESSAGE_GRANT, false);
	struct daemon_message message;
	char *text;

	json_add_string(made, "waiter", "000000a0-7");
	json_add_integer(made, "uid", 4294967295);
	text = daemon_message_text(made);
	ck_assert_int_eq(parse(text, &message), DAEMON_MESSAGE_READ);
	ck_assert(message.op == DAEMON_MESSAGE_GRANT && !message.answer && message.stays);
	ck_assert_uint_eq(message.run, 0xb0);
	ck_assert_str_eq(message.host, "there");
	ck_assert_uint_eq(message.waiter_run, 0xa0);
	ck_assert_uint_eq(message.waiter, 7);
	ck_assert_uint_eq(message.uid, 4294967295U);
	daemon_message_done(&message);
	free(text);
}
END_TEST

START_TEST(each_op_has_a_word)
{
	struct cJSON *made = daemon_message_new(&head, (enum daemon_message_op)_i, false);
	struct daemon_message message;
	char *text;

	json_add_string(made, "waiter", "000000a0-7");
	json_add_integer(made, "uid", 7);
	json_add_integer(made, "grace", 0);
	text = daemon_message_text(made);
	ck_assert_int_eq(parse(text, &message), DAEMON_MESSAGE_READ);
	ck_assert_int_eq(message.op, _i);
	daemon_message_done(&message);
	free(text);
}
END_TEST

/* The members that a message of "there" has besides these. */
#define MESSAGE(more)                                                                              \
	"{\"lockbroker\":1,\"naming\":\"amqp-locks\",\"run\":\"000000b0\",\"host\":\"there\","     \
	"\"stays\":true," more "}"

static const char *const garbled[] = {
    "",
    "rows",
    "[]",
    "{\"lockbroker\":1}",
    MESSAGE("\"ask\":7"),
    MESSAGE("\"ask\":\"evict\",\"name\":\"db\""),
    MESSAGE("\"ask\":\"evict\",\"grace\":0"),
    MESSAGE("\"answer\":\"waiting\",\"extra\":{}"),
    MESSAGE("\"answer\":\"waiting\",\"extra\":[[\"db\",0,1]]"),
    MESSAGE("\"answer\":\"waiting\",\"extra\":[[\"a b\",0,1,1]]"),
    MESSAGE("\"answer\":\"waiting\",\"extra\":[[\"db\",0,-1,1]]"),
    MESSAGE("\"ask\":\"steal\""),
    MESSAGE("\"answer\":null"),
    MESSAGE("\"ask\":\"grant\""),
    MESSAGE("\"ask\":\"find\""),
    MESSAGE("\"ask\":\"deny\""),
    MESSAGE("\"ask\":\"grant\",\"waiter\":\"000000a0-0\""),
    MESSAGE("\"ask\":\"grant\",\"waiter\":\"a0-1\""),
    MESSAGE("\"ask\":\"grant\",\"waiter\":7"),
    MESSAGE("\"ask\":\"grant\",\"waiter\":\"000000a0-1\",\"uid\":-1"),
    MESSAGE("\"ask\":\"grant\",\"waiter\":\"000000a0-1\",\"uid\":4294967296"),
    MESSAGE("\"ask\":\"rows\",\"name\":7"),
    MESSAGE("\"ask\":\"rows\",\"name\":\"amq.db\""),
    MESSAGE("\"ask\":\"rows\",\"name\":\"db\\u0007\""),
    MESSAGE("\"answer\":\"find\",\"reason\":\"none\""),
    MESSAGE("\"answer\":\"find\",\"reason\":\"because\""),
    MESSAGE("\"answer\":\"rows\",\"rows\":{}"),
    MESSAGE("\"answer\":\"rows\",\"last\":1"),
    MESSAGE("\"answer\":\"rows\",\"waiting\":-1"),
    MESSAGE("\"answer\":\"rows\",\"more\":0.5"),
    MESSAGE("\"answer\":\"rows\",\"slots\":[-1]"),
    MESSAGE("\"answer\":\"rows\",\"slots\":[\"1\"]"),
    MESSAGE("\"answer\":\"rows\",\"slots\":[2147483648]"),
    MESSAGE("\"answer\":\"waiting\",\"counts\":[7]"),
    MESSAGE("\"answer\":\"waiting\",\"counts\":[[]]"),
    MESSAGE("\"answer\":\"waiting\",\"counts\":[[\"db\"]]"),
    MESSAGE("\"answer\":\"waiting\",\"counts\":[[\"db\",-1]]"),
    MESSAGE("\"answer\":\"waiting\",\"counts\":[[\"db\",1,1]]"),
    MESSAGE("\"answer\":\"waiting\",\"counts\":[[\"db-1-A\",1]]"),
    "{\"lockbroker\":1,\"naming\":\"amqp-locks\",\"run\":\"b0\",\"host\":\"there\","
    "\"stays\":true,\"ask\":\"rows\"}",
    "{\"lockbroker\":1,\"naming\":\"amqp-locks\",\"run\":\"000000b0\",\"host\":\"two words\","
    "\"stays\":true,\"ask\":\"rows\"}",
    "{\"lockbroker\":1,\"naming\":\"amqp-locks\",\"run\":\"000000b0\",\"host\":\"\","
    "\"stays\":true,\"ask\":\"rows\"}",
    "{\"lockbroker\":1,\"naming\":\"amqp-locks\",\"run\":\"000000b0\",\"host\":\"there\","
    "\"ask\":\"rows\"}",
    "{\"lockbroker\":2,\"naming\":\"amqp-locks\",\"run\":\"000000b0\",\"host\":\"there\","
    "\"stays\":true,\"ask\":\"rows\"}",
};

START_TEST(garbled_messages_are_refused)
{
	struct daemon_message message;

	ck_assert_msg(parse(garbled[_i], &message) == DAEMON_MESSAGE_GARBLED, "%s", garbled[_i]);
}
END_TEST

START_TEST(another_naming_is_foreign)
{
	struct daemon_message message;

	ck_assert_int_eq(parse("{\"lockbroker\":1,\"naming\":\"x\",\"ask\":7}", &message),
	    DAEMON_MESSAGE_FOREIGN);
}
END_TEST

/* ---- rows ---- */

static const struct row_facts facts = {.run = 0xb0,
    .host = "there",
    .now = 100 * NSEC_PER_SEC,
    .wall = INT64_C(1700000000) * NSEC_PER_SEC};

static struct lock_row
row_of(enum lock_row_state state)
{
	struct lock_row source = {.state = state,
	    .waiter = 7,
	    .name = "db",
	    .uid = 1000,
	    .pid = 5,
	    .who = "me",
	    .since = 90 * NSEC_PER_SEC};

	if (state == LOCK_ROW_WAITING) {
		source.position = 3;
		source.priority = -2;
	} else {
		source.lock = 8;
		source.slot = state == LOCK_ROW_BUSY ? 4 : 0;
	}
	return source;
}

START_TEST(a_row_is_as_the_wire_has_it)
{
	const struct lock_row waits = row_of(LOCK_ROW_WAITING);
	struct cJSON *row = row_new(&facts, &waits);
	char *text = json_print(row);

	ck_assert_str_eq(text,
	    "{\"waiter\":\"000000b0-7\",\"lock\":null,\"state\":\"waiting\",\"name\":\"db\","
	    "\"kind\":\"semaphore\",\"slot\":null,\"position\":3,\"priority\":-2,\"who\":\"me\","
	    "\"why\":null,\"command\":null,\"host\":\"there\",\"uid\":1000,\"pid\":5,"
	    "\"since\":\"2023-11-14T22:13:10Z\",\"age\":10,\"revoked\":false,"
	    "\"evicted\":false,\"unknown\":false,\"fence\":null}");
	ck_assert(row_waits(row));
	ck_assert_str_eq(row_waiter(row), "000000b0-7");
	free(text);
	json_free(row);
}
END_TEST

START_TEST(rows_are_sane_and_the_same_until_they_change)
{
	static const enum lock_row_state states[] = {
	    LOCK_ROW_WAITING, LOCK_ROW_BUSY, LOCK_ROW_ADMITTED};

	for (size_t i = 0; i < 3; i++) {
		struct lock_row source = row_of(states[i]);
		struct cJSON *row = row_new(&facts, &source), *other;

		ck_assert(row_is_sane(row, 0xb0, "there"));
		ck_assert(!row_is_sane(row, 0xb1, "there"));
		ck_assert(!row_is_sane(row, 0xb0, "here"));
		source.since--;
		source.position += source.position > 0;
		other = row_new(&facts, &source);
		ck_assert(row_same(row, other));
		json_free(other);
		source.revoked = true;
		other = row_new(&facts, &source);
		ck_assert(!row_same(row, other));
		json_free(other);
		json_free(row);
	}
}
END_TEST

/* Each in place of the member that it names. */
static const struct {
	const char *name, *value;
} insane[] = {
    {"waiter", "null"},
    {"waiter", "\"000000b0-0\""},
    {"waiter", "\"000000b1-7\""},
    {"lock", "null"},
    {"lock", "\"x\""},
    {"state", "\"gone\""},
    {"state", "\"cancelled\""},
    {"state", "\"waiting\""},
    {"name", "\"amq.x\""},
    {"kind", "\"thing\""},
    {"slot", "0"},
    {"slot", "10001"},
    {"slot", "\"1\""},
    {"position", "1"},
    {"priority", "0"},
    {"who", "7"},
    {"host", "null"},
    {"host", "\"here\""},
    {"uid", "-1"},
    {"uid", "4294967296"},
    {"pid", "null"},
    {"pid", "2147483648"},
    {"since", "\"yesterday\""},
    {"since", "\"2023-11-14 22:13:10Z\""},
    {"since", "null"},
    {"age", "-1"},
    {"age", "\"1\""},
    {"revoked", "0"},
    {"unknown", "true"},
    {"evicted", "0"},
    {"evicted", "null"},
    {"fence", "0"},
    {"fence", "9007199254740992"},
    {"fence", "\"1\""},
};

START_TEST(a_row_with_an_invalid_member_is_not_sane)
{
	const struct lock_row busy = row_of(LOCK_ROW_BUSY);
	struct cJSON *row = row_new(&facts, &busy), *other = json_new_object();
	struct json_error error;
	bool replaced = false;

	for (const struct cJSON *member = json_first(row); member != NULL;
	     member = json_next(member)) {
		if (strcmp(json_name(member), insane[_i].name) == 0) {
			json_add(other, insane[_i].name,
			    json_parse(insane[_i].value, strlen(insane[_i].value), &error));
			replaced = true;
		} else {
			json_add(other, json_name(member), json_copy(member));
		}
	}
	ck_assert(replaced);
	ck_assert_msg(
	    !row_is_sane(other, 0xb0, "there"), "%s %s", insane[_i].name, insane[_i].value);
	json_free(other);
	json_free(row);
}
END_TEST

/* Else an older daemon would call the holders unknown. */
START_TEST(members_of_a_newer_daemon_are_left_out)
{
	const struct lock_row busy = row_of(LOCK_ROW_BUSY);
	struct cJSON *row = row_new(&facts, &busy), *copy;
	char *text = json_print(row), *its;

	json_add_string(row, "colour", "red");
	ck_assert(row_is_sane(row, 0xb0, "there"));
	copy = row_copy(row);
	its = json_print(copy);
	ck_assert_str_eq(its, text);
	free(its);
	free(text);
	json_free(copy);
	json_free(row);
}
END_TEST

START_TEST(a_row_with_words_above_the_limit_is_invalid)
{
	char words[258];
	struct lock_row source = row_of(LOCK_ROW_BUSY);
	struct cJSON *row;

	memset(words, 'x', 257);
	words[257] = '\0';
	source.why = words;
	row = row_new(&facts, &source);
	ck_assert(!row_is_sane(row, 0xb0, "there"));
	json_free(row);
	source.why = words + 1;
	row = row_new(&facts, &source);
	ck_assert(row_is_sane(row, 0xb0, "there"));
	json_free(row);
}
END_TEST

START_TEST(a_value_that_is_no_row_is_invalid)
{
	struct cJSON *array = json_new_array(), *object = json_new_object();

	ck_assert(!row_is_sane(NULL, 0xb0, "there"));
	ck_assert(!row_is_sane(array, 0xb0, "there"));
	ck_assert(!row_is_sane(object, 0xb0, "there"));
	json_free(array);
	json_free(object);
}
END_TEST

static Suite *
suite_daemon_messages(void)
{
	Suite *suite = suite_create("messages");
	TCase *tcase = tcase_create("messages");

	tcase_add_test(tcase, ids_have_one_spelling);
	tcase_add_test(tcase, a_written_message_is_read);
	tcase_add_loop_test(tcase, each_op_has_a_word, 0, DAEMON_MESSAGE_OPS);
	tcase_add_loop_test(
	    tcase, garbled_messages_are_refused, 0, (int)(sizeof(garbled) / sizeof(garbled[0])));
	tcase_add_test(tcase, another_naming_is_foreign);
	suite_add_tcase(suite, tcase);
	tcase = tcase_create("rows");
	tcase_add_test(tcase, a_row_is_as_the_wire_has_it);
	tcase_add_test(tcase, rows_are_sane_and_the_same_until_they_change);
	tcase_add_loop_test(tcase, a_row_with_an_invalid_member_is_not_sane, 0,
	    (int)(sizeof(insane) / sizeof(insane[0])));
	tcase_add_test(tcase, members_of_a_newer_daemon_are_left_out);
	tcase_add_test(tcase, a_row_with_words_above_the_limit_is_invalid);
	tcase_add_test(tcase, a_value_that_is_no_row_is_invalid);
	suite_add_tcase(suite, tcase);
	return suite;
}

int
main(void)
{
	Suite *(*const makers[])(void) = {suite_daemon_messages};

	return unit_run(makers, 1);
}
