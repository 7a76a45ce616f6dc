/*
 * Users that take turns. Each has a line of entries; a user with an empty line is forgotten. Plain
 * data: knows no engine and no time.
 */
#ifndef LOCK_TURNS_H
#define LOCK_TURNS_H

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/base/queue.h"

struct turn_user;

/* A member of the record of its owner. Zeroed: in no line. */
struct turn {
	void *owner;            /* the record, of the caller */
	struct turn_user *user; /* borrowed; NULL: in no line */
	TAILQ_ENTRY(turn) of_user;
};

struct turns {
	struct turn_user *by_uid;                  /* owned */
	TAILQ_HEAD(turn_users, turn_user) in_turn; /* the same; the next one first */
};

void turns_init(struct turns *turns);
/*
 * Enters the line of the user: as the first, or as the last. An entry that is in line already moves
 * if that line is shorter, so that no user waits for another's ten thousand.
 */
void turns_enter(struct turns *turns, struct turn *turn, uid_t uid, bool first);
/* Leaves its line. */
void turns_leave(struct turns *turns, struct turn *turn);
/* The first entry in line of the user whose turn it is; the turn is over. NULL: nobody is in line. */
struct turn *turns_next(struct turns *turns);

#endif
