#include "daemon/broker/amqp_link.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>

#include "daemon/base/log.h"
#include "daemon/base/margin.h"
#include "daemon/base/mem.h"
#include "daemon/broker/amqp_stream.h"

/* A close that is not answered by then is over. */
#define CLOSE_TIMEOUT (1 * NSEC_PER_SEC)
/* Unsent bytes of a broker that does not read: 1,024 probes are a quarter of a megabyte. */
#define OUTPUT_MAX (16 * 1024 * 1024)
/* RabbitMQ's own least, and AMQP's. */
#define FRAME_MAX_LEAST 4096

struct amqp_link {
	enum amqp_link_state state;
	struct amqp_link_config config;
	struct amqp_link_events events;
	struct amqp_stream *stream;   /* owned */
	struct amqp_decoder *decoder; /* owned */
	struct amqp_server server;
	unsigned channel_max;
	size_t frame_max;
	int heartbeat;
	int64_t last_read;     /* clock time of the last byte that came */
	bool sent;             /* something was sent since the last beat */
	struct timer beat;     /* every half heartbeat from tune on */
	struct timer deadline; /* of the whole handshake; of CLOSING */
	struct timer death;    /* at once, while `dead` is still to be told */
	bool denied;
	int code;
	char *why; /* owned; DEAD */
};

static const char *
state_name(enum amqp_link_state state)
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

static const char *
link_name(const struct amqp_link *link)
{
	return link->config.which == BROKER_HOLD ? "hold link" : "side link";
}

/* Forwards only, step by step up to UP; CLOSING only from there; any state may die. */
static void
link_set_state(struct amqp_link *link, enum amqp_link_state state)
{
	assert(link->state != AMQP_LINK_DEAD);
	assert(state == link->state + 1 || state == AMQP_LINK_DEAD);
	log_debug("%s to %s:%d: %s -> %s", link_name(link), link->config.host->host,
	    link->config.host->port, state_name(link->state), state_name(state));
	link->state = state;
}

/* ---- death ---- */

/* Takes why. */
static void
link_die(struct amqp_link *link, char *why)
{
	if (link->state == AMQP_LINK_DEAD) {
		free(why);
		return;
	}
	link_set_state(link, AMQP_LINK_DEAD);
	link->why = why;
	timers_cancel(link->config.timers, &link->beat);
	timers_cancel(link->config.timers, &link->deadline);
	amqp_stream_shutdown(link->stream);
	/* Whoever is on the stack may still use the link: its owner hears of it from the loop. */
	timers_set(link->config.timers, &link->death, clock_now(timers_clock(link->config.timers)));
}

void
amqp_link_fail(struct amqp_link *link, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	link_die(link, mem_strdup(text));
}

static void
on_death(void *ctx, uint64_t id)
{
	struct amqp_link *link = ctx;

	(void)id;
	link->events.dead(link->events.ctx, link, link->denied, link->code, link->why);
}

/* ---- sending ---- */

/* The hold link claims, checks and drops, and nothing else (amqp_broker.h). */
static bool
fits_hold_link(amqp_method_number_t method)
{
	switch (method) {
	case AMQP_CHANNEL_OPEN_METHOD:
	case AMQP_CHANNEL_CLOSE_METHOD:
	case AMQP_CHANNEL_CLOSE_OK_METHOD:
	case AMQP_QUEUE_DECLARE_METHOD:
	case AMQP_QUEUE_DELETE_METHOD:
		return true;
	default:
		return method >> 16 == AMQP_CONNECTION_CLASS;
	}
}

/* The output, counted and watched, for a frame or more. */
static struct evbuffer *
output(struct amqp_link *link)
{
	struct evbuffer *out = amqp_stream_output(link->stream);

	if (evbuffer_get_length(out) == 0)
		link->config.counts->flushes++;
	link->sent = true;
	return out;
}

static void
put_method(struct amqp_link *link, uint16_t channel, amqp_method_number_t method, void *fields)
{
	struct evbuffer *out = output(link);

	assert(link->config.which != BROKER_HOLD || fits_hold_link(method));
	link->config.counts->sent_methods++;
	if (method == AMQP_BASIC_CONSUME_METHOD)
		link->config.counts->sent_consumes++;
	if (!amqp_frame_put_method(out, channel, method, fields))
		amqp_link_fail(
		    link, "%s cannot be sent: too long for AMQP", amqp_method_name(method));
	else if (evbuffer_get_length(out) > OUTPUT_MAX)
		amqp_link_fail(link, "the broker does not read what it is sent");
}

