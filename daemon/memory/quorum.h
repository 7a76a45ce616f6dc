/*
 * Quorum queues with a single active consumer. fifo.c is the queue, as RabbitMQ's machine
 * rabbit_fifo is. It knows no channel: a consumer has a key, and each message that it has is
 * numbered. quorum.c is on the side of the channels. Their requests become commands, which the queue
 * takes some time later. A command that comes late, or twice, has no effect if its
 * message has returned meanwhile. Other folders include memory.h only.
 */
#ifndef MEMORY_QUORUM_H
#define MEMORY_QUORUM_H

#include "daemon/memory/internal.h"

/* An argument of a declare that is a number. */
struct memory_argument {
	bool given;
	int64_t value;
};

enum memory_member_state {
	MEMORY_MEMBER_WAITING,   /* it has no message, and becomes active in its turn */
	MEMORY_MEMBER_ACTIVE,    /* it gets the messages; at most one does */
	MEMORY_MEMBER_CANCELLED, /* by its client; it keeps its messages, and gets no more */
	MEMORY_MEMBER_TIMED_OUT, /* the same by the server */
	MEMORY_MEMBER_SUSPENDED  /* its node is down; it has no message */
};

/* A consumer, as the queue knows it. */
struct memory_member {
	uint64_t key, opening; /* its own, and its channel's */
	unsigned node;         /* its channel's */
	unsigned prefetch;     /* 0: no limit */
	/* fifo.c's */
	enum memory_member_state state;
	unsigned unread;     /* messages that it has */
	uint64_t deliveries; /* to it, ever */
	uint64_t order;      /* of its registration */
	TAILQ_ENTRY(memory_member) entry;
};

#define MEMORY_QUORUM_ARGUMENTS 3
struct memory_quorum {
	/* the order of memory_quorum_argument_names */
	struct memory_argument arguments[MEMORY_QUORUM_ARGUMENTS];
	bool limited;
	int64_t limit; /* returns of a message before it is dropped */
	/* fifo.c's; owned */
	TAILQ_HEAD(, memory_member) members;
	TAILQ_HEAD(memory_deliveries, memory_delivery) held; /* fifo.c's; owned; on their way */
	/* quorum.c's */
	TAILQ_HEAD(memory_commands, memory_command) commands; /* owned */
	struct timer timer;                                   /* the first that is due later */
	/* mistakes that a test wants */
	bool late;    /* deliveries are held */
	bool starved; /* the active consumer gets nothing */
	bool loses;   /* rejects are lost */
	bool delays;  /* rejects are lost, and the server will send them again */
	bool lingers; /* the ends of channels are lost, too, until then */
	bool refuses; /* a consume ends the connection, and a publish is nacked: no node leads it */
};

/* A message that a quorum queue delivered, as its channel knows it. */
struct memory_handed {
	uint64_t tag;           /* delivery tag */
	char *queue, *consumer; /* owned; their names */
	uint64_t key, id;       /* of the consumer; of the delivery there */
	TAILQ_ENTRY(memory_handed) entry;
};

enum memory_settled {
	MEMORY_GONE,    /* basic.ack, or basic.reject and basic.nack without requeue */
	MEMORY_NACKED,  /* with requeue */
	MEMORY_REJECTED /* the same; RabbitMQ tells the two apart from 4.3 on */
};

/* ---- arguments (arguments.c) ---- */

extern const char *const memory_quorum_argument_names[MEMORY_QUORUM_ARGUMENTS];
bool memory_quorum_is_meant(const amqp_queue_declare_t *declare);
/* The property for which such a declare is refused. NULL: none. */
const char *memory_quorum_refuses(const amqp_queue_declare_t *declare);
struct memory_argument memory_argument_of(const amqp_queue_declare_t *declare, const char *name);

/* ---- the queue (fifo.c) ---- */

