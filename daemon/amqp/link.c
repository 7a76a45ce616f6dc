#include "daemon/amqp/link.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/log.h"
#include "daemon/base/mem.h"

/* The limit of the wait for close-ok. */
#define CLOSE_TIMEOUT (1 * NSEC_PER_SEC)

void
amqp_server_done(struct amqp_server *server)
{
	free(server->product);
	free(server->version);
	free(server->cluster);
	*server = (struct amqp_server){.product = NULL};
}

const char *
amqp_link_state_word(enum amqp_link_state state)
{
	switch (state) {
	case AMQP_LINK_STREAM:
		return "connecting";
	case AMQP_LINK_START:
		return "waiting for connection.start";
	case AMQP_LINK_TUNE:
		return "logging in";
	case AMQP_LINK_OPEN:
		return "opening the vhost";
	case AMQP_LINK_UP:
		return "up";
	case AMQP_LINK_CLOSING:
		return "closing";
	case AMQP_LINK_DEAD:
		return "dead";
	}
	return "?";
}

void
amqp_link_set_state(struct amqp_link *link, enum amqp_link_state state)
{
	if (state == AMQP_LINK_STREAM)
		assert(link->state == AMQP_LINK_DEAD);
	else if (state == AMQP_LINK_DEAD)
		assert(link->state != AMQP_LINK_DEAD);
	else
		assert(state == link->state + 1);
	log_debug("%s to %s:%d: %s -> %s", link->config.name, link->config.host->host,
	    link->config.host->port, amqp_link_state_word(link->state),
	    amqp_link_state_word(state));
	link->state = state;
}

static int64_t
now(const struct amqp_link *link)
{
	return clock_now(timers_clock(link->config.timers));
}

/* ---- death ---- */

void
amqp_link_die(struct amqp_link *link, char *why)
{
	if (link->state == AMQP_LINK_DEAD) {
		free(why);
		return;
	}
	amqp_link_set_state(link, AMQP_LINK_DEAD);
	free(link->why);
	link->why = why;
	timers_cancel(link->config.timers, &link->closing);
	link->ops->shut_down(link);
	/* A caller on the stack may still use the link, so the loop reports its end. */
	timers_set(link->config.timers, &link->death, now(link));
}

void
amqp_link_fail(struct amqp_link *link, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	amqp_link_die(link, mem_strdup(text));
}

void
amqp_link_drop(struct amqp_link *link, const char *why)
{
	link->dropped = true;
	amqp_link_fail(link, "%s", why);
}

static void
on_death(void *ctx, uint64_t id)
{
	struct amqp_link *link = ctx;

	(void)id;
	if (!link->ops->try_again(link))
		link->events.dead(link->events.ctx, link, link->refused, link->code, link->why);
}

void
amqp_link_tell_death(struct amqp_link *link)
{
	assert(link->state == AMQP_LINK_DEAD);
	timers_cancel(link->config.timers, &link->death);
	on_death(link, 0);
}

/* ---- sending ---- */

static bool
may_send(enum amqp_link_role role, amqp_method_number_t method)
{
	switch (method) {
	case AMQP_CHANNEL_OPEN_METHOD:
	case AMQP_CHANNEL_CLOSE_METHOD:
	case AMQP_CHANNEL_CLOSE_OK_METHOD:
	case AMQP_BASIC_CONSUME_METHOD:
		return true;
	case AMQP_QUEUE_DECLARE_METHOD:
	case AMQP_QUEUE_DELETE_METHOD:
	case AMQP_BASIC_CANCEL_METHOD:
		return role != AMQP_LINK_QUORUM;
	case AMQP_BASIC_QOS_METHOD:
	case AMQP_BASIC_ACK_METHOD:
	case AMQP_BASIC_REJECT_METHOD:
		return role != AMQP_LINK_LOCKS;
	default:
		return role == AMQP_LINK_AUXILIARY || method >> 16 == AMQP_CONNECTION_CLASS;
	}
}

void
amqp_link_send(struct amqp_link *link, uint16_t channel, amqp_method_number_t method, void *fields)
{
	assert(may_send(link->config.role, method));
	if (link->state != AMQP_LINK_UP)
		return;
	link->config.counts->sent_methods++;
	if (method == AMQP_BASIC_CONSUME_METHOD)
		link->config.counts->sent_consumes++;
	if (!link->ops->send(link, channel, method, fields))
		amqp_link_fail(
		    link, "%s cannot be sent: too long for AMQP", amqp_method_name(method));
}

void
amqp_link_publish(struct amqp_link *link, uint16_t channel, amqp_basic_publish_t *fields,
    amqp_basic_properties_t *properties, amqp_bytes_t body)
{
	assert(link->config.role == AMQP_LINK_AUXILIARY);
	if (link->state != AMQP_LINK_UP)
		return;
	link->config.counts->sent_methods++;
	link->config.counts->sent_publishes++;
	if (!link->ops->publish(link, channel, fields, properties, body))
		amqp_link_fail(link, "a message cannot be sent: too long for AMQP");
}

/* ---- receiving ---- */