void
amqp_link_send(struct amqp_link *link, uint16_t channel, amqp_method_number_t method, void *fields)
{
	if (link->state == AMQP_LINK_UP)
		put_method(link, channel, method, fields);
}

void
amqp_link_publish(struct amqp_link *link, uint16_t channel, amqp_basic_publish_t *fields,
    amqp_basic_properties_t *properties, amqp_bytes_t body)
{
	assert(link->config.which != BROKER_HOLD);
	if (link->state != AMQP_LINK_UP)
		return;
	link->config.counts->sent_publishes++;
	put_method(link, channel, AMQP_BASIC_PUBLISH_METHOD, fields);
	if (link->state == AMQP_LINK_UP &&
	    (!amqp_frame_put_header(output(link), channel, body.len, properties) ||
		!amqp_frame_put_body(output(link), channel, body, link->frame_max)))
		amqp_link_fail(link, "a message cannot be sent: too long for AMQP");
}

/* ---- handshake: start, tune, open ---- */

static void
on_ready(void *ctx)
{
	static const uint8_t protocol_header[] = {'A', 'M', 'Q', 'P', 0, 0, 9, 1};
	struct amqp_link *link = ctx;

	link_set_state(link, AMQP_LINK_START);
	link->last_read = clock_now(timers_clock(link->config.timers));
	if (evbuffer_add(output(link), protocol_header, sizeof(protocol_header)) != 0)
		amqp_link_fail(link, "out of memory");
}

static void
take_start(struct amqp_link *link, const amqp_connection_start_t *start)
{
	const struct amqp_host *host = link->config.host;
	struct amqp_login login = {
	    .name = link->config.settings->name,
	    .user = host->user,
	    .password = host->password,
	    .external = link->config.settings->external,
	};
	char *error;

	amqp_server_init(&link->server, start);
	error = link->events.vet(link->events.ctx, &link->server);
	if (error == NULL) {
		link->config.counts->sent_methods++;
		error = amqp_login_put(output(link), start, &login);
		link->denied = error != NULL;
	}
	if (error != NULL)
		link_die(link, error);
	else
		link_set_state(link, AMQP_LINK_TUNE);
}

/* The lesser wish, where 0 is none. */
static unsigned
lesser(unsigned a, unsigned b)
{
	return b == 0 || (a != 0 && a < b) ? a : b;
}

/* The heartbeat may be shorter than asked for. */
static bool
leaves_a_lease(struct amqp_link *link, int64_t heartbeat)
{
	int64_t wanted = link->config.settings->margin, lease, needed;

	if (margin_leaves_lease(heartbeat, wanted, &lease, &needed))
		return true;
	link->denied = true;
	amqp_link_fail(link,
	    "the broker wants a heartbeat of %d s: less the margin, %.3f s, a lease of %.3f s "
	    "would "
	    "be left, and lockbroker run needs %.3f s to end a command in time",
	    (int)(heartbeat / NSEC_PER_SEC), (double)margin_of(heartbeat, wanted) / NSEC_PER_SEC,
	    (double)lease / NSEC_PER_SEC, (double)needed / NSEC_PER_SEC);
	return false;
}

static void
take_tune(struct amqp_link *link, const amqp_connection_tune_t *tune)
{
	unsigned channel_max = lesser(UINT16_MAX, tune->channel_max);
	unsigned frame_max = lesser(AMQP_FRAME_MAX, tune->frame_max);
	unsigned heartbeat = lesser((unsigned)link->config.settings->heartbeat, tune->heartbeat);
	amqp_connection_tune_ok_t tune_ok = {
	    .channel_max = (uint16_t)channel_max,
	    .frame_max = frame_max,
	    .heartbeat = (uint16_t)heartbeat,
	};
	amqp_connection_open_t open = {
	    .virtual_host = amqp_cstring_bytes(link->config.host->vhost),
	};
	struct timers *timers = link->config.timers;

	if (frame_max < FRAME_MAX_LEAST) {
		amqp_link_fail(link, "the broker wants frames of at most %u bytes", frame_max);
		return;
	}
	if (!leaves_a_lease(link, heartbeat * NSEC_PER_SEC))
		return;
	link->channel_max = channel_max;
	link->frame_max = frame_max;
	link->heartbeat = (int)heartbeat;
	link_set_state(link, AMQP_LINK_OPEN);
	put_method(link, 0, AMQP_CONNECTION_TUNE_OK_METHOD, &tune_ok);
	if (link->state == AMQP_LINK_OPEN)
		put_method(link, 0, AMQP_CONNECTION_OPEN_METHOD, &open);
	if (link->state != AMQP_LINK_OPEN)
		return;
	timers_set(timers, &link->beat,
	    clock_now(timers_clock(timers)) + link->heartbeat * NSEC_PER_SEC / 2);
	/* Last: it takes the pool in which `tune` lies. */
	amqp_decoder_tune(link->decoder, (int)channel_max, (int)frame_max);
}

