/*
 * The server that the suite runs against: the one in memory, or a RabbitMQ. It has a side door for
 * the acts of an administrator. A case is written once, and does not know the server.
 */
#ifndef TESTS_CONFORMANCE_SERVER_H
#define TESTS_CONFORMANCE_SERVER_H

#include <stdbool.h>

#include "tests/broker/amqp_rig.h"

struct server {
	const char *name;
	const struct rig_ground *ground;
	/* An alarm begins or ends: the server takes no messages meanwhile. */
	void (*alarm)(bool on);
	/* Ends all connections of daemons, with connection.close in these words. */
	void (*close_connections)(const char *words);
	/* The node ends and starts again. The daemons have noticed the end. */
	void (*restart)(void);
	/* Whether the user may declare, delete and consume queues. It may always publish. */
	void (*permit)(bool all);
	/* The server of the next case is of another version. NULL: it has its own. */
	void (*be)(unsigned major, unsigned minor);
};

extern const struct server server_memory, server_rabbitmq;
/* The server of this run, set by main(). */
extern const struct server *server;

/* The fixture of every case. */
void server_setup(void);
void server_teardown(void);
/* A test case of the suite with that fixture. */
TCase *server_tcase(Suite *suite, const char *name);

/* The suites. */
Suite *claims_suite(void);
Suite *holders_suite(void);
Suite *probes_suite(void);
Suite *watches_suite(void);
Suite *wait_queues_suite(void);
Suite *directory_suite(void);
Suite *mailbox_suite(void);
Suite *ends_suite(void);
Suite *quorum_claims_suite(void);
Suite *quorum_queues_suite(void);
Suite *quorum_records_suite(void);
/* Only of a server that can be of any version. */
Suite *quorum_queues_3_10_suite(void);
Suite *quorum_queues_4_3_suite(void);

#endif
