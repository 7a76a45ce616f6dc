#include "daemon/lock/hold/slot_check.h"

#include <stdlib.h>

#include "daemon/base/mem.h"
#include "daemon/lock/hold/lease.h"
#include "daemon/lock/hold/lifecycle.h"

/*
 * The maximum of channels besides the shared one. Some have an overdue answer: the node of an A may
 * be silent, and then holds up the questions behind it. Others have one question each, which a 404
 * on the shared channel left unanswered.
 */
#define OTHERS_MOST 4

struct slot_question {
	struct lock_engine *engine; /* borrowed */
	uint64_t channel;
	bool shared;   /* the channel is not the hold's */
	int64_t asked; /* clock time */
	struct queue_name a;
	struct broker_done done;
	TAILQ_ENTRY(slot_question) entry;
};

/* The oldest question on a channel. NULL: it has none. */
static struct slot_question *
oldest_on(const struct slot_checks *checks, uint64_t channel)
{
	struct slot_question *question;

	TAILQ_FOREACH (question, &checks->questions, entry) {
		if (question->channel == channel)
			return question;
	}
	return NULL;
}

/* A shared channel is gone, or has no question left. */
static void
let_go(struct slot_checks *checks, uint64_t channel)
{
	if (checks->channel == channel)
		checks->channel = 0;
	else
		checks->others--;
}

static void send(struct slot_question *question);
static uint64_t channel_for_skipped(struct lock_engine *engine);

static void
on_answered(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct slot_question *question = ctx;
	struct lock_engine *engine = question->engine;
	struct slot_checks *checks = &engine->slot_checks;
	struct broker_done done = question->done;

	(void)id;
	TAILQ_REMOVE(&checks->questions, question, entry);
	if (question->shared && oldest_on(checks, question->channel) == NULL) {
		if (reply->channel_open)
			broker_channel_put(engine->broker, question->channel);
		let_go(checks, question->channel);
	} else if (checks->channel == question->channel && !reply->channel_open) {
		checks->channel = 0; /* the others on it are answered next */
		checks->others++;
	}
	if (question->shared && reply->answer == BROKER_SKIPPED) {
		question->channel = channel_for_skipped(engine);
		if (question->channel != 0) {
			send(question);
			return;
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
	const struct slot_question *oldest =
	    checks->channel == 0 ? NULL : oldest_on(checks, checks->channel);

	if (oldest != NULL && checks->others < OTHERS_MOST &&
	    engine_now(engine) - oldest->asked > engine->settings.request_timeout) {
		checks->channel = 0;
		checks->others++;
	}
	if (checks->channel == 0)
		checks->channel = broker_channel_take(engine->broker, BROKER_LOCKS);
	return checks->channel;
}

/* A channel of its own, else the shared one; 0: none is free now. */
static uint64_t
channel_for_skipped(struct lock_engine *engine)
{
	struct slot_checks *checks = &engine->slot_checks;
	uint64_t channel = 0;

	if (checks->others < OTHERS_MOST)
		channel = broker_channel_take(engine->broker, BROKER_LOCKS);
	if (channel == 0)
		return shared_channel(engine);
	checks->others++;
	return channel;
}

static void
send(struct slot_question *question)
{
	struct lock_engine *engine = question->engine;

	question->asked = engine_now(engine);
	TAILQ_INSERT_TAIL(&engine->slot_checks.questions, question, entry);
	broker_check(engine->broker, question->channel, question->a.text,
	    (struct broker_done){on_answered, question, 0});
}

bool
slot_check_ask(struct lock_engine *engine, struct hold *hold, struct broker_done done)
{
	struct slot_question *question;
	bool shared = hold->way != BROKER_BY_QUEUE;
	uint64_t channel = shared ? shared_channel(engine) : lifecycle_channel(engine, hold);

	if (channel == 0)
		return false;
	question = mem_alloc(sizeof(*question));
	question->engine = engine;
	question->channel = channel;
	question->shared = shared;
	question->a = queue_name_a(engine->settings.naming, hold->name, hold->slot);
	question->done = done;
	send(question);
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
