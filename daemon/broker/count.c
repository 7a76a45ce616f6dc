#include "daemon/broker/count.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/auxiliary.h"
#include "daemon/broker/internal.h"
#include "daemon/broker/raw_channel.h"

/* The wait after no channel number was left. */
#define NO_CHANNEL (1 * NSEC_PER_SEC)
/* An answer that takes longer is overdue, and does not hold up others any more. */
#define OVERDUE (1 * NSEC_PER_SEC)
/* The maximum of overdue checks with a channel of their own. */
#define OVERDUE_MOST 3
/*
 * The maximum of unanswered requests on the shared channel. The limit is one after a refusal, and
 * doubles with each success, because requests behind a refusal are sent again.
 */
#define WINDOW_MOST 1024

struct count {
	TAILQ_ENTRY(count) entry;
	char *queue;                      /* owned */
	int64_t sent_at;                  /* clock time */
	struct broker_count_done counted; /* fn NULL: a check */
	struct amqp_check_done checked;
};
TAILQ_HEAD(count_list, count);

/* A channel and its unanswered requests. */
struct batch {
	struct amqp_counters *counters; /* borrowed */
	struct amqp_raw_channel channel;
	struct count_list sent; /* owned; in order */
	unsigned unanswered;
};

struct amqp_counters {
	struct broker *broker;     /* borrowed */
	struct count_list waiting; /* owned; in order of the calls */
	/* The first one is shared. Each other one has one check, which was overdue. */
	struct batch batches[1 + OVERDUE_MOST];
	unsigned window;
	struct timer retry;   /* set: no channel number was left */
	struct timer overdue; /* set while the shared channel has requests */
};

/* count: in no list any more. */
static void
count_answer(const struct amqp_counters *counters, struct count *count, enum broker_answer what,
    int messages, int consumers)
{
	struct broker_count_done counted = count->counted;
	struct amqp_check_done checked = count->checked;

	free(count->queue);
	free(count);
	if (counters->broker->stopped)
		return;
	if (counted.fn == NULL)
		checked.fn(checked.ctx, checked.id, what, messages, consumers);
	else
		counted.fn(counted.ctx, counted.id,
		    what == BROKER_OK || what == BROKER_ABSENT ? consumers : -1);
}

static void
batch_take_out(struct batch *batch, struct count *count)
{
	TAILQ_REMOVE(&batch->sent, count, entry);
	batch->unanswered--;
}

/* False: no channel number is left. */
static bool
batch_send(struct batch *batch, struct count *count)
{
	amqp_queue_declare_t declare = {.queue = amqp_cstring_bytes(count->queue), .passive = 1};

	if (batch->channel.number == 0 && !amqp_raw_channel_open(&batch->channel, 0))
		return false;
	count->sent_at = broker_now(batch->counters->broker);
	TAILQ_REMOVE(&batch->counters->waiting, count, entry);
	TAILQ_INSERT_TAIL(&batch->sent, count, entry);
	batch->unanswered++;
	amqp_raw_channel_send(&batch->channel, AMQP_QUEUE_DECLARE_METHOD, &declare);
	return true;
}

/* Its requests wait again, in front of the others. */
static void
batch_take_back(struct batch *batch)
{
	struct amqp_counters *counters = batch->counters;

	TAILQ_CONCAT(&batch->sent, &counters->waiting, entry);
	TAILQ_CONCAT(&counters->waiting, &batch->sent, entry);
	batch->unanswered = 0;
}

static void
counters_send_waiting(struct amqp_counters *counters)
{
	struct batch *shared = &counters->batches[0];
	const struct count *first;
	struct count *count;

	if (amqp_channels_link(counters->broker->channels) == NULL || counters->broker->stopped)
		return;
	while ((count = TAILQ_FIRST(&counters->waiting)) != NULL &&
	       shared->unanswered < counters->window) {
		if (!batch_send(shared, count)) {
			timers_set(counters->broker->timers, &counters->retry,
			    broker_now(counters->broker) + NO_CHANNEL);
			return;
		}
	}
	first = TAILQ_FIRST(&shared->sent);
	if (first != NULL && !timer_is_set(&counters->overdue))
		timers_set(counters->broker->timers, &counters->overdue, first->sent_at + OVERDUE);
}

