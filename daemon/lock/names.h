/*
 * The names of a lock's queues (seeds/000, "A" and "B" Queues), made from the preset in use. A name
 * made here fits AMQP's shortstr: LOCKNAME_MAX plus the longest suffix stays below 255 bytes.
 */
#ifndef LOCK_NAMES_H
#define LOCK_NAMES_H

#include "daemon/lock/lock.h"

#define QUEUE_NAME_SIZE 256

struct queue_name {
	char text[QUEUE_NAME_SIZE];
};

/* A[slot]: the slot itself, durable. slot from 1. */
struct queue_name queue_name_a(enum lock_naming naming, const char *name, int slot);
/* B[slot]: its holder, exclusive. */
struct queue_name queue_name_b(enum lock_naming naming, const char *name, int slot);
/* The one exclusive queue of a true mutex. */
struct queue_name queue_name_mutex(enum lock_naming naming, const char *name);
/* The administration mutex of a semaphore. */
struct queue_name queue_name_admin(enum lock_naming naming, const char *name);

#endif