/* connection.close: the reason is the broker's text. */
static void
take_close(struct amqp_link *link, const amqp_connection_close_t *close)
{
	amqp_connection_close_ok_t close_ok = {0};
	char *text = amqp_frame_words(close->reply_text);

	link->code = close->reply_code;
	link->refused = link->state < AMQP_LINK_UP && (close->reply_code == AMQP_ACCESS_REFUSED ||
							  close->reply_code == AMQP_INVALID_PATH ||
							  close->reply_code == AMQP_NOT_ALLOWED);
	if (link->state != AMQP_LINK_DEAD)
		(void)link->ops->send(link, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &close_ok);
	amqp_link_die(link, mem_printf("%s (%d)", text, close->reply_code));
	free(text);
}

static void
tell_blocked(struct amqp_link *link, bool blocked, amqp_bytes_t reason)
{
	char *why = amqp_frame_words(reason);

	if (link->state == AMQP_LINK_UP)
		link->events.blocked(link->events.ctx, blocked, why);
	free(why);
}

/* False: it must not come now. */
static bool
take_connection_method(struct amqp_link *link, const struct amqp_frame *frame)
{
	switch (frame->method) {
	case AMQP_CONNECTION_CLOSE_METHOD:
		take_close(link, frame->fields);
		return true;
	case AMQP_CONNECTION_CLOSE_OK_METHOD:
		if (link->state != AMQP_LINK_CLOSING)
			return false;
		amqp_link_fail(link, "closed");
		return true;
	case AMQP_CONNECTION_BLOCKED_METHOD:
		tell_blocked(
		    link, true, ((const amqp_connection_blocked_t *)frame->fields)->reason);
		return true;
	case AMQP_CONNECTION_UNBLOCKED_METHOD:
		tell_blocked(link, false, amqp_empty_bytes);
		return true;
	default:
		return link->ops->handshake(link, frame);
	}
}

void
amqp_link_take(struct amqp_link *link, const struct amqp_frame *frame)
{
	if (frame->type == AMQP_FRAME_METHOD)
		link->config.counts->received_methods++;
	if (frame->method == AMQP_BASIC_DELIVER_METHOD)
		link->config.counts->deliveries++;
	if (frame->type == AMQP_FRAME_HEARTBEAT)
		return;
	if (frame->channel == 0 && frame->type != AMQP_FRAME_METHOD)
		amqp_link_fail(link, "the broker sent content on channel 0");
	else if (frame->channel == 0 && !take_connection_method(link, frame))
		amqp_link_fail(link, "the broker sent %s while %s", amqp_method_name(frame->method),
		    amqp_link_state_word(link->state));
	else if (frame->channel != 0 && link->state == AMQP_LINK_UP)
		link->events.frame(link->events.ctx, frame);
	else if (frame->channel != 0 && link->state != AMQP_LINK_CLOSING)
		amqp_link_fail(link, "the broker used channel %u while %s", frame->channel,
		    amqp_link_state_word(link->state));
}

/* ---- life ---- */

void
amqp_link_is_up(struct amqp_link *link)
{
	amqp_link_set_state(link, AMQP_LINK_UP);
	link->events.up(link->events.ctx);
}

static void
on_closing(void *ctx, uint64_t id)
{
	(void)id;
	amqp_link_fail(ctx, "closed, without an answer");
}

static void
send_close(struct amqp_link *link)
{
	amqp_connection_close_t close = {
	    .reply_code = AMQP_REPLY_SUCCESS,
	    .reply_text = amqp_cstring_bytes("goodbye"),
	};

	link->dropped = true;
	amqp_link_send(link, 0, AMQP_CONNECTION_CLOSE_METHOD, &close);
}

void
amqp_link_close(struct amqp_link *link)
{
	assert(link->state == AMQP_LINK_UP);
	send_close(link);
	if (link->state == AMQP_LINK_DEAD)
		return;
	amqp_link_set_state(link, AMQP_LINK_CLOSING);
	timers_set(link->config.timers, &link->closing, now(link) + CLOSE_TIMEOUT);
}

static void
cancel_timers(struct amqp_link *link)
{
	timers_cancel(link->config.timers, &link->closing);
	timers_cancel(link->config.timers, &link->death);
}

void
amqp_link_quit(struct amqp_link *link)
{
	if (link->state == AMQP_LINK_UP)
		send_close(link);
	amqp_link_die(link, mem_strdup("closed"));
	cancel_timers(link);
}

bool
amqp_link_save(struct amqp_link *link, struct amqp_link_saved *ret)
{
	return link->state == AMQP_LINK_UP && link->ops->save(link, ret);
}

void
amqp_link_init(struct amqp_link *link, const struct amqp_link_ops *ops,
    const struct amqp_link_config *config, const struct amqp_link_events *events)
{
	link->ops = ops;
	link->config = *config;
	link->events = *events;
	link->state = AMQP_LINK_STREAM;
	timer_init(&link->closing, on_closing, link, 0);
	timer_init(&link->death, on_death, link, 0);
}

void
amqp_link_resume(struct amqp_link *link, const struct amqp_link_saved *saved)
{
	/* The earlier program has logged its handshake. */
	link->state = AMQP_LINK_UP;
	link->channel_max = (unsigned)saved->channel_max;
	link->heartbeat = saved->heartbeat;
}

void
amqp_link_done(struct amqp_link *link)
{
	cancel_timers(link);
	amqp_server_done(&link->server);
	free(link->why);
}

void
amqp_link_free(struct amqp_link *link)
{
	if (link != NULL)
		link->ops->free(link);
}
