/*
 * The directory of names: entries that are read, added and removed, also in trouble.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conformance/client.h"
#include "tests/conformance/server.h"

static const struct rig_answer *
want_answer(unsigned number, enum broker_answer wanted)
{
	const struct rig_answer *answer = rig_answer(number);

	ck_assert_msg(answer->reply.answer == wanted, "answer %d, not %d: %d: %s",
	    answer->reply.answer, wanted, answer->reply.code, answer->text);
	return answer;
}

/* The names of an answer that is OK, joined by spaces; the caller frees them. */
static char *
names_of(unsigned number)
{
	const struct name_list *names = &want_answer(number, BROKER_OK)->names;
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	for (size_t i = 0; i < names->count; i++)
		fprintf(out, "%s%s", i == 0 ? "" : " ", names->all[i]);
	fclose(out);
	return text;
}

#define want_names(number, wanted)                                                                 \
	do {                                                                                       \
		char *names = names_of(number);                                                    \
		ck_assert_msg(strcmp(names, (wanted)) == 0, "line %d: \"%s\", not \"%s\"",         \
		    __LINE__, names, (wanted));                                                    \
		free(names);                                                                       \
	} while (0)

START_TEST(entered_read_and_left)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();

	want_names(rig_read(one, "dir-a"), "");
	want_names(rig_leave(one, "dir-a", "x"), "");
	want_names(rig_enter(one, "dir-a", "x"), "x");
	want_names(rig_enter(two, "dir-a", "y"), "y");
	want_names(rig_enter(one, "dir-a", "x"), "x");
	want_names(rig_enter(one, "dir-a", "xx"), "xx");
	want_names(rig_read(two, "dir-a"), "x y x xx");
	want_names(rig_read(one, "dir-a"), "x y x xx");
	want_names(rig_leave(two, "dir-a", "z"), "");
	want_names(rig_leave(two, "dir-a", "x"), "x x");
	want_names(rig_read(one, "dir-a"), "y xx");
	want_names(rig_leave(one, "dir-a", "y"), "y");
	want_names(rig_leave(one, "dir-a", "xx"), "xx");
	want_names(rig_read(two, "dir-a"), "");
	/* The broker closed only the two channels that checked a missing queue. */
	ck_assert_uint_eq(rig_counts(one, BROKER_AUXILIARY).channels_closed_by_broker, 2);
	ck_assert_uint_eq(rig_counts(two, BROKER_AUXILIARY).channels_closed_by_broker, 0);
	ck_assert_uint_eq(one->channels_closed, 0);
	ck_assert_uint_eq(rig_counts(one, BROKER_LOCKS).sent_publishes, 0);
}
END_TEST

/* Those of others are skipped, and stay where they are. */
START_TEST(messages_that_are_no_names)
{
	enum { LARGE_BODY = 50000 };
	struct rig_broker *one = rig_open_up();
	struct client *client = client_new();
	char *large = malloc(LARGE_BODY), longest[BROKER_NAME_MAX + 2];
	const struct {
		const char *body;
		size_t len;
	} messages[] = {
	    {"a", 1},
	    {"", 0},
	    {large, LARGE_BODY},
	    {"b\0b", 3},
	    {"b\n", 2},
	    {"\303\244", 2},
	    {longest, BROKER_NAME_MAX + 1},
	    {longest, BROKER_NAME_MAX},
	    {"b", 1},
	};
	static const size_t count = sizeof(messages) / sizeof(*messages);

	memset(large, 'x', LARGE_BODY);
	memset(longest, 'n', sizeof(longest));
	client_want(client_declare(client, "dir-foreign", CLIENT_DIRECTORY), "ok 0 0");
	for (size_t i = 0; i < count; i++) {
		const struct client_message message = {
		    .queue = "dir-foreign", .body = messages[i].body, .len = messages[i].len};

		client_want(client_send(client, &message), "ok");
	}
	longest[BROKER_NAME_MAX] = '\0';
	want_names(rig_leave(one, "dir-foreign", "b"), "b");
	want_names(rig_leave(one, "dir-foreign", "a"), "a");
	want_names(rig_read(one, "dir-foreign"), longest);
	client_want(client_declare(client, "dir-foreign", CLIENT_PASSIVE), "ok 7 0");
	client_want(client_get(client, "dir-foreign"), "got ");
	client_want(client_get(client, "dir-foreign"), "got xxxx");
	client_want(client_delete(client, "dir-foreign", 0), "ok");
	free(large);
}
END_TEST

