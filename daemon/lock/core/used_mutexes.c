#include "daemon/lock/core/used_mutexes.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "protocol/duration.h"

struct used_mutex {
	char *name;    /* owned; the key */
	size_t holds;  /* 0: it is in user.ended */
	int64_t until; /* ended: it counts until that clock time */
	TAILQ_ENTRY(used_mutex) of_ended;
	UT_hash_handle hh;
};

TAILQ_HEAD(used_mutex_list, used_mutex);

/* A user with such mutexes. */
struct mutex_user {
	uid_t uid;                    /* the key */
	struct used_mutex *mutexes;   /* owned; by name */
	struct used_mutex_list ended; /* in order of `until` */
	struct timer expiry;          /* of the first that ended */
	UT_hash_handle hh;
};

static struct mutex_user *
user_find(const struct lock_engine *engine, uid_t uid)
{
	struct mutex_user *user;

	HASH_FIND(hh, engine->mutex_users, &uid, sizeof(uid), user);
	return user;
}

static struct used_mutex *
mutex_find(const struct mutex_user *user, const char *name)
{
	struct used_mutex *mutex;

	HASH_FIND_STR(user->mutexes, name, mutex);
	return mutex;
}

/* The user goes with the last of them. */
static void
mutex_free(struct lock_engine *engine, struct mutex_user *user, struct used_mutex *mutex)
{
	HASH_DEL(user->mutexes, mutex);
	free(mutex->name);
	free(mutex);
	if (user->mutexes != NULL)
		return;
	timers_cancel(engine->timers, &user->expiry);
	HASH_DEL(engine->mutex_users, user);
	free(user);
}

static void
expired(void *ctx, uint64_t uid)
{
	struct lock_engine *engine = ctx;
	struct mutex_user *user;
	struct used_mutex *mutex;

	while ((user = user_find(engine, (uid_t)uid)) != NULL &&
	       (mutex = TAILQ_FIRST(&user->ended)) != NULL) {
		if (mutex->until > engine_now(engine)) {
			timers_set(engine->timers, &user->expiry, mutex->until);
			return;
		}
		TAILQ_REMOVE(&user->ended, mutex, of_ended);
		mutex_free(engine, user, mutex);
	}
}

const char *
used_mutexes_lacking(const struct lock_engine *engine, const struct share *share, const char *name,
    char text[LOCK_LACKING_MAX])
{
	const struct mutex_user *user = share == NULL ? NULL : user_find(engine, share->uid);
	const struct used_mutex *first;
	size_t most = engine->settings.max_mutexes_per_uid;
	int used;

	if (user == NULL || HASH_COUNT(user->mutexes) < most || mutex_find(user, name) != NULL)
		return NULL;
	used = snprintf(text, LOCK_LACKING_MAX,
	    "user %lu uses %u mutexes, and may use %zu; each counts until %.0f s after its "
	    "release, "
	    "or %.0f s by quorum",
	    (unsigned long)user->uid, HASH_COUNT(user->mutexes), most,
	    duration_to_seconds(BROKER_MUTEX_EXPIRES),
	    duration_to_seconds(BROKER_QUORUM_MUTEX_EXPIRES));
	first = TAILQ_FIRST(&user->ended);
	if (first != NULL)
		snprintf(text + used, LOCK_LACKING_MAX - (size_t)used, ": another one in %.1f s",
		    duration_to_seconds(first->until - engine_now(engine)));
	return text;
}

static bool
counts(const struct hold *hold)
{
	return hold->kind == LOCK_KIND_MUTEX && way_row(hold->way)->leaves_b > 0;
}

void
used_mutexes_begin(struct lock_engine *engine, const struct hold *hold, uid_t uid)
{
	struct mutex_user *user = user_find(engine, uid);
	struct used_mutex *mutex;

	if (!counts(hold))
		return;
	if (user == NULL) {
		user = mem_alloc(sizeof(*user));
		user->uid = uid;
		TAILQ_INIT(&user->ended);
		timer_init(&user->expiry, expired, engine, uid);
		HASH_ADD(hh, engine->mutex_users, uid, sizeof(user->uid), user);
	}
	mutex = mutex_find(user, hold->name);
	if (mutex == NULL) {
		mutex = mem_alloc(sizeof(*mutex));
		mutex->name = mem_strdup(hold->name);
		HASH_ADD_KEYPTR(hh, user->mutexes, mutex->name, strlen(mutex->name), mutex);
	} else if (mutex->holds == 0) {
		TAILQ_REMOVE(&user->ended, mutex, of_ended);
	}
	mutex->holds++;
}

void
used_mutexes_end(struct lock_engine *engine, const struct hold *hold, uid_t uid)
{
	struct mutex_user *user;
	struct used_mutex *mutex, *later;

	if (!counts(hold))
		return;
	user = user_find(engine, uid);
	mutex = mutex_find(user, hold->name);
	assert(mutex->holds > 0);
	if (--mutex->holds > 0)
		return;
	FAULT(RELEASED_MUTEX_UNCOUNTED, mutex_free(engine, user, mutex); return;);
	mutex->until = engine_now(engine) + way_row(hold->way)->leaves_b;
	later = TAILQ_FIRST(&user->ended);
	while (later != NULL && later->until <= mutex->until)
		later = TAILQ_NEXT(later, of_ended);
	if (later != NULL)
		TAILQ_INSERT_BEFORE(later, mutex, of_ended);
	else
		TAILQ_INSERT_TAIL(&user->ended, mutex, of_ended);
	timers_set(engine->timers, &user->expiry, TAILQ_FIRST(&user->ended)->until);
}

void
used_mutexes_done(struct lock_engine *engine)
{
	struct mutex_user *user, *next_user;
	struct used_mutex *mutex, *next;

	HASH_ITER (hh, engine->mutex_users, user, next_user) {
		HASH_ITER (hh, user->mutexes, mutex, next)
			mutex_free(engine, user, mutex);
	}
}
