#include "daemon/broker/channel.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/channel_internal.h"

/*
 * Contents:
 *	Numbers: those of one link. Low ones are used again and again.
 *	Channels: they open with their first request, and close.
 *	Requests: request_answer() ends each one. amqp_channels_request() queues and sends.
 *	Taking and putting back: amqp_channels_take() prefers an idle channel. amqp_channels_put() keeps some
 *	   open.
 *	Frames: channel_bury() is for a channel.close. amqp_channels_frame() gives each to its request or raw
 *	   channel.
 *	Links come and go: amqp_channels_attach() and amqp_channels_fail().
 *	Life: also the questions about numbers and limits.
 *	Restored channels: a hold or a raw channel goes on with one.
 *	Raw channels: their place among the channels.
 *	Raw channels, opening and closing: each is opened by its owner.
 *	Raw channels, sending: methods and messages.
 *	Raw channels, consumers: they have tags.
 */

static void
channel_set_state(struct channel *channel, enum channel_state state)
{
	assert(channel->state != CHANNEL_GONE);
	assert(state > channel->state);
	channel->state = state;
}

/* ---- numbers ---- */

static void
numbers_init(struct numbers *numbers, unsigned max)
{
	assert(max > 0 && max <= UINT16_MAX);
	*numbers = (struct numbers){
	    .max = max,
	    .user_of = mem_alloc((max + (size_t)1) * sizeof(*numbers->user_of)),
	    .free_again = mem_alloc(max * sizeof(*numbers->free_again)),
	};
}

static uint16_t
numbers_take(struct numbers *numbers, struct channel *channel)
{
	uint16_t number;

	assert(numbers->used < numbers->max);
	/* Channel 0 is the connection's own. */
	number = numbers->free_count > 0 ? numbers->free_again[--numbers->free_count]
					 : (uint16_t)++numbers->next;
	assert(numbers->user_of[number] == NULL);
	numbers->user_of[number] = channel;
	numbers->used++;
	return number;
}

static void
numbers_give_back(struct numbers *numbers, uint16_t number)
{
	assert(numbers->user_of[number] != NULL);
	numbers->user_of[number] = NULL;
	numbers->free_again[numbers->free_count++] = number;
	numbers->used--;
}

static struct channel *
numbers_user(const struct numbers *numbers, uint16_t number)
{
	return number <= numbers->max && numbers->max > 0 ? numbers->user_of[number] : NULL;
}

static bool
channels_have_number(const struct amqp_channels *channels)
{
	return channels->link != NULL && channels->numbers.used < amqp_channels_max(channels);
}

/* ---- channels ---- */

static struct channel *
channel_new(struct amqp_channels *channels)
{
	struct channel *channel = mem_alloc(sizeof(*channel));

	channel->state = CHANNEL_WAITING;
	TAILQ_INIT(&channel->requests);
	TAILQ_INSERT_TAIL(&channels->all, channel, in_all);
	if (channels_have_number(channels)) {
		channel->number = numbers_take(&channels->numbers, channel);
		channel_set_state(channel, CHANNEL_FRESH);
	}
	return channel;
}

/* Its requests are in no list any more. */
static void
channel_free(struct amqp_channels *channels, struct channel *channel)
{
	TAILQ_REMOVE(&channels->all, channel, in_all);
	free(channel);
}

struct channel *
amqp_channel_find(const struct amqp_channels *channels, uint64_t id)
{
	struct channel *channel;

	HASH_FIND(hh, channels->by_id, &id, sizeof(id), channel);
	return channel;
}

static void
channel_forget_id(struct amqp_channels *channels, struct channel *channel)
{
	HASH_DELETE(hh, channels->by_id, channel);
	channel->id = 0;
}

static void
channel_open(struct amqp_channels *channels, struct channel *channel)
{
	amqp_channel_open_t open = {0};

	channels->counts->channels_opened++;
	channel_set_state(channel, CHANNEL_OPENING);
	amqp_link_send(channels->link, channel->number, AMQP_CHANNEL_OPEN_METHOD, &open);
}

