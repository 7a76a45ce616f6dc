#include "daemon/view/turns.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/mem.h"

struct turn_user {
	int64_t user;
	TAILQ_HEAD(, turn) things;
	TAILQ_ENTRY(turn_user) next;
};

void
turns_init(struct turns *turns)
{
	TAILQ_INIT(&turns->users);
}

static struct turn_user *
user_find(const struct turns *turns, int64_t user)
{
	struct turn_user *found;

	TAILQ_FOREACH (found, &turns->users, next) {
		if (found->user == user)
			break;
	}
	return found;
}

void
turns_add(struct turns *turns, struct turn *turn, int64_t user, void *thing)
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
turns_remove(struct turns *turns, struct turn *turn)
{
	struct turn_user *user = turn->user;

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
turns_first(const struct turns *turns)
{
	const struct turn_user *user = TAILQ_FIRST(&turns->users);

	return user == NULL ? NULL : TAILQ_FIRST(&user->things)->thing;
}

void
turns_pass(struct turns *turns)
{
	struct turn_user *user = TAILQ_FIRST(&turns->users);

	TAILQ_REMOVE(&turns->users, user, next);
	TAILQ_INSERT_TAIL(&turns->users, user, next);
}

void *
turns_of(const struct turns *turns, int64_t user, size_t before)
{
	const struct turn_user *found = user_find(turns, user);
	const struct turn *turn = found == NULL ? NULL : TAILQ_FIRST(&found->things);

	while (turn != NULL && before-- > 0)
		turn = TAILQ_NEXT(turn, next);
	return turn == NULL ? NULL : turn->thing;
}
