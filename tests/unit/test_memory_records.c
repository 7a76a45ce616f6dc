/*
 * The records of the way quorum, where the server is late, silent or suspends a consumer. tests/conformance has
 * the others. `one` has opened them, and has written "a" with the epoch 7.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/broker/beads.h"
#include "daemon/broker/records.h"
#include "tests/unit/memory_rig.h"
#include "tests/unit/test_memory.h"

#define SECOND NSEC_PER_SEC
#define OLD "name a size 1 epoch 7 grace 5000"
#define NEW "name a size 1 epoch 8 grace 5000"

static const char queue[] = AMQP_RECORDS_QUEUE;
static uint64_t first, second; /* the sessions of `one` and `two` */

static uint64_t
open_records(struct broker *broker, uint64_t id)
{
	uint64_t session;

	rig.in_call = true;
	session = broker_records_open(broker, done(id));
	rig.in_call = false;
	return session;
}

static void
set(struct broker *broker, uint64_t session, uint64_t epoch, uint64_t id)
{
	const struct broker_record record = {
	    .name = "a", .size = 1, .epoch = epoch, .grace = 5 * SECOND};

	rig.in_call = true;
	broker_records_set(broker, session, &record, 0, done(id));
	rig.in_call = false;
	run();
}

static uint64_t
epoch_of_a(const struct broker *broker, uint64_t session)
{
	const struct broker_record *record = broker_records_find(broker, session, "a");

	return record != NULL ? record->epoch : 0;
}

static void
setup_at(unsigned major, unsigned minor)
{
	rig_setup();
	memory_world_set_version(world, major, minor);
	second = open_records(two, 100);
	pass(3 * SECOND);
	ck_saw("two.auxiliary:up 100=ok");
	set(two, second, 7, 101);
	ck_saw("101=ok");
	broker_records_close(two, second);
	first = open_records(one, 1);
	run();
	ck_saw("auxiliary:up 1=ok");
	ck_assert_uint_eq(epoch_of_a(one, first), 7);
}

static void
setup(void)
{
	setup_at(4, 0);
}

static void
setup_3_10(void)
{
	setup_at(3, 10);
}

static void
setup_4_3(void)
{
	setup_at(4, 3);
}

/* ---- writing ---- */

/* Else a name would have no record if the writer dies, or is not active any more. */
START_TEST(the_old_record_stays_until_the_new_one_is_delivered)
{
	ck_assert(memory_world_delay_deliveries(world, queue, true));
	set(one, first, 8, 2);
	ck_saw("");
	ck_assert_uint_eq(memory_world_copies(world, queue, OLD), 1);
	ck_assert_uint_eq(memory_world_copies(world, queue, NEW), 1);
	ck_assert(memory_world_delay_deliveries(world, queue, false));
	run();
	ck_saw("2=ok");
	ck_assert_uint_eq(memory_world_copies(world, queue, OLD), 0);
	ck_assert_uint_eq(memory_world_copies(world, queue, NEW), 1);
}
END_TEST

/* A message that the server has taken is written only if this session is the active one. */
START_TEST(a_suspended_session_writes_nothing_for_sure)
{
	ck_assert(memory_world_suspend(world, queue));
	set(one, first, 8, 2);
	ck_saw("");
	pass(5 * SECOND);
	ck_saw("2=unknown lost:records");
	/* Both are there, and the newer one counts. */
	ck_assert_uint_eq(memory_world_copies(world, queue, OLD), 1);
	second = open_records(two, 102);
	run();
	ck_saw("102=ok");
	ck_assert_uint_eq(epoch_of_a(two, second), 8);
	ck_assert_uint_eq(broker_records_floor(two, second), 8);
	run();
	ck_assert_uint_eq(memory_world_copies(world, queue, OLD), 0);
}
END_TEST

START_TEST(silence_ends_the_session)
{
	ck_assert(memory_world_starve(world, queue, true));
	set(one, first, 8, 2);
	pass(4 * SECOND);
	ck_saw("");
	pass(2 * SECOND);
	ck_saw("2=unknown lost:records");
	ck_assert_str_eq(rig.text, "the broker did not answer in time");
	set(one, first, 8, 3);
	ck_saw("3=skipped");
	ck_assert_ptr_null(broker_records_find(one, first, "a"));
	/* It was published once. */
	ck_assert_uint_eq(memory_world_copies(world, queue, NEW), 1);
}
END_TEST

/* Its channel is closed: it would take the messages again. */
START_TEST(a_lost_session_leaves_the_queue)
{
	ck_assert(memory_world_starve(world, queue, true));
	set(one, first, 8, 2);
	pass(6 * SECOND);
	ck_saw("2=unknown lost:records");
	ck_assert_uint_eq(memory_world_active(world, queue, NULL), 0);
}
END_TEST

