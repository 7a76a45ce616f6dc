#include "daemon/broker/amqp_line.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/amqp_tapped.h"

#define LENGTH_MAX 64
/* Of its tags. */
#define TAG 'l'
/* All these: half of it to one and a half. After 404: the last other member left, and its line with it. */
#define AT_ONCE (5 * NSEC_PER_MSEC)
/* After a cancel, or a channel closed under a member. */
#define AGAIN (100 * NSEC_PER_MSEC)
/* After any other refusal. */
#define RARELY (30 * NSEC_PER_SEC)
/* No channel number was left. */
#define NO_LANE (1 * NSEC_PER_SEC)
/* Channels left to all else that is done over the link: most, and least. */
#define OTHERS_MOST 16
#define OTHERS_LEAST 2

enum member_state {
	MEMBER_WAITING, /* for the link, or for its time (again) */
	MEMBER_JOINING, /* on a channel; its first consume is unanswered */
	MEMBER_ON,      /* BROKER_LINE_JOINED was told; on a channel */
	MEMBER_LOST     /* was ON, BROKER_LINE_LEFT is still to be told */
};

struct member {
	UT_hash_handle hh;
	TAILQ_ENTRY(member) entry;
	struct amqp_lines *lines; /* borrowed */
	char *key;                /* owned; "PRIORITY QUEUE" */
	const char *queue;        /* in the key */
	int priority;
	enum member_state state;
	struct timer again;
	unsigned credit; /* as wanted */
	/* JOINING, ON: */
	struct amqp_tapped lane; /* open */
	unsigned asked;          /* credit of the consumer that was placed last */
	uint64_t consumer;       /* its number there, from 1 */
	bool unanswered;         /* its consume-ok is to come */
};

struct amqp_lines {
	struct amqp_lines_config config;
	struct member *by_key;        /* owned */
	TAILQ_HEAD(, member) in_turn; /* the same, in the order of joining */
	bool complained;              /* of being refused, on this link */
	bool silent;
};

static int64_t
now(const struct amqp_lines *lines)
{
	return clock_now(timers_clock(lines->config.timers));
}

/* ---- members ---- */

static void
member_set_state(struct member *member, enum member_state state)
{
	assert(state != MEMBER_JOINING || member->state == MEMBER_WAITING);
	assert(state != MEMBER_ON || member->state == MEMBER_JOINING);
	assert(state != MEMBER_LOST || member->state == MEMBER_ON);
	assert(state != MEMBER_WAITING || member->state != MEMBER_ON);
	member->state = state;
}

static struct member *
member_find(const struct amqp_lines *lines, const char *queue, int priority)
{
	char *key = mem_printf("%d %s", priority, queue);
	struct member *member;

	HASH_FIND_STR(lines->by_key, key, member);
	free(key);
	return member;
}

/* Whoever hears it may join and leave lines, this one too. */
static void
member_tell(const struct member *member, enum broker_line_news news, int slot)
{
	const struct amqp_lines *lines = member->lines;
	char *queue = mem_strdup(member->queue);
	const struct broker_line_event event = {
	    .queue = queue, .priority = member->priority, .news = news, .slot = slot};

	if (!lines->silent)
		lines->config.news(lines->config.ctx, &event);
	free(queue);
}

static void
member_free(struct member *member)
{
	struct amqp_lines *lines = member->lines;

	timers_cancel(lines->config.timers, &member->again);
	amqp_tapped_close(&member->lane);
	HASH_DEL(lines->by_key, member);
	TAILQ_REMOVE(&lines->in_turn, member, entry);
	free(member->key);
	free(member);
}

/* Out of the line, on no channel any more; in again after about so long. */
static void
member_out(struct member *member, int64_t again)
{
	struct amqp_lines *lines = member->lines;
	bool was_on = member->state == MEMBER_ON;

	assert(member->lane.channel == 0);
	if (was_on)
		member_set_state(member, MEMBER_LOST);
	member_set_state(member, MEMBER_WAITING);
	timers_set(lines->config.timers, &member->again,
	    now(lines) + again / 2 + jitter_below(lines->config.jitter, again));
	if (was_on)
		member_tell(member, BROKER_LINE_LEFT, 0);
}

/* ---- sending ---- */

