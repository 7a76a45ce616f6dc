#include "tests/broker/evil_server.h"

#include <string.h>

#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <netinet/in.h>

#define CLIENTS (sizeof(evil.clients) / sizeof(evil.clients[0]))

struct evil_server evil;

static struct amqp_host evil_host;

/* The client's protocol header, then whole frames. */
static void
on_read(struct bufferevent *bev, void *ctx)
{
	struct evbuffer *in = bufferevent_get_input(bev);
	uint8_t head[11];

	(void)ctx;
	while (evbuffer_get_length(in) >= 8) {
		ev_ssize_t got = evbuffer_copyout(in, head, sizeof(head));
		size_t len;

		if (memcmp(head, "AMQP", 4) == 0) {
			evbuffer_drain(in, 8);
			continue;
		}
		len = 8 + ((size_t)head[3] << 24 | (size_t)head[4] << 16 | (size_t)head[5] << 8 |
			      head[6]);
		if (evbuffer_get_length(in) < len)
			return;
		if (head[0] == AMQP_FRAME_METHOD || head[0] == AMQP_FRAME_HEARTBEAT) {
			amqp_method_number_t seen = 0;

			if (head[0] == AMQP_FRAME_METHOD && got == sizeof(head))
				seen = (amqp_method_number_t)head[7] << 24 |
				       (amqp_method_number_t)head[8] << 16 |
				       (amqp_method_number_t)head[9] << 8 | head[10];
			evil.seen[evil.seen_count++ % 256] = seen;
		}
		evbuffer_drain(in, len);
	}
}

static void
leave(struct bufferevent *bev)
{
	if (evil.client == bev)
		evil.client = NULL;
	for (size_t i = 0; i < CLIENTS; i++)
		if (evil.clients[i] == bev)
			evil.clients[i] = NULL;
	bufferevent_free(bev);
}

static void
on_written(struct bufferevent *bev, void *ctx)
{
	(void)ctx;
	if (evil.hang_up)
		leave(bev);
}

static void
on_event(struct bufferevent *bev, short what, void *ctx)
{
	(void)what;
	(void)ctx;
	leave(bev);
}

static void
on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address, int len,
    void *ctx)
{
	struct evbuffer *copy = evbuffer_new();
	size_t place = 0;

	(void)listener;
	(void)address;
	(void)len;
	(void)ctx;
	evil.accepted++;
	while (evil.clients[place] != NULL)
		ck_assert_uint_lt(++place, CLIENTS);
	evil.clients[place] = evil.client =
	    bufferevent_socket_new(rig_base, fd, BEV_OPT_CLOSE_ON_FREE);
	bufferevent_setcb(evil.client, on_read, on_written, on_event, NULL);
	bufferevent_enable(evil.client, EV_READ | EV_WRITE);
	evbuffer_add_buffer_reference(copy, evil.greeting);
	evil_send(copy);
	evbuffer_free(copy);
}

