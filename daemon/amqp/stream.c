#include "daemon/amqp/stream.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <openssl/err.h>

#include "daemon/amqp/resolve.h"
#include "daemon/amqp/tls.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"

struct amqp_stream {
	enum amqp_stream_state state;
	struct event_base *base; /* borrowed */
	const char *host;        /* borrowed from the owner */
	SSL_CTX *tls;            /* borrowed; NULL = plain */
	struct amqp_stream_events events;
	struct amqp_resolve *resolve; /* owned; while RESOLVING */
	struct addrinfo *addresses;   /* owned */
	struct addrinfo *address;     /* the present one, in addresses */
	struct timeval patience;      /* for all addresses, then for each */
	int fd;                       /* owned while CONNECTING, then the bufferevent's */
	struct event *event;          /* owned; CONNECTING, or the start without a lookup */
	struct bufferevent *bev;      /* owned; TLS, READY, and kept until free */
	char *why;                    /* owned; of the last address that failed */
};

static void connect_next(struct amqp_stream *stream);

const char *
amqp_stream_state_name(enum amqp_stream_state state)
{
	switch (state) {
	case AMQP_STREAM_RESOLVING:
		return "looking up the name";
	case AMQP_STREAM_CONNECTING:
		return "connecting by TCP";
	case AMQP_STREAM_TLS:
		return "TLS handshake";
	case AMQP_STREAM_READY:
		return "ready";
	case AMQP_STREAM_DEAD:
		return "dead";
	}
	return "?";
}

/* States only move forwards. DEAD may follow each. */
static void
stream_set_state(struct amqp_stream *stream, enum amqp_stream_state state)
{
	assert(state >= stream->state && stream->state != AMQP_STREAM_DEAD);
	if (state != stream->state)
		log_debug("stream to %s: %s -> %s", stream->host,
		    amqp_stream_state_name(stream->state), amqp_stream_state_name(state));
	stream->state = state;
}

static void
stream_fail(struct amqp_stream *stream, const char *why)
{
	if (stream->state == AMQP_STREAM_DEAD)
		return;
	amqp_stream_shutdown(stream);
	stream->events.failed(stream->events.ctx, why);
}

static void
on_read(struct bufferevent *bev, void *ctx)
{
	struct amqp_stream *stream = ctx;

	if (stream->state == AMQP_STREAM_READY)
		stream->events.bytes(stream->events.ctx, bufferevent_get_input(bev));
}

/* Of a plain socket: the loop has written what a flush could not. */
static void
on_written(struct bufferevent *bev, void *ctx)
{
	(void)ctx;
	bufferevent_disable(bev, EV_WRITE);
}

/*
 * A write met a socket that the other end has closed. The other end may have said why, and those
 * bytes can still be read. The bufferevent freezes its input's end, as only it may add bytes there.
 */
static void
read_last_words(struct amqp_stream *stream)
{
	struct evbuffer *in = bufferevent_get_input(stream->bev);

	evbuffer_unfreeze(in, 0);
	while (evbuffer_read(in, stream->fd, -1) > 0)
		continue;
	evbuffer_freeze(in, 0);
	if (evbuffer_get_length(in) > 0)
		stream->events.bytes(stream->events.ctx, in);
}

static void
on_event(struct bufferevent *bev, short what, void *ctx)
{
	struct amqp_stream *stream = ctx;
	SSL *session = stream->tls != NULL ? bufferevent_openssl_get_ssl(bev) : NULL;
	int error = EVUTIL_SOCKET_ERROR();
	char *why;

	if (stream->state == AMQP_STREAM_DEAD)
		return;
	if (what & BEV_EVENT_CONNECTED) {
		stream_set_state(stream, AMQP_STREAM_READY);
		stream->events.ready(stream->events.ctx);
		return;
	}
	if (session != NULL && (what & BEV_EVENT_ERROR || stream->state == AMQP_STREAM_TLS))
		why = amqp_tls_why(session, stream->host, bufferevent_get_openssl_error(bev),
		    what & BEV_EVENT_EOF ? 0 : error);
	else if (what & BEV_EVENT_EOF)
		why = mem_strdup("the connection was closed by the other end");
	else
		why = mem_strdup(strerror(error));
	if (session == NULL && what & BEV_EVENT_WRITING)
		read_last_words(stream);
	stream_fail(stream, why);
	free(why);
}

/* The socket is connected: a bufferevent takes it over. False: memory ran out. */
static bool
start_bytes(struct amqp_stream *stream)
{
	SSL *session = NULL;

	if (stream->tls != NULL) {
		session = amqp_tls_session(stream->tls, stream->host);
		if (session != NULL)
			stream->bev = bufferevent_openssl_socket_new(stream->base, stream->fd,
			    session, BUFFEREVENT_SSL_CONNECTING, BEV_OPT_CLOSE_ON_FREE);
	} else {
		stream->bev =
		    bufferevent_socket_new(stream->base, stream->fd, BEV_OPT_CLOSE_ON_FREE);
	}
	if (stream->bev == NULL) {
		SSL_free(session);
		return false;
	}
	/* A broker may close without a close_notify of TLS. */
	if (session != NULL)
		bufferevent_openssl_set_allow_dirty_shutdown(stream->bev, 1);
	bufferevent_setcb(
	    stream->bev, on_read, session != NULL ? NULL : on_written, on_event, stream);
	stream_set_state(stream, session != NULL ? AMQP_STREAM_TLS : AMQP_STREAM_READY);
	bufferevent_enable(stream->bev, EV_READ);
	if (session == NULL)
		bufferevent_disable(stream->bev, EV_WRITE);
	return true;
}

