#include "daemon/broker/memory_broker_inside.h"

#include <assert.h>
#include <string.h>

#include "daemon/broker/memory_connection.h"
#include "daemon/broker/memory_letters.h"
#include "daemon/broker/memory_line.h"

void
memory_broker_line_join(struct broker *base, const char *queue, int priority, unsigned credit)
{
	struct memory_broker *broker = memory_of(base);

	if (broker->phase != PHASE_STARTED)
		return;
	memory_lines_join(broker->lines, queue, priority, credit);
	memory_link_schedule(&broker->links[BROKER_SIDE]);
}

void
memory_broker_line_leave(struct broker *base, const char *queue, int priority)
{
	memory_lines_leave(memory_of(base)->lines, queue, priority);
}

void
memory_broker_line_wake(struct broker *base, const char *queue, int slot)
{
	struct memory_broker *broker = memory_of(base);

	if (broker->phase != PHASE_STARTED)
		return;
	memory_lines_wake(broker->lines, queue, slot);
	memory_link_schedule(&broker->links[BROKER_SIDE]);
}

void
memory_broker_line_count(struct broker *base, const char *queue, struct broker_count_done done)
{
	struct memory_broker *broker = memory_of(base);
	struct link *side = &broker->links[BROKER_SIDE];
	struct memory_call call = {.method = MEMORY_LINE_COUNT, .queue = queue};

	if (broker->phase != PHASE_STARTED)
		return;
	memory_link_want(side);
	call.lane = memory_broker_new_lane(broker);
	memory_connection_count(side->connection, &call, done);
}

void
memory_broker_inbox_open(struct broker *base)
{
	struct memory_broker *broker = memory_of(base);

	if (broker->phase != PHASE_STARTED)
		return;
	memory_letters_open(broker->letters);
	memory_link_schedule(&broker->links[BROKER_SIDE]);
}

void
memory_broker_inbox_close(struct broker *base)
{
	struct memory_broker *broker = memory_of(base);

	if (broker->phase == PHASE_STARTED)
		memory_letters_close(broker->letters);
}

uint64_t
memory_broker_ask(struct broker *base, const char *text, size_t len)
{
	struct memory_broker *broker = memory_of(base);
	uint64_t number;

	assert(len <= BROKER_LETTER_MAX && strlen(text) == len);
	if (broker->phase != PHASE_STARTED)
		return 0;
	number = memory_letters_ask(broker->letters, text);
	memory_link_schedule(&broker->links[BROKER_SIDE]);
	return number;
}

void
memory_broker_reply_to(struct broker *base, uint64_t from, const char *text, size_t len)
{
	struct memory_broker *broker = memory_of(base);

	assert(len <= BROKER_LETTER_MAX && strlen(text) == len);
	if (broker->phase == PHASE_STARTED)
		memory_letters_reply(broker->letters, from, text);
}
