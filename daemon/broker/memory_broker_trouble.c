#include "daemon/broker/memory_broker.h"

#include <assert.h>

#include "daemon/broker/memory_broker_inside.h"
#include "daemon/broker/memory_connection.h"
#include "daemon/broker/memory_letters.h"
#include "daemon/broker/memory_line.h"
#include "daemon/broker/memory_stray.h"
#include "daemon/broker/memory_watch.h"

void
memory_broker_set_timers(struct broker *base, struct timers *timers)
{
	struct memory_broker *broker = memory_of(base);

	assert(broker->phase == PHASE_NEW && !memory_watches_any(broker->watches));
	broker->timers = timers;
	memory_strays_free(broker->strays);
	broker->strays = memory_strays_new(timers);
	memory_watches_free(broker->watches);
	broker->watches = memory_watches_new(broker->world, timers, base);
	memory_lines_free(broker->lines);
	broker->lines = memory_lines_new(broker);
	memory_letters_free(broker->letters);
	broker->letters = memory_letters_new(broker);
}

void
memory_broker_freeze(struct broker *broker, enum broker_link which)
{
	const struct link *link = &memory_of(broker)->links[which];

	if (link->state == BROKER_UP)
		memory_connection_freeze(link->connection);
}

void
memory_broker_forsake(struct broker *broker, enum broker_link which)
{
	const struct link *link = &memory_of(broker)->links[which];

	if (link->state == BROKER_UP)
		memory_connection_forsake(link->connection);
}

void
memory_broker_block(struct broker *broker, enum broker_link which, unsigned ways)
{
	const struct link *link = &memory_of(broker)->links[which];

	if (link->state == BROKER_UP)
		memory_connection_block(link->connection, ways);
}

size_t
memory_broker_watched(const struct broker *broker)
{
	return memory_watches_count(((const struct memory_broker *)broker)->watches);
}

size_t
memory_broker_joined(const struct broker *broker)
{
	return memory_lines_count(((const struct memory_broker *)broker)->lines);
}

uint64_t
memory_broker_connection(const struct broker *broker, enum broker_link which)
{
	const struct link *link = &((const struct memory_broker *)broker)->links[which];

	return link->state == BROKER_UP ? memory_connection_number(link->connection) : 0;
}

void
memory_broker_each_lane(const struct broker *broker, enum broker_link which,
    void (*fn)(void *ctx, uint64_t lane, bool silent), void *ctx)
{
	const struct link *link = &((const struct memory_broker *)broker)->links[which];

	if (link->connection != NULL)
		memory_connection_each_lane(link->connection, fn, ctx);
}

void
memory_broker_close_watches(struct broker *broker)
{
	const struct link *side = &memory_of(broker)->links[BROKER_SIDE];
	const struct memory_connection *connection = side->connection;

	if (side->state != BROKER_UP || memory_connection_is_frozen(connection))
		return;
	memory_watches_down(memory_of(broker)->watches);
	/* Unless one of those who heard it ended the link. */
	if (side->connection == connection && side->state == BROKER_UP)
		memory_watches_up(memory_of(broker)->watches, connection);
}
