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

/* The caller frees it. */
static char *
key_of(uint64_t peer, const char *name)
{
	return mem_printf("%llu %s", (unsigned long long)peer, name);
}

static struct peer_order_queue *
peer_order_queue_find(const struct lock_engine *engine, uint64_t peer, const char *name)
{
	char *key = key_of(peer, name);
	struct peer_order_queue *queue;

	HASH_FIND(by_key, engine->peer_orders, key, strlen(key), queue);
	free(key);
	return queue;
}

static void
peer_order_queue_free(struct lock_engine *engine, struct peer_order_queue *queue)
{
	HASH_DELETE(by_key, engine->peer_orders, queue);
	free(queue->key);
	free(queue);
}

bool
peer_order_take(
    struct lock_engine *engine, struct peer_order *peer_order, uint64_t peer, const char *name)
{
	struct peer_order_queue *queue = peer_order_queue_find(engine, peer, name);
	const struct peer_order *other;
	struct op *op = engine_op_find(engine, peer_order->op);
	bool waits = false;

	if (queue == NULL) {
		queue = mem_alloc(sizeof(*queue));
		queue->key = key_of(peer, name);
		TAILQ_INIT(&queue->turns);
		HASH_ADD_KEYPTR(by_key, engine->peer_orders, queue->key, strlen(queue->key), queue);
	}
	peer_order->request = op->request;
	peer_order->queue = queue;
	TAILQ_FOREACH (other, &peer_order->queue->turns, of_queue)
		waits |=
		    other->work == PEER_ORDER_CHANGES || peer_order->work == PEER_ORDER_CHANGES;
	TAILQ_INSERT_TAIL(&peer_order->queue->turns, peer_order, of_queue);
	if (waits) {
		op->late = REASON_TIMEOUT;
		op->late_text = "an older request of this connection about it is in progress";
		return false;
	}
	peer_order->begin = NULL;
	return true;
}

/* Reads begin together, a change alone. */
static void
begin_next(struct lock_engine *engine, const struct peer_order_queue *queue)
{
	void (*begin)(struct lock_engine *, uint64_t);
	struct peer_order *peer_order;

	/* A request that begins asks the broker, and so does not end during this loop. */
	TAILQ_FOREACH (peer_order, &queue->turns, of_queue) {
		if (peer_order->work == PEER_ORDER_CHANGES &&
		    peer_order != TAILQ_FIRST(&queue->turns))
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
	struct peer_order_queue *queue = peer_order->queue;

	assert(queue != NULL);
	TAILQ_REMOVE(&queue->turns, peer_order, of_queue);
	peer_order->queue = NULL;
	if (TAILQ_EMPTY(&queue->turns))
		peer_order_queue_free(engine, queue);
	else
		begin_next(engine, queue);
}

uint64_t
peer_order_youngest_change(
    const struct lock_engine *engine, uint64_t peer, const char *name, uint64_t before)
{
	const struct peer_order_queue *queue = peer_order_queue_find(engine, peer, name);
	const struct peer_order *peer_order;
	uint64_t youngest = 0;

	if (queue == NULL)
		return 0;
	TAILQ_FOREACH (peer_order, &queue->turns, of_queue) {
		if (peer_order->work == PEER_ORDER_CHANGES && peer_order->request < before)
			youngest = peer_order->op;
	}
	return youngest;
}

void
peer_order_free_all(struct lock_engine *engine)
{
	struct peer_order_queue *queue, *next;

	HASH_ITER (by_key, engine->peer_orders, queue, next)
		peer_order_queue_free(engine, queue);
}
