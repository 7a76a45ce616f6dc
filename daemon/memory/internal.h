/*
 * The inside of the server in memory, shared by its files: queues, messages, consumers; connections and
 * their channels; the client's end of a connection.
 */
#ifndef MEMORY_INTERNAL_H
#define MEMORY_INTERNAL_H

#include <uthash.h>

#include "daemon/amqp/content.h"
#include "daemon/amqp/link.h"
#include "daemon/base/queue.h"
#include "daemon/memory/memory.h"

struct memory_channel;
struct memory_connection;

/* In a queue, or delivered on a channel and not acknowledged. */
struct memory_message {
	char *body; /* owned; NUL-terminated */
	size_t len;
	char *correlation_id, *reply_to, *user_id; /* owned; NULL = none */
	char *exchange, *routing_key;              /* owned */
	int64_t expires;                           /* clock time; INT64_MAX = never */
	bool persistent, redelivered;
	uint64_t order;             /* of publishing */
	struct memory_queue *queue; /* borrowed; NULL: it was deleted */
	struct memory_consumer
	    *consumer; /* borrowed; delivered to it; NULL: got, or it was cancelled */
	uint64_t tag;  /* of its delivery */
	TAILQ_ENTRY(memory_message) of_queue, of_channel;
};
TAILQ_HEAD(memory_messages, memory_message);

struct memory_consumer {
	char *tag; /* owned */
	struct memory_channel *channel;
	struct memory_queue *queue;
	int priority;
	unsigned prefetch, unread; /* prefetch 0: no limit */
	bool told;                 /* its consume-ok has arrived */
	TAILQ_ENTRY(memory_consumer) of_queue, of_channel;
};
TAILQ_HEAD(memory_consumers, memory_consumer);

struct memory_queue {
	char *name;                      /* owned */
	struct memory_connection *owner; /* exclusive to it; NULL: nobody's */
	bool durable, auto_delete;
	bool mortal;                        /* a message was added that has a time to live */
	long length_max;                    /* x-max-length; -1 = none */
	bool odd;                           /* declared with arguments that none of ours has */
	char *exchange;                     /* owned; bound to it; NULL = none */
	struct memory_messages ready;       /* owned */
	struct memory_messages delivered;   /* owned; by its channels too */
	struct memory_consumers consumers;  /* owned; the first is the next of its priority */
	TAILQ_ENTRY(memory_queue) of_owner; /* exclusive ones */
	UT_hash_handle hh;
};

/*
 * A publish that comes on a channel, frame by frame. Nearly all of them are probes, which no queue keeps:
 * so nothing of it is allocated anew.
 */
struct memory_coming {
	struct memory_message message; /* its texts are those below */
	char exchange[AMQP_CONTENT_WORD], routing_key[AMQP_CONTENT_WORD];
	char correlation_id[AMQP_CONTENT_WORD], reply_to[AMQP_CONTENT_WORD];
	char user_id[AMQP_CONTENT_WORD];
	char *body; /* owned */
	size_t room;
	bool mandatory;
	uint64_t to_come; /* bytes of its body; UINT64_MAX: its header; 0: nothing comes */
};

/* Frames on their way, encoded, one way of a channel. */
struct memory_parcel {
	TAILQ_ENTRY(memory_parcel) entry;
	int64_t when;     /* it arrives */
	int64_t replies;  /* to the server: when what it answers arrives */
	bool silent;      /* to the server: it is not answered */
	bool unconfirmed; /* to the server: a publish that is never confirmed */
	bool alarmed;     /* to the server: sent by a link that had been told of an alarm */
	bool crashes;     /* to the server: RabbitMQ would crash on it */
	size_t len;
	uint8_t bytes[];
};
TAILQ_HEAD(memory_parcels, memory_parcel);

enum memory_channel_state {
	MEMORY_CHANNEL_CLOSED,
	MEMORY_CHANNEL_OPEN,
	MEMORY_CHANNEL_CLOSING /* channel.close was sent: all but close-ok is ignored */
};

