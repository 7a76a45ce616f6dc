/*
 * The server in memory, and the queues of slots that are held by consumers: exclusive consumers,
 * expiry and rejected publishes. Each refusal has RabbitMQ's own words. The clients are raw links.
 */
#include <string.h>

#include "tests/unit/memory_rig.h"
#include "tests/unit/test_memory.h"

static struct raw *a, *b;

/* Two connections with channel 1; `a` has a channel 2, too. The durable B "s" is there. */
static void
setup_with(const struct memory_behaviour *behaviour)
{
	rig_new(behaviour);
	rig_start();
	a = raw_new(0);
	b = raw_new(0);
	raw_open(a, 2);
	raw_declare(a, 1, "s", RAW_HOLDER);
	run();
	ck_saw("a1:declared(0,0)");
}

static void
setup(void)
{
	setup_with(NULL);
}

/* Checks the events since the last call, and the text of the last refusal. */
#define ck_refused(wanted, words)                                                                  \
	do {                                                                                       \
		ck_saw(wanted);                                                                    \
		ck_assert_str_eq(rig.text, (words));                                               \
	} while (0)

#define IN_USE "ACCESS_REFUSED - queue 's' in vhost '/' in exclusive use"
#define LOCKED(queue)                                                                              \
	"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '" queue                 \
	"' in vhost '/'. It could be originally declared on another connection or the exclusive "  \
	"property value does not match that of the original declaration."

/* ---- exclusive consumers ---- */

START_TEST(an_exclusive_consumer_is_alone)
{
	uint64_t channel = 0, last = 0;

	ck_assert_uint_eq(memory_world_holder(world, "s", NULL), 0);
	raw_consume(a, 1, "s", true);
	run();
	ck_saw("a1:consuming");
	ck_assert_uint_eq(memory_world_holder(world, "s", &channel), raw_number(a));
	/* On another channel of the connection, and on another connection. */
	raw_consume(a, 2, "s", true);
	run();
	ck_refused("a2:closed:403", IN_USE);
	raw_consume(b, 1, "s", _i != 0);
	run();
	ck_refused("b1:closed:403", IN_USE);
	raw_cancel(a, 1, "h");
	raw_consume(a, 2, "s", true);
	run();
	ck_saw("a1:cancelled a2:consuming");
	ck_assert_uint_eq(memory_world_holder(world, "s", &last), raw_number(a));
	ck_assert_uint_ne(channel, last);
}
END_TEST

START_TEST(no_exclusive_consumer_beside_another)
{
	raw_consume(a, 1, "s", false);
	raw_consume(a, 2, "s", false);
	run();
	ck_saw("a1:consuming a2:consuming");
	ck_assert_uint_eq(memory_world_holder(world, "s", NULL), 0);
	raw_consume(b, 1, "s", true);
	run();
	ck_refused("b1:closed:403", IN_USE);
	raw_declare(b, 1, "s", RAW_PASSIVE);
	run();
	ck_saw("b1:declared(0,2)");
}
END_TEST

START_TEST(a_tag_is_used_once_on_a_channel)
{
	raw_consume(a, 1, "s", true);
	raw_consume(a, 1, "s", true);
	run();
	ck_saw("a1:consuming a:dead:530");
	ck_assert_ptr_nonnull(strstr(rig.text, "attempt to reuse consumer tag 'h'"));
	ck_assert_uint_eq(memory_world_holder(world, "s", NULL), 0);
}
END_TEST

START_TEST(an_absent_queue_or_one_of_another)
{
	raw_consume(a, 1, "none", true);
	run();
	ck_refused("a1:closed:404", "NOT_FOUND - no queue 'none' in vhost '/'");
	raw_declare(b, 1, "mine", RAW_EXCLUSIVE);
	raw_consume(a, 1, "mine", true);
	run();
	ck_refused("b1:declared(0,0) a1:closed:405", LOCKED("mine"));
	raw_declare(a, 1, "mine", RAW_PASSIVE);
	run();
	ck_refused("a1:closed:405", LOCKED("mine"));
	raw_consume(b, 1, "mine", true);
	run();
	ck_saw("b1:consuming");
	ck_assert(!memory_world_durable(world, "mine"));
	ck_assert(memory_world_durable(world, "s"));
	ck_assert(!memory_world_durable(world, "none"));
}
END_TEST