static void
channel_close(struct amqp_channels *channels, struct channel *channel)
{
	amqp_channel_close_t close = {
	    .reply_code = AMQP_REPLY_SUCCESS,
	    .reply_text = amqp_cstring_bytes("not needed"),
	};

	channel_set_state(channel, CHANNEL_CLOSING);
	channel->closing_at = broker_now(channels->broker);
	amqp_link_send(channels->link, channel->number, AMQP_CHANNEL_CLOSE_METHOD, &close);
	FAULT_IF(NUMBER_REUSED_EARLY, channel->raw == NULL,
		 numbers_give_back(&channels->numbers, channel->number);
		 channel_free(channels, channel));
}

/* ---- requests ---- */

static void
request_send(struct amqp_channels *channels, struct channel *channel,
    struct channel_request *request, const char *queue)
{
	if (channel->state == CHANNEL_FRESH)
		channel_open(channels, channel);
	/*
	 * RabbitMQ 3.10 crashes the channel, and the link with it, if the cancel comes first
	 * (consumers.c).
	 */
	assert(!amqp_request_has(request->kind, AMQP_BASIC_CANCEL_METHOD) ||
	       channel->consumer != CONSUMER_ASKED);
	if (amqp_request_has(request->kind, AMQP_BASIC_CONSUME_METHOD))
		channel->consumer = CONSUMER_ASKED;
	request->sent_at = broker_now(channels->broker);
	amqp_request_send(channels->link, channel->number, request->kind, queue);
}

/* The method whose answer the request awaits. 0: it is done. */
static amqp_method_number_t
request_awaits(const struct channel_request *request)
{
	return amqp_request_method(request->kind, request->methods_done);
}

void
amqp_channels_answered(struct amqp_channels *channels, int64_t sent_at)
{
	histogram_add(
	    &channels->round_trips, &histogram_round_trips, broker_now(channels->broker) - sent_at);
}

const struct histogram *
amqp_channels_round_trips(const struct amqp_channels *channels)
{
	return &channels->round_trips;
}

/* Answers and frees a request, which is in no list any more. */
static void
request_answer(struct amqp_channels *channels, struct channel_request *request,
    enum broker_answer answer, bool channel_open_still, int code, const char *text)
{
	const struct broker_reply reply = {
	    .answer = answer,
	    .channel_open = channel_open_still,
	    .sent_at = request->sent_at,
	    .code = code,
	    .text = text,
	};
	struct broker_done done = request->done;

	if (answer != BROKER_SKIPPED && answer != BROKER_UNKNOWN)
		amqp_channels_answered(channels, request->sent_at);
	free(request->queue);
	free(request);
	if (!channels->broker->stopped)
		done.fn(done.ctx, done.id, &reply);
}

static void
channels_on_orphans(void *ctx, uint64_t id)
{
	struct amqp_channels *channels = ctx;
	struct channel_requests orphans = TAILQ_HEAD_INITIALIZER(orphans);
	struct channel_request *request;

	(void)id;
	/* New requests of these callbacks wait for the next run. */
	TAILQ_CONCAT(&orphans, &channels->orphans, in_channel);
	while ((request = TAILQ_FIRST(&orphans)) != NULL) {
		TAILQ_REMOVE(&orphans, request, in_channel);
		request_answer(channels, request, request->answer, false, 0, "");
	}
}

void
amqp_channels_request(struct amqp_channels *channels, uint64_t id, const struct amqp_request *kind,
    const char *queue, struct broker_done done)
{
	struct channel *channel = amqp_channel_find(channels, id);
	struct channel_request *request = mem_alloc(sizeof(*request));

	assert(strlen(queue) <= UINT8_MAX);
	request->kind = kind;
	request->done = done;
	request->sent_at = broker_now(channels->broker);
	if (channel == NULL || channel->state == CHANNEL_GONE) {
		request->answer = id >> 1 <= channels->dead_serial && channel == NULL
				      ? BROKER_UNKNOWN
				      : BROKER_SKIPPED;
		TAILQ_INSERT_TAIL(&channels->orphans, request, in_channel);
		if (!timer_is_set(&channels->orphan_timer))
			timers_set(
			    channels->broker->timers, &channels->orphan_timer, request->sent_at);
		return;
	}
	TAILQ_INSERT_TAIL(&channel->requests, request, in_channel);
	TAILQ_INSERT_TAIL(&channels->in_order, request, in_order);
	if (channel->state == CHANNEL_WAITING)
		request->queue = mem_strdup(queue);
	else
		request_send(channels, channel, request, queue);
}

