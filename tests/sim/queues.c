#include "tests/sim/queues.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_SIZE 16

static char locks[NAMES][TEXT_SIZE];
static char a_texts[NAMES][SLOTS_KNOWN + 1][TEXT_SIZE], b_texts[NAMES][SLOTS_KNOWN + 1][TEXT_SIZE];

void
queues_init(void)
{
	for (int name = 0; name < NAMES; name++) {
		snprintf(locks[name], TEXT_SIZE, "%c", 'a' + name);
		snprintf(b_texts[name][0], TEXT_SIZE, "%c-M", 'a' + name);
		for (int slot = 1; slot <= SLOTS_KNOWN; slot++) {
			snprintf(a_texts[name][slot], TEXT_SIZE, "%c-%d-A", 'a' + name, slot);
			snprintf(b_texts[name][slot], TEXT_SIZE, "%c-%d-B", 'a' + name, slot);
		}
	}
}

const char *
queue_lock(int name)
{
	return locks[name];
}

const char *
queue_a(int name, int slot)
{
	return a_texts[name][slot];
}

const char *
queue_b(int name, int slot)
{
	return b_texts[name][slot];
}

const char *
queue_text(struct queue_id id)
{
	switch (id.part) {
	case QUEUE_A:
		return queue_a(id.name, id.slot);
	case QUEUE_B:
		return queue_b(id.name, id.slot);
	case QUEUE_ADMIN:
		return queue_lock(id.name);
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

struct queue_id
queue_find(const char *queue)
{
	struct queue_id id = {.part = QUEUE_ADMIN, .name = queue[0] - 'a'};
	const char *at = queue + 2;

	assert(id.name >= 0 && id.name < NAMES);
	if (queue[1] == '\0')
		return id;
	while (*at >= '0' && *at <= '9')
		id.slot = id.slot * 10 + *at++ - '0';
	id.part = *at == '-' && at[1] == 'A' ? QUEUE_A : QUEUE_B;
	assert(id.slot <= SLOTS_KNOWN && strcmp(queue_text(id), queue) == 0);
	return id;
}