static void
take_open_ok(struct amqp_link *link)
{
	link_set_state(link, AMQP_LINK_UP);
	timers_cancel(link->config.timers, &link->deadline);
	link->events.up(link->events.ctx);
}

/* Words of ours before the broker's only where it does not say what it refused. */
static void
take_close(struct amqp_link *link, const amqp_connection_close_t *close)
{
	amqp_connection_close_ok_t close_ok = {0};
	bool login = link->state < AMQP_LINK_UP;
	char *text = amqp_frame_words(close->reply_text);

	link->code = close->reply_code;
	link->denied = login && (close->reply_code == AMQP_ACCESS_REFUSED ||
				    close->reply_code == AMQP_INVALID_PATH ||
				    close->reply_code == AMQP_NOT_ALLOWED);
	put_method(link, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &close_ok);
	link_die(link, mem_printf("%s (%d)", text, close->reply_code));
	free(text);
}

/* ---- receiving ---- */

static void
take_connection_method(struct amqp_link *link, const struct amqp_frame *frame)
{
	switch (frame->method) {
	case AMQP_CONNECTION_START_METHOD:
		if (link->state != AMQP_LINK_START)
			break;
		take_start(link, frame->fields);
		return;
	case AMQP_CONNECTION_TUNE_METHOD:
		if (link->state != AMQP_LINK_TUNE)
			break;
		take_tune(link, frame->fields);
		return;
	case AMQP_CONNECTION_OPEN_OK_METHOD:
		if (link->state != AMQP_LINK_OPEN)
			break;
		take_open_ok(link);
		return;
	case AMQP_CONNECTION_CLOSE_METHOD:
		take_close(link, frame->fields);
		return;
	case AMQP_CONNECTION_CLOSE_OK_METHOD:
		if (link->state != AMQP_LINK_CLOSING)
			break;
		amqp_link_fail(link, "closed");
		return;
	case AMQP_CONNECTION_BLOCKED_METHOD: {
		const amqp_connection_blocked_t *blocked = frame->fields;
		char *why = amqp_frame_words(blocked->reason);

		if (link->state == AMQP_LINK_UP)
			link->events.blocked(link->events.ctx, true, why);
		free(why);
		return;
	}
	case AMQP_CONNECTION_UNBLOCKED_METHOD:
		if (link->state == AMQP_LINK_UP)
			link->events.blocked(link->events.ctx, false, "");
		return;
	default:
		break;
	}
	amqp_link_fail(link, "the broker sent %s while %s", amqp_method_name(frame->method),
	    state_name(link->state));
}

static void
take_frame(struct amqp_link *link, const struct amqp_frame *frame)
{
	if (frame->type == AMQP_FRAME_METHOD)
		link->config.counts->received_methods++;
	if (frame->method == AMQP_BASIC_DELIVER_METHOD)
		link->config.counts->deliveries++;
	if (frame->type == AMQP_FRAME_HEARTBEAT)
		return;
	if (frame->channel == 0) {
		if (frame->type == AMQP_FRAME_METHOD)
			take_connection_method(link, frame);
		else
			amqp_link_fail(link, "the broker sent content on channel 0");
	} else if (link->state == AMQP_LINK_UP) {
		link->events.frame(link->events.ctx, frame);
	} else if (link->state != AMQP_LINK_CLOSING) {
		amqp_link_fail(link, "the broker used channel %u while %s", frame->channel,
		    state_name(link->state));
	}
}

static void
on_bytes(void *ctx, struct evbuffer *in)
{
	struct amqp_link *link = ctx;

	link->last_read = clock_now(timers_clock(link->config.timers));
	while (link->state != AMQP_LINK_DEAD) {
		struct amqp_frame frame;

		switch (amqp_decoder_next(link->decoder, in, &frame)) {
		case AMQP_DECODER_MORE:
			return;
		case AMQP_DECODER_BAD:
			amqp_link_fail(link, "%s", amqp_decoder_why(link->decoder));
			return;
		case AMQP_DECODER_FRAME:
			take_frame(link, &frame);
			break;
		}
	}
}

static void
on_failed(void *ctx, const char *why)
{
	struct amqp_link *link = ctx;

	if (link->state == AMQP_LINK_TUNE)
		amqp_link_fail(link, "%s, after the login was sent", why);
	else
		amqp_link_fail(link, "%s", why);
}

