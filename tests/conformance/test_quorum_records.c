/*
 * The records of the way quorum: they are read, written and removed, by one administrator at a time, also in
 * trouble. All cases share one queue, which each makes anew.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/broker/beads.h"
#include "daemon/broker/make.h"
#include "daemon/broker/records.h"
#include "tests/conformance/client.h"
#include "tests/conformance/server.h"

#define T BEAD_GRACE_LEAST
#define QUEUE AMQP_RECORDS_QUEUE

/* There is no queue. The client is another program. */
static struct client *
begin_without_queue(void)
{
	struct client *client = client_new();

	client_want(client_delete(client, QUEUE, 0), "ok");
	return client;
}

static struct client *
begin_with_queue(void)
{
	struct client *client = begin_without_queue();

	client_want(client_declare_quorum(client, QUEUE, &(struct client_quorum){0}), "ok 0 0");
	return client;
}

/* The queue has a floor, so that it is not young. */
static struct client *
begin(void)
{
	struct client *client = begin_with_queue();

	client_want(client_publish(client, QUEUE, "floor 1"), "ok");
	return client;
}

#define want_answer(number, wanted)                                                                \
	do {                                                                                       \
		const struct rig_answer *given = rig_answer(number);                               \
		ck_assert_msg(given->reply.answer == (wanted), "line %d: answer %d, not %d: %s",   \
		    __LINE__, given->reply.answer, (wanted), given->text);                         \
	} while (0)

static uint64_t
open_ok(struct rig_broker *rig)
{
	uint64_t session;

	want_answer(rig_records_open(rig, &session), BROKER_OK);
	return session;
}

static void
close_records(struct rig_broker *rig, uint64_t session)
{
	broker_records_close(rig->broker, session);
}

static struct broker_record
record_of(const char *name, unsigned size, uint64_t epoch)
{
	struct broker_record record = {.size = size, .epoch = epoch, .grace = T};

	snprintf(record.name, sizeof(record.name), "%s", name);
	return record;
}

static unsigned
ask_set(struct rig_broker *rig, uint64_t session, const char *name, unsigned size, uint64_t epoch)
{
	struct broker_record record = record_of(name, size, epoch);

	return rig_records_set(rig, session, &record, 0);
}

static void
set(struct rig_broker *rig, uint64_t session, const char *name, unsigned size, uint64_t epoch)
{
	want_answer(ask_set(rig, session, name, size, epoch), BROKER_OK);
}

static void
want_record(
    struct rig_broker *rig, uint64_t session, const char *name, unsigned size, uint64_t epoch)
{
	const struct broker_record *record = broker_records_find(rig->broker, session, name);

	if (epoch == 0) {
		ck_assert_ptr_null(record);
		return;
	}
	ck_assert_ptr_nonnull(record);
	ck_assert_str_eq(record->name, name);
	ck_assert_uint_eq(record->size, size);
	ck_assert_uint_eq(record->epoch, epoch);
	ck_assert_int_eq(record->grace, T);
}

static void
want_floor(struct rig_broker *rig, uint64_t session, uint64_t floor)
{
	ck_assert_uint_eq(broker_records_floor(rig->broker, session), floor);
}

/* The closing of a channel is not answered: the broker performs it soon. */
static void
wait_for_messages(struct client *client, unsigned messages)
{
	char words[32];

	snprintf(words, sizeof(words), "ok %u 0", messages);
	rig_wait(strcmp(client_declare(client, QUEUE, CLIENT_PASSIVE), words) == 0);
}

/* ---- one administrator ---- */

/* It is perhaps young, so that it could lose the first messages. */
START_TEST(a_new_queue_has_no_records_and_rests)
{
	struct client *client = begin_without_queue();
	struct rig_broker *one = rig_open_up();
	int64_t began = rig_now();
	uint64_t session = open_ok(one);

	ck_assert_int_ge(rig_now() - began, AMQP_QUORUM_QUEUE_REST);
	want_record(one, session, "a", 0, 0);
	want_floor(one, session, 0);
	close_records(one, session);
	wait_for_messages(client, 0);
	ck_assert_uint_eq(one->records_lost, 0);
}
END_TEST

