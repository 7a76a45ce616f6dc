#include <string.h>

#include "daemon/memory/quorum.h"

/* ---- confirms ---- */

static void
send_confirm(struct memory_channel *channel, bool taken)
{
	bool multiple = channel->published - channel->confirmed > 1;
	amqp_basic_ack_t ack = {.delivery_tag = channel->published, .multiple = multiple};
	amqp_basic_nack_t nack = {.delivery_tag = channel->published, .multiple = multiple};

	if (taken)
		memory_channel_send(channel, true, AMQP_BASIC_ACK_METHOD, &ack);
	else
		memory_channel_send(channel, true, AMQP_BASIC_NACK_METHOD, &nack);
	channel->confirmed = channel->published;
}

void
memory_channel_confirm(struct memory_channel *channel)
{
	if (channel->confirms && channel->published > channel->confirmed)
		send_confirm(channel, true);
}

void
memory_channel_count(struct memory_channel *channel, bool nacked)
{
	const struct memory_world *world = channel->connection->world;

	if (nacked || channel->confirms_not)
		memory_channel_confirm(channel);
	channel->published++;
	if (channel->confirms_not) {
		channel->confirmed = channel->published;
		channel->confirms_singly = true;
	} else if (nacked) {
		send_confirm(channel, false);
	} else if (channel->confirms_singly || !memory_chance(world, world->behaviour.holds_acks)) {
		memory_channel_confirm(channel);
	}
}

/* ---- routing ---- */

static void
offer(struct memory_channel *channel, struct memory_queue *queue,
    const struct memory_message *message, struct memory_fate *fate)
{
	enum memory_reach reach = memory_reach_from(queue, channel->connection->node);

	if (queue->quorum != NULL && queue->quorum->refuses) {
		fate->routed = fate->rejected = true;
		return;
	}
	if (queue->quorum != NULL && reach != MEMORY_REACHED) {
		fate->routed = fate->unanswered = true;
		memory_quorum_add_later(queue, channel, message);
		return;
	}
	if (reach == MEMORY_DOWN && channel->connection->world->hides_queues)
		return;
	fate->routed = true;
	if (reach == MEMORY_REACHED)
		fate->rejected |= !memory_queue_add(channel->connection->world, queue, message);
	else if (reach == MEMORY_SILENT || reach == MEMORY_PARTED)
		fate->unanswered = true;
	else /* as from RabbitMQ 3.11 on */
		fate->rejected = true;
}

struct memory_fate
memory_route(struct memory_channel *channel, const struct memory_message *message)
{
	struct memory_world *world = channel->connection->world;
	struct memory_queue *queue, *next;
	struct memory_fate fate = {0};

	if (message->exchange[0] == '\0') {
		queue = memory_queue_find(world, message->routing_key);
		if (queue != NULL)
			offer(channel, queue, message, &fate);
		return fate;
	}
	HASH_ITER (hh, world->queues, queue, next) {
		if (queue->exchange != NULL && strcmp(queue->exchange, message->exchange) == 0)
			offer(channel, queue, message, &fate);
	}
	return fate;
}
