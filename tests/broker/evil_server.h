/*
 * A server that says what a test makes it say, on the rig's own loop: frames that RabbitMQ would not
 * send, or bytes that are none. What clients send it is written down as far as frames go.
 */
#ifndef TESTS_BROKER_EVIL_SERVER_H
#define TESTS_BROKER_EVIL_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <event2/buffer.h>

#include "daemon/amqp/buffer.h"
#include "tests/broker/amqp_rig.h"

struct evil_method {
	uint16_t channel;
	amqp_method_number_t method; /* 0: a heartbeat */
};

struct evil_server {
	int port;
	struct evbuffer *greeting; /* sent to each client that connects */
	struct evbuffer *bytes;    /* put together for evil_say() */
	bool hang_up;              /* close after the greeting has been sent */
	unsigned accepted;
	struct evil_method seen[256]; /* of all clients */
	unsigned seen_count;
	struct evconnlistener *listener;
	struct bufferevent *clients[16];
	struct bufferevent *client; /* the last that connected; NULL when it left */
};

extern struct evil_server evil;

/* Fixture, around the rig's. */
void evil_setup(void);
void evil_teardown(void);

/* One host, this server, with short deadlines. */
struct amqp_settings evil_settings(void);
/* A broker that connects here. */
struct rig_broker *evil_open(void);
/* With the greeting of a friendly server; its lock connection is up. */
struct rig_broker *evil_open_up(void);
/* From now on a friendly greeting with these wishes. */
void evil_greet(int channel_max, int heartbeat);
/* To the last client: what was put into evil.bytes since the last time. */
void evil_say(void);
/* To the last client. */
void evil_send(struct evbuffer *bytes);
/* Leaves the last client. */
void evil_hang_up(void);
/* How often a client sent that method on that channel. */
unsigned evil_saw(uint16_t channel, amqp_method_number_t method);

/* Frames for out. */
void put_start(struct evbuffer *out, const char *mechanisms, const char *cluster);
void put_tune(struct evbuffer *out, int channel_max, int frame_max, int heartbeat);
void put_open_ok(struct evbuffer *out);
void put_friendly(struct evbuffer *out); /* all three */
void put_http(struct evbuffer *out);
void put_method(struct evbuffer *out, uint16_t channel, amqp_method_number_t method, void *fields);
/* A method without fields that matter. */
void put_bare(struct evbuffer *out, uint16_t channel, amqp_method_number_t method);
void put_raw(struct evbuffer *out, int type, uint16_t channel, const void *payload, size_t len);
void put_consume_ok(struct evbuffer *out, uint16_t channel, const char *tag);
void put_cancel(struct evbuffer *out, uint16_t channel, const char *tag);
/* basic.deliver by the default exchange, without its header and body. */
void put_deliver(struct evbuffer *out, uint16_t channel, const char *tag, uint64_t delivery);
/* correlation_id NULL: it has none. */
void put_header(struct evbuffer *out, uint16_t channel, uint64_t size, const char *correlation_id);
/* basic.return of a message without a body. */
void put_return(
    struct evbuffer *out, uint16_t channel, const char *queue, const char *correlation_id);
void put_channel_close(struct evbuffer *out, uint16_t channel, int code, const char *text,
    amqp_method_number_t blamed);

#endif
