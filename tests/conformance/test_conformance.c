/*
 * The broker layer relies on this behaviour of a server. The suite runs over the server in memory.
 * With the argument "rabbitmq" it runs over a RabbitMQ (test_over_rabbitmq.py).
 */
#include <string.h>

#include "tests/conformance/server.h"

const struct server *server = &server_memory;

int
main(int argc, char **argv)
{
	static Suite *(*const makers[])(void) = {claims_suite, holders_suite, probes_suite,
	    watches_suite, wait_queues_suite, directory_suite, mailbox_suite, ends_suite,
	    quorum_claims_suite, quorum_queues_suite, quorum_records_suite,
	    quorum_queues_3_10_suite, quorum_queues_4_3_suite};
	size_t count = sizeof(makers) / sizeof(makers[0]);

	if (argc > 1 && strcmp(argv[1], "rabbitmq") == 0)
		server = &server_rabbitmq;
	rig_ground = server->ground;
	return unit_run(makers, server->be != NULL ? count : count - 2);
}
