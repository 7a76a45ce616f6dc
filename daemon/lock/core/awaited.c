#include "daemon/lock/core/awaited.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"

struct awaited_name {
	char *text; /* owned; the key */
	enum broker_answer gate;
	int64_t gate_until; /* clock time until which `gate` is known */
	TAILQ_HEAD(, awaited) list;
	UT_hash_handle by_name;
};

static struct awaited_name *
find(const struct lock_engine *engine, const char *text)
{
	struct awaited_name *name;

	HASH_FIND(by_name, engine->awaited, text, strlen(text), name);
	return name;
}

void
awaited_begin(struct lock_engine *engine, struct awaited *awaited, const char *text)
{
	struct awaited_name *name = find(engine, text);

	if (name == NULL) {
		name = mem_alloc(sizeof(*name));
		name->text = mem_strdup(text);
		TAILQ_INIT(&name->list);
		HASH_ADD_KEYPTR(by_name, engine->awaited, name->text, strlen(name->text), name);
	}
	awaited->name = name;
	TAILQ_INSERT_TAIL(&name->list, awaited, of_name);
}

void
awaited_end(struct lock_engine *engine, struct awaited *awaited)
{
	struct awaited_name *name = awaited->name;

	timers_cancel(engine->timers, &awaited->rest);
	TAILQ_REMOVE(&name->list, awaited, of_name);
	if (!TAILQ_EMPTY(&name->list))
		return;
	HASH_DELETE(by_name, engine->awaited, name);
	free(name->text);
	free(name);
}

const char *
awaited_name(const struct awaited *awaited)
{
	return awaited->name->text;
}

enum broker_answer
awaited_gate(const struct lock_engine *engine, const struct awaited *awaited)
{
	if (!queue_naming_has_quorum(engine->settings.naming))
		return BROKER_ABSENT;
	return engine_now(engine) < awaited->name->gate_until ? awaited->name->gate
							      : BROKER_UNKNOWN;
}

void
awaited_saw_gate(
    const struct lock_engine *engine, const struct awaited *awaited, enum broker_answer gate)
{
	awaited->name->gate = gate;
	awaited->name->gate_until = engine_now(engine) + engine->settings.rescan_interval;
}

void
awaited_freed(struct lock_engine *engine, const char *text, int slot)
{
	struct awaited_name *name = find(engine, text);
	struct awaited *awaited;
	int64_t now = engine_now(engine);

	if (name == NULL)
		return;
	TAILQ_FOREACH (awaited, &name->list, of_name) {
		if (slot < awaited->first || slot > awaited->last)
			continue;
		awaited->freed = true;
		if (timer_is_set(&awaited->rest))
			timers_set(engine->timers, &awaited->rest,
			    awaited->earliest > now ? awaited->earliest : now);
	}
}
