/*
 * Another client of the test's RabbitMQ. It shares no code with the daemon: it uses rabbitmq-c's
 * blocking calls on one connection with one channel. A failed call fails the test.
 */
#ifndef TESTS_BROKER_FOREIGN_H
#define TESTS_BROKER_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

/* There is one connection at a time. */
void foreign_open(void);
void foreign_close(void);
/* type: x-queue-type; NULL: not set. empty: sets x-max-length to 0. */
void foreign_declare(const char *queue, bool durable, const char *type, bool empty);
/* Declares a wait queue as daemons do. foreign_consume() adds a consumer that reads no message. */
void foreign_wait_queue(const char *queue);
void foreign_consume(const char *queue, int priority);
/* Declares the holder queue of a mutex as daemons do. The channel is closed if it is another. */
void foreign_mutex_holder(const char *queue);
void foreign_delete(const char *queue);
/* The message is persistent. For requests of others it may still be on its way: foreign_flush(). */
void foreign_publish(const char *queue, const void *body, size_t len);
/* Later requests of others come behind all messages to the queue. foreign_close() does the same. */
void foreign_flush(const char *queue);
/* A hint has no body. correlation_id NULL: none. */
void foreign_hint(const char *queue, const char *correlation_id);
/* A daemon message from a foreign program. A NULL member is left out. */
struct foreign_message {
	const char *exchange, *key, *number, *reply_to, *user, *text;
};
/* Whether the broker accepted the message. A refused one closes the channel. */
bool foreign_write(const struct foreign_message *message);
/* The number of ready messages. */
unsigned foreign_count(const char *queue);
/* Call it after the channel was closed. */
void foreign_drop(void);
/* Gets so many messages without acknowledging them. */
void foreign_get(const char *queue, unsigned count);

#endif
