#include "daemon/broker/quorum_queue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/broker/internal.h"

/* As an argument of the queue it is stronger than the server's. More would harm the queue. */
#define CONSUMER_TIMEOUT_MS INT64_C(2592000000) /* 30 days */

void
amqp_quorum_queue_declare(
    const struct amqp_raw_channel *channel, const char *queue, struct amqp_quorum_queue wanted)
{
	const struct amqp_link *link = amqp_channels_link(channel->channels);
	amqp_table_entry_t arguments[6];
	amqp_queue_declare_t declare = {
	    .queue = amqp_cstring_bytes(queue),
	    .durable = 1,
	    .arguments = {.entries = arguments},
	};
	unsigned major = 0, minor = 0;
	int count = 0;

	if (link != NULL)
		(void)sscanf(link->server.version, "%u.%u", &major, &minor);
	arguments[count++] = amqp_entry_text("x-queue-type", "quorum");
	if (wanted.single)
		arguments[count++] = (amqp_table_entry_t){
		    .key = amqp_cstring_bytes("x-single-active-consumer"),
		    .value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1},
		};
	arguments[count++] = (amqp_table_entry_t){
	    .key = amqp_cstring_bytes("x-consumer-timeout"),
	    .value = {.kind = AMQP_FIELD_KIND_I64, .value.i64 = CONSUMER_TIMEOUT_MS},
	};
	/* On 3.x, -1 would drop a message at its first return. There is no limit without it. */
	if (major >= 4)
		arguments[count++] = amqp_entry_number("x-delivery-limit", -1);
	/* With the default, a killed node would delay the next holder by a minute. */
	if (wanted.quick && (major > 4 || (major == 4 && minor >= 3)))
		arguments[count++] = amqp_entry_number("x-consumer-disconnected-timeout", 1000);
	if (wanted.expires > 0)
		arguments[count++] = amqp_entry_number("x-expires", wanted.expires / NSEC_PER_MSEC);
	declare.arguments.num_entries = count;
	amqp_raw_channel_send(channel, AMQP_QUEUE_DECLARE_METHOD, &declare);
}

void
amqp_quorum_queue_attach(
    const struct amqp_raw_channel *channel, const char *queue, char kind, uint16_t prefetch)
{
	struct amqp_raw_channel_tag tag = amqp_raw_channel_tag(kind, 1);
	amqp_basic_qos_t qos = {.prefetch_count = prefetch};
	amqp_basic_consume_t consume = {
	    .queue = amqp_cstring_bytes(queue),
	    .consumer_tag = amqp_cstring_bytes(tag.text),
	};

	amqp_raw_channel_send(channel, AMQP_BASIC_QOS_METHOD, &qos);
	amqp_raw_channel_send(channel, AMQP_BASIC_CONSUME_METHOD, &consume);
}

void
amqp_quorum_queue_publish(
    const struct amqp_raw_channel *channel, const char *queue, const char *text)
{
	amqp_basic_publish_t fields = {.routing_key = amqp_cstring_bytes(queue)};
	amqp_basic_properties_t properties = {
	    ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG,
	    .delivery_mode = AMQP_DELIVERY_PERSISTENT,
	};

	amqp_raw_channel_publish(channel, &fields, &properties, amqp_cstring_bytes(text));
}

uint64_t
amqp_quorum_queue_random(struct broker *broker)
{
	uint64_t number = (uint64_t)jitter_below(&broker->jitter, INT64_MAX);

	if (!broker->settings.replays && getrandom(&number, sizeof(number), 0) != sizeof(number))
		abort(); /* getrandom(2) returns so few bytes completely */
	return number;
}

char *
amqp_mark_print(char text[AMQP_MARK_TEXT], uint64_t number)
{
	snprintf(text, AMQP_MARK_TEXT, "mark %016" PRIx64, number);
	return text;
}

bool
amqp_is_mark(const char *text)
{
	char again[AMQP_MARK_TEXT];
	uint64_t number;

	return sscanf(text, "mark %16" SCNx64, &number) == 1 &&
	       strcmp(amqp_mark_print(again, number), text) == 0;
}