START_TEST(another_daemon_reads_what_was_written)
{
	struct client *client = begin();
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	uint64_t session = open_ok(one);
	char longest[BROKER_NAME_MAX + 1];

	memset(longest, 'n', BROKER_NAME_MAX);
	longest[BROKER_NAME_MAX] = '\0';
	set(one, session, "a", 1, 7);
	want_record(one, session, "a", 1, 7);
	want_floor(one, session, 7);
	set(one, session, longest, 10000, BEAD_EPOCH_MOST - 1);
	set(one, session, "b", 3, 9);
	set(one, session, "a", 2, 9);
	/* The epoch stays. */
	set(one, session, "a", 0, 9);
	want_answer(rig_records_remove(one, session, "b", BEAD_EPOCH_MOST), BROKER_OK);
	want_record(one, session, "b", 0, 0);
	close_records(one, session);

	session = open_ok(two);
	want_record(two, session, "a", 0, 9);
	want_record(two, session, longest, 10000, BEAD_EPOCH_MOST - 1);
	want_record(two, session, "b", 0, 0);
	want_floor(two, session, BEAD_EPOCH_MOST);
	want_answer(rig_records_remove(two, session, longest, 0), BROKER_OK);
	close_records(two, session);
	session = open_ok(one);
	want_record(one, session, longest, 0, 0);
	want_record(one, session, "a", 0, 9);
	close_records(one, session);
	/* "a" and the floor. */
	wait_for_messages(client, 2);
	ck_assert_uint_eq(one->records_lost + two->records_lost, 0);
}
END_TEST

/* Such a write is answered as any other, as the caller learns that it has the lock. */
START_TEST(nothing_is_published_if_nothing_changes)
{
	struct client *client = begin();
	struct rig_broker *one = rig_open_up();
	uint64_t session = open_ok(one);

	set(one, session, "a", 1, 7);
	set(one, session, "a", 1, 7);
	want_answer(rig_records_set(one, session, NULL, 7), BROKER_OK);
	want_answer(rig_records_remove(one, session, "b", 7), BROKER_OK);
	close_records(one, session);
	wait_for_messages(client, 2);
}
END_TEST

START_TEST(the_floor_never_falls)
{
	struct client *client = begin();
	struct rig_broker *one = rig_open_up();
	uint64_t session = open_ok(one);
	struct broker_record record = record_of("a", 1, 7);

	want_answer(rig_records_set(one, session, &record, 20), BROKER_OK);
	want_floor(one, session, 20);
	want_answer(rig_records_set(one, session, NULL, 19), BROKER_OK);
	record.size = 2;
	want_answer(rig_records_set(one, session, &record, 0), BROKER_OK);
	want_answer(rig_records_remove(one, session, "a", 5), BROKER_OK);
	want_floor(one, session, 20);
	close_records(one, session);
	session = open_ok(one);
	want_floor(one, session, 20);
	want_answer(rig_records_set(one, session, NULL, 21), BROKER_OK);
	close_records(one, session);
	wait_for_messages(client, 1);
	want_floor(one, open_ok(one), 21);
}
END_TEST

START_TEST(records_outlive_a_restart)
{
	struct rig_broker *one;
	uint64_t session;

	begin();
	client_end_all();
	one = rig_open_up();
	session = open_ok(one);
	set(one, session, "a", 1, 7);
	server->restart();
	rig_wait(one->records_lost == 1);
	rig_wait(one->state[BROKER_LOCKS] == BROKER_UP);
	session = open_ok(one);
	want_record(one, session, "a", 1, 7);
	want_floor(one, session, 7);
}
END_TEST

/* ---- writers that died ---- */

static const struct left {
	const char *messages[5];
	unsigned size;
	uint64_t epoch, floor;
} left[] = {
    {{"floor 7", "name a size 1 epoch 7 grace 5000", "floor 9", "name a size 2 epoch 9 grace 5000"},
	2, 9, 9},
    {{"floor 9", "name a size 2 epoch 9 grace 5000", "name a size 1 epoch 7 grace 5000", "floor 7"},
	2, 9, 9},
    {{"floor 7", "name a size 1 epoch 7 grace 5000", "name a size 3 epoch 7 grace 5000"}, 3, 7, 7},
    {{"floor 7", "name a size 1 epoch 7 grace 5000", "floor 9"}, 1, 7, 9},
    {{"floor 7", "floor 7", "name a size 1 epoch 7 grace 5000", "name a size 1 epoch 7 grace 5000"},
	1, 7, 7},
};

