#include "daemon/lock/drain.h"

void
drain_start(struct lock_engine *engine, const struct drain_order *order)
{
	engine_tell(engine, order->peer, order->request, order->answer);
}

void
drain_await(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_await *await)
{
	struct lock_answer answer = engine_refusal(REASON_INTERNAL, NULL);

	(void)await;
	engine_tell(engine, peer, request, &answer);
}

bool
drain_cancel(struct lock_engine *engine, uint64_t peer, uint64_t request)
{
	(void)engine;
	(void)peer;
	(void)request;
	return false;
}

void
drain_peer_gone(struct lock_engine *engine, uint64_t peer)
{
	(void)engine;
	(void)peer;
}

void
drain_end_all(struct lock_engine *engine, const struct lock_answer *answer)
{
	(void)engine;
	(void)answer;
}

void
drain_free_all(struct lock_engine *engine)
{
	(void)engine;
}