void
evil_setup(void)
{
	struct sockaddr_in address = {
	    .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(address);

	rig_setup();
	memset(&evil, 0, sizeof(evil));
	evil.greeting = evbuffer_new();
	evil.bytes = evbuffer_new();
	evil.listener = evconnlistener_new_bind(rig_base, on_accept, NULL, LEV_OPT_CLOSE_ON_FREE,
	    16, (struct sockaddr *)&address, sizeof(address));
	ck_assert_ptr_nonnull(evil.listener);
	ck_assert_int_eq(
	    getsockname(evconnlistener_get_fd(evil.listener), (struct sockaddr *)&address, &len),
	    0);
	evil.port = ntohs(address.sin_port);
}

void
evil_teardown(void)
{
	for (size_t i = 0; i < CLIENTS; i++)
		if (evil.clients[i] != NULL)
			bufferevent_free(evil.clients[i]);
	evconnlistener_free(evil.listener);
	evbuffer_free(evil.greeting);
	evbuffer_free(evil.bytes);
	rig_teardown();
}

struct amqp_settings
evil_settings(void)
{
	struct amqp_settings settings;

	evil_host = (struct amqp_host){
	    .host = "127.0.0.1",
	    .port = evil.port,
	    .vhost = "/",
	    .user = "guest",
	    .password = "guest",
	};
	settings = rig_settings(&evil_host, 1);
	settings.any_product = true;
	settings.connect_timeout = 300 * NSEC_PER_MSEC;
	settings.probe_timeout = 100 * NSEC_PER_MSEC;
	return settings;
}

struct rig_broker *
evil_open(void)
{
	const struct amqp_settings settings = evil_settings();

	return rig_open(&settings);
}

struct rig_broker *
evil_open_up(void)
{
	struct rig_broker *one;

	put_friendly(evil.greeting);
	one = evil_open();
	rig_wait(one->state[BROKER_LOCKS] == BROKER_UP);
	return one;
}

void
evil_send(struct evbuffer *bytes)
{
	ck_assert_ptr_nonnull(evil.client);
	bufferevent_write_buffer(evil.client, bytes);
	/* An empty greeting has been sent already. */
	if (evil.hang_up && evbuffer_get_length(bufferevent_get_output(evil.client)) == 0)
		bufferevent_trigger(evil.client, EV_WRITE, BEV_TRIG_DEFER_CALLBACKS);
}

void
evil_say(void)
{
	evil_send(evil.bytes);
}

void
evil_greet(int channel_max, int heartbeat)
{
	evbuffer_drain(evil.greeting, evbuffer_get_length(evil.greeting));
	put_start(evil.greeting, "PLAIN", "one");
	put_tune(evil.greeting, channel_max, 131072, heartbeat);
	put_open_ok(evil.greeting);
}

void
evil_hang_up(void)
{
	ck_assert_ptr_nonnull(evil.client);
	leave(evil.client);
}

unsigned
evil_saw(amqp_method_number_t method)
{
	unsigned count = 0;

	for (unsigned i = 0; i < evil.seen_count && i < 256; i++)
		count += evil.seen[i] == method;
	return count;
}

void
put_method(struct evbuffer *out, uint16_t channel, amqp_method_number_t method, void *fields)
{
	ck_assert(amqp_frame_put_method(out, channel, method, fields));
}

void
put_bare(struct evbuffer *out, uint16_t channel, amqp_method_number_t method)
{
	/* All zeroes is a method with empty strings; none of those used here is larger. */
	uint8_t fields[256] = {0};

	put_method(out, channel, method, fields);
}

void
put_raw(struct evbuffer *out, int type, uint16_t channel, const void *payload, size_t len)
{
	uint8_t head[7] = {(uint8_t)type, (uint8_t)(channel >> 8), (uint8_t)channel,
	    (uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len};

	evbuffer_add(out, head, sizeof(head));
	evbuffer_add(out, payload, len);
	evbuffer_add(out, "\xce", 1);
}

void
put_start(struct evbuffer *out, const char *mechanisms, const char *cluster)
{
	amqp_table_entry_t properties[2] = {
	    {.key = amqp_cstring_bytes("product"),
		.value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes("Evil")}},
	    {.key = amqp_cstring_bytes("cluster_name"),
		.value = {.kind = AMQP_FIELD_KIND_UTF8,
		    .value.bytes = amqp_cstring_bytes(cluster)}},
	};
	amqp_connection_start_t start = {
	    .version_major = 0,
	    .version_minor = 9,
	    .server_properties = {.num_entries = 2, .entries = properties},
	    .mechanisms = amqp_cstring_bytes(mechanisms),
	    .locales = amqp_cstring_bytes("en_US"),
	};

	put_method(out, 0, AMQP_CONNECTION_START_METHOD, &start);
}

void
put_tune(struct evbuffer *out, int channel_max, int frame_max, int heartbeat)
{
	amqp_connection_tune_t tune = {
	    .channel_max = (uint16_t)channel_max,
	    .frame_max = (uint32_t)frame_max,
	    .heartbeat = (uint16_t)heartbeat,
	};

	put_method(out, 0, AMQP_CONNECTION_TUNE_METHOD, &tune);
}

void
put_open_ok(struct evbuffer *out)
{
	put_bare(out, 0, AMQP_CONNECTION_OPEN_OK_METHOD);
}

void
put_friendly(struct evbuffer *out)
{
	put_start(out, "PLAIN AMQPLAIN", "one");
	put_tune(out, 2047, 131072, 60);
	put_open_ok(out);
}

void
put_http(struct evbuffer *out)
{
	evbuffer_add_printf(out, "HTTP/1.1 400 Bad Request\r\n\r\n");
}

void
put_consume_ok(struct evbuffer *out, uint16_t channel, const char *tag)
{
	amqp_basic_consume_ok_t ok = {.consumer_tag = amqp_cstring_bytes(tag)};

	put_method(out, channel, AMQP_BASIC_CONSUME_OK_METHOD, &ok);
}

void
put_cancel(struct evbuffer *out, uint16_t channel, const char *tag)
{
	amqp_basic_cancel_t cancel = {.consumer_tag = amqp_cstring_bytes(tag), .nowait = 1};

	put_method(out, channel, AMQP_BASIC_CANCEL_METHOD, &cancel);
}

void
put_deliver(struct evbuffer *out, uint16_t channel, const char *tag, uint64_t delivery)
{
	amqp_basic_deliver_t deliver = {
	    .consumer_tag = amqp_cstring_bytes(tag),
	    .delivery_tag = delivery,
	    .routing_key = amqp_cstring_bytes("a"),
	};

	put_method(out, channel, AMQP_BASIC_DELIVER_METHOD, &deliver);
}

void
put_header(struct evbuffer *out, uint16_t channel, uint64_t size, const char *correlation_id)
{
	amqp_basic_properties_t properties = {
	    ._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG,
	    .content_type = amqp_cstring_bytes("text/plain"),
	    .delivery_mode = AMQP_DELIVERY_PERSISTENT,
	};

	if (correlation_id != NULL) {
		properties._flags |= AMQP_BASIC_CORRELATION_ID_FLAG;
		properties.correlation_id = amqp_cstring_bytes(correlation_id);
	}
	ck_assert(amqp_frame_put_header(out, channel, size, &properties));
}

void
put_return(struct evbuffer *out, uint16_t channel, const char *queue, const char *correlation_id)
{
	amqp_basic_return_t back = {
	    .reply_code = 312,
	    .reply_text = amqp_cstring_bytes("NO_ROUTE"),
	    .routing_key = amqp_cstring_bytes(queue),
	};

	put_method(out, channel, AMQP_BASIC_RETURN_METHOD, &back);
	put_header(out, channel, 0, correlation_id);
}

void
put_channel_close(
    struct evbuffer *out, uint16_t channel, int code, const char *text, amqp_method_number_t blamed)
{
	amqp_channel_close_t close = {
	    .reply_code = (uint16_t)code,
	    .reply_text = amqp_cstring_bytes(text),
	    .class_id = (uint16_t)(blamed >> 16),
	    .method_id = (uint16_t)blamed,
	};

	put_method(out, channel, AMQP_CHANNEL_CLOSE_METHOD, &close);
}