static void
counters_on_retry(void *ctx, uint64_t id)
{
	(void)id;
	counters_send_waiting(ctx);
}

/* NULL: each has a request. */
static struct batch *
counters_find_free(struct amqp_counters *counters)
{
	for (int i = 1; i <= OVERDUE_MOST; i++) {
		if (TAILQ_EMPTY(&counters->batches[i].sent))
			return &counters->batches[i];
	}
	return NULL;
}

static void
counters_answer_unknown(struct amqp_counters *counters, struct count_list *list)
{
	struct count *count;

	while ((count = TAILQ_FIRST(list)) != NULL) {
		TAILQ_REMOVE(list, count, entry);
		count_answer(counters, count, BROKER_UNKNOWN, 0, 0);
	}
}

/* Also the counts of the same queue that wait: each would hold up the others for as long. */
static void
counters_give_up(struct amqp_counters *counters, const struct count *overdue)
{
	struct count_list lost = TAILQ_HEAD_INITIALIZER(lost);
	struct count *count, *next;

	TAILQ_FOREACH_SAFE (count, &counters->waiting, entry, next) {
		if (count->counted.fn == NULL || strcmp(count->queue, overdue->queue) != 0)
			continue;
		TAILQ_REMOVE(&counters->waiting, count, entry);
		TAILQ_INSERT_TAIL(&lost, count, entry);
	}
	counters_send_waiting(counters);
	counters_answer_unknown(counters, &lost);
}

/*
 * The node of a queue may be silent. A count is given up. A check has a deadline of its caller, and
 * goes on alone until then.
 */
static void
counters_on_overdue(void *ctx, uint64_t id)
{
	struct amqp_counters *counters = ctx;
	struct batch *shared = &counters->batches[0], *alone = counters_find_free(counters);
	struct count *first = TAILQ_FIRST(&shared->sent);

	(void)id;
	if (first == NULL || broker_now(counters->broker) - first->sent_at < OVERDUE) {
		counters_send_waiting(counters);
	} else if (first->counted.fn != NULL) {
		amqp_raw_channel_close(&shared->channel);
		batch_take_back(shared);
		counters_give_up(counters, first);
	} else if (alone == NULL) {
		timers_set(counters->broker->timers, &counters->overdue,
		    broker_now(counters->broker) + OVERDUE);
	} else {
		amqp_raw_channel_close(&shared->channel);
		batch_take_back(shared);
		(void)batch_send(alone, first); /* else it waits on */
		counters_send_waiting(counters);
	}
}

/* ---- frames ---- */

static int
count_number(uint32_t count)
{
	return count > INT_MAX ? INT_MAX : (int)count;
}

static bool
batch_on_method(void *ctx, const struct amqp_frame *frame)
{
	struct batch *batch = ctx;
	struct amqp_counters *counters = batch->counters;
	struct count *count = TAILQ_FIRST(&batch->sent);
	const amqp_queue_declare_ok_t *ok = frame->fields;

	if (frame->method != AMQP_QUEUE_DECLARE_OK_METHOD || count == NULL)
		return false;
	batch_take_out(batch, count);
	if (counters->window < WINDOW_MOST)
		counters->window *= 2;
	counters_send_waiting(counters);
	count_answer(counters, count, BROKER_OK, count_number(ok->message_count),
	    count_number(ok->consumer_count));
	return true;
}

/* The broker refused the first request, and did not read those behind it. */
static void
batch_on_closed(void *ctx, int code, const char *text)
{
	struct batch *batch = ctx;
	struct amqp_counters *counters = batch->counters;
	/* NULL: another cause, as no request was on the channel. */
	struct count *first = TAILQ_FIRST(&batch->sent);
	enum broker_answer what = batch->channel.blames
				      ? amqp_request_refusal(&amqp_request_check, code, text)
				      : BROKER_UNKNOWN;

	if (first != NULL)
		batch_take_out(batch, first);
	batch_take_back(batch);
	counters->window = 1;
	counters_send_waiting(counters);
	if (first != NULL)
		count_answer(counters, first, what, 0, 0);
}

