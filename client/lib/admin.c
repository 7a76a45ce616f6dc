/*
 * The calls that create, change, remove and read semaphores: their parameters and results.
 */
#include "client/lockbroker.h"

#include <limits.h>
#include <string.h>

#include "client/lib/handle.h"

/* The wire's word where a number of slots could stand. */
#define UNLIMITED "unlimited"

static const struct lb_change change_default = LB_CHANGE_INIT;

/* handle_enter(), and whether name may be a lock's. */
static int
name_enter(struct lb *lb, const char *name)
{
	int code = handle_enter(lb);
	const char *wrong;

	if (code != LB_OK)
		return code;
	wrong = lb_name_error(name);
	return wrong != NULL ? handle_fail(lb, LB_BAD_ARGUMENT, "%s", wrong) : LB_OK;
}

/* The same for a call with options. Missing options get their defaults. */
static int
change_enter(struct lb *lb, const char *name, const struct lb_change *how, struct lb_change *ret)
{
	int code = name_enter(lb, name);

	if (code != LB_OK)
		return code;
	*ret = change_default;
	if (how != NULL && how->size < offsetof(struct lb_change, takeover_grace_ms))
		return handle_fail(lb, LB_BAD_ARGUMENT, "the change was not set to LB_CHANGE_INIT");
	/* A program of version 0.1.0 knows fewer members. */
	if (how != NULL)
		memcpy(ret, how, how->size < sizeof(*ret) ? how->size : sizeof(*ret));
	if (ret->overshoot < 0 || ret->overshoot > METHODS_SLOTS_MAX)
		return handle_fail(
		    lb, LB_BAD_ARGUMENT, "overshoot: 0 to %d slots", METHODS_SLOTS_MAX);
	if (ret->claim != LB_CLAIM_DEFAULT && lb_claim_word(ret->claim) == NULL)
		return handle_fail(lb, LB_BAD_ARGUMENT, "claim: there is no such way");
	if (ret->wait_ms > INT64_C(1000) * DURATION_MAX_SECONDS)
		return handle_fail(lb, LB_BAD_ARGUMENT, "the wait is too long");
	return LB_OK;
}

/* The same, with the size that it is to have. */
static int
size_enter(
    struct lb *lb, const char *name, int slots, const struct lb_change *how, struct lb_change *ret)
{
	int code = change_enter(lb, name, how, ret);

	if (code != LB_OK || slots == LB_UNLIMITED || (slots >= 0 && slots <= METHODS_SLOTS_MAX))
		return code;
	return handle_fail(
	    lb, LB_BAD_ARGUMENT, "slots: 0 to %d, or LB_UNLIMITED", METHODS_SLOTS_MAX);
}

static struct cJSON *
name_params(const char *name)
{
	struct cJSON *params = json_new_object();

	json_add_string(params, "name", name);
	return params;
}

static void
add_slots(struct cJSON *params, int slots)
{
	if (slots == LB_UNLIMITED)
		json_add_string(params, "slots", UNLIMITED);
	else
		json_add_integer(params, "slots", slots);
}

static void
add_claim(struct cJSON *params, const struct lb_change *change)
{
	if (change->claim != LB_CLAIM_DEFAULT)
		json_add_string(params, "claim", lb_claim_word(change->claim));
	if (change->takeover_grace_ms != 0)
		json_add_seconds(
		    params, "takeover_grace", change->takeover_grace_ms * DURATION_MILLISECOND);
	if (change->force != 0)
		json_add_bool(params, "force", true);
}

static bool
read_slots(const struct cJSON *result, int *ret)
{
	const struct cJSON *member = json_get(result, "slots");
	const char *word;
	int64_t slots;

	if (json_string(member, &word) && strcmp(word, UNLIMITED) == 0) {
		*ret = LB_UNLIMITED;
		return true;
	}
	if (!json_integer(member, &slots) || slots < 0 || slots >= LB_UNLIMITED)
		return false;
	*ret = (int)slots;
	return true;
}

int
lb_create(
    struct lb *lb, const char *name, int slots, const struct lb_change *how, int64_t timeout_ms)
{
	struct lb_change change;
	int code = size_enter(lb, name, slots, how, &change);
	struct cJSON *params;

	if (code != LB_OK)
		return code;
	if (change.kind != LB_SEMAPHORE && change.kind != LB_PERSISTENT_MUTEX)
		return handle_fail(lb, LB_BAD_ARGUMENT, "this kind of lock is not created");
	params = name_params(name);
	if (change.kind != LB_SEMAPHORE)
		json_add_string(params, "kind", lb_kind_word(change.kind));
	add_slots(params, slots);
	add_claim(params, &change);
	if (change.exist_ok != 0)
		json_add_bool(params, "exist_ok", true);
	if (change.overshoot != 0)
		json_add_integer(params, "overshoot", change.overshoot);
	return handle_call(lb, "create", params, timeout_ms);
}

