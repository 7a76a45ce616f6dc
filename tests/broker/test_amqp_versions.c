/*
 * RabbitMQ's description of itself, and the meaning of versions.
 */
#include "daemon/amqp/login.h"
#include "tests/broker/amqp_rig.h"

START_TEST(test_info)
{
	struct rig_broker *one = rig_open_up();
	struct broker_info info = rig_info(one);

	ck_assert_str_eq(info.product, "RabbitMQ");
	ck_assert_str_ne(info.version, "");
	ck_assert_str_ne(info.cluster, "");
	ck_assert_str_eq(info.why, "");
	ck_assert_int_eq(info.heartbeat, 10);
	ck_assert(info.persistent);
	ck_assert_int_eq(
	    info.deletes_by_name, amqp_server_deletes_by_name(info.product, info.version));
	ck_assert_int_eq(info.hides_queues, amqp_server_hides_queues(info.product, info.version));
}
END_TEST

START_TEST(test_versions_that_delete_by_name)
{
	static const char *const yes[] = {
	    "3.10.8", "3.13.7", "4.0.5", "4.0.99", "4.1.7", "4.2.2", "4.x"};
	static const char *const no[] = {"4.1.8", "4.2.3", "4.3.0", "5.0.0"};

	for (size_t i = 0; i < sizeof(yes) / sizeof(*yes); i++)
		ck_assert_msg(amqp_server_deletes_by_name("RabbitMQ", yes[i]), "%s", yes[i]);
	for (size_t i = 0; i < sizeof(no) / sizeof(*no); i++) {
		ck_assert_msg(!amqp_server_deletes_by_name("RabbitMQ", no[i]), "%s", no[i]);
		ck_assert_msg(amqp_server_deletes_by_name("another", no[i]), "%s", no[i]);
	}
}
END_TEST

START_TEST(test_versions_that_hide_queues)
{
	static const char *const yes[] = {"3.8.0", "3.10.25", "2.9.9", "x"};
	static const char *const no[] = {"3.11.0", "3.13.7", "4.0.5", "5.0.0"};

	for (size_t i = 0; i < sizeof(yes) / sizeof(*yes); i++)
		ck_assert_msg(amqp_server_hides_queues("RabbitMQ", yes[i]), "%s", yes[i]);
	for (size_t i = 0; i < sizeof(no) / sizeof(*no); i++) {
		ck_assert_msg(!amqp_server_hides_queues("RabbitMQ", no[i]), "%s", no[i]);
		ck_assert_msg(amqp_server_hides_queues("another", no[i]), "%s", no[i]);
	}
}
END_TEST

Suite *
versions_suite(void)
{
	Suite *suite = suite_create("versions");
	TCase *tcase = tcase_create("versions");

	tcase_add_checked_fixture(tcase, rig_setup, rig_teardown);
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, test_info);
	tcase_add_test(tcase, test_versions_that_delete_by_name);
	tcase_add_test(tcase, test_versions_that_hide_queues);
	suite_add_tcase(suite, tcase);
	return suite;
}
