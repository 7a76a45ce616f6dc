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
 * - A quorum queue has a single active consumer. It keeps the order and the counts of messages that
 *   return, as RabbitMQ 3.10, 4.0 or 4.3 does, and has the delivery limit and x-expires.
 * - A quorum queue takes requests some time after their channel has sent them. So consume-ok comes
 *   before the consumer is registered, and close-ok before the channel's messages return.
 * - If its home cannot be reached, a quorum queue looks as if it had no message and no consumer. A
 *   consume of it waits, or ends the connection. Other requests are taken later.
 * - If a channel cancels a consumer, has its messages, and consumes again, the consumer goes on. In
 *   RabbitMQ 3.10 the connection ends with the next delivery.
 *
 * A quorum queue has one member, at its home. It has no x-max-length, no time to live, no priorities
 * and no consumers without acknowledgements. The server knows no policies and no delayed retry. Only
 * a test makes a consumer time out.
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
	 * by itself, and for the time until a quorum queue takes a request. Default: 0 (the next
	 * pass of the loop).
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
	bool tls; /* clients believe that they speak TLS: a successor takes no connection over */
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

/* ---- for tests and the simulation (tests/memory/controls.h has more) ---- */

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
 * After broker_save(): the connections that are in the state (none over TLS) wait for broker_resume() of another
 * broker of this server. The broker does nothing more with them, and is freed. Its auxiliary
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

#endif
