#include "protocol/methods.h"

#include <string.h>

#define AT(member) offsetof(struct method_params, member)
#define KINDS_ALL                                                                                  \
	(METHODS_KIND_BIT(LOCK_KIND_SEMAPHORE) | METHODS_KIND_BIT(LOCK_KIND_MUTEX) |               \
	    METHODS_KIND_BIT(LOCK_KIND_PERSISTENT_MUTEX))
/* A true mutex is its holder's queue: there is nothing to create. */
#define KINDS_STORED                                                                               \
	(METHODS_KIND_BIT(LOCK_KIND_SEMAPHORE) | METHODS_KIND_BIT(LOCK_KIND_PERSISTENT_MUTEX))
#define WORDS(word)                                                                                \
	{                                                                                          \
		.name = #word, .type = PARAM_STRING, .offset = AT(word), .max = METHODS_WORDS_MAX  \
	}
#define NAME                                                                                       \
	{                                                                                          \
		.name = "name", .type = PARAM_NAME, .required = true, .offset = AT(name)           \
	}
#define LOCK                                                                                       \
	{                                                                                          \
		.name = "lock", .type = PARAM_STRING, .required = true, .offset = AT(lock),        \
		.min = 1, .max = METHODS_LOCK_MAX                                                  \
	}

#define INTEGER(word, from, to)                                                                    \
	{                                                                                          \
		.name = #word, .type = PARAM_INTEGER, .offset = AT(word), .min = (from),           \
		.max = (to)                                                                        \
	}
#define BOOL(word)                                                                                 \
	{                                                                                          \
		.name = #word, .type = PARAM_BOOL, .offset = AT(word)                              \
	}
#define ORDER                                                                                      \
	{                                                                                          \
		.name = "order", .type = PARAM_WORD, .offset = AT(order), .words = orders          \
	}
#define WAIT                                                                                       \
	{                                                                                          \
		.name = "wait", .type = PARAM_DURATION, .offset = AT(wait)                         \
	}

/* In the order of enum method_order and enum method_slot_state. */
static const char *const orders[] = {"descending", "ascending", NULL};
static const char *const slot_states[] = {"free", "taken", NULL};

static const struct param_spec acquire_params[] = {
    NAME,
    {.name = "kind", .type = PARAM_KIND, .offset = AT(kind), .kinds = KINDS_ALL},
    {.name = "timeout", .type = PARAM_DURATION, .offset = AT(timeout)},
    INTEGER(priority, -METHODS_PRIORITY_MOST, METHODS_PRIORITY_MOST),
    INTEGER(create, 1, METHODS_SLOTS_MAX),
    BOOL(progress),
    BOOL(lease),
    WORDS(who),
    WORDS(why),
    WORDS(command),
    {.name = NULL},
};

static const struct param_spec lock_params[] = {LOCK, {.name = NULL}};

static const struct param_spec cancel_params[] = {
    {.name = "id", .type = PARAM_ID, .required = true, .offset = AT(id)},
    {.name = NULL},
};

static const struct param_spec create_params[] = {
    NAME,
    {.name = "kind", .type = PARAM_KIND, .offset = AT(kind), .kinds = KINDS_STORED},
    {.name = "slots", .type = PARAM_SLOTS, .offset = AT(slots), .max = METHODS_SLOTS_MAX},
    INTEGER(overshoot, 0, METHODS_SLOTS_MAX),
    BOOL(exist_ok),
    {.name = NULL},
};

static const struct param_spec destroy_params[] = {
    NAME,
    ORDER,
    INTEGER(overshoot, 0, METHODS_SLOTS_MAX),
    WAIT,
    BOOL(progress),
    {.name = NULL},
};

