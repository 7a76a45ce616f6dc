/*
 * Fuzz target: methods at the server in memory, over links of three daemons. Each four bytes are one
 * action: its kind; link and channel; a queue; flags. It must not crash, or send what a link cannot
 * read. An exclusive consumer has its queue to itself. Each request on a channel that stays open is
 * answered once, each publish is confirmed once, and a connection leaves no exclusive queue behind.
 *
 *	make fuzz FUZZ=memory
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/amqp/content.h"
#include "daemon/amqp/link.h"
#include "daemon/broker/setup.h"
#include "tests/memory/controls.h"
#include "tests/fuzz/daemon.h"
#include "tests/fuzz/fuzz.h"
#include "tests/virtual_time.h"

enum { LINKS = 3, CHANNELS = 3, QUEUES = 6, BODY_MOST = 3 * AMQP_FRAME_MAX };

enum action {
	OPEN_CHANNEL,
	CLOSE_CHANNEL,
	DECLARE,
	DELETE_QUEUE,
	BIND,
	CONSUME,
	CANCEL,
	GET,
	ACK,
	REJECT,
	PUBLISH,
	CONFIRM_SELECT,
	QOS,
	DECLARE_EXCHANGE,
	CLOSE_LINK,
	CONNECT,
	PASS_TIME,
	SET_ALARM,
	SET_REACH,
	RESTART_NODE,
	REMOVE_QUEUE,
	MOVE_QUEUE,
	CUT_LINK,
	BLOCK_LINK,
	ACTIONS
};

static struct timers *timers;
static struct memory_world *world;
static bool troubled; /* from now on a request may stay without an answer, or a queue be kept */

static struct channel {
	bool open, closing; /* as the client knows */
	bool confirms;
	unsigned unanswered;
	uint64_t published, confirmed, last_delivery;
	struct amqp_content content;
} channels[LINKS][CHANNELS + 1];

static struct {
	struct broker *broker;  /* never started: its links are the target's */
	struct amqp_link *link; /* NULL: it died */
} ends[LINKS];

/* ---- frames that arrive ---- */

static struct amqp_link **
link_of(void *ctx)
{
	return &ends[(size_t)(uintptr_t)ctx].link;
}

static void
forget_channel(struct channel *channel)
{
	amqp_content_done(&channel->content);
	*channel = (struct channel){0};
	amqp_content_init(&channel->content, 8);
}

static char *
on_vet(void *ctx, const struct amqp_server *server)
{
	(void)ctx;
	(void)server;
	return NULL;
}

static void
on_up(void *ctx)
{
	(void)ctx;
}

static bool
is_up(size_t which)
{
	return ends[which].link != NULL && ends[which].link->state == AMQP_LINK_UP;
}

static void
on_blocked(void *ctx, bool blocked, const char *why)
{
	(void)ctx;
	(void)blocked;
	(void)why;
}

static void
on_dead(void *ctx, struct amqp_link *link, bool refused, int code, const char *why)
{
	size_t which = (size_t)(uintptr_t)ctx;

	(void)refused;
	(void)code;
	(void)why;
	must(link == ends[which].link, "the end of another link");
	amqp_link_free(link);
	ends[which].link = NULL;
	for (int i = 1; i <= CHANNELS; i++)
		forget_channel(&channels[which][i]);
}

static void
take_confirm(struct channel *channel, uint64_t tag, bool multiple)
{
	must(channel->confirms, "a confirm that nobody asked for");
	must(tag <= channel->published, "a confirm before its publish");
	must(tag > channel->confirmed, "confirmed twice");
	must(multiple || troubled || tag == channel->confirmed + 1, "a publish without confirm");
	channel->confirmed = tag;
}

static void
take_delivery(struct channel *channel, uint64_t tag)
{
	must(amqp_content_announce(&channel->content), "a message within another");
	must(tag > channel->last_delivery, "a delivery tag that was used");
	channel->last_delivery = tag;
}

static void
take_method(struct amqp_link *link, struct channel *channel, const struct amqp_frame *frame)
{
	const amqp_basic_ack_t *ack = frame->fields;
	const amqp_basic_nack_t *nack = frame->fields;
	amqp_channel_close_ok_t close_ok = {0};

	switch (frame->method) {
	case AMQP_CHANNEL_CLOSE_METHOD:
		amqp_link_send(link, frame->channel, AMQP_CHANNEL_CLOSE_OK_METHOD, &close_ok);
		forget_channel(channel);
		break;
	case AMQP_CHANNEL_CLOSE_OK_METHOD:
		forget_channel(channel);
		break;
	case AMQP_BASIC_DELIVER_METHOD:
		take_delivery(channel, ((const amqp_basic_deliver_t *)frame->fields)->delivery_tag);
		break;
	case AMQP_BASIC_GET_OK_METHOD:
		take_delivery(channel, ((const amqp_basic_get_ok_t *)frame->fields)->delivery_tag);
		must(channel->unanswered-- > 0, "an answer that nobody asked for");
		break;
	case AMQP_BASIC_RETURN_METHOD:
		must(amqp_content_announce(&channel->content), "a return within a message");
		break;
	case AMQP_BASIC_ACK_METHOD:
		take_confirm(channel, ack->delivery_tag, ack->multiple);
		break;
	case AMQP_BASIC_NACK_METHOD:
		take_confirm(channel, nack->delivery_tag, nack->multiple);
		break;
	case AMQP_BASIC_CANCEL_METHOD:
		break;
	default:
		must(channel->unanswered-- > 0, "an answer that nobody asked for");
		break;
	}
}

