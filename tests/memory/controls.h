/*
 * Changes to the queues, nodes and channels of the server in memory, as a program other than the
 * daemon would make them. It also tells tests about them.
 */
#ifndef TESTS_MEMORY_CONTROLS_H
#define TESTS_MEMORY_CONTROLS_H

#include "daemon/memory/memory.h"

/*
 * Whether a queue exists, and which daemon's broker has it to itself. *ret_owner is NULL if the
 * queue is not exclusive. If the owner is a foreign connection or a freed broker, *ret_owner is an
 * address of no broker.
 */
bool memory_world_has(
    const struct memory_world *world, const char *queue, const struct broker **ret_owner);

/* The number of the connection that owns an exclusive queue; 0: there is no such queue. */
uint64_t memory_world_owner(const struct memory_world *world, const char *queue);

/* Whether a queue exists and is durable. */
bool memory_world_durable(const struct memory_world *world, const char *queue);

/*
 * The number of the connection that has an exclusive consumer on a queue, and the channel as in
 * memory_performed. NULL: not wanted. 0: the queue has no exclusive consumer.
 */
uint64_t memory_world_holder(
    const struct memory_world *world, const char *queue, uint64_t *ret_channel);

/* Calls fn for each queue, in any order. */
void memory_world_each(const struct memory_world *world,
    void (*fn)(void *ctx, const char *queue, const struct broker *owner), void *ctx);

/*
 * A foreign client creates a queue: a slot queue, or an exclusive queue of a foreign connection.
 * False: it exists.
 */
bool memory_world_put(struct memory_world *world, const char *queue, bool exclusive);

/*
 * The same, with other arguments than a slot queue: broker_declare_slot() accepts it, but its
 * channel is closed.
 */
bool memory_world_put_otherwise(struct memory_world *world, const char *queue);

/* The same, but the queue is gone when the node restarts. */
bool memory_world_put_transient(struct memory_world *world, const char *queue);

/* The same as a slot queue, but with x-overflow reject-publish: the B of a slot. */
bool memory_world_put_holder(struct memory_world *world, const char *queue);

/* A foreign client consumes a queue exclusively. False: no queue, or it has a consumer. */
bool memory_world_hold(struct memory_world *world, const char *queue);

/* Ends that. False: it did not hold the queue. */
bool memory_world_let_go(struct memory_world *world, const char *queue);

/*
 * A foreign client appends a message to a queue. If the queue does not exist, it is made as a
 * directory. In a wait queue the message is a hint with the text `body`. It does not expire.
 */
void memory_world_publish(struct memory_world *world, const char *queue, const char *body);

/* Calls fn for each message that is not delivered, in their order. */
void memory_world_each_message(const struct memory_world *world, const char *queue,
    void (*fn)(void *ctx, const char *body), void *ctx);

/* The number of messages with that body, also those that are delivered and not acknowledged. */
size_t memory_world_copies(const struct memory_world *world, const char *queue, const char *body);

/*
 * The number of consumers of a queue, also those of a daemon whose end the server has not noticed.
 */
size_t memory_world_members(const struct memory_world *world, const char *queue);

/* Deletes a queue from outside. False: there is none. */
bool memory_world_remove(struct memory_world *world, const char *queue);

/*
 * The process of an exclusive queue does not answer any more, or again. RabbitMQ then gives up after
 * a while, and says "due to timeout". False: there is no such queue.
 */
bool memory_world_hang(struct memory_world *world, const char *queue, bool hangs);

/* Cancels the consumers of a queue, without a deletion. False: there is none. */
bool memory_world_cancel(struct memory_world *world, const char *queue);

/* Methods that waited are performed, or fail. */
void memory_world_set_reach(
    struct memory_world *world, unsigned from, unsigned home, enum memory_reach reach);

/* The home of a queue. Negative: there is no such queue. */
int memory_world_home(const struct memory_world *world, const char *queue);

/* Moves a queue. False: there is none. */
bool memory_world_set_home(struct memory_world *world, const char *queue, unsigned node);

/* Calls fn for each usable channel. silent: requests on it stay unanswered. */
void memory_broker_each_channel(const struct broker *broker, enum broker_link link,
    void (*fn)(void *ctx, uint64_t channel, bool silent), void *ctx);

