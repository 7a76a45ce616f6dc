/*
 * The requester of an acquire: the facts of its row besides its place. It is made with the acquire,
 * and moved to the hold that the acquire becomes. The acquire or the hold owns it. Knows no engine.
 */
#ifndef LOCK_REQUESTER_H
#define LOCK_REQUESTER_H

#include <stdint.h>
#include <sys/types.h>

struct lock_acquire;

struct requester {
	uint64_t waiter; /* the acquire's number, also of a hold */
	uid_t uid;
	pid_t pid;
	char *who, *why, *command; /* owned; NULL: none */
};

/* Copies the strings. */
struct requester *requester_new(uint64_t waiter, const struct lock_acquire *acquire);
void requester_free(struct requester *requester); /* NULL is fine */

#endif
