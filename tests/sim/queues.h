/*
 * The few locks of a schedule and the names of their queues, as constants, so that what the world did
 * is found by number. A lock is a daemon message; slot 0 is its true mutex.
 */
#ifndef TESTS_SIM_QUEUES_H
#define TESTS_SIM_QUEUES_H

#include <stdbool.h>

#define NAMES 3
/* Most slots that a semaphore is made to have here; and those that a daemon may look for beyond them. */
#define SLOTS_MAX 12
#define SLOTS_KNOWN 40

enum queue_part {
	QUEUE_A,
	QUEUE_B,
	QUEUE_ADMIN,
	QUEUE_GATE,
	QUEUE_UNLIMITED,
	QUEUE_WAIT, /* slot 1: of the true mutex */
	QUEUE_DIRECTORY,
	QUEUE_DIRECTORY_MUTEX
};

struct queue_id {
	enum queue_part part;
	int name; /* of the directory's: 0 */
	int slot; /* A, B; 0: the true mutex (a B) */
};

/* Once, before all else. */
void queues_init(void);
/* From now on in the order of amqp-locks-python, where a lock's true mutex and admin mutex are one. */
void queues_use(bool python);
/* Static strings. */
const char *queue_lock(int name);
const char *queue_a(int name, int slot);
const char *queue_b(int name, int slot);
const char *queue_gate(int name);
const char *queue_unlimited(int name);
const char *queue_line(int name, bool mutex);
const char *queue_directory(void);
const char *queue_directory_mutex(void);
const char *queue_text(struct queue_id id);
/* Which lock has that name. */
int queue_lock_find(const char *name);
/* Whether it is one of those; others are inboxes of daemons, or no queue. */
bool queue_is_locks(const char *queue);
/* Which queue has that name; one of ours. A mutex that is two things is the admin mutex. */
struct queue_id queue_find(const char *queue);

#endif
