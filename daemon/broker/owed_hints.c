#include "daemon/broker/owed_hints.h"

#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/broker.h"

struct owed_hint {
	char *key; /* owned; "SLOT QUEUE" */
	int slot;
	TAILQ_ENTRY(owed_hint) entry;
	UT_hash_handle hh;
};

struct owed_hints {
	struct owed_hint *by_key;        /* owned */
	TAILQ_HEAD(, owed_hint) in_turn; /* the same */
};

struct owed_hints *
owed_hints_new(void)
{
	struct owed_hints *owed = mem_alloc(sizeof(*owed));

	TAILQ_INIT(&owed->in_turn);
	return owed;
}

size_t
owed_hints_count(const struct owed_hints *owed)
{
	return HASH_COUNT(owed->by_key);
}

static void
hint_free(struct owed_hints *owed, struct owed_hint *hint)
{
	HASH_DEL(owed->by_key, hint);
	TAILQ_REMOVE(&owed->in_turn, hint, entry);
	free(hint->key);
	free(hint);
}

void
owed_hints_add(struct owed_hints *owed, const char *queue, int slot)
{
	char *key = mem_printf("%d %s", slot, queue);
	struct owed_hint *hint;

	HASH_FIND_STR(owed->by_key, key, hint);
	if (hint != NULL) {
		free(key);
		return;
	}
	if (owed_hints_count(owed) >= BROKER_OWED_MAX)
		hint_free(owed, TAILQ_FIRST(&owed->in_turn));
	hint = mem_alloc(sizeof(*hint));
	hint->key = key;
	hint->slot = slot;
	HASH_ADD_KEYPTR(hh, owed->by_key, hint->key, strlen(hint->key), hint);
	TAILQ_INSERT_TAIL(&owed->in_turn, hint, entry);
}

char *
owed_hints_take(struct owed_hints *owed, int *ret_slot)
{
	struct owed_hint *hint = TAILQ_FIRST(&owed->in_turn);
	char *queue;

	if (hint == NULL)
		return NULL;
	queue = mem_strdup(strchr(hint->key, ' ') + 1);
	*ret_slot = hint->slot;
	hint_free(owed, hint);
	return queue;
}

void
owed_hints_clear(struct owed_hints *owed)
{
	struct owed_hint *hint;

	while ((hint = TAILQ_FIRST(&owed->in_turn)) != NULL)
		hint_free(owed, hint);
}

void
owed_hints_free(struct owed_hints *owed)
{
	if (owed == NULL)
		return;
	owed_hints_clear(owed);
	free(owed);
}
