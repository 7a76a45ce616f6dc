#include "protocol/methods.h"

#include <string.h>

#define KINDS_ALL                                                                                  \
	(METHODS_KIND_BIT(LOCK_KIND_SEMAPHORE) | METHODS_KIND_BIT(LOCK_KIND_MUTEX) |               \
	    METHODS_KIND_BIT(LOCK_KIND_PERSISTENT_MUTEX))
/* A mutex is the queue of its holder: it is not created. */
#define KINDS_STORED                                                                               \
	(METHODS_KIND_BIT(LOCK_KIND_SEMAPHORE) | METHODS_KIND_BIT(LOCK_KIND_PERSISTENT_MUTEX))

/* The parameter has the name of its member. Other designators follow the type. */
#define PARAM(word, ...)                                                                           \
	{                                                                                          \
		.name = #word, .offset = offsetof(struct method_params, word), __VA_ARGS__         \
	}
#define REQUIRED .required = true
#define CHOICE .choice = true
#define BYTES(from, to) .type = PARAM_STRING, .min = (from), .max = (to)
#define INTEGER(from, to) .type = PARAM_INTEGER, .min = (from), .max = (to)
#define SLOTS .type = PARAM_SLOTS, .max = METHODS_SLOTS_MAX
#define KIND(which) .type = PARAM_KIND, .words = lock_kind_words, .kinds = (which)
#define WORD(list) .type = PARAM_WORD, .words = (list)

#define PARAM_LOCK_NAME PARAM(name, .type = PARAM_NAME, REQUIRED)
#define PARAM_OVERSHOOT PARAM(overshoot, INTEGER(0, METHODS_SLOTS_MAX))
#define PARAM_PROGRESS PARAM(progress, .type = PARAM_BOOL)
#define PARAM_TIMEOUT PARAM(timeout, .type = PARAM_DURATION)

/* In the order of enum method_order, enum method_slot_state and enum method_format. */
static const char *const orders[] = {"descending", "ascending", NULL};
static const char *const slot_states[] = {"free", "busy", NULL};
static const char *const formats[] = {"prometheus", "openmetrics", NULL};
const char *const method_claim_words[] = {"exclusive-queue", "consumer", "quorum", NULL};

static const struct param_spec acquire_params[] = {
    PARAM_LOCK_NAME,
    PARAM(kind, KIND(KINDS_ALL)),
    PARAM_TIMEOUT,
    PARAM(priority, INTEGER(-METHODS_PRIORITY_MOST, METHODS_PRIORITY_MOST)),
    PARAM(create, INTEGER(1, METHODS_SLOTS_MAX)),
    PARAM_PROGRESS,
    PARAM(lease, .type = PARAM_BOOL),
    PARAM(who, BYTES(0, METHODS_WORDS_MAX)),
    PARAM(why, BYTES(0, METHODS_WORDS_MAX)),
    PARAM(command, BYTES(0, METHODS_WORDS_MAX)),
    {.name = NULL},
};

static const struct param_spec lock_params[] = {
    PARAM(lock, BYTES(1, METHODS_LOCK_MAX), REQUIRED),
    {.name = NULL},
};

static const struct param_spec cancel_params[] = {
    PARAM(id, .type = PARAM_ID, REQUIRED),
    {.name = NULL},
};

static const struct param_spec create_params[] = {
    PARAM_LOCK_NAME,
    PARAM(kind, KIND(KINDS_STORED)),
    PARAM(slots, SLOTS),
    PARAM(claim, WORD(method_claim_words)),
    PARAM(takeover_grace, .type = PARAM_DURATION),
    PARAM(force, .type = PARAM_BOOL),
    PARAM_OVERSHOOT,
    PARAM(exist_ok, .type = PARAM_BOOL),
    {.name = NULL},
};

static const struct param_spec destroy_params[] = {
    PARAM_LOCK_NAME,
    PARAM(order, WORD(orders)),
    PARAM_OVERSHOOT,
    PARAM(wait, .type = PARAM_DURATION),
    PARAM_PROGRESS,
    {.name = NULL},
};

