/*
 * Names and kinds of locks, for the daemon and the client.
 */
#ifndef PROTOCOL_LOCKNAME_H
#define PROTOCOL_LOCKNAME_H

#include <stddef.h>

/* Bytes without the NUL. A queue name of AMQP has 255 (shortstr): slot number and suffix need the rest. */
#define LOCKNAME_MAX 200

/*
 * NULL: a lock can have this name. Else the reason why not (static). A name has 1 to 200 bytes of
 * [A-Za-z0-9._:/-] and does not start with "amq.". It has none of the endings with which two locks would share
 * a queue:
 * -<digits>-A, -<digits>-B, -A-<digits>, -B-<digits>, -A, -B, -W, -G, -U, -M.
 */
const char *lockname_error(const char *name, size_t len);

enum lock_kind {
	LOCK_KIND_SEMAPHORE,
	LOCK_KIND_MUTEX,           /* one exclusive queue; it is not created */
	LOCK_KIND_PERSISTENT_MUTEX /* a semaphore with one slot */
};

/* "semaphore", "mutex", "persistent-mutex", in the order of the enum. Static; ends with NULL. */
extern const char *const lock_kind_words[];
const char *lock_kind_word(enum lock_kind kind);

#endif