static void
request_remove(
    struct amqp_channels *channels, struct channel *channel, struct channel_request *request)
{
	TAILQ_REMOVE(&channel->requests, request, in_channel);
	TAILQ_REMOVE(&channels->in_order, request, in_order);
}

/* Gives numbers to waiting channels, in the order in which they were taken. */
static void
channels_go(struct amqp_channels *channels)
{
	struct channel *channel;
	struct channel_request *request;

	TAILQ_FOREACH (channel, &channels->all, in_all) {
		if (!channels_have_number(channels))
			return;
		if (channel->state != CHANNEL_WAITING)
			continue;
		channel->number = numbers_take(&channels->numbers, channel);
		channel_set_state(channel, CHANNEL_FRESH);
		TAILQ_FOREACH (request, &channel->requests, in_channel) {
			request_send(channels, channel, request, request->queue);
			/*
			 * in_order is the order of sending, which now differs from that of the
			 * calls.
			 */
			TAILQ_REMOVE(&channels->in_order, request, in_order);
			TAILQ_INSERT_TAIL(&channels->in_order, request, in_order);
		}
	}
}

/* ---- taking and putting back ---- */

static void
channels_idle_remove(struct amqp_channels *channels, struct channel *channel)
{
	TAILQ_REMOVE(&channels->idle, channel, in_idle);
	channels->idle_count--;
}

/* NULL: none is idle. */
static struct channel *
channels_idle_take(struct amqp_channels *channels)
{
	struct channel *channel = TAILQ_FIRST(&channels->idle);

	if (channel != NULL)
		channels_idle_remove(channels, channel);
	return channel;
}

/* Whether another channel waits for the number of one that is not needed any more. */
static bool
channels_await_number(const struct amqp_channels *channels)
{
	const struct channel *channel;

	if (channels_have_number(channels))
		return false;
	TAILQ_FOREACH (channel, &channels->all, in_all) {
		if (channel->state == CHANNEL_WAITING)
			return true;
	}
	return false;
}

uint64_t
amqp_channels_take(struct amqp_channels *channels)
{
	struct channel *channel = channels_idle_take(channels);

	if (channel == NULL) {
		if (channels->which == BROKER_LOCKS && !channels_have_number(channels))
			return 0;
		channel = channel_new(channels);
	}
	/* The lowest bit is the connection, so that ids of the two differ. */
	channel->id = ++channels->serial << 1 | (channels->which == BROKER_AUXILIARY);
	HASH_ADD(hh, channels->by_id, id, sizeof(channel->id), channel);
	return channel->id;
}

void
amqp_channels_put(struct amqp_channels *channels, uint64_t id)
{
	struct channel *channel = amqp_channel_find(channels, id);

	if (channel == NULL)
		return;
	if (channel->state == CHANNEL_GONE) {
		channel->put = true;
		return;
	}
	assert(TAILQ_EMPTY(&channel->requests) && channel->consumer != CONSUMER_ON);
	channel_forget_id(channels, channel);
	switch (channel->state) {
	case CHANNEL_WAITING:
		channel_free(channels, channel);
		break;
	case CHANNEL_FRESH:
		numbers_give_back(&channels->numbers, channel->number);
		channel_free(channels, channel);
		channels_go(channels);
		break;
	case CHANNEL_OPENING:
	case CHANNEL_OPEN:
		if (channels->idle_count == AMQP_CHANNELS_IDLE || channels_await_number(channels)) {
			channel_close(channels, channel);
			break;
		}
		TAILQ_INSERT_HEAD(&channels->idle, channel, in_idle);
		channels->idle_count++;
		break;
	case CHANNEL_CLOSING:
	case CHANNEL_GONE:
		abort(); /* neither has an id */
	}
}

int64_t
amqp_channels_closing_since(const struct amqp_channels *channels)
{
	const struct channel *channel;
	int64_t since = 0;

	TAILQ_FOREACH (channel, &channels->all, in_all)
		if (channel->state == CHANNEL_CLOSING &&
		    (since == 0 || channel->closing_at < since))
			since = channel->closing_at;
	return since;
}