START_TEST(of_what_a_dead_writer_left_the_newer_counts)
{
	const struct left *case_of = &left[_i];
	struct client *client = begin_with_queue();
	struct rig_broker *one = rig_open_up();
	uint64_t session;

	for (size_t i = 0; case_of->messages[i] != NULL; i++)
		client_want(client_publish(client, QUEUE, case_of->messages[i]), "ok");
	for (int i = 0; i < 2; i++) {
		session = open_ok(one);
		want_record(one, session, "a", case_of->size, case_of->epoch);
		want_floor(one, session, case_of->floor);
		close_records(one, session);
		wait_for_messages(client, 2);
	}
}
END_TEST

/* At any moment of the connection's end: there is always a record. A write that was answered OK is there. */
START_TEST(the_connection_ends_while_a_record_is_written)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	const struct broker_record *record;
	unsigned unknown = 0, asked;
	uint64_t session, epoch = 1;
	bool written = false;

	begin();
	session = open_ok(two);
	set(two, session, "a", 1, epoch);
	close_records(two, session);
	for (int passes = 0; !written; passes++) {
		session = open_ok(one);
		asked = ask_set(one, session, "a", 1, ++epoch);
		for (int i = 0; i < passes && rig_answers[asked].times == 0; i++)
			rig_pass();
		broker_reset(one->broker, BROKER_AUXILIARY, "cut by the test");
		written = rig_answer(asked)->reply.answer == BROKER_OK;
		ck_assert(written || rig_answers[asked].reply.answer == BROKER_UNKNOWN);
		unknown += !written;
		rig_wait(one->records_lost == (unsigned)passes + 1);
		ck_assert_uint_eq(one->lost_session, session);
		close_records(one, session);

		session = open_ok(two);
		record = broker_records_find(two->broker, session, "a");
		ck_assert_ptr_nonnull(record);
		ck_assert(record->epoch == epoch || (!written && record->epoch < epoch));
		ck_assert_uint_ge(broker_records_floor(two->broker, session), record->epoch);
		close_records(two, session);
	}
	ck_assert_uint_gt(unknown, 0);
}
END_TEST

/* ---- two administrators ---- */

START_TEST(a_second_administrator_waits_and_then_has_the_lock)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	uint64_t first, second;
	unsigned asked;

	begin();
	first = open_ok(one);
	set(one, first, "a", 1, 7);
	asked = rig_records_open(two, &second);
	for (uint64_t epoch = 8; epoch < 20; epoch++)
		set(one, first, "a", 1, epoch);
	want_answer(rig_records_remove(one, first, "a", 0), BROKER_OK);
	set(one, first, "b", 2, 20);
	ck_assert_uint_eq(rig_answers[asked].times, 0);
	close_records(one, first);
	want_answer(asked, BROKER_OK);
	want_record(two, second, "a", 0, 0);
	want_record(two, second, "b", 2, 20);
	want_floor(two, second, 20);
	set(two, second, "b", 3, 21);
	ck_assert_uint_eq(one->records_lost + two->records_lost, 0);
}
END_TEST

START_TEST(it_has_the_lock_when_the_first_daemon_is_gone)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	uint64_t first, second;
	unsigned asked;

	begin();
	first = open_ok(one);
	set(one, first, "a", 1, 7);
	asked = rig_records_open(two, &second);
	set(one, first, "a", 2, 8);
	(void)ask_set(one, first, "a", 3, 9);
	broker_stop(one->broker);
	want_answer(asked, BROKER_OK);
	ck_assert_uint_ge(broker_records_find(two->broker, second, "a")->epoch, 8);
}
END_TEST

START_TEST(it_does_not_wait_for_ever)
{
	const struct amqp_host host = rig_host();
	struct amqp_settings settings = rig_settings(&host, 1);
	struct rig_broker *one = rig_open_up(), *two;
	uint64_t first, second;
	unsigned asked;

	begin();
	settings.connect_timeout = 5 * NSEC_PER_SEC;
	two = rig_open(&settings);
	rig_wait(two->state[BROKER_LOCKS] == BROKER_UP);
	/* Its auxiliary connection is up. */
	rig_want(two, broker_declare_slot, rig_take(two, BROKER_AUXILIARY), "records-A", BROKER_OK);
	first = open_ok(one);
	asked = rig_records_open(two, &second);
	want_answer(asked, BROKER_LOCKED);
	ck_assert_str_eq(
	    rig_answers[asked].text, "another administrator works on slots held by quorum");
	set(one, first, "a", 1, 7);
	/* It is gone. */
	close_records(two, second);
	want_record(two, second, "a", 0, 0);
}
END_TEST

