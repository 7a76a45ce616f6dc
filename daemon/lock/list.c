#include "daemon/lock/list.h"

void
list_start(struct lock_engine *engine, uint64_t peer, uint64_t request)
{
	struct lock_answer answer = engine_refusal(REASON_INTERNAL, NULL);

	engine_tell(engine, peer, request, &answer);
}

void
list_explain(struct lock_engine *engine, uint64_t peer, uint64_t request, const char *name,
    enum lock_kind kind)
{
	struct lock_answer answer = engine_refusal(REASON_INTERNAL, NULL);

	(void)name;
	(void)kind;
	engine_tell(engine, peer, request, &answer);
}

void
list_free_all(struct lock_engine *engine)
{
	(void)engine;
}
