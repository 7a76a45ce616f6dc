/*
 * Refusals of the broker: user, vhost, permissions.
 */
#include <string.h>

#include "tests/broker/amqp_rig.h"

/* A broker that is refused, and why. */
static struct rig_broker *
denied(const struct amqp_host *host, const char *words)
{
	const struct amqp_settings settings = rig_settings(host, 1);
	struct rig_broker *one = rig_open(&settings);

	rig_wait(one->events[BROKER_LOCKS] == 1);
	ck_assert_int_eq(one->state[BROKER_LOCKS], BROKER_LOGIN_REFUSED);
	ck_assert_msg(strstr(one->why[BROKER_LOCKS], words) != NULL, "%s", one->why[BROKER_LOCKS]);
	ck_assert_str_eq(rig_info(one).why, one->why[BROKER_LOCKS]);
	return one;
}

START_TEST(test_wrong_password)
{
	struct amqp_host host = rig_host();
	struct rig_broker *one;

	host.password = "wrong";
	one = denied(
	    &host, "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN");
	ck_assert_ptr_nonnull(strstr(one->why[BROKER_LOCKS], "(403)"));
}
END_TEST

/* Tries go on, and when an administrator has put things right, the link comes up. */
START_TEST(test_missing_vhost_is_added)
{
	struct amqp_host host = rig_host();
	struct rig_broker *one;

	host.vhost = "late vhost";
	one = denied(&host, "NOT_ALLOWED - vhost late vhost not found");
	rig_rabbit("ctl add_vhost 'late vhost'");
	rig_rabbit("ctl set_permissions -p 'late vhost' guest '.*' '.*' '.*'");
	rig_wait_for(30, one->state[BROKER_LOCKS] == BROKER_UP);
	rig_rabbit("ctl delete_vhost 'late vhost'");
	rig_wait(one->state[BROKER_LOCKS] != BROKER_UP);
}
END_TEST

START_TEST(test_user_without_permissions)
{
	struct amqp_host host = rig_host();
	struct amqp_settings settings = rig_settings(&host, 1);
	static const char *const queue = "poor-none";
	const struct rig_answer *answer;
	struct rig_broker *one;

	rig_rabbit("ctl add_user poor secret");
	host.user = "poor";
	host.password = "secret";
	denied(&host, "NOT_ALLOWED - access to vhost '/' refused for user 'poor'");
	rig_rabbit("ctl set_permissions poor '^fine' '^fine' '^fine'");
	one = rig_open(&settings);
	rig_wait(one->state[BROKER_LOCKS] == BROKER_UP);
	rig_want(one, rig_claim, rig_take(one, BROKER_LOCKS), "fine-1-B", BROKER_OK);
	answer = rig_answer(rig_ask(one, rig_claim, rig_take(one, BROKER_LOCKS), "poor-1-B"));
	ck_assert_int_eq(answer->reply.answer, BROKER_REFUSED);
	ck_assert_int_eq(answer->reply.code, 403);
	/* RabbitMQ 4 says "configure access". */
	ck_assert_ptr_nonnull(strstr(answer->text, "ACCESS_REFUSED - "));
	ck_assert_ptr_nonnull(
	    strstr(answer->text, "access to queue 'poor-1-B' in vhost '/' refused"));
	/* No write permission on the default exchange: not known, and no hanging. */
	ck_assert_int_eq(rig_probe(one, &queue, 1)[0], BROKER_UNKNOWN);
	ck_assert_int_eq(rig_probe(one, &queue, 1)[0], BROKER_UNKNOWN);
	rig_rabbit("ctl delete_user poor");
}
END_TEST

/*
 * The permissions that OPERATIONS.md lists for a user that takes slots and waits for them, with the
 * default naming.
 */
START_TEST(test_user_that_may_acquire_and_wait)
{
	struct amqp_host host = rig_host();
	struct amqp_settings settings = rig_settings(&host, 1);
	struct rig_broker *one, *two;

	rig_rabbit("ctl add_user worker secret");
	rig_rabbit("ctl set_permissions worker '.-([0-9]+-B|[MW])$|^lockbroker=(ask$|inbox=)' "
		   "'^amq\\.default$|^lockbroker=(ask$|inbox=)' "
		   "'.-[AW]$|^lockbroker=(ask$|inbox=)'");
	host.user = "worker";
	host.password = "secret";
	one = rig_open(&settings);
	two = rig_open(&settings);
	rig_join(one, "worker-W", 5, 1);
	rig_wait(rig_wait_queue_told(one, "worker-W", BROKER_WAIT_QUEUE_JOINED) == 1);
	rig_wake(two, "worker-W", 1);
	rig_wait(rig_wait_queue_told(one, "worker-W", BROKER_WAIT_QUEUE_HINT) == 1);
	ck_assert_int_eq(rig_count(two, "worker-W"), 1);
	one->answers = true;
	rig_inbox(one, true);
	rig_wait((rig_ask_all(two, "who?", 4), rig_pass(), two->message_count > 0));
	ck_assert_str_eq(two->messages[0].user, "worker");
	ck_assert_uint_eq(rig_counts(one, BROKER_AUXILIARY).channels_closed_by_broker, 0);
	ck_assert_uint_eq(rig_counts(two, BROKER_AUXILIARY).channels_closed_by_broker, 0);
	rig_rabbit("ctl delete_user worker");
}
END_TEST

Suite *
denied_suite(void)
{
	Suite *suite = suite_create("denied");
	TCase *tcase = tcase_create("denied");

	tcase_add_checked_fixture(tcase, rig_setup, rig_teardown);
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, test_wrong_password);
	tcase_add_test(tcase, test_missing_vhost_is_added);
	tcase_add_test(tcase, test_user_without_permissions);
	tcase_add_test(tcase, test_user_that_may_acquire_and_wait);
	suite_add_tcase(suite, tcase);
	return suite;
}
