#include "daemon/lock/names.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"

/* What is appended to a lock's name for the queues that have no slot. */
static const char *const plain_suffixes[] = {"", "-M", "-W", "-G", "-U"};
#define PLAIN_SUFFIXES (sizeof(plain_suffixes) / sizeof(plain_suffixes[0]))

struct queue_naming {
	struct template a, b;
	const char *mutex; /* appended to the name */
	char directory[QUEUE_NAME_SIZE - sizeof("=M") + 1];
};

const struct queue_naming queue_naming_amqp_locks = {
    .a = {"", "-{slot}-A"},
    .b = {"", "-{slot}-B"},
    .mutex = "-M",
    .directory = "lockbroker=amqp-locks",
};
const struct queue_naming queue_naming_amqp_locks_python = {
    .a = {"", "-A-{slot}"},
    .b = {"", "-B-{slot}"},
    .mutex = "",
    .directory = "lockbroker=amqp-locks-python",
};

/* ---- namings of the configuration ---- */

const struct queue_naming *
queue_naming_new(const struct template *a, const struct template *b)
{
	struct queue_naming *naming = mem_alloc(sizeof(*naming));
	int len;

	naming->a = *a;
	naming->b = *b;
	naming->mutex = "-M";
	/* '=' is in no template: the two can be told apart, and so can two namings. */
	len = snprintf(naming->directory, sizeof(naming->directory),
	    "lockbroker=custom=%s" TEMPLATE_NAME "%s=%s" TEMPLATE_NAME "%s", a->head, a->tail,
	    b->head, b->tail);
	assert(len > 0 && (size_t)len < sizeof(naming->directory));
	return naming;
}

void
queue_naming_free(const struct queue_naming *naming)
{
	if (naming != &queue_naming_amqp_locks && naming != &queue_naming_amqp_locks_python)
		free((void *)naming);
}

/* ---- names ---- */

static struct queue_name
plain_queue(const char *name, const char *suffix)
{
	struct queue_name queue;
	int len = snprintf(queue.text, sizeof(queue.text), "%s%s", name, suffix);

	assert(len > 0 && (size_t)len < sizeof(queue.text));
	return queue;
}

/* A half of a template into to, with the slot's number where {slot} is. */
static void
fill_half(char to[QUEUE_NAME_SIZE], const char *half, int slot)
{
	const char *at = strstr(half, TEMPLATE_SLOT);

	if (at == NULL)
		snprintf(to, QUEUE_NAME_SIZE, "%s", half);
	else
		snprintf(to, QUEUE_NAME_SIZE, "%.*s%d%s", (int)(at - half), half, slot,
		    at + strlen(TEMPLATE_SLOT));
}

static struct queue_name
slot_queue(const struct template *template, const char *name, int slot)
{
	char head[QUEUE_NAME_SIZE], tail[QUEUE_NAME_SIZE];
	struct queue_name queue;
	int len;

	assert(slot > 0);
	fill_half(head, template->head, slot);
	fill_half(tail, template->tail, slot);
	len = snprintf(queue.text, sizeof(queue.text), "%s%s%s", head, name, tail);
	assert(len > 0 && (size_t)len < sizeof(queue.text));
	return queue;
}

struct queue_name
queue_name_a(const struct queue_naming *naming, const char *name, int slot)
{
	return slot_queue(&naming->a, name, slot);
}

struct queue_name
queue_name_b(const struct queue_naming *naming, const char *name, int slot)
{
	return slot_queue(&naming->b, name, slot);
}

struct queue_name
queue_name_mutex(const struct queue_naming *naming, const char *name)
{
	return plain_queue(name, naming->mutex);
}

struct queue_name
queue_name_admin(const struct queue_naming *naming, const char *name)
{
	(void)naming; /* the same in every naming */
	return plain_queue(name, "");
}

bool
queue_naming_mutex_is_admin(const struct queue_naming *naming)
{
	return naming->mutex[0] == '\0';
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
	return plain_queue(naming->directory, "");
}

struct queue_name
queue_name_directory_mutex(const struct queue_naming *naming)
{
	return plain_queue(naming->directory, "=M");
}

/* ---- whose queue a name is ---- */

/* Behind half, which text begins with when read from the left; NULL: it does not. */
static const char *
skip_head(const char *text, const char *half)
{
	while (*half != '\0') {
		if (*half == '{') {
			size_t digits = strspn(text, "0123456789");

			if (digits == 0)
				return NULL;
			text += digits;
			half += strlen(TEMPLATE_SLOT);
		} else if (*text++ != *half++) {
			return NULL;
		}
	}
	return text;
}

/* Where half begins, which text[0..len) ends with when read from the right; SIZE_MAX: it does not. */
static size_t
skip_tail(const char *text, size_t len, const char *half)
{
	size_t left = strlen(half);

	while (left > 0) {
		if (half[left - 1] == '}') {
			size_t end = len;

			while (len > 0 && strchr("0123456789", text[len - 1]) != NULL)
				len--;
			if (len == end)
				return SIZE_MAX;
			left -= strlen(TEMPLATE_SLOT);
		} else if (len == 0 || text[--len] != half[--left]) {
			return SIZE_MAX;
		}
	}
	return len;
}

/*
 * Whether the queue could have been made by the template. Any number counts as a slot and any text as
 * a name: slots above the last one are looked for, too, when strays are removed.
 */
static bool
has_form(const char *queue, const struct template *template)
{
	const char *name = skip_head(queue, template->head);
	size_t len = name == NULL ? SIZE_MAX : skip_tail(name, strlen(name), template->tail);

	return len != SIZE_MAX && len > 0;
}

static bool
is_reserved(const struct queue_name *queue)
{
	return strncmp(queue->text, "amq.", 4) == 0;
}

const char *
queue_name_refusal(const struct queue_naming *naming, const char *name)
{
	struct queue_name a = queue_name_a(naming, name, 1), b = queue_name_b(naming, name, 1);

	for (size_t i = 0; i < PLAIN_SUFFIXES; i++) {
		struct queue_name queue = plain_queue(name, plain_suffixes[i]);

		if (has_form(queue.text, &naming->a) || has_form(queue.text, &naming->b))
			return "by this daemon's templates a slot's queue of another lock could be "
			       "named like one of this lock's own";
	}
	if (is_reserved(&a) || is_reserved(&b))
		return "by this daemon's templates its queues would start with amq., which "
		       "RabbitMQ keeps for itself";
	return NULL;
}
