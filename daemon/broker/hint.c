#include "daemon/broker/hint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/auxiliary.h"
#include "daemon/broker/internal.h"
#include "daemon/broker/raw_channel.h"

/* BROKER_HINT_TTL, in ms */
#define HINT_EXPIRATION "2000"
_Static_assert(BROKER_HINT_TTL == 2000 * INT64_C(1000000), "as HINT_EXPIRATION says");
/* The pause after a refusal, because each refusal closes the channel. */
#define HINT_MUTE (30 * NSEC_PER_SEC)

/*
 * A hint that is not sent yet: each queue and slot once, in the order in which they were first
 * owed.
 */
struct owed_hint {
	char *key; /* owned; "SLOT QUEUE" */
	int slot;
	TAILQ_ENTRY(owed_hint) entry;
	UT_hash_handle hh;
};

struct amqp_hints {
	struct broker *broker;           /* borrowed */
	struct owed_hint *owed;          /* owned; by key */
	TAILQ_HEAD(, owed_hint) in_turn; /* the same */
	struct amqp_raw_channel channel;
	char returned_from[UINT8_MAX + 1]; /* wait queue of the returned hint */
	int64_t mute_until;                /* clock time; no hint is sent before */
	bool complained;                   /* of being refused, on this link */
};

/* ---- owed hints ---- */

static void
hint_free(struct amqp_hints *hints, struct owed_hint *hint)
{
	HASH_DEL(hints->owed, hint);
	TAILQ_REMOVE(&hints->in_turn, hint, entry);
	free(hint->key);
	free(hint);
}

static void
hint_add(struct amqp_hints *hints, const char *queue, int slot)
{
	char *key = mem_printf("%d %s", slot, queue);
	struct owed_hint *hint;

	HASH_FIND_STR(hints->owed, key, hint);
	if (hint != NULL) {
		free(key);
		return;
	}
	if (HASH_COUNT(hints->owed) >= BROKER_OWED_MAX)
		hint_free(hints, TAILQ_FIRST(&hints->in_turn));
	hint = mem_alloc(sizeof(*hint));
	hint->key = key;
	hint->slot = slot;
	HASH_ADD_KEYPTR(hh, hints->owed, hint->key, strlen(hint->key), hint);
	TAILQ_INSERT_TAIL(&hints->in_turn, hint, entry);
}

static void
hints_forget_all(struct amqp_hints *hints)
{
	while (!TAILQ_EMPTY(&hints->in_turn))
		hint_free(hints, TAILQ_FIRST(&hints->in_turn));
}

/* ---- sending ---- */

static void
hint_publish(struct amqp_hints *hints, const char *queue, int slot)
{
	char digits[16];
	amqp_basic_publish_t fields = {.routing_key = amqp_cstring_bytes(queue), .mandatory = 1};
	amqp_basic_properties_t properties = {
	    ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_EXPIRATION_FLAG |
		      AMQP_BASIC_CORRELATION_ID_FLAG,
	    .delivery_mode = AMQP_DELIVERY_NONPERSISTENT,
	    .expiration = amqp_cstring_bytes(HINT_EXPIRATION),
	};

	snprintf(digits, sizeof(digits), "%d", slot);
	properties.correlation_id = amqp_cstring_bytes(digits);
	amqp_raw_channel_publish(&hints->channel, &fields, &properties, amqp_empty_bytes);
}

/* Hints on a dead link, whose end is not reported yet, would be lost. */
static bool
hints_can_send(const struct amqp_hints *hints)
{
	const struct broker *broker = hints->broker;
	const struct amqp_link *link = amqp_channels_link(broker->channels);

	return !broker->stopped && !broker->blocked && link != NULL && link->state == AMQP_LINK_UP;
}

static void
hints_pay(struct amqp_hints *hints)
{
	struct owed_hint *hint;

	if (broker_now(hints->broker) < hints->mute_until)
		hints_forget_all(hints);
	while ((hint = TAILQ_FIRST(&hints->in_turn)) != NULL && hints_can_send(hints) &&
	       (hints->channel.number != 0 || amqp_raw_channel_open(&hints->channel, 0))) {
		hint_publish(hints, strchr(hint->key, ' ') + 1, hint->slot);
		hint_free(hints, hint);
	}
}

/* ---- frames ---- */

static bool
hints_take_return(struct amqp_hints *hints, const amqp_basic_return_t *back)
{
	if (back->routing_key.len > UINT8_MAX)
		return false;
	snprintf(hints->returned_from, sizeof(hints->returned_from), "%.*s",
	    (int)back->routing_key.len, (const char *)back->routing_key.bytes);
	return amqp_raw_channel_announce(&hints->channel, 0);
}

static bool
hints_on_message(void *ctx)
{
	const struct amqp_hints *hints = ctx;
	const struct broker_events *events = &hints->broker->events;
	char *queue = mem_strdup(hints->returned_from);
	const struct broker_wait_queue_event event = {
	    .queue = queue,
	    .news = BROKER_WAIT_QUEUE_NOBODY,
	    .slot = broker_hint_slot(hints->channel.content.correlation_id),
	};

	if (events->wait_queue != NULL)
		events->wait_queue(events->ctx, &event);
	free(queue);
	return true;
}

static bool
hints_on_method(void *ctx, const struct amqp_frame *frame)
{
	return frame->method == AMQP_BASIC_RETURN_METHOD && hints_take_return(ctx, frame->fields);
}

static void
hints_on_closed(void *ctx, int code, const char *text)
{
	struct amqp_hints *hints = ctx;

	if (!hints->channel.blames)
		return; /* the next hint opens another channel */
	hints->mute_until = broker_now(hints->broker) + HINT_MUTE;
	if (!hints->complained)
		log_warning("the broker refused a hint to other daemons: %s (%d)", text, code);
	hints->complained = true;
}

/* ---- outside ---- */

void
broker_wait_queue_wake(struct broker *broker, const char *queue, int slot)
{
	if (broker->stopped)
		return;
	hint_add(broker->hints, queue, slot);
	hints_pay(broker->hints);
	amqp_auxiliary_need(broker);
}

bool
amqp_hints_any(const struct amqp_hints *hints)
{
	return hints->owed != NULL;
}

void
amqp_hints_go(struct amqp_hints *hints)
{
	hints_pay(hints);
}

void
amqp_hints_fail(struct amqp_hints *hints)
{
	amqp_raw_channel_forget(&hints->channel);
	hints->complained = false;
	hints->mute_until = 0;
}

/* ---- life ---- */

struct amqp_hints *
amqp_hints_new(struct broker *broker)
{
	static const struct amqp_raw_channel_events events = {
	    .method = hints_on_method, .message = hints_on_message, .closed = hints_on_closed};
	struct amqp_hints *hints = mem_alloc(sizeof(*hints));

	hints->broker = broker;
	TAILQ_INIT(&hints->in_turn);
	amqp_raw_channel_init(&hints->channel, broker->channels, &events, hints);
	return hints;
}

void
amqp_hints_free(struct amqp_hints *hints)
{
	amqp_hints_fail(hints);
	hints_forget_all(hints);
	free(hints);
}