/* A channel number of a connection; 0 for the connection itself. */
struct memory_channel {
	uint16_t number;
	struct memory_connection *connection; /* borrowed */
	enum memory_channel_state state;
	uint64_t opening; /* the world's number of its last opening */
	/* while OPEN: */
	bool confirms;
	uint64_t published, confirmed; /* counted while it confirms */
	bool alarmed;                  /* the same: see memory_performed */
	bool confirms_not;             /* what is being performed */
	bool confirms_singly; /* some publish was not confirmed, and no other is to be for it */
	uint64_t last_tag;    /* of its deliveries */
	unsigned prefetch;
	struct memory_consumers consumers; /* borrowed; the queues' */
	struct memory_messages
	    delivered;                /* borrowed; the queues', or owned when theirs was deleted */
	struct memory_coming *coming; /* owned; NULL: nothing was published yet */

	struct memory_parcels in, out; /* owned */
	struct timer arrive, reply;    /* of the first of each; the world's, the client's */
	int64_t last_in, last_out; /* when the last one sent arrives: none behind it comes sooner */
	int64_t reply_at;          /* of what is being performed */
	bool silenced;             /* something was sent that is not going to be answered */
	bool stalled;              /* that has arrived: nothing behind it is performed */
	int64_t burst_at;          /* the last publish was sent then, */
	unsigned burst;            /* so many at that time, */
	int64_t burst_delay;       /* with that delay */
	bool burst_silent;
	UT_hash_handle hh;
};

enum memory_connection_state {
	MEMORY_CONNECTION_UP,
	MEMORY_CONNECTION_LOST, /* the client is gone, the world has not noticed */
	MEMORY_CONNECTION_OVER  /* nothing is performed any more; it owns nothing */
};

struct memory_connection {
	struct memory_world *world;  /* borrowed */
	const struct broker *broker; /* borrowed; NULL when it is gone or was never ours */
	enum broker_link which;      /* of that broker's */
	uint64_t number;             /* never used twice in a world */
	enum memory_connection_state state;
	struct memory_link *link;          /* borrowed; NULL: the client is gone */
	struct timers *client;             /* borrowed; while there is a link */
	struct memory_channel *channels;   /* owned; hash by number */
	struct memory_channel *control;    /* borrowed; number 0 of them; NULL: it is foreign */
	bool frozen;                       /* nothing arrives any more, either way */
	unsigned blocked;                  /* ways (enum memory_way) on which nothing arrives now */
	bool publishes;                    /* it has published */
	bool halted;                       /* by the alarm: nothing is read */
	TAILQ_HEAD(, memory_queue) queues; /* exclusive ones */
	struct timer notice;               /* LOST */
	TAILQ_ENTRY(memory_connection) entry;
};

/* A daemon, as the world knows it: where its links come from, and whether they may. */
struct memory_client {
	struct memory_world *world;        /* borrowed */
	struct timers *timers;             /* borrowed */
	struct broker *broker;             /* borrowed; NULL: not made yet */
	const struct memory_link *reading; /* borrowed; NULL: none is */
	struct memory_side {
		unsigned channels_max;    /* of the next link */
		struct memory_link *link; /* borrowed; NULL: none now */
		bool held;                /* none comes up until restored */
		bool refused;             /* held, in words */
		bool told;                /* a try has failed for it */
		int64_t earliest;         /* none comes up before */
		char *why;                /* owned; of held */
		int64_t notice;           /* of the link that is being cut */
	} sides[2];
	TAILQ_ENTRY(memory_client) entry;
};

struct memory_link {
	struct amqp_link base; /* first */
	bool alarmed;          /* it was told that there is an alarm */
	struct memory_client *client;
	struct memory_connection *connection; /* owned while UP, then the world's */
	struct timer connect;
};

struct memory_world {
	struct timers *timers; /* borrowed */
	struct memory_behaviour behaviour;
	struct amqp_decoder *decoder; /* owned; of both ends: one frame at a time is read */
	uint8_t *scratch;             /* owned; what is encoded, until it is a parcel */
	size_t scratch_size;
	struct memory_queue *queues;                 /* owned; hash by name */
	TAILQ_HEAD(, memory_connection) connections; /* owned, but those with a link */
	TAILQ_HEAD(, memory_client) clients;         /* borrowed */
	struct memory_connection foreign;            /* one that no broker of ours has */
	uint64_t last_connection, last_opening, last_message, last_seed;
	bool alarm;
	bool deletes_by_name;
};

static inline int64_t
memory_now(const struct memory_world *world)
{
	return clock_now(timers_clock(world->timers));
}