static void
send_declare(const struct member *member)
{
	amqp_table_entry_t arguments[] = {
	    amqp_entry_number("x-max-length", LENGTH_MAX),
	    amqp_entry_text("x-queue-type", "classic"),
	};
	amqp_queue_declare_t declare = {
	    .queue = amqp_cstring_bytes(member->queue),
	    .durable = 1,
	    .auto_delete = 1,
	    .arguments = {.num_entries = 2, .entries = arguments},
	};

	amqp_tapped_send(&member->lane, AMQP_QUEUE_DECLARE_METHOD, &declare);
}

static void
send_consume(struct member *member)
{
	amqp_basic_qos_t qos = {.prefetch_count = (uint16_t)member->credit};
	struct amqp_tapped_tag tag = amqp_tapped_tag(TAG, ++member->consumer);
	amqp_table_entry_t priority = amqp_entry_number("x-priority", member->priority);
	amqp_basic_consume_t consume = {
	    .queue = amqp_cstring_bytes(member->queue),
	    .consumer_tag = amqp_cstring_bytes(tag.text),
	    .arguments = {.num_entries = 1, .entries = &priority},
	};

	assert(!member->unanswered);
	member->asked = member->credit;
	member->unanswered = true;
	amqp_tapped_send(&member->lane, AMQP_BASIC_QOS_METHOD, &qos);
	amqp_tapped_send(&member->lane, AMQP_BASIC_CONSUME_METHOD, &consume);
}

/* Without a line one is served by looking now and then; without a probe by nobody. */
static bool
is_room(const struct amqp_lanes *lanes)
{
	unsigned max = amqp_lanes_max(lanes), others = max / 2;

	if (others > OTHERS_MOST)
		others = OTHERS_MOST;
	if (others < OTHERS_LEAST)
		others = OTHERS_LEAST;
	return amqp_lanes_open(lanes) + others < max;
}

static void
member_join(struct member *member)
{
	struct amqp_lines *lines = member->lines;

	timers_cancel(lines->config.timers, &member->again);
	if (lines->silent || amqp_lanes_link(lines->config.lanes) == NULL)
		return;
	if (!is_room(lines->config.lanes) || !amqp_tapped_open(&member->lane, 0)) {
		member_out(member, NO_LANE);
		return;
	}
	member_set_state(member, MEMBER_JOINING);
	member->consumer = 0;
	member->unanswered = false;
	send_declare(member);
	send_consume(member);
}

static void
on_again(void *ctx, uint64_t id)
{
	(void)id;
	member_join(ctx);
}

/* ---- frames ---- */

static bool
take_consume_ok(struct member *member, const amqp_basic_consume_ok_t *ok)
{
	if (!member->unanswered || amqp_tapped_consumer(TAG, ok->consumer_tag) != member->consumer)
		return false;
	member->unanswered = false;
	if (member->consumer > 1)
		amqp_tapped_cancel(&member->lane, TAG, member->consumer - 1);
	if (member->asked != member->credit)
		send_consume(member);
	if (member->state == MEMBER_JOINING) {
		member_set_state(member, MEMBER_ON);
		member_tell(member, BROKER_LINE_JOINED, 0);
	}
	return true;
}

/* By the broker: the line was deleted. Both consumers of one that changes its credit are told so. */
static bool
take_cancel(struct member *member)
{
	amqp_tapped_close(&member->lane);
	member_out(member, AGAIN);
	return true;
}

static bool
on_method(void *ctx, const struct amqp_frame *frame)
{
	struct member *member = ctx;

	switch (frame->method) {
	case AMQP_QUEUE_DECLARE_OK_METHOD:
	case AMQP_BASIC_QOS_OK_METHOD:
		return true;
	case AMQP_BASIC_CONSUME_OK_METHOD:
		return take_consume_ok(member, frame->fields);
	case AMQP_BASIC_CANCEL_METHOD:
		return take_cancel(member);
	case AMQP_BASIC_DELIVER_METHOD: {
		const amqp_basic_deliver_t *deliver = frame->fields;

		return amqp_tapped_announce(&member->lane, deliver->delivery_tag);
	}
	default:
		return false;
	}
}

static bool
on_message(void *ctx)
{
	struct member *member = ctx;

	amqp_tapped_ack(&member->lane, member->lane.delivery);
	member_tell(
	    member, BROKER_LINE_HINT, broker_hint_slot(member->lane.content.correlation_id));
	return true;
}

