/*
 * The types that the files of the server in memory share: queues, messages and consumers;
 * connections and their channels; the daemon's end of a connection. Other folders include memory.h
 * only.
 */
#ifndef MEMORY_INTERNAL_H
#define MEMORY_INTERNAL_H

#include <uthash.h>

#include "daemon/amqp/content.h"
#include "daemon/amqp/link.h"
#include "daemon/base/queue.h"
#include "daemon/memory/memory.h"

struct memory_channel;
struct memory_command;
struct memory_connection;
struct memory_quorum;

/* The headers of a message. */
struct memory_headers {
	amqp_pool_t pool;
	amqp_table_t table; /* its texts are in the pool */
};

/* A message in a queue, or delivered on a channel and not acknowledged. */
struct memory_message {
	char *body; /* owned; NUL-terminated */
	size_t len;
	char *correlation_id, *reply_to, *user_id; /* owned; NULL = none */
	char *exchange, *routing_key;              /* owned */
	struct memory_headers *headers;            /* owned; NULL = none */
	int64_t expires;                           /* clock time; INT64_MAX = never */
	bool persistent, redelivered;
	uint64_t order;                   /* place in the order of all publishes */
	struct memory_queue *queue;       /* borrowed; NULL: the queue was deleted */
	struct memory_consumer *consumer; /* borrowed; the receiver; NULL: none, or none any more */
	uint64_t tag;                     /* delivery tag */
	/* In a quorum queue (see quorum.c). It is in no list of a channel. */
	uint64_t key, id;          /* its consumer; the number of its delivery there */
	unsigned acquired, failed; /* its returns; those by the ends of channels */
	bool returned;             /* it goes before those that were not */
	TAILQ_ENTRY(memory_message) of_queue, of_channel;
};
TAILQ_HEAD(memory_messages, memory_message);

struct memory_consumer {
	char *tag; /* owned */
	struct memory_channel *channel;
	struct memory_queue *queue;
	bool exclusive, no_ack;
	bool lost; /* the queue's node dropped it, and the daemon is not notified (MEMORY_PARTED) */
	int priority;
	unsigned prefetch, unread; /* prefetch 0: no limit */
	bool told;                 /* its consume-ok arrived at the daemon */
	bool deaf;                 /* the channel drops the messages for it (see method.c) */
	uint64_t key;              /* by which a quorum queue knows it; 0: it is a classic one */
	TAILQ_ENTRY(memory_consumer) of_queue, of_channel;
};
TAILQ_HEAD(memory_consumers, memory_consumer);

struct memory_queue {
	char *name;                      /* owned */
	struct memory_world *world;      /* borrowed */
	struct memory_connection *owner; /* borrowed; of an exclusive queue; else NULL */
	unsigned home;                   /* its node, if it is durable */
	struct memory_quorum *quorum;    /* owned; NULL: it is a classic queue */
	bool durable, auto_delete;
	bool hangs;                       /* it does not answer; it is not durable */
	bool mortal;                      /* it got a message with a time to live */
	long length_max;                  /* x-max-length; -1 = none */
	bool rejects;                     /* x-overflow reject-publish */
	bool single;                      /* x-single-active-consumer; quorum queues have it, too */
	long expires;                     /* x-expires in ms; -1 = none */
	struct timer expiry;              /* set at the last use; a queue with a consumer stays */
	bool odd;                         /* declared with arguments that the daemon never uses */
	char *exchange;                   /* owned; the queue is bound to it; NULL = none */
	struct memory_messages ready;     /* owned */
	struct memory_messages delivered; /* owned; also listed by the channels */
	/* owned; the first of a priority is the next to get a message */
	struct memory_consumers consumers;
	TAILQ_ENTRY(memory_queue) of_owner; /* exclusive queues */
	UT_hash_handle hh;
};

/*
 * A publish that arrives on a channel, frame by frame. Nearly all publishes are probes, which no
 * queue keeps. The buffers are therefore used again.
 */
struct memory_coming {
	struct memory_message message; /* its texts are the arrays below */
	char exchange[AMQP_CONTENT_WORD], routing_key[AMQP_CONTENT_WORD];
	char correlation_id[AMQP_CONTENT_WORD], reply_to[AMQP_CONTENT_WORD];
	char user_id[AMQP_CONTENT_WORD];
	char *body; /* owned */
	size_t room;
	bool mandatory;
	/* missing bytes of the body; UINT64_MAX: the header is missing; 0: no publish */
	uint64_t to_come;
};

