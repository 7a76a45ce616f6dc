#include "daemon/broker/memory_stray.h"

#include <stdlib.h>

#include "daemon/base/mem.h"
#include "daemon/base/queue.h"

struct stray {
	struct memory_strays *strays; /* borrowed */
	struct broker_done done;
	struct broker_reply reply;
	struct timer timer;
	TAILQ_ENTRY(stray) entry;
};

struct memory_strays {
	struct timers *timers;   /* borrowed */
	TAILQ_HEAD(, stray) all; /* owned */
};

static void
stray_free(struct stray *stray)
{
	timers_cancel(stray->strays->timers, &stray->timer);
	TAILQ_REMOVE(&stray->strays->all, stray, entry);
	free(stray);
}

static void
on_stray(void *ctx, uint64_t id)
{
	struct stray *stray = ctx;
	struct broker_reply reply = stray->reply;
	struct broker_done done = stray->done;

	(void)id;
	stray_free(stray);
	done.fn(done.ctx, done.id, &reply);
}

void
memory_strays_add(struct memory_strays *strays, enum broker_answer answer, struct broker_done done)
{
	int64_t now = clock_now(timers_clock(strays->timers));
	struct stray *stray = mem_alloc(sizeof(*stray));

	stray->strays = strays;
	stray->done = done;
	stray->reply.answer = answer;
	stray->reply.sent_at = now;
	stray->reply.text = "";
	TAILQ_INSERT_TAIL(&strays->all, stray, entry);
	timer_init(&stray->timer, on_stray, stray, 0);
	timers_set(strays->timers, &stray->timer, now);
}

struct memory_strays *
memory_strays_new(struct timers *timers)
{
	struct memory_strays *strays = mem_alloc(sizeof(*strays));

	strays->timers = timers;
	TAILQ_INIT(&strays->all);
	return strays;
}

void
memory_strays_clear(struct memory_strays *strays)
{
	struct stray *stray;

	while ((stray = TAILQ_FIRST(&strays->all)) != NULL)
		stray_free(stray);
}

void
memory_strays_free(struct memory_strays *strays)
{
	memory_strays_clear(strays);
	free(strays);
}
