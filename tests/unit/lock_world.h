/*
 * A world for tests of the lock engine. It has a clock that the test moves, one memory_world, and
 * up to three daemons (an engine and a broker each). It records their answers and notices.
 */
#ifndef TESTS_UNIT_LOCK_WORLD_H
#define TESTS_UNIT_LOCK_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/lock/lock.h"
#include "tests/memory/controls.h"
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
	int slot, slots, target, busy, extra, waiting, position;
	bool warned; /* done, with a warning */
	bool denied;
	bool unchanged;
	size_t findings, rows; /* their numbers */
	int converted;
	enum lock_claim claim;
	const char *parameter;
	int64_t at, safe_until;
	uint64_t fence;
	int64_t free_in;
	char text[256];
	char detail[512]; /* held slots, findings, rows or explanation, in short (lock_world.c) */
};

struct world_daemon {
	struct lock_world *world;
	int number;
	struct broker *broker;
	struct lock_engine *engine;
	struct lock_events also; /* gets the same events; a NULL member gets none */
};

struct lock_world {
	int64_t now;
	int64_t tick; /* ns that each reading of the clock takes; 0: none */
	struct clock clock;
	struct clock wall; /* the time of day */
	int64_t wall_ahead;
	struct timers *timers;
	struct memory_world *memory;
	struct memory_behaviour behaviour;
	const struct queue_naming *naming;
	int64_t delay;    /* ns that each answer takes */
	unsigned asked;   /* number of requests to the broker */
	unsigned rejects; /* number of messages that daemons rejected */
	bool silent;      /* no request is answered */
	unsigned stuck;   /* the n-th request from now on is not answered; 0: none */
	/* Called before each single queue of a probe. NULL: nothing is called. */
	void (*on_probe)(struct lock_world *world);
	/* Called after each method that the server performs. NULL: nothing is called. */
	void (*on_performed)(const struct memory_performed *what);
	/* world_succeed() calls it when unanswered requests are to be repeated. NULL: none are. */
	void (*repeat)(struct lock_world *world);
	unsigned slow;  /* the n-th request from now on takes 30 s; 0: none */
	bool refuses;   /* everything is refused with 403 */
	unsigned nacks; /* the n-th probed queue is nacked; 0: none */
	unsigned deaf;  /* so many deletions are not reported to watches */
	struct world_daemon daemon[DAEMONS];
	/* Changes of rows that have a `who`, such as "A:waiting A:busy A:gone". */
	char changes[4096];
	struct said *said; /* RECORDS of them */
	size_t said_count;
};

/*
 * A world with the lock connections of all daemons up. The daemons start with world_settings. There
 * is at most one world at a time.
 */
struct lock_world *world_new(void);
/* The same, with other names of queues. */
struct lock_world *world_new_named(const struct queue_naming *naming);
/* Nothing is encrypted. A successor takes no connection over. */
struct lock_world *world_new_over_tls(void);
extern const struct lock_settings world_settings;
void world_free(struct lock_world *world);
/* Kills a daemon, as by SIGKILL, and starts it again. */
void world_kill(struct lock_world *world, int daemon);
/* Whether the frozen daemon becomes still within a second. */
bool world_stills(struct lock_world *world, int daemon);
/* The text of the state of a frozen daemon that is still. The caller frees it. */
char *world_save(struct lock_world *world, int daemon);
/*
 * Replaces the daemon by a successor that reads that text. False: it refuses the text, with this
 * reason. The successor can only be killed then.
 */
bool world_succeed(struct lock_world *world, int daemon, const char *text, char ret_why[128]);
/* Lets `ns` pass, and fires the timers on the way. */
void world_pass(struct lock_world *world, int64_t ns);
/* Fires the next timer alone. False: none is due within `ns`. */
bool world_step(struct lock_world *world, int64_t ns);
/*
 * Raises an alarm that every daemon notices. RabbitMQ notifies only connections that have
 * published. Each auxiliary connection is therefore brought up, and publishes first.
 */
void world_alarm(struct lock_world *world);
/* The server closes every channel in use of that link. */
void world_close_channels(struct lock_world *world, int daemon, enum broker_link link);
/* Creates a semaphore of so many slots without a daemon. */
void world_make(struct lock_world *world, const char *name, int slots);
/* Whether B exists and belongs to that daemon. daemon -1: to any. */
bool world_b(const struct lock_world *world, const char *name, int slot, int daemon);
/* The number of all Bs. */
int world_b_count(const struct lock_world *world);

void world_acquire(struct lock_world *world, int daemon, uint64_t peer, uint64_t request,
    const char *name, int64_t timeout);
/* The answer to a request; NULL: none yet. Two answers fail the test. */
const struct said *world_answer(
    const struct lock_world *world, int daemon, uint64_t peer, uint64_t request);
/* The number of notices of that kind to a client. */
int world_notices(
    const struct lock_world *world, int daemon, uint64_t peer, enum lock_notice_kind kind);
/* Lets time pass until the request is answered, at most 60 s. Returns the answer. */
const struct said *world_await(
    struct lock_world *world, int daemon, uint64_t peer, uint64_t request);

#endif
