/*
 * The calls that ask one question and wait for the answer, and their common parts.
 */
#include "client/lockbroker.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/handle.h"

/* Paths of lb_json_each(): JSON_DEPTH_MAX names of a length that no method of the wire has. */
#define PATH_SIZE 1024

/* ---- locks ---- */

/* Takes the state of a lock from an answer about it. */
static int
lock_answered(struct lb_lock *lock, int code)
{
	if ((code == LB_LOST || code == LB_NOT_HELD) && lock->state != LB_LOCK_RELEASED)
		lock->state = LB_LOCK_LOST;
	else if (code == LB_REVOKED && lock->state == LB_LOCK_HELD)
		lock->state = LB_LOCK_REVOKED;
	return code;
}

/* A lock that has ended is not asked about: its id is another connection's, or nobody's. */
static int
lock_enter(struct lb_lock *lock)
{
	int code = handle_enter(lock->lb);

	if (code != LB_OK)
		return code;
	handle_lapse(lock->lb);
	if (lock->state == LB_LOCK_LOST)
		return handle_fail(lock->lb, LB_LOST, NULL);
	if (lock->state == LB_LOCK_RELEASED)
		return handle_fail(lock->lb, LB_NOT_HELD, NULL);
	return LB_OK;
}

static int
call_lock(struct lb *lb, const char *method, const char *id, int64_t timeout_ms)
{
	struct cJSON *params = json_new_object();

	json_add_string(params, "lock", id);
	return handle_call(lb, method, params, timeout_ms);
}

int
lb_verify(struct lb_lock *lock, int64_t timeout_ms)
{
	int code = lock_enter(lock);
	struct lb *lb = lock->lb;

	if (code != LB_OK)
		return code;
	lb->about = lock;
	code = call_lock(lb, "verify", lock->id, timeout_ms);
	lb->about = NULL;
	if (code == LB_OK && holds_renew(lock, lb->last.content) != LB_OK)
		return handle_break(lb, LB_BAD_ANSWER, "the daemon's answer to verify is invalid");
	/* The answer may have lain unread until its lease was over. */
	handle_lapse(lb);
	/* A loss before the answer stands, whatever the answer says. */
	if (lb->fd >= 0 && lock->state == LB_LOCK_LOST)
		return handle_fail(lb, LB_LOST, NULL);
	if (code == LB_OK && lock->state == LB_LOCK_REVOKED)
		return handle_fail(lock->lb, LB_REVOKED, NULL);
	return lock_answered(lock, code);
}

int
lb_verify_id(struct lb *lb, const char *id, int64_t timeout_ms, int *ret_slot)
{
	int code = handle_enter(lb);
	int64_t slot;

	if (code != LB_OK)
		return code;
	if (id == NULL || id[0] == '\0' || strlen(id) > METHODS_LOCK_MAX)
		return handle_fail(lb, LB_BAD_ARGUMENT, "not the id of a lock");
	code = call_lock(lb, "verify", id, timeout_ms);
	if (code != LB_OK || ret_slot == NULL)
		return code;
	if (!json_integer(json_get(lb->last.content, "slot"), &slot) || slot < 0 || slot > INT_MAX)
		slot = 0;
	*ret_slot = (int)slot;
	return LB_OK;
}

/*
 * Of a loss that this side alone knows of, the daemon need not: it may be that its word did not
 * come through in time. Now that the program has done with the lock, nobody is to wait for the
 * slot. So it is after a loss by quorum.
 */
static int
give_up(struct lb_lock *lock)
{
	lock->lapsed = false;
	/* If it cannot be told the connection is gone, and the hold with it. */
	if (handle_release(lock->lb, lock->id) == LB_OK && handle_move(lock->lb) != LB_OK)
		return LB_LOST;
	return handle_fail(lock->lb, LB_LOST, NULL);
}

int
lb_release(struct lb_lock *lock, int64_t timeout_ms)
{
	int code = lock_enter(lock);

	if (code == LB_LOST && lock->lapsed)
		return give_up(lock);
	if (code != LB_OK)
		return code;
	lock->releasing = true;
	code = call_lock(lock->lb, "release", lock->id, timeout_ms);
	lock->releasing = false;
	if (code == LB_OK)
		lock->state = LB_LOCK_RELEASED;
	return lock_answered(lock, code);
}

void
lb_lock_free(struct lb_lock *lock)
{
	if (lock != NULL && !lock->lb->in_callback)
		holds_free_lock(&lock->lb->holds, lock);
}

enum lb_lock_state
lb_lock_state(const struct lb_lock *lock)
{
	handle_lapse(lock->lb);
	return lock->state;
}

const char *
lb_lock_id(const struct lb_lock *lock)
{
	return lock->id;
}

const char *
lb_lock_name(const struct lb_lock *lock)
{
	return lock->name;
}

int
lb_lock_slot(const struct lb_lock *lock)
{
	return lock->slot;
}

int64_t
lb_lock_waited(const struct lb_lock *lock)
{
	return lock->waited_ms;
}

int64_t
lb_lock_heartbeat(const struct lb_lock *lock)
{
	return lock->heartbeat_ms;
}

int64_t
lb_lock_margin(const struct lb_lock *lock)
{
	return lock->margin_ms;
}