static void
on_frame(void *ctx, const struct amqp_frame *frame)
{
	struct channel *channel;

	must(frame->channel >= 1 && frame->channel <= CHANNELS, "a channel that nobody uses");
	channel = &channels[(size_t)(uintptr_t)ctx][frame->channel];
	if (frame->type == AMQP_FRAME_METHOD)
		take_method(*link_of(ctx), channel, frame);
	else
		must(amqp_content_take(&channel->content, frame) != AMQP_CONTENT_BAD,
		    "a frame that must not come now");
}

/* ---- actions ---- */

static void
settle(void)
{
	for (int i = 0; i < 1000; i++) {
		if (timers_next(timers) > now)
			return;
		timers_run(timers);
	}
	must(false, "the server does not come to rest");
}

static void
dial(size_t which)
{
	static const struct amqp_host host = {
	    .host = "memory", .vhost = "/", .user = "fuzz", .password = ""};
	static const struct amqp_settings settings = {
	    .hosts = &host, .host_count = 1, .heartbeat = 10, .in_process = true};
	static struct amqp_counts counts;
	const struct amqp_dialer *dialer = broker_dialer(ends[which].broker);
	const struct amqp_link_config config = {.timers = timers,
	    .settings = &settings,
	    .host = &host,
	    .name = "fuzz",
	    .counts = &counts};
	const struct amqp_link_events events = {.vet = on_vet,
	    .up = on_up,
	    .frame = on_frame,
	    .blocked = on_blocked,
	    .dead = on_dead,
	    .ctx = (void *)(uintptr_t)which};

	if (ends[which].link == NULL)
		ends[which].link = dialer->connect(dialer->ctx, &config, &events);
}

static amqp_bytes_t
queue_name(unsigned what)
{
	static const char *const names[QUEUES] = {"q0", "q1", "q2", "q3", "amq.q", ""};

	return amqp_cstring_bytes(names[what % QUEUES]);
}

/* A tag is of one queue and kind. A second consumer with it on a channel is the script's mistake. */
static amqp_bytes_t
tag_name(unsigned what, bool exclusive)
{
	static const char *const names[2][QUEUES] = {
	    {"s0", "s1", "s2", "s3", "s4", ""}, {"e0", "e1", "e2", "e3", "e4", "e5"}};

	return amqp_cstring_bytes(names[exclusive][what % QUEUES]);
}

static amqp_field_value_t
number(int value)
{
	return (amqp_field_value_t){.kind = AMQP_FIELD_KIND_I32, .value = {.i32 = value}};
}

static void
send_declare(struct amqp_link *link, uint16_t to, unsigned what, unsigned flags)
{
	amqp_table_entry_t entries[3];
	amqp_queue_declare_t declare = {.queue = queue_name(what),
	    .passive = (flags & 1) != 0,
	    .durable = (flags & 2) != 0,
	    .exclusive = (flags & 4) != 0,
	    .auto_delete = (flags & 8) != 0};

	declare.arguments.entries = entries;
	if ((flags & 16) != 0)
		entries[declare.arguments.num_entries++] =
		    (amqp_table_entry_t){amqp_cstring_bytes("x-expires"), number(1000)};
	if ((flags & 32) != 0)
		entries[declare.arguments.num_entries++] = (amqp_table_entry_t){
		    amqp_cstring_bytes("x-max-length"), number((int)(flags >> 6))};
	if ((flags & 64) != 0)
		entries[declare.arguments.num_entries++] =
		    (amqp_table_entry_t){amqp_cstring_bytes("x-overflow"),
			{.kind = AMQP_FIELD_KIND_UTF8,
			    .value = {.bytes = amqp_cstring_bytes("reject-publish")}}};
	amqp_link_send(link, to, AMQP_QUEUE_DECLARE_METHOD, &declare);
}