static void
close_first(void)
{
	broker_records_close(one, first);
}

START_TEST(a_session_is_closed_in_the_answer_that_ends_it)
{
	rig.react_to = 2;
	rig.reaction = close_first;
	ck_assert(memory_world_starve(world, queue, true));
	set(one, first, 8, 2);
	pass(6 * SECOND);
	ck_saw("2=unknown");
}
END_TEST

static void
open_again(void)
{
	first = open_records(one, 3);
}

START_TEST(the_connection_ends_during_a_write)
{
	rig.react_to = 2;
	rig.reaction = open_again;
	ck_assert(memory_world_starve(world, queue, true));
	set(one, first, 8, 2);
	ck_assert(memory_world_starve(world, queue, false));
	memory_broker_cut(one, BROKER_AUXILIARY, 0, 0, "cut");
	pass(SECOND);
	ck_saw("2=unknown lost:records auxiliary:down:cut auxiliary:up 3=ok");
	ck_assert_uint_eq(epoch_of_a(one, first), 8);
}
END_TEST

/* ---- the lock ---- */

START_TEST(a_second_session_waits_up_to_a_limit)
{
	second = open_records(two, 102);
	run();
	pass(4 * SECOND);
	ck_saw("");
	pass(2 * SECOND);
	ck_saw("102=locked");
	ck_assert_str_eq(rig.text, "another administrator works on slots held by quorum");
	set(one, first, 8, 2);
	ck_saw("2=ok");
}
END_TEST

/* Its mark came back together with a part of the records. */
START_TEST(a_second_session_reads_what_the_first_one_wrote)
{
	second = open_records(two, 102);
	run();
	set(one, first, 8, 2);
	ck_saw("2=ok");
	broker_records_close(one, first);
	pass(SECOND);
	ck_saw("102=ok");
	ck_assert_uint_eq(epoch_of_a(two, second), 8);
	set(two, second, 9, 103);
	ck_saw("103=ok");
}
END_TEST

/* Each reads what the one before it wrote. */
START_TEST(of_many_sessions_each_is_open_in_its_turn)
{
	enum { SESSIONS = 5 };
	struct broker *brokers[SESSIONS];
	uint64_t sessions[SESSIONS];
	char opened[8];
	unsigned turns = 0;

	for (unsigned i = 0; i < SESSIONS; i++) {
		brokers[i] = rig_broker_new(2047);
		broker_start(brokers[i]);
		run();
		sessions[i] = open_records(brokers[i], 10 + i);
		run();
	}
	broker_records_close(one, first);
	for (int passes = 0; turns < SESSIONS; passes++) {
		ck_assert_int_lt(passes, 100);
		rig.seen[0] = '\0';
		pass(SECOND / 20);
		for (unsigned i = 0; i < SESSIONS; i++) {
			snprintf(opened, sizeof(opened), "%u=ok", 10 + i);
			if (strstr(rig.seen, opened) == NULL)
				continue;
			ck_assert_uint_eq(epoch_of_a(brokers[i], sessions[i]), 7 + turns);
			set(brokers[i], sessions[i], 8 + turns++, 20 + i);
			broker_records_close(brokers[i], sessions[i]);
		}
	}
	rig.seen[0] = '\0';
	for (unsigned i = 0; i < SESSIONS; i++)
		broker_free(brokers[i]);
}
END_TEST

/* Another one was perhaps active meanwhile. */
START_TEST(a_session_that_is_active_again_is_lost)
{
	ck_assert(memory_world_suspend(world, queue));
	run();
	ck_saw("");
	ck_assert(memory_world_resume(world, queue));
	run();
	ck_saw("lost:records");
}
END_TEST

START_TEST(a_session_that_has_rested_too_long_is_cancelled)
{
	ck_assert(memory_world_time_out(world, queue));
	run();
	ck_saw("lost:records");
	ck_assert_str_eq(rig.text, "the broker ended the consumer");
}
END_TEST

/* The session of `one` does not know that it is not active. */
START_TEST(of_two_that_believe_in_the_lock_none_goes_on)
{
	second = open_records(two, 102);
	run();
	ck_assert(memory_world_suspend(world, queue));
	pass(SECOND);
	ck_saw("102=ok");
	set(one, first, 8, 2);
	ck_saw("two.lost:records");
	pass(5 * SECOND);
	ck_saw("2=unknown lost:records");
}
END_TEST

/* ---- the texts ---- */