int64_t
lb_lock_lease(const struct lb_lock *lock)
{
	return lock->lease_ms;
}

int64_t
lb_lock_safe_until(const struct lb_lock *lock)
{
	return holds_until(lock) != HOLDS_NO_LEASE ? holds_until(lock) : -1;
}

uint64_t
lb_lock_fence(const struct lb_lock *lock)
{
	return lock->fence;
}

const char *
lb_lock_json(const struct lb_lock *lock)
{
	return lock->json;
}

/* ---- and everything else ---- */

int
lb_ping(struct lb *lb, int broker, int64_t timeout_ms)
{
	int code = handle_enter(lb);
	struct cJSON *params;

	if (code != LB_OK)
		return code;
	params = json_new_object();
	if (broker != 0)
		json_add_bool(params, "broker", true);
	return handle_call(lb, "ping", params, timeout_ms);
}

/* The parameters of any method, as the program wrote them; *ret NULL: no memory to make them. */
static int
call_enter(struct lb *lb, const char *method, const char *params_json, struct cJSON **ret)
{
	int code = handle_enter(lb);
	struct json_error error;
	struct cJSON *params;

	if (code != LB_OK)
		return code;
	if (method == NULL || method[0] == '\0')
		return handle_fail(lb, LB_BAD_ARGUMENT, "no method");
	if (params_json == NULL) {
		*ret = json_new_object();
		return LB_OK;
	}
	params = json_parse(params_json, strlen(params_json), &error);
	if (params == NULL && error.no_memory)
		return handle_fail(lb, LB_NO_MEMORY, NULL);
	if (params == NULL)
		return handle_fail(
		    lb, LB_BAD_ARGUMENT, "params: byte %zu: %s", error.at, error.what);
	if (!json_is_object(params)) {
		json_free(params);
		return handle_fail(lb, LB_BAD_ARGUMENT, "params: not a JSON object");
	}
	*ret = params;
	return LB_OK;
}

int
lb_call_start(struct lb *lb, const char *method, const char *params_json, int64_t *ret_request)
{
	struct cJSON *params;
	int code = call_enter(lb, method, params_json, &params);

	return code == LB_OK ? handle_ask(lb, method, params, CALL_ASKED, ret_request) : code;
}

int
lb_call(
    struct lb *lb, const char *method, const char *params_json, int64_t timeout_ms, char **ret_json)
{
	struct cJSON *params;
	int code = call_enter(lb, method, params_json, &params);
	char *json;

	if (code != LB_OK)
		return code;
	code = handle_call(lb, method, params, timeout_ms);
	if (code != LB_OK || ret_json == NULL)
		return code;
	json = json_print(lb->last.content);
	if (json == NULL)
		return handle_fail(lb, LB_NO_MEMORY, NULL);
	*ret_json = json;
	return LB_OK;
}

/* ---- looking into JSON ---- */

struct leaf_walk {
	int (*visit)(const char *path, const char *value, void *arg);
	void *arg;
	char path[PATH_SIZE];
};

static int
visit_leaf(struct leaf_walk *walk, const struct cJSON *value)
{
	const char *text = "";
	char number[32];
	int64_t integer;
	double real;
	bool truth;

	if (json_string(value, &text) || json_is_null(value))
		return walk->visit(walk->path, text, walk->arg);
	if (json_bool(value, &truth))
		return walk->visit(walk->path, truth ? "true" : "false", walk->arg);
	if (json_integer(value, &integer))
		snprintf(number, sizeof(number), "%lld", (long long)integer);
	else if (json_number(value, &real))
		snprintf(number, sizeof(number), "%.15g", real);
	else
		number[0] = '\0';
	return walk->visit(walk->path, number, walk->arg);
}

/* Depth is bounded by JSON_DEPTH_MAX. */
static int
visit_all(struct leaf_walk *walk, const struct cJSON *value, size_t len)
{
	bool array = json_is_array(value);
	const struct cJSON *member;
	size_t index = 0;
	int result = 0, added;

	if (!array && !json_is_object(value))
		return visit_leaf(walk, value);
	for (member = json_first(value); member != NULL && result == 0;
	     member = json_next(member)) {
		const char *dot = len > 0 ? "." : "";

		added = array ? snprintf(walk->path + len, PATH_SIZE - len, "%s%zu", dot, index++)
			      : snprintf(walk->path + len, PATH_SIZE - len, "%s%s", dot,
				    json_name(member));
		if (added < 0 || (size_t)added >= PATH_SIZE - len)
			return LB_BAD_ARGUMENT;
		result = visit_all(walk, member, len + (size_t)added);
	}
	walk->path[len] = '\0';
	return result;
}

int
lb_json_each(
    const char *json, int (*visit)(const char *path, const char *value, void *arg), void *arg)
{
	struct leaf_walk walk = {.visit = visit, .arg = arg};
	struct json_error error;
	struct cJSON *tree;
	int result;

	if (json == NULL)
		return LB_BAD_ARGUMENT;
	tree = json_parse(json, strlen(json), &error);
	if (tree == NULL)
		return error.no_memory ? LB_NO_MEMORY : LB_BAD_ARGUMENT;
	result = visit_all(&walk, tree, 0);
	json_free(tree);
	return result;
}
