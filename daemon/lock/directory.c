#include "daemon/lock/directory.h"

void
directory_read(struct lock_engine *engine, directory_done_fn *done, uint64_t id)
{
	done(engine, id, REASON_NONE, NULL, NULL, 0);
}

void
directory_enter(struct lock_engine *engine, const char *name, directory_done_fn *done, uint64_t id)
{
	(void)name;
	done(engine, id, REASON_NONE, NULL, NULL, 0);
}

void
directory_leave(struct lock_engine *engine, const char *name, directory_done_fn *done, uint64_t id)
{
	(void)name;
	done(engine, id, REASON_NONE, NULL, NULL, 0);
}

void
directory_lane_closed(struct lock_engine *engine, uint64_t lane)
{
	(void)engine;
	(void)lane;
}

void
directory_free_all(struct lock_engine *engine)
{
	(void)engine;
}