/* ---- frames ---- */

/* The request that a channel.close refuses. Only consume-ok can be overtaken. NULL: none. */
static struct channel_request *
channel_find_refused(const struct channel *channel, const amqp_channel_close_t *close)
{
	struct channel_request *request;

	TAILQ_FOREACH (request, &channel->requests, in_channel) {
		amqp_method_number_t awaited = request_awaits(request);

		if (awaited != 0 && amqp_request_is_refused_by(awaited, close))
			return request;
		if (awaited != 0 && awaited != AMQP_BASIC_CONSUME_METHOD)
			return NULL;
	}
	return NULL;
}

static void
channels_tell_closed(const struct amqp_channels *channels, uint64_t id, int code, const char *text)
{
	const struct broker_events *events = &channels->broker->events;

	if (events->channel_closed != NULL)
		events->channel_closed(events->ctx, id, code, text);
}

/* Answers the requests of a channel that the broker closed, then reports it. */
static void
channel_bury(
    struct amqp_channels *channels, struct channel *channel, const amqp_channel_close_t *close)
{
	char *text = amqp_request_words(close);
	int code = close->reply_code;
	struct channel_request *request, *refused = channel_find_refused(channel, close);
	uint64_t id = channel->id;

	channel_set_state(channel, CHANNEL_GONE);
	while ((request = TAILQ_FIRST(&channel->requests)) != NULL) {
		enum broker_answer answer = BROKER_SKIPPED;

		FAULT(SKIPPED_IS_DONE, answer = BROKER_OK);
		request_remove(channels, channel, request);
		if (request == refused)
			request_answer(channels, request,
			    amqp_request_refusal(request->kind, code, text), false, code, text);
		else
			request_answer(channels, request, answer, false, 0, "");
	}
	channel_forget_id(channels, channel);
	if (!channel->put)
		channels_tell_closed(channels, id, code, text);
	free(text);
	channel_free(channels, channel);
}

/* The channel is gone, or about to be. raw NULL: nobody wants to know. */
static void
raw_channel_closed(struct amqp_raw_channel *raw, const amqp_channel_close_t *close)
{
	char *text;

	if (raw == NULL)
		return;
	text = amqp_request_words(close);
	raw->blames = amqp_request_is_blamed(close);
	amqp_raw_channel_forget(raw);
	raw->events.closed(raw->ctx, close->reply_code, text);
	free(text);
}

static void
channel_take_close(
    struct amqp_channels *channels, struct channel *channel, const amqp_channel_close_t *close)
{
	amqp_channel_close_ok_t close_ok = {0};
	struct amqp_raw_channel *raw = channel->raw;

	amqp_link_send(channels->link, channel->number, AMQP_CHANNEL_CLOSE_OK_METHOD, &close_ok);
	/* Both sides sent channel.close: the answer to ours is still to come. */
	if (channel->state == CHANNEL_CLOSING) {
		channel->raw = NULL;
		raw_channel_closed(raw, close);
		return;
	}
	channels->counts->channels_closed_by_broker++;
	numbers_give_back(&channels->numbers, channel->number);
	if (channel->id != 0) {
		channel_bury(channels, channel, close);
	} else if (raw != NULL) {
		channel_free(channels, channel);
		raw_channel_closed(raw, close);
	} else {
		channels_idle_remove(channels, channel);
		channel_free(channels, channel);
	}
	channels_go(channels);
}

static void
channel_take_close_ok(struct amqp_channels *channels, struct channel *channel)
{
	struct amqp_raw_channel *raw = channel->raw;

	numbers_give_back(&channels->numbers, channel->number);
	channel_free(channels, channel);
	raw_channel_closed(raw, &(amqp_channel_close_t){0});
	channels_go(channels);
}

/* The request that awaits this "-ok". Only consume-ok can be overtaken. NULL: none. */
static struct channel_request *
channel_find_awaiting(const struct channel *channel, amqp_method_number_t ok)
{
	struct channel_request *request;

	TAILQ_FOREACH (request, &channel->requests, in_channel) {
		amqp_method_number_t awaited = request_awaits(request);

		/* AMQP numbers each "-ok" one above its method. */
		if (awaited != 0 && ok == awaited + 1)
			return request;
		if (awaited != 0 && awaited != AMQP_BASIC_CONSUME_METHOD)
			return NULL;
	}
	return NULL;
}

