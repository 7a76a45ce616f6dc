#include "daemon/lock/names.h"

#include <assert.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "protocol/lockname.h"

/*
 * Contents:
 *	Namings of the configuration: queue_naming_new() reads the templates of an administrator.
 *	append() and its likes put a name together, within the limit of AMQP.
 *	queue_name_a(), queue_name_b() and queue_name_quorum_slot() name the queues of a slot.
 *	queue_name_mutex(), _admin(), _gate(), _unlimited(), _wait() name the other queues of a lock.
 *	queue_name_directory() and queue_name_directory_mutex() name those of the directory.
 *	queue_name_refusal() says why a name cannot be a lock: its queue would be the queue of another name.
 */

/* The suffixes of a lock's name for the queues without a slot. */
static const char *const plain_suffixes[] = {"", "-M", "-W", "-M-W", "-G", "-U"};
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

/*
 * A scan of a large semaphore makes tens of thousands of names. Without printf it takes a quarter
 * of the time. Returns the end of the text.
 */
static size_t
append(struct queue_name *queue, size_t at, const char *text, size_t len)
{
	assert(at + len < sizeof(queue->text));
	memcpy(queue->text + at, text, len);
	return at + len;
}

static size_t
append_number(struct queue_name *queue, size_t at, int number)
{
	char digits[12];
	size_t first = sizeof(digits);

	for (; number > 0; number /= 10)
		digits[--first] = (char)('0' + number % 10);
	return append(queue, at, digits + first, sizeof(digits) - first);
}

/* A half of a template, with the slot's number where {slot} is. */
static size_t
append_half(struct queue_name *queue, size_t at, const char *half, int slot)
{
	const char *brace = strchr(half, TEMPLATE_SLOT[0]);

	if (brace == NULL)
		return append(queue, at, half, strlen(half));
	at = append(queue, at, half, (size_t)(brace - half));
	at = append_number(queue, at, slot);
	brace += strlen(TEMPLATE_SLOT);
	return append(queue, at, brace, strlen(brace));
}

static struct queue_name
plain_queue(const char *name, const char *suffix)
{
	struct queue_name queue;
	size_t at = append(&queue, 0, name, strlen(name));

	at = append(&queue, at, suffix, strlen(suffix));
	queue.text[at] = '\0';
	return queue;
}

static struct queue_name
slot_queue(const struct template *template, const char *name, int slot)
{
	struct queue_name queue;
	size_t at;

	assert(slot > 0);
	at = append_half(&queue, 0, template->head, slot);
	at = append(&queue, at, name, strlen(name));
	at = append_half(&queue, at, template->tail, slot);
	queue.text[at] = '\0';
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

static const char quorum_prefix[] = "lockbroker=q=";

struct queue_name
queue_name_quorum(const char *name, int slot)
{
	struct queue_name queue;
	size_t at = append(&queue, 0, quorum_prefix, sizeof(quorum_prefix) - 1);

	at = append(&queue, at, name, strlen(name));
	if (slot > 0) {
		at = append(&queue, at, "=", 1);
		at = append_number(&queue, at, slot);
	}
	queue.text[at] = '\0';
	return queue;
}

int
queue_name_quorum_slot(const char *queue, char ret_name[QUEUE_NAME_SIZE])
{
	const size_t before = sizeof(quorum_prefix) - 1;
	const char *equals;
	long slot;
	size_t len;

	if (strncmp(queue, quorum_prefix, before) != 0)
		return -1;
	equals = strchr(queue + before, '=');
	len = equals == NULL ? strlen(queue + before) : (size_t)(equals - queue) - before;
	slot = equals == NULL ? 0 : strtol(equals + 1, NULL, 10);
	if (len == 0 || len > LOCKNAME_MAX || slot < 0 || slot > INT_MAX)
		return -1;
	memcpy(ret_name, queue + before, len);
	ret_name[len] = '\0';
	return strcmp(queue_name_quorum(ret_name, (int)slot).text, queue) == 0 ? (int)slot : -1;
}

bool
queue_naming_has_quorum(const struct queue_naming *naming)
{
	return naming == &queue_naming_amqp_locks;
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
queue_name_wait(const struct queue_naming *naming, const char *name, bool mutex)
{
	(void)naming; /* also if the mutex is {name}, as the semaphore has a wait queue, too */
	return plain_queue(name, mutex ? "-M-W" : "-W");
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

/* The text behind `half`, read from the left; NULL: the text does not begin with half. */
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

/* The start of `half`, read from the right; SIZE_MAX: text[0..len) does not end with half. */
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
 * Whether the template can make this queue name. Any number counts as a slot, and any text as a
 * name. The search for uncounted slots also probes slots above the last one.
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
			return "with the daemon's naming, its queue names could belong to another "
			       "lock";
	}
	if (is_reserved(&a) || is_reserved(&b))
		return "with the daemon's naming, its queues would start with amq., which RabbitMQ "
		       "reserves";
	return NULL;
}
