/*
 * The names of a lock's queues (seeds/000, "A" and "B" Queues). Templates make them: a preset's, or
 * those of the configuration. Two queues of allowed names never have the same name. One exception
 * is wanted: in amqp-locks-python the true mutex and the administration mutex of a name are one
 * queue. A name is allowed if lockname_error() and queue_name_refusal() accept it.
 */
#ifndef LOCK_NAMES_H
#define LOCK_NAMES_H

#include <stdbool.h>

#include "daemon/config/template.h"

#define QUEUE_NAME_SIZE (TEMPLATE_QUEUE_MAX + 1)

/* The rules by which queue names are made. */
struct queue_naming;

/* {name}-{slot}-A, {name}-{slot}-B, admin {name}, mutex {name}-M */
extern const struct queue_naming queue_naming_amqp_locks;
/* {name}-A-{slot}, {name}-B-{slot}, admin and mutex {name} */
extern const struct queue_naming queue_naming_amqp_locks_python;
/* A[slot] and B[slot] by templates that template_differ() accepts; all else as in amqp-locks. */
const struct queue_naming *queue_naming_new(const struct template *a, const struct template *b);
/* NULL is fine. Does nothing for a preset. */
void queue_naming_free(const struct queue_naming *naming);

/*
 * Why a lock may not have this name under this naming, although lockname_error() accepts it. NULL:
 * it may. Static. The presets refuse no name.
 */
const char *queue_name_refusal(const struct queue_naming *naming, const char *name);

struct queue_name {
	char text[QUEUE_NAME_SIZE];
};

/* A[slot], the slot queue: durable. slot from 1. */
struct queue_name queue_name_a(const struct queue_naming *naming, const char *name, int slot);
/* B[slot], the holder queue: exclusive. */
struct queue_name queue_name_b(const struct queue_naming *naming, const char *name, int slot);
/*
 * The queue of a slot that is held by quorum, which has no A. Its name contains '=', which no lock name
 * contains. Only amqp-locks has such slots (queue_naming_has_quorum()). slot 0: of the true mutex of that name.
 */
struct queue_name queue_name_quorum(const char *name, int slot);
/* The slot of such a queue, 0 of a true mutex, and the name of its lock; -1: it is another queue. */
int queue_name_quorum_slot(const char *queue, char ret_name[QUEUE_NAME_SIZE]);
bool queue_naming_has_quorum(const struct queue_naming *naming);
/* The one exclusive queue of a true mutex. */
struct queue_name queue_name_mutex(const struct queue_naming *naming, const char *name);
/* The administration mutex of a semaphore. */
struct queue_name queue_name_admin(const struct queue_naming *naming, const char *name);
/* Whether queue_name_admin() and queue_name_mutex() are the same, as in amqp-locks-python. */
bool queue_naming_mutex_is_admin(const struct queue_naming *naming);
/* The markers: N-G for a gate, N-U for an unlimited semaphore. */
struct queue_name queue_name_gate(const struct queue_naming *naming, const char *name);
struct queue_name queue_name_unlimited(const struct queue_naming *naming, const char *name);
/* The wait queue of the semaphore, or of the true mutex, of that name. */
struct queue_name queue_name_wait(const struct queue_naming *naming, const char *name, bool mutex);
/*
 * The directory of this naming, and its mutex. Their names contain '=', which no lock name and no
 * template contains. Each naming has a directory of its own.
 */
struct queue_name queue_name_directory(const struct queue_naming *naming);
struct queue_name queue_name_directory_mutex(const struct queue_naming *naming);

#endif
