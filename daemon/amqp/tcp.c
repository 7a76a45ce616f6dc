#include "daemon/amqp/tcp.h"

#include <assert.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>

#include "daemon/amqp/buffer.h"
#include "daemon/amqp/link.h"
#include "daemon/amqp/login.h"
#include "daemon/amqp/settings.h"
#include "daemon/amqp/stream.h"
#include "daemon/amqp/tls.h"
#include "daemon/base/log.h"
#include "daemon/base/margin.h"
#include "daemon/base/mem.h"
#include "daemon/base/queue.h"

/*
 * The maximum of unsent bytes to a broker that does not read. 1,024 probes are a quarter of a
 * megabyte.
 */
#define OUTPUT_MAX (16 * 1024 * 1024)
/* The minimum of RabbitMQ and of AMQP. */
#define FRAME_MAX_LEAST 4096

/* Shared by all links of a broker. */
struct dial {
	struct event_base *base; /* borrowed */
	SSL_CTX *tls;            /* owned; NULL if no host wants TLS */
	TAILQ_HEAD(, tcp_link) links;
};

struct tcp_link {
	struct amqp_link base; /* first */
	TAILQ_ENTRY(tcp_link) of_dial;
	struct dial *dial;            /* borrowed */
	struct amqp_stream *stream;   /* owned */
	struct amqp_decoder *decoder; /* owned */
	size_t frame_max;
	bool sent; /* bytes were sent since the last beat */
	bool was_up;
	char *tried;           /* owned; failures of earlier addresses; NULL = none */
	struct timer beat;     /* each half heartbeat, from connection.tune on */
	int64_t patience;      /* ns for the whole handshake with the present address */
	struct timer deadline; /* at the end of that time */
};

static struct tcp_link *
tcp_of(struct amqp_link *link)
{
	return (struct tcp_link *)link;
}

static int64_t
now(const struct tcp_link *link)
{
	return clock_now(timers_clock(link->base.config.timers));
}

/* ---- sending ---- */

/* Returns the output for one or more frames, and counts the flush. */
static struct evbuffer *
output(struct tcp_link *link)
{
	struct evbuffer *out = amqp_stream_output(link->stream);

	if (evbuffer_get_length(out) == 0)
		link->base.config.counts->flushes++;
	link->sent = true;
	return out;
}

static bool
tcp_send(struct amqp_link *link, uint16_t channel, amqp_method_number_t method, void *fields)
{
	struct evbuffer *out = output(tcp_of(link));

	if (!amqp_frame_put_method(out, channel, method, fields))
		return false;
	if (evbuffer_get_length(out) > OUTPUT_MAX)
		amqp_link_fail(link, "the broker does not read its input");
	return true;
}

static bool
tcp_publish(struct amqp_link *link, uint16_t channel, amqp_basic_publish_t *fields,
    amqp_basic_properties_t *properties, amqp_bytes_t body)
{
	struct tcp_link *tcp = tcp_of(link);

	return tcp_send(link, channel, AMQP_BASIC_PUBLISH_METHOD, fields) &&
	       (link->state == AMQP_LINK_DEAD ||
		   (amqp_frame_put_header(output(tcp), channel, body.len, properties) &&
		       amqp_frame_put_body(output(tcp), channel, body, tcp->frame_max)));
}

/* Appends a method of channel 0, also before the link is up. */
static void
put_method(struct tcp_link *link, amqp_method_number_t method, void *fields)
{
	link->base.config.counts->sent_methods++;
	if (!tcp_send(&link->base, 0, method, fields))
		amqp_link_fail(
		    &link->base, "%s cannot be sent: too long for AMQP", amqp_method_name(method));
}

/* ---- handshake: start, tune, open ---- */

static void
on_ready(void *ctx)
{
	static const uint8_t protocol_header[] = {'A', 'M', 'Q', 'P', 0, 0, 9, 1};
	struct tcp_link *link = ctx;

	amqp_link_set_state(&link->base, AMQP_LINK_START);
	link->base.last_read = now(link);
	if (evbuffer_add(output(link), protocol_header, sizeof(protocol_header)) != 0)
		amqp_link_fail(&link->base, "out of memory");
}

static void
take_start(struct tcp_link *link, const amqp_connection_start_t *start)
{
	const struct amqp_host *host = link->base.config.host;
	static const char *const roles[] = {
	    [AMQP_LINK_LOCKS] = "locks",
	    [AMQP_LINK_AUXILIARY] = "auxiliary",
	    [AMQP_LINK_QUORUM] = "quorum",
	};
	char *name =
	    mem_printf("%s (%s)", link->base.config.settings->name, roles[link->base.config.role]);
	struct amqp_login login = {
	    .name = name,
	    .user = host->user,
	    .password = host->password,
	    .external = link->base.config.settings->external,
	};
	char *error;

	amqp_server_init(&link->base.server, start);
	error = link->base.events.vet(link->base.events.ctx, &link->base.server);
	if (error == NULL) {
		link->base.config.counts->sent_methods++;
		error = amqp_login_put(output(link), start, &login);
		link->base.refused = error != NULL;
	}
	free(name);
	if (error != NULL)
		amqp_link_die(&link->base, error);
	else
		amqp_link_set_state(&link->base, AMQP_LINK_TUNE);
}