static const struct param_spec resize_params[] = {
    NAME,
    {.name = "slots",
	.type = PARAM_SLOTS,
	.choice = true,
	.offset = AT(slots),
	.max = METHODS_SLOTS_MAX},
    {.name = "add",
	.type = PARAM_INTEGER,
	.choice = true,
	.offset = AT(add),
	.min = 1,
	.max = METHODS_SLOTS_MAX},
    {.name = "remove",
	.type = PARAM_INTEGER,
	.choice = true,
	.offset = AT(remove),
	.min = 1,
	.max = METHODS_SLOTS_MAX},
    ORDER,
    INTEGER(overshoot, 0, METHODS_SLOTS_MAX),
    WAIT,
    BOOL(progress),
    {.name = NULL},
};

static const struct param_spec name_params[] = {NAME, {.name = NULL}};

static const struct param_spec await_params[] = {
    NAME,
    {.name = "slot",
	.type = PARAM_INTEGER,
	.required = true,
	.offset = AT(slot),
	.min = 1,
	.max = METHODS_SLOTS_MAX},
    {.name = "state",
	.type = PARAM_WORD,
	.required = true,
	.offset = AT(state),
	.words = slot_states},
    {.name = "timeout", .type = PARAM_DURATION, .offset = AT(timeout)},
    {.name = NULL},
};

static const struct param_spec fsck_params[] = {NAME, BOOL(repair), {.name = NULL}};

static const struct param_spec explain_params[] = {
    NAME,
    {.name = "kind", .type = PARAM_KIND, .offset = AT(kind), .kinds = KINDS_ALL},
    {.name = NULL},
};

static const struct param_spec watch_params[] = {
    {.name = "name", .type = PARAM_NAME, .offset = AT(name)},
    {.name = NULL},
};

static const struct param_spec grant_params[] = {
    {.name = "waiter",
	.type = PARAM_STRING,
	.required = true,
	.offset = AT(waiter),
	.min = 1,
	.max = METHODS_LOCK_MAX},
    {.name = NULL},
};

static const struct param_spec deny_params[] = {
    {.name = "waiter",
	.type = PARAM_STRING,
	.choice = true,
	.offset = AT(waiter),
	.min = 1,
	.max = METHODS_LOCK_MAX},
    {.name = "name", .type = PARAM_NAME, .choice = true, .offset = AT(name)},
    BOOL(all),
    {.name = NULL},
};

static const struct param_spec ping_params[] = {BOOL(broker), {.name = NULL}};

static const struct param_spec no_params[] = {{.name = NULL}};

static const struct method_spec methods[] = {
    {.name = "acquire", .params = acquire_params, .wait = METHOD_WAITS},
    {.name = "verify", .params = lock_params},
    {.name = "release", .params = lock_params},
    {.name = "cancel", .params = cancel_params},
    {.name = "create", .params = create_params},
    {.name = "destroy", .params = destroy_params, .wait = METHOD_WAITS_IF_TOLD},
    {.name = "resize", .params = resize_params, .wait = METHOD_WAITS_IF_TOLD},
    {.name = "size", .params = name_params},
    {.name = "await", .params = await_params, .wait = METHOD_WAITS},
    {.name = "fsck", .params = fsck_params},
    {.name = "explain", .params = explain_params},
    {.name = "list", .params = no_params},
    {.name = "show", .params = name_params},
    {.name = "watch", .params = watch_params, .wait = METHOD_WAITS},
    {.name = "grant", .params = grant_params},
    {.name = "deny", .params = deny_params},
    {.name = "info", .params = no_params},
    {.name = "ping", .params = ping_params},
    {.name = "rpc.discover", .params = no_params},
    {.name = NULL},
};

const struct method_spec *
method_find(const char *name)
{
	for (const struct method_spec *method = methods; method->name != NULL; method++)
		if (strcmp(method->name, name) == 0)
			return method;
	return NULL;
}

const struct method_spec *
method_all(void)
{
	return methods;
}

bool
method_waits(const struct method_spec *method, const struct method_params *params)
{
	switch (method->wait) {
	case METHOD_ANSWERS:
		return false;
	case METHOD_WAITS:
		return true;
	case METHOD_WAITS_IF_TOLD:
		return params->wait != 0;
	}
	return false;
}