/* ---- outside ---- */

static void
counters_ask(struct amqp_counters *counters, const char *queue, struct broker_count_done counted,
    struct amqp_check_done checked)
{
	struct count *count = mem_alloc(sizeof(*count));

	assert(strlen(queue) <= UINT8_MAX);
	count->queue = mem_strdup(queue);
	count->counted = counted;
	count->checked = checked;
	TAILQ_INSERT_TAIL(&counters->waiting, count, entry);
	counters_send_waiting(counters);
}

void
broker_wait_queue_count(struct broker *broker, const char *queue, struct broker_count_done done)
{
	if (broker->stopped)
		return;
	counters_ask(broker->counters, queue, done, (struct amqp_check_done){0});
	amqp_auxiliary_need(broker);
}

void
amqp_counters_check(struct amqp_counters *counters, const char *queue, struct amqp_check_done done)
{
	counters_ask(counters, queue, (struct broker_count_done){0}, done);
}

static bool
count_is_check_of(const struct count *count, const void *ctx)
{
	return count->counted.fn == NULL && count->checked.ctx == ctx;
}

static bool
batch_has_check_of(const struct batch *batch, const void *ctx)
{
	const struct count *count;

	TAILQ_FOREACH (count, &batch->sent, entry) {
		if (count_is_check_of(count, ctx))
			return true;
	}
	return false;
}

size_t
amqp_counters_forget(struct amqp_counters *counters, const void *ctx)
{
	struct count *count, *next;
	size_t forgotten = 0;

	for (struct batch *batch = counters->batches; batch <= &counters->batches[OVERDUE_MOST];
	     batch++) {
		if (!batch_has_check_of(batch, ctx))
			continue;
		amqp_raw_channel_close(&batch->channel);
		batch_take_back(batch);
	}
	TAILQ_FOREACH_SAFE (count, &counters->waiting, entry, next) {
		if (!count_is_check_of(count, ctx))
			continue;
		TAILQ_REMOVE(&counters->waiting, count, entry);
		free(count->queue);
		free(count);
		forgotten++;
	}
	counters_send_waiting(counters);
	return forgotten;
}

bool
amqp_counters_in_use(const struct amqp_counters *counters)
{
	for (int i = 0; i <= OVERDUE_MOST; i++) {
		if (!TAILQ_EMPTY(&counters->batches[i].sent))
			return true;
	}
	return !TAILQ_EMPTY(&counters->waiting);
}

void
amqp_counters_go(struct amqp_counters *counters)
{
	counters_send_waiting(counters);
}

void
amqp_counters_fail(struct amqp_counters *counters)
{
	struct count_list lost = TAILQ_HEAD_INITIALIZER(lost);

	for (int i = OVERDUE_MOST; i >= 0; i--) {
		amqp_raw_channel_forget(&counters->batches[i].channel);
		batch_take_back(&counters->batches[i]);
	}
	timers_cancel(counters->broker->timers, &counters->retry);
	timers_cancel(counters->broker->timers, &counters->overdue);
	counters->window = WINDOW_MOST;
	TAILQ_CONCAT(&lost, &counters->waiting, entry);
	counters_answer_unknown(counters, &lost);
}

/* ---- life ---- */

struct amqp_counters *
amqp_counters_new(struct broker *broker)
{
	static const struct amqp_raw_channel_events events = {
	    .method = batch_on_method, .closed = batch_on_closed};
	struct amqp_counters *counters = mem_alloc(sizeof(*counters));

	counters->broker = broker;
	counters->window = WINDOW_MOST;
	for (int i = 0; i <= OVERDUE_MOST; i++) {
		struct batch *batch = &counters->batches[i];

		batch->counters = counters;
		amqp_raw_channel_init(&batch->channel, broker->channels, &events, batch);
		TAILQ_INIT(&batch->sent);
	}
	TAILQ_INIT(&counters->waiting);
	timer_init(&counters->retry, counters_on_retry, counters, 0);
	timer_init(&counters->overdue, counters_on_overdue, counters, 0);
	return counters;
}

void
amqp_counters_free(struct amqp_counters *counters)
{
	amqp_counters_fail(counters);
	free(counters);
}
