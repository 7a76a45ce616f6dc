/*
 * Things that wait for their turn. Users take turns, so that a user with many things delays the others by one
 * thing alone. The things of one user keep their order. Owns its entries for users; the things are borrowed.
 */
#ifndef VIEW_ROUND_ROBIN_H
#define VIEW_ROUND_ROBIN_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/base/queue.h"

/* All other daemons together count as one user. Other users are uids. */
#define ROUND_ROBIN_DAEMONS INT64_C(-1)

struct round_robin_user;

struct round_robin {
	TAILQ_HEAD(, round_robin_user) users; /* owned; those with things, whose turn it is first */
};

/* Part of a thing that waits. Zeroed: it does not wait. */
struct round_robin_place {
	struct round_robin_user *user;       /* NULL: it does not wait */
	void *thing;                         /* borrowed */
	TAILQ_ENTRY(round_robin_place) next; /* while it waits */
};

void round_robin_init(struct round_robin *turns);
/* The last of that user. */
void round_robin_add(
    struct round_robin *turns, struct round_robin_place *turn, int64_t user, void *thing);
/* It does not wait any more. One that does not wait is fine. */
void round_robin_remove(struct round_robin *turns, struct round_robin_place *turn);
/* The first thing of the user whose turn it is; NULL: nothing waits. */
void *round_robin_first(const struct round_robin *turns);
/* The turn of that user is over: the next user has one. There is a first thing. */
void round_robin_pass(struct round_robin *turns);
/* The thing of that user with `before` things before it; NULL: there is none. */
void *round_robin_of(const struct round_robin *turns, int64_t user, size_t before);

#endif