/* RabbitMQ shortens a reply text to 255 bytes, so the end of a text may be missing. */
START_TEST(a_long_name_shortens_the_text)
{
	char name[210] = "";

	memset(name, 'x', sizeof(name) - 1);
	raw_declare(b, 1, name, RAW_HOLDER);
	raw_consume(b, 1, name, true);
	raw_consume(a, 1, name, true);
	run();
	ck_saw("b1:declared(0,0) b1:consuming a1:closed:403");
	ck_assert_uint_eq(strlen(rig.text), 255);
	ck_assert_str_eq(rig.text + 252, "...");
}
END_TEST

/* ---- the end of a consumer ---- */

START_TEST(freed_before_the_cancel_is_answered)
{
	raw_consume(a, 1, "s", true);
	run();
	ck_saw("a1:consuming");
	rig.delays[rig.delays_used] = 10 * MSEC;
	raw_cancel(a, 1, "h");
	pass(4 * MSEC);
	ck_assert_uint_eq(memory_world_holder(world, "s", NULL), raw_number(a));
	pass(2 * MSEC);
	ck_saw("");
	raw_consume(b, 1, "s", true);
	run();
	ck_saw("b1:consuming");
	pass(4 * MSEC);
	ck_saw("a1:cancelled");
}
END_TEST

START_TEST(a_cancel_is_always_answered)
{
	raw_cancel(a, 1, "nobody");
	raw_cancel(a, 1, "nobody");
	run();
	ck_saw("a1:cancelled a1:cancelled");
}
END_TEST

/* A silent cancel is performed, and the channel answers nothing more. */
START_TEST(a_cancel_can_stay_unanswered)
{
	raw_consume(a, 1, "s", true);
	run();
	rig.silences[rig.silences_used] = true;
	raw_cancel(a, 1, "h");
	raw_declare(a, 1, "s", RAW_PASSIVE);
	run();
	ck_saw("a1:consuming");
	ck_assert_uint_eq(memory_world_holder(world, "s", NULL), 0);
}
END_TEST

START_TEST(the_end_of_its_channel_frees_it)
{
	raw_consume(a, 1, "s", true);
	run();
	ck_saw("a1:consuming");
	switch (_i) {
	case 0:
		raw_close(a, 1);
		break;
	case 1: /* the server closes it for an error */
		raw_declare(a, 1, "none", RAW_PASSIVE);
		break;
	default:
		raw_end(a);
	}
	run();
	ck_saw(_i == 1 ? "a1:closed:404" : "");
	ck_assert_uint_eq(memory_world_holder(world, "s", NULL), 0);
	raw_consume(b, 1, "s", true);
	run();
	ck_saw("b1:consuming");
}
END_TEST

START_TEST(cancelled_by_the_server)
{
	raw_consume(a, 1, "s", true);
	run();
	if (_i == 0) {
		ck_assert(memory_world_cancel(world, "s"));
	} else {
		ck_assert(memory_world_remove(world, "s"));
		ck_assert(memory_world_put_holder(world, "s"));
	}
	raw_consume(b, 1, "s", true);
	run();
	ck_saw("a1:consuming a1:cancel b1:consuming");
	/* The tag is free again. */
	raw_cancel(a, 1, "h");
	run();
	raw_consume(a, 1, "s", true);
	run();
	ck_refused("a1:cancelled a1:closed:403", IN_USE);
}
END_TEST