/* The number of channels that the daemon has taken; idle open ones do not count. */
unsigned memory_broker_channels_taken(const struct broker *broker, enum broker_link link);

/*
 * Closes one of those channels, or one of broker_channel_take(), as the server would: for instance
 * with 406 at the consumer timeout.
 */
void memory_broker_close_channel(
    struct broker *broker, uint64_t channel, int code, const char *text);

/* ---- quorum queues; false, or 0: there is no such queue, or no such consumer ---- */

/* The channel, as in memory_performed, of the active consumer. NULL, or the number of its messages. */
uint64_t memory_world_active(
    const struct memory_world *world, const char *queue, unsigned *ret_messages);

/* The node of the active consumer is down: its messages return, and the next one becomes active. */
bool memory_world_suspend(struct memory_world *world, const char *queue);

/* The nodes are back: the suspended consumers wait again. From 4.0 on, the oldest one is the next. */
bool memory_world_resume(struct memory_world *world, const char *queue);

/* Deliveries are held back, or arrive now, and later ones at once. */
bool memory_world_delay_deliveries(struct memory_world *world, const char *queue, bool delay);

/*
 * Those that are held back were lost, and the server's client fetches them before the next one: from 3.11
 * to 4.2 in reversed order.
 */
bool memory_world_fetch_deliveries(struct memory_world *world, const char *queue);

/* The fate of rejects and nacks from now on. */
enum memory_rejects {
	MEMORY_REJECTS_TAKEN,
	MEMORY_REJECTS_LOST,
	MEMORY_REJECTS_DELAYED /* lost, until memory_world_resend() */
};
bool memory_world_set_rejects(
    struct memory_world *world, const char *queue, enum memory_rejects what);

/* Channels that end keep their messages until memory_world_resend(), or no more. */
bool memory_world_set_lingers(struct memory_world *world, const char *queue, bool lingers);

/* The server's client sends the delayed rejects again, the last one first. */
bool memory_world_resend(struct memory_world *world, const char *queue);

/* The active consumer gets nothing, or is served again. */
bool memory_world_starve(struct memory_world *world, const char *queue, bool starve);

/* A foreign client makes a quorum queue whose only argument is the single active consumer. */
bool memory_world_put_quorum(struct memory_world *world, const char *queue);
/* A purge: the messages that are not delivered are gone. Returns their number. */
size_t memory_world_purge(struct memory_world *world, const char *queue);

/* The queue loses all its messages, also the delivered ones. */
bool memory_world_lose(struct memory_world *world, const char *queue);

/*
 * The consumer timeout of 4.3: the active consumer is cancelled by the server. Only its first
 * message returns. It keeps the others until its channel ends.
 */
bool memory_world_time_out(struct memory_world *world, const char *queue);

/*
 * No node leads the queue: a consume is answered with consume-ok, and then ends the connection with 541. A
 * publish is nacked. The queue answers a declare with its messages and consumers all the same.
 */
bool memory_world_refuse_consumers(struct memory_world *world, const char *queue, bool refuse);

/*
 * Restarts the server's node. Durable queues and their persistent messages stay. Exclusive,
 * transient and auto-delete queues are gone. No connection performs or answers anything more. The
 * daemons notice when they are cut.
 */
void memory_world_restart(struct memory_world *world);

/* Ends the connections of all daemons, with connection.close in these words. */
void memory_world_close_connections(struct memory_world *world, const char *words);

/* Closes the channels of the watches, which are then placed again. */
void memory_broker_close_watches(struct broker *broker);
/* The same of holds by quorum. */
void memory_broker_close_holds(struct broker *broker);

/*
 * Begins or ends an alarm. Connections that have published are notified. A connection that
 * publishes is not read while the alarm lasts.
 */
void memory_world_block(struct memory_world *world, bool blocked);

/* Sets the version of the server, which is 4.0 otherwise. There is no quorum queue yet. */
void memory_world_set_version(struct memory_world *world, unsigned major, unsigned minor);

/* Sets deletes_by_name in broker_info. */
void memory_world_set_deletes_by_name(struct memory_world *world, bool does);

/* Returns messages to a queue whose home is down, as RabbitMQ before 3.11, and sets hides_queues there. */
void memory_world_set_hides_queues(struct memory_world *world, bool does);

#endif
