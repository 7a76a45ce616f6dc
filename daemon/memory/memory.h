/*
 * An AMQP server in memory: for `--broker memory:` without RabbitMQ, for unit tests, and for the
 * simulation. One memory_world is the server, and owns its queues. Each memory_broker_new() makes
 * the broker of one daemon: the shipped code, but its links go to that server instead of over TCP.
 * Each method passes through the codec on its way. Methods on one channel arrive in their order,
 * those on several channels in any order.
 *
 * The server keeps these properties of RabbitMQ:
 * - An exclusive queue belongs to a connection, which may declare it again.
 * - 404, 405, 403 and 406 close the channel. Worse errors end the connection.
 * - The end of a channel deletes no exclusive queue. The end of a connection does: at once, or
 *   later if the server is told to notice late.
 * - An exclusive consumer has its queue to itself, until it is cancelled or its channel ends.
 * - Consumers have a priority and a prefetch. There are confirms, returns, time to live and alarms.
 * - A consumer hears nothing if its queue ended on the same channel just before, and was made again.
 * - Queues have x-expires, x-max-length and x-overflow reject-publish.
 * - A durable queue has a home: the node of the connection that declared it. If the home cannot be
 *   reached, the queue cannot be used. All other queues, and all exchanges, are on every node.
 *
 * It knows no more AMQP than the daemon uses, and aborts on anything else. It knows nothing of
 * locks.
 */
#ifndef MEMORY_MEMORY_H
#define MEMORY_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/amqp/frame.h"
#include "daemon/base/timers.h"
#include "daemon/broker/broker.h"

struct memory_world;

/* From a daemon to the server (OUT), and back (IN). */
enum memory_way { MEMORY_OUT = 1, MEMORY_IN = 2 };

/* A method that the server performed. */
struct memory_performed {
	const struct broker *broker; /* of the daemon; NULL: it is gone */
	uint64_t connection;         /* see memory_broker_connection() */
	enum broker_link link;       /* which connection of that broker this is, or was */
	uint64_t channel;            /* never used twice for a channel of this server */
	amqp_method_number_t method;
	const void *fields; /* borrowed; the struct of rabbitmq-c */
	/*
	 * borrowed; the queue that was declared, deleted or read; the queue of a consumer that was
	 * cancelled, NULL: none; the routing key of a publish
	 */
	const char *queue;
	/* borrowed; the message of a publish, or the message that an ack removes; NULL: none */
	const char *body;
	/* borrowed; of a publish; "" = none */
	const char *correlation_id;
	bool returned; /* a mandatory publish that found no queue */
	bool alarmed;  /* a publish after the link was notified of an alarm */
	int code;      /* of the error that closed the channel or the connection; 0 = none */
};

/*
 * The behaviour of the server; the simulation and tests bring their own. A NULL hook has the
 * default. All random choices are made in hooks, so that a seed replays.
 */
struct memory_behaviour {
	/*
	 * ns until a method is answered; half of it passes before the method is performed. Called
	 * once for each declare, delete, consume and get, for each cancel with an answer, and once
	 * for all publishes that are sent together. Also called for methods that the server sends
	 * by itself. Default: 0 (the next pass of the loop).
	 */
	int64_t (*delay)(void *ctx);
	/*
	 * Whether a method is performed but never answered. The methods behind it on its channel
	 * are then not performed. A silent publish is performed but never confirmed, and has no
	 * effect on later methods. Called as often as delay. Default: no.
	 */
	bool (*silent)(void *ctx);
	/* Whether a publish on a channel with confirms is nacked, and not returned. Default: no. */
	bool (*nacks)(void *ctx);
	/*
	 * Whether a declare, delete or consume is refused with 403, as it is performed. Default:
	 * no.
	 */
	bool (*refuses)(void *ctx);
	/*
	 * Whether the ack of a publish waits, and becomes one ack with those of later publishes.
	 * Default: no.
	 */
	bool (*holds_acks)(void *ctx);
	/* Called for each method, just after it is performed. */
	void (*performed)(void *ctx, const struct memory_performed *what);
	/* Whether a consumer gets no basic.cancel when its queue is deleted. Default: no. */
	bool (*unheard)(void *ctx, const struct broker *broker, const char *queue);
	/*
	 * ns until the server notices that a daemon ended a link by itself. broken: the violation
	 * of the protocol that the daemon saw; NULL: the daemon wanted a new link. Default: 0.
	 */
	int64_t (*notice)(
	    void *ctx, const struct broker *broker, enum broker_link link, const char *broken);
	void *ctx;
};

/* Timeout of probes, and of requests that wait for an auxiliary connection, in ns. */
#define MEMORY_PROBE_TIMEOUT (5 * NSEC_PER_SEC)

struct memory_world *memory_world_new(
    struct timers *timers, const struct memory_behaviour *behaviour);
void memory_world_free(struct memory_world *world); /* after its brokers */

/*
 * Makes the broker of a daemon. heartbeat: seconds. channels_max: the maximum number of channels of
 * each link (2047 on RabbitMQ).
 */
struct broker *memory_broker_new(struct memory_world *world, int heartbeat, unsigned channels_max);

/* ---- for tests and the simulation ---- */

/* The same for a daemon with timers of its own (borrowed), so that it can be late or stopped. */
struct broker *memory_broker_new_at(struct memory_world *world, struct timers *timers,
    int heartbeat, unsigned channels_max, uint64_t seed);

