#include "daemon/broker/lane.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/base/queue.h"

enum lane_state {
	LANE_WAITING, /* no channel number yet: the link is not up, or has none free (side link) */
	LANE_FRESH,   /* has a number; channel.open goes out with the first request */
	LANE_OPENING, /* channel.open sent; requests go out behind it all the same */
	LANE_OPEN,
	LANE_CLOSING, /* channel.close sent: the number is ours until close-ok (else 504) */
	LANE_GONE     /* closed by the broker, number given back; its requests are being answered */
};

struct request {
	TAILQ_ENTRY(request) in_lane, in_order;
	enum amqp_request what;
	struct broker_done done;
	int64_t sent_at;
	char *queue;               /* owned; only while WAITING */
	enum broker_answer answer; /* of an orphan */
};
TAILQ_HEAD(requests, request);

struct lane {
	UT_hash_handle hh;
	TAILQ_ENTRY(lane) in_all, in_idle;
	uint64_t id; /* 0: nobody's (idle, closing, tapped) */
	enum lane_state state;
	uint16_t channel;           /* 0 = none */
	bool put;                   /* given back while GONE */
	const struct amqp_tap *tap; /* borrowed; NULL = requests and answers */
	struct requests requests;   /* unanswered, in order of sending; owned */
};
TAILQ_HEAD(lane_list, lane);

/*
 * The channel numbers of one link. Low ones are used again and again, so that the broker and the table stay
 * small.
 */
struct numbers {
	unsigned max; /* highest number; 0 = there is no link */
	unsigned used, next;
	struct lane **user_of; /* owned; [max + 1]; NULL = free */
	uint16_t *free_again;  /* owned; stack of numbers that were used before */
	unsigned free_count;
};

struct amqp_lanes {
	struct amqp_lanes_config config;
	struct amqp_link *link; /* borrowed; NULL = not up */
	struct lane *by_id;     /* taken lanes */
	struct lane_list all;   /* owned */
	struct lane_list idle;  /* most recently used first */
	unsigned idle_count;
	struct requests in_order; /* every unanswered one, in order of sending */
	struct requests orphans;  /* asked of lanes that are gone: answered by the timer */
	struct timer orphan_timer;
	uint64_t serial;        /* of the last lane id made */
	uint64_t dead_serial;   /* ids up to this one are of links that died */
	struct numbers numbers; /* of the link */
	unsigned limit;         /* learned from a 530; 0 = none */
	bool silent;
};

static void
lane_set_state(struct lane *lane, enum lane_state state)
{
	assert(lane->state != LANE_GONE);
	assert(state > lane->state);
	lane->state = state;
}

