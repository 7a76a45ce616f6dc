#include "daemon/lock/names.h"

#include <assert.h>
#include <stdio.h>

static struct queue_name
slot_queue(enum lock_naming naming, const char *name, int slot, char letter)
{
	struct queue_name queue;
	int len = 0;

	assert(slot > 0);
	switch (naming) {
	case LOCK_NAMING_AMQP_LOCKS:
		len = snprintf(queue.text, sizeof(queue.text), "%s-%d-%c", name, slot, letter);
		break;
	case LOCK_NAMING_AMQP_LOCKS_PYTHON:
		len = snprintf(queue.text, sizeof(queue.text), "%s-%c-%d", name, letter, slot);
		break;
	}
	assert(len > 0 && (size_t)len < sizeof(queue.text));
	return queue;
}

static struct queue_name
plain_queue(const char *name, const char *suffix)
{
	struct queue_name queue;
	int len = snprintf(queue.text, sizeof(queue.text), "%s%s", name, suffix);

	assert(len > 0 && (size_t)len < sizeof(queue.text));
	return queue;
}

struct queue_name
queue_name_a(enum lock_naming naming, const char *name, int slot)
{
	return slot_queue(naming, name, slot, 'A');
}

struct queue_name
queue_name_b(enum lock_naming naming, const char *name, int slot)
{
	return slot_queue(naming, name, slot, 'B');
}

struct queue_name
queue_name_mutex(enum lock_naming naming, const char *name)
{
	return plain_queue(name, naming == LOCK_NAMING_AMQP_LOCKS ? "-M" : "");
}

struct queue_name
queue_name_admin(enum lock_naming naming, const char *name)
{
	(void)naming; /* the same in every preset */
	return plain_queue(name, "");
}
