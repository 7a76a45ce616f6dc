/*
 * The login of a connection: the server's description of itself (connection.start), and the
 * daemon's answer (connection.start-ok, SASL PLAIN or EXTERNAL).
 */
#ifndef AMQP_LOGIN_H
#define AMQP_LOGIN_H

#include <stdbool.h>

#include "daemon/amqp/link.h"

struct evbuffer;

/* Fills in *ret from the server's properties. */
void amqp_server_init(struct amqp_server *ret, const amqp_connection_start_t *start);
/*
 * Whether the server deletes queues by name: RabbitMQ before 4.1.8, and 4.2.0 to 4.2.2. There the
 * late declare of a dying connection can delete the next owner's queue of that name
 * (rabbitmq-server issue 15276). An unknown server (version NULL) counts as one that does.
 */
bool amqp_server_deletes_by_name(const char *product, const char *version);
/* True if it may: RabbitMQ before 3.11, and unknown versions. */
bool amqp_server_hides_queues(const char *product, const char *version);

struct amqp_login {
	const char *name; /* connection_name */
	const char *user, *password;
	bool external;
};

/* Appends start-ok. Returns NULL, or why that is impossible (malloc'ed). */
char *amqp_login_put(struct evbuffer *out, const amqp_connection_start_t *start,
    const struct amqp_login *login) __attribute__((warn_unused_result));

#endif