/* Two sessions of one daemon are two administrators. */
START_TEST(a_session_that_waits_can_be_closed)
{
	struct rig_broker *one = rig_open_up();
	uint64_t first, second, third;
	unsigned asked;

	begin();
	first = open_ok(one);
	set(one, first, "a", 1, 7);
	asked = rig_records_open(one, &second);
	(void)rig_records_open(one, &third);
	set(one, first, "a", 1, 8);
	close_records(one, second);
	close_records(one, third);
	set(one, first, "a", 1, 9);
	close_records(one, first);
	want_record(one, open_ok(one), "a", 1, 9);
	ck_assert_uint_eq(rig_answers[asked].times, 0);
}
END_TEST

/* A mark that somebody else removed does not come. The session begins again. */
START_TEST(a_lost_mark_is_published_again)
{
	struct client *client = begin_with_queue();
	struct rig_broker *one = rig_open_up();
	uint64_t session;
	char mark[32];
	unsigned asked;

	client_want(client_publish(client, QUEUE, "floor 7"), "ok");
	client_want(client_attach(client, QUEUE, 10), "ok");
	client_want(client_next(client), "floor 7 0 0");
	asked = rig_records_open(one, &session);
	snprintf(mark, sizeof(mark), "%.20s", client_next(client));
	ck_assert_int_eq(strncmp(mark, "mark ", 5), 0);
	client_ack(client, mark);
	client_close(client);
	want_answer(asked, BROKER_OK);
	want_floor(one, session, 7);
}
END_TEST

/* ---- the end of the lock ---- */

START_TEST(the_end_of_the_connection_is_told)
{
	struct rig_broker *one = rig_open_up();
	uint64_t session;
	unsigned asked;

	begin();
	session = open_ok(one);
	set(one, session, "a", 1, 7);
	broker_reset(one->broker, BROKER_AUXILIARY, "cut by the test");
	rig_wait(one->records_lost == 1);
	ck_assert_uint_eq(one->lost_session, session);
	asked = ask_set(one, session, "a", 1, 8);
	want_answer(asked, BROKER_SKIPPED);
	want_record(one, session, "a", 0, 0);
	close_records(one, session);
	/* Each is a session of its own. */
	session = open_ok(one);
	want_record(one, session, "a", 1, 7);
	ck_assert_uint_eq(one->records_lost, 1);
}
END_TEST

START_TEST(a_deleted_queue_is_told)
{
	struct client *client = begin();
	struct rig_broker *one = rig_open_up();
	uint64_t session = open_ok(one);

	set(one, session, "a", 1, 7);
	client_want(client_delete(client, QUEUE, 0), "ok");
	rig_wait(one->records_lost == 1);
	ck_assert_str_eq(one->lost_why, "the broker ended the consumer");
	close_records(one, session);
	session = open_ok(one);
	want_record(one, session, "a", 0, 0);
	want_floor(one, session, 0);
}
END_TEST

/* Only a session that believes in the lock publishes one. */
START_TEST(a_record_of_somebody_else_ends_the_session)
{
	static const char *const others[] = {"name b size 1 epoch 8 grace 5000", "floor 8"};
	struct client *client = begin();
	struct rig_broker *one = rig_open_up();
	uint64_t session = open_ok(one);

	set(one, session, "a", 1, 7);
	client_want(client_publish(client, QUEUE, others[_i]), "ok");
	rig_wait(one->records_lost == 1);
	close_records(one, session);
	session = open_ok(one);
	want_record(one, session, "a", 1, 7);
	if (_i == 0)
		want_record(one, session, "b", 1, 8);
	else
		want_floor(one, session, 8);
}
END_TEST

/* ---- other messages ---- */

