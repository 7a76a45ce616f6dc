/*
 * The directory of names over RabbitMQ: entries that are read, added and removed, also in trouble.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/broker/amqp_rig.h"
#include "tests/broker/foreign.h"

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

START_TEST(test_enter_read_leave)
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

/* More gets than are on their way at once; the whole is put back as it was, again and again. */
START_TEST(test_three_thousand_names)
{
	enum { MANY = 3000 };
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	char name[32];

	foreign_open();
	foreign_declare("dir-many", true, "classic", false);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "name-%d", i);
		foreign_publish("dir-many", name, strlen(name));
	}
	foreign_close();
	for (int round = 0; round < 4; round++) {
		struct rig_broker *rig = round % 2 == 0 ? one : two;
		const struct rig_answer *all = want_answer(rig_read(rig, "dir-many"), BROKER_OK);
		/* Two of them are gone from the second round on, and one is at the end. */
		int gone = round == 0 ? 0 : 2;

		ck_assert_uint_eq(all->names.count, MANY - gone + round);
		for (int i = 0, at = 0; i < MANY; i++) {
			if (gone != 0 && (i == 0 || i == 1500))
				continue;
			snprintf(name, sizeof(name), "name-%d", i);
			ck_assert_str_eq(all->names.all[at++], name);
		}
		if (round == 0) {
			want_names(rig_leave(two, "dir-many", "name-1500"), "name-1500");
			want_names(rig_leave(two, "dir-many", "name-0"), "name-0");
		}
		want_names(rig_enter(rig, "dir-many", "new"), "new");
	}
}
END_TEST

/* Those of others are skipped, and stay where they are. */
START_TEST(test_messages_that_are_no_names)
{
	enum { HUGE_BODY = 300000 };
	struct rig_broker *one = rig_open_up();
	char *body = malloc(HUGE_BODY), longest[BROKER_NAME_MAX + 2];

	memset(body, 'x', HUGE_BODY);
	memset(longest, 'n', sizeof(longest));
	longest[BROKER_NAME_MAX + 1] = '\0';
	foreign_open();
	foreign_declare("dir-foreign", true, "classic", false);
	foreign_publish("dir-foreign", "a", 1);
	foreign_publish("dir-foreign", "", 0);
	foreign_publish("dir-foreign", body, HUGE_BODY);
	foreign_publish("dir-foreign", "b\0b", 3);
	foreign_publish("dir-foreign", "b\n", 2);
	foreign_publish("dir-foreign", "\303\244", 2);
	foreign_publish("dir-foreign", longest, BROKER_NAME_MAX + 1);
	foreign_publish("dir-foreign", longest, BROKER_NAME_MAX);
	foreign_publish("dir-foreign", "b", 1);
	foreign_close();
	longest[BROKER_NAME_MAX] = '\0';
	want_names(rig_leave(one, "dir-foreign", "b"), "b");
	want_names(rig_leave(one, "dir-foreign", "a"), "a");
	want_names(rig_read(one, "dir-foreign"), longest);
	foreign_open();
	foreign_get("dir-foreign", 7);
	foreign_close();
	free(body);
}
END_TEST

/* Each message is with one of them: together they see all, and after it all are there. */
START_TEST(test_two_at_once)
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
 * A message that another client has not acknowledged is invisible. It is put back when that client
 * leaves.
 */
START_TEST(test_entry_that_another_reader_has_is_not_seen)
{
	struct rig_broker *one = rig_open_up();

	want_names(rig_enter(one, "dir-got", "a"), "a");
	want_names(rig_enter(one, "dir-got", "b"), "b");
	foreign_open();
	foreign_get("dir-got", 1);
	want_names(rig_read(one, "dir-got"), "b");
	foreign_close();
	want_names(rig_read(one, "dir-got"), "a b");
}
END_TEST

