/*
 * Things that wait for their turn. Users take turns, so that a user with many things delays the others by one
 * thing alone. The things of one user keep their order. Owns its entries for users; the things are borrowed.
 */
#ifndef VIEW_TURNS_H
#define VIEW_TURNS_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/base/queue.h"

/* All other daemons together count as one user. Other users are uids. */
#define TURNS_DAEMONS INT64_C(-1)

struct turn_user;

struct turns {
	TAILQ_HEAD(, turn_user) users; /* owned; those with things, whose turn it is first */
};

/* Part of a thing that waits. Zeroed: it does not wait. */
struct turn {
	struct turn_user *user; /* NULL: it does not wait */
	void *thing;            /* borrowed */
	TAILQ_ENTRY(turn) next; /* while it waits */
};

void turns_init(struct turns *turns);
/* The last of that user. */
void turns_add(struct turns *turns, struct turn *turn, int64_t user, void *thing);
/* It does not wait any more. One that does not wait is fine. */
void turns_remove(struct turns *turns, struct turn *turn);
/* The first thing of the user whose turn it is; NULL: nothing waits. */
void *turns_first(const struct turns *turns);
/* The turn of that user is over: the next user has one. There is a first thing. */
void turns_pass(struct turns *turns);
/* The thing of that user with `before` things before it; NULL: there is none. */
void *turns_of(const struct turns *turns, int64_t user, size_t before);

#endif
