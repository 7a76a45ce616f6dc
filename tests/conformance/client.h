/*
 * Another client of the server, such as another program or an administrator. It speaks AMQP
 * without the broker layer. A call waits for the answer, and returns it in words:
 *
 *	ok 2 1		a declare: messages and consumers
 *	ok		a consume, a cancel, a delete, a publish, a qos
 *	ok 2		a purge: messages
 *	nack, returned	a publish that is not taken, or finds no queue
 *	got BODY, empty	a get
 *	403 WORDS	a refusal. The channel is opened again
 *	dead WORDS	the connection ended
 *
 * The words are valid until the next call of the same client.
 */
#ifndef TESTS_CONFORMANCE_CLIENT_H
#define TESTS_CONFORMANCE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

/* One channel. */
struct client;

/* A channel of a new connection. */
struct client *client_new(void);
/* Another channel of the same connection. */
struct client *client_twin(const struct client *client);
/* Closes the channel. */
void client_close(struct client *client);
/* Ends the connection without a word. All its channels are gone. */
void client_end(struct client *client);
void client_end_all(void);

#define CLIENT_BRIEF_TIME (3 * NSEC_PER_SEC)
enum client_queue {
	CLIENT_PASSIVE,
	CLIENT_EXCLUSIVE,
	CLIENT_TRANSIENT,
	CLIENT_PLAIN,      /* durable, as all below */
	CLIENT_SLOT,       /* keeps no message */
	CLIENT_DIRECTORY,  /* as daemons declare it */
	CLIENT_HOLDER,     /* the B of a slot, as daemons declare it */
	CLIENT_MUTEX,      /* the B of a mutex, as daemons declare it */
	CLIENT_BRIEF,      /* expires CLIENT_BRIEF_TIME after its last use */
	CLIENT_WAIT_QUEUE, /* as daemons declare it */
	CLIENT_QUORUM      /* only a RabbitMQ has it */
};
const char *client_declare(struct client *client, const char *queue, enum client_queue how);
/* A durable quorum queue with a single active consumer, as daemons declare it, with these changes. */
struct client_quorum {
	bool exclusive, auto_delete, transient;
	bool limited; /* by this number of returns; else each message may return for ever */
	int limit;
	bool no_limit; /* without that argument */
	int expires;   /* ms; 0: it does not expire */
};
const char *client_declare_quorum(
    struct client *client, const char *queue, const struct client_quorum *how);

enum client_consume {
	CLIENT_ALONE = 1, /* an exclusive consumer */
	CLIENT_UNREAD = 2 /* takes one message, and acknowledges none; else it needs no acks */
};
const char *client_consume(struct client *client, const char *queue, unsigned how, int priority);
/* Takes up to `prefetch` messages, which are acknowledged by hand. They are read with client_next(). */
const char *client_attach(struct client *client, const char *queue, unsigned prefetch);
/*
 * Waits for the next message of that consumer. In words: its body, the count in its header (0: it
 * has none), and 1 if it is redelivered. "1 0 0"
 */
const char *client_next(struct client *client);
/* The name of the header with the count of that message; "": it had none. */
const char *client_count_header(const struct client *client);
/* The number in its header x-delivery-count. */
int client_failures(const struct client *client);
/* Of the newest delivery with that body. There is no answer: client_qos() waits for a refusal. */
void client_reject(struct client *client, const char *body);
void client_drop(struct client *client, const char *body); /* a reject without requeue */
void client_nack(struct client *client, const char *body);
void client_ack(struct client *client, const char *body);
/* For the next consumer of the channel. A method whose answer shows that the channel is open. */
const char *client_qos(struct client *client, unsigned prefetch);
const char *client_purge(struct client *client, const char *queue);
const char *client_cancel(struct client *client);
enum client_delete { CLIENT_IF_UNUSED = 1, CLIENT_IF_EMPTY = 2 };
const char *client_delete(struct client *client, const char *queue, unsigned conditions);
/* The message is not acknowledged, and returns when the channel ends. */
const char *client_get(struct client *client, const char *queue);

/* A NULL member is left out. The message is persistent and mandatory. */
struct client_message {
	const char *exchange, *queue, *number, *reply_to, *user;
	const void *body;
	size_t len;
};
const char *client_send(struct client *client, const struct client_message *message);
/* Publishes a text, and waits for some hundred messages at a time. All must be taken. */
void client_put(struct client *client, const char *queue, const char *text);
/* client_send() of a text. */
const char *client_publish(struct client *client, const char *queue, const char *text);

/* The server's version: 4.3 is 4003. */
unsigned client_version(const struct client *client);
/* The server cancelled so many consumers of the channel, or delivered so many messages to them. */
unsigned client_cancels(const struct client *client);
unsigned client_deliveries(const struct client *client);

/* Checks the beginning of the words of an answer. */
#define client_want(call, words)                                                                   \
	do {                                                                                       \
		const char *client_said = (call);                                                  \
		ck_assert_msg(strncmp(client_said, (words), strlen(words)) == 0, "%s: %s", #call,  \
		    client_said);                                                                  \
	} while (0)

#endif
