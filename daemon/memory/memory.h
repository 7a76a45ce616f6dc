/*
 * An AMQP server in memory: `--broker memory:` for developing without RabbitMQ, unit tests, and the world
 * of the simulation. One memory_world is the server; each memory_broker_new() is one daemon's broker, as
 * it is shipped, whose links go to that server instead of over TCP. Each method passes through the codec
 * on its way; what is sent on one channel arrives in order, what is sent on several in any.
 *
 * What it keeps of RabbitMQ: exclusive queues belong to the connection, and the connection that has one may
 * declare it again; 404, 405, 403 and 406 close the channel, what is worse the connection; closing a
 * channel deletes no exclusive queue; a connection's end does (at once, or later when the world is told to
 * notice late); consumers with priority and prefetch; confirms, returns, time to live, alarms. It knows no
 * more than the daemon uses, and aborts where it is sent something else.
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

/* From a daemon to the world, and back. */
enum memory_way { MEMORY_OUT = 1, MEMORY_IN = 2 };

/* A method as the world performed it. */
struct memory_performed {
	const struct broker *broker; /* NULL: it is gone */
	uint64_t connection;         /* see memory_broker_connection() */
	enum broker_link link;       /* which of the broker's that is, or was */
	uint64_t channel;            /* a number that no other channel of the world ever has */
	amqp_method_number_t method;
	const void *fields; /* borrowed; decoded, as rabbitmq-c has it */
	const char
	    *queue; /* borrowed; declared, deleted, read from; of a publish its routing key */
	/* borrowed, of a publish; of a directory's ack, what is taken out; NULL: none */
	const char *body;
	/* borrowed; of a publish, its correlation-id; "" = none */
	const char *correlation_id;
	bool returned; /* a mandatory publish that found no queue */
	bool alarmed;  /* a publish of a link that had been told of an alarm */
	int code;      /* of the error that closed the channel, or the connection; 0 = none */
};

/*
 * How the world behaves; the simulation and tests bring their own. A NULL hook is the plain one.
 * Every random choice is the hook's, so that a seed replays.
 */
struct memory_behaviour {
	/*
	 * ns until a method is answered; half of them lie before it is performed. Of declares, deletes,
	 * consumes and gets, once each; of publishes, once for all that are sent together; and of what
	 * the server sends by itself. Plain: 0 (the next pass of the loop).
	 */
	int64_t (*delay)(void *ctx);
	/*
	 * Whether a method is performed but never answered; what comes behind it on its channel is then
	 * neither. Publishes are performed but never confirmed, and what comes behind them is as ever.
	 * As often as delay. Plain: no.
	 */
	bool (*silent)(void *ctx);
	/* Whether a publish on a channel with confirms is nacked, and not returned. Plain: no. */
	bool (*nacks)(void *ctx);
	/* Whether a declare or delete is refused with 403. Called when it is performed. Plain: no. */
	bool (*refuses)(void *ctx);
	/* Whether the ack of a publish waits for those behind it, to be one. Plain: no. */
	bool (*holds_acks)(void *ctx);
	/* Hears of every method just after it was performed. Plain: nobody does. */
	void (*performed)(void *ctx, const struct memory_performed *what);
	/* Whether a broker's consumer does not hear that its queue was deleted. Plain: no. */
	bool (*unheard)(void *ctx, const struct broker *broker, const char *queue);
	/*
	 * ns until the world notices that a broker made a link anew by itself. `broken`: what came over it
	 * that should not have; NULL: it wanted to. Plain: 0.
	 */
	int64_t (*notice)(
	    void *ctx, const struct broker *broker, enum broker_link link, const char *broken);
	void *ctx;
};

/* A probe is UNKNOWN after so long, and so is what waits for an auxiliary connection that does not come up. */
#define MEMORY_PROBE_TIMEOUT (5 * NSEC_PER_SEC)

struct memory_world *memory_world_new(
    struct timers *timers, const struct memory_behaviour *behaviour);
void memory_world_free(struct memory_world *world); /* after its brokers */

/* heartbeat in seconds, as info shows it. channels_max: most channels of a link (2047 on RabbitMQ). */
struct broker *memory_broker_new(struct memory_world *world, int heartbeat, unsigned channels_max);

/* ---- for tests and the simulation ---- */

/* The same, of a daemon that hears by its own timers (borrowed), so that it can be late or stopped. */
struct broker *memory_broker_new_at(struct memory_world *world, struct timers *timers,
    int heartbeat, unsigned channels_max, uint64_t seed);

/* Most channels of that link, when it comes up next. */
void memory_broker_set_channels_max(
    struct broker *broker, enum broker_link link, unsigned channels_max);

/*
 * Whether a queue exists, and whose link has it (NULL: nobody's, a plain queue; for one of a foreign
 * connection, or of a broker that was freed, an address that is no broker's).
 */