static void
on_closed(void *ctx, int code, const char *text)
{
	struct member *member = ctx;
	struct amqp_lines *lines = member->lines;
	bool joining = member->state == MEMBER_JOINING;
	bool refused = joining && code != AMQP_NOT_FOUND;

	if (refused && !lines->complained) {
		log_warning(
		    "the broker does not let this daemon wait in line: %s (%d)", text, code);
		lines->complained = true;
	}
	member_out(member, refused ? RARELY : joining ? AT_ONCE : AGAIN);
}

/* ---- outside ---- */

static struct member *
member_new(struct amqp_lines *lines, const char *queue, int priority)
{
	static const struct amqp_tapped_events events = {
	    .method = on_method, .message = on_message, .closed = on_closed};
	struct member *member = mem_alloc(sizeof(*member));

	assert(strlen(queue) <= UINT8_MAX);
	member->lines = lines;
	member->key = mem_printf("%d %s", priority, queue);
	member->queue = strchr(member->key, ' ') + 1;
	member->priority = priority;
	member->state = MEMBER_WAITING;
	amqp_tapped_init(&member->lane, lines->config.lanes, &events, member);
	timer_init(&member->again, on_again, member, 0);
	HASH_ADD_KEYPTR(hh, lines->by_key, member->key, strlen(member->key), member);
	TAILQ_INSERT_TAIL(&lines->in_turn, member, entry);
	return member;
}

void
amqp_lines_join(struct amqp_lines *lines, const char *queue, int priority, unsigned credit)
{
	struct member *member = member_find(lines, queue, priority);

	assert(credit <= UINT16_MAX);
	if (member != NULL) {
		member->credit = credit;
		if (member->lane.channel != 0 && !member->unanswered && member->asked != credit)
			send_consume(member);
		return;
	}
	member = member_new(lines, queue, priority);
	member->credit = credit;
	member_join(member);
}

void
amqp_lines_leave(struct amqp_lines *lines, const char *queue, int priority)
{
	struct member *member = member_find(lines, queue, priority);

	if (member != NULL)
		member_free(member);
}

bool
amqp_lines_any(const struct amqp_lines *lines)
{
	return lines->by_key != NULL;
}

void
amqp_lines_go(struct amqp_lines *lines)
{
	struct member *member;

	/* Nothing of this is told to anybody now. */
	TAILQ_FOREACH (member, &lines->in_turn, entry) {
		if (member->state == MEMBER_WAITING)
			member_join(member);
	}
}

static struct member *
first_lost(const struct amqp_lines *lines)
{
	struct member *member;

	TAILQ_FOREACH (member, &lines->in_turn, entry) {
		if (member->state == MEMBER_LOST)
			break;
	}
	return member;
}

void
amqp_lines_fail(struct amqp_lines *lines)
{
	struct member *member;

	lines->complained = false;
	TAILQ_FOREACH (member, &lines->in_turn, entry) {
		timers_cancel(lines->config.timers, &member->again);
		amqp_tapped_forget(&member->lane);
		member_set_state(member, member->state == MEMBER_ON ? MEMBER_LOST : MEMBER_WAITING);
	}
	while ((member = first_lost(lines)) != NULL) {
		member_set_state(member, MEMBER_WAITING);
		member_tell(member, BROKER_LINE_LEFT, 0);
	}
}

/* ---- life ---- */

struct amqp_lines *
amqp_lines_new(const struct amqp_lines_config *config)
{
	struct amqp_lines *lines = mem_alloc(sizeof(*lines));

	lines->config = *config;
	TAILQ_INIT(&lines->in_turn);
	return lines;
}

void
amqp_lines_silence(struct amqp_lines *lines)
{
	struct member *member;

	lines->silent = true;
	TAILQ_FOREACH (member, &lines->in_turn, entry)
		timers_cancel(lines->config.timers, &member->again);
}

void
amqp_lines_free(struct amqp_lines *lines)
{
	struct member *member;

	if (lines == NULL)
		return;
	amqp_lines_silence(lines);
	amqp_lines_fail(lines);
	while ((member = TAILQ_FIRST(&lines->in_turn)) != NULL)
		member_free(member);
	free(lines);
}