/* The same with settings of the test's own. The hosts only matter for their names. */
struct amqp_settings;
struct broker *memory_broker_new_as(struct memory_world *world, struct timers *timers,
    const struct amqp_settings *settings, unsigned channels_max, uint64_t seed);

/* Sets the maximum number of channels for the next link of that connection. */
void memory_broker_set_channels_max(
    struct broker *broker, enum broker_link link, unsigned channels_max);

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
/* The number of messages that are not delivered and not expired. */
size_t memory_world_hints(const struct memory_world *world, const char *queue);
/* Deletes a queue from outside. False: there is none. */
bool memory_world_remove(struct memory_world *world, const char *queue);
/*
 * The process of an exclusive queue does not answer any more, or again. RabbitMQ then gives up after
 * a while, and says "due to timeout". False: there is no such queue.
 */
bool memory_world_hang(struct memory_world *world, const char *queue, bool hangs);
/* Cancels the consumers of a queue, without a deletion. False: there is none. */
bool memory_world_cancel(struct memory_world *world, const char *queue);

/* The nodes of the server. Daemons, unless a test moves them, and foreign clients are on node 0. */
#define MEMORY_NODES 3

/* How the connections of a node reach the durable queues of a home. */
enum memory_reach {
	MEMORY_REACHED,
	/*
	 * The home does not answer. A declare, delete, consume, get or cancel waits, and so do the
	 * methods behind it on its channel. A publish is never confirmed. Consumers stay, as long
	 * as their channel.
	 */
	MEMORY_SILENT,
	/*
	 * The same, but the home noticed a partition, and the queue has lost the consumers of that
	 * node. They are not notified before the next change of this state.
	 */
	MEMORY_PARTED,
	/*
	 * Both sides noticed the partition: consumers get basic.cancel. A declare, consume or get
	 * fails with 404 "due to timeout". A publish is nacked. A delete succeeds in spite of
	 * if-unused, and no consumer of the queue is notified. With if-empty it fails with 406.
	 */
	MEMORY_TIMED_OUT,
	/*
	 * The home is down: consumers get basic.cancel. A declare, delete, consume or get fails
	 * with 404 "is down or inaccessible". A publish is nacked. If a node is down for itself,
	 * its queues do not expire.
	 */
	MEMORY_DOWN
};

/* Methods that waited are performed, or fail. */
void memory_world_set_reach(
    struct memory_world *world, unsigned from, unsigned home, enum memory_reach reach);
/* The home of a queue. Negative: there is no such queue. */
int memory_world_home(const struct memory_world *world, const char *queue);
/* Moves a queue. False: there is none. */
bool memory_world_set_home(struct memory_world *world, const char *queue, unsigned node);
/* Sets the node of the next links of a daemon. */
void memory_broker_set_node(struct broker *broker, unsigned node);

/*
 * Ends the link. The daemon notices now, and the server after `notice` ns (0 = at once). Until then
 * the server performs the methods that were sent, and only then frees the exclusive queues.
 *
 * The next link can come up after `back` ns (an auxiliary connection only when it is needed).
 * Negative: not until memory_broker_restore(). If the link is not up, only `back` takes effect: a
 * test can begin without a broker.
 */
void memory_broker_cut(
    struct broker *broker, enum broker_link link, int64_t notice, int64_t back, const char *why);
/*
 * Ends the link, and refuses each login with that text until memory_broker_restore():
 * BROKER_LOGIN_REFUSED.
 */
void memory_broker_deny(struct broker *broker, enum broker_link link, const char *why);
void memory_broker_restore(struct broker *broker, enum broker_link link);
/*
 * After broker_save(): the lock connection, if there is one, waits for broker_resume() of another
 * broker of this server. The broker does nothing more with it, and is freed. Its auxiliary
 * connection ends. The server takes what was sent there, and notices the end `notice` ns later.
 */
void memory_broker_detach(struct broker *broker, int64_t notice);
/*
 * Separates the two ends of a link that is up, without the daemon's noticing, until the link is
 * cut. No method of the daemon is performed any more. Frozen: no answer arrives, and the server
 * keeps the exclusive queues. Forsaken: answers that were already sent still arrive, and the server
 * ended the connection and freed the queues.
 */
void memory_broker_freeze(struct broker *broker, enum broker_link link);
void memory_broker_forsake(struct broker *broker, enum broker_link link);
/*
 * Holds back these ways (enum memory_way) of a link that is up. With 0 they are free again, and the
 * held frames arrive in their order. The server does not notice by itself.
 */
void memory_broker_block(struct broker *broker, enum broker_link link, unsigned ways);
/* The number of the link's connection, never used twice. 0: the link is not up. */
uint64_t memory_broker_connection(const struct broker *broker, enum broker_link link);
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
/*
 * Begins or ends an alarm. Connections that have published are notified. A connection that
 * publishes is not read while the alarm lasts.
 */
void memory_world_block(struct memory_world *world, bool blocked);
/* Sets deletes_by_name in broker_info. */
void memory_world_set_deletes_by_name(struct memory_world *world, bool does);
/* Returns messages to a queue whose home is down, as RabbitMQ before 3.11, and sets hides_queues there. */
void memory_world_set_hides_queues(struct memory_world *world, bool does);

#endif