START_TEST(held_by_a_foreign_client)
{
	ck_assert(memory_world_put_holder(world, "t"));
	ck_assert(!memory_world_put_holder(world, "t"));
	ck_assert(!memory_world_hold(world, "none"));
	ck_assert(!memory_world_let_go(world, "t"));
	ck_assert(memory_world_hold(world, "t"));
	ck_assert(!memory_world_hold(world, "t"));
	ck_assert_uint_ne(memory_world_holder(world, "t", NULL), 0);
	raw_declare(a, 2, "t", RAW_HOLDER);
	raw_consume(a, 1, "t", true);
	run();
	ck_saw("a2:declared(0,1) a1:closed:403");
	ck_assert(memory_world_let_go(world, "t"));
	raw_consume(a, 1, "t", true);
	run();
	ck_saw("a1:consuming");
	ck_assert(!memory_world_hold(world, "t"));
	/* One that is still there at the end, and after a restart. */
	ck_assert(memory_world_hold(world, "s"));
	memory_world_restart(world);
	ck_assert_uint_eq(memory_world_holder(world, "s", NULL), 0);
	ck_assert(memory_world_hold(world, "s"));
}
END_TEST

/* ---- declares, deletes, permissions ---- */

START_TEST(declared_in_the_other_way)
{
	/* Exclusive, although it is durable. */
	raw_declare(b, 1, "s", RAW_EXCLUSIVE);
	run();
	ck_refused("b1:closed:405", LOCKED("s"));
	/* Durable, although it is exclusive: also for its owner. */
	raw_declare(a, 1, "mine", RAW_EXCLUSIVE);
	raw_declare(b, 1, "mine", RAW_HOLDER);
	run();
	ck_refused("a1:declared(0,0) b1:closed:405", LOCKED("mine"));
	raw_declare(a, 1, "mine", RAW_HOLDER);
	run();
	ck_refused("a1:closed:405", LOCKED("mine"));
	raw_declare(a, 2, "mine", RAW_PASSIVE);
	run();
	ck_saw("a2:declared(0,0)");
}
END_TEST

START_TEST(declared_with_other_arguments)
{
	raw_declare(b, 1, "s", RAW_DURABLE);
	run();
	ck_refused("b1:closed:406",
	    "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 's' in vhost '/'");
	raw_declare(b, 1, "s", RAW_MUTEX);
	run();
	ck_refused("b1:closed:406",
	    "PRECONDITION_FAILED - inequivalent arg 'x-expires' for queue 's' in vhost '/'");
	ck_assert(memory_world_put(world, "slot", false));
	raw_declare(b, 1, "slot", RAW_HOLDER);
	run();
	ck_refused("b1:closed:406",
	    "PRECONDITION_FAILED - inequivalent arg 'x-overflow' for queue 'slot' in vhost '/'");
	ck_assert(memory_world_put_transient(world, "old"));
	raw_declare(b, 1, "old", RAW_DURABLE);
	run();
	ck_refused("b1:closed:406",
	    "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'old' in vhost '/'");
}
END_TEST

START_TEST(counts_of_a_queue)
{
	raw_declare(a, 1, "plain", RAW_DURABLE);
	memory_world_publish(world, "plain", "x");
	memory_world_publish(world, "plain", "y");
	raw_declare(a, 1, "plain", RAW_PASSIVE);
	raw_consume(b, 1, "s", true);
	run();
	raw_declare(a, 1, "s", RAW_PASSIVE);
	run();
	ck_saw("a1:declared(2,0) a1:declared(2,0) b1:consuming a1:declared(0,1)");
}
END_TEST

