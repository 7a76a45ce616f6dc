#include "daemon/broker/amqp_line.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/broker/amqp_tapped.h"
#include "daemon/broker/line_members.h"

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

struct member {
	struct line_member base;
	struct amqp_lines *lines; /* borrowed */
	/* JOINING, ON: */
	struct amqp_tapped lane; /* open */
	unsigned asked;          /* credit of the consumer that was placed last */
	uint64_t consumer;       /* its number there, from 1 */
	bool unanswered;         /* its consume-ok is to come */
};

struct amqp_lines {
	struct amqp_lines_config config;
	struct line_members members; /* owned */
	bool complained;             /* of being refused, on this link */
	bool silent;
};

static int64_t
now(const struct amqp_lines *lines)
{
	return clock_now(timers_clock(lines->config.timers));
}

static void
on_news(void *ctx, const struct broker_line_event *event)
{
	const struct amqp_lines *lines = ctx;

	if (!lines->silent)
		lines->config.news(lines->config.ctx, event);
}

static void
member_free(struct member *member)
{
	amqp_tapped_close(&member->lane);
	line_members_remove(&member->base);
	free(member);
}

/* Out of the line, on no channel any more; in again after about so long. */
static void
member_out(struct member *member, int64_t again)
{
	struct amqp_lines *lines = member->lines;

	assert(member->lane.channel == 0);
	line_member_out(
	    &member->base, now(lines) + again / 2 + jitter_below(lines->config.jitter, again));
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
	    .queue = amqp_cstring_bytes(member->base.queue),
	    .durable = 1,
	    .auto_delete = 1,
	    .arguments = {.num_entries = 2, .entries = arguments},
	};

	amqp_tapped_send(&member->lane, AMQP_QUEUE_DECLARE_METHOD, &declare);
}

static void
send_consume(struct member *member)
{
	amqp_basic_qos_t qos = {.prefetch_count = (uint16_t)member->base.credit};
	struct amqp_tapped_tag tag = amqp_tapped_tag(TAG, ++member->consumer);
	amqp_table_entry_t priority = amqp_entry_number("x-priority", member->base.priority);
	amqp_basic_consume_t consume = {
	    .queue = amqp_cstring_bytes(member->base.queue),
	    .consumer_tag = amqp_cstring_bytes(tag.text),
	    .arguments = {.num_entries = 1, .entries = &priority},
	};

	assert(!member->unanswered);
	member->asked = member->base.credit;
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
on_join(void *ctx, struct line_member *base)
{
	struct amqp_lines *lines = ctx;
	struct member *member = (struct member *)base;

	if (lines->silent || amqp_lanes_link(lines->config.lanes) == NULL)
		return;
	if (!is_room(lines->config.lanes) || !amqp_tapped_open(&member->lane, 0)) {
		member_out(member, NO_LANE);
		return;
	}
	line_member_joining(base);
	member->consumer = 0;
	member->unanswered = false;
	send_declare(member);
	send_consume(member);
}

/* ---- frames ---- */

static bool
take_consume_ok(struct member *member, const amqp_basic_consume_ok_t *ok)
{
	if (!member->unanswered || amqp_tapped_consumer(TAG, ok->consumer_tag) != member->consumer)
		return false;
	member->unanswered = false;
	FAULT_IF(NEW_CONSUMER_CANCELLED, member->consumer > 1,
	    amqp_tapped_cancel(&member->lane, TAG, member->consumer));
	if (member->consumer > 1)
		amqp_tapped_cancel(&member->lane, TAG, member->consumer - 1);
	if (member->asked != member->base.credit)
		send_consume(member);
	if (member->base.state == LINE_MEMBER_JOINING)
		line_member_on(&member->base);
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
	int slot = broker_hint_slot(member->lane.content.correlation_id);

	FAULT(HINT_NOT_ACKED, line_member_tell(&member->base, BROKER_LINE_HINT, slot);
	      return true;);
	FAULT(FIRST_IS_ACKED, member->lane.delivery = 1);
	amqp_tapped_ack(&member->lane, member->lane.delivery);
	line_member_tell(&member->base, BROKER_LINE_HINT, slot);
	return true;
}

static void
on_closed(void *ctx, int code, const char *text)
{
	struct member *member = ctx;
	struct amqp_lines *lines = member->lines;
	bool joining = member->base.state == LINE_MEMBER_JOINING;
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
member_new(struct amqp_lines *lines)
{
	static const struct amqp_tapped_events events = {
	    .method = on_method, .message = on_message, .closed = on_closed};
	struct member *member = mem_alloc(sizeof(*member));

	member->lines = lines;
	amqp_tapped_init(&member->lane, lines->config.lanes, &events, member);
	return member;
}

void
amqp_lines_join(struct amqp_lines *lines, const char *queue, int priority, unsigned credit)
{
	struct member *member =
	    (struct member *)line_members_find(&lines->members, queue, priority);

	assert(credit <= UINT16_MAX && strlen(queue) <= UINT8_MAX);
	if (member != NULL) {
		member->base.credit = credit;
		if (member->lane.channel != 0 && !member->unanswered && member->asked != credit)
			send_consume(member);
		return;
	}
	member = member_new(lines);
	line_members_add(&lines->members, &member->base, queue, priority, credit);
	on_join(lines, &member->base);
}

void
amqp_lines_leave(struct amqp_lines *lines, const char *queue, int priority)
{
	struct line_member *member = line_members_find(&lines->members, queue, priority);

	if (member != NULL)
		member_free((struct member *)member);
}

size_t
amqp_lines_count(const struct amqp_lines *lines)
{
	return line_members_count(&lines->members);
}

bool
amqp_lines_any(const struct amqp_lines *lines)
{
	return line_members_count(&lines->members) > 0;
}

void
amqp_lines_go(struct amqp_lines *lines)
{
	line_members_join(&lines->members);
}

void
amqp_lines_fail(struct amqp_lines *lines)
{
	struct line_member *member;

	lines->complained = false;
	TAILQ_FOREACH (member, &lines->members.in_turn, entry)
		amqp_tapped_forget(&((struct member *)member)->lane);
	line_members_lose(&lines->members);
	line_members_tell_lost(&lines->members);
}

/* ---- life ---- */

struct amqp_lines *
amqp_lines_new(const struct amqp_lines_config *config)
{
	struct amqp_lines *lines = mem_alloc(sizeof(*lines));
	const struct line_members_events events = {.join = on_join, .news = on_news, .ctx = lines};

	lines->config = *config;
	line_members_init(&lines->members, config->timers, &events);
	return lines;
}

void
amqp_lines_silence(struct amqp_lines *lines)
{
	lines->silent = true;
}

void
amqp_lines_free(struct amqp_lines *lines)
{
	struct line_member *member;

	if (lines == NULL)
		return;
	amqp_lines_silence(lines);
	amqp_lines_fail(lines);
	while ((member = TAILQ_FIRST(&lines->members.in_turn)) != NULL)
		member_free((struct member *)member);
	free(lines);
}