/* Each message is with one of them: together they see all, and after it all are there. */
START_TEST(two_at_once)
{
	enum { MANY = 500 };
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	unsigned first, second;
	size_t seen;
	char name[32];

	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "name-%d", i);
		(void)rig_enter(one, "dir-two", name);
	}
	want_names(rig_enter(one, "dir-two", "last"), "last");
	rig_want(two, broker_declare_slot, rig_take(two, BROKER_AUXILIARY), "dir-two-A", BROKER_OK);
	first = rig_read(one, "dir-two");
	second = rig_leave(two, "dir-two", "last");
	seen = want_answer(first, BROKER_OK)->names.count;
	ck_assert_uint_le(seen, MANY + 1);
	ck_assert_uint_le(want_answer(second, BROKER_OK)->names.count, 1);
	if (rig_answers[second].names.count == 0)
		want_names(rig_leave(two, "dir-two", "last"), "last");
	ck_assert_uint_eq(want_answer(rig_read(two, "dir-two"), BROKER_OK)->names.count, MANY);
}
END_TEST

/*
 * A message that another client has not acknowledged is invisible. It is put back at its place when
 * that client leaves.
 */
START_TEST(an_entry_that_another_reader_has_is_not_seen)
{
	struct rig_broker *one = rig_open_up();
	struct client *client = client_new();

	want_names(rig_enter(one, "dir-got", "a"), "a");
	want_names(rig_enter(one, "dir-got", "b"), "b");
	client_want(client_get(client, "dir-got"), "got a");
	want_names(rig_read(one, "dir-got"), "b");
	client_close(client);
	want_names(rig_read(one, "dir-got"), "a b");
	client_want(client_delete(client, "dir-got", 0), "ok");
}
END_TEST

/* At any moment of the link's end no entry is lost, except perhaps the one being removed. */
START_TEST(the_link_dies_while_a_name_is_removed)
{
	enum { MANY = 100 };
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	unsigned cut = 0, removed = 0;
	char name[32];

	for (int i = 0; i <= MANY; i++) {
		snprintf(name, sizeof(name), "name-%d", i);
		want_names(rig_enter(two, "dir-cut", name), name);
	}
	for (int passes = 0; removed == 0; passes++) {
		unsigned leave, read;
		size_t there;

		/* The link is up. */
		want_names(rig_read(one, "dir-cut-none"), "");
		leave = rig_leave(one, "dir-cut", "name-50");
		for (int i = 0; i < passes && rig_answers[leave].times == 0; i++)
			rig_pass();
		broker_reset(one->broker, BROKER_AUXILIARY, "cut by the test");
		if (rig_answer(leave)->reply.answer == BROKER_UNKNOWN) {
			ck_assert_uint_eq(rig_answers[leave].names.count, 0);
			cut++;
		} else {
			ck_assert_int_eq(rig_answers[leave].reply.answer, BROKER_OK);
			removed = 1;
		}
		/* The server puts the entries of a dead connection back when it has seen the death. */
		do {
			read = rig_read(two, "dir-cut");
			there = want_answer(read, BROKER_OK)->names.count;
		} while (there < MANY);
		ck_assert_uint_le(there, MANY + 1);
		for (size_t i = 1, at = 1; i < MANY; i++) {
			snprintf(name, sizeof(name), "name-%zu", i);
			if (strcmp(rig_answers[read].names.all[at], name) == 0)
				at++;
			else
				ck_assert_str_eq(name, "name-50");
		}
		if (there == MANY)
			removed = 1;
	}
	ck_assert_uint_gt(cut, 0);
}
END_TEST

static struct rig_broker *asker;

/* Asks on, twice. */
static void
ask_on(unsigned number)
{
	if (rig_answers[number].order == 0)
		(void)rig_enter(asker, "dir-on", "b");
	else if (rig_answers[number].order == 1)
		(void)rig_read(asker, "dir-on");
}

