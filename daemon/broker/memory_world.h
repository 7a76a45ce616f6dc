/*
 * The queues of the in-memory broker and who has them: what a RabbitMQ node knows and no client does.
 * Shared by the files of memory_broker only. Knows owners (connections), never lanes, links or
 * callbacks of the engine.
 */
#ifndef BROKER_MEMORY_WORLD_H
#define BROKER_MEMORY_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/queue.h"
#include "daemon/base/timers.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/memory_broker.h"
#include "daemon/broker/name_list.h"

struct memory_queue;
struct memory_message;
struct memory_reader;

/* Somebody who hears when a queue goes: a consumer. */
struct memory_consumer {
	/* It is no consumer any more (basic.cancel). Must not ask the world for anything but delays. */
	void (*cancelled)(struct memory_consumer *consumer);
	const struct broker *broker; /* borrowed; whose */
	struct memory_queue *queue;  /* borrowed; NULL: it is none */
	TAILQ_ENTRY(memory_consumer) of_queue;
};

/* A connection as the world sees it: exclusive queues are its own, and go with it. */
struct memory_owner {
	struct memory_world *world;  /* borrowed */
	const struct broker *broker; /* borrowed; NULL when it is gone or was never ours */
	uint64_t number;             /* never used twice in a world */
	/* The world is freed: so is this. NULL only for the world's own foreign connection. */
	void (*free)(struct memory_owner *owner);
	/* The alarm is over. */
	void (*unblocked)(struct memory_owner *owner);
	/* The node has restarted: its queues are gone. It may free the owner. */
	void (*restarted)(struct memory_owner *owner);
	/* To its reader on that lane; the message is borrowed. Must not ask for anything but delays. */
	void (*delivered)(
	    struct memory_owner *owner, uint64_t lane, const struct memory_message *message);
	/* Its reader on that lane is none any more (basic.cancel). The same. */
	void (*cancelled)(struct memory_owner *owner, uint64_t lane);
	TAILQ_HEAD(, memory_queue) queues;   /* exclusive ones; the world owns them */
	TAILQ_HEAD(, memory_reader) readers; /* owned */
	TAILQ_ENTRY(memory_owner) entry;
};

/* Links the owner into the world; free and unblocked are the caller's to set before. */
void memory_owner_init(
    struct memory_owner *owner, struct memory_world *world, const struct broker *broker);
/* Deletes its exclusive queues; its readers leave. */
void memory_owner_release(struct memory_owner *owner);
void memory_owner_done(struct memory_owner *owner);

/* What came on a lane. */
struct memory_call {
	uint64_t lane;
	enum memory_method method;
	const char *queue; /* borrowed */
	const char *name;  /* borrowed; of a directory's request, else NULL */
	int priority;      /* LINE_JOIN */
	unsigned credit;   /* LINE_JOIN, LINE_CREDIT */
	int slot;          /* LINE_WAKE */
	uint64_t number;   /* LETTER_ASK, LETTER_REPLY */
};

/* How the world takes a call. */
struct memory_verdict {
	enum broker_answer answer;
	int code;               /* 0: it is no error, else it closed the lane */
	const char *text;       /* static */
	struct name_list names; /* of a directory; the caller's */
	int consumers;          /* LINE_COUNT */
};

/* Performs it, unless the nature has it refused; the nature hears of it. (memory_methods.c) */
struct memory_verdict memory_owner_perform(
    struct memory_owner *owner, const struct memory_call *call);

/* BROKER_OK, ABSENT, or LOCKED (somebody's exclusive queue). */
enum broker_answer memory_consumer_join(
    struct memory_world *world, struct memory_consumer *consumer, const char *name);
void memory_consumer_leave(struct memory_consumer *consumer); /* one that is none is left alone */

/* Hears that the alarm is over, while it is linked into the world. */
struct memory_alarm {
	void (*over)(struct memory_alarm *alarm);
	TAILQ_ENTRY(memory_alarm) entry;
};
void memory_alarm_heed(struct memory_world *world, struct memory_alarm *alarm);
void memory_alarm_ignore(struct memory_world *world, struct memory_alarm *alarm);

struct timers *memory_world_timers(const struct memory_world *world);
bool memory_world_blocked(const struct memory_world *world);
bool memory_world_deletes_by_name(const struct memory_world *world);
/* The nature's choices. */
int64_t memory_world_delay(const struct memory_world *world);
bool memory_world_silent(const struct memory_world *world);
bool memory_world_nacks(const struct memory_world *world);
int64_t memory_world_notice(
    const struct memory_world *world, const struct broker *broker, enum broker_link link);
/* The broker is being freed: what it leaves behind is nobody's that is known. */
void memory_world_forget(struct memory_world *world, const struct broker *broker);

#endif
