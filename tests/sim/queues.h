/*
 * The few locks of a schedule, and the names of their queues as constants. A queue of the world is
 * found by number. A lock is an index; slot 0 is its true mutex.
 */
#ifndef TESTS_SIM_QUEUES_H
#define TESTS_SIM_QUEUES_H

#include <stdbool.h>

#define NAMES 3
/* Most slots of a semaphore here, and most slots that a daemon may probe. */
#define SLOTS_MAX 12
#define SLOTS_KNOWN 40

enum queue_part {
	QUEUE_A,
	QUEUE_B,
	QUEUE_BEADS, /* the B of a slot by quorum */
	QUEUE_ADMIN,
	QUEUE_GATE,
	QUEUE_UNLIMITED,
	QUEUE_WAIT, /* slot 1: the wait queue of the true mutex */
	QUEUE_DIRECTORY,
	QUEUE_DIRECTORY_MUTEX,
	QUEUE_RECORDS /* of the way quorum */
};

struct queue_id {
	enum queue_part part;
	int name; /* 0 for those of the directory and the records */
	int slot; /* of A, B and BEADS; 0: the true mutex (a B) */
};

/* Call it once, first. */
void queues_init(void);
/*
 * From now on names as in amqp-locks-python, where the true mutex of a lock is its admin mutex,
 * too.
 */
void queues_use(bool python);
/* Static strings. */
const char *queue_lock(int name);
const char *queue_a(int name, int slot);
const char *queue_b(int name, int slot);
const char *queue_beads(int name, int slot);
const char *queue_gate(int name);
const char *queue_unlimited(int name);
const char *queue_wait(int name, bool mutex);
const char *queue_directory(void);
const char *queue_directory_mutex(void);
const char *queue_text(struct queue_id id);
/* The index of the lock of that name. */
int queue_lock_find(const char *name);
/* Whether it is a queue of those locks. Others are inboxes of daemons, or no queues. */
bool queue_is_locks(const char *queue);
/* The id of one of those queues. A mutex with two roles is the admin mutex. */
struct queue_id queue_find(const char *queue);

#endif