static void
send_consume(struct amqp_link *link, uint16_t to, unsigned what, unsigned flags)
{
	amqp_table_entry_t priority = {
	    amqp_cstring_bytes("x-priority"), number((int)(flags >> 4) - 8)};
	amqp_basic_consume_t consume = {.queue = queue_name(what),
	    .consumer_tag = tag_name(what, (flags & 1) != 0),
	    .exclusive = (flags & 1) != 0,
	    .no_ack = (flags & 2) != 0,
	    .arguments = {(flags & 4) != 0, &priority}};

	amqp_link_send(link, to, AMQP_BASIC_CONSUME_METHOD, &consume);
}

static void
send_publish(
    struct amqp_link *link, struct channel *channel, uint16_t to, unsigned what, unsigned flags)
{
	static char body[BODY_MOST];
	amqp_basic_publish_t publish = {.exchange = amqp_cstring_bytes((flags & 1) != 0 ? "x" : ""),
	    .routing_key = queue_name(what),
	    .mandatory = (flags & 2) != 0};
	amqp_basic_properties_t properties = {
	    ._flags = AMQP_BASIC_CORRELATION_ID_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG,
	    .correlation_id = amqp_cstring_bytes("id"),
	    .delivery_mode =
		(flags & 4) != 0 ? AMQP_DELIVERY_PERSISTENT : AMQP_DELIVERY_NONPERSISTENT};

	if ((flags & 8) != 0) {
		properties._flags |= AMQP_BASIC_EXPIRATION_FLAG;
		properties.expiration = amqp_cstring_bytes("100");
	}
	channel->published += channel->confirms;
	amqp_link_publish(link, to, &publish, &properties,
	    (amqp_bytes_t){(size_t)(flags >> 4) * BODY_MOST / 15, body});
}

/* Methods with an answer. */
static bool
send_request(struct amqp_link *link, uint16_t to, enum action action, unsigned what, unsigned flags)
{
	amqp_queue_delete_t delete = {
	    .queue = queue_name(what), .if_unused = (flags & 1) != 0, .if_empty = (flags & 2) != 0};
	amqp_queue_bind_t bind = {.queue = queue_name(what), .exchange = amqp_cstring_bytes("x")};
	amqp_basic_cancel_t cancel = {.consumer_tag = tag_name(what, (flags & 1) != 0)};
	amqp_basic_get_t get = {.queue = queue_name(what)};
	amqp_basic_qos_t qos = {.prefetch_count = (uint16_t)(flags % 4)};
	amqp_exchange_declare_t exchange = {
	    .exchange = amqp_cstring_bytes("x"), .type = amqp_cstring_bytes("fanout")};

	if (action == DECLARE)
		send_declare(link, to, what, flags);
	else if (action == DELETE_QUEUE)
		amqp_link_send(link, to, AMQP_QUEUE_DELETE_METHOD, &delete);
	else if (action == BIND)
		amqp_link_send(link, to, AMQP_QUEUE_BIND_METHOD, &bind);
	else if (action == CONSUME)
		send_consume(link, to, what, flags);
	else if (action == CANCEL)
		amqp_link_send(link, to, AMQP_BASIC_CANCEL_METHOD, &cancel);
	else if (action == GET)
		amqp_link_send(link, to, AMQP_BASIC_GET_METHOD, &get);
	else if (action == QOS)
		amqp_link_send(link, to, AMQP_BASIC_QOS_METHOD, &qos);
	else if (action == DECLARE_EXCHANGE)
		amqp_link_send(link, to, AMQP_EXCHANGE_DECLARE_METHOD, &exchange);
	else
		return false;
	return true;
}

static void
use_channel(size_t which, uint16_t to, enum action action, unsigned what, unsigned flags)
{
	struct amqp_link *link = ends[which].link;
	struct channel *channel = &channels[which][to];
	amqp_channel_open_t open = {.out_of_band = amqp_empty_bytes};
	amqp_channel_close_t close = {.reply_text = amqp_empty_bytes};
	amqp_confirm_select_t confirm = {0};
	amqp_basic_ack_t ack = {.delivery_tag = what % 8};
	amqp_basic_reject_t reject = {.delivery_tag = what % 8, .requeue = true};

	if (!is_up(which) || channel->closing)
		return;
	if (action == OPEN_CHANNEL) {
		channel->open = true;
		channel->unanswered++;
		amqp_link_send(link, to, AMQP_CHANNEL_OPEN_METHOD, &open);
	} else if (!channel->open) {
		return;
	} else if (send_request(link, to, action, what, flags)) {
		channel->unanswered++;
	} else if (action == CLOSE_CHANNEL) {
		channel->closing = true;
		amqp_link_send(link, to, AMQP_CHANNEL_CLOSE_METHOD, &close);
	} else if (action == CONFIRM_SELECT && !channel->confirms) {
		channel->confirms = true;
		channel->unanswered++;
		amqp_link_send(link, to, AMQP_CONFIRM_SELECT_METHOD, &confirm);
	} else if (action == ACK) {
		amqp_link_send(link, to, AMQP_BASIC_ACK_METHOD, &ack);
	} else if (action == REJECT) {
		amqp_link_send(link, to, AMQP_BASIC_REJECT_METHOD, &reject);
	} else if (action == PUBLISH) {
		send_publish(link, channel, to, what, flags);
	}
}