void memory_fifo_init(struct memory_queue *queue);
void memory_fifo_done(struct memory_queue *queue);
/* The number of consumers that are active, or have messages. */
size_t memory_fifo_members(const struct memory_queue *queue);
bool memory_fifo_has_key(const struct memory_queue *queue, uint64_t key);
/* The key of a consumer that the channel has cancelled, and that has messages. 0: none. */
uint64_t memory_fifo_cancelled(const struct memory_queue *queue, uint64_t opening);
bool memory_fifo_has_channel(const struct memory_queue *queue, uint64_t opening);
/* The opening of the channel of the active consumer, and its messages. 0: there is none. */
uint64_t memory_fifo_active(const struct memory_queue *queue, unsigned *ret_unread);
/* NULL: that consumer has it no more. */
const struct memory_message *memory_fifo_message(
    const struct memory_queue *queue, uint64_t key, uint64_t id);

/* With the key of a cancelled one, that one goes on, and keeps its messages. */
void memory_fifo_register(struct memory_queue *queue, const struct memory_member *values);
void memory_fifo_cancel(struct memory_queue *queue, uint64_t key);
void memory_fifo_settle(
    struct memory_queue *queue, uint64_t key, uint64_t id, enum memory_settled how);
void memory_fifo_end_channel(struct memory_queue *queue, uint64_t opening);
void memory_fifo_add(struct memory_queue *queue, const struct memory_message *published);
/* Removes the ready messages, or all. Returns their number. */
size_t memory_fifo_purge(struct memory_queue *queue, bool all);

/* False: there is no active consumer. */
bool memory_fifo_suspend_active(struct memory_queue *queue);
/* The consumers of a node. MEMORY_NODES: of all nodes. */
void memory_fifo_suspend(struct memory_queue *queue, unsigned node);
void memory_fifo_resume(struct memory_queue *queue, unsigned node);
/* The deliveries to a node that are held arrive, or are lost. MEMORY_NODES: to all nodes. */
void memory_fifo_release(struct memory_queue *queue, unsigned node, bool arrive);
/*
 * Those on their way were lost. The server's client fetches them when a later one comes: in reversed order, from
 * 3.11 to 4.2.5 (handle_aux, get_checked_out).
 */
void memory_fifo_fetch(struct memory_queue *queue);
/* False: the active consumer has no message, or there is none. */
bool memory_fifo_time_out(struct memory_queue *queue);
/* Delivers what may be delivered. */
void memory_fifo_go_on(struct memory_queue *queue);

/* ---- requests of channels (quorum.c) ---- */

/* Makes a new queue a quorum queue. memory_queue_delete() undoes it. */
void memory_quorum_new(struct memory_queue *queue, const amqp_queue_declare_t *declare);
void memory_quorum_free(struct memory_queue *queue);
/* After consume-ok. False: the connection ends. */
bool memory_quorum_register(struct memory_consumer *consumer) __attribute__((warn_unused_result));
/* Frees the consumer. The queue keeps it as long as it has messages. */
void memory_quorum_cancel(struct memory_consumer *consumer);
/* After the channel's consumers are freed. */
void memory_quorum_channel_ended(struct memory_channel *channel);
/* As soon as the channel reaches the queue. */
void memory_quorum_add_later(struct memory_queue *queue, struct memory_channel *channel,
    const struct memory_message *published);
struct memory_handed *memory_handed_find(const struct memory_channel *channel, uint64_t tag);
/* NULL: the message has returned, or the queue was deleted. */
const char *memory_handed_body(
    const struct memory_channel *channel, const struct memory_handed *handed);
/* Frees `handed`. */
void memory_handed_settle(
    struct memory_channel *channel, struct memory_handed *handed, enum memory_settled how);

/* The connections of node `from` reach the queue in another way than before. */
void memory_quorum_part(struct memory_queue *queue, unsigned from, enum memory_reach reach);
/* All connections have ended. Commands on their way are lost. */
void memory_quorum_restart(struct memory_queue *queue);
/* Sends the lost rejects again, the last one first. */
void memory_quorum_resend(struct memory_queue *queue);

#endif
