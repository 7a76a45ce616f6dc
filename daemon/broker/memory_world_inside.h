/*
 * The inside of memory_world, shared by its two files: the queues with their owners and consumers, and
 * the methods that clients ask to be performed on them.
 */
#ifndef BROKER_MEMORY_WORLD_INSIDE_H
#define BROKER_MEMORY_WORLD_INSIDE_H

#include <uthash.h>

#include "daemon/broker/memory_world.h"

/* What a queue was declared with. */
enum memory_kind {
	MEMORY_QUEUE_EXCLUSIVE, /* `owner` has it */
	MEMORY_QUEUE_SLOT,      /* or marker: durable, x-max-length 0 */
	MEMORY_QUEUE_DIRECTORY, /* durable, and keeps its messages */
	MEMORY_QUEUE_LINE,      /* durable and auto-delete; its messages are delivered */
	MEMORY_QUEUE_INBOX,     /* the same; what is asked goes to each */
	MEMORY_QUEUE_TRANSIENT, /* as a slot, but gone when the node restarts */
	MEMORY_QUEUE_OTHERWISE  /* durable, with arguments that none of ours has */
};

TAILQ_HEAD(memory_messages, memory_message);

struct memory_queue {
	char *name;                 /* owned */
	struct memory_owner *owner; /* exclusive to it; NULL: a plain queue */
	enum memory_kind kind;
	struct name_list messages;               /* the bodies of what it holds, in order */
	TAILQ_HEAD(, memory_consumer) consumers; /* borrowed */
	struct memory_messages ready;            /* owned; of one that is delivered from */
	TAILQ_HEAD(, memory_reader) readers;     /* borrowed; the same. The first is the next */
	TAILQ_ENTRY(memory_queue) of_owner;
	UT_hash_handle hh;
};

struct memory_world {
	struct timers *timers; /* borrowed */
	struct memory_nature nature;
	struct memory_queue *queues;       /* owned; hash by name */
	TAILQ_HEAD(, memory_owner) owners; /* the living ones */
	struct memory_owner foreign;       /* a connection that no broker of ours has */
	uint64_t last_owner;               /* the number of the last one */
	uint64_t last_tag;                 /* of the last message that was to be delivered */
	bool blocked;
	bool deletes_by_name;
	TAILQ_HEAD(, memory_alarm) alarms; /* borrowed; who hears when the alarm is over */
};

/* NULL: there is none. */
struct memory_queue *memory_queue_find(const struct memory_world *world, const char *name);
/* There is none of that name. owner: of an exclusive one, else NULL. */
struct memory_queue *memory_queue_new(struct memory_world *world, const char *name,
    enum memory_kind kind, struct memory_owner *owner);
/* Deletes it: its consumers hear of it. */
void memory_queue_free(struct memory_world *world, struct memory_queue *queue);

#endif
