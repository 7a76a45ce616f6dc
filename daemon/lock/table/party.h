/*
 * Who an acquire is for: what the rows of show and watch say of it besides its place. Made with the
 * acquire, and moved to the hold that comes of it; whoever has it frees it. Knows no engine.
 */
#ifndef LOCK_PARTY_H
#define LOCK_PARTY_H

#include <stdint.h>
#include <sys/types.h>

struct lock_acquire;

struct party {
	uint64_t waiter; /* the acquire's number, also when it holds */
	uid_t uid;
	pid_t pid;
	char *who, *why, *command; /* owned; NULL: not said */
};

/* Copies what it needs. */
struct party *party_new(uint64_t waiter, const struct lock_acquire *acquire);
void party_free(struct party *party); /* NULL is fine */

#endif
