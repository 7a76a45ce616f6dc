#include "daemon/lock/table/turns.h"

#include <assert.h>
#include <stdlib.h>
#include <uthash.h>

#include "daemon/base/mem.h"

struct turn_user {
	uid_t uid; /* the key */
	size_t count;
	TAILQ_HEAD(, turn) line; /* borrowed; not empty */
	TAILQ_ENTRY(turn_user) of_turns;
	UT_hash_handle by_uid;
};

void
turns_init(struct turns *turns)
{
	TAILQ_INIT(&turns->in_turn);
}

/* Whether the entry is better off there. user NULL: the line is empty. */
static bool
moves(const struct turn *turn, const struct turn_user *user, bool first)
{
	return (user == NULL ? 0 : user->count) < turn->user->count ||
	       (first && user == turn->user && user->count > 1);
}

void
turns_enter(struct turns *turns, struct turn *turn, uid_t uid, bool first)
{
	struct turn_user *user;

	HASH_FIND(by_uid, turns->by_uid, &uid, sizeof(uid), user);
	if (turn->user != NULL) {
		if (!moves(turn, user, first))
			return;
		turns_leave(turns, turn);
	}
	if (user == NULL) {
		user = mem_alloc(sizeof(*user));
		user->uid = uid;
		TAILQ_INIT(&user->line);
		HASH_ADD(by_uid, turns->by_uid, uid, sizeof(user->uid), user);
		TAILQ_INSERT_TAIL(&turns->in_turn, user, of_turns);
	}
	turn->user = user;
	user->count++;
	if (first)
		TAILQ_INSERT_HEAD(&user->line, turn, of_user);
	else
		TAILQ_INSERT_TAIL(&user->line, turn, of_user);
}

void
turns_leave(struct turns *turns, struct turn *turn)
{
	struct turn_user *user = turn->user;

	assert(user != NULL && user->count > 0);
	turn->user = NULL;
	TAILQ_REMOVE(&user->line, turn, of_user);
	if (--user->count > 0)
		return;
	TAILQ_REMOVE(&turns->in_turn, user, of_turns);
	HASH_DELETE(by_uid, turns->by_uid, user);
	free(user);
}

struct turn *
turns_next(struct turns *turns)
{
	struct turn_user *user = TAILQ_FIRST(&turns->in_turn);

	if (user == NULL)
		return NULL;
	TAILQ_REMOVE(&turns->in_turn, user, of_turns);
	TAILQ_INSERT_TAIL(&turns->in_turn, user, of_turns);
	return TAILQ_FIRST(&user->line);
}
