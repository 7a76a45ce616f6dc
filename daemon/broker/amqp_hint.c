#include "daemon/broker/amqp_hint.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/broker/amqp_content.h"
#include "daemon/broker/owed_hints.h"

/* BROKER_HINT_TTL, in ms */
#define EXPIRATION "2000"
_Static_assert(BROKER_HINT_TTL == 2000 * INT64_C(1000000), "as EXPIRATION says");
/* After the broker refused one: its channel is closed by each. */
#define MUTE (30 * NSEC_PER_SEC)

struct amqp_hints {
	struct amqp_hints_config config;
	struct owed_hints *owed; /* owned */
	struct amqp_tap tap;
	uint16_t channel;                  /* 0 = none open */
	struct amqp_content returned;      /* while there is a channel */
	char returned_from[UINT8_MAX + 1]; /* its queue */
	int64_t mute_until;                /* clock time; nothing is sent before */
	bool blocked;
	bool complained; /* of being refused, on this link */
	bool silent;
};

static int64_t
now(const struct amqp_hints *hints)
{
	return clock_now(timers_clock(hints->config.timers));
}

/* ---- sending ---- */

static bool
open_channel(struct amqp_hints *hints)
{
	if (hints->channel != 0)
		return true;
	hints->channel = amqp_lanes_tap(hints->config.lanes, &hints->tap);
	if (hints->channel == 0)
		return false;
	amqp_content_init(&hints->returned, 0);
	return true;
}

static void
forget_channel(struct amqp_hints *hints)
{
	if (hints->channel == 0)
		return;
	hints->channel = 0;
	amqp_content_done(&hints->returned);
}

static void
publish(struct amqp_hints *hints, const char *queue, int slot)
{
	char digits[16];
	amqp_basic_publish_t fields = {.routing_key = amqp_cstring_bytes(queue), .mandatory = 1};
	amqp_basic_properties_t properties = {
	    ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_EXPIRATION_FLAG |
		      AMQP_BASIC_CORRELATION_ID_FLAG,
	    .delivery_mode = AMQP_DELIVERY_NONPERSISTENT,
	    .expiration = amqp_cstring_bytes(EXPIRATION),
	};

	snprintf(digits, sizeof(digits), "%d", slot);
	properties.correlation_id = amqp_cstring_bytes(digits);
	amqp_link_publish(amqp_lanes_link(hints->config.lanes), hints->channel, &fields,
	    &properties, amqp_empty_bytes);
}

/* A link that has died without its having been told yet would take hints with it. */
static bool
can_send(const struct amqp_hints *hints)
{
	const struct amqp_link *link = amqp_lanes_link(hints->config.lanes);

	return !hints->silent && !hints->blocked && link != NULL &&
	       amqp_link_state(link) == AMQP_LINK_UP;
}

static void
pay(struct amqp_hints *hints)
{
	char *queue;
	int slot;

	if (now(hints) < hints->mute_until) {
		owed_hints_clear(hints->owed);
		return;
	}
	while (owed_hints_count(hints->owed) > 0 && can_send(hints) && open_channel(hints)) {
		queue = owed_hints_take(hints->owed, &slot);
		publish(hints, queue, slot);
		free(queue);
	}
}

/* ---- frames ---- */

static bool
take_return(struct amqp_hints *hints, const amqp_basic_return_t *back)
{
	if (back->routing_key.len > UINT8_MAX)
		return false;
	snprintf(hints->returned_from, sizeof(hints->returned_from), "%.*s",
	    (int)back->routing_key.len, (const char *)back->routing_key.bytes);
	return amqp_content_announce(&hints->returned);
}

static void
tell_nobody(const struct amqp_hints *hints)
{
	char *queue = mem_strdup(hints->returned_from);
	const struct broker_line_event event = {
	    .queue = queue,
	    .news = BROKER_LINE_NOBODY,
	    .slot = broker_hint_slot(hints->returned.correlation_id),
	};

	if (!hints->silent)
		hints->config.news(hints->config.ctx, &event);
	free(queue);
}

static bool
on_frame(void *ctx, const struct amqp_frame *frame)
{
	struct amqp_hints *hints = ctx;

	if (frame->type == AMQP_FRAME_METHOD)
		return frame->method == AMQP_BASIC_RETURN_METHOD &&
		       take_return(hints, frame->fields);
	switch (amqp_content_take(&hints->returned, frame)) {
	case AMQP_CONTENT_MORE:
		return true;
	case AMQP_CONTENT_WHOLE:
		tell_nobody(hints);
		return true;
	case AMQP_CONTENT_BAD:
		return false;
	}
	abort();
}

static void
on_closed(void *ctx, int code, const char *text)
{
	struct amqp_hints *hints = ctx;

	forget_channel(hints);
	hints->mute_until = now(hints) + MUTE;
	if (!hints->complained)
		log_warning("the broker refuses hints to those who wait: %s (%d)", text, code);
	hints->complained = true;
}

/* ---- outside ---- */

void
amqp_hints_send(struct amqp_hints *hints, const char *queue, int slot)
{
	owed_hints_add(hints->owed, queue, slot);
	pay(hints);
}

bool
amqp_hints_any(const struct amqp_hints *hints)
{
	return owed_hints_count(hints->owed) > 0;
}

void
amqp_hints_block(struct amqp_hints *hints, bool blocked)
{
	hints->blocked = blocked;
	pay(hints);
}

void
amqp_hints_go(struct amqp_hints *hints)
{
	pay(hints);
}

void
amqp_hints_fail(struct amqp_hints *hints)
{
	forget_channel(hints);
	hints->blocked = false;
	hints->complained = false;
	hints->mute_until = 0;
}

/* ---- life ---- */

struct amqp_hints *
amqp_hints_new(const struct amqp_hints_config *config)
{
	struct amqp_hints *hints = mem_alloc(sizeof(*hints));

	hints->config = *config;
	hints->owed = owed_hints_new();
	hints->tap = (struct amqp_tap){.frame = on_frame, .closed = on_closed, .ctx = hints};
	return hints;
}

void
amqp_hints_silence(struct amqp_hints *hints)
{
	hints->silent = true;
}

void
amqp_hints_free(struct amqp_hints *hints)
{
	if (hints == NULL)
		return;
	amqp_hints_silence(hints);
	amqp_hints_fail(hints);
	owed_hints_free(hints->owed);
	free(hints);
}