/* The common part of resize and destroy. */
static int
call_removing(struct lb *lb, const char *method, struct cJSON *params,
    const struct lb_change *change, int64_t timeout_ms)
{
	int64_t patience = timeout_ms;

	if (change->ascending != 0)
		json_add_string(params, "order", "ascending");
	if (change->overshoot != 0)
		json_add_integer(params, "overshoot", change->overshoot);
	if (change->wait_ms < 0)
		json_add_null(params, "wait");
	else if (change->wait_ms > 0)
		json_add_seconds(params, "wait", change->wait_ms * DURATION_MILLISECOND);
	if (change->progress != 0 && change->wait_ms != 0)
		json_add_bool(params, "progress", true);
	if (change->wait_ms < 0 || timeout_ms < 0 ||
	    __builtin_add_overflow(timeout_ms, change->wait_ms, &patience))
		patience = LB_FOREVER;
	return handle_call(lb, method, params, patience);
}

int
lb_resize(
    struct lb *lb, const char *name, int slots, const struct lb_change *how, int64_t timeout_ms)
{
	struct lb_change change;
	int code = size_enter(lb, name, slots, how, &change);
	struct cJSON *params;

	if (code != LB_OK)
		return code;
	params = name_params(name);
	add_slots(params, slots);
	add_claim(params, &change);
	return call_removing(lb, "resize", params, &change, timeout_ms);
}

int
lb_resize_by(struct lb *lb, const char *name, int by, const struct lb_change *how,
    int64_t timeout_ms, int *ret_slots)
{
	struct lb_change change;
	int code = change_enter(lb, name, how, &change);
	struct cJSON *params;
	int slots;

	if (code != LB_OK)
		return code;
	if (by == 0 || by < -METHODS_SLOTS_MAX || by > METHODS_SLOTS_MAX)
		return handle_fail(
		    lb, LB_BAD_ARGUMENT, "1 to %d slots more or less", METHODS_SLOTS_MAX);
	params = name_params(name);
	json_add_integer(params, by > 0 ? "add" : "remove", by > 0 ? by : -by);
	add_claim(params, &change);
	code = call_removing(lb, "resize", params, &change, timeout_ms);
	if (code != LB_OK || ret_slots == NULL)
		return code;
	if (!read_slots(lb->last.content, &slots))
		return handle_fail(lb, LB_BAD_ANSWER, "the daemon's answer has no number of slots");
	*ret_slots = slots;
	return LB_OK;
}

int
lb_destroy(struct lb *lb, const char *name, const struct lb_change *how, int64_t timeout_ms)
{
	struct lb_change change;
	int code = change_enter(lb, name, how, &change);

	if (code != LB_OK)
		return code;
	return call_removing(lb, "destroy", name_params(name), &change, timeout_ms);
}

int
lb_size(struct lb *lb, const char *name, int64_t timeout_ms, int *ret_slots)
{
	int code = name_enter(lb, name);

	if (code != LB_OK)
		return code;
	code = handle_call(lb, "size", name_params(name), timeout_ms);
	if (code != LB_OK)
		return code;
	if (!read_slots(lb->last.content, ret_slots))
		return handle_fail(
		    lb, LB_BAD_ANSWER, "the daemon's answer has no valid number of slots");
	return LB_OK;
}

int
lb_await(struct lb *lb, const char *name, int slot, enum lb_slot_state state, int64_t timeout_ms)
{
	int code = name_enter(lb, name);
	struct cJSON *params;

	if (code != LB_OK)
		return code;
	if (slot < 1 || slot > METHODS_SLOTS_MAX)
		return handle_fail(lb, LB_BAD_ARGUMENT, "slot: 1 to %d", METHODS_SLOTS_MAX);
	if (timeout_ms > INT64_C(1000) * DURATION_MAX_SECONDS)
		return handle_fail(lb, LB_BAD_ARGUMENT, "the timeout is too long");
	params = name_params(name);
	json_add_integer(params, "slot", slot);
	json_add_string(params, "state", state == LB_SLOT_BUSY ? "busy" : "free");
	if (timeout_ms >= 0)
		json_add_seconds(params, "timeout", timeout_ms * DURATION_MILLISECOND);
	return handle_call(lb, "await", params, handle_patience(timeout_ms));
}
