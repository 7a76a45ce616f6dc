#include "daemon/broker/count.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/raw_channel.h"

/* The wait after no channel number was left. */
#define NO_CHANNEL (1 * NSEC_PER_SEC)

struct count {
	TAILQ_ENTRY(count) entry;
	char *queue;                      /* owned */
	struct broker_count_done counted; /* fn NULL: a look */
	struct amqp_look_done looked;
};
TAILQ_HEAD(count_list, count);

struct amqp_counters {
	struct timers *timers;           /* borrowed */
	struct amqp_channels *channels;  /* borrowed */
	struct count_list sent, waiting; /* owned; each in order of the calls */
	struct amqp_raw_channel channel;
	struct timer retry; /* set: no channel number was left */
	bool silent;
};

/* count: in no list any more. */
static void
answer(const struct amqp_counters *counters, struct count *count, enum broker_answer what,
    int consumers)
{
	struct broker_count_done counted = count->counted;
	struct amqp_look_done looked = count->looked;

	free(count->queue);
	free(count);
	if (counters->silent)
		return;
	if (counted.fn == NULL)
		looked.fn(looked.ctx, looked.id, what, consumers);
	else
		counted.fn(counted.ctx, counted.id,
		    what == BROKER_OK || what == BROKER_ABSENT ? consumers : -1);
}

static void
send_waiting(struct amqp_counters *counters)
{
	struct count *count;

	if (amqp_channels_link(counters->channels) == NULL || counters->silent)
		return;
	while ((count = TAILQ_FIRST(&counters->waiting)) != NULL) {
		amqp_queue_declare_t declare = {
		    .queue = amqp_cstring_bytes(count->queue), .passive = 1};

		if (counters->channel.number == 0 &&
		    !amqp_raw_channel_open(&counters->channel, 0)) {
			timers_set(counters->timers, &counters->retry,
			    clock_now(timers_clock(counters->timers)) + NO_CHANNEL);
			return;
		}
		TAILQ_REMOVE(&counters->waiting, count, entry);
		TAILQ_INSERT_TAIL(&counters->sent, count, entry);
		amqp_raw_channel_send(&counters->channel, AMQP_QUEUE_DECLARE_METHOD, &declare);
	}
}

/* On another channel. */
static void
send_again(struct amqp_counters *counters)
{
	TAILQ_CONCAT(&counters->sent, &counters->waiting, entry);
	TAILQ_CONCAT(&counters->waiting, &counters->sent, entry);
	send_waiting(counters);
}

static void
on_retry(void *ctx, uint64_t id)
{
	(void)id;
	send_waiting(ctx);
}

/* ---- frames ---- */

static bool
on_method(void *ctx, const struct amqp_frame *frame)
{
	struct amqp_counters *counters = ctx;
	struct count *count = TAILQ_FIRST(&counters->sent);
	const amqp_queue_declare_ok_t *ok = frame->fields;

	if (frame->method != AMQP_QUEUE_DECLARE_OK_METHOD || count == NULL)
		return false;
	TAILQ_REMOVE(&counters->sent, count, entry);
	answer(counters, count, BROKER_OK,
	    ok->consumer_count > INT_MAX ? INT_MAX : (int)ok->consumer_count);
	return true;
}

/* The broker refused the first request, and did not read those behind it. */
static void
on_closed(void *ctx, int code, const char *text)
{
	struct amqp_counters *counters = ctx;
	/* NULL: another cause, as no request was on the channel. */
	struct count *first = TAILQ_FIRST(&counters->sent);
	enum broker_answer what = counters->channel.blames
				      ? amqp_request_refusal(AMQP_REQUEST_CHECK, code, text)
				      : BROKER_UNKNOWN;

	if (first != NULL)
		TAILQ_REMOVE(&counters->sent, first, entry);
	send_again(counters);
	if (first != NULL)
		answer(counters, first, what, 0);
}

/* ---- outside ---- */

static void
ask(struct amqp_counters *counters, const char *queue, struct broker_count_done counted,
    struct amqp_look_done looked)
{
	struct count *count = mem_alloc(sizeof(*count));

	assert(strlen(queue) <= UINT8_MAX);
	count->queue = mem_strdup(queue);
	count->counted = counted;
	count->looked = looked;
	TAILQ_INSERT_TAIL(&counters->waiting, count, entry);
	send_waiting(counters);
}

void
amqp_counters_ask(struct amqp_counters *counters, const char *queue, struct broker_count_done done)
{
	ask(counters, queue, done, (struct amqp_look_done){0});
}

void
amqp_counters_look(struct amqp_counters *counters, const char *queue, struct amqp_look_done done)
{
	ask(counters, queue, (struct broker_count_done){0}, done);
}

static size_t
forget(struct count_list *list, const void *ctx)
{
	struct count *count, *next;
	size_t forgotten = 0;

	TAILQ_FOREACH_SAFE (count, list, entry, next) {
		if (count->counted.fn != NULL || count->looked.ctx != ctx)
			continue;
		TAILQ_REMOVE(list, count, entry);
		free(count->queue);
		free(count);
		forgotten++;
	}
	return forgotten;
}

size_t
amqp_counters_forget(struct amqp_counters *counters, const void *ctx)
{
	size_t sent = forget(&counters->sent, ctx), waiting = forget(&counters->waiting, ctx);

	if (sent > 0) {
		amqp_raw_channel_close(&counters->channel);
		send_again(counters);
	}
	return sent + waiting;
}

bool
amqp_counters_in_use(const struct amqp_counters *counters)
{
	return !TAILQ_EMPTY(&counters->sent) || !TAILQ_EMPTY(&counters->waiting);
}

void
amqp_counters_go(struct amqp_counters *counters)
{
	send_waiting(counters);
}

void
amqp_counters_fail(struct amqp_counters *counters)
{
	struct count_list lost = TAILQ_HEAD_INITIALIZER(lost);
	struct count *count;

	amqp_raw_channel_forget(&counters->channel);
	timers_cancel(counters->timers, &counters->retry);
	TAILQ_CONCAT(&lost, &counters->sent, entry);
	TAILQ_CONCAT(&lost, &counters->waiting, entry);
	while ((count = TAILQ_FIRST(&lost)) != NULL) {
		TAILQ_REMOVE(&lost, count, entry);
		answer(counters, count, BROKER_UNKNOWN, 0);
	}
}

/* ---- life ---- */

struct amqp_counters *
amqp_counters_new(struct timers *timers, struct amqp_channels *channels)
{
	static const struct amqp_raw_channel_events events = {
	    .method = on_method, .closed = on_closed};
	struct amqp_counters *counters = mem_alloc(sizeof(*counters));

	counters->timers = timers;
	counters->channels = channels;
	amqp_raw_channel_init(&counters->channel, channels, &events, counters);
	TAILQ_INIT(&counters->sent);
	TAILQ_INIT(&counters->waiting);
	timer_init(&counters->retry, on_retry, counters, 0);
	return counters;
}

void
amqp_counters_silence(struct amqp_counters *counters)
{
	counters->silent = true;
}

void
amqp_counters_free(struct amqp_counters *counters)
{
	if (counters == NULL)
		return;
	amqp_counters_silence(counters);
	amqp_counters_fail(counters);
	free(counters);
}
