/*
 * Another client of the test's RabbitMQ, which knows nothing of ours: rabbitmq-c's blocking calls on one
 * connection with one channel. What fails fails the test.
 */
#ifndef TESTS_BROKER_FOREIGN_H
#define TESTS_BROKER_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

/* One at a time. */
void foreign_open(void);
void foreign_close(void);
/* type: x-queue-type, NULL = none is said; empty: it says x-max-length 0, too. */
void foreign_declare(const char *queue, bool durable, const char *type, bool empty);
/* A wait queue, as ours are declared; and a consumer that reads nothing of what it is sent. */
void foreign_line(const char *queue);
void foreign_consume(const char *queue, int priority);
void foreign_delete(const char *queue);
/* Persistent. */
void foreign_publish(const char *queue, const void *body, size_t len);
/* Without a body; correlation_id: NULL = none. */
void foreign_hint(const char *queue, const char *correlation_id);
/* A daemon message, as others might write it; NULL: without. */
struct foreign_message {
	const char *exchange, *key, *number, *reply_to, *user, *text;
};
/* Whether the broker took it; one that it refused costs the channel. */
bool foreign_write(const struct foreign_message *message);
/* Messages that are ready. */
unsigned foreign_count(const char *queue);
/* After the channel was lost. */
void foreign_drop(void);
/* As many messages as that, unacknowledged. */
void foreign_get(const char *queue, unsigned count);

#endif
