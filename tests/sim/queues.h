/*
 * The few locks of a schedule and the names of their queues, as constants, so that what the world did
 * is found by number. A lock is a letter; slot 0 is its true mutex.
 */
#ifndef TESTS_SIM_QUEUES_H
#define TESTS_SIM_QUEUES_H

#define NAMES 3
/* Most slots that a semaphore is given here; and those that a daemon may look for beyond them. */
#define SLOTS_MAX 12
#define SLOTS_KNOWN 40

enum queue_part { QUEUE_A, QUEUE_B, QUEUE_ADMIN };

struct queue_id {
	enum queue_part part;
	int name;
	int slot; /* A, B; 0: the true mutex (a B) */
};

/* Once, before all else. */
void queues_init(void);
/* Static strings. */
const char *queue_lock(int name);
const char *queue_a(int name, int slot);
const char *queue_b(int name, int slot);
const char *queue_text(struct queue_id id);
/* Which lock has that name. */
int queue_lock_find(const char *name);
/* Which queue has that name; one of ours. */
struct queue_id queue_find(const char *queue);

#endif