START_TEST(asked_from_inside_an_answer)
{
	unsigned first;

	asker = rig_open_up();
	rig_reaction = ask_on;
	first = rig_enter(asker, "dir-on", "a");
	want_names(first, "a");
	want_names(first + 1, "b");
	want_names(first + 2, "a b");
}
END_TEST

static void
stop(unsigned number)
{
	(void)number;
	broker_stop(asker->broker);
}

START_TEST(stopped_from_inside_an_answer)
{
	unsigned first;

	asker = rig_open_up();
	rig_reaction = stop;
	first = rig_enter(asker, "dir-stop", "a");
	(void)rig_read(asker, "dir-stop");
	rig_wait(rig_answers[first].times + rig_answers[first + 1].times > 0);
	rig_pass_for(100 * NSEC_PER_MSEC);
	ck_assert_uint_eq(rig_answers[first].times + rig_answers[first + 1].times, 1);
	(void)rig_read(asker, "dir-stop");
	rig_pass_for(100 * NSEC_PER_MSEC);
	ck_assert_uint_eq(rig_answers[first + 2].times, 0);
}
END_TEST

START_TEST(refused_where_the_queue_is_another)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	struct client *client = client_new();
	const struct rig_answer *answer;

	rig_want(two, rig_claim, rig_take(two, BROKER_LOCKS), "dir-exclusive", BROKER_OK);
	answer = want_answer(rig_read(one, "dir-exclusive"), BROKER_REFUSED);
	ck_assert_int_eq(answer->reply.code, 405);
	answer = want_answer(rig_leave(one, "dir-exclusive", "a"), BROKER_REFUSED);
	ck_assert_int_eq(answer->reply.code, 405);
	answer = want_answer(rig_enter(one, "dir-exclusive", "a"), BROKER_REFUSED);
	ck_assert_int_eq(answer->reply.code, 405);
	client_want(client_declare(client, "dir-transient", CLIENT_TRANSIENT), "ok 0 0");
	client_want(client_publish(client, "dir-transient", "a"), "ok");
	/* It can be read, but it is no place for a name. */
	want_names(rig_read(one, "dir-transient"), "a");
	answer = want_answer(rig_enter(one, "dir-transient", "b"), BROKER_REFUSED);
	ck_assert_int_eq(answer->reply.code, 406);
	ck_assert_ptr_nonnull(strstr(answer->text, "inequivalent arg 'durable'"));
	want_names(rig_read(one, "dir-transient"), "a");
	want_names(rig_leave(one, "dir-transient", "a"), "a");
	answer = want_answer(rig_enter(one, "amq.reserved", "a"), BROKER_REFUSED);
	ck_assert_int_eq(answer->reply.code, 403);
	client_want(client_delete(client, "dir-transient", 0), "ok");
}
END_TEST

/* While the server takes no messages, an entry fails, and names are read and removed. */
START_TEST(nobody_enters_during_an_alarm)
{
	struct rig_broker *one = rig_open_up();
	const char *queue = "dir-alarm";
	const struct rig_answer *answer;

	want_names(rig_enter(one, queue, "a"), "a");
	server->alarm(true);
	(void)rig_probe(one, &queue, 1);
	rig_wait(rig_info(one).auxiliary_blocked);
	answer = want_answer(rig_enter(one, queue, "b"), BROKER_UNKNOWN);
	ck_assert_str_eq(answer->text, BROKER_ALARM_WORDS);
	server->alarm(false);
	rig_wait(!rig_info(one).auxiliary_blocked);
	want_names(rig_read(one, queue), "a");
	want_names(rig_leave(one, queue, "a"), "a");
}
END_TEST

Suite *
directory_suite(void)
{
	Suite *suite = suite_create("directory");
	TCase *tcase = server_tcase(suite, "directory");

	tcase_add_test(tcase, entered_read_and_left);
	tcase_add_test(tcase, messages_that_are_no_names);
	tcase_add_test(tcase, two_at_once);
	tcase_add_test(tcase, an_entry_that_another_reader_has_is_not_seen);
	tcase_add_test(tcase, the_link_dies_while_a_name_is_removed);
	tcase_add_test(tcase, asked_from_inside_an_answer);
	tcase_add_test(tcase, stopped_from_inside_an_answer);
	tcase_add_test(tcase, refused_where_the_queue_is_another);
	tcase_add_test(tcase, nobody_enters_during_an_alarm);
	return suite;
}
