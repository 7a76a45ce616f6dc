#include "daemon/view/round_robin.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/mem.h"

struct round_robin_user {
	int64_t user;
	TAILQ_HEAD(, round_robin_place) things;
	TAILQ_ENTRY(round_robin_user) next;
};

void
round_robin_init(struct round_robin *turns)
{
	TAILQ_INIT(&turns->users);
}

static struct round_robin_user *
user_find(const struct round_robin *turns, int64_t user)
{
	struct round_robin_user *found;

	TAILQ_FOREACH (found, &turns->users, next) {
		if (found->user == user)
			break;
	}
	return found;
}

void
round_robin_add(
    struct round_robin *turns, struct round_robin_place *turn, int64_t user, void *thing)
{
	assert(turn->user == NULL);
	turn->thing = thing;
	turn->user = user_find(turns, user);
	if (turn->user == NULL) {
		turn->user = mem_alloc(sizeof(*turn->user));
		turn->user->user = user;
		TAILQ_INIT(&turn->user->things);
		TAILQ_INSERT_TAIL(&turns->users, turn->user, next);
	}
	TAILQ_INSERT_TAIL(&turn->user->things, turn, next);
}

void
round_robin_remove(struct round_robin *turns, struct round_robin_place *turn)
{
	struct round_robin_user *user = turn->user;

	if (user == NULL)
		return;
	TAILQ_REMOVE(&user->things, turn, next);
	turn->user = NULL;
	if (!TAILQ_EMPTY(&user->things))
		return;
	TAILQ_REMOVE(&turns->users, user, next);
	free(user);
}

void *
round_robin_first(const struct round_robin *turns)
{
	const struct round_robin_user *user = TAILQ_FIRST(&turns->users);

	return user == NULL ? NULL : TAILQ_FIRST(&user->things)->thing;
}

void
round_robin_pass(struct round_robin *turns)
{
	struct round_robin_user *user = TAILQ_FIRST(&turns->users);

	TAILQ_REMOVE(&turns->users, user, next);
	TAILQ_INSERT_TAIL(&turns->users, user, next);
}

void *
round_robin_of(const struct round_robin *turns, int64_t user, size_t before)
{
	const struct round_robin_user *found = user_find(turns, user);
	const struct round_robin_place *turn = found == NULL ? NULL : TAILQ_FIRST(&found->things);

	while (turn != NULL && before-- > 0)
		turn = TAILQ_NEXT(turn, next);
	return turn == NULL ? NULL : turn->thing;
}