static inline int64_t
memory_later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* What a hook of the behaviour says; false where there is none. */
static inline bool
memory_chance(const struct memory_world *world, bool (*hook)(void *ctx))
{
	return hook != NULL && hook(world->behaviour.ctx);
}

/* ---- what is sent (send.c) ---- */

int64_t memory_delay(const struct memory_world *world);
/* Room for a method, a header and so many bytes of a body, in frames; until it is asked for again. */
uint8_t *memory_scratch(struct memory_world *world, size_t body);
/* Adds a parcel of these frames at the end. */
struct memory_parcel *memory_parcel_add(
    struct memory_parcels *parcels, const uint8_t *bytes, size_t len, int64_t when);
/* Sets the timer for the first one, if there is any and it is not set yet. */
void memory_parcels_expect(
    const struct memory_parcels *parcels, struct timers *timers, struct timer *timer);

/* To the client; `asked`: it answers what is being performed. */
void memory_channel_send(
    struct memory_channel *channel, bool asked, amqp_method_number_t method, void *fields);
/* The same with a header, and a body in two pieces: the client must put them together. */
void memory_channel_send_message(struct memory_channel *channel, bool asked,
    amqp_method_number_t method, void *fields, const struct memory_message *message);
/* An alarm began or ended. */
void memory_connection_send_blocked(struct memory_connection *connection, bool blocked);

/* ---- queues (queue.c) ---- */

/* NULL: there is none. */
struct memory_queue *memory_queue_find(const struct memory_world *world, const char *name);
/* There is none of that name. Plain: not durable, without a limit. */
struct memory_queue *memory_queue_new(
    struct memory_world *world, const char *name, struct memory_connection *owner);
/* Deletes it; its consumers are told so. */
void memory_queue_delete(struct memory_world *world, struct memory_queue *queue, bool told);
/* Puts a copy of it there, where the queue keeps any. */
void memory_queue_add(
    struct memory_world *world, struct memory_queue *queue, const struct memory_message *published);
/* Messages go to the consumers that have room for them. */
void memory_queue_deliver(struct memory_world *world, struct memory_queue *queue);
/* Those that are over their time go. */
void memory_queue_expire(const struct memory_world *world, struct memory_queue *queue);
size_t memory_queue_length(const struct memory_queue *queue);
size_t memory_queue_members(const struct memory_queue *queue);

void memory_message_free(struct memory_message *message);
/* Delivered on that channel from now on; it must be in no list. */
void memory_message_hand_over(struct memory_message *message, struct memory_queue *queue,
    struct memory_channel *channel, struct memory_consumer *consumer);
/* It is not delivered any more, in no list, and the caller's. */
void memory_message_take_back(struct memory_message *message, struct memory_channel *channel);
/* To its old place in its queue, or nowhere. */
void memory_message_requeue(struct memory_world *world, struct memory_message *message);

struct memory_consumer *memory_consumer_new(
    struct memory_channel *channel, struct memory_queue *queue, const char *tag, int priority);
/* Cancels it; an auto-delete queue goes with its last one. */
void memory_consumer_end(struct memory_world *world, struct memory_consumer *consumer);
struct memory_consumer *memory_consumer_find(
    const struct memory_channel *channel, amqp_bytes_t tag);
/* It is told that it is none any more. */
void memory_consumer_send_cancel(const struct memory_consumer *consumer);

/* Ends what is open on it. */
void memory_channel_end(struct memory_channel *channel);
/* OVER: its exclusive queues and what is open on its channels are gone. */
void memory_connection_release(struct memory_connection *connection);

/* ---- what methods do (method.c) ---- */

/* On a channel that is not stalled, of a connection that is not over. */
void memory_perform(struct memory_channel *channel, const struct amqp_frame *frame, bool crashes);
/* What was published and held back is confirmed. */
void memory_channel_confirm(struct memory_channel *channel);
/* The server closes it by itself; what is behind a method that is not answered is read again. */
void memory_channel_close(struct memory_channel *channel, int code, const char *text);

/* ---- connections, both their ends (connection.c) ---- */

void memory_connection_init(struct memory_connection *connection, struct memory_world *world);
/* Released, and freed: the world has noticed its end, or is told of it. */
void memory_connection_free(struct memory_connection *connection);
void memory_connection_freeze(struct memory_connection *connection);
/* The alarm is over. */
void memory_connection_go_on(struct memory_connection *connection);

#endif
