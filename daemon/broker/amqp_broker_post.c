#include "daemon/broker/amqp_broker_inside.h"

#include "daemon/broker/count.h"
#include "daemon/broker/hint.h"
#include "daemon/broker/letters.h"
#include "daemon/broker/line.h"

void
amqp_broker_line_join(struct broker *broker, const char *queue, int priority, unsigned credit)
{
	struct amqp_broker *amqp = amqp_of(broker);

	if (amqp->stopped)
		return;
	amqp_lines_join(amqp->over.lines, queue, priority, credit);
	amqp_broker_need_side(amqp);
}

void
amqp_broker_line_leave(struct broker *broker, const char *queue, int priority)
{
	struct amqp_broker *amqp = amqp_of(broker);

	amqp->side_used = amqp_now(amqp);
	amqp_lines_leave(amqp->over.lines, queue, priority);
}

void
amqp_broker_line_wake(struct broker *broker, const char *queue, int slot)
{
	struct amqp_broker *amqp = amqp_of(broker);

	if (amqp->stopped)
		return;
	amqp_hints_send(amqp->over.hints, queue, slot);
	amqp_broker_need_side(amqp);
}

void
amqp_broker_line_count(struct broker *broker, const char *queue, struct broker_count_done done)
{
	struct amqp_broker *amqp = amqp_of(broker);

	if (amqp->stopped)
		return;
	amqp_counters_ask(amqp->over.counters, queue, done);
	amqp_broker_need_side(amqp);
}

void
amqp_broker_inbox_open(struct broker *broker)
{
	struct amqp_broker *amqp = amqp_of(broker);

	if (amqp->stopped)
		return;
	amqp_letters_open(amqp->over.letters);
	amqp_broker_need_side(amqp);
}

void
amqp_broker_inbox_close(struct broker *broker)
{
	struct amqp_broker *amqp = amqp_of(broker);

	if (amqp->stopped)
		return;
	amqp->side_used = amqp_now(amqp);
	amqp_letters_close(amqp->over.letters);
}

uint64_t
amqp_broker_ask(struct broker *broker, const char *text, size_t len)
{
	struct amqp_broker *amqp = amqp_of(broker);
	uint64_t number;

	if (amqp->stopped)
		return 0;
	number = amqp_letters_ask(amqp->over.letters, text, len);
	amqp_broker_need_side(amqp);
	return number;
}

void
amqp_broker_reply_to(struct broker *broker, uint64_t from, const char *text, size_t len)
{
	struct amqp_broker *amqp = amqp_of(broker);

	if (!amqp->stopped)
		amqp_letters_reply(amqp->over.letters, from, text, len);
}
