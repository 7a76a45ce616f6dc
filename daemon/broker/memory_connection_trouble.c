#include "daemon/broker/memory_connection.h"

#include <assert.h>

#include "daemon/broker/memory_connection_inside.h"
#include "daemon/broker/memory_probe.h"

/* ---- nothing is performed any more ---- */

/* Nothing more is performed. */
static void
halt(struct memory_connection *connection)
{
	struct request *request;

	assert(is_up(connection));
	connection->frozen = true;
	TAILQ_FOREACH (request, &connection->requests, of_connection) {
		timers_cancel(timers_of(connection), &request->perform);
		if (request->probe != NULL)
			memory_probe_freeze(request->probe);
	}
}

void
memory_connection_freeze(struct memory_connection *connection)
{
	struct request *request;
	struct lane *lane;

	halt(connection);
	TAILQ_FOREACH (request, &connection->requests, of_connection)
		timers_cancel(connection->client, &request->answer);
	for (lane = connection->lanes; lane != NULL; lane = lane->hh.next)
		timers_cancel(connection->client, &lane->close);
	memory_connection_deliveries_halt(connection);
}

void
memory_connection_forsake(struct memory_connection *connection)
{
	halt(connection);
	memory_owner_release(&connection->owner);
}

bool
memory_connection_is_frozen(const struct memory_connection *connection)
{
	return connection->frozen;
}

/* ---- nothing arrives for a while ---- */

static int64_t
when_or_now(const struct timer *timer, int64_t now)
{
	return timer_is_set(timer) && timer->when > now ? timer->when : now;
}

/* What was held back arrives now, in its order; so those behind it are put behind it again. */
static void
deliver(struct memory_connection *connection, int64_t now)
{
	struct request *request;
	struct lane *lane;

	TAILQ_FOREACH (request, &connection->requests, of_connection) {
		if (request->probe != NULL || !request->reaches)
			continue;
		if (request->state == REQUEST_SENT)
			timers_set(timers_of(connection), &request->perform,
			    when_or_now(&request->perform, now));
		if (request->returns)
			timers_set(connection->client, &request->answer,
			    when_or_now(&request->answer, now + 1));
	}
	for (lane = connection->lanes; lane != NULL; lane = lane->hh.next) {
		if (lane->state == LANE_FAILED && lane->close_text != NULL)
			timers_set(
			    connection->client, &lane->close, when_or_now(&lane->close, now + 1));
	}
}

void
memory_connection_block(struct memory_connection *connection, unsigned ways)
{
	struct request *request;

	if (connection->frozen)
		return;
	connection->blocked = ways;
	TAILQ_FOREACH (request, &connection->requests, of_connection) {
		if (request->probe != NULL && ways != 0)
			memory_probe_freeze(request->probe);
	}
	deliver(connection, now_of(connection));
	memory_connection_deliveries_go_on(connection);
}
