#include "daemon/broker/ask.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/beads.h"
#include "daemon/broker/channel.h"
#include "daemon/broker/internal.h"
#include "daemon/broker/reconnector.h"

/*
 * Contents:
 *	Counts: amqp_counters_send_waiting() sends passive declares on one shared channel, in a window.
 *	   counters_on_overdue() gives a check that takes too long a channel of its own, and gives a count up.
 *	Counts, frames: batch_on_method() and batch_on_closed() answer. Requests behind a refusal are sent
 *	   again.
 *	Counts, outside: broker_wait_queue_count() and amqp_counters_check().
 *	Counts, life: with the broker.
 *	Probes: probe_asks_again() doubts an absence, and place_settle() takes the answer to one question.
 *	Probes, checks: place_on_checked() says what a passive declare means for a holder queue.
 *	Probes, sending: amqp_probes_send_waiting() publishes one message for each question, in a window.
 *	Probes, confirms: probes_take_confirm() takes acks and nacks, and probes_on_message() takes returns.
 *	Probes, giving up: probe_on_deadline() answers without the missing confirms.
 *	Probes, outside: broker_probe().
 */

/* ---- counts ---- */

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

void
amqp_counters_send_waiting(struct amqp_counters *counters)
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
	amqp_counters_send_waiting(ctx);
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
	amqp_counters_send_waiting(counters);
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
		amqp_counters_send_waiting(counters);
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
		amqp_counters_send_waiting(counters);
	}
}

/* ---- counts, frames ---- */

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
	amqp_counters_send_waiting(counters);
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
	amqp_counters_send_waiting(counters);
	if (first != NULL)
		count_answer(counters, first, what, 0, 0);
}

/* ---- counts, outside ---- */

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
	amqp_counters_send_waiting(counters);
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

/*
 * Ends the checks with that ctx, without callbacks, and returns their number. One that is unanswered
 * may have stopped the channel for long, so that the channel is replaced.
 */
static size_t
counters_forget(struct amqp_counters *counters, const void *ctx)
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
	amqp_counters_send_waiting(counters);
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

/* ---- counts, life ---- */

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

/* ---- probes ---- */

/*
 * The maximum of probes that were answered at their deadline and wait for confirms. If there are
 * more, the channel is replaced: a queue without its majority never confirms.
 */
#define GIVEN_UP_MAX 16
/*
 * The maximum of unanswered questions; later probes wait. With the longest names this is a third of
 * the output at which a link to a broker that does not read is given up.
 */
#define UNANSWERED_MAX 16384

/* One question of a probe. */
struct place {
	char *queue; /* owned */
	enum broker_question_kind kind;
	uint64_t tag;              /* of its message: the key, once it is sent */
	struct queue_probe *probe; /* borrowed */
	bool returned;
	UT_hash_handle hh;
};

TAILQ_HEAD(queue_probes, queue_probe);

struct queue_probe {
	TAILQ_ENTRY(queue_probe) entry;
	struct amqp_probes *probes; /* borrowed */
	struct broker_probe_done done;
	size_t count, left;          /* left: unanswered questions */
	int64_t sent_at;             /* clock time */
	struct queue_probes *list;   /* the list that it is in */
	bool publishes;              /* it has other questions than those about consumers */
	bool is_sure;                /* BROKER_ABSENT is true: no queue is hidden */
	bool counted;                /* the round trip of its first questions is over */
	bool given_up;               /* answered at its deadline; its confirms are missing */
	struct place *places;        /* owned */
	enum broker_answer *answers; /* owned */
	enum broker_way *ways;       /* owned */
	struct timer deadline;
};
struct amqp_probes {
	struct broker *broker;                       /* borrowed */
	struct queue_probes hopeless, waiting, sent; /* owned; those in `hopeless` are never sent */
	struct place *open; /* the probes'; unconfirmed messages, by tag and in the order of tags */
	unsigned given_up;
	size_t unanswered; /* unanswered questions, without those of given up probes */
	uint64_t last_tag; /* of the channel */
	struct amqp_raw_channel channel;
	char *refused; /* owned; the broker's words on this link; NULL = no refusal */
};

/* Whether it is asked by a passive declare, and not by a message. */
static bool
question_is_by_check(enum broker_question_kind kind)
{
	return kind == BROKER_ASK_CONSUMER || kind == BROKER_ASK_BEADS;
}