/* Encoded frames on their way, in one direction of a channel. */
struct memory_parcel {
	TAILQ_ENTRY(memory_parcel) entry;
	int64_t when;     /* clock time of its arrival */
	int64_t replies;  /* to the server: clock time at which the answer arrives */
	bool silent;      /* to the server: not answered */
	bool unconfirmed; /* to the server: a publish that is never confirmed */
	bool alarmed;     /* to the server: sent after the link was notified of an alarm */
	bool crashes;     /* to the server: RabbitMQ would crash on it */
	size_t len;
	uint8_t bytes[];
};
TAILQ_HEAD(memory_parcels, memory_parcel);

enum memory_channel_state {
	MEMORY_CHANNEL_CLOSED,
	MEMORY_CHANNEL_OPEN,
	MEMORY_CHANNEL_CLOSING /* channel.close was sent: all methods but close-ok are ignored */
};

/* A channel of a connection; 0 is the connection's own. */
struct memory_channel {
	uint16_t number;
	struct memory_connection *connection; /* borrowed */
	enum memory_channel_state state;
	uint64_t opening; /* number of its last opening, never used twice */
	/* While OPEN: */
	bool confirms;
	uint64_t published, confirmed; /* counted on a channel with confirms */
	/* as in memory_performed, for the method that is being performed */
	bool alarmed;
	bool confirms_not;    /* the publish that is being performed is not confirmed */
	bool confirms_singly; /* a publish stays unconfirmed: no ack with `multiple` may cover it */
	uint64_t last_tag;    /* of the last delivery */
	unsigned prefetch;
	char *ended;      /* owned; the queue that ended last with a consumer of it; NULL: none */
	int64_t ended_at; /* clock time */
	struct memory_consumers consumers;  /* borrowed; the queues own them */
	struct memory_messages delivered;   /* the queues'; owned if the queue was deleted */
	TAILQ_HEAD(, memory_handed) handed; /* owned; messages of quorum queues */
	struct memory_command *asks;  /* borrowed; quorum.c has not taken it yet; NULL: none */
	int64_t last_command;         /* clock time of the newest: no later one is taken sooner */
	bool broken;                  /* its connection ends */
	bool consumes_quorum;         /* or did */
	struct memory_coming *coming; /* owned; NULL: no publish yet */

	struct memory_parcels in, out; /* owned */
	/* arrival of the first of `in` (server's timers) and `out` (daemon's timers) */
	struct timer arrive, reply;
	/* arrival of the newest parcel: a later one does not arrive sooner */
	int64_t last_in, last_out;
	/* clock time at which the answer to the present method arrives */
	int64_t reply_at;
	bool silenced;       /* a method was sent that will not be answered */
	bool stalled;        /* that method arrived: no later one is performed */
	bool waits;          /* the first of `in` waits for a queue's node */
	int64_t burst_at;    /* clock time of the newest publishes, sent together */
	unsigned burst;      /* their number */
	int64_t burst_delay; /* their delay */
	bool burst_silent;
	UT_hash_handle hh;
};

enum memory_connection_state {
	MEMORY_CONNECTION_UP,
	MEMORY_CONNECTION_LOST, /* the daemon's end is gone, the server has not noticed */
	MEMORY_CONNECTION_OVER  /* no method is performed; it owns no queue */
};

struct memory_connection {
	struct memory_world *world;  /* borrowed */
	const struct broker *broker; /* borrowed; NULL: it is gone, or the connection is foreign */
	enum broker_link which;      /* which connection of that broker */
	uint64_t number;             /* never used twice in a server */
	unsigned node;               /* the node of the server that it is connected to */
	enum memory_connection_state state;
	struct memory_link *link;        /* borrowed; NULL: the daemon's end is gone */
	struct timers *client;           /* borrowed; the daemon's; while there is a link */
	struct memory_channel *channels; /* owned; hash by number */
	/* borrowed; channel 0; NULL: the connection is foreign */
	struct memory_channel *control;
	bool detached;                     /* it waits for the daemon's successor */
	bool frozen;                       /* no frame arrives, in either direction */
	unsigned blocked;                  /* directions (enum memory_way) that are held back */
	bool publishes;                    /* it has published */
	bool halted;                       /* by the alarm: no frame is read */
	TAILQ_HEAD(, memory_queue) queues; /* exclusive ones */
	struct timer notice;               /* LOST: the server notices */
	TAILQ_ENTRY(memory_connection) entry;
};

