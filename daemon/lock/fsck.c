#include "daemon/lock/fsck.h"

void
fsck_start(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const char *name, bool repair)
{
	struct lock_answer answer = engine_refusal(REASON_INTERNAL, NULL);

	(void)name;
	(void)repair;
	engine_tell(engine, peer, request, &answer);
}

void
fsck_free_all(struct lock_engine *engine)
{
	(void)engine;
}
