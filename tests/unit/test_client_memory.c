/*
 * liblockbroker when memory runs out: each allocation of a small life fails in its turn, its own
 * and cJSON's (the linker wraps the former). The outcome is LB_NO_MEMORY, never a crash, a leak, or
 * a hold that is thought to stand.
 */
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/lockbroker.h"
#include "tests/unit/client_rig.h"
#include "tests/unit/unit.h"

static int left = -1; /* allocations until one fails; -1 = none does */
static bool failed;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);

static bool
runs_out(void)
{
	if (left < 0 || left-- > 0)
		return false;
	failed = true;
	return true;
}

void *
__wrap_malloc(size_t size)
{
	return runs_out() ? NULL : __real_malloc(size);
}

void *
__wrap_calloc(size_t count, size_t size)
{
	return runs_out() ? NULL : __real_calloc(count, size);
}

void *
__wrap_realloc(void *old, size_t size)
{
	return runs_out() ? NULL : __real_realloc(old, size);
}

char *
__wrap_strdup(const char *text)
{
	return runs_out() ? NULL : __real_strdup(text);
}

static int
visit(const char *at, const char *value, void *arg)
{
	(void)at;
	(void)value;
	(void)arg;
	return 0;
}

#define REFUSAL(id, code)                                                                          \
	"{\"jsonrpc\":\"2.0\",\"id\":" id ",\"error\":{\"code\":" code                             \
	",\"message\":\"m\",\"data\":{\"a\":1}}}"
#define RESULT(id, members) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"result\":{" members "}}"

/* say(), whose own allocations are not the library's. */
static void
tell(const char *line)
{
	int kept = left;

	left = -1;
	say(line);
	left = kept;
}

static int
get_two(struct lb_lock **ret_first, struct lb_lock **ret_second)
{
	struct lb_options options = LB_OPTIONS_INIT;
	int code;

	options.who = options.why = options.command = "somebody";
	tell(GRANT("1", "a-1"));
	code = lb_acquire(lb, "db", &options, ret_first);
	if (code != LB_OK)
		return code;
	tell(NOTICE("broker", "\"state\":\"down\",\"why\":\"gone\""));
	tell(REFUSAL("2", "5"));
	code = lb_verify_id(lb, "other", 1000, NULL);
	if (code != LB_NO_SUCH_LOCK)
		return code;
	if (lb_error_json(lb) == NULL)
		return LB_NO_MEMORY;
	tell(GRANT("3", "a-3"));
	return lb_acquire(lb, "db", NULL, ret_second);
}

static int
wait_for_a_third(void)
{
	int64_t request;
	int code = lb_acquire_start(lb, "db", NULL, &request);

	if (code == LB_OK)
		code = lb_cancel(lb, request);
	tell(NOTICE("waiting", "\"id\":4,\"position\":1,\"busy\":2"));
	tell(REFUSAL("4", "4"));
	tell(RESULT("5", "\"cancelled\":true"));
	return code == LB_OK ? lb_dispatch(lb) : code;
}

/* By its lease, which was over when the grant was read. */
static int
lose_a_fourth(void)
{
	struct lb_lock *lock;
	int code;

	tell(RESULT("12", "\"lock\":\"a-8\",\"name\":\"db\",\"slot\":1,\"safe_until\":0.001"));
	code = lb_acquire(lb, "db", NULL, &lock);
	return code == LB_LOST ? LB_OK : code == LB_OK ? LB_INTERNAL : code;
}

/* A result and an error, as events that stay queued. */
static int
ask_beside(void)
{
	int64_t request;
	int code = lb_call_start(lb, "thing", "{\"a\":[]}", &request);

	if (code == LB_OK)
		code = lb_call_start(lb, "other", NULL, &request);
	tell(RESULT("8", "\"x\":1"));
	tell("{\"jsonrpc\":\"2.0\",\"id\":9,\"error\":{\"code\":5,\"message\":\"m\",\"data\":{}}}");
	return code == LB_OK ? lb_dispatch(lb) : code;
}

static int
administrate(void)
{
	struct lb_change how = LB_CHANGE_INIT;
	int code, slots;

	how.wait_ms = how.progress = how.ascending = how.overshoot = 1;
	tell(NOTICE("holders", "\"id\":10,\"left\":1,\"holders\":[{\"slot\":2}]"));
	tell(RESULT("10", "\"slots\":\"unlimited\""));
	code = lb_resize_by(lb, "db", 2, &how, 1000, &slots);
	if (code != LB_OK)
		return code;
	tell(RESULT("11", ""));
	return lb_await(lb, "db", 1, LB_SLOT_BUSY, 1000);
}

/* A life, until the first call that does not do what it should; that call's code. */
static int
live(struct lb_lock **ret_lock)
{
	struct lb_lock *second = NULL;
	char *json = NULL;
	int code = get_two(ret_lock, &second);

	if (code == LB_OK)
		code = wait_for_a_third();
	if (code != LB_OK)
		return code;
	tell(LOST("a-1"));
	tell(RESULT("6", "\"lock\":\"a-3\""));
	code = lb_release(second, 1000);
	if (code != LB_OK)
		return code;
	if (lb_lock_state(*ret_lock) != LB_LOCK_LOST)
		return LB_INTERNAL;
	tell(RESULT("7", "\"x\":[1,\"two\"]"));
	code = lb_call(lb, "thing", "{\"a\":{\"b\":[]}}", 1000, &json);
	if (code == LB_OK)
		code = lb_json_each(json, visit, NULL);
	free(json);
	if (code == LB_OK)
		code = ask_beside();
	if (code == LB_OK)
		code = administrate();
	return code == LB_OK ? lose_a_fourth() : code;
}

/* False when nothing failed: then all have had their turn. */
static bool
one_turn(int turn)
{
	cJSON_Hooks hooks = {.malloc_fn = __wrap_malloc, .free_fn = free};
	struct lb_lock *lock = NULL;
	int code;

	client_rig_listen();
	failed = false;
	left = turn;
	cJSON_InitHooks(&hooks);
	lb = lb_new();
	code = lb != NULL ? lb_connect(lb, path, 1000) : LB_NO_MEMORY;
	daemon_end = -1;
	if (code == LB_OK) {
		daemon_end = accept(listener, NULL, NULL);
		code = live(&lock);
	}
	while (lb != NULL && lb_event_next(lb) != NULL)
		continue;
	left = -1;
	cJSON_InitHooks(NULL);
	ck_assert_int_eq(code, failed ? LB_NO_MEMORY : LB_OK);
	ck_assert(lb == NULL || !failed || lb_message(lb) != NULL);
	/* A connection that could not be kept up keeps no hold. */
	if (lock != NULL && lb_fd(lb) < 0)
		ck_assert_int_eq(lb_lock_state(lock), LB_LOCK_LOST);
	client_rig_down();
	return failed;
}

START_TEST(every_allocation_fails_in_turn)
{
	int turn = 0;

	while (one_turn(turn))
		turn++;
	ck_assert_int_gt(turn, 100);
}
END_TEST

static Suite *
memory_suite(void)
{
	Suite *suite = suite_create("memory");
	TCase *tcase = tcase_create("memory");

	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, every_allocation_fails_in_turn);
	suite_add_tcase(suite, tcase);
	return suite;
}

int
main(void)
{
	Suite *(*const makers[])(void) = {memory_suite};

	return unit_run(makers, 1);
}