static void
on_connected(evutil_socket_t fd, short what, void *ctx)
{
	struct amqp_stream *stream = ctx;
	socklen_t len = sizeof(int);
	int error = 0;

	if (what & EV_TIMEOUT)
		error = ETIMEDOUT;
	else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	event_free(stream->event);
	stream->event = NULL;
	if (error == 0) {
		if (!start_bytes(stream))
			stream_fail(stream, "out of memory for the connection");
		else if (stream->state == AMQP_STREAM_READY)
			stream->events.ready(stream->events.ctx);
		return;
	}
	free(stream->why);
	stream->why = mem_strdup(strerror(error));
	close(stream->fd);
	stream->fd = -1;
	stream->address = stream->address->ai_next;
	connect_next(stream);
}

/* Begins to connect to one address. Returns 0 or an errno. */
static int
connect_begin(struct amqp_stream *stream, const struct addrinfo *address)
{
	int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
	int error;

	if (fd < 0)
		return errno;
	/* A claim must not wait for the TCP ACK of earlier bytes. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(fd, address->ai_addr, address->ai_addrlen) == 0 || errno == EINPROGRESS) {
		stream->event = event_new(stream->base, fd, EV_WRITE, on_connected, stream);
		if (stream->event != NULL && event_add(stream->event, &stream->patience) == 0) {
			stream->fd = fd;
			return 0;
		}
		if (stream->event != NULL)
			event_free(stream->event);
		stream->event = NULL;
		errno = ENOMEM;
	}
	error = errno;
	close(fd);
	return error;
}

static void
connect_next(struct amqp_stream *stream)
{
	while (stream->address != NULL) {
		int error = connect_begin(stream, stream->address);

		if (error == 0)
			return;
		free(stream->why);
		stream->why = mem_strdup(strerror(error));
		stream->address = stream->address->ai_next;
	}
	stream_fail(stream, stream->why != NULL ? stream->why : "the name has no addresses");
}

static void
share_patience(struct amqp_stream *stream)
{
	int64_t usec = stream->patience.tv_sec * INT64_C(1000000) + stream->patience.tv_usec;
	int64_t count = 0;

	for (const struct addrinfo *at = stream->addresses; at != NULL; at = at->ai_next)
		count++;
	if (count > 1)
		usec /= count;
	stream->patience.tv_sec = (time_t)(usec / 1000000);
	stream->patience.tv_usec = (suseconds_t)(usec % 1000000);
}

static void
connect_begin_all(struct amqp_stream *stream, struct addrinfo *addresses)
{
	stream->addresses = stream->address = addresses;
	share_patience(stream);
	stream_set_state(stream, AMQP_STREAM_CONNECTING);
	connect_next(stream);
}

static void
on_resolved(void *ctx, struct addrinfo *addresses, const char *why)
{
	struct amqp_stream *stream = ctx;
	char *words;

	if (stream->state == AMQP_STREAM_DEAD) {
		if (addresses != NULL)
			freeaddrinfo(addresses);
		return;
	}
	if (why != NULL) {
		words = mem_printf("looking up %s: %s", stream->host, why);
		stream_fail(stream, words);
		free(words);
		return;
	}
	connect_begin_all(stream, addresses);
}

/* From the loop: the addresses are known, or the lookup failed. */
static void
on_start(evutil_socket_t fd, short what, void *ctx)
{
	struct amqp_stream *stream = ctx;

	(void)fd;
	(void)what;
	event_free(stream->event);
	stream->event = NULL;
	if (stream->addresses != NULL)
		connect_begin_all(stream, stream->addresses);
	else
		stream_fail(stream, "no file descriptor is left for the name lookup");
}

struct amqp_stream *
amqp_stream_new(struct event_base *base, const char *host, int port, struct addrinfo *addresses,
    SSL_CTX *tls, int64_t patience, const struct amqp_stream_events *events)
{
	struct amqp_stream *stream = mem_alloc(sizeof(*stream));

	stream->state = AMQP_STREAM_RESOLVING;
	stream->base = base;
	stream->host = host;
	stream->tls = tls;
	stream->patience.tv_sec = (time_t)(patience / NSEC_PER_SEC);
	stream->patience.tv_usec = (suseconds_t)(patience % NSEC_PER_SEC / 1000);
	stream->events = *events;
	stream->fd = -1;
	stream->addresses = addresses;
	if (addresses == NULL)
		stream->resolve = amqp_resolve_new(base, host, port, on_resolved, stream);
	if (stream->resolve == NULL) {
		stream->event = event_new(base, -1, EV_TIMEOUT, on_start, stream);
		if (stream->event != NULL)
			event_active(stream->event, EV_TIMEOUT, 0);
	}
	return stream;
}

struct amqp_stream *
amqp_stream_resume(struct event_base *base, const char *host, int fd,
    const struct state_bytes *input, const struct amqp_stream_events *events)
{
	struct amqp_stream *stream = mem_alloc(sizeof(*stream));
	struct evbuffer *in;

	stream->state = AMQP_STREAM_CONNECTING;
	stream->base = base;
	stream->host = host;
	stream->fd = fd;
	stream->events = *events;
	if (!start_bytes(stream))
		return stream;
	in = bufferevent_get_input(stream->bev);
	evbuffer_unfreeze(in, 0);
	(void)evbuffer_add(in, input->bytes, input->len);
	evbuffer_freeze(in, 0);
	return stream;
}

/* The bytes of a buffer in one piece. */
static struct state_bytes
bytes_of(struct evbuffer *buffer)
{
	size_t len = evbuffer_get_length(buffer);

	return (struct state_bytes){
	    .bytes = len == 0 ? NULL : evbuffer_pullup(buffer, -1), .len = len};
}

int
amqp_stream_save(
    struct amqp_stream *stream, struct state_bytes *ret_input, struct state_bytes *ret_output)
{
	if (stream->state != AMQP_STREAM_READY || stream->tls != NULL)
		return -1;
	amqp_stream_flush(stream);
	*ret_input = bytes_of(bufferevent_get_input(stream->bev));
	*ret_output = bytes_of(bufferevent_get_output(stream->bev));
	return stream->fd;
}

void
amqp_stream_free(struct amqp_stream *stream)
{
	if (stream == NULL)
		return;
	amqp_resolve_free(stream->resolve);
	if (stream->event != NULL)
		event_free(stream->event);
	if (stream->bev != NULL)
		bufferevent_free(stream->bev);
	else if (stream->fd >= 0)
		close(stream->fd);
	if (stream->addresses != NULL)
		freeaddrinfo(stream->addresses);
	free(stream->why);
	free(stream);
}

struct addrinfo *
amqp_stream_take_rest(struct amqp_stream *stream)
{
	struct addrinfo *rest;

	if (stream->address == NULL)
		return NULL;
	rest = stream->address->ai_next;
	stream->address->ai_next = NULL;
	return rest;
}

enum amqp_stream_state
amqp_stream_state(const struct amqp_stream *stream)
{
	return stream->state;
}

struct evbuffer *
amqp_stream_output(struct amqp_stream *stream)
{
	assert(stream->state == AMQP_STREAM_READY);
	return bufferevent_get_output(stream->bev);
}

/*
 * While writing is disabled, the bufferevent asks epoll(7) for nothing. Else each flight would cost
 * two calls of epoll_ctl(2) and one of epoll_wait(2). The bufferevent freezes its output's start, as
 * only it may take bytes from there.
 */
void
amqp_stream_flush(struct amqp_stream *stream)
{
	struct evbuffer *out;

	if (stream->state != AMQP_STREAM_READY || stream->tls != NULL ||
	    (bufferevent_get_enabled(stream->bev) & EV_WRITE) != 0)
		return;
	out = bufferevent_get_output(stream->bev);
	if (evbuffer_get_length(out) == 0)
		return;
	evbuffer_unfreeze(out, 1);
	(void)evbuffer_write(out, stream->fd);
	evbuffer_freeze(out, 1);
	/* After an error, too: the bufferevent gets it again, and reports it. */
	if (evbuffer_get_length(out) > 0)
		bufferevent_enable(stream->bev, EV_WRITE);
}

/* Writes once, and does not wait for room in the socket's buffer. */
static void
write_now(struct amqp_stream *stream)
{
	struct evbuffer *out = bufferevent_get_output(stream->bev);
	size_t len = evbuffer_get_length(out);
	uint8_t *bytes;

	if (len == 0)
		return;
	bytes = evbuffer_pullup(out, -1);
	if (bytes == NULL || len > INT32_MAX)
		return;
	if (stream->tls == NULL) {
		(void)!send(stream->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		return;
	}
	(void)SSL_write(bufferevent_openssl_get_ssl(stream->bev), bytes, (int)len);
	/* An error that remains in OpenSSL's queue would be taken for one of the next session. */
	ERR_clear_error();
}

void
amqp_stream_shutdown(struct amqp_stream *stream)
{
	if (stream->state == AMQP_STREAM_DEAD)
		return;
	if (stream->event != NULL)
		event_del(stream->event);
	if (stream->bev != NULL) {
		if (stream->state == AMQP_STREAM_READY)
			write_now(stream);
		bufferevent_disable(stream->bev, EV_READ | EV_WRITE);
	}
	if (stream->fd >= 0)
		shutdown(stream->fd, SHUT_RDWR);
	stream_set_state(stream, AMQP_STREAM_DEAD);
}