bool memory_world_has(
    const struct memory_world *world, const char *queue, const struct broker **ret_owner);
/* The number of the connection that has a queue to itself; 0: there is none such. */
uint64_t memory_world_owner(const struct memory_world *world, const char *queue);
/* Every queue, in no order. */
void memory_world_each(const struct memory_world *world,
    void (*fn)(void *ctx, const char *queue, const struct broker *owner), void *ctx);
/* A foreign client's doing: a slot, or a queue held by a foreign connection; false when it exists. */
bool memory_world_put(struct memory_world *world, const char *queue, bool exclusive);
/* The same, a queue that declare_slot uses as it is, at the price of its channel. */
bool memory_world_put_otherwise(struct memory_world *world, const char *queue);
/* The same, and it is gone when the node restarts. */
bool memory_world_put_transient(struct memory_world *world, const char *queue);
/*
 * A foreign client's message at the end of a queue; a directory is made where there is none. One to a
 * wait queue is a hint that says `body`. None goes over its time.
 */
void memory_world_publish(struct memory_world *world, const char *queue, const char *body);
/* The messages of a queue that nobody has got, in order. */
void memory_world_each_message(const struct memory_world *world, const char *queue,
    void (*fn)(void *ctx, const char *body), void *ctx);
/* The messages of a queue with that body, those that a channel has and did not acknowledge too. */
size_t memory_world_copies(const struct memory_world *world, const char *queue, const char *body);
/* The consumers of a queue, as the world sees them: those whose death it has not noticed, too. */
size_t memory_world_members(const struct memory_world *world, const char *queue);
/* The messages in it that were delivered to nobody yet. */
size_t memory_world_hints(const struct memory_world *world, const char *queue);
/* Deletes behind everybody's back; false when there was none. */
bool memory_world_remove(struct memory_world *world, const char *queue);
/* Cancels the consumers of a queue although it is there; false when there was none. */
bool memory_world_cancel(struct memory_world *world, const char *queue);
/*
 * The link dies. The daemon notices now; the world after `notice` ns (0 = at once): until then it
 * performs what had been sent, and only then frees the exclusive queues. The link is up again after
 * `back` ns (the auxiliary connection when it is next used); negative: not until memory_broker_restore(). Of a
 * link that is not up only the way back changes: so a test begins with a broker out of reach.
 */
void memory_broker_cut(
    struct broker *broker, enum broker_link link, int64_t notice, int64_t back, const char *why);
/* As a cut without a way back, by a broker that says why: BROKER_LOGIN_REFUSED until restored. */
void memory_broker_deny(struct broker *broker, enum broker_link link, const char *why);
void memory_broker_restore(struct broker *broker, enum broker_link link);
/*
 * The two ends of a link that is up part without the daemon's noticing, until it is cut: nothing that
 * it sends or has sent is performed any more. Frozen, no answer comes, and the world keeps its exclusive
 * queues; forsaken, what it has answered still comes, and it has given the connection up and freed them.
 */
void memory_broker_freeze(struct broker *broker, enum broker_link link);
void memory_broker_forsake(struct broker *broker, enum broker_link link);
/*
 * Nothing arrives on these ways of a link that is up; what is sent meanwhile does when they are free
 * again (0), in its order. The world does not find out by itself.
 */
void memory_broker_block(struct broker *broker, enum broker_link link, unsigned ways);
/* The number of the link's connection, never used twice; 0: the link is not up. */
uint64_t memory_broker_connection(const struct broker *broker, enum broker_link link);
/* Every channel that can be used. silent: what is asked on it stays unanswered. */
void memory_broker_each_channel(const struct broker *broker, enum broker_link link,
    void (*fn)(void *ctx, uint64_t channel, bool silent), void *ctx);
/* Channels of a link that the daemon has taken; idle ones, kept open, do not count. */
unsigned memory_broker_channels_taken(const struct broker *broker, enum broker_link link);
/* Closes one of those, or a channel of broker_channel_take(), as the server would, e.g. 406 at consumer timeout. */
void memory_broker_close_channel(
    struct broker *broker, uint64_t channel, int code, const char *text);
/*
 * The broker's node goes down and comes up at once: durable queues stay with their persistent messages,
 * exclusive, transient and auto-delete ones are gone, nothing more is performed or answered on any
 * connection. The daemons notice when they are cut.
 */
void memory_world_restart(struct memory_world *world);
/* Closes the channels of the watches: they are told so, and placed anew. */
void memory_broker_close_watches(struct broker *broker);
/*
 * An alarm: a connection that has published is told so; one that publishes is not read any more while it
 * lasts.
 */
void memory_world_block(struct memory_world *world, bool blocked);
/* Whether info says deletes_by_name. */
void memory_world_set_deletes_by_name(struct memory_world *world, bool does);

#endif