/* ---- time ---- */

static void
on_beat(void *ctx, uint64_t id)
{
	struct amqp_link *link = ctx;
	struct timers *timers = link->config.timers;
	int64_t now = clock_now(timers_clock(timers));
	struct evbuffer *out = amqp_stream_output(link->stream);

	(void)id;
	if (now - link->last_read >= 2 * link->heartbeat * NSEC_PER_SEC) {
		amqp_link_fail(
		    link, "no byte from the broker for %d s (two heartbeats)", 2 * link->heartbeat);
		return;
	}
	/* What has not left yet is as good as a heartbeat, once it can leave. */
	if (!link->sent && evbuffer_get_length(out) == 0)
		amqp_frame_put_heartbeat(output(link));
	link->sent = false;
	timers_set(timers, &link->beat, now + link->heartbeat * NSEC_PER_SEC / 2);
}

static void
on_deadline(void *ctx, uint64_t id)
{
	struct amqp_link *link = ctx;

	(void)id;
	if (link->state == AMQP_LINK_CLOSING)
		amqp_link_fail(link, "closed, without an answer");
	else
		amqp_link_fail(link, "no connection within %.3g s (%s)",
		    (double)link->config.settings->connect_timeout / (double)NSEC_PER_SEC,
		    link->state == AMQP_LINK_STREAM
			? amqp_stream_state_name(amqp_stream_state(link->stream))
			: state_name(link->state));
}

/* ---- life ---- */

struct amqp_link *
amqp_link_new(const struct amqp_link_config *config, const struct amqp_link_events *events)
{
	struct amqp_link *link = mem_alloc(sizeof(*link));
	const struct amqp_stream_events stream_events = {
	    .ready = on_ready,
	    .bytes = on_bytes,
	    .failed = on_failed,
	    .ctx = link,
	};

	assert(config->settings->heartbeat > 0);
	link->state = AMQP_LINK_STREAM;
	link->config = *config;
	link->events = *events;
	link->decoder = amqp_decoder_new();
	timer_init(&link->beat, on_beat, link, 0);
	timer_init(&link->deadline, on_deadline, link, 0);
	timer_init(&link->death, on_death, link, 0);
	link->stream = amqp_stream_new(config->base, config->host->host, config->host->port,
	    config->addresses, config->tls, config->settings->connect_timeout, &stream_events);
	timers_set(config->timers, &link->deadline,
	    clock_now(timers_clock(config->timers)) + config->settings->connect_timeout);
	return link;
}

static void
cancel_timers(struct amqp_link *link)
{
	timers_cancel(link->config.timers, &link->beat);
	timers_cancel(link->config.timers, &link->deadline);
	timers_cancel(link->config.timers, &link->death);
}

void
amqp_link_free(struct amqp_link *link)
{
	if (link == NULL)
		return;
	cancel_timers(link);
	amqp_stream_free(link->stream);
	amqp_decoder_free(link->decoder);
	amqp_server_done(&link->server);
	free(link->why);
	free(link);
}

static void
put_close(struct amqp_link *link)
{
	amqp_connection_close_t close = {
	    .reply_code = AMQP_REPLY_SUCCESS,
	    .reply_text = amqp_cstring_bytes("goodbye"),
	};

	put_method(link, 0, AMQP_CONNECTION_CLOSE_METHOD, &close);
}

void
amqp_link_close(struct amqp_link *link)
{
	struct timers *timers = link->config.timers;

	assert(link->state == AMQP_LINK_UP);
	put_close(link);
	if (link->state == AMQP_LINK_DEAD)
		return;
	link_set_state(link, AMQP_LINK_CLOSING);
	timers_set(timers, &link->deadline, clock_now(timers_clock(timers)) + CLOSE_TIMEOUT);
}

void
amqp_link_quit(struct amqp_link *link)
{
	if (link->state == AMQP_LINK_UP)
		put_close(link);
	if (link->state != AMQP_LINK_DEAD)
		link_die(link, mem_strdup("closed"));
	cancel_timers(link);
}

struct addrinfo *
amqp_link_take_rest(struct amqp_link *link)
{
	return amqp_stream_take_rest(link->stream);
}

enum amqp_link_state
amqp_link_state(const struct amqp_link *link)
{
	return link->state;
}

const struct amqp_server *
amqp_link_server(const struct amqp_link *link)
{
	return &link->server;
}

unsigned
amqp_link_channel_max(const struct amqp_link *link)
{
	return link->channel_max;
}

int
amqp_link_heartbeat(const struct amqp_link *link)
{
	return link->heartbeat;
}