static bool
place_is_of_holder(const struct place *place)
{
	return place->kind == BROKER_ASK_HOLDER || place->kind == BROKER_ASK_CONSUMER;
}

static void
probe_enlist(struct queue_probe *probe, struct queue_probes *list)
{
	if (probe->list != NULL)
		TAILQ_REMOVE(probe->list, probe, entry);
	probe->list = list;
	TAILQ_INSERT_TAIL(list, probe, entry);
}

/* probe: in no list any more, and without open messages and checks. */
static void
probe_free(struct queue_probe *probe)
{
	struct amqp_probes *probes = probe->probes;

	timers_cancel(probes->broker->timers, &probe->deadline);
	if (probe->given_up)
		probes->given_up--;
	for (size_t i = 0; i < probe->count; i++)
		free(probe->places[i].queue);
	free(probe->places);
	free(probe->answers);
	free(probe->ways);
	free(probe);
}

/*
 * Questions without an answer keep their first one, BROKER_UNKNOWN. So do queues that look absent
 * if the probe ends before they are asked for again.
 */
static void
probe_answer(struct queue_probe *probe)
{
	for (size_t i = 0; i < probe->count && !probe->is_sure; i++) {
		if (probe->answers[i] == BROKER_ABSENT && !place_is_of_holder(&probe->places[i]))
			probe->answers[i] = BROKER_UNKNOWN;
	}
	if (!probe->probes->broker->stopped && !probe->given_up)
		probe->done.fn(probe->done.ctx, probe->done.id,
		    &(struct broker_seen){probe->answers, probe->ways, probe->count});
}

/* Answers and frees the probes of a list. Probes that the callbacks begin are in other lists. */
static void
probes_answer(struct queue_probes *list)
{
	struct queue_probe *probe;

	while ((probe = TAILQ_FIRST(list)) != NULL) {
		TAILQ_REMOVE(list, probe, entry);
		probe_answer(probe);
		probe_free(probe);
	}
}

static void place_check(struct place *place);

static bool
probe_has_marker(const struct queue_probe *probe)
{
	for (size_t i = 0; i < probe->count; i++) {
		if (probe->places[i].kind == BROKER_ASK_MARKER && probe->answers[i] == BROKER_OK)
			return true;
	}
	return false;
}

/* The place of the first A that looks absent; behind the last one: there is none. */
static size_t
probe_first_absent(const struct queue_probe *probe)
{
	size_t i = 0;

	while (i < probe->count &&
	       (probe->places[i].kind != BROKER_ASK_SLOT || probe->answers[i] != BROKER_ABSENT))
		i++;
	return i;
}

/*
 * Asks for the first A that looks absent again, and for the markers. The first answers do not count
 * any more: the second ones can be missing. False: there is no need.
 */
static bool
probe_asks_again(struct queue_probe *probe)
{
	size_t first;
	const struct amqp_link *link = amqp_channels_link(probe->probes->broker->channels);

	if (probe->is_sure || probe->given_up || link == NULL)
		return false;
	probe->is_sure = true;
	first = probe_first_absent(probe);
	if (first == probe->count || probe_has_marker(probe))
		return false;
	for (size_t i = 0; i < probe->count; i++) {
		if (i != first && (probe->places[i].kind != BROKER_ASK_MARKER ||
				      probe->answers[i] != BROKER_ABSENT))
			continue;
		probe->answers[i] = BROKER_UNKNOWN;
		probe->left++;
		probe->probes->unanswered++;
		place_check(&probe->places[i]);
	}
	return true;
}

/* A probe whose questions are all answered moves to `ready`. */
static void
place_settle(
    struct place *place, enum broker_answer answer, enum broker_way way, struct queue_probes *ready)
{
	struct queue_probe *probe = place->probe;

	probe->answers[place - probe->places] = answer;
	probe->ways[place - probe->places] = way;
	if (!probe->given_up)
		probe->probes->unanswered--;
	if (--probe->left > 0)
		return;
	if (answer != BROKER_UNKNOWN && !probe->counted && !probe->given_up)
		amqp_channels_answered(probe->probes->broker->channels, probe->sent_at);
	probe->counted = true;
	if (!probe_asks_again(probe))
		probe_enlist(probe, ready);
}

/* ---- probes, checks ---- */

