/*
 * Messages that are delivered, in the in-memory broker: the queues of wait lines and of inboxes, and who
 * reads them. A reader is a consumer on a lane of a connection; what is delivered to it is unread (its
 * credit bounds that) until it says that it was read, and goes to others, at its old place, when the
 * reader leaves or its connection dies. Such a queue is gone with its last reader. Among readers with
 * credit left those of the highest priority take turns. A message that is over its time is gone.
 */
#ifndef BROKER_MEMORY_POST_H
#define BROKER_MEMORY_POST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/broker/memory_world.h"
#include "daemon/broker/memory_world_inside.h"

/* Most ready messages of a line, of an inbox; the oldest go first. */
#define MEMORY_LINE_LENGTH 64
#define MEMORY_INBOX_LENGTH 256

struct memory_message {
	uint64_t tag; /* never used twice in a world */
	char *body;   /* owned */
	size_t len;
	int64_t expires; /* clock time; INT64_MAX: never */
	uint64_t number; /* of a letter */
	char *reply_to;  /* owned; of a letter that is a question, else NULL */
	TAILQ_ENTRY(memory_message) entry;
};

struct memory_message *memory_message_copy(const struct memory_message *message);
void memory_message_free(struct memory_message *message);

struct memory_reader {
	struct memory_owner *owner; /* borrowed */
	uint64_t lane;              /* one reader a lane */
	struct memory_queue *queue; /* borrowed */
	int priority;
	unsigned credit;               /* most unread; 0: no bound */
	struct memory_messages unread; /* owned; in the order of their delivery */
	size_t unread_count;
	TAILQ_ENTRY(memory_reader) of_queue, of_owner;
};

/* The queue is one that is delivered from. */
void memory_post_read(struct memory_queue *queue, struct memory_owner *owner, uint64_t lane,
    int priority, unsigned credit);
/* Also of one that there is not. */
void memory_post_set_credit(struct memory_owner *owner, uint64_t lane, unsigned credit);
/* The lane's reader, if any, leaves; its queue may go with it. */
void memory_post_leave(struct memory_owner *owner, uint64_t lane);
/* Of every lane of a connection. */
void memory_post_leave_all(struct memory_owner *owner);
/* What was delivered on that lane was read (basic.ack). */
void memory_post_acknowledge(struct memory_owner *owner, uint64_t lane, uint64_t tag);
/* Puts a copy of the message, with a tag of its own, at the end of the queue. */
void memory_post_publish(
    struct memory_world *world, struct memory_queue *queue, const struct memory_message *message);
size_t memory_post_readers(const struct memory_queue *queue);
/* Ready ones: neither unread by somebody nor over their time. */
size_t memory_post_messages(const struct memory_world *world, const struct memory_queue *queue);
/* The queue goes, with its messages: readers hear that they are none any more, if `told`. */
void memory_post_clear(struct memory_queue *queue, bool told);

#endif