/* False: it is an action on a channel. */
static bool
use_world(size_t which, enum action action, unsigned what, unsigned flags)
{
	const char *queue = queue_name(what).bytes;

	if (action == CLOSE_LINK) {
		if (is_up(which))
			amqp_link_close(ends[which].link);
	} else if (action == CONNECT) {
		memory_broker_restore(ends[which].broker, BROKER_AUXILIARY);
		dial(which);
	} else if (action == PASS_TIME) {
		virtual_time_pass(timers, flags * 10 * NSEC_PER_MSEC, settle);
	} else if (action == SET_ALARM) {
		troubled = true;
		memory_world_block(world, (flags & 1) != 0);
	} else if (action == SET_REACH) {
		troubled = true;
		memory_world_set_reach(world, (unsigned)which, what % MEMORY_NODES,
		    (enum memory_reach)(flags % (MEMORY_DOWN + 1)));
	} else if (action == RESTART_NODE) {
		troubled = true;
		memory_world_restart(world);
	} else if (action == REMOVE_QUEUE) {
		memory_world_remove(world, queue);
	} else if (action == MOVE_QUEUE) {
		troubled = true;
		memory_world_set_home(world, queue, flags % MEMORY_NODES);
	} else if (action == CUT_LINK) {
		troubled = true;
		if (is_up(which))
			memory_broker_cut(
			    ends[which].broker, BROKER_AUXILIARY, flags * NSEC_PER_MSEC, 0, "cut");
	} else if (action == BLOCK_LINK) {
		troubled = true;
		if (is_up(which))
			memory_broker_block(ends[which].broker, BROKER_AUXILIARY, flags & 3);
	} else {
		return false;
	}
	return true;
}

static void
check_queue(void *ctx, const char *queue, const struct broker *owner)
{
	(void)ctx;
	must(owner == NULL || memory_world_owner(world, queue) != 0, "an owner without a queue");
	must(
	    memory_world_holder(world, queue, NULL) == 0 || memory_world_members(world, queue) == 1,
	    "an exclusive consumer beside another one");
}

static void
check(void)
{
	memory_world_each(world, check_queue, NULL);
	for (int which = 0; which < LINKS && !troubled; which++) {
		for (int i = 1; i <= CHANNELS; i++) {
			must(channels[which][i].unanswered == 0, "a request without an answer");
			must(channels[which][i].confirmed == channels[which][i].published,
			    "a publish without a confirm");
		}
	}
}

static void
is_left(void *ctx, const char *queue, const struct broker *owner)
{
	(void)ctx;
	(void)queue;
	must(owner == NULL, "an exclusive queue is left behind");
}

static void
end(void)
{
	for (int which = 0; which < LINKS; which++) {
		amqp_link_free(ends[which].link);
		for (int i = 1; i <= CHANNELS; i++)
			amqp_content_done(&channels[which][i].content);
	}
	virtual_time_pass(timers, NSEC_PER_SEC, settle);
	memory_world_each(world, is_left, NULL);
	for (int which = 0; which < LINKS; which++)
		broker_free(ends[which].broker);
	memory_world_free(world);
	timers_free(timers);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	silence_log();
	now = NSEC_PER_SEC;
	troubled = false;
	timers = timers_new(&virtual_clock);
	world = memory_world_new(timers, NULL);
	memory_world_set_hides_queues(world, size % 2 != 0);
	for (size_t which = 0; which < LINKS; which++) {
		ends[which].broker = memory_broker_new(world, 10, CHANNELS - 1);
		memory_broker_set_node(ends[which].broker, (unsigned)which);
		ends[which].link = NULL;
		for (int i = 1; i <= CHANNELS; i++) {
			channels[which][i] = (struct channel){0};
			amqp_content_init(&channels[which][i].content, 8);
		}
		dial(which);
	}
	settle();
	for (; size >= 4; data += 4, size -= 4) {
		enum action action = (enum action)(data[0] % ACTIONS);
		size_t which = data[1] % LINKS;

		if (!use_world(which, action, data[2], data[3]))
			use_channel(which, (uint16_t)(1 + data[1] / LINKS % CHANNELS), action,
			    data[2], data[3]);
		/* Bit 7 of the kind: the next one is sent at the same time. */
		if ((data[0] & 0x80) == 0) {
			settle();
			check();
		}
	}
	end();
	return 0;
}