/* The lesser of two limits; 0 is no limit. */
static unsigned
lesser(unsigned a, unsigned b)
{
	return b == 0 || (a != 0 && a < b) ? a : b;
}

/* Whether the heartbeat, which may be shorter than wanted, is long enough. */
static bool
leaves_a_lease(struct tcp_link *link, int64_t heartbeat)
{
	int64_t wanted = link->base.config.settings->margin, lease, needed;

	if (margin_leaves_lease(heartbeat, wanted, &lease, &needed))
		return true;
	link->base.refused = true;
	amqp_link_fail(&link->base,
	    "the broker wants a heartbeat of %d s: less the margin, %.3f s, a lease of %.3f s "
	    "remains; lockbroker run needs %.3f s",
	    (int)(heartbeat / NSEC_PER_SEC), (double)margin_of(heartbeat, wanted) / NSEC_PER_SEC,
	    (double)lease / NSEC_PER_SEC, (double)needed / NSEC_PER_SEC);
	return false;
}

static void
take_tune(struct tcp_link *link, const amqp_connection_tune_t *tune)
{
	unsigned channel_max = lesser(UINT16_MAX, tune->channel_max);
	unsigned frame_max = lesser(AMQP_FRAME_MAX, tune->frame_max);
	unsigned heartbeat =
	    lesser((unsigned)link->base.config.settings->heartbeat, tune->heartbeat);
	amqp_connection_tune_ok_t tune_ok = {
	    .channel_max = (uint16_t)channel_max,
	    .frame_max = frame_max,
	    .heartbeat = (uint16_t)heartbeat,
	};
	amqp_connection_open_t open = {
	    .virtual_host = amqp_cstring_bytes(link->base.config.host->vhost),
	};
	struct timers *timers = link->base.config.timers;

	if (frame_max < FRAME_MAX_LEAST) {
		amqp_link_fail(
		    &link->base, "the broker wants frames of at most %u bytes", frame_max);
		return;
	}
	if (!leaves_a_lease(link, heartbeat * NSEC_PER_SEC))
		return;
	link->base.channel_max = channel_max;
	link->frame_max = frame_max;
	link->base.heartbeat = (int)heartbeat;
	amqp_link_set_state(&link->base, AMQP_LINK_OPEN);
	put_method(link, AMQP_CONNECTION_TUNE_OK_METHOD, &tune_ok);
	if (link->base.state == AMQP_LINK_OPEN)
		put_method(link, AMQP_CONNECTION_OPEN_METHOD, &open);
	if (link->base.state != AMQP_LINK_OPEN)
		return;
	timers_set(timers, &link->beat,
	    clock_now(timers_clock(timers)) + link->base.heartbeat * NSEC_PER_SEC / 2);
	/* At the end, because it frees the memory of `tune`. */
	amqp_decoder_tune(link->decoder, (int)channel_max, (int)frame_max);
}

static void
take_open_ok(struct tcp_link *link)
{
	timers_cancel(link->base.config.timers, &link->deadline);
	link->was_up = true;
	amqp_link_is_up(&link->base);
}

/* ---- receiving ---- */

static bool
tcp_handshake(struct amqp_link *link, const struct amqp_frame *frame)
{
	struct tcp_link *tcp = tcp_of(link);

	if (frame->method == AMQP_CONNECTION_START_METHOD && link->state == AMQP_LINK_START)
		take_start(tcp, frame->fields);
	else if (frame->method == AMQP_CONNECTION_TUNE_METHOD && link->state == AMQP_LINK_TUNE)
		take_tune(tcp, frame->fields);
	else if (frame->method == AMQP_CONNECTION_OPEN_OK_METHOD && link->state == AMQP_LINK_OPEN)
		take_open_ok(tcp);
	else
		return false;
	return true;
}

static void
on_bytes(void *ctx, struct evbuffer *in)
{
	struct tcp_link *link = ctx;

	link->base.last_read = now(link);
	while (link->base.state != AMQP_LINK_DEAD) {
		struct amqp_frame frame;

		switch (amqp_decoder_next(link->decoder, in, &frame)) {
		case AMQP_DECODER_MORE:
			return;
		case AMQP_DECODER_BAD:
			amqp_link_fail(&link->base, "%s", amqp_decoder_why(link->decoder));
			return;
		case AMQP_DECODER_FRAME:
			amqp_link_take(&link->base, &frame);
			break;
		}
	}
}