/* Answers the requests that are done, up to the oldest that is not. */
static void
channel_answer_done(struct amqp_channels *channels, struct channel *channel)
{
	struct channel_requests done = TAILQ_HEAD_INITIALIZER(done);
	struct channel_request *request;

	while (
	    (request = TAILQ_FIRST(&channel->requests)) != NULL && request_awaits(request) == 0) {
		request_remove(channels, channel, request);
		TAILQ_INSERT_TAIL(&done, request, in_channel);
	}
	/* The callbacks may ask and put back. */
	while ((request = TAILQ_FIRST(&done)) != NULL) {
		TAILQ_REMOVE(&done, request, in_channel);
		request_answer(channels, request, request->answer, true, 0, "");
	}
}

/*
 * The "-ok" of a check says that B is another's. The channel is closed as the broker closes one, so
 * that such an answer has one form. A drop behind the check may be performed, and has its answer.
 */
static void
channel_give_up(
    struct amqp_channels *channels, struct channel *channel, struct channel_request *failed)
{
	struct channel_requests left = TAILQ_HEAD_INITIALIZER(left);
	enum broker_answer answer = failed->answer;
	int64_t sent_at = failed->sent_at;
	struct channel_request *request;
	uint64_t id = channel->id;

	while ((request = TAILQ_FIRST(&channel->requests)) != NULL) {
		request_remove(channels, channel, request);
		TAILQ_INSERT_TAIL(&left, request, in_channel);
	}
	channel_forget_id(channels, channel);
	channel_close(channels, channel);
	while ((request = TAILQ_FIRST(&left)) != NULL) {
		bool same =
		    request == failed || amqp_request_has(request->kind, AMQP_QUEUE_DELETE_METHOD);

		TAILQ_REMOVE(&left, request, in_channel);
		/* Only the failed request proves that the broker reads. */
		request->sent_at = sent_at;
		request_answer(channels, request, same ? answer : BROKER_SKIPPED, false, 0, "");
	}
	channels_tell_closed(channels, id, 0, "");
}

/* False: no request awaits this. */
static bool
channel_take_ok(
    struct amqp_channels *channels, struct channel *channel, const struct amqp_frame *frame)
{
	struct channel_request *request = channel_find_awaiting(channel, frame->method);

	if (request == NULL)
		return false;
	FAULT(LAST_IS_ANSWERED, request = TAILQ_LAST(&channel->requests, channel_requests);
	      request_remove(channels, channel, request);
	      request_answer(channels, request, BROKER_OK, true, 0, ""); return true;);
	request->methods_done++;
	if (request_awaits(request) != 0)
		return true;
	request->answer = amqp_request_success(request->kind, frame);
	if (request->answer == BROKER_LOCKED) {
		channel_give_up(channels, channel, request);
		return true;
	}
	if (amqp_request_has(request->kind, AMQP_BASIC_CONSUME_METHOD))
		channel->consumer = CONSUMER_ON;
	else if (amqp_request_has(request->kind, AMQP_BASIC_CANCEL_METHOD))
		channel->consumer = CONSUMER_ENDED;
	channel_answer_done(channels, channel);
	return true;
}

/* The broker's basic.cancel. False: the consumer was not placed yet. */
static bool
channel_take_cancel(struct amqp_channels *channels, struct channel *channel)
{
	const struct broker_events *events = &channels->broker->events;

	if (channel->consumer == CONSUMER_ASKED)
		return false;
	if (channel->consumer == CONSUMER_ON) {
		channel->consumer = CONSUMER_ENDED;
		if (events->cancelled != NULL)
			events->cancelled(events->ctx, channel->id);
	}
	return true;
}

/* A method, content header or body of a raw channel. False: it must not come. */
static bool
raw_channel_take(struct amqp_raw_channel *raw, const struct amqp_frame *frame)
{
	if (frame->type == AMQP_FRAME_METHOD)
		return raw->events.method(raw->ctx, frame);
	switch (amqp_content_take(&raw->content, frame)) {
	case AMQP_CONTENT_MORE:
		return true;
	case AMQP_CONTENT_WHOLE:
		return raw->events.message == NULL || raw->events.message(raw->ctx);
	case AMQP_CONTENT_BAD:
		return false;
	}
	abort();
}

