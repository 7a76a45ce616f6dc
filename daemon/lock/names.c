#include "daemon/lock/names.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>

/* printf formats of (name, slot) */
struct queue_naming {
	const char *word;
	bool python;
};

const struct queue_naming queue_naming_amqp_locks = {"amqp-locks", false};
const struct queue_naming queue_naming_amqp_locks_python = {"amqp-locks-python", true};

static struct queue_name
slot_queue(const struct queue_naming *naming, const char *name, int slot, char letter)
{
	struct queue_name queue;
	int len = 0;

	assert(slot > 0);
	if (naming->python)
		len = snprintf(queue.text, sizeof(queue.text), "%s-%c-%d", name, letter, slot);
	else
		len = snprintf(queue.text, sizeof(queue.text), "%s-%d-%c", name, slot, letter);
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
queue_name_a(const struct queue_naming *naming, const char *name, int slot)
{
	return slot_queue(naming, name, slot, 'A');
}

struct queue_name
queue_name_b(const struct queue_naming *naming, const char *name, int slot)
{
	return slot_queue(naming, name, slot, 'B');
}

struct queue_name
queue_name_mutex(const struct queue_naming *naming, const char *name)
{
	return plain_queue(name, naming->python ? "" : "-M");
}

struct queue_name
queue_name_admin(const struct queue_naming *naming, const char *name)
{
	(void)naming; /* the same in every preset */
	return plain_queue(name, "");
}

struct queue_name
queue_name_gate(const struct queue_naming *naming, const char *name)
{
	(void)naming;
	return plain_queue(name, "-G");
}

struct queue_name
queue_name_unlimited(const struct queue_naming *naming, const char *name)
{
	(void)naming;
	return plain_queue(name, "-U");
}

struct queue_name
queue_name_directory(const struct queue_naming *naming)
{
	return plain_queue("lockbroker=", naming->word);
}

struct queue_name
queue_name_directory_mutex(const struct queue_naming *naming)
{
	struct queue_name queue = queue_name_directory(naming);

	return plain_queue(queue.text, "=M");
}
