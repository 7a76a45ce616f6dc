#include "daemon/lock/hold/slot_check.h"

#include <stdlib.h>

#include "daemon/base/mem.h"
#include "daemon/lock/hold/lease.h"
#include "daemon/lock/hold/lifecycle.h"

struct slot_question {
	struct lock_engine *engine; /* borrowed */
	uint64_t channel;
	struct broker_done done;
	TAILQ_ENTRY(slot_question) entry;
};

static void
on_answered(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct slot_question *question = ctx;
	struct lock_engine *engine = question->engine;
	struct slot_checks *checks = &engine->slot_checks;
	struct broker_done done = question->done;

	(void)id;
	TAILQ_REMOVE(&checks->questions, question, entry);
	if (question->channel == checks->channel) {
		if (!reply->channel_open) {
			checks->channel = 0; /* it is gone, or going */
		} else if (--checks->unanswered == 0) {
			broker_channel_put(engine->broker, checks->channel);
			checks->channel = 0;
		}
	}
	free(question);
	lease_answered(engine, reply);
	done.fn(done.ctx, done.id, reply);
}

/* 0: none is free now. */
static uint64_t
shared_channel(struct lock_engine *engine)
{
	struct slot_checks *checks = &engine->slot_checks;

	if (checks->channel == 0) {
		checks->channel = broker_channel_take(engine->broker, BROKER_LOCKS);
		checks->unanswered = 0;
	}
	return checks->channel;
}

bool
slot_check_ask(struct lock_engine *engine, struct hold *hold, struct broker_done done)
{
	struct slot_checks *checks = &engine->slot_checks;
	struct queue_name a = queue_name_a(engine->settings.naming, hold->name, hold->slot);
	struct slot_question *question;
	uint64_t channel =
	    hold->way == BROKER_BY_QUEUE ? lifecycle_channel(engine, hold) : shared_channel(engine);

	if (channel == 0)
		return false;
	if (channel == checks->channel)
		checks->unanswered++;
	question = mem_alloc(sizeof(*question));
	question->engine = engine;
	question->channel = channel;
	question->done = done;
	TAILQ_INSERT_TAIL(&checks->questions, question, entry);
	broker_check(
	    engine->broker, channel, a.text, (struct broker_done){on_answered, question, 0});
	return true;
}

void
slot_check_free_all(struct lock_engine *engine)
{
	struct slot_question *question;

	while ((question = TAILQ_FIRST(&engine->slot_checks.questions)) != NULL) {
		TAILQ_REMOVE(&engine->slot_checks.questions, question, entry);
		free(question);
	}
}
