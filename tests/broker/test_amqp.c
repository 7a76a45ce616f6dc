/*
 * The AMQP side against a real RabbitMQ: all that the server in memory does not have, such as users,
 * TLS and TCP. tests/conformance/ has the rest. Started by test_amqp.py and its other parts.
 */
#include "tests/broker/amqp_rig.h"

#include <string.h>

static const struct {
	const char *name;
	Suite *(*maker)(void);
} suites[] = {
    {"versions", versions_suite},
    {"costs", costs_suite},
    {"watches", watches_suite},
    {"links", links_suite},
    {"denied", denied_suite},
    {"tls", tls_suite},
};
enum { SUITES = sizeof(suites) / sizeof(suites[0]) };

/* The arguments are the names of suites. */
int
main(int argc, char **argv)
{
	Suite *(*makers[SUITES])(void);
	size_t count = 0;

	for (int i = 1; i < argc; i++) {
		size_t at = 0;

		while (at < SUITES && strcmp(suites[at].name, argv[i]) != 0)
			at++;
		if (at == SUITES || count == SUITES)
			return EXIT_FAILURE;
		makers[count++] = suites[at].maker;
	}
	return count > 0 ? unit_run(makers, count) : EXIT_FAILURE;
}
