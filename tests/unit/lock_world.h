/*
 * A small world for tests of the lock engine: a clock that stands still until told, one memory_world,
 * up to three daemons (an engine over a broker each), and a record of all that they said.
 */
#ifndef TESTS_UNIT_LOCK_WORLD_H
#define TESTS_UNIT_LOCK_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/lock/lock.h"
#include "daemon/memory/memory.h"
#include "protocol/duration.h"

#define DAEMONS 3
#define RECORDS 4096

struct said {
	int daemon;
	uint64_t peer, request;
	bool notice;
	enum reason reason;
	enum lock_notice_kind kind;
	uint64_t lock;
	int slot, slots, target, busy, waiting, position;
	bool warned; /* it is done, but */
	bool denied;
	size_t findings, rows; /* how many */
	int64_t at, safe_until;
	char text[256];
	char
	    detail[512]; /* slots held, findings, rows or an explanation, in short (lock_world.c) */
};

struct world_daemon {
	struct lock_world *world;
	int number;
	struct broker *broker;
	struct lock_engine *engine;
	struct lock_events also; /* hears all that, too; what is NULL does not */
};

struct lock_world {
	int64_t now;
	int64_t tick; /* ns that pass whenever somebody looks at the clock; 0: none */
	struct clock clock;
	struct timers *timers;
	struct memory_world *memory;
	struct memory_nature nature;
	const struct queue_naming *naming;
	int64_t delay;  /* ns that every answer takes */
	unsigned asked; /* times that the broker was asked something */
	bool silent;    /* nothing that is sent is answered */
	unsigned stuck; /* the so many-th request from now on is not answered; 0: none is */
	/* called before each single queue of a probe is looked at; NULL: nothing is */
	void (*on_probe)(struct lock_world *world);
	unsigned slow;  /* the so many-th request from now on takes 30 s; 0: none does */
	bool refuses;   /* everything is refused with 403 */
	unsigned nacks; /* of the queues that are probed, the so many-th is nacked; 0: none is */
	unsigned deaf;  /* so many deletions go unheard by a watch */
	struct world_daemon daemon[DAEMONS];
	/* what became of rows with words: "A:waiting A:busy A:gone", by their `who` */
	char changes[4096];
	struct said said[RECORDS];
	size_t said_count;
};

/* A world with all daemons' lock connections up; settings with which they start are the defaults. */
struct lock_world *world_new(void);
/* The same, with another way of naming queues. */
struct lock_world *world_new_named(const struct queue_naming *naming);
extern const struct lock_settings world_settings;
void world_free(struct lock_world *world);
/* A daemon dies, as by SIGKILL, and is started again. */
void world_kill(struct lock_world *world, int daemon);
/* What follows in time: lets `ns` pass, firing what is due on the way. */
void world_pass(struct lock_world *world, int64_t ns);
/* Fires the next timer only; false when it lies more than `ns` ahead (or there is none). */
bool world_step(struct lock_world *world, int64_t ns);
/*
 * An alarm that every daemon hears of. RabbitMQ tells a connection that has published: each auxiliary connection is
 * brought up, and publishes first.
 */
void world_alarm(struct lock_world *world);
/* The server closes every channel of a link that is in use. */
void world_close_channels(struct lock_world *world, int daemon, enum broker_link link);
/* A semaphore of so many slots, made behind everybody's back. */
void world_make(struct lock_world *world, const char *name, int slots);
/* Whether a B exists, and (daemon >= 0) is that daemon's. */
bool world_b(const struct lock_world *world, const char *name, int slot, int daemon);
/* How many Bs there are in all. */
int world_b_count(const struct lock_world *world);

void world_acquire(struct lock_world *world, int daemon, uint64_t peer, uint64_t request,
    const char *name, int64_t timeout);
/* The answer to a request; NULL: none yet. Fails the test when there are two. */
const struct said *world_answer(
    const struct lock_world *world, int daemon, uint64_t peer, uint64_t request);
/* How many notices of a kind a peer got. */
int world_notices(
    const struct lock_world *world, int daemon, uint64_t peer, enum lock_notice_kind kind);
/* Lets time pass until the request is answered, at most 60 s, and returns the answer. */
const struct said *world_await(
    struct lock_world *world, int daemon, uint64_t peer, uint64_t request);

#endif