/* A daemon, as the server knows it: the source of its links, and whether they may come up. */
struct memory_client {
	struct memory_world *world;        /* borrowed */
	struct timers *timers;             /* borrowed */
	struct broker *broker;             /* borrowed; NULL while it is being made */
	unsigned node;                     /* of the next links */
	const struct memory_link *reading; /* borrowed; the link that is reading now; NULL: none */
	struct memory_side {
		unsigned channels_max;    /* of the next link */
		struct memory_link *link; /* borrowed; NULL: none now */
		bool held;                /* no link comes up until it is restored */
		bool refused;             /* held; the login is refused */
		bool told;                /* a try failed since it is held */
		int64_t earliest;         /* no link comes up before this clock time */
		char *why;                /* owned; the reason while held */
		/* ns; of the link that is being cut; negative: not given */
		int64_t notice;
	} sides[BROKER_LINKS];
	TAILQ_ENTRY(memory_client) entry;
};

struct memory_link {
	struct amqp_link base; /* first */
	bool alarmed;          /* it was notified of an alarm */
	struct memory_client *client;
	struct memory_connection *connection; /* owned while UP; else the server's */
	struct timer connect;
};

struct memory_world {
	struct timers *timers; /* borrowed */
	struct memory_behaviour behaviour;
	/* owned; used for both directions: one frame is read at a time */
	struct amqp_decoder *decoder;
	uint8_t *scratch; /* owned; room to encode a parcel */
	size_t scratch_size;
	struct memory_queue *queues;                 /* owned; hash by name */
	TAILQ_HEAD(, memory_connection) connections; /* owned, except those with a link */
	TAILQ_HEAD(, memory_client) clients;         /* borrowed */
	struct memory_connection *foreign;           /* one of them; of foreign clients */
	/* how the connections of one node reach the durable queues of another */
	enum memory_reach reach[MEMORY_NODES][MEMORY_NODES];
	uint64_t last_connection, last_opening, last_message, last_seed;
	bool alarm;
	bool deletes_by_name, hides_queues;
	unsigned version; /* MEMORY_VERSION() */
};

static inline int64_t
memory_now(const struct memory_world *world)
{
	return clock_now(timers_clock(world->timers));
}

/* How the connections of a node reach a queue. */
static inline enum memory_reach
memory_reach_from(const struct memory_queue *queue, unsigned node)
{
	if (!queue->durable)
		return queue->hangs ? MEMORY_TIMED_OUT : MEMORY_REACHED;
	return queue->world->reach[node][queue->home];
}

static inline int64_t
memory_later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* The answer of a hook of the behaviour; false if it is NULL. */
static inline bool
memory_chance(const struct memory_world *world, bool (*hook)(void *ctx))
{
	return hook != NULL && hook(world->behaviour.ctx);
}

/* Of RabbitMQ. The default is 4.0. */
#define MEMORY_VERSION(major, minor) ((major)*1000u + (minor))

/* ---- sending (send.c) ---- */

int64_t memory_delay(const struct memory_world *world);
/* Room for a method, a header and `body` bytes of a body, in frames. Valid until the next call. */
uint8_t *memory_scratch(struct memory_world *world, size_t body);
/* Appends a parcel of these frames. when: clock time of its arrival. */
struct memory_parcel *memory_parcel_add(
    struct memory_parcels *parcels, const uint8_t *bytes, size_t len, int64_t when);
/* Sets the timer for the first parcel, unless it is set or there is none. */
void memory_parcels_expect(
    const struct memory_parcels *parcels, struct timers *timers, struct timer *timer);

/* Sends a method to the daemon. asked: it answers the method that is being performed. */
void memory_channel_send(
    struct memory_channel *channel, bool asked, amqp_method_number_t method, void *fields);
/* The same with a message. Its body has two frames, which the daemon must put together. */
void memory_channel_send_message(struct memory_channel *channel, bool asked,
    amqp_method_number_t method, void *fields, const struct memory_message *message);
/* Notifies the daemon that an alarm began or ended. */
void memory_connection_send_blocked(struct memory_connection *connection, bool blocked);

/* ---- arguments of a declare (arguments.c); see quorum.h, too ---- */

/* NULL, and -1: there is no such argument. */
const amqp_field_value_t *memory_argument(const amqp_table_t *arguments, const char *key);
long memory_number_argument(const amqp_table_t *arguments, const char *key);
/* Whether a declare has other arguments than the queue. words: the first difference. */
bool memory_queue_differs(const struct memory_queue *queue, const amqp_queue_declare_t *declare,
    char *words, size_t size);

/* ---- shared by queues of both types (shared.c) ---- */

