#include "daemon/lock/admin/turn.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"

struct turn_line {
	char *key; /* owned: the peer, and the name */
	TAILQ_HEAD(, turn) turns;
	UT_hash_handle by_key;
};

/* malloc'ed. */
static char *
key_of(uint64_t peer, const char *name)
{
	return mem_printf("%llu %s", (unsigned long long)peer, name);
}

static struct turn_line *
turn_line_find(const struct lock_engine *engine, uint64_t peer, const char *name)
{
	char *key = key_of(peer, name);
	struct turn_line *line;

	HASH_FIND(by_key, engine->turns, key, strlen(key), line);
	free(key);
	return line;
}

static void
turn_line_free(struct lock_engine *engine, struct turn_line *line)
{
	HASH_DELETE(by_key, engine->turns, line);
	free(line->key);
	free(line);
}

bool
turn_take(struct lock_engine *engine, struct turn *turn, uint64_t peer, const char *name)
{
	struct turn_line *line = turn_line_find(engine, peer, name);
	const struct turn *other;
	struct op *op;
	bool waits = false;

	if (line == NULL) {
		line = mem_alloc(sizeof(*line));
		line->key = key_of(peer, name);
		TAILQ_INIT(&line->turns);
		HASH_ADD_KEYPTR(by_key, engine->turns, line->key, strlen(line->key), line);
	}
	turn->line = line;
	TAILQ_FOREACH (other, &turn->line->turns, of_line)
		waits |= other->work == TURN_CHANGES || turn->work == TURN_CHANGES;
	TAILQ_INSERT_TAIL(&turn->line->turns, turn, of_line);
	if (waits) {
		op = engine_op_find(engine, turn->op);
		op->late = REASON_TIMEOUT;
		op->late_text = "an older request of this connection about it is in progress";
		return false;
	}
	turn->begin = NULL;
	return true;
}

/* Looks begin together; a change alone. */
static void
begin_next(struct lock_engine *engine, const struct turn_line *line)
{
	void (*begin)(struct lock_engine *, uint64_t);
	struct turn *turn;

	/* Whoever begins asks the broker something, and so does not end before this is over. */
	TAILQ_FOREACH (turn, &line->turns, of_line) {
		if (turn->work == TURN_CHANGES && turn != TAILQ_FIRST(&line->turns))
			return;
		begin = turn->begin;
		turn->begin = NULL;
		if (begin != NULL)
			begin(engine, turn->op);
		if (turn->work == TURN_CHANGES)
			return;
	}
}

void
turn_end(struct lock_engine *engine, struct turn *turn)
{
	struct turn_line *line = turn->line;

	assert(line != NULL);
	TAILQ_REMOVE(&line->turns, turn, of_line);
	turn->line = NULL;
	if (TAILQ_EMPTY(&line->turns))
		turn_line_free(engine, line);
	else
		begin_next(engine, line);
}

uint64_t
turn_youngest_change(const struct lock_engine *engine, uint64_t peer, const char *name)
{
	const struct turn_line *line = turn_line_find(engine, peer, name);
	const struct turn *turn;
	uint64_t youngest = 0;

	if (line == NULL)
		return 0;
	TAILQ_FOREACH (turn, &line->turns, of_line) {
		if (turn->work == TURN_CHANGES)
			youngest = turn->op;
	}
	return youngest;
}

void
turn_free_all(struct lock_engine *engine)
{
	struct turn_line *line, *next;

	HASH_ITER (by_key, engine->turns, line, next)
		turn_line_free(engine, line);
}
