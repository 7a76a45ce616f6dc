/*
 * The names of a lock's queues (seeds/000, "A" and "B" Queues), made by templates: those of a preset, or
 * of the configuration. No two queues of allowed names share one: not of two locks, not of one in two
 * roles (but for the mutex and the admin mutex of amqp-locks-python, which are one on purpose). A name
 * is allowed when lockname_error() and queue_name_refusal() have nothing against it.
 */
#ifndef LOCK_NAMES_H
#define LOCK_NAMES_H

#include <stdbool.h>

#include "daemon/config/template.h"

#define QUEUE_NAME_SIZE (TEMPLATE_QUEUE_MAX + 1)

/* How queue names are made. */
struct queue_naming;

/* {name}-{slot}-A, {name}-{slot}-B, admin {name}, mutex {name}-M */
extern const struct queue_naming queue_naming_amqp_locks;
/* {name}-A-{slot}, {name}-B-{slot}, admin and mutex {name} */
extern const struct queue_naming queue_naming_amqp_locks_python;
/* A[slot] and B[slot] as the templates say, which template_differ(); the rest as in amqp-locks. */
const struct queue_naming *queue_naming_new(const struct template *a, const struct template *b);
void queue_naming_free(const struct queue_naming *naming); /* NULL is fine, and a preset stays */

/*
 * Why a lock must not have this name under this naming, though lockname_error() lets it (which was asked
 * before); NULL: it may. Static. Under the presets there is no such name.
 */
const char *queue_name_refusal(const struct queue_naming *naming, const char *name);

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
/* Whether that is also the queue of the true mutex of that name, as in amqp-locks-python. */
bool queue_naming_mutex_is_admin(const struct queue_naming *naming);
/* The markers: N-G, the gate at which all wait, and N-U, there are no slots to wait for. */
struct queue_name queue_name_gate(const struct queue_naming *naming, const char *name);
struct queue_name queue_name_unlimited(const struct queue_naming *naming, const char *name);
/* The wait queue of the semaphore, or of the true mutex, of that name. */
struct queue_name queue_name_wait(const struct queue_naming *naming, const char *name, bool mutex);
/*
 * The directory of the names that exist under this naming, and its mutex. '=' is in no lock name and in
 * no template, so no lock has such a queue; and no other naming has this directory.
 */
struct queue_name queue_name_directory(const struct queue_naming *naming);
struct queue_name queue_name_directory_mutex(const struct queue_naming *naming);

#endif
