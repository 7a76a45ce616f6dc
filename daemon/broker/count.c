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
	char *queue; /* owned */
	struct broker_count_done done;
	bool sent;
};
TAILQ_HEAD(count_list, count);

struct amqp_counters {
	struct timers *timers;          /* borrowed */
	struct amqp_channels *channels; /* borrowed */
	struct count_list all;          /* owned; in order of the calls, the sent ones first */
	struct amqp_raw_channel channel;
	struct timer retry; /* set: no channel number was left */
	bool silent;
};

/* count: in no list any more. */
static void
answer(const struct amqp_counters *counters, struct count *count, int consumers)
{
	struct broker_count_done done = count->done;

	free(count->queue);
	free(count);
	if (!counters->silent)
		done.fn(done.ctx, done.id, consumers);
}

static void
send_waiting(struct amqp_counters *counters)
{
	struct count *count;

	if (amqp_channels_link(counters->channels) == NULL || counters->silent)
		return;
	TAILQ_FOREACH (count, &counters->all, entry) {
		amqp_queue_declare_t declare = {
		    .queue = amqp_cstring_bytes(count->queue), .passive = 1};

		if (count->sent)
			continue;
		if (counters->channel.number == 0 &&
		    !amqp_raw_channel_open(&counters->channel, 0)) {
			timers_set(counters->timers, &counters->retry,
			    clock_now(timers_clock(counters->timers)) + NO_CHANNEL);
			return;
		}
		count->sent = true;
		amqp_raw_channel_send(&counters->channel, AMQP_QUEUE_DECLARE_METHOD, &declare);
	}
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
	struct count *count = TAILQ_FIRST(&counters->all);
	const amqp_queue_declare_ok_t *ok = frame->fields;

	if (frame->method != AMQP_QUEUE_DECLARE_OK_METHOD || count == NULL || !count->sent)
		return false;
	TAILQ_REMOVE(&counters->all, count, entry);
	answer(counters, count, ok->consumer_count > INT_MAX ? INT_MAX : (int)ok->consumer_count);
	return true;
}

/* The broker refused the first request, and did not read those behind it. */
static void
on_closed(void *ctx, int code, const char *text)
{
	struct amqp_counters *counters = ctx;
	struct count *first = TAILQ_FIRST(&counters->all), *count;

	(void)text;
	if (first != NULL && !first->sent)
		first = NULL; /* another cause: no request was on the channel */
	TAILQ_FOREACH (count, &counters->all, entry)
		count->sent = false;
	if (first != NULL)
		TAILQ_REMOVE(&counters->all, first, entry);
	send_waiting(counters);
	if (first != NULL)
		answer(counters, first, code == AMQP_NOT_FOUND ? 0 : -1);
}

/* ---- outside ---- */

void
amqp_counters_ask(struct amqp_counters *counters, const char *queue, struct broker_count_done done)
{
	struct count *count = mem_alloc(sizeof(*count));

	assert(strlen(queue) <= UINT8_MAX);
	count->queue = mem_strdup(queue);
	count->done = done;
	TAILQ_INSERT_TAIL(&counters->all, count, entry);
	send_waiting(counters);
}

bool
amqp_counters_in_use(const struct amqp_counters *counters)
{
	return !TAILQ_EMPTY(&counters->all);
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
	TAILQ_CONCAT(&lost, &counters->all, entry);
	while ((count = TAILQ_FIRST(&lost)) != NULL) {
		TAILQ_REMOVE(&lost, count, entry);
		answer(counters, count, -1);
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
	TAILQ_INIT(&counters->all);
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