struct memory_headers *memory_headers_new(const amqp_table_t *table);
void memory_headers_free(struct memory_headers *headers); /* may be NULL */
struct memory_message *memory_message_copy(const struct memory_message *message);
void memory_message_free(struct memory_message *message);
/* NULL: there is no such queue. */
struct memory_queue *memory_queue_find(const struct memory_world *world, const char *name);
/* The queue was used: x-expires begins again. */
void memory_queue_used(struct memory_queue *queue);
/* The number of messages that are ready. */
size_t memory_queue_length(const struct memory_queue *queue);
struct memory_consumer *memory_consumer_find(
    const struct memory_channel *channel, amqp_bytes_t tag);
void memory_consumer_free(struct memory_consumer *consumer);
/* Sends basic.cancel. */
void memory_consumer_send_cancel(const struct memory_consumer *consumer);

/* ---- queues (queue.c) ---- */

/* The user of all daemons. */
#define MEMORY_USER "memory"

/* Makes a queue that is not durable and has no limit. The name must be free. */
struct memory_queue *memory_queue_new(
    struct memory_world *world, const char *name, struct memory_connection *owner);
/* Deletes a queue. told: its consumers get basic.cancel. */
void memory_queue_delete(struct memory_world *world, struct memory_queue *queue, bool told);
/* Appends a copy of the message, if the queue keeps messages. False: the queue rejects it. */
bool memory_queue_add(
    struct memory_world *world, struct memory_queue *queue, const struct memory_message *published);
/* Delivers messages to the consumers that have room. */
void memory_queue_deliver(struct memory_world *world, struct memory_queue *queue);
/* Removes expired messages. */
void memory_queue_expire(const struct memory_world *world, struct memory_queue *queue);
/* The number of consumers; without those that are lost. */
size_t memory_queue_members(const struct memory_queue *queue);

/* Marks a message as delivered on that channel. It must be in no list. */
void memory_message_hand_over(struct memory_message *message, struct memory_queue *queue,
    struct memory_channel *channel, struct memory_consumer *consumer);
/* Undoes that: the message is in no list, and the caller owns it. */
void memory_message_take_back(struct memory_message *message, struct memory_channel *channel);
/* Puts a message back at its old place. If the queue is gone, frees it. */
void memory_message_requeue(struct memory_world *world, struct memory_message *message);

struct memory_consumer *memory_consumer_new(
    struct memory_channel *channel, struct memory_queue *queue, const char *tag, int priority);
/* Ends a consumer. An auto-delete queue ends with its last one. */
void memory_consumer_end(struct memory_world *world, struct memory_consumer *consumer);

/* Ends the consumers of a channel, and requeues its deliveries. */
void memory_channel_end(struct memory_channel *channel);
/* Sets the state OVER, deletes the exclusive queues, and ends the channels. */
void memory_connection_release(struct memory_connection *connection);

/* ---- publishing (publish.c) ---- */

/* The result of a publish, of all its queues together. */
struct memory_fate {
	bool routed, rejected;
	bool unanswered; /* the home of a queue is silent */
};
/*
 * Routes a message: to each queue bound to the exchange, or by the default exchange to the queue of
 * that name.
 */
struct memory_fate memory_route(
    struct memory_channel *channel, const struct memory_message *message);
/* Confirms one more publish: alone, or later together with the next ones. */
void memory_channel_count(struct memory_channel *channel, bool nacked);
/* Sends the confirms that were held back. */
void memory_channel_confirm(struct memory_channel *channel);

/* ---- the effect of methods (method.c) ---- */

/*
 * Performs a frame. The channel is not stalled, and its connection is not OVER. False: the frame
 * waits for a queue's node, and had no effect.
 */
bool memory_perform(struct memory_channel *channel, const struct amqp_frame *frame, bool crashes);
/* The server closes the channel by itself. Methods behind an unanswered one are read again. */
void memory_channel_close(struct memory_channel *channel, int code, const char *text);

/* The server ends a connection with connection.close. It frees the exclusive queues first. */
void memory_connection_close(struct memory_connection *connection, int code, const char *text);

/* ---- connections, both their ends (connection.c) ---- */

/* That connection of a daemon; NULL: its link is not up. */
struct memory_connection *memory_connection_of(const struct broker *broker, enum broker_link which);
/* A connection without a link. */
struct memory_connection *memory_connection_new(struct memory_world *world);
/* The channel of that number; it is made if necessary. */
struct memory_channel *memory_channel_of(struct memory_connection *connection, uint16_t number);
/* Releases and frees a connection: the server noticed its end. */
void memory_connection_free(struct memory_connection *connection);
void memory_connection_freeze(struct memory_connection *connection);
/* After an alarm: reads the connection again. */
void memory_connection_go_on(struct memory_connection *connection);
/* Methods that waited for a queue's node are tried again. */
void memory_connection_try_again(struct memory_connection *connection);

#endif