START_TEST(deleted_only_if_unused)
{
	raw_consume(a, 1, "s", true);
	run();
	raw_delete(b, 1, "s", RAW_IF_UNUSED);
	run();
	ck_refused(
	    "a1:consuming b1:closed:406", "PRECONDITION_FAILED - queue 's' in vhost '/' in use");
	raw_delete(b, 1, "s", 0);
	run();
	ck_saw("a1:cancel b1:deleted");
	raw_declare(b, 1, "s", RAW_HOLDER);
	raw_delete(b, 1, "s", RAW_IF_UNUSED);
	raw_delete(b, 1, "s", RAW_IF_UNUSED);
	run();
	ck_saw("b1:declared(0,0) b1:deleted b1:deleted");
	ck_assert(!exists("s"));
	/* One that would have expired later. */
	raw_declare(b, 1, "s", RAW_MUTEX);
	raw_delete(b, 1, "s", RAW_IF_UNUSED);
	pass(2 * RAW_EXPIRES * MSEC);
	ck_saw("b1:declared(0,0) b1:deleted");
}
END_TEST

/* Of the two conditions RabbitMQ tries if-empty first (rabbit_amqqueue_process). */
START_TEST(deleted_only_if_empty)
{
	raw_declare(b, 1, "plain", RAW_DURABLE);
	raw_consume(a, 1, "s", true);
	run();
	ck_saw("b1:declared(0,0) a1:consuming");
	memory_world_publish(world, "plain", "x");
	raw_delete(b, 1, "plain", RAW_IF_UNUSED | RAW_IF_EMPTY);
	run();
	ck_refused("b1:closed:406", "PRECONDITION_FAILED - queue 'plain' in vhost '/' not empty");
	raw_delete(b, 1, "s", RAW_IF_UNUSED | RAW_IF_EMPTY);
	run();
	ck_refused("b1:closed:406", "PRECONDITION_FAILED - queue 's' in vhost '/' in use");
	raw_cancel(a, 1, "h");
	raw_delete(b, 1, "plain", RAW_IF_UNUSED);
	run();
	raw_delete(b, 1, "s", RAW_IF_UNUSED | RAW_IF_EMPTY);
	run();
	ck_saw("a1:cancelled b1:deleted b1:deleted");
}
END_TEST

static bool
refuses(void *ctx)
{
	(void)ctx;
	return rig.nacks[0];
}

static void
setup_refusing(void)
{
	static const struct memory_behaviour behaviour = {.refuses = refuses};

	setup_with(&behaviour);
}

START_TEST(a_missing_permission)
{
	rig.nacks[0] = true;
	switch (_i) {
	case 0:
		raw_consume(b, 1, "s", true);
		break;
	case 1:
		raw_declare(b, 1, "s", RAW_HOLDER);
		break;
	default:
		raw_delete(b, 1, "s", RAW_IF_UNUSED);
	}
	run();
	ck_refused("b1:closed:403",
	    "ACCESS_REFUSED - access to queue 's' in vhost '/' refused for user 'memory'");
	ck_assert_uint_eq(memory_world_holder(world, "s", NULL), 0);
}
END_TEST

/* ---- expiry ---- */

#define EXPIRES (RAW_EXPIRES * MSEC)

START_TEST(a_queue_that_is_not_used_expires)
{
	raw_declare(a, 1, "m", RAW_MUTEX);
	run();
	pass(EXPIRES - MSEC);
	ck_assert(exists("m"));
	/* Each of these is a use. */
	switch (_i) {
	case 0:
		raw_declare(a, 1, "m", RAW_MUTEX);
		break;
	case 1:
		raw_declare(a, 1, "m", RAW_PASSIVE);
		break;
	default:
		raw_get(a, 1, "m");
	}
	run();
	pass(EXPIRES - MSEC);
	ck_assert(exists("m"));
	pass(MSEC);
	ck_assert(!exists("m"));
	ck_saw(_i < 2 ? "a1:declared(0,0) a1:declared(0,0)" : "a1:declared(0,0) a1:empty");
	ck_assert(exists("s"));
}
END_TEST