/* The B of a slot by quorum. While it is free, all its messages are ready. */
static enum broker_answer
place_beads_answer(enum broker_answer answer, int messages, int consumers)
{
	switch (answer) {
	case BROKER_OK:
		return messages >= BEADS ? BROKER_OK
		       : consumers == 0  ? BROKER_UNREACHABLE
					 : BROKER_LOCKED;
	case BROKER_ABSENT:
	case BROKER_UNREACHABLE:
		return answer;
	case BROKER_LOCKED:
	case BROKER_REFUSED:
	case BROKER_SKIPPED:
	case BROKER_UNKNOWN:
		return BROKER_UNKNOWN;
	}
	abort();
}

static void
place_on_checked(void *ctx, uint64_t id, enum broker_answer answer, int messages, int consumers)
{
	struct queue_probes ready = TAILQ_HEAD_INITIALIZER(ready);
	struct queue_probe *probe = ctx;
	struct amqp_probes *probes = probe->probes;
	struct place *place = &probe->places[id];

	if (place->kind == BROKER_ASK_BEADS) {
		place_settle(place, place_beads_answer(answer, messages, consumers),
		    BROKER_BY_QUORUM, &ready);
		probes_answer(&ready);
		amqp_probes_send_waiting(probes);
		return;
	}
	switch (answer) {
	case BROKER_OK:
		place_settle(place,
		    consumers > 0 || !place_is_of_holder(place) ? BROKER_OK : BROKER_ABSENT,
		    BROKER_BY_CONSUMER, &ready);
		break;
	case BROKER_LOCKED:
		place_settle(place, BROKER_OK, BROKER_BY_QUEUE, &ready);
		break;
	case BROKER_UNREACHABLE: /* only a durable queue is */
		place_settle(place, BROKER_UNREACHABLE, BROKER_BY_CONSUMER, &ready);
		break;
	case BROKER_ABSENT:
		place_settle(place, BROKER_ABSENT, BROKER_BY_QUEUE, &ready);
		break;
	case BROKER_REFUSED:
	case BROKER_SKIPPED:
	case BROKER_UNKNOWN:
		place_settle(place, BROKER_UNKNOWN, BROKER_BY_QUEUE, &ready);
		break;
	}
	probes_answer(&ready);
	amqp_probes_send_waiting(probes);
}

static void
place_check(struct place *place)
{
	struct queue_probe *probe = place->probe;

	amqp_counters_check(probe->probes->broker->counters, place->queue,
	    (struct amqp_check_done){place_on_checked, probe, (uint64_t)(place - probe->places)});
}

/* ---- probes, sending ---- */

static bool
probes_open_channel(struct amqp_probes *probes)
{
	amqp_confirm_select_t select = {0};

	if (probes->channel.number != 0)
		return true;
	if (!amqp_raw_channel_open(&probes->channel, 0))
		return false;
	probes->last_tag = 0;
	FAULT(CONFIRMS_OFF_BY_ONE, probes->last_tag = 1);
	amqp_raw_channel_send(&probes->channel, AMQP_CONFIRM_SELECT_METHOD, &select);
	return true;
}

/*
 * Publishes one message: transient and empty, and dropped at once if there is a queue (expiration
 * 0). basic.return has no tag, so the message contains it: two probes may ask about the same queue.
 */
static void
probes_publish(struct amqp_probes *probes, const char *queue)
{
	char tag[BROKER_NUMBER_TEXT];
	amqp_basic_publish_t fields = {
	    .routing_key = amqp_cstring_bytes(queue),
	    .mandatory = 1,
	};
	amqp_basic_properties_t properties = {
	    ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_EXPIRATION_FLAG |
		      AMQP_BASIC_CORRELATION_ID_FLAG,
	    .delivery_mode = AMQP_DELIVERY_NONPERSISTENT,
	    .expiration = amqp_cstring_bytes("0"),
	};

	properties.correlation_id = amqp_cstring_bytes(broker_number_text(tag, ++probes->last_tag));
	amqp_raw_channel_publish(&probes->channel, &fields, &properties, amqp_empty_bytes);
}

static void
probe_send(struct amqp_probes *probes, struct queue_probe *probe)
{
	for (size_t i = 0; i < probe->count; i++) {
		struct place *place = &probe->places[i];

		if (question_is_by_check(place->kind)) {
			place_check(place);
			continue;
		}
		probes_publish(probes, place->queue);
		place->tag = probes->last_tag;
		HASH_ADD(hh, probes->open, tag, sizeof(place->tag), place);
	}
	probe->is_sure = !amqp_channels_link(probes->broker->channels)->server.hides_queues;
	probe->sent_at = broker_now(probes->broker);
	probes->unanswered += probe->count;
	probe_enlist(probe, &probes->sent);
}

