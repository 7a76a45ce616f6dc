#include "tests/sim/queues.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_SIZE 16
#define DIRECTORY "lockbroker="
#define INBOX DIRECTORY "inbox="
/* The records of the way quorum. */
#define RECORDS "lockbroker=quorum"
#define BEADS DIRECTORY "q="

/* The names by one template. */
struct texts {
	char a[NAMES][SLOTS_KNOWN + 1][TEXT_SIZE], b[NAMES][SLOTS_KNOWN + 1][TEXT_SIZE];
	char directory[2 * TEXT_SIZE], directory_mutex[2 * TEXT_SIZE];
};

static char locks[NAMES][TEXT_SIZE], gates[NAMES][TEXT_SIZE], unlimiteds[NAMES][TEXT_SIZE];
static char lines[NAMES][2][TEXT_SIZE];
static char beads[NAMES][SLOTS_KNOWN + 1][2 * TEXT_SIZE];
static struct texts plain, python;
static const struct texts *used = &plain;

static void
make_slots(int name, int slot)
{
	char part = (char)('a' + name);

	snprintf(plain.a[name][slot], TEXT_SIZE, "%c-%d-A", part, slot);
	snprintf(plain.b[name][slot], TEXT_SIZE, "%c-%d-B", part, slot);
	snprintf(python.a[name][slot], TEXT_SIZE, "%c-A-%d", part, slot);
	snprintf(python.b[name][slot], TEXT_SIZE, "%c-B-%d", part, slot);
	snprintf(beads[name][slot], sizeof(beads[name][slot]), BEADS "%c=%d", part, slot);
}

static void
make_directory(struct texts *texts, const char *naming)
{
	snprintf(texts->directory, sizeof(texts->directory), DIRECTORY "%s", naming);
	snprintf(texts->directory_mutex, sizeof(texts->directory_mutex), DIRECTORY "%s=M", naming);
}

void
queues_init(void)
{
	for (int name = 0; name < NAMES; name++) {
		snprintf(locks[name], TEXT_SIZE, "%c", 'a' + name);
		snprintf(gates[name], TEXT_SIZE, "%c-G", 'a' + name);
		snprintf(unlimiteds[name], TEXT_SIZE, "%c-U", 'a' + name);
		snprintf(lines[name][0], TEXT_SIZE, "%c-W", 'a' + name);
		snprintf(lines[name][1], TEXT_SIZE, "%c-M-W", 'a' + name);
		snprintf(plain.b[name][0], TEXT_SIZE, "%c-M", 'a' + name);
		snprintf(python.b[name][0], TEXT_SIZE, "%c", 'a' + name);
		snprintf(beads[name][0], sizeof(beads[name][0]), BEADS "%c", 'a' + name);
		for (int slot = 1; slot <= SLOTS_KNOWN; slot++)
			make_slots(name, slot);
	}
	make_directory(&plain, "amqp-locks");
	make_directory(&python, "amqp-locks-python");
}

void
queues_use(bool use_python)
{
	used = use_python ? &python : &plain;
}

const char *
queue_lock(int name)
{
	return locks[name];
}

const char *
queue_a(int name, int slot)
{
	return used->a[name][slot];
}

const char *
queue_b(int name, int slot)
{
	return used->b[name][slot];
}

const char *
queue_beads(int name, int slot)
{
	return beads[name][slot];
}

const char *
queue_gate(int name)
{
	return gates[name];
}

const char *
queue_unlimited(int name)
{
	return unlimiteds[name];
}

const char *
queue_wait(int name, bool mutex)
{
	return lines[name][mutex];
}

const char *
queue_directory(void)
{
	return used->directory;
}

const char *
queue_directory_mutex(void)
{
	return used->directory_mutex;
}

const char *
queue_text(struct queue_id id)
{
	switch (id.part) {
	case QUEUE_A:
		return queue_a(id.name, id.slot);
	case QUEUE_B:
		return queue_b(id.name, id.slot);
	case QUEUE_BEADS:
		return queue_beads(id.name, id.slot);
	case QUEUE_ADMIN:
		return queue_lock(id.name);
	case QUEUE_GATE:
		return queue_gate(id.name);
	case QUEUE_UNLIMITED:
		return queue_unlimited(id.name);
	case QUEUE_WAIT:
		return queue_wait(id.name, id.slot == 1);
	case QUEUE_DIRECTORY:
		return queue_directory();
	case QUEUE_DIRECTORY_MUTEX:
		return queue_directory_mutex();
	case QUEUE_RECORDS:
		return RECORDS;
	}
	abort();
}

int
queue_lock_find(const char *name)
{
	int found = name[0] - 'a';

	assert(found >= 0 && found < NAMES && strcmp(locks[found], name) == 0);
	return found;
}

/*
 * The part of the scheme that a character of a queue name stands for. A number is a slot's, as in
 * amqp-locks.
 */
static enum queue_part
part_of(char part)
{
	switch (part) {
	case 'A':
		return QUEUE_A;
	case 'G':
		return QUEUE_GATE;
	case 'U':
		return QUEUE_UNLIMITED;
	default:
		return QUEUE_B; /* the true mutex, too */
	}
}

static int
read_slot(const char **at)
{
	int slot = 0;

	while (**at >= '0' && **at <= '9')
		slot = slot * 10 + *(*at)++ - '0';
	return slot;
}

bool
queue_is_locks(const char *queue)
{
	return queue[0] != '\0' && strncmp(queue, INBOX, strlen(INBOX)) != 0 &&
	       strcmp(queue, RECORDS) != 0;
}

struct queue_id
queue_find(const char *queue)
{
	struct queue_id id = {.part = QUEUE_ADMIN, .name = queue[0] - 'a'};
	const char *at = queue + 2;

	if (strncmp(queue, BEADS, strlen(BEADS)) == 0) {
		at = queue + strlen(BEADS);
		id = (struct queue_id){.part = QUEUE_BEADS, .name = *at++ - 'a'};
		at += *at == '=';
		id.slot = read_slot(&at);
		assert(id.name >= 0 && id.name < NAMES && id.slot <= SLOTS_KNOWN);
		return id;
	}
	if (strcmp(queue, RECORDS) == 0)
		return (struct queue_id){QUEUE_RECORDS, 0, 0};
	if (strncmp(queue, DIRECTORY, strlen(DIRECTORY)) == 0) {
		bool mutex = strcmp(queue, used->directory_mutex) == 0;

		assert(mutex || strcmp(queue, used->directory) == 0);
		return (struct queue_id){mutex ? QUEUE_DIRECTORY_MUTEX : QUEUE_DIRECTORY, 0, 0};
	}
	assert(id.name >= 0 && id.name < NAMES);
	if (queue[1] == '\0')
		return id;
	for (int mutex = 0; mutex < 2; mutex++) {
		if (strcmp(queue, lines[id.name][mutex]) == 0)
			return (struct queue_id){QUEUE_WAIT, id.name, mutex};
	}
	/* a-1-A, a-A-1, a-M */
	id.slot = read_slot(&at);
	if (id.slot > 0)
		at++;
	id.part = part_of(*at++);
	if (*at == '-') {
		at++;
		id.slot = read_slot(&at);
	}
	assert(id.slot <= SLOTS_KNOWN && strcmp(queue_text(id), queue) == 0);
	return id;
}