START_TEST(a_queue_with_a_consumer_never_expires)
{
	raw_declare(a, 1, "m", RAW_MUTEX);
	raw_consume(a, 1, "m", true);
	pass(3 * EXPIRES);
	raw_declare(b, 1, "m", RAW_PASSIVE);
	pass(EXPIRES);
	ck_saw("a1:declared(0,0) a1:consuming b1:declared(0,1)");
	if (_i == 0)
		raw_cancel(a, 1, "h");
	else
		raw_close(a, 1);
	pass(EXPIRES - MSEC);
	ck_assert(exists("m"));
	pass(2 * MSEC);
	ck_assert(!exists("m"));
	ck_saw(_i == 0 ? "a1:cancelled" : "");
}
END_TEST

/* ---- publishes ---- */

START_TEST(a_holder_queue_rejects_messages)
{
	raw_confirm(a, 2);
	raw_publish(a, 2, "s");
	run();
	ck_saw("a2:nack");
	raw_consume(b, 1, "s", true);
	run();
	raw_publish(a, 2, "s");
	memory_world_publish(world, "s", "foreign");
	run();
	ck_saw("b1:consuming a2:nack");
	ck_assert_uint_eq(memory_world_hints(world, "s"), 0);
	raw_publish(a, 2, "none");
	run();
	/* A return, whose body follows it, comes before its ack. */
	ck_saw("a2:return a2:got(m) a2:ack");
}
END_TEST

/* A durable queue of another client may accept messages. They need no ack. */
START_TEST(delivered_to_a_holder_without_acks)
{
	ck_assert(memory_world_put(world, "slot", false));
	raw_consume(a, 1, "slot", true);
	run();
	memory_world_publish(world, "slot", "one");
	memory_world_publish(world, "slot", "two");
	run();
	ck_saw("a1:consuming a1:got(one) a1:got(two)");
	ck_assert_uint_eq(memory_world_copies(world, "slot", "one"), 0);
	/* Nothing comes back when the channel ends. */
	raw_close(a, 1);
	run();
	ck_assert_uint_eq(memory_world_hints(world, "slot"), 0);
}
END_TEST

Suite *
suite_memory_holders(void)
{
	Suite *suite = suite_create("memory holders");
	TCase *tc = tcase_create("holders"), *refusing = tcase_create("permissions");

	tcase_add_checked_fixture(tc, setup, rig_teardown);
	tcase_add_loop_test(tc, an_exclusive_consumer_is_alone, 0, 2);
	tcase_add_test(tc, no_exclusive_consumer_beside_another);
	tcase_add_test(tc, a_tag_is_used_once_on_a_channel);
	tcase_add_test(tc, an_absent_queue_or_one_of_another);
	tcase_add_test(tc, a_long_name_shortens_the_text);
	tcase_add_test(tc, freed_before_the_cancel_is_answered);
	tcase_add_test(tc, a_cancel_is_always_answered);
	tcase_add_test(tc, a_cancel_can_stay_unanswered);
	tcase_add_loop_test(tc, the_end_of_its_channel_frees_it, 0, 3);
	tcase_add_loop_test(tc, cancelled_by_the_server, 0, 2);
	tcase_add_test(tc, held_by_a_foreign_client);
	tcase_add_test(tc, declared_in_the_other_way);
	tcase_add_test(tc, declared_with_other_arguments);
	tcase_add_test(tc, counts_of_a_queue);
	tcase_add_test(tc, deleted_only_if_unused);
	tcase_add_test(tc, deleted_only_if_empty);
	tcase_add_loop_test(tc, a_queue_that_is_not_used_expires, 0, 3);
	tcase_add_loop_test(tc, a_queue_with_a_consumer_never_expires, 0, 2);
	tcase_add_test(tc, a_holder_queue_rejects_messages);
	tcase_add_test(tc, delivered_to_a_holder_without_acks);
	suite_add_tcase(suite, tc);
	tcase_add_checked_fixture(refusing, setup_refusing, rig_teardown);
	tcase_add_loop_test(refusing, a_missing_permission, 0, 3);
	suite_add_tcase(suite, refusing);
	return suite;
}
