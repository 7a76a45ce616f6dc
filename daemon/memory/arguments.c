#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/memory/quorum.h"

/* Servers before 4.3 ignore the two timeouts. */
const char *const memory_quorum_argument_names[MEMORY_QUORUM_ARGUMENTS] = {
    "x-delivery-limit", "x-consumer-timeout", "x-consumer-disconnected-timeout"};

const amqp_field_value_t *
memory_argument(const amqp_table_t *arguments, const char *key)
{
	for (int i = 0; i < arguments->num_entries; i++) {
		const amqp_table_entry_t *entry = &arguments->entries[i];

		if (entry->key.len == strlen(key) &&
		    memcmp(entry->key.bytes, key, entry->key.len) == 0)
			return &entry->value;
	}
	return NULL;
}

long
memory_number_argument(const amqp_table_t *arguments, const char *key)
{
	const amqp_field_value_t *value = memory_argument(arguments, key);

	if (value == NULL)
		return -1;
	return value->kind == AMQP_FIELD_KIND_I64 ? value->value.i64 : value->value.i32;
}

struct memory_argument
memory_argument_of(const amqp_queue_declare_t *declare, const char *name)
{
	return (struct memory_argument){
	    .given = memory_argument(&declare->arguments, name) != NULL,
	    .value = memory_number_argument(&declare->arguments, name),
	};
}

bool
memory_quorum_is_meant(const amqp_queue_declare_t *declare)
{
	const amqp_field_value_t *value = memory_argument(&declare->arguments, "x-queue-type");
	const char quorum[] = "quorum";

	return value != NULL && value->kind == AMQP_FIELD_KIND_UTF8 &&
	       value->value.bytes.len == strlen(quorum) &&
	       memcmp(value->value.bytes.bytes, quorum, strlen(quorum)) == 0;
}

/* RabbitMQ: rabbit_quorum_queue, declare. */
const char *
memory_quorum_refuses(const amqp_queue_declare_t *declare)
{
	if (declare->auto_delete)
		return "auto-delete";
	if (declare->exclusive)
		return "exclusive-owner";
	return declare->durable ? NULL : "non-durable";
}

/* ---- comparing ---- */

/* The first difference, in RabbitMQ's words (rabbit_misc, val). */
struct difference {
	const char *argument;
	char received[64], current[64];
};

static bool
texts_differ(
    struct difference *ret, const char *argument, const char *received, const char *current)
{
	if (strcmp(received, current) == 0)
		return false;
	ret->argument = argument;
	snprintf(ret->received, sizeof(ret->received), "%s", received);
	snprintf(ret->current, sizeof(ret->current), "%s", current);
	return true;
}

/* both: the other one is given, too. */
static const char *
number_words(char room[64], struct memory_argument number, bool both)
{
	if (!number.given)
		return "none";
	if (both)
		snprintf(room, 64, "'%" PRId64 "'", number.value);
	else
		snprintf(room, 64, "the value '%" PRId64 "' of type '%s'", number.value,
		    number.value > INT32_MAX ? "long" : "signedint");
	return room;
}

static bool
numbers_differ(struct difference *ret, const char *argument, struct memory_argument received,
    struct memory_argument current)
{
	const bool both = received.given && current.given;
	char room[64], other[64];

	return texts_differ(
	    ret, argument, number_words(room, received, both), number_words(other, current, both));
}

static bool
lengths_differ(struct difference *ret, const struct memory_queue *queue,
    const amqp_queue_declare_t *declare, const char *argument, long current)
{
	const bool given = !queue->odd && current >= 0;

	return numbers_differ(ret, argument, memory_argument_of(declare, argument),
	    (struct memory_argument){.given = given, .value = current});
}

static const char *
flag_words(bool flag)
{
	return flag ? "'true'" : "'false'";
}

static const char *
single_words(bool single)
{
	return single ? "the value 'true' of type 'bool'" : "none";
}

static const char *
type_words(bool quorum)
{
	return quorum ? "the value 'quorum' of type 'longstr'" : "none";
}

static const char *
overflow_words(bool rejects)
{
	return rejects ? "the value 'reject-publish' of type 'longstr'" : "none";
}

static bool
quorum_differs(
    struct difference *ret, const struct memory_queue *queue, const amqp_queue_declare_t *declare)
{
	const int count =
	    queue->world->version >= MEMORY_VERSION(4, 3) ? MEMORY_QUORUM_ARGUMENTS : 1;

	for (int i = 0; i < count; i++) {
		const char *name = memory_quorum_argument_names[i];

		if (numbers_differ(
			ret, name, memory_argument_of(declare, name), queue->quorum->arguments[i]))
			return true;
	}
	return false;
}

/* In the order of RabbitMQ, which stops at the first difference. */
static bool
differs(
    struct difference *ret, const struct memory_queue *queue, const amqp_queue_declare_t *declare)
{
	const bool quorum = queue->quorum != NULL,
		   single =
		       memory_argument(&declare->arguments, "x-single-active-consumer") != NULL,
		   rejects = memory_argument(&declare->arguments, "x-overflow") != NULL;

	if (texts_differ(
		ret, "durable", flag_words(declare->durable), flag_words(queue->durable)) ||
	    texts_differ(ret, "auto_delete", flag_words(declare->auto_delete),
		flag_words(queue->auto_delete)) ||
	    lengths_differ(ret, queue, declare, "x-expires", queue->expires) ||
	    texts_differ(ret, "x-single-active-consumer", single_words(single),
		single_words(queue->single)) ||
	    texts_differ(ret, "x-queue-type", type_words(memory_quorum_is_meant(declare)),
		type_words(quorum)))
		return true;
	if (quorum)
		return quorum_differs(ret, queue, declare);
	return lengths_differ(ret, queue, declare, "x-max-length", queue->length_max) ||
	       texts_differ(
		   ret, "x-overflow", overflow_words(rejects), overflow_words(queue->rejects));
}

bool
memory_queue_differs(
    const struct memory_queue *queue, const amqp_queue_declare_t *declare, char *words, size_t size)
{
	struct difference difference;

	if (!differs(&difference, queue, declare))
		return false;
	snprintf(words, size,
	    "inequivalent arg '%s' for queue '%s' in vhost '/': received %s but current is %s",
	    difference.argument, queue->name, difference.received, difference.current);
	return true;
}
