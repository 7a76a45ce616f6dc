#include "daemon/lock/hold/slot_check.h"

#include <stdlib.h>

#include "daemon/base/mem.h"
#include "daemon/lock/hold/lease.h"
#include "daemon/lock/hold/lifecycle.h"

/*
 * The maximum of channels besides the shared one. Each has an overdue answer: the node of an A may
 * be silent, and then holds up the questions behind it.
 */
#define OTHERS_MOST 4
/*
 * The maximum of unanswered questions on the shared channel. The limit is one after a 404, and
 * doubles with each success, because questions behind a 404 are sent again.
 */
#define WINDOW_MOST 1024

struct slot_question {
	struct lock_engine *engine; /* borrowed */
	uint64_t channel;           /* of a sent one */
	bool shared;                /* the channel is not the hold's */
	int64_t asked;              /* clock time of sending */
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

/* The reply to a question on that shared channel, which was taken out. */
static void
channel_answered(struct lock_engine *engine, uint64_t channel, const struct broker_reply *reply)
{
	struct slot_checks *checks = &engine->slot_checks;
	bool is_current = checks->channel == channel, is_idle = oldest_on(checks, channel) == NULL;

	if (is_current && reply->channel_open && checks->window < WINDOW_MOST)
		checks->window *= 2;
	if (is_current)
		checks->unanswered--;
	if (is_idle && reply->channel_open)
		broker_channel_put(engine->broker, channel);
	if (is_current && (is_idle || !reply->channel_open)) {
		checks->channel = 0;
		checks->unanswered = 0;
		checks->others += !is_idle; /* the others on it are answered next */
	} else if (is_idle) {
		checks->others--;
	}
	if (is_current && !reply->channel_open)
		checks->window = 1;
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
		checks->unanswered = 0;
		checks->others++;
	}
	if (checks->channel == 0)
		checks->channel = broker_channel_take(engine->broker, BROKER_LOCKS);
	return checks->channel;
}

static void on_answered(void *ctx, uint64_t id, const struct broker_reply *reply);

static void
send(struct slot_question *question, uint64_t channel)
{
	struct lock_engine *engine = question->engine;

	question->channel = channel;
	question->asked = engine_now(engine);
	TAILQ_INSERT_TAIL(&engine->slot_checks.questions, question, entry);
	broker_check(engine->broker, channel, question->a.text,
	    (struct broker_done){on_answered, question, 0});
}

/* otherwise: the answer if no channel is free. */
static void
send_waiting(struct lock_engine *engine, enum broker_answer otherwise)
{
	struct slot_checks *checks = &engine->slot_checks;
	struct slot_question *question;

	while ((question = TAILQ_FIRST(&checks->waiting)) != NULL) {
		uint64_t channel = shared_channel(engine);
		struct broker_done done = question->done;

		if (channel != 0 && checks->unanswered >= checks->window)
			return;
		TAILQ_REMOVE(&checks->waiting, question, entry);
		if (channel != 0) {
			checks->unanswered++;
			send(question, channel);
			continue;
		}
		free(question);
		done.fn(done.ctx, done.id, &(struct broker_reply){.answer = otherwise, .text = ""});
	}
}

static void
on_answered(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct slot_question *question = ctx;
	struct lock_engine *engine = question->engine;
	struct slot_checks *checks = &engine->slot_checks;
	struct broker_done done = question->done;
	bool shared = question->shared;

	(void)id;
	TAILQ_REMOVE(&checks->questions, question, entry);
	if (shared)
		channel_answered(engine, question->channel, reply);
	if (shared && reply->answer == BROKER_SKIPPED) {
		TAILQ_INSERT_TAIL(&checks->waiting, question, entry);
		send_waiting(engine, BROKER_SKIPPED);
		return;
	}
	free(question);
	lease_answered(engine, reply);
	done.fn(done.ctx, done.id, reply);
	if (shared)
		send_waiting(
		    engine, reply->answer == BROKER_UNKNOWN ? BROKER_UNKNOWN : BROKER_SKIPPED);
}

bool
slot_check_ask(struct lock_engine *engine, struct hold *hold, struct broker_done done)
{
	struct slot_question *question;
	bool shared = way_row(hold->way)->is_channel;
	uint64_t channel = shared ? shared_channel(engine) : lifecycle_channel(engine, hold);

	if (channel == 0)
		return false;
	question = mem_alloc(sizeof(*question));
	question->engine = engine;
	question->shared = shared;
	question->a = queue_name_a(engine->settings.naming, hold->name, hold->slot);
	question->done = done;
	if (shared) {
		TAILQ_INSERT_TAIL(&engine->slot_checks.waiting, question, entry);
		send_waiting(engine, BROKER_SKIPPED);
	} else {
		send(question, channel);
	}
	return true;
}

void
slot_check_init(struct slot_checks *checks)
{
	checks->window = WINDOW_MOST;
	TAILQ_INIT(&checks->waiting);
	TAILQ_INIT(&checks->questions);
}

void
slot_check_free_all(struct lock_engine *engine)
{
	struct slot_checks *checks = &engine->slot_checks;
	struct slot_question *question;

	TAILQ_CONCAT(&checks->questions, &checks->waiting, entry);
	while ((question = TAILQ_FIRST(&checks->questions)) != NULL) {
		TAILQ_REMOVE(&checks->questions, question, entry);
		free(question);
	}
}
