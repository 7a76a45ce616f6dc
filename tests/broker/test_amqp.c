/*
 * The AMQP side against a real RabbitMQ; started by test_amqp.py.
 */
#include "tests/broker/amqp_rig.h"

int
main(void)
{
	static Suite *(*const makers[])(void) = {channels_suite, holders_suite, probes_suite,
	    watches_suite, wait_queues_suite, mailbox_suite, directory_suite, links_suite,
	    denied_suite, tls_suite};

	return unit_run(makers, sizeof(makers) / sizeof(makers[0]));
}
