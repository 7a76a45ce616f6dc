#include "daemon/lock/admin/directory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/lock/core/mutex.h"

/* Maximum attempts, if the channel is closed before the answer. */
#define TRIES_MOST 3

enum directory_state {
	DIRECTORY_LOCKING,  /* waits for the mutex */
	DIRECTORY_READING,  /* reads all names */
	DIRECTORY_ENTERING, /* the name was not listed */
	DIRECTORY_LEAVING,
	DIRECTORY_UNLOCKING /* `done` was called; the mutex is being dropped */
};

enum directory_work { DIRECTORY_READ, DIRECTORY_ENTER, DIRECTORY_LEAVE };

struct directory {
	uint64_t id;
	enum directory_work work;
	enum directory_state state;
	char *name;              /* owned; NULL: read */
	directory_done_fn *done; /* NULL: it was called */
	uint64_t whose;
	unsigned tries;
	struct timer deadline;
	UT_hash_handle by_id;
};

ENGINE_FIND(directory_find, struct directory, directories, by_id)

/* From each state, those that may be next. */
static const unsigned changes[] = {
    [DIRECTORY_LOCKING] = 1U << DIRECTORY_READING | 1U << DIRECTORY_LEAVING,
    [DIRECTORY_READING] =
	1U << DIRECTORY_READING | 1U << DIRECTORY_ENTERING | 1U << DIRECTORY_UNLOCKING,
    [DIRECTORY_ENTERING] =
	1U << DIRECTORY_UNLOCKING | 1U << DIRECTORY_READING, /* READING: again from the beginning */
    [DIRECTORY_LEAVING] = 1U << DIRECTORY_UNLOCKING | 1U << DIRECTORY_LEAVING,
    [DIRECTORY_UNLOCKING] = 0,
};

static void
directory_set_state(struct directory *directory, enum directory_state state)
{
	assert((changes[directory->state] & 1U << state) != 0);
	directory->state = state;
}

static void
directory_free(struct lock_engine *engine, struct directory *directory)
{
	timers_cancel(engine->timers, &directory->deadline);
	HASH_DELETE(by_id, engine->directories, directory);
	free(directory->name);
	free(directory);
}

/* Calls `done`, once: at the deadline or at the end. */
static void
tell(struct lock_engine *engine, struct directory *directory, enum reason reason, const char *text,
    const char *const *names, size_t count)
{
	directory_done_fn *done = directory->done;

	timers_cancel(engine->timers, &directory->deadline);
	directory->done = NULL;
	if (done != NULL)
		done(engine, directory->whose, reason, text, names, count);
}

static void
refuse(
    struct lock_engine *engine, struct directory *directory, enum reason reason, const char *text)
{
	char *words = mem_printf("the directory: %s", text);

	tell(engine, directory, reason, words, NULL, 0);
	free(words);
}

/*
 * A late change could still be performed after the mutexes are dropped, unless they end with the
 * connection. A read without an answer would keep the mutexes as long as the connection lives.
 */
static void
end_with_link(struct lock_engine *engine, const struct directory *directory)
{
	if ((directory->state == DIRECTORY_READING || directory->state == DIRECTORY_ENTERING ||
		directory->state == DIRECTORY_LEAVING) &&
	    broker_auxiliary_is_up(engine->broker))
		broker_reset(engine->broker, BROKER_AUXILIARY,
		    "the broker did not answer about the directory");
}

static void
too_late(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct directory *directory = directory_find(engine, id);
	struct lock_answer unknown =
	    engine_refusal_unknown(engine, "the broker did not answer in time");

	if (directory->state != DIRECTORY_LOCKING) {
		end_with_link(engine, directory);
		/* Before the connection ends, because the alarm is then no longer known. */
		refuse(engine, directory, unknown.reason, unknown.text);
		return; /* requests in flight are answered first */
	}
	mutex_leave(engine, id);
	refuse(engine, directory, REASON_TIMEOUT, "another administrator changes it");
	directory_free(engine, directory);
}

/* ---- the work ---- */

/* The mutex is dropped first: the next request of the caller goes behind that. */
static void
finish(
    struct lock_engine *engine, struct directory *directory, const char *const *names, size_t count)
{
	directory_set_state(directory, DIRECTORY_UNLOCKING);
	mutex_drop(engine, directory->id);
	tell(engine, directory, REASON_NONE, NULL, names, count);
}

static int
compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void
finish_read(
    struct lock_engine *engine, struct directory *directory, const char *const *names, size_t count)
{
	const char **sorted = mem_grow(NULL, count + 1, sizeof(*sorted));
	size_t allowed = 0, unique = 0;

	/* Other programs can publish there, too. */
	for (size_t i = 0; i < count; i++) {
		if (lockname_error(names[i], strlen(names[i])) == NULL &&
		    queue_name_refusal(engine->settings.naming, names[i]) == NULL)
			sorted[allowed++] = names[i];
	}
	qsort(sorted, allowed, sizeof(*sorted), compare);
	for (size_t i = 0; i < allowed; i++) {
		if (unique == 0 || strcmp(sorted[unique - 1], sorted[i]) != 0)
			sorted[unique++] = sorted[i];
	}
	finish(engine, directory, sorted, unique);
	free(sorted);
}

/*
 * The broker may have closed the channel for another request. The work begins again, because it is
 * unknown how far it came.
 */