static void
publish_foreign(struct client *client)
{
	char large[300];

	memset(large, 'x', sizeof(large) - 1);
	large[sizeof(large) - 1] = '\0';
	client_want(client_publish(client, QUEUE, ""), "ok");
	client_want(client_publish(client, QUEUE, "hello"), "ok");
	client_want(client_publish(client, QUEUE, large), "ok");
	client_want(client_publish(client, QUEUE, "floor 0"), "ok");
	client_want(client_publish(client, QUEUE, "name x-A size 1 epoch 7 grace 5000"), "ok");
}
enum { FOREIGN = 5 };

START_TEST(foreign_messages_stay)
{
	struct client *client = begin_with_queue();
	struct rig_broker *one = rig_open_up();
	uint64_t session;

	publish_foreign(client);
	session = open_ok(one);
	want_floor(one, session, 0);
	set(one, session, "a", 1, 7);
	publish_foreign(client);
	set(one, session, "a", 2, 8);
	ck_assert_uint_eq(one->records_lost, 0);
	close_records(one, session);
	wait_for_messages(client, 2 * FOREIGN + 2);
	session = open_ok(one);
	want_record(one, session, "a", 2, 8);
	want_floor(one, session, 8);
}
END_TEST

/* Marks of sessions that are dead do not pile up. */
START_TEST(a_returned_mark_is_removed)
{
	struct client *client = begin_with_queue();
	struct rig_broker *one = rig_open_up();

	client_want(client_publish(client, QUEUE, "floor 7"), "ok");
	client_want(client_publish(client, QUEUE, "mark 00000000000000ff"), "ok");
	/* It could be the mark of a session that waits. */
	close_records(one, open_ok(one));
	wait_for_messages(client, 2);
	close_records(one, open_ok(one));
	wait_for_messages(client, 1);
}
END_TEST

START_TEST(too_many_messages_are_refused)
{
	struct client *client = begin_with_queue();
	struct rig_broker *one = rig_open_up();
	uint64_t session;
	unsigned asked;

	client_want(client_publish(client, QUEUE, "floor 7"), "ok");
	for (int i = 1; i < BROKER_DIRECTORY_MAX; i++)
		client_put(client, QUEUE, "x");
	client_want(client_publish(client, QUEUE, "name a size 1 epoch 7 grace 5000"), "ok");
	asked = rig_records_open(one, &session);
	want_answer(asked, BROKER_REFUSED);
	ck_assert_str_eq(rig_answers[asked].text, "the queue has more than 20000 messages");
	/* One fewer can be read. No record comes in, but each can be removed. */
	client_want(client_attach(client, QUEUE, 1), "ok");
	client_want(client_next(client), "floor 7");
	client_ack(client, "floor 7");
	client_close(client);
	/* The mark of the attempt is there, too. */
	wait_for_messages(client, BROKER_DIRECTORY_MAX + 1);
	session = open_ok(one);
	want_record(one, session, "a", 1, 7);
	want_answer(ask_set(one, session, "b", 1, 8), BROKER_REFUSED);
	want_answer(rig_records_remove(one, session, "a", 8), BROKER_OK);
	ck_assert_uint_eq(one->records_lost, 0);
	client_want(client_delete(client, QUEUE, 0), "ok");
}
END_TEST

/* ---- refusals ---- */

/* The session goes on afterwards. */
START_TEST(nothing_is_written_during_an_alarm)
{
	struct rig_broker *one = rig_open_up();
	const char *any = "records-none";
	uint64_t session, second;
	unsigned asked[3];

	begin();
	session = open_ok(one);
	set(one, session, "a", 1, 7);
	server->alarm(true);
	(void)rig_probe(one, &any, 1);
	rig_wait(rig_info(one).auxiliary_blocked);
	asked[0] = ask_set(one, session, "a", 1, 8);
	asked[1] = rig_records_open(one, &second);
	for (int i = 0; i < 2; i++) {
		want_answer(asked[i], BROKER_UNKNOWN);
		ck_assert_str_eq(rig_answers[asked[i]].text, BROKER_ALARM_WORDS);
	}
	asked[2] = rig_records_remove(one, session, "a", 0);
	want_answer(asked[2], BROKER_UNKNOWN);
	server->alarm(false);
	rig_wait(!rig_info(one).auxiliary_blocked);
	want_record(one, session, "a", 1, 7);
	set(one, session, "a", 1, 9);
	ck_assert_uint_eq(one->records_lost, 0);
}
END_TEST

