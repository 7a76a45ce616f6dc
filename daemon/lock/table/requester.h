/*
 * Who an acquire is for: what the rows of show and watch say of it besides its place. Made with the
 * acquire, and moved to the hold that comes of it; whoever has it frees it. Knows no engine.
 */
#ifndef LOCK_REQUESTER_H
#define LOCK_REQUESTER_H

#include <stdint.h>
#include <sys/types.h>

struct lock_acquire;

struct requester {
	uint64_t waiter; /* the acquire's number, also when it holds */
	uid_t uid;
	pid_t pid;
	char *who, *why, *command; /* owned; NULL: not said */
};

/* Copies what it needs. */
struct requester *requester_new(uint64_t waiter, const struct lock_acquire *acquire);
void requester_free(struct requester *requester); /* NULL is fine */

#endif