static int64_t
now(const struct amqp_lanes *lanes)
{
	return clock_now(timers_clock(lanes->config.timers));
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

static void
numbers_done(struct numbers *numbers)
{
	free(numbers->user_of);
	free(numbers->free_again);
	*numbers = (struct numbers){0};
}

static uint16_t
numbers_take(struct numbers *numbers, struct lane *lane)
{
	uint16_t number;

	assert(numbers->used < numbers->max);
	/* Channel 0 is the connection's own. */
	number = numbers->free_count > 0 ? numbers->free_again[--numbers->free_count]
					 : (uint16_t)++numbers->next;
	assert(numbers->user_of[number] == NULL);
	numbers->user_of[number] = lane;
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

static struct lane *
numbers_user(const struct numbers *numbers, uint16_t number)
{
	return number <= numbers->max && numbers->max > 0 ? numbers->user_of[number] : NULL;
}

static bool
number_left(const struct amqp_lanes *lanes)
{
	return lanes->link != NULL && lanes->numbers.used < amqp_lanes_max(lanes);
}

/* ---- lanes ---- */

static struct lane *
lane_new(struct amqp_lanes *lanes)
{
	struct lane *lane = mem_alloc(sizeof(*lane));

	lane->state = LANE_WAITING;
	TAILQ_INIT(&lane->requests);
	TAILQ_INSERT_TAIL(&lanes->all, lane, in_all);
	if (number_left(lanes)) {
		lane->channel = numbers_take(&lanes->numbers, lane);
		lane_set_state(lane, LANE_FRESH);
	}
	return lane;
}

/* Its requests must have been moved elsewhere. */
static void
lane_free(struct amqp_lanes *lanes, struct lane *lane)
{
	TAILQ_REMOVE(&lanes->all, lane, in_all);
	free(lane);
}

static struct lane *
lane_find(const struct amqp_lanes *lanes, uint64_t id)
{
	struct lane *lane;

	HASH_FIND(hh, lanes->by_id, &id, sizeof(id), lane);
	return lane;
}

static void
lane_forget_id(struct amqp_lanes *lanes, struct lane *lane)
{
	HASH_DELETE(hh, lanes->by_id, lane);
	lane->id = 0;
}

static void
lane_open(struct amqp_lanes *lanes, struct lane *lane)
{
	amqp_channel_open_t open = {0};

	lanes->config.counts->lanes_opened++;
	lane_set_state(lane, LANE_OPENING);
	amqp_link_send(lanes->link, lane->channel, AMQP_CHANNEL_OPEN_METHOD, &open);
}

static void
lane_close(struct amqp_lanes *lanes, struct lane *lane)
{
	amqp_channel_close_t close = {
	    .reply_code = AMQP_REPLY_SUCCESS,
	    .reply_text = amqp_cstring_bytes("not needed"),
	};

	lane_set_state(lane, LANE_CLOSING);
	amqp_link_send(lanes->link, lane->channel, AMQP_CHANNEL_CLOSE_METHOD, &close);
	FAULT_IF(NUMBER_REUSED_EARLY, lane->tap == NULL,
		 numbers_give_back(&lanes->numbers, lane->channel);
		 lane_free(lanes, lane));
}

/* ---- requests ---- */

static void
request_send(
    struct amqp_lanes *lanes, struct lane *lane, struct request *request, const char *queue)
{
	if (lane->state == LANE_FRESH)
		lane_open(lanes, lane);
	request->sent_at = now(lanes);
	amqp_request_send(lanes->link, lane->channel, request->what, queue);
}

/* Takes the request, which is in no list any more. */
static void
request_answer(struct amqp_lanes *lanes, struct request *request, enum broker_answer answer,
    bool lane_open_still, int code, const char *text)
{
	const struct broker_reply reply = {
	    .answer = answer,
	    .lane_open = lane_open_still,
	    .sent_at = request->sent_at,
	    .code = code,
	    .text = text,
	};
	struct broker_done done = request->done;

	free(request->queue);
	free(request);
	if (!lanes->silent)
		done.fn(done.ctx, done.id, &reply);
}

static void
orphans_fire(void *ctx, uint64_t id)
{
	struct amqp_lanes *lanes = ctx;
	struct requests orphans = TAILQ_HEAD_INITIALIZER(orphans);
	struct request *request;

	(void)id;
	/* What these answers ask again waits for the next run. */
	TAILQ_CONCAT(&orphans, &lanes->orphans, in_lane);
	while ((request = TAILQ_FIRST(&orphans)) != NULL) {
		TAILQ_REMOVE(&orphans, request, in_lane);
		request_answer(lanes, request, request->answer, false, 0, "");
	}
}

void
amqp_lanes_request(struct amqp_lanes *lanes, uint64_t id, enum amqp_request what, const char *queue,
    struct broker_done done)
{
	struct lane *lane = lane_find(lanes, id);
	struct request *request = mem_alloc(sizeof(*request));

	assert(strlen(queue) <= UINT8_MAX);
	request->what = what;
	request->done = done;
	request->sent_at = now(lanes);
	if (lane == NULL || lane->state == LANE_GONE) {
		request->answer =
		    id >> 1 <= lanes->dead_serial && lane == NULL ? BROKER_UNKNOWN : BROKER_SKIPPED;
		TAILQ_INSERT_TAIL(&lanes->orphans, request, in_lane);
		if (!timer_is_set(&lanes->orphan_timer))
			timers_set(lanes->config.timers, &lanes->orphan_timer, request->sent_at);
		return;
	}
	TAILQ_INSERT_TAIL(&lane->requests, request, in_lane);
	TAILQ_INSERT_TAIL(&lanes->in_order, request, in_order);
	if (lane->state == LANE_WAITING)
		request->queue = mem_strdup(queue);
	else
		request_send(lanes, lane, request, queue);
}

static void
request_remove(struct amqp_lanes *lanes, struct lane *lane, struct request *request)
{
	TAILQ_REMOVE(&lane->requests, request, in_lane);
	TAILQ_REMOVE(&lanes->in_order, request, in_order);
}

/* Lanes that wait for a number, in the order in which they were taken. */
static void
waiting_go(struct amqp_lanes *lanes)
{
	struct lane *lane;
	struct request *request;

	TAILQ_FOREACH (lane, &lanes->all, in_all) {
		if (!number_left(lanes))
			return;
		if (lane->state != LANE_WAITING)
			continue;
		lane->channel = numbers_take(&lanes->numbers, lane);
		lane_set_state(lane, LANE_FRESH);
		TAILQ_FOREACH (request, &lane->requests, in_lane) {
			request_send(lanes, lane, request, request->queue);
			/* In the order of sending, which is not that of asking any more. */
			TAILQ_REMOVE(&lanes->in_order, request, in_order);
			TAILQ_INSERT_TAIL(&lanes->in_order, request, in_order);
		}
	}
}

/* ---- taking and putting back ---- */

uint64_t
amqp_lanes_take(struct amqp_lanes *lanes)
{
	struct lane *lane = TAILQ_FIRST(&lanes->idle);

	if (lane != NULL) {
		TAILQ_REMOVE(&lanes->idle, lane, in_idle);
		lanes->idle_count--;
	} else if (lanes->config.which == BROKER_SIDE || number_left(lanes)) {
		lane = lane_new(lanes);
	} else {
		return 0;
	}
	/* The lowest bit says which link's, so that ids of the two never meet. */
	lane->id = ++lanes->serial << 1 | (lanes->config.which == BROKER_SIDE);
	HASH_ADD(hh, lanes->by_id, id, sizeof(lane->id), lane);
	return lane->id;
}

void
amqp_lanes_put(struct amqp_lanes *lanes, uint64_t id)
{
	struct lane *lane = lane_find(lanes, id);

	if (lane == NULL)
		return;
	if (lane->state == LANE_GONE) {
		lane->put = true;
		return;
	}
	assert(TAILQ_EMPTY(&lane->requests));
	lane_forget_id(lanes, lane);
	switch (lane->state) {
	case LANE_WAITING:
		lane_free(lanes, lane);
		break;
	case LANE_FRESH:
		numbers_give_back(&lanes->numbers, lane->channel);
		lane_free(lanes, lane);
		waiting_go(lanes);
		break;
	case LANE_OPENING:
	case LANE_OPEN:
		if (lanes->idle_count == AMQP_LANES_IDLE) {
			lane_close(lanes, lane);
			break;
		}
		TAILQ_INSERT_HEAD(&lanes->idle, lane, in_idle);
		lanes->idle_count++;
		break;
	case LANE_CLOSING:
	case LANE_GONE:
		abort(); /* neither has an id that could be put */
	}
}

uint16_t
amqp_lanes_tap(struct amqp_lanes *lanes, const struct amqp_tap *tap)
{
	struct lane *lane;

	if (!number_left(lanes))
		return 0;
	lane = lane_new(lanes);
	lane->tap = tap;
	lane_open(lanes, lane);
	return lane->channel;
}

void
amqp_lanes_untap(struct amqp_lanes *lanes, uint16_t channel)
{
	struct lane *lane = numbers_user(&lanes->numbers, channel);

	assert(lane != NULL && lane->tap != NULL);
	lane->tap = NULL;
	lane_close(lanes, lane);
}

void
amqp_lanes_close_tap(struct amqp_lanes *lanes, uint16_t channel)
{
	struct lane *lane = numbers_user(&lanes->numbers, channel);

	assert(lane != NULL && lane->tap != NULL);
	lane_close(lanes, lane);
}

/* ---- frames ---- */

/* The requests of a lane that the broker closed are answered, then its user is told. */
static void
lane_bury(struct amqp_lanes *lanes, struct lane *lane, const amqp_channel_close_t *close)
{
	char *text = amqp_frame_words(close->reply_text);
	int code = close->reply_code;
	struct request *request = TAILQ_FIRST(&lane->requests);
	uint64_t id = lane->id;

	lane_set_state(lane, LANE_GONE);
	if (request != NULL && amqp_request_is_refused_by(request->what, close)) {
		request_remove(lanes, lane, request);
		request_answer(lanes, request, amqp_request_refusal(request->what, code, text),
		    false, code, text);
	}
	while ((request = TAILQ_FIRST(&lane->requests)) != NULL) {
		enum broker_answer answer = BROKER_SKIPPED;

		FAULT(SKIPPED_IS_DONE, answer = BROKER_OK);
		request_remove(lanes, lane, request);
		request_answer(lanes, request, answer, false, 0, "");
	}
	lane_forget_id(lanes, lane);
	if (!lane->put && !lanes->silent)
		lanes->config.closed(lanes->config.ctx, id, code, text);
	free(text);
	lane_free(lanes, lane);
}

/* NULL: nobody wants to know. */
static void
tap_closed(const struct amqp_tap *tap, const amqp_channel_close_t *close)
{
	char *text = amqp_frame_words(close->reply_text);

	if (tap != NULL)
		tap->closed(tap->ctx, close->reply_code, amqp_request_is_blamed(close), text);
	free(text);
}

static void
take_close(struct amqp_lanes *lanes, struct lane *lane, const amqp_channel_close_t *close)
{
	amqp_channel_close_ok_t close_ok = {0};
	const struct amqp_tap *tap = lane->tap;

	amqp_link_send(lanes->link, lane->channel, AMQP_CHANNEL_CLOSE_OK_METHOD, &close_ok);
	/* It crossed ours, which is still to be answered. */
	if (lane->state == LANE_CLOSING) {
		lane->tap = NULL;
		tap_closed(tap, close);
		return;
	}
	lanes->config.counts->lanes_closed_by_broker++;
	numbers_give_back(&lanes->numbers, lane->channel);
	if (lane->id != 0) {
		lane_bury(lanes, lane, close);
	} else if (tap != NULL) {
		lane_free(lanes, lane);
		tap_closed(tap, close);
	} else {
		TAILQ_REMOVE(&lanes->idle, lane, in_idle);
		lanes->idle_count--;
		lane_free(lanes, lane);
	}
	waiting_go(lanes);
}

static void
take_close_ok(struct amqp_lanes *lanes, struct lane *lane)
{
	const struct amqp_tap *tap = lane->tap;

	numbers_give_back(&lanes->numbers, lane->channel);
	lane_free(lanes, lane);
	tap_closed(tap, &(amqp_channel_close_t){0});
	waiting_go(lanes);
}

static bool
take_method(struct amqp_lanes *lanes, struct lane *lane, const struct amqp_frame *frame)
{
	struct request *request = TAILQ_FIRST(&lane->requests);

	FAULT(LAST_IS_ANSWERED, request = TAILQ_LAST(&lane->requests, requests));
	if (frame->method == AMQP_CHANNEL_CLOSE_METHOD) {
		take_close(lanes, lane, frame->fields);
		return true;
	}
	if (lane->state == LANE_CLOSING) {
		if (frame->method == AMQP_CHANNEL_CLOSE_OK_METHOD)
			take_close_ok(lanes, lane);
		return true; /* anything else was on its way before our close was read */
	}
	if (lane->state == LANE_OPENING && frame->method == AMQP_CHANNEL_OPEN_OK_METHOD) {
		lane_set_state(lane, LANE_OPEN);
		return true;
	}
	if (lane->state != LANE_OPEN)
		return false;
	if (lane->tap != NULL)
		return lane->tap->frame(lane->tap->ctx, frame);
	if (request == NULL || !amqp_request_is_done_by(request->what, frame->method))
		return false;
	request_remove(lanes, lane, request);
	request_answer(lanes, request, BROKER_OK, true, 0, "");
	return true;
}

static bool
take_content(struct lane *lane, const struct amqp_frame *frame)
{
	if (lane->state == LANE_CLOSING)
		return true;
	if (lane->tap == NULL)
		return false;
	return lane->tap->frame(lane->tap->ctx, frame);
}

void
amqp_lanes_frame(struct amqp_lanes *lanes, const struct amqp_frame *frame)
{
	struct lane *lane = numbers_user(&lanes->numbers, frame->channel);

	if (lane == NULL || lane->state == LANE_FRESH) {
		amqp_link_fail(
		    lanes->link, "the broker used channel %u, which is not open", frame->channel);
	} else if (frame->type != AMQP_FRAME_METHOD) {
		if (!take_content(lane, frame))
			amqp_link_fail(
			    lanes->link, "the broker sent content on channel %u", frame->channel);
	} else if (!take_method(lanes, lane, frame)) {
		amqp_link_fail(lanes->link, "the broker sent %s on channel %u without a request",
		    amqp_method_name(frame->method), frame->channel);
	}
}

/* ---- links come and go ---- */

void
amqp_lanes_attach(struct amqp_lanes *lanes, struct amqp_link *link)
{
	assert(lanes->link == NULL);
	lanes->link = link;
	numbers_init(&lanes->numbers, link->channel_max);
	waiting_go(lanes);
}

struct amqp_link *
amqp_lanes_link(const struct amqp_lanes *lanes)
{
	return lanes->link;
}

static void
forget_lanes(struct amqp_lanes *lanes)
{
	struct lane *lane, *next;

	lanes->link = NULL;
	HASH_CLEAR(hh, lanes->by_id);
	TAILQ_FOREACH_SAFE (lane, &lanes->all, in_all, next)
		lane_free(lanes, lane);
	TAILQ_INIT(&lanes->idle);
	lanes->idle_count = 0;
	lanes->dead_serial = lanes->serial;
	numbers_done(&lanes->numbers);
}

void
amqp_lanes_fail(struct amqp_lanes *lanes)
{
	struct requests lost = TAILQ_HEAD_INITIALIZER(lost);
	struct request *request;

	TAILQ_CONCAT(&lost, &lanes->in_order, in_order);
	forget_lanes(lanes);
	while ((request = TAILQ_FIRST(&lost)) != NULL) {
		TAILQ_REMOVE(&lost, request, in_order);
		FAULT(LOST_UNANSWERED, free(request->queue); free(request); continue);
		request_answer(lanes, request, BROKER_UNKNOWN, false, 0, "");
	}
}

void
amqp_lanes_learn_limit(struct amqp_lanes *lanes)
{
	struct lane *lane;
	/* To probe and to administer takes two. Where that kills the side link, little is lost. */
	unsigned least = lanes->config.which == BROKER_SIDE ? 2 : 1, open = 0, opening = 0;

	TAILQ_FOREACH (lane, &lanes->all, in_all) {
		open += lane->state == LANE_OPEN || lane->state == LANE_CLOSING;
		opening += lane->state == LANE_OPENING;
	}
	if (opening == 0)
		return;
	lanes->limit = open > least ? open : least;
	log_warning("the broker allows no more channels: this link uses at most %u from now on",
	    lanes->limit);
}

/* ---- life ---- */

struct amqp_lanes *
amqp_lanes_new(const struct amqp_lanes_config *config)
{
	struct amqp_lanes *lanes = mem_alloc(sizeof(*lanes));

	lanes->config = *config;
	TAILQ_INIT(&lanes->all);
	TAILQ_INIT(&lanes->idle);
	TAILQ_INIT(&lanes->in_order);
	TAILQ_INIT(&lanes->orphans);
	timer_init(&lanes->orphan_timer, orphans_fire, lanes, 0);
	return lanes;
}

void
amqp_lanes_silence(struct amqp_lanes *lanes)
{
	lanes->silent = true;
}

void
amqp_lanes_free(struct amqp_lanes *lanes)
{
	if (lanes == NULL)
		return;
	amqp_lanes_silence(lanes);
	amqp_lanes_fail(lanes);
	timers_cancel(lanes->config.timers, &lanes->orphan_timer);
	orphans_fire(lanes, 0);
	free(lanes);
}

bool
amqp_lanes_in_use(const struct amqp_lanes *lanes)
{
	return HASH_COUNT(lanes->by_id) > 0;
}

unsigned
amqp_lanes_open(const struct amqp_lanes *lanes)
{
	return lanes->numbers.used;
}

unsigned
amqp_lanes_max(const struct amqp_lanes *lanes)
{
	if (lanes->limit != 0 && lanes->limit < lanes->numbers.max)
		return lanes->limit;
	return lanes->numbers.max;
}

uint16_t
amqp_lanes_channel(const struct amqp_lanes *lanes, uint64_t id)
{
	const struct lane *lane = lane_find(lanes, id);

	return lane != NULL ? lane->channel : 0;
}

uint64_t
amqp_lanes_on_channel(const struct amqp_lanes *lanes, uint16_t channel)
{
	const struct lane *lane = numbers_user(&lanes->numbers, channel);

	return lane != NULL ? lane->id : 0;
}