START_TEST(a_missing_permission_is_told)
{
	struct rig_broker *one = rig_open_up();
	uint64_t session;
	unsigned asked;

	begin();
	server->permit(false);
	asked = rig_records_open(one, &session);
	want_answer(asked, BROKER_REFUSED);
	ck_assert_int_eq(rig_answers[asked].reply.code, 403);
	server->permit(true);
}
END_TEST

START_TEST(another_queue_of_that_name_is_refused)
{
	struct client *client = begin_without_queue();
	struct rig_broker *one = rig_open_up();
	uint64_t session;
	unsigned asked;

	client_want(client_declare(client, QUEUE, CLIENT_DIRECTORY), "ok");
	asked = rig_records_open(one, &session);
	want_answer(asked, BROKER_REFUSED);
	ck_assert_int_eq(rig_answers[asked].reply.code, 406);
	client_want(client_delete(client, QUEUE, 0), "ok");
}
END_TEST

/* ---- calls from inside an answer ---- */

static struct rig_broker *asker;
static uint64_t asker_session;

static void
close_in_answer(unsigned number)
{
	(void)number;
	close_records(asker, asker_session);
}

START_TEST(closed_from_inside_an_answer)
{
	begin();
	asker = rig_open_up();
	asker_session = open_ok(asker);
	rig_reaction = close_in_answer;
	set(asker, asker_session, "a", 1, 7);
	want_answer(rig_records_open(asker, &asker_session), BROKER_OK);
	rig_reaction = NULL;
	want_record(asker, open_ok(asker), "a", 1, 7);
}
END_TEST

static void
stop_in_answer(unsigned number)
{
	(void)number;
	broker_stop(asker->broker);
}

START_TEST(stopped_from_inside_an_answer)
{
	uint64_t second;
	unsigned other;

	begin();
	asker = rig_open_up();
	asker_session = open_ok(asker);
	other = rig_records_open(asker, &second);
	rig_reaction = stop_in_answer;
	set(asker, asker_session, "a", 1, 7);
	rig_pass_for(100 * NSEC_PER_MSEC);
	ck_assert_uint_eq(rig_answers[other].times, 0);
	ck_assert_uint_eq(asker->records_lost, 0);
}
END_TEST

Suite *
quorum_records_suite(void)
{
	Suite *suite = suite_create("quorum records");
	TCase *tcase = server_tcase(suite, "quorum records");

	tcase_add_test(tcase, a_new_queue_has_no_records_and_rests);
	tcase_add_test(tcase, another_daemon_reads_what_was_written);
	tcase_add_test(tcase, nothing_is_published_if_nothing_changes);
	tcase_add_test(tcase, the_floor_never_falls);
	tcase_add_test(tcase, records_outlive_a_restart);
	tcase_add_loop_test(tcase, of_what_a_dead_writer_left_the_newer_counts, 0,
	    (int)(sizeof(left) / sizeof(*left)));
	tcase_add_test(tcase, the_connection_ends_while_a_record_is_written);
	tcase_add_test(tcase, a_second_administrator_waits_and_then_has_the_lock);
	tcase_add_test(tcase, it_has_the_lock_when_the_first_daemon_is_gone);
	tcase_add_test(tcase, it_does_not_wait_for_ever);
	tcase_add_test(tcase, a_session_that_waits_can_be_closed);
	tcase_add_test(tcase, a_lost_mark_is_published_again);
	tcase_add_test(tcase, the_end_of_the_connection_is_told);
	tcase_add_test(tcase, a_deleted_queue_is_told);
	tcase_add_loop_test(tcase, a_record_of_somebody_else_ends_the_session, 0, 2);
	tcase_add_test(tcase, foreign_messages_stay);
	tcase_add_test(tcase, a_returned_mark_is_removed);
	tcase_add_test(tcase, too_many_messages_are_refused);
	tcase_add_test(tcase, nothing_is_written_during_an_alarm);
	tcase_add_test(tcase, a_missing_permission_is_told);
	tcase_add_test(tcase, another_queue_of_that_name_is_refused);
	tcase_add_test(tcase, closed_from_inside_an_answer);
	tcase_add_test(tcase, stopped_from_inside_an_answer);
	return suite;
}