static void
on_failed(void *ctx, const char *why)
{
	struct tcp_link *link = ctx;

	if (link->base.state == AMQP_LINK_TUNE)
		amqp_link_fail(&link->base, "%s, after the login was sent", why);
	else
		amqp_link_fail(&link->base, "%s", why);
}

/* ---- time ---- */

static void
on_beat(void *ctx, uint64_t id)
{
	struct tcp_link *link = ctx;
	struct timers *timers = link->base.config.timers;
	int64_t now = clock_now(timers_clock(timers));
	struct evbuffer *out = amqp_stream_output(link->stream);

	(void)id;
	if (now - link->base.last_read >= 2 * link->base.heartbeat * NSEC_PER_SEC) {
		amqp_link_fail(&link->base, "no byte from the broker for %d s (two heartbeats)",
		    2 * link->base.heartbeat);
		return;
	}
	/* Unsent bytes will serve as a heartbeat when they are sent. */
	if (!link->sent && evbuffer_get_length(out) == 0)
		amqp_frame_put_heartbeat(output(link));
	link->sent = false;
	timers_set(timers, &link->beat, now + link->base.heartbeat * NSEC_PER_SEC / 2);
}

static void
on_deadline(void *ctx, uint64_t id)
{
	struct tcp_link *link = ctx;
	enum amqp_link_state state = link->base.state;

	(void)id;
	amqp_link_fail(&link->base, "no connection within %.3g s (%s)",
	    (double)link->patience / (double)NSEC_PER_SEC,
	    state == AMQP_LINK_STREAM ? amqp_stream_state_name(amqp_stream_state(link->stream))
				      : amqp_link_state_word(state));
}

/* ---- life ---- */

static struct amqp_stream_events
stream_events_of(struct tcp_link *link)
{
	return (struct amqp_stream_events){
	    .ready = on_ready, .bytes = on_bytes, .failed = on_failed, .ctx = link};
}

/* addresses: owned from now on; NULL: they are looked up. */
static void
begin(struct tcp_link *link, struct addrinfo *addresses)
{
	const struct amqp_link_config *config = &link->base.config;
	const struct amqp_stream_events events = stream_events_of(link);

	link->patience = config->settings->connect_timeout;
	if (config->until != 0 && link->patience > config->until - now(link))
		link->patience = config->until - now(link);
	link->decoder = amqp_decoder_new();
	link->stream = amqp_stream_new(link->dial->base, config->host->host, config->host->port,
	    addresses, config->host->tls ? link->dial->tls : NULL, link->patience, &events);
	timers_set(config->timers, &link->deadline, now(link) + link->patience);
}

static void
end(struct tcp_link *link)
{
	timers_cancel(link->base.config.timers, &link->beat);
	timers_cancel(link->base.config.timers, &link->deadline);
	amqp_stream_free(link->stream);
	amqp_decoder_free(link->decoder);
	amqp_server_done(&link->base.server);
}

static void
tcp_shut_down(struct amqp_link *link)
{
	struct tcp_link *tcp = tcp_of(link);

	timers_cancel(link->config.timers, &tcp->beat);
	timers_cancel(link->config.timers, &tcp->deadline);
	amqp_stream_shutdown(tcp->stream);
}

/* Adds the failure, unless the text already contains it. */
static void
add_tried(struct tcp_link *link)
{
	char *before = link->tried;

	if (before == NULL) {
		link->tried = mem_strdup(link->base.why);
	} else if (strstr(before, link->base.why) == NULL) {
		link->tried = mem_printf("%s; at another address: %s", before, link->base.why);
		free(before);
	}
}

/*
 * If an address accepts the connection but the handshake fails, another address of the name may
 * belong to a broker that works. A refusal in words is the broker's answer: no other address is
 * tried.
 */
static bool
tcp_try_again(struct amqp_link *link)
{
	struct tcp_link *tcp = tcp_of(link);
	struct addrinfo *rest = NULL;

	if (tcp->was_up)
		return false;
	add_tried(tcp);
	if (!link->dropped && !link->refused &&
	    (link->config.until == 0 || now(tcp) < link->config.until))
		rest = amqp_stream_take_rest(tcp->stream);
	if (rest == NULL) {
		free(link->why);
		link->why = tcp->tried;
		tcp->tried = NULL;
		return false;
	}
	log_debug("%s to %s:%d: trying the next address: %s", link->config.name,
	    link->config.host->host, link->config.host->port, tcp->tried);
	end(tcp);
	link->code = 0;
	amqp_link_set_state(link, AMQP_LINK_STREAM);
	begin(tcp, rest);
	return true;
}

