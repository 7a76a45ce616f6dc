#include "daemon/lock/admin/peer_order.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"

struct peer_order_queue {
	char *key; /* owned: the peer, and the name */
	TAILQ_HEAD(, peer_order) turns;
	UT_hash_handle by_key;
};

/* malloc'ed. */
static char *
key_of(uint64_t peer, const char *name)
{
	return mem_printf("%llu %s", (unsigned long long)peer, name);
}

static struct peer_order_queue *
peer_order_queue_find(const struct lock_engine *engine, uint64_t peer, const char *name)
{
	char *key = key_of(peer, name);
	struct peer_order_queue *line;

	HASH_FIND(by_key, engine->peer_orders, key, strlen(key), line);
	free(key);
	return line;
}

static void
peer_order_queue_free(struct lock_engine *engine, struct peer_order_queue *line)
{
	HASH_DELETE(by_key, engine->peer_orders, line);
	free(line->key);
	free(line);
}

bool
peer_order_take(
    struct lock_engine *engine, struct peer_order *peer_order, uint64_t peer, const char *name)
{
	struct peer_order_queue *line = peer_order_queue_find(engine, peer, name);
	const struct peer_order *other;
	struct op *op;
	bool waits = false;

	if (line == NULL) {
		line = mem_alloc(sizeof(*line));
		line->key = key_of(peer, name);
		TAILQ_INIT(&line->turns);
		HASH_ADD_KEYPTR(by_key, engine->peer_orders, line->key, strlen(line->key), line);
	}
	peer_order->line = line;
	TAILQ_FOREACH (other, &peer_order->line->turns, of_line)
		waits |=
		    other->work == PEER_ORDER_CHANGES || peer_order->work == PEER_ORDER_CHANGES;
	TAILQ_INSERT_TAIL(&peer_order->line->turns, peer_order, of_line);
	if (waits) {
		op = engine_op_find(engine, peer_order->op);
		op->late = REASON_TIMEOUT;
		op->late_text = "an older request of this connection about it is in progress";
		return false;
	}
	peer_order->begin = NULL;
	return true;
}

/* Looks begin together; a change alone. */
static void
begin_next(struct lock_engine *engine, const struct peer_order_queue *line)
{
	void (*begin)(struct lock_engine *, uint64_t);
	struct peer_order *peer_order;

	/* Whoever begins asks the broker something, and so does not end before this is over. */
	TAILQ_FOREACH (peer_order, &line->turns, of_line) {
		if (peer_order->work == PEER_ORDER_CHANGES &&
		    peer_order != TAILQ_FIRST(&line->turns))
			return;
		begin = peer_order->begin;
		peer_order->begin = NULL;
		if (begin != NULL)
			begin(engine, peer_order->op);
		if (peer_order->work == PEER_ORDER_CHANGES)
			return;
	}
}

void
peer_order_end(struct lock_engine *engine, struct peer_order *peer_order)
{
	struct peer_order_queue *line = peer_order->line;

	assert(line != NULL);
	TAILQ_REMOVE(&line->turns, peer_order, of_line);
	peer_order->line = NULL;
	if (TAILQ_EMPTY(&line->turns))
		peer_order_queue_free(engine, line);
	else
		begin_next(engine, line);
}

uint64_t
peer_order_youngest_change(const struct lock_engine *engine, uint64_t peer, const char *name)
{
	const struct peer_order_queue *line = peer_order_queue_find(engine, peer, name);
	const struct peer_order *peer_order;
	uint64_t youngest = 0;

	if (line == NULL)
		return 0;
	TAILQ_FOREACH (peer_order, &line->turns, of_line) {
		if (peer_order->work == PEER_ORDER_CHANGES)
			youngest = peer_order->op;
	}
	return youngest;
}

void
peer_order_free_all(struct lock_engine *engine)
{
	struct peer_order_queue *line, *next;

	HASH_ITER (by_key, engine->peer_orders, line, next)
		peer_order_queue_free(engine, line);
}