static const struct param_spec resize_params[] = {
    PARAM_LOCK_NAME,
    PARAM(slots, SLOTS, CHOICE),
    PARAM(add, INTEGER(1, METHODS_SLOTS_MAX), CHOICE),
    PARAM(remove, INTEGER(1, METHODS_SLOTS_MAX), CHOICE),
    PARAM(claim, WORD(method_claim_words)),
    PARAM(takeover_grace, .type = PARAM_DURATION),
    PARAM(force, .type = PARAM_BOOL),
    PARAM(order, WORD(orders)),
    PARAM_OVERSHOOT,
    PARAM(wait, .type = PARAM_DURATION),
    PARAM_PROGRESS,
    {.name = NULL},
};

static const struct param_spec name_params[] = {PARAM_LOCK_NAME, {.name = NULL}};

static const struct param_spec await_params[] = {
    PARAM_LOCK_NAME,
    PARAM(slot, INTEGER(1, METHODS_SLOTS_MAX), REQUIRED),
    PARAM(state, WORD(slot_states), REQUIRED),
    PARAM_TIMEOUT,
    {.name = NULL},
};

static const struct param_spec fsck_params[] = {
    PARAM_LOCK_NAME,
    PARAM(repair, .type = PARAM_BOOL),
    PARAM(convert, WORD(method_claim_words)),
    PARAM(takeover_grace, .type = PARAM_DURATION),
    PARAM(wait, .type = PARAM_DURATION),
    PARAM_PROGRESS,
    {.name = NULL},
};

static const struct param_spec explain_params[] = {
    PARAM_LOCK_NAME,
    PARAM(kind, KIND(KINDS_ALL)),
    {.name = NULL},
};

static const struct param_spec watch_params[] = {
    PARAM(name, .type = PARAM_NAME),
    {.name = NULL},
};

static const struct param_spec grant_params[] = {
    PARAM(waiter, BYTES(1, METHODS_LOCK_MAX), REQUIRED),
    {.name = NULL},
};

static const struct param_spec deny_params[] = {
    PARAM(waiter, BYTES(1, METHODS_LOCK_MAX), CHOICE),
    PARAM(name, .type = PARAM_NAME, CHOICE),
    PARAM(all, .type = PARAM_BOOL),
    {.name = NULL},
};

static const struct param_spec evict_params[] = {
    PARAM(holder, BYTES(1, METHODS_LOCK_MAX), CHOICE),
    PARAM(name, .type = PARAM_NAME, CHOICE),
    PARAM(all, .type = PARAM_BOOL),
    PARAM(grace, .type = PARAM_DURATION, .max = METHODS_GRACE_MOST),
    PARAM(why, BYTES(0, METHODS_WORDS_MAX)),
    {.name = NULL},
};

static const struct param_spec metrics_params[] = {
    PARAM(format, WORD(formats)),
    {.name = NULL},
};

static const struct param_spec ping_params[] = {
    PARAM(broker, .type = PARAM_BOOL),
    {.name = NULL},
};

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
    {.name = "fsck", .params = fsck_params, .wait = METHOD_WAITS_IF_TOLD},
    {.name = "explain", .params = explain_params},
    {.name = "list", .params = no_params},
    {.name = "show", .params = name_params},
    {.name = "watch", .params = watch_params, .wait = METHOD_WAITS},
    {.name = "grant", .params = grant_params},
    {.name = "deny", .params = deny_params},
    {.name = "evict", .params = evict_params},
    {.name = "info", .params = no_params},
    {.name = "metrics", .params = metrics_params},
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
	return method->wait == METHOD_WAITS ||
	       (method->wait == METHOD_WAITS_IF_TOLD && params->wait != 0);
}

bool
method_tries(const struct method_spec *method, const struct method_params *params)
{
	return (method->params == acquire_params || method->params == await_params) &&
	       params->timeout == 0;
}
