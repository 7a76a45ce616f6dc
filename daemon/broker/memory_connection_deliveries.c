#include "daemon/broker/memory_connection.h"

#include <stdlib.h>

#include "daemon/base/mem.h"
#include "daemon/broker/memory_connection_inside.h"
#include "daemon/broker/memory_post.h"

/* What is on its way to a reader: a message, or that it is none any more. */
struct delivery {
	struct memory_connection *connection; /* borrowed */
	uint64_t lane;
	struct memory_message *message; /* owned, a copy; NULL: basic.cancel */
	struct timer arrive;
	TAILQ_ENTRY(delivery) entry;
};

static void
delivery_free(struct delivery *delivery)
{
	timers_cancel(delivery->connection->client, &delivery->arrive);
	TAILQ_REMOVE(&delivery->connection->deliveries, delivery, entry);
	if (delivery->message != NULL)
		memory_message_free(delivery->message);
	free(delivery);
}

/* NULL: nobody reads on that lane (any more). */
static const struct memory_hearer *
hearer_of(const struct memory_connection *connection, uint64_t id)
{
	const struct lane *lane = lane_find(connection, id);

	return lane == NULL || lane->state >= LANE_CLOSED ? NULL : lane->hearer;
}

/* Whether what is sent on that lane arrives, and when: behind what was sent before. */
static bool
lane_delivers(struct memory_connection *connection, uint64_t id, int64_t *ret_when)
{
	struct lane *lane = lane_find(connection, id);

	if (lane == NULL || lane->stalled)
		return false;
	lane->answer_at = later_of(
	    lane->answer_at, now_of(connection) + memory_world_delay(connection->owner.world));
	*ret_when = lane->answer_at;
	return true;
}

/* Nobody reads on that lane (any more): it stays unread until the lane is left. */
static void
on_arrive(void *ctx, uint64_t id)
{
	struct delivery *delivery = ctx;
	struct memory_connection *connection = delivery->connection;
	struct memory_message *message = delivery->message;
	const struct memory_hearer *hearer = hearer_of(connection, delivery->lane);
	uint64_t lane = delivery->lane;

	(void)id;
	if (connection->blocked & MEMORY_IN)
		return; /* it is on its way until the way is free */
	delivery->message = NULL;
	delivery_free(delivery);
	if (hearer != NULL && message != NULL) {
		memory_post_acknowledge(&connection->owner, lane, message->tag);
		hearer->arrived(hearer->ctx, lane, message);
	} else if (hearer != NULL) {
		hearer->cancelled(hearer->ctx, lane);
	}
	if (message != NULL)
		memory_message_free(message);
}

static void
deliver(struct memory_connection *connection, uint64_t lane, const struct memory_message *message)
{
	struct delivery *delivery;
	int64_t when;

	if (!is_up(connection) || connection->frozen || !lane_delivers(connection, lane, &when))
		return;
	delivery = mem_alloc(sizeof(*delivery));
	delivery->connection = connection;
	delivery->lane = lane;
	if (message != NULL)
		delivery->message = memory_message_copy(message);
	timer_init(&delivery->arrive, on_arrive, delivery, 0);
	TAILQ_INSERT_TAIL(&connection->deliveries, delivery, entry);
	timers_set(connection->client, &delivery->arrive, when);
}

void
memory_connection_delivered(
    struct memory_owner *owner, uint64_t lane, const struct memory_message *message)
{
	deliver((struct memory_connection *)owner, lane, message);
}

void
memory_connection_cancelled(struct memory_owner *owner, uint64_t lane)
{
	deliver((struct memory_connection *)owner, lane, NULL);
}

void
memory_connection_deliveries_halt(struct memory_connection *connection)
{
	struct delivery *delivery;

	TAILQ_FOREACH (delivery, &connection->deliveries, entry)
		timers_cancel(connection->client, &delivery->arrive);
}

void
memory_connection_deliveries_go_on(struct memory_connection *connection)
{
	struct delivery *delivery;

	TAILQ_FOREACH (delivery, &connection->deliveries, entry) {
		if (!timer_is_set(&delivery->arrive))
			timers_set(connection->client, &delivery->arrive, now_of(connection) + 1);
	}
}

void
memory_connection_deliveries_clear(struct memory_connection *connection)
{
	struct delivery *delivery;

	while ((delivery = TAILQ_FIRST(&connection->deliveries)) != NULL)
		delivery_free(delivery);
}

void
memory_connection_lane_hear(
    struct memory_connection *connection, uint64_t id, const struct memory_hearer *hearer)
{
	struct lane *lane = lane_find(connection, id);

	if (lane != NULL)
		lane->hearer = hearer;
}
