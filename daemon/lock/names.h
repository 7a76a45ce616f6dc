/*
 * The names of a lock's queues (seeds/000, "A" and "B" Queues), made from the preset in use. A name
 * made here fits AMQP's shortstr: LOCKNAME_MAX plus the longest suffix stays below 255 bytes.
 */
#ifndef LOCK_NAMES_H
#define LOCK_NAMES_H

#define QUEUE_NAME_SIZE 256

/* How queue names are made. */
struct queue_naming;

/* {name}-{slot}-A, {name}-{slot}-B, admin {name}, mutex {name}-M */
extern const struct queue_naming queue_naming_amqp_locks;
/* {name}-A-{slot}, {name}-B-{slot}, admin and mutex {name} */
extern const struct queue_naming queue_naming_amqp_locks_python;

struct queue_name {
	char text[QUEUE_NAME_SIZE];
};

/* A[slot]: the slot itself, durable. slot from 1. */
struct queue_name queue_name_a(const struct queue_naming *naming, const char *name, int slot);
/* B[slot]: its holder, exclusive. */
struct queue_name queue_name_b(const struct queue_naming *naming, const char *name, int slot);
/* The one exclusive queue of a true mutex. */
struct queue_name queue_name_mutex(const struct queue_naming *naming, const char *name);
/* The administration mutex of a semaphore. */
struct queue_name queue_name_admin(const struct queue_naming *naming, const char *name);
/* The markers: N-G, the gate at which all wait, and N-U, there are no slots to wait for. */
struct queue_name queue_name_gate(const struct queue_naming *naming, const char *name);
struct queue_name queue_name_unlimited(const struct queue_naming *naming, const char *name);
/*
 * The directory of the names that exist under this naming, and its mutex. '=' is in no lock name, so no
 * lock has such a queue.
 */
struct queue_name queue_name_directory(const struct queue_naming *naming);
struct queue_name queue_name_directory_mutex(const struct queue_naming *naming);

#endif
