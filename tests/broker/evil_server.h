/*
 * A server whose bytes the test decides, on the rig's own loop: frames that RabbitMQ would not
 * send, or bytes that are no frames. It records the frames of its clients.
 */
#ifndef TESTS_BROKER_EVIL_SERVER_H
#define TESTS_BROKER_EVIL_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <event2/buffer.h>

#include "daemon/amqp/buffer.h"
#include "tests/broker/amqp_rig.h"

struct evil_server {
	int port;
	struct evbuffer *greeting; /* sent to each client that connects */
	struct evbuffer *bytes;    /* collected for evil_say() */
	bool hang_up;              /* close after the greeting has been sent */
	unsigned accepted;
	amqp_method_number_t seen[256]; /* of all clients, on all channels; 0: a heartbeat */
	unsigned seen_count;
	struct evconnlistener *listener;
	struct bufferevent *clients[16];
	struct bufferevent *client; /* the last client; NULL: it is gone */
};

extern struct evil_server evil;

/* Fixture, outside the rig's. */
void evil_setup(void);
void evil_teardown(void);

/* This server as the only host, with short deadlines. */
struct amqp_settings evil_settings(void);
/* A broker that connects to this server. */
struct rig_broker *evil_open(void);
/* evil_open() with the greeting of a friendly server; the lock connection is up. */
struct rig_broker *evil_open_up(void);
/* Makes the greeting friendly, with these values in connection.tune. */
void evil_greet(int channel_max, int heartbeat);
/* Sends the collected evil.bytes to the last client. */
void evil_say(void);
/* Sends these bytes to the last client. */
void evil_send(struct evbuffer *bytes);
/* Closes the connection of the last client. */
void evil_hang_up(void);
/* How many times clients sent that method. */
unsigned evil_saw(amqp_method_number_t method);

/* Append frames to `out`. */
void put_start(struct evbuffer *out, const char *mechanisms, const char *cluster);
void put_tune(struct evbuffer *out, int channel_max, int frame_max, int heartbeat);
void put_open_ok(struct evbuffer *out);
void put_friendly(struct evbuffer *out); /* all three */
void put_http(struct evbuffer *out);
void put_method(struct evbuffer *out, uint16_t channel, amqp_method_number_t method, void *fields);
/* A method whose fields do not matter. */
void put_bare(struct evbuffer *out, uint16_t channel, amqp_method_number_t method);
void put_raw(struct evbuffer *out, int type, uint16_t channel, const void *payload, size_t len);
void put_consume_ok(struct evbuffer *out, uint16_t channel, const char *tag);
void put_cancel(struct evbuffer *out, uint16_t channel, const char *tag);
/* A basic.deliver from the default exchange, without its header and body. */
void put_deliver(struct evbuffer *out, uint16_t channel, const char *tag, uint64_t delivery);
/* correlation_id NULL: none. */
void put_header(struct evbuffer *out, uint16_t channel, uint64_t size, const char *correlation_id);
/* A basic.return of a message without a body. */
void put_return(
    struct evbuffer *out, uint16_t channel, const char *queue, const char *correlation_id);
void put_channel_close(struct evbuffer *out, uint16_t channel, int code, const char *text,
    amqp_method_number_t blamed);

#endif