static void
tcp_free(struct amqp_link *link)
{
	struct tcp_link *tcp = tcp_of(link);
	struct addrinfo *rest = amqp_stream_take_rest(tcp->stream);

	if (rest != NULL)
		freeaddrinfo(rest);
	end(tcp);
	TAILQ_REMOVE(&tcp->dial->links, tcp, of_dial);
	amqp_link_done(link);
	free(tcp->tried);
	free(tcp);
}

static bool
tcp_save(struct amqp_link *link, struct amqp_link_saved *ret)
{
	struct tcp_link *tcp = tcp_of(link);

	*ret = (struct amqp_link_saved){
	    .channel_max = (int)link->channel_max,
	    .frame_max = (int)tcp->frame_max,
	    .heartbeat = link->heartbeat,
	};
	ret->fd = amqp_stream_save(tcp->stream, &ret->input, &ret->output);
	return ret->fd >= 0;
}

static struct tcp_link *
tcp_new(
    struct dial *dial, const struct amqp_link_config *config, const struct amqp_link_events *events)
{
	static const struct amqp_link_ops ops = {
	    .send = tcp_send,
	    .publish = tcp_publish,
	    .handshake = tcp_handshake,
	    .shut_down = tcp_shut_down,
	    .try_again = tcp_try_again,
	    .save = tcp_save,
	    .free = tcp_free,
	};
	struct tcp_link *link = mem_alloc(sizeof(*link));

	assert(config->settings->heartbeat > 0);
	amqp_link_init(&link->base, &ops, config, events);
	link->dial = dial;
	TAILQ_INSERT_TAIL(&link->dial->links, link, of_dial);
	timer_init(&link->beat, on_beat, link, 0);
	timer_init(&link->deadline, on_deadline, link, 0);
	return link;
}

static struct amqp_link *
tcp_connect(void *ctx, const struct amqp_link_config *config, const struct amqp_link_events *events)
{
	struct tcp_link *link = tcp_new(ctx, config, events);

	begin(link, NULL);
	return &link->base;
}

/*
 * The last heartbeat may have been sent long ago: one is due now. The saved values are checked, as
 * the decoder relies on them.
 */
static struct amqp_link *
tcp_resume(void *ctx, const struct amqp_link_config *config, const struct amqp_link_events *events,
    const struct amqp_link_saved *saved)
{
	struct tcp_link *link;
	struct amqp_stream_events bytes;

	if (saved->fd < 0 || saved->frame_max < FRAME_MAX_LEAST)
		return NULL;
	link = tcp_new(ctx, config, events);
	bytes = stream_events_of(link);
	amqp_link_resume(&link->base, saved);
	link->frame_max = (size_t)saved->frame_max;
	link->was_up = true;
	link->base.last_read = now(link);
	link->decoder = amqp_decoder_new();
	amqp_decoder_resume(link->decoder, saved->channel_max, saved->frame_max);
	link->stream = amqp_stream_resume(
	    link->dial->base, config->host->host, saved->fd, &saved->input, &bytes);
	if (amqp_stream_state(link->stream) != AMQP_STREAM_READY) {
		amqp_link_fail(&link->base, "out of memory");
		return &link->base;
	}
	(void)evbuffer_add(
	    amqp_stream_output(link->stream), saved->output.bytes, saved->output.len);
	timers_set(config->timers, &link->beat, now(link));
	return &link->base;
}

static void
dial_flush(void *ctx)
{
	struct dial *dial = ctx;
	struct tcp_link *link;

	TAILQ_FOREACH (link, &dial->links, of_dial)
		amqp_stream_flush(link->stream);
}

static void
dial_free(void *ctx)
{
	struct dial *dial = ctx;

	SSL_CTX_free(dial->tls);
	free(dial);
}

static bool
any_wants_tls(const struct amqp_settings *settings)
{
	for (size_t i = 0; i < settings->host_count; i++)
		if (settings->hosts[i].tls)
			return true;
	return false;
}

bool
amqp_tcp_dialer(struct event_base *base, const struct amqp_settings *settings,
    struct amqp_dialer *ret, char **ret_error)
{
	struct dial *dial;
	SSL_CTX *tls = NULL;

	if (any_wants_tls(settings)) {
		tls = amqp_tls_new(
		    settings->tls_ca, settings->tls_cert, settings->tls_key, ret_error);
		if (tls == NULL)
			return false;
	}
	dial = mem_alloc(sizeof(*dial));
	dial->base = base;
	dial->tls = tls;
	TAILQ_INIT(&dial->links);
	*ret = (struct amqp_dialer){
	    .connect = tcp_connect,
	    .resume = tcp_resume,
	    .flush = dial_flush,
	    .free = dial_free,
	    .ctx = dial,
	};
	return true;
}
