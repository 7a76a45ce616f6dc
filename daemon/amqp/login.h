/*
 * The first words of a connection: who the server says it is (connection.start), and who we are and
 * what we can do (connection.start-ok, SASL PLAIN or EXTERNAL).
 */
#ifndef AMQP_LOGIN_H
#define AMQP_LOGIN_H

#include <stdbool.h>

#include "daemon/amqp/link.h"

struct evbuffer;

/* From the server's properties. */
void amqp_server_init(struct amqp_server *ret, const amqp_connection_start_t *start);
/*
 * RabbitMQ before 4.1.8, and 4.2.0 to 4.2.2: the late declare of a dying connection can delete the next
 * owner's queue by its name (rabbitmq-server issue 15276). What does not say what it is (version NULL), may.
 */
bool amqp_server_deletes_by_name(const char *product, const char *version);

struct amqp_login {
	const char *name; /* connection_name */
	const char *user, *password;
	bool external;
};

/* Appends start-ok. NULL, or why it cannot be (malloc'ed). */
char *amqp_login_put(struct evbuffer *out, const amqp_connection_start_t *start,
    const struct amqp_login *login) __attribute__((warn_unused_result));

#endif