/* At any moment of the link's end no entry is lost, except perhaps the one being removed. */
START_TEST(test_the_link_dies_while_a_name_is_removed)
{
	enum { MANY = 400 };
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	unsigned cut = 0, removed = 0;
	char name[32];

	foreign_open();
	foreign_declare("dir-cut", true, "classic", false);
	for (int i = 0; i <= MANY; i++) {
		snprintf(name, sizeof(name), "name-%d", i);
		foreign_publish("dir-cut", name, strlen(name));
	}
	foreign_close();
	for (int passes = 0; removed == 0; passes++) {
		unsigned leave = rig_leave(one, "dir-cut", "name-200"), read;
		size_t there;

		for (int i = 0; i < passes && rig_answers[leave].times == 0; i++)
			rig_pass();
		broker_reset(one->broker, BROKER_AUXILIARY, "cut by the test");
		if (rig_answer(leave)->reply.answer == BROKER_UNKNOWN) {
			ck_assert_uint_eq(rig_answers[leave].names.count, 0);
			cut++;
		} else {
			ck_assert_int_eq(rig_answers[leave].reply.answer, BROKER_OK);
			removed = passes;
		}
		/* RabbitMQ puts back what a dead connection had when it has seen its death. */
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
				ck_assert_str_eq(name, "name-200");
		}
		if (there == MANY)
			removed = passes;
	}
	ck_assert_uint_gt(cut, 0);
	ck_assert_uint_gt(removed, 0);
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

START_TEST(test_asked_from_inside_an_answer)
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

START_TEST(test_refused)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	const struct rig_answer *answer;

	rig_want(two, rig_claim, rig_take(two, BROKER_LOCKS), "dir-exclusive", BROKER_OK);
	answer = want_answer(rig_read(one, "dir-exclusive"), BROKER_REFUSED);
	ck_assert_int_eq(answer->reply.code, 405);
	answer = want_answer(rig_leave(one, "dir-exclusive", "a"), BROKER_REFUSED);
	ck_assert_int_eq(answer->reply.code, 405);
	answer = want_answer(rig_enter(one, "dir-exclusive", "a"), BROKER_REFUSED);
	ck_assert_int_eq(answer->reply.code, 405);
	foreign_open();
	foreign_declare("dir-transient", false, "classic", false);
	foreign_publish("dir-transient", "a", 1);
	foreign_close();
	/* Read it can be; but it is no place for a name. */
	want_names(rig_read(one, "dir-transient"), "a");
	answer = want_answer(rig_enter(one, "dir-transient", "b"), BROKER_REFUSED);
	ck_assert_int_eq(answer->reply.code, 406);
	ck_assert_ptr_nonnull(strstr(answer->text, "inequivalent arg 'durable'"));
	want_names(rig_read(one, "dir-transient"), "a");
	want_names(rig_leave(one, "dir-transient", "a"), "a");
	answer = want_answer(rig_enter(one, "amq.reserved", "a"), BROKER_REFUSED);
	ck_assert_int_eq(answer->reply.code, 403);
}
END_TEST

/* Queues of administration that others declared: used as they are, and the difference is said. */
START_TEST(test_markers_and_slots_of_others)
{
	struct rig_broker *one = rig_open_up();
	uint64_t channel = rig_take(one, BROKER_AUXILIARY);
	const struct rig_answer *answer;

	rig_want(one, broker_declare_marker, channel, "marker-U", BROKER_OK);
	rig_want(one, broker_declare_marker, channel, "marker-U", BROKER_OK);
	rig_want(one, broker_check, channel, "marker-U", BROKER_OK);
	rig_want(one, broker_delete_slot, channel, "marker-U", BROKER_OK);
	foreign_open();
	foreign_declare("marker-U", true, "quorum", true);
	foreign_declare("marker-1-A", false, NULL, true);
	answer = want_answer(rig_ask(one, broker_declare_marker, channel, "marker-U"), BROKER_OK);
	ck_assert(!answer->reply.channel_open);
	ck_assert_int_eq(answer->reply.code, 406);
	/* It said what it wants. */
	ck_assert_ptr_nonnull(strstr(answer->text, "inequivalent arg 'x-queue-type'"));
	ck_assert_ptr_nonnull(strstr(answer->text, "'classic'"));
	channel = rig_take(one, BROKER_AUXILIARY);
	answer = want_answer(rig_ask(one, broker_declare_slot, channel, "marker-1-A"), BROKER_OK);
	ck_assert_int_eq(answer->reply.code, 406);
	ck_assert_ptr_nonnull(strstr(answer->text, "inequivalent arg 'durable'"));
	foreign_delete("marker-U");
	foreign_close();
}
END_TEST

