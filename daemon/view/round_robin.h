/*
 * Things in a queue, in which users take turns. A user with many things delays the others by only
 * one of them. The things of one user keep their order. Owns its entries for users. The things are
 * borrowed.
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
	TAILQ_HEAD(, round_robin_user)
	users; /* owned; the users that have things; the first has the turn */
};

/* The place of a thing. Zeroed: the thing is not queued. */
struct round_robin_place {
	struct round_robin_user *user;       /* NULL: not queued */
	void *thing;                         /* borrowed */
	TAILQ_ENTRY(round_robin_place) next; /* while queued */
};

void round_robin_init(struct round_robin *turns);
/* Appends the thing to those of that user. */
void round_robin_add(
    struct round_robin *turns, struct round_robin_place *turn, int64_t user, void *thing);
/* Does nothing if the thing is not queued. */
void round_robin_remove(struct round_robin *turns, struct round_robin_place *turn);
/* The first thing of the user that has the turn. NULL: nothing is queued. */
void *round_robin_first(const struct round_robin *turns);
/* The turn goes to the next user. At least one thing must be queued. */
void round_robin_pass(struct round_robin *turns);
/* The thing of that user that has `before` things before it. NULL: there is none. */
void *round_robin_of(const struct round_robin *turns, int64_t user, size_t before);

#endif
