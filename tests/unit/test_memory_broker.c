/*
 * The AMQP code over the server in memory: few channels, silence, the times of probes, and the state of the
 * links.
 */
#include "daemon/amqp/link.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/setup.h"
#include "tests/memory/controls.h"
#include "tests/unit/memory_rig.h"
#include "tests/unit/test_memory.h"

/* ---- channels ---- */

START_TEST(the_lock_connection_has_channels_max)
{
	struct broker_info info;
	uint64_t first = take(one, BROKER_LOCKS), second = take(one, BROKER_LOCKS);

	ck_assert_uint_ne(first, 0);
	ck_assert_uint_ne(second, first);
	ck_assert_uint_ne(take(one, BROKER_LOCKS), 0);
	ck_assert_uint_eq(take(one, BROKER_LOCKS), 0);
	broker_get_info(one, &info);
	ck_assert_uint_eq(info.channels, 3);
	ck_assert_uint_eq(info.channels_max, 3);
	ck_assert_uint_ne(take(one, BROKER_AUXILIARY), 0);
	broker_channel_put(one, first);
	second = take(one, BROKER_LOCKS);
	ck_assert_uint_ne(second, 0);
	ck_assert_uint_ne(second, first);
	run();
	ck_saw("auxiliary:up");
	/* Each link has its own number. */
	memory_broker_set_channels_max(one, BROKER_LOCKS, 1);
	memory_broker_cut(one, BROKER_LOCKS, 0, 0, "cut");
	pass(MSEC);
	ck_saw("locks:down:cut locks:up");
	broker_get_info(one, &info);
	ck_assert_uint_eq(info.channels_max, 1);
	ck_assert_uint_ne(take(one, BROKER_AUXILIARY), 0);
	broker_get_info(two, &info);
	ck_assert_uint_eq(info.channels_max, 2047);
}
END_TEST

/* Administration needs a channel, and then a probe does. */
START_TEST(idle_channels_are_used_for_probes)
{
	static const char *const queues[] = {"a"};
	uint64_t channels[3];

	for (int i = 0; i < 3; i++) {
		channels[i] = take(one, BROKER_AUXILIARY);
		declare_slot(one, channels[i], "a", (uint64_t)i + 1);
	}
	run();
	ck_saw("auxiliary:up 1=ok 2=ok 3=ok");
	for (int i = 0; i < 3; i++)
		broker_channel_put(one, channels[i]);
	probe(one, queues, 1, 4);
	run();
	ck_saw("p4=ok");
	/* The others are still idle. */
	channels[0] = take(one, BROKER_AUXILIARY);
	delete_slot(one, channels[0], "a", 5);
	run();
	ck_saw("5=ok");
}
END_TEST

START_TEST(idle_channels_do_not_keep_waiters_from_hints)
{
	uint64_t channel = take(one, BROKER_AUXILIARY);

	declare_slot(one, channel, "a", 1);
	run();
	broker_channel_put(one, channel);
	join(one, "w", 0, 1);
	run();
	ck_saw("auxiliary:up 1=ok joined:w/0");
}
END_TEST

START_TEST(a_channel_that_waits_gets_the_number_of_one_that_is_put_back)
{
	uint64_t channels[4];

	for (int i = 0; i < 4; i++) {
		channels[i] = take(one, BROKER_AUXILIARY);
		declare_slot(one, channels[i], "a", (uint64_t)i + 1);
	}
	run();
	ck_saw("auxiliary:up 1=ok 2=ok 3=ok");
	broker_channel_put(one, channels[1]);
	run();
	ck_saw("4=ok");
}
END_TEST

START_TEST(silence_performs_and_holds_its_channel)
{
	uint64_t channel = take(one, BROKER_LOCKS), other = take(one, BROKER_LOCKS);

	rig.silences[1] = true;
	claim(one, channel, "q", 1);
	claim(one, channel, "r", 2);
	claim(one, channel, "s", 3);
	claim(one, other, "t", 4);
	pass(3600 * NSEC_PER_SEC);
	ck_saw("1=ok 4=ok");
	ck_assert_ptr_eq(owner_of("r"), one);
	ck_assert(!exists("s"));
	/* Closing the channel ends the silence. */
	memory_broker_close_channel(one, channel, 406, "PRECONDITION_FAILED - timeout");
	pass(0);
	ck_saw("2=skipped! 3=skipped! closed:406");
}
END_TEST

/* ---- probes ---- */