/* In the order of the calls. A probe that cannot be sent waits, at most until its deadline. */
void
amqp_probes_send_waiting(struct amqp_probes *probes)
{
	struct queue_probe *probe;

	while ((probe = TAILQ_FIRST(&probes->waiting)) != NULL &&
	       probes->unanswered + probe->count <= UNANSWERED_MAX &&
	       (!probe->publishes || probes_open_channel(probes)))
		probe_send(probes, probe);
}

/* ---- probes, confirms ---- */

/* NULL: already confirmed. */
static struct place *
probes_find_tag(const struct amqp_probes *probes, uint64_t tag)
{
	struct place *place;

	HASH_FIND(hh, probes->open, &tag, sizeof(tag), place);
	return place;
}

static void
place_confirm(
    struct amqp_probes *probes, struct place *place, bool acked, struct queue_probes *ready)
{
	HASH_DEL(probes->open, place);
	if (acked)
		place_settle(
		    place, place->returned ? BROKER_ABSENT : BROKER_OK, BROKER_BY_QUEUE, ready);
	else if (place->kind == BROKER_ASK_HOLDER && !place->probe->given_up)
		place_check(place);
	else
		place_settle(place, BROKER_UNKNOWN, BROKER_BY_QUEUE, ready);
}

/* False: a confirm of a message that was never sent. */
static bool
probes_take_confirm(struct amqp_probes *probes, uint64_t tag, bool multiple, bool acked)
{
	struct queue_probes ready = TAILQ_HEAD_INITIALIZER(ready);
	struct place *place;

	FAULT(MULTIPLE_IS_SINGLE, multiple = false);
	FAULT(NACK_IS_ACK, acked = true);
	if (tag > probes->last_tag || (tag == 0 && !multiple))
		return false;
	if (!multiple && (place = probes_find_tag(probes, tag)) != NULL)
		place_confirm(probes, place, acked, &ready);
	/* Tag 0 means all. */
	while (multiple && (place = probes->open) != NULL && (tag == 0 || place->tag <= tag))
		place_confirm(probes, place, acked, &ready);
	probes_answer(&ready);
	amqp_probes_send_waiting(probes);
	return true;
}

/* A returned message, which contains its tag. */
static bool
probes_on_message(void *ctx)
{
	struct amqp_probes *probes = ctx;
	uint64_t tag = broker_number(probes->channel.content.correlation_id);
	struct place *place;

	if (tag == 0 || tag > probes->last_tag)
		return false;
	FAULT(RETURN_OF_ANOTHER, tag = probes->last_tag);
	place = probes_find_tag(probes, tag);
	if (place != NULL)
		place->returned = true;
	return true;
}

static bool
probes_on_method(void *ctx, const struct amqp_frame *frame)
{
	struct amqp_probes *probes = ctx;

	switch (frame->method) {
	case AMQP_CONFIRM_SELECT_OK_METHOD:
		return true;
	case AMQP_BASIC_RETURN_METHOD:
		return amqp_raw_channel_announce(&probes->channel, 0);
	case AMQP_BASIC_ACK_METHOD: {
		const amqp_basic_ack_t *ack = frame->fields;

		return probes_take_confirm(probes, ack->delivery_tag, ack->multiple, true);
	}
	case AMQP_BASIC_NACK_METHOD: {
		const amqp_basic_nack_t *nack = frame->fields;

		return probes_take_confirm(probes, nack->delivery_tag, nack->multiple, false);
	}
	default:
		return false;
	}
}

/* ---- probes, giving up ---- */

/* The channel is gone: its messages will not be confirmed. */
static void
probes_channel_lost(struct amqp_probes *probes)
{
	struct queue_probes ready = TAILQ_HEAD_INITIALIZER(ready);
	struct place *place, *next;

	HASH_ITER (hh, probes->open, place, next) {
		HASH_DEL(probes->open, place);
		place_settle(place, BROKER_UNKNOWN, BROKER_BY_QUEUE, &ready);
	}
	probes_answer(&ready);
}

static void
probes_on_closed(void *ctx, int code, const char *text)
{
	struct amqp_probes *probes = ctx;

	if (probes->channel.blames && probes->refused == NULL) {
		log_warning("the broker refused a probe: %s (%d)", text, code);
		probes->refused = mem_strdup(text);
	}
	probes_channel_lost(probes);
	amqp_probes_send_waiting(probes);
}