START_TEST(a_text_is_read_as_it_is_printed)
{
	struct broker_record record = {
	    .size = 10000, .epoch = BEAD_EPOCH_MOST, .grace = BEAD_GRACE_MOST};
	struct broker_record read;
	char text[RECORD_TEXT];
	uint64_t floor;

	memset(record.name, 'n', BROKER_NAME_MAX);
	ck_assert_ptr_eq(record_print(text, &record), text);
	ck_assert_str_eq(text + 5 + BROKER_NAME_MAX, " size 10000 epoch 8589934592 grace 300000");
	ck_assert(record_read(text, strlen(text), &read));
	ck_assert(memcmp(&record, &read, sizeof(read)) == 0);
	ck_assert_str_eq(floor_print(text, BEAD_EPOCH_MOST), "floor 8589934592");
	ck_assert(floor_read(text, strlen(text), &floor));
	ck_assert_uint_eq(floor, BEAD_EPOCH_MOST);
}
END_TEST

static const char *const foreign[] = {
    "",
    "name",
    "name a",
    "name a size 1 epoch 7",
    "name  a size 1 epoch 7 grace 5000",
    "name a size 10001 epoch 7 grace 5000",
    "name a size -1 epoch 7 grace 5000",
    "name a size 01 epoch 7 grace 5000",
    "name a size 1 epoch 0 grace 5000",
    "name a size 1 epoch 8589934593 grace 5000",
    "name a size 1 epoch +7 grace 5000",
    "name a size 1 epoch 7 grace 4999",
    "name a size 1 epoch 7 grace 300001",
    "name a size 1 epoch 7 grace 5000 ",
    "name a size 1 epoch 7 grace 5000\n",
    "name a size 1 epoch 7 grace 5000 server 4",
    "name a-B size 1 epoch 7 grace 5000",
    "name amq.a size 1 epoch 7 grace 5000",
    "name \303\244 size 1 epoch 7 grace 5000",
    "name a\033b size 1 epoch 7 grace 5000",
    "floor",
    "floor 0",
    "floor 07",
    "floor -7",
    "floor 8589934593",
    "floor 99999999999",
    "floor 7 ",
    "Floor 7",
};

START_TEST(a_foreign_text_is_neither_record_nor_floor)
{
	struct broker_record record;
	uint64_t floor;

	ck_assert(!record_read(foreign[_i], strlen(foreign[_i]), &record));
	ck_assert(!floor_read(foreign[_i], strlen(foreign[_i]), &floor));
}
END_TEST

START_TEST(a_text_with_a_nul_or_too_long_is_foreign)
{
	static const char nul[] = "name a size 1 epoch 7 grace 5000\0x", floor_nul[] = "floor 7\0x";
	char large[2 * RECORD_TEXT] = "name ";
	struct broker_record record;
	uint64_t floor;

	ck_assert(!record_read(nul, sizeof(nul) - 1, &record));
	ck_assert(!floor_read(floor_nul, sizeof(floor_nul) - 1, &floor));
	memset(large + 5, 'n', BROKER_NAME_MAX + 1);
	strcat(large, " size 1 epoch 7 grace 5000");
	ck_assert(!record_read(large, strlen(large), &record));
	memset(large + 5, 'n', sizeof(large) - 6);
	ck_assert(!record_read(large, strlen(large), &record));
}
END_TEST

static void
add(Suite *suite, const char *name, void (*begin)(void))
{
	TCase *tc = tcase_create(name);

	tcase_add_checked_fixture(tc, begin, rig_teardown);
	tcase_add_test(tc, the_old_record_stays_until_the_new_one_is_delivered);
	tcase_add_test(tc, a_suspended_session_writes_nothing_for_sure);
	tcase_add_test(tc, silence_ends_the_session);
	tcase_add_test(tc, a_lost_session_leaves_the_queue);
	tcase_add_test(tc, a_session_is_closed_in_the_answer_that_ends_it);
	tcase_add_test(tc, the_connection_ends_during_a_write);
	tcase_add_test(tc, a_second_session_waits_up_to_a_limit);
	tcase_add_test(tc, a_second_session_reads_what_the_first_one_wrote);
	tcase_add_test(tc, of_many_sessions_each_is_open_in_its_turn);
	tcase_add_test(tc, a_session_that_is_active_again_is_lost);
	tcase_add_test(tc, a_session_that_has_rested_too_long_is_cancelled);
	tcase_add_test(tc, of_two_that_believe_in_the_lock_none_goes_on);
	suite_add_tcase(suite, tc);
}

Suite *
suite_memory_records(void)
{
	Suite *suite = suite_create("memory: records");
	TCase *texts = tcase_create("record texts");

	add(suite, "records", setup);
	add(suite, "records of 3.10", setup_3_10);
	add(suite, "records of 4.3", setup_4_3);
	tcase_add_test(texts, a_text_is_read_as_it_is_printed);
	tcase_add_loop_test(texts, a_foreign_text_is_neither_record_nor_floor, 0,
	    (int)(sizeof(foreign) / sizeof(*foreign)));
	tcase_add_test(texts, a_text_with_a_nul_or_too_long_is_foreign);
	suite_add_tcase(suite, texts);
	return suite;
}
