/*
 * Lock names and lock kinds, as both ends of the wire know them.
 */
#ifndef PROTOCOL_LOCKNAME_H
#define PROTOCOL_LOCKNAME_H

#include <stddef.h>

/* Bytes, without the NUL. Leaves room for slot and suffix in AMQP's 255 (shortstr). */
#define LOCKNAME_MAX 200

/*
 * NULL when name may be a lock's name, else why not (static): [A-Za-z0-9._:/-], 1 to 200 bytes, not
 * starting "amq.", and none of the endings that would make two names share a queue:
 * -<digits>-A, -<digits>-B, -A-<digits>, -B-<digits>, -A, -B, -W, -G, -U, -M.
 */
const char *lockname_error(const char *name, size_t len);

enum lock_kind {
	LOCK_KIND_SEMAPHORE,
	LOCK_KIND_MUTEX,           /* true mutex: one exclusive queue, no administration */
	LOCK_KIND_PERSISTENT_MUTEX /* slot 1 of a semaphore of one slot */
};

/* "semaphore", "mutex", "persistent-mutex". Static; the list ends with NULL. */
extern const char *const lock_kind_words[];
const char *lock_kind_word(enum lock_kind kind);

#endif