static void
probe_on_deadline(void *ctx, uint64_t id)
{
	struct queue_probe *probe = ctx;
	struct amqp_probes *probes = probe->probes;

	(void)id;
	probe_answer(probe);
	if (probe->list != &probes->sent) {
		TAILQ_REMOVE(probe->list, probe, entry);
		probe_free(probe);
		return;
	}
	probe->given_up = true;
	probes->given_up++;
	probes->unanswered -= probe->left;
	probe->left -= counters_forget(probes->broker->counters, probe);
	if (probe->left == 0) {
		TAILQ_REMOVE(&probes->sent, probe, entry);
		probe_free(probe);
	} else if (probes->given_up > GIVEN_UP_MAX) {
		amqp_raw_channel_close(&probes->channel);
		probes_channel_lost(probes);
	}
	amqp_probes_send_waiting(probes);
}

/* ---- probes, outside ---- */

void
broker_probe(struct broker *broker, const struct broker_question *questions, size_t count,
    struct broker_probe_done done)
{
	struct amqp_probes *probes = broker->probes;
	struct queue_probe *probe = mem_alloc(sizeof(*probe));
	bool hopeless = broker->blocked; /* the broker does not read a publish */

	assert(count > 0 && count <= BROKER_PROBE_MAX);
	FAULT(ALARM_UNHEEDED, hopeless = false);
	probe->probes = probes;
	probe->done = done;
	probe->count = probe->left = count;
	probe->places = mem_alloc(count * sizeof(*probe->places));
	probe->answers = mem_alloc(count * sizeof(*probe->answers));
	probe->ways = mem_alloc(count * sizeof(*probe->ways));
	for (size_t i = 0; i < count; i++) {
		assert(strlen(questions[i].queue) <= UINT8_MAX);
		probe->places[i].queue = mem_strdup(questions[i].queue);
		probe->places[i].kind = questions[i].kind;
		probe->publishes |= !question_is_by_check(questions[i].kind);
		probe->places[i].probe = probe;
		probe->answers[i] = BROKER_UNKNOWN;
	}
	timer_init(&probe->deadline, probe_on_deadline, probe, 0);
	timers_set(broker->timers, &probe->deadline,
	    broker_now(broker) + (hopeless ? 0 : broker->settings.probe_timeout));
	probe_enlist(probe, hopeless ? &probes->hopeless : &probes->waiting);
	if (amqp_channels_link(broker->channels) != NULL && !hopeless)
		amqp_probes_send_waiting(probes);
	amqp_auxiliary_need(broker);
}

bool
amqp_probes_in_use(const struct amqp_probes *probes)
{
	return !TAILQ_EMPTY(&probes->hopeless) || !TAILQ_EMPTY(&probes->waiting) ||
	       probes->unanswered > 0;
}

const char *
amqp_probes_refused(const struct amqp_probes *probes)
{
	return probes->refused != NULL ? probes->refused : "";
}

void
amqp_probes_fail(struct amqp_probes *probes)
{
	struct queue_probes lost = TAILQ_HEAD_INITIALIZER(lost);
	const struct queue_probe *probe;

	amqp_raw_channel_forget(&probes->channel);
	probes->unanswered = 0;
	TAILQ_FOREACH (probe, &probes->sent, entry)
		(void)counters_forget(probes->broker->counters, probe);
	HASH_CLEAR(hh, probes->open);
	free(probes->refused);
	probes->refused = NULL;
	TAILQ_CONCAT(&lost, &probes->sent, entry);
	TAILQ_CONCAT(&lost, &probes->waiting, entry);
	TAILQ_CONCAT(&lost, &probes->hopeless, entry);
	probes_answer(&lost);
}

struct amqp_probes *
amqp_probes_new(struct broker *broker)
{
	static const struct amqp_raw_channel_events events = {
	    .method = probes_on_method, .message = probes_on_message, .closed = probes_on_closed};
	struct amqp_probes *probes = mem_alloc(sizeof(*probes));

	probes->broker = broker;
	amqp_raw_channel_init(&probes->channel, broker->channels, &events, probes);
	TAILQ_INIT(&probes->hopeless);
	TAILQ_INIT(&probes->waiting);
	TAILQ_INIT(&probes->sent);
	return probes;
}

void
amqp_probes_free(struct amqp_probes *probes)
{
	amqp_probes_fail(probes);
	free(probes);
}