static bool
channel_take_method(
    struct amqp_channels *channels, struct channel *channel, const struct amqp_frame *frame)
{
	if (frame->method == AMQP_CHANNEL_CLOSE_METHOD) {
		channel_take_close(channels, channel, frame->fields);
		return true;
	}
	if (channel->state == CHANNEL_CLOSING) {
		if (frame->method == AMQP_CHANNEL_CLOSE_OK_METHOD)
			channel_take_close_ok(channels, channel);
		return true; /* sent before the broker read our channel.close */
	}
	if (channel->state == CHANNEL_OPENING && frame->method == AMQP_CHANNEL_OPEN_OK_METHOD) {
		channel_set_state(channel, CHANNEL_OPEN);
		return true;
	}
	if (channel->state != CHANNEL_OPEN)
		return false;
	if (channel->raw != NULL)
		return raw_channel_take(channel->raw, frame);
	if (frame->method == AMQP_BASIC_CANCEL_METHOD)
		return channel_take_cancel(channels, channel);
	if (frame->method == AMQP_BASIC_DELIVER_METHOD)
		return channel->consumer != CONSUMER_NEVER;
	return channel_take_ok(channels, channel, frame);
}

/* A claim's consumer wants no messages: they are discarded. */
static bool
channel_take_content(struct channel *channel, const struct amqp_frame *frame)
{
	if (channel->state == CHANNEL_CLOSING)
		return true;
	return channel->raw != NULL ? raw_channel_take(channel->raw, frame)
				    : channel->consumer != CONSUMER_NEVER;
}

void
amqp_channels_frame(struct amqp_channels *channels, const struct amqp_frame *frame)
{
	struct channel *channel = numbers_user(&channels->numbers, frame->channel);

	if (channel == NULL || channel->state == CHANNEL_FRESH) {
		amqp_link_fail(channels->link, "the broker used channel %u, which is not open",
		    frame->channel);
	} else if (frame->type != AMQP_FRAME_METHOD) {
		if (!channel_take_content(channel, frame))
			amqp_link_fail(channels->link, "the broker sent content on channel %u",
			    frame->channel);
	} else if (!channel_take_method(channels, channel, frame)) {
		amqp_link_fail(channels->link, "the broker sent %s on channel %u without a request",
		    amqp_method_name(frame->method), frame->channel);
	}
}

/* ---- links come and go ---- */

void
amqp_channels_attach(struct amqp_channels *channels, struct amqp_link *link)
{
	assert(channels->link == NULL);
	channels->link = link;
	numbers_init(&channels->numbers, link->channel_max);
	channels_go(channels);
}

struct amqp_link *
amqp_channels_link(const struct amqp_channels *channels)
{
	return channels->link;
}

static void
channels_forget(struct amqp_channels *channels)
{
	struct channel *channel, *next;

	channels->link = NULL;
	HASH_CLEAR(hh, channels->by_id);
	TAILQ_FOREACH_SAFE (channel, &channels->all, in_all, next)
		channel_free(channels, channel);
	TAILQ_INIT(&channels->idle);
	channels->idle_count = 0;
	channels->dead_serial = channels->serial;
	free(channels->numbers.user_of);
	free(channels->numbers.free_again);
	channels->numbers = (struct numbers){0};
}

void
amqp_channels_fail(struct amqp_channels *channels)
{
	struct channel_requests lost = TAILQ_HEAD_INITIALIZER(lost);
	struct channel_request *request;

	TAILQ_CONCAT(&lost, &channels->in_order, in_order);
	channels_forget(channels);
	while ((request = TAILQ_FIRST(&lost)) != NULL) {
		TAILQ_REMOVE(&lost, request, in_order);
		FAULT(LOST_UNANSWERED, free(request->queue); free(request); continue);
		request_answer(channels, request, BROKER_UNKNOWN, false, 0, "");
	}
}

