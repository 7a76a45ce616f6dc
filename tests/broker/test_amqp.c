/*
 * The AMQP side against a real RabbitMQ: all that the server in memory does not have, such as users,
 * TLS and TCP. tests/conformance/ has the rest. Started by test_amqp.py.
 */
#include "tests/broker/amqp_rig.h"

int
main(void)
{
	static Suite *(*const makers[])(void) = {
	    versions_suite, costs_suite, watches_suite, links_suite, denied_suite, tls_suite};

	return unit_run(makers, sizeof(makers) / sizeof(makers[0]));
}