static bool
may_try_again(const struct lock_engine *engine, const struct directory *directory)
{
	return directory->done != NULL && directory->tries < TRIES_MOST &&
	       broker_takes_messages(engine->broker);
}

static void begin(struct lock_engine *engine, struct directory *directory);

static void
on_answer(void *ctx, uint64_t id, const struct broker_reply *reply, const char *const *names,
    size_t count)
{
	struct lock_engine *engine = ctx;
	struct directory *directory = directory_find(engine, id);
	struct queue_name queue = queue_name_directory(engine->settings.naming);
	struct lock_answer unknown = engine_refusal_unknown(engine, reply->text);
	bool found = false;

	if (directory == NULL)
		return; /* the mutex is gone with the connection */
	if (reply->answer != BROKER_OK) {
		if (may_try_again(engine, directory)) {
			begin(engine, directory);
			return;
		}
		if (reply->answer == BROKER_REFUSED)
			unknown = engine_refusal(REASON_BROKER_REFUSED, reply->text);
		directory_set_state(directory, DIRECTORY_UNLOCKING);
		mutex_drop(engine, id);
		refuse(engine, directory, unknown.reason, unknown.text);
		return;
	}
	for (size_t i = 0; directory->work == DIRECTORY_ENTER && i < count && !found; i++)
		found = strcmp(names[i], directory->name) == 0;
	if (directory->work == DIRECTORY_READ) {
		finish_read(engine, directory, names, count);
	} else if (directory->done == NULL) {
		finish(engine, directory, NULL,
		    0); /* no caller waits for it: no further step is begun */
	} else if (directory->state == DIRECTORY_READING && !found) {
		directory_set_state(directory, DIRECTORY_ENTERING);
		broker_directory_enter(engine->broker, queue.text, directory->name,
		    (struct broker_names_done){on_answer, engine, id});
	} else if (directory->work == DIRECTORY_ENTER) {
		finish(engine, directory, (const char *const[]){directory->name}, 1);
	} else {
		finish(engine, directory, names, count);
	}
}

static void
begin(struct lock_engine *engine, struct directory *directory)
{
	struct queue_name queue = queue_name_directory(engine->settings.naming);
	struct broker_names_done done = {on_answer, engine, directory->id};

	directory->tries++;
	switch (directory->work) {
	case DIRECTORY_READ:
	case DIRECTORY_ENTER:
		directory_set_state(directory, DIRECTORY_READING);
		broker_directory_read(engine->broker, queue.text, done);
		break;
	case DIRECTORY_LEAVE:
		directory_set_state(directory, DIRECTORY_LEAVING);
		broker_directory_leave(engine->broker, queue.text, directory->name, done);
		break;
	}
}

static void
on_mutex(struct lock_engine *engine, uint64_t id, enum mutex_news news, enum reason reason,
    const char *text)
{
	struct directory *directory = directory_find(engine, id);

	switch (news) {
	case MUTEX_HELD:
		begin(engine, directory);
		return;
	case MUTEX_FREE:
		break;
	case MUTEX_LOST:
	case MUTEX_REFUSED:
		refuse(engine, directory, reason, text);
		break;
	}
	directory_free(engine, directory);
}

/* ---- the doors ---- */

static void
start(struct lock_engine *engine, enum directory_work work, const char *name,
    directory_done_fn *done, uint64_t whose)
{
	struct directory *directory = mem_alloc(sizeof(*directory));
	struct queue_name mutex = queue_name_directory_mutex(engine->settings.naming);

	directory->id = engine_id(engine);
	directory->work = work;
	directory->state = DIRECTORY_LOCKING;
	directory->name = mem_strdup(name);
	directory->done = done;
	directory->whose = whose;
	timer_init(&directory->deadline, too_late, engine, directory->id);
	timers_set(engine->timers, &directory->deadline,
	    engine_now(engine) + engine->settings.request_timeout);
	HASH_ADD(by_id, engine->directories, id, sizeof(directory->id), directory);
	mutex_take(
	    engine, mutex.text, &(struct mutex_order){directory->id, "the directory", on_mutex});
}

void
directory_read(struct lock_engine *engine, directory_done_fn *done, uint64_t id)
{
	start(engine, DIRECTORY_READ, NULL, done, id);
}

void
directory_enter(struct lock_engine *engine, const char *name, directory_done_fn *done, uint64_t id)
{
	start(engine, DIRECTORY_ENTER, name, done, id);
}

void
directory_leave(struct lock_engine *engine, const char *name, directory_done_fn *done, uint64_t id)
{
	start(engine, DIRECTORY_LEAVE, name, done, id);
}

void
directory_forget(struct lock_engine *engine, uint64_t id)
{
	struct directory *directory, *next;

	HASH_ITER (by_id, engine->directories, directory, next) {
		if (directory->whose != id || directory->done == NULL)
			continue;
		directory->done = NULL;
		if (directory->state != DIRECTORY_LOCKING)
			continue; /* requests in flight are answered first */
		mutex_leave(engine, directory->id);
		directory_free(engine, directory);
	}
}

void
directory_free_all(struct lock_engine *engine)
{
	struct directory *directory, *next;

	HASH_ITER (by_id, engine->directories, directory, next)
		directory_free(engine, directory);
}