void
amqp_channels_learn_limit(struct amqp_channels *channels)
{
	struct channel *channel;
	/*
	 * Probes and administration need two channels. If that ends the auxiliary connection, no
	 * hold is lost.
	 */
	unsigned least = channels->which == BROKER_AUXILIARY ? 2 : 1, open = 0, opening = 0;

	TAILQ_FOREACH (channel, &channels->all, in_all) {
		open += channel->state == CHANNEL_OPEN || channel->state == CHANNEL_CLOSING;
		opening += channel->state == CHANNEL_OPENING;
	}
	if (opening == 0)
		return;
	channels->limit = open > least ? open : least;
	log_warning(
	    "the broker allows no more channels: this connection uses at most %u from now on",
	    channels->limit);
}

/* ---- life ---- */

struct amqp_channels *
amqp_channels_new(const struct broker *broker, enum broker_link which, struct amqp_counts *counts)
{
	struct amqp_channels *channels = mem_alloc(sizeof(*channels));

	channels->broker = broker;
	channels->which = which;
	channels->counts = counts;
	TAILQ_INIT(&channels->all);
	TAILQ_INIT(&channels->idle);
	TAILQ_INIT(&channels->in_order);
	TAILQ_INIT(&channels->orphans);
	timer_init(&channels->orphan_timer, channels_on_orphans, channels, 0);
	return channels;
}

void
amqp_channels_free(struct amqp_channels *channels)
{
	if (channels == NULL)
		return;
	amqp_channels_fail(channels);
	timers_cancel(channels->broker->timers, &channels->orphan_timer);
	channels_on_orphans(channels, 0);
	free(channels);
}

bool
amqp_channels_in_use(const struct amqp_channels *channels)
{
	return HASH_COUNT(channels->by_id) > 0;
}

unsigned
amqp_channels_open(const struct amqp_channels *channels)
{
	return channels->numbers.used;
}

unsigned
amqp_channels_busy(const struct amqp_channels *channels)
{
	return channels->numbers.used - channels->idle_count;
}

unsigned
amqp_channels_max(const struct amqp_channels *channels)
{
	if (channels->limit != 0 && channels->limit < channels->numbers.max)
		return channels->limit;
	return channels->numbers.max;
}

uint16_t
amqp_channels_number(const struct amqp_channels *channels, uint64_t id)
{
	const struct channel *channel = amqp_channel_find(channels, id);

	return channel != NULL ? channel->number : 0;
}

uint64_t
amqp_channels_by_number(const struct amqp_channels *channels, uint16_t number)
{
	const struct channel *channel = numbers_user(&channels->numbers, number);

	return channel != NULL ? channel->id : 0;
}

/* ---- restored channels ---- */

size_t
amqp_channels_taken(const struct amqp_channels *channels)
{
	return HASH_COUNT(channels->by_id);
}

bool
amqp_channels_restore_to_hold(struct amqp_channels *channels, uint64_t id, bool consumes)
{
	struct channel *channel = amqp_channel_find(channels, id);

	if (channel == NULL || channel->restored || (channel->consumer == CONSUMER_ON) != consumes)
		return false;
	channel->restored = true;
	return true;
}

void
amqp_channels_drop_unused(struct amqp_channels *channels)
{
	struct channel *channel;

	TAILQ_FOREACH (channel, &channels->all, in_all)
		if (channel->state == CHANNEL_OPEN && channel->raw == NULL)
			channel_close(channels, channel);
}

/* ---- raw channels ---- */

bool
amqp_raw_channel_announce(struct amqp_raw_channel *raw, uint64_t delivery)
{
	raw->delivery = delivery;
	return amqp_content_announce(&raw->content);
}

/* ---- raw channels, opening and closing ---- */

void
amqp_raw_channel_init(struct amqp_raw_channel *raw, struct amqp_channels *channels,
    const struct amqp_raw_channel_events *events, void *ctx)
{
	*raw = (struct amqp_raw_channel){
	    .channels = channels,
	    .events = *events,
	    .ctx = ctx,
	};
}

bool
amqp_raw_channel_open(struct amqp_raw_channel *raw, size_t body_max)
{
	struct amqp_channels *channels = raw->channels;
	bool opens = channels_have_number(channels);
	struct channel *channel = opens ? channel_new(channels) : channels_idle_take(channels);

	assert(raw->number == 0);
	if (channel == NULL)
		return false;
	/* An idle channel of the auxiliary connection: none there had the consumer of a claim. */
	assert(channel->consumer == CONSUMER_NEVER);
	channel->raw = raw;
	if (opens)
		channel_open(channels, channel);
	raw->number = channel->number;
	amqp_content_init(&raw->content, body_max);
	return true;
}