/* The tenth of a second that it takes was minutes, when it was put back by nacks. */
START_TEST(test_more_than_may_be)
{
	struct rig_broker *one = rig_open_up();
	const struct rig_answer *answer;

	foreign_open();
	foreign_declare("dir-full", true, "classic", false);
	for (int i = 0; i < BROKER_DIRECTORY_MAX; i++)
		foreign_publish("dir-full", "a", 1);
	foreign_flush("dir-full");
	want_answer(rig_enter(one, "dir-full", "b"), BROKER_OK);
	answer = want_answer(rig_read(one, "dir-full"), BROKER_REFUSED);
	ck_assert_str_eq(answer->text, "the queue has more than 20000 messages");
	want_answer(rig_leave(one, "dir-full", "b"), BROKER_REFUSED);
	foreign_get("dir-full", 1);
	answer = want_answer(rig_read(one, "dir-full"), BROKER_OK);
	ck_assert_uint_eq(answer->names.count, BROKER_DIRECTORY_MAX);
	foreign_delete("dir-full");
	foreign_close();
}
END_TEST

/* The directory survives a restart. While the broker accepts no messages, an enter fails. */
START_TEST(test_alarm_and_restart)
{
	struct rig_broker *one = rig_open_up();
	const char *queue = "dir-restart";
	const struct rig_answer *answer;

	want_names(rig_enter(one, queue, "a"), "a");
	rig_rabbit("ctl set_vm_memory_high_watermark 0");
	(void)rig_probe(one, &queue, 1);
	rig_wait(rig_info(one).auxiliary_blocked);
	answer = want_answer(rig_enter(one, queue, "b"), BROKER_UNKNOWN);
	ck_assert_str_eq(answer->text, BROKER_ALARM_WORDS);
	rig_rabbit("ctl set_vm_memory_high_watermark 0.4");
	rig_wait(!rig_info(one).auxiliary_blocked);
	want_names(rig_read(one, queue), "a");
	/* In order: a killed node may lose messages that it has just paged out. */
	rig_rabbit("stop");
	rig_wait(one->state[BROKER_LOCKS] == BROKER_DOWN);
	rig_rabbit("start");
	rig_wait_for(60, one->state[BROKER_LOCKS] == BROKER_UP);
	want_names(rig_read(one, queue), "a");
}
END_TEST

Suite *
directory_suite(void)
{
	Suite *suite = suite_create("directory");
	TCase *tcase = tcase_create("directory");

	tcase_add_checked_fixture(tcase, rig_setup, rig_teardown);
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, test_enter_read_leave);
	tcase_add_test(tcase, test_three_thousand_names);
	tcase_add_test(tcase, test_messages_that_are_no_names);
	tcase_add_test(tcase, test_two_at_once);
	tcase_add_test(tcase, test_entry_that_another_reader_has_is_not_seen);
	tcase_add_test(tcase, test_the_link_dies_while_a_name_is_removed);
	tcase_add_test(tcase, test_asked_from_inside_an_answer);
	tcase_add_test(tcase, test_refused);
	tcase_add_test(tcase, test_markers_and_slots_of_others);
	tcase_add_test(tcase, test_more_than_may_be);
	tcase_add_test(tcase, test_alarm_and_restart);
	suite_add_tcase(suite, tcase);
	return suite;
}
