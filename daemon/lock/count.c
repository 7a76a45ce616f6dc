#include "daemon/lock/count.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "protocol/methods.h"

#define WINDOW_FIRST 64
#define WINDOW_MOST BROKER_PROBE_MAX

struct count {
	uint64_t id; /* of the probe in flight */
	char *name;  /* owned */
	int first, window;
	count_done_fn *done;
	uint64_t whose;
	UT_hash_handle by_id;
};

static void probe_window(struct lock_engine *engine, struct count *count);

static void
finish(struct lock_engine *engine, struct count *count, int slots, int unknown_slot)
{
	count_done_fn *done = count->done;
	uint64_t whose = count->whose;

	free(count->name);
	free(count);
	done(engine, whose, slots, unknown_slot);
}

static void
on_probed(void *ctx, uint64_t id, const enum broker_answer *answers, size_t window)
{
	struct lock_engine *engine = ctx;
	struct count *count;

	HASH_FIND(by_id, engine->counts, &id, sizeof(id), count);
	assert(count != NULL && window == (size_t)count->window);
	HASH_DELETE(by_id, engine->counts, count);
	for (int i = 0; i < count->window; i++) {
		int slot = count->first + i;

		if (answers[i] == BROKER_OK && slot <= METHODS_SLOTS_MAX)
			continue;
		if (answers[i] == BROKER_UNKNOWN && !FAULT(COUNT_UNKNOWN_IS_ABSENT))
			finish(engine, count, -1, slot);
		else
			finish(engine, count, slot - 1, 0);
		return;
	}
	count->first += count->window;
	count->window *= 4;
	if (count->window > WINDOW_MOST)
		count->window = WINDOW_MOST;
	probe_window(engine, count);
}

static void
probe_window(struct lock_engine *engine, struct count *count)
{
	size_t window = (size_t)count->window;
	struct queue_name *names = mem_alloc(window * sizeof(*names));
	const char **texts = mem_alloc(window * sizeof(*texts));

	for (size_t i = 0; i < window; i++) {
		names[i] =
		    queue_name_a(engine->settings.naming, count->name, count->first + (int)i);
		texts[i] = names[i].text;
	}
	count->id = engine_id(engine);
	HASH_ADD(by_id, engine->counts, id, sizeof(count->id), count);
	broker_probe(engine->broker, texts, window,
	    (struct broker_probe_done){on_probed, engine, count->id});
	free(texts);
	free(names);
}

void
count_start(struct lock_engine *engine, const char *name, count_done_fn *done, uint64_t id)
{
	struct count *count = mem_alloc(sizeof(*count));

	count->name = mem_strdup(name);
	count->first = 1;
	count->window = WINDOW_FIRST;
	count->done = done;
	count->whose = id;
	probe_window(engine, count);
}

void
count_free_all(struct lock_engine *engine)
{
	struct count *count, *next;

	HASH_ITER (by_id, engine->counts, count, next) {
		HASH_DELETE(by_id, engine->counts, count);
		free(count->name);
		free(count);
	}
}