bool
amqp_raw_channel_resume(struct amqp_raw_channel *raw, uint16_t number, size_t body_max)
{
	struct channel *channel = numbers_user(&raw->channels->numbers, number);

	assert(raw->number == 0);
	if (channel == NULL || channel->state != CHANNEL_OPEN || channel->raw != NULL)
		return false;
	channel->raw = raw;
	raw->number = number;
	amqp_content_init(&raw->content, body_max);
	return true;
}

bool
amqp_raw_channel_is_still(const struct amqp_raw_channel *raw)
{
	return raw->content.state == AMQP_CONTENT_IDLE;
}

void
amqp_raw_channel_forget(struct amqp_raw_channel *raw)
{
	if (raw->number == 0)
		return;
	raw->number = 0;
	amqp_content_done(&raw->content);
}

void
amqp_raw_channel_close(struct amqp_raw_channel *raw)
{
	struct channel *channel;

	if (raw->number != 0 && amqp_channels_link(raw->channels) != NULL) {
		channel = numbers_user(&raw->channels->numbers, raw->number);
		assert(channel != NULL && channel->raw != NULL);
		channel->raw = NULL;
		channel_close(raw->channels, channel);
	}
	amqp_raw_channel_forget(raw);
}

void
amqp_raw_channel_end(struct amqp_raw_channel *raw)
{
	struct channel *channel = numbers_user(&raw->channels->numbers, raw->number);

	assert(channel != NULL && channel->raw != NULL);
	channel_close(raw->channels, channel);
}

/* ---- raw channels, sending ---- */

void
amqp_raw_channel_send(const struct amqp_raw_channel *raw, amqp_method_number_t method, void *fields)
{
	struct amqp_link *link = amqp_channels_link(raw->channels);

	if (link != NULL)
		amqp_link_send(link, raw->number, method, fields);
}

void
amqp_raw_channel_publish(const struct amqp_raw_channel *raw, amqp_basic_publish_t *fields,
    amqp_basic_properties_t *properties, amqp_bytes_t body)
{
	struct amqp_link *link = amqp_channels_link(raw->channels);

	if (link != NULL)
		amqp_link_publish(link, raw->number, fields, properties, body);
}

void
amqp_raw_channel_ack(const struct amqp_raw_channel *raw, uint64_t delivery)
{
	amqp_basic_ack_t ack = {.delivery_tag = delivery};

	amqp_raw_channel_send(raw, AMQP_BASIC_ACK_METHOD, &ack);
}

void
amqp_raw_channel_reject(const struct amqp_raw_channel *raw, uint64_t delivery)
{
	amqp_basic_reject_t reject = {.delivery_tag = delivery, .requeue = 1};

	amqp_raw_channel_send(raw, AMQP_BASIC_REJECT_METHOD, &reject);
}

/* ---- raw channels, consumers ---- */

struct amqp_raw_channel_tag
amqp_raw_channel_tag(char letter, uint64_t consumer)
{
	struct amqp_raw_channel_tag tag;

	snprintf(tag.text, sizeof(tag.text), "%c%" PRIu64, letter, consumer);
	return tag;
}

uint64_t
amqp_raw_channel_consumer(char letter, amqp_bytes_t tag)
{
	const char *text = tag.bytes;
	uint64_t consumer = 0;

	if (tag.len < 2 || tag.len > 20 || text[0] != letter)
		return 0;
	for (size_t i = 1; i < tag.len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return 0;
		consumer = consumer * 10 + (uint64_t)(text[i] - '0');
	}
	return consumer;
}

void
amqp_raw_channel_cancel(const struct amqp_raw_channel *raw, char letter, uint64_t consumer)
{
	struct amqp_raw_channel_tag tag = amqp_raw_channel_tag(letter, consumer);
	amqp_basic_cancel_t cancel = {
	    .consumer_tag = amqp_cstring_bytes(tag.text),
	    .nowait = 1,
	};

	amqp_raw_channel_send(raw, AMQP_BASIC_CANCEL_METHOD, &cancel);
}