/* Also if the server hides no queues, so that no question is asked twice. */
START_TEST(a_probe_is_counted_as_one_round_trip)
{
	static const char *const queues[] = {"a", "b"};
	struct broker_traffic traffic;
	uint64_t count = 0;

	memory_world_set_hides_queues(world, _i == 1);
	probe(one, queues, 2, 1);
	pass(0);
	ck_saw("auxiliary:up p1=absent,absent");
	broker_get_traffic(one, BROKER_AUXILIARY, &traffic);
	for (size_t i = 0; i <= histogram_round_trips.count; i++)
		count += traffic.round_trips.counts[i];
	ck_assert_uint_eq(count, 1);
}
END_TEST

START_TEST(a_probe_does_not_send_everything_at_once)
{
	static const char *const queues[] = {"a", "b", "c"};

	rig.delays[0] = 40 * MSEC;
	probe(one, queues, 3, 1);
	pass(15 * MSEC);
	memory_world_put(world, "a", false);
	memory_world_put(world, "b", false);
	memory_world_put(world, "c", false);
	pass(25 * MSEC);
	ck_saw("auxiliary:up p1=absent,absent,ok");
}
END_TEST

START_TEST(a_silent_probe_is_unknown_at_its_deadline)
{
	static const char *const queues[] = {"a", "b"};

	probe(one, queues, 2, 3);
	pass(0);
	ck_saw("auxiliary:up p3=absent,absent");
	/* Publishes sent with it are not confirmed either. Later ones are. */
	rig.silences[rig.silences_used] = true;
	probe(one, queues, 2, 1);
	probe(one, queues, 2, 2);
	pass(MSEC);
	probe(one, queues, 2, 4);
	pass(MEMORY_PROBE_TIMEOUT - MSEC - 1);
	ck_saw("p4=absent,absent");
	pass(1);
	ck_saw("p1=unknown,unknown p2=unknown,unknown");
}
END_TEST

START_TEST(nothing_lasts_in_memory_before_the_link_is_up_either)
{
	struct broker *other = memory_broker_new(world, 10, 4);
	struct broker_info info;

	broker_get_info(other, &info);
	ck_assert_int_eq(info.locks, BROKER_DOWN);
	ck_assert(!info.persistent);
	broker_free(other);
}
END_TEST

START_TEST(info_has_the_states_and_the_server)
{
	struct broker_info info;

	broker_get_info(one, &info);
	ck_assert_int_eq(info.locks, BROKER_UP);
	ck_assert_int_eq(info.auxiliary, BROKER_DOWN);
	ck_assert_str_eq(info.host, "memory:");
	ck_assert_str_eq(info.product, "memory");
	ck_assert_str_eq(info.why, "");
	ck_assert_int_eq(info.heartbeat, 10);
	ck_assert(!info.persistent);
	ck_assert(!info.deletes_by_name);
	memory_world_set_deletes_by_name(world, true);
	broker_get_info(one, &info);
	ck_assert(info.deletes_by_name);
}
END_TEST

/* An administrator's work goes on without the lock connection. */
START_TEST(info_remembers_the_server)
{
	struct broker_info info;
	struct broker *other = rig_broker_new(3);

	broker_get_info(other, &info);
	ck_assert(info.hides_queues);
	broker_free(other);
	memory_world_set_hides_queues(world, true);
	for (int i = 0; i < 2; i++) {
		memory_broker_cut(one, BROKER_LOCKS, 0, -1, "test");
		run();
		broker_get_info(one, &info);
		ck_assert_int_eq(info.locks, BROKER_DOWN);
		ck_assert_int_eq(info.hides_queues, i > 0);
		memory_broker_restore(one, BROKER_LOCKS);
		run();
	}
	ck_saw("locks:down:test locks:up locks:down:test locks:up");
}
END_TEST

Suite *
suite_memory_broker(void)
{
	Suite *suite = suite_create("memory broker");
	TCase *tcase = rig_tcase(suite, "channels");

	tcase_add_test(tcase, the_lock_connection_has_channels_max);
	tcase_add_test(tcase, idle_channels_are_used_for_probes);
	tcase_add_test(tcase, idle_channels_do_not_keep_waiters_from_hints);
	tcase_add_test(tcase, a_channel_that_waits_gets_the_number_of_one_that_is_put_back);
	tcase_add_test(tcase, silence_performs_and_holds_its_channel);
	tcase = rig_tcase(suite, "probes");
	tcase_add_loop_test(tcase, a_probe_is_counted_as_one_round_trip, 0, 2);
	tcase_add_test(tcase, a_probe_does_not_send_everything_at_once);
	tcase_add_test(tcase, a_silent_probe_is_unknown_at_its_deadline);
	tcase_add_test(tcase, nothing_lasts_in_memory_before_the_link_is_up_either);
	tcase_add_test(tcase, info_has_the_states_and_the_server);
	tcase_add_test(tcase, info_remembers_the_server);
	return suite;
}
