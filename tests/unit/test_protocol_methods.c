#include "tests/unit/test_protocol.h"

#include <stdlib.h>
#include <string.h>

#include "protocol/methods.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof(table)[0]))
#define X16 "xxxxxxxxxxxxxxxx"
#define X128 X16 X16 X16 X16 X16 X16 X16 X16

static struct cJSON *
parse(const char *text)
{
	struct json_error error = {0};
	struct cJSON *value = json_parse(text, strlen(text), &error);

	ck_assert_msg(value != NULL, "%s: %s at %zu", text, error.what, error.at);
	return value;
}

/* The tree is the caller's to free: strings are borrowed from it. */
static struct method_params
decode(const char *method, struct cJSON *tree)
{
	struct method_params params;
	struct message_error error;

	ck_assert_msg(
	    method_params_parse(method_find(method), tree, &params, &error), "%s", error.text);
	return params;
}

static const struct {
	const char *method, *params, *parameter, *text;
} bad[] = {
    {"acquire", NULL, "name", "acquire: parameter 'name' is missing"},
    {"acquire", "{}", "name", "acquire: parameter 'name' is missing"},
    {"acquire", "{\"name\":7}", "name", "acquire: parameter 'name' must be a string"},
    {"acquire", "{\"name\":null}", "name", "acquire: parameter 'name' must be a string"},
    {"acquire", "{\"name\":\"\"}", "name",
	"acquire: parameter 'name' is refused: a lock name must not be empty"},
    {"size", "{\"name\":\"db-1-A\"}", "name",
	"size: parameter 'name' is refused: a lock name must not end in -A, -B, -W, -G, -U, -M, "
	"-A-<digits> or -B-<digits>"},
    {"acquire", "{\"name\":\"db\",\"Timeout\":1}", "Timeout",
	"acquire: parameter 'Timeout' is unknown"},
    {"acquire", "{\"name\":\"db\",\"slots\":1}", "slots", "acquire: parameter 'slots' is unknown"},
    {"acquire", "{\"\":\"\"}", "", "acquire: parameter '' is unknown"},
    {"info", "{\"\\u00e4\\n\":1}", "\\xc3\\xa4\\x0a",
	"info: parameter '\\xc3\\xa4\\x0a' is unknown"},
    {"info", "{\"" X128 "\":1}", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
	"info: parameter '" X16 X16 X16 "xxxxxxxxxxxxxxx' is unknown"},
    {"acquire", "{\"name\":\"db\",\"kind\":\"Mutex\"}", "kind",
	"acquire: parameter 'kind' must be one of: \"semaphore\" \"mutex\" \"persistent-mutex\""},
    {"acquire", "{\"name\":\"db\",\"kind\":1}", "kind",
	"acquire: parameter 'kind' must be one of: \"semaphore\" \"mutex\" \"persistent-mutex\""},
    {"create", "{\"name\":\"db\",\"kind\":\"mutex\"}", "kind",
	"create: parameter 'kind' must be one of: \"semaphore\" \"persistent-mutex\""},
    {"create", "{\"name\":\"db\",\"kind\":\"persistent-mutex\",\"slots\":2}", "slots",
	"create: parameter 'slots' must be 1 for a persistent-mutex"},
    {"create", "{\"name\":\"db\",\"slots\":-1}", "slots",
	"create: parameter 'slots' must be an integer from 0 to 10000, or \"unlimited\""},
    {"create", "{\"name\":\"db\",\"slots\":10001}", "slots",
	"create: parameter 'slots' must be an integer from 0 to 10000, or \"unlimited\""},
    {"create", "{\"name\":\"db\",\"slots\":1.5}", "slots",
	"create: parameter 'slots' must be an integer from 0 to 10000, or \"unlimited\""},
    {"create", "{\"name\":\"db\",\"slots\":\"2\"}", "slots",
	"create: parameter 'slots' must be an integer from 0 to 10000, or \"unlimited\""},
    {"create", "{\"name\":\"db\",\"slots\":\"Unlimited\"}", "slots",
	"create: parameter 'slots' must be an integer from 0 to 10000, or \"unlimited\""},
    {"create", "{\"name\":\"db\",\"slots\":null}", "slots",
	"create: parameter 'slots' must be an integer from 0 to 10000, or \"unlimited\""},
    {"create", "{\"name\":\"db\",\"slots\":4294967297}", "slots",
	"create: parameter 'slots' must be an integer from 0 to 10000, or \"unlimited\""},
    {"create", "{\"name\":\"db\",\"slots\":4294967294}", "slots",
	"create: parameter 'slots' must be an integer from 0 to 10000, or \"unlimited\""},
    {"create", "{\"name\":\"db\",\"kind\":\"persistent-mutex\",\"slots\":0}", "slots",
	"create: parameter 'slots' must be 1 for a persistent-mutex"},
    {"create", "{\"name\":\"db\",\"kind\":\"persistent-mutex\",\"slots\":\"unlimited\"}", "slots",
	"create: parameter 'slots' must be 1 for a persistent-mutex"},
    {"create", "{\"name\":\"db\",\"overshoot\":-1}", "overshoot",
	"create: parameter 'overshoot' must be an integer from 0 to 10000"},
    {"create", "{\"name\":\"db\",\"wait\":1}", "wait", "create: parameter 'wait' is unknown"},
    {"acquire", "{\"name\":\"db\",\"create\":0}", "create",
	"acquire: parameter 'create' must be an integer from 1 to 10000"},
    {"acquire", "{\"name\":\"db\",\"create\":10001}", "create",
	"acquire: parameter 'create' must be an integer from 1 to 10000"},
    {"acquire", "{\"name\":\"db\",\"create\":\"unlimited\"}", "create",
	"acquire: parameter 'create' must be an integer from 1 to 10000"},
    {"acquire", "{\"name\":\"db\",\"create\":true}", "create",
	"acquire: parameter 'create' must be an integer from 1 to 10000"},
    {"acquire", "{\"name\":\"db\",\"create\":2,\"kind\":\"persistent-mutex\"}", "create",
	"acquire: parameter 'create' must be 1 for a persistent-mutex"},
    {"acquire", "{\"name\":\"db\",\"create\":1,\"kind\":\"mutex\"}", "create",
	"acquire: parameter 'create' must be left out for a mutex, which is not "
	"created"},
    {"destroy", "{\"name\":\"db\",\"order\":\"up\"}", "order",
	"destroy: parameter 'order' must be one of: \"descending\" \"ascending\""},
    {"destroy", "{\"name\":\"db\",\"order\":1}", "order",
	"destroy: parameter 'order' must be one of: \"descending\" \"ascending\""},
    {"destroy", "{\"name\":\"db\",\"wait\":-1}", "wait",
	"destroy: parameter 'wait' must be a number of seconds from 0 to 315360000, or null (no "
	"limit)"},
    {"resize", "{\"name\":\"db\"}", "slots",
	"resize: parameter 'slots' is missing, or an alternative to it"},
    {"resize", "{\"slots\":1}", "name", "resize: parameter 'name' is missing"},
    {"resize", "{\"name\":\"db\",\"add\":1,\"remove\":1}", "remove",
	"resize: parameter 'remove' must not be given together with 'add'"},
    {"resize", "{\"name\":\"db\",\"remove\":1,\"slots\":1}", "remove",
	"resize: parameter 'remove' must not be given together with 'slots'"},
    {"resize", "{\"name\":\"db\",\"slots\":-2}", "slots",
	"resize: parameter 'slots' must be an integer from 0 to 10000, or \"unlimited\""},
    {"resize", "{\"name\":\"db\",\"add\":0}", "add",
	"resize: parameter 'add' must be an integer from 1 to 10000"},
    {"resize", "{\"name\":\"db\",\"add\":\"unlimited\"}", "add",
	"resize: parameter 'add' must be an integer from 1 to 10000"},
    {"resize", "{\"name\":\"db\",\"remove\":-1}", "remove",
	"resize: parameter 'remove' must be an integer from 1 to 10000"},
    {"resize", "{\"name\":\"db\",\"remove\":10001}", "remove",
	"resize: parameter 'remove' must be an integer from 1 to 10000"},
    {"resize", "{\"name\":\"db\",\"slots\":1,\"kind\":\"semaphore\"}", "kind",
	"resize: parameter 'kind' is unknown"},
    {"await", "{\"name\":\"db\",\"slot\":1}", "state", "await: parameter 'state' is missing"},
    {"await", "{\"name\":\"db\",\"state\":\"free\"}", "slot", "await: parameter 'slot' is missing"},
    {"await", "{\"name\":\"db\",\"slot\":0,\"state\":\"free\"}", "slot",
	"await: parameter 'slot' must be an integer from 1 to 10000"},
    {"await", "{\"name\":\"db\",\"slot\":1,\"state\":\"held\"}", "state",
	"await: parameter 'state' must be one of: \"free\" \"busy\""},
    {"show", "{}", "name", "show: parameter 'name' is missing"},
    {"grant", "{}", "waiter", "grant: parameter 'waiter' is missing"},
    {"grant", "{\"waiter\":\"\"}", "waiter",
	"grant: parameter 'waiter' must be a string of 1 to 64 bytes"},
    {"deny", "{}", "waiter", "deny: parameter 'waiter' is missing, or an alternative to it"},
    {"deny", "{\"all\":true}", "waiter",
	"deny: parameter 'waiter' is missing, or an alternative to it"},
    {"deny", "{\"name\":\"db\"}", "all",
	"deny: parameter 'all' must be true with 'name': the request is about all waiters"},
    {"deny", "{\"waiter\":\"1-2\",\"all\":true}", "all",
	"deny: parameter 'all' must be left out with 'waiter'"},
    {"deny", "{\"waiter\":\"1-2\",\"name\":\"db\",\"all\":true}", "name",
	"deny: parameter 'name' must not be given together with 'waiter'"},
    {"evict", "{}", "holder", "evict: parameter 'holder' is missing, or an alternative to it"},
    {"evict", "{\"name\":\"db\"}", "all",
	"evict: parameter 'all' must be true with 'name': the request is about all holders"},
    {"evict", "{\"holder\":\"1-2\",\"all\":true}", "all",
	"evict: parameter 'all' must be left out with 'holder'"},
    {"evict", "{\"holder\":\"1-2\",\"waiter\":\"1-2\"}", "waiter",
	"evict: parameter 'waiter' is unknown"},
    {"evict", "{\"holder\":\"1-2\",\"grace\":null}", "grace",
	"evict: parameter 'grace' must be a number of seconds from 0 to 86400"},
    {"evict", "{\"holder\":\"1-2\",\"grace\":86400.1}", "grace",
	"evict: parameter 'grace' must be a number of seconds from 0 to 86400"},
    {"fsck", "{\"name\":\"db\",\"repair\":1}", "repair",
	"fsck: parameter 'repair' must be true or false"},
    {"fsck", "{\"name\":\"db\",\"repair\":true,\"convert\":\"mixed\"}", "convert",
	"fsck: parameter 'convert' must be one of: \"exclusive-queue\" \"consumer\" \"quorum\""},
    {"fsck", "{\"name\":\"db\",\"convert\":\"consumer\"}", "convert",
	"fsck: parameter 'convert' needs 'repair'"},
    {"fsck", "{\"name\":\"db\",\"repair\":false,\"wait\":null}", "wait",
	"fsck: parameter 'wait' needs 'repair'"},
    {"create", "{\"name\":\"db\",\"claim\":\"queue\"}", "claim",
	"create: parameter 'claim' must be one of: \"exclusive-queue\" \"consumer\" \"quorum\""},
    {"explain", "{\"name\":\"db\",\"kind\":\"gate\"}", "kind",
	"explain: parameter 'kind' must be one of: \"semaphore\" \"mutex\" \"persistent-mutex\""},
    {"list", "{\"name\":\"db\"}", "name", "list: parameter 'name' is unknown"},
    {"create", "{\"name\":\"db\",\"exist_ok\":1}", "exist_ok",
	"create: parameter 'exist_ok' must be true or false"},
    {"acquire", "{\"name\":\"db\",\"timeout\":-1}", "timeout",
	"acquire: parameter 'timeout' must be a number of seconds from 0 to 315360000, or null "
	"(no limit)"},
    {"acquire", "{\"name\":\"db\",\"timeout\":315360000.1}", "timeout",
	"acquire: parameter 'timeout' must be a number of seconds from 0 to 315360000, or null "
	"(no limit)"},
    {"acquire", "{\"name\":\"db\",\"timeout\":\"1s\"}", "timeout",
	"acquire: parameter 'timeout' must be a number of seconds from 0 to 315360000, or null "
	"(no limit)"},
    {"acquire", "{\"name\":\"db\",\"priority\":101}", "priority",
	"acquire: parameter 'priority' must be an integer from -100 to 100"},
    {"acquire", "{\"name\":\"db\",\"priority\":null}", "priority",
	"acquire: parameter 'priority' must be an integer from -100 to 100"},
    {"acquire", "{\"name\":\"db\",\"progress\":\"yes\"}", "progress",
	"acquire: parameter 'progress' must be true or false"},
    {"acquire", "{\"name\":\"db\",\"who\":1}", "who",
	"acquire: parameter 'who' must be a string of 0 to 256 bytes"},
    {"acquire", "{\"name\":\"db\",\"command\":\"" X128 X128 "x\"}", "command",
	"acquire: parameter 'command' must be a string of 0 to 256 bytes"},
    {"verify", "{}", "lock", "verify: parameter 'lock' is missing"},
    {"release", "{\"lock\":\"\"}", "lock",
	"release: parameter 'lock' must be a string of 1 to 64 bytes"},
    {"release", "{\"lock\":\"" X16 X16 X16 X16 "x\"}", "lock",
	"release: parameter 'lock' must be a string of 1 to 64 bytes"},
    {"cancel", "{\"id\":null}", "id",
	"cancel: parameter 'id' must be the id of a request: a string or an integer"},
    {"cancel", "{\"id\":1.5}", "id",
	"cancel: parameter 'id' must be the id of a request: a string or an integer"},
    {"ping", "{\"broker\":0}", "broker", "ping: parameter 'broker' must be true or false"},
    {"rpc.discover", "{\"x\":1}", "x", "rpc.discover: parameter 'x' is unknown"},
};

/* The answer to a request with bad params always has data.parameter. */
static void
check_answered_parameter(const struct message_error *error, const char *parameter)
{
	const struct message_id id = {.kind = MESSAGE_ID_INTEGER, .integer = 1};
	char *line = message_error_line(&id, error, NULL);
	struct message_answer answer;
	const char *what, *answered;

	ck_assert_msg(message_parse_answer(line, strlen(line), &answer, &what), "%s", what);
	ck_assert_msg(json_string(json_get(answer.content, "parameter"), &answered), "%s", line);
	ck_assert_str_eq(answered, parameter);
	message_answer_done(&answer);
	free(line);
}

START_TEST(bad_params_are_refused_by_name)
{
	struct cJSON *tree = bad[_i].params == NULL ? NULL : parse(bad[_i].params);
	struct method_params params, untouched;
	struct message_error error;

	memset(&params, 0xa5, sizeof(params));
	untouched = params;
	ck_assert(!method_params_parse(method_find(bad[_i].method), tree, &params, &error));
	ck_assert_int_eq(error.reason, REASON_INVALID_PARAMS);
	ck_assert_str_eq(error.parameter, bad[_i].parameter);
	ck_assert_str_eq(error.text, bad[_i].text);
	check_answered_parameter(&error, bad[_i].parameter);
	ck_assert_mem_eq(&params, &untouched, sizeof(params));
	json_free(tree);
}
END_TEST

START_TEST(params_have_defaults)
{
	struct cJSON *tree = parse("{\"name\":\"db\"}");
	struct method_params params = decode("acquire", tree);

	ck_assert_str_eq(params.name, "db");
	ck_assert_int_eq(params.kind, LOCK_KIND_SEMAPHORE);
	ck_assert_int_eq(params.timeout, DURATION_FOREVER);
	ck_assert_int_eq(params.wait, 0);
	ck_assert_int_eq(params.priority, 0);
	ck_assert(!params.progress && !params.broker && !params.exist_ok && !params.repair);
	ck_assert_int_eq(params.create, 0);
	ck_assert_int_eq(decode("destroy", tree).wait, 0);
	ck_assert_int_eq(decode("destroy", tree).order, METHOD_ORDER_DESCENDING);
	ck_assert_int_eq(decode("destroy", tree).overshoot, 0);
	ck_assert_ptr_null(params.who);
	ck_assert_ptr_null(params.why);
	ck_assert_ptr_null(params.command);
	ck_assert_ptr_null(params.lock);
	ck_assert_int_eq(decode("create", tree).slots, 1);
	ck_assert_int_eq(decode("ping", NULL).id.kind, MESSAGE_ID_NULL);
	json_free(tree);
}
END_TEST

START_TEST(params_are_decoded)
{
	struct cJSON *tree = parse("{\"name\":\"db\",\"kind\":\"mutex\",\"timeout\":0.25,"
				   "\"priority\":-100,\"progress\":true,\"who\":\"a\","
				   "\"why\":\"" X128 X128 "\",\"command\":\"\"}");
	struct method_params params = decode("acquire", tree);

	ck_assert_int_eq(params.kind, LOCK_KIND_MUTEX);
	ck_assert_int_eq(params.timeout, 250000000);
	ck_assert_int_eq(params.priority, -100);
	ck_assert(params.progress);
	ck_assert_str_eq(params.who, "a");
	ck_assert_uint_eq(strlen(params.why), METHODS_WORDS_MAX);
	ck_assert_str_eq(params.command, "");
	json_free(tree);

	tree = parse("{\"name\":\"db\",\"timeout\":null}");
	ck_assert_int_eq(decode("acquire", tree).timeout, DURATION_FOREVER);
	json_free(tree);
	tree = parse("{\"name\":\"db\",\"timeout\":0}");
	ck_assert_int_eq(decode("acquire", tree).timeout, 0);
	json_free(tree);
}
END_TEST

START_TEST(params_of_the_other_methods_are_decoded)
{
	struct cJSON *tree = parse("{\"name\":\"db\",\"slots\":10000,\"exist_ok\":true}");
	struct method_params params = decode("create", tree);

	ck_assert_int_eq(params.slots, 10000);
	ck_assert(params.exist_ok);
	json_free(tree);
	tree = parse("{\"name\":\"db\",\"slots\":\"unlimited\"}");
	ck_assert_int_eq(decode("create", tree).slots, METHODS_UNLIMITED);
	params = decode("resize", tree);
	ck_assert_int_eq(params.slots, METHODS_UNLIMITED);
	ck_assert(params.add == 0 && params.remove == 0);
	json_free(tree);
	tree = parse("{\"name\":\"db\",\"remove\":10000,\"order\":\"ascending\",\"overshoot\":7,"
		     "\"wait\":null}");
	params = decode("resize", tree);
	ck_assert(params.add == 0 && params.remove == 10000);
	ck_assert_int_eq(params.order, METHOD_ORDER_ASCENDING);
	ck_assert_int_eq(params.overshoot, 7);
	ck_assert_int_eq(params.wait, DURATION_FOREVER);
	json_free(tree);
	tree = parse("{\"name\":\"db\",\"slot\":3,\"state\":\"busy\",\"timeout\":0}");
	params = decode("await", tree);
	ck_assert(params.slot == 3 && params.state == METHOD_SLOT_BUSY && params.timeout == 0);
	json_free(tree);
	tree = parse("{\"lock\":\"5f3a9c01-17\"}");
	ck_assert_str_eq(decode("verify", tree).lock, "5f3a9c01-17");
	ck_assert_str_eq(decode("release", tree).lock, "5f3a9c01-17");
	json_free(tree);
	tree = parse("{\"id\":\"seven\"}");
	ck_assert_str_eq(decode("cancel", tree).id.string, "seven");
	json_free(tree);
	tree = parse("{\"id\":-7}");
	ck_assert_int_eq(decode("cancel", tree).id.integer, -7);
	json_free(tree);
	tree = parse("{\"broker\":true}");
	ck_assert(decode("ping", tree).broker);
	json_free(tree);
	tree = parse("{\"waiter\":\"5f3a9c01-18\"}");
	ck_assert_str_eq(decode("grant", tree).waiter, "5f3a9c01-18");
	params = decode("deny", tree);
	ck_assert(strcmp(params.waiter, "5f3a9c01-18") == 0 && params.name == NULL && !params.all);
	json_free(tree);
	tree = parse("{\"name\":\"db\",\"all\":true}");
	params = decode("deny", tree);
	ck_assert(strcmp(params.name, "db") == 0 && params.waiter == NULL && params.all);
	params = decode("evict", tree);
	ck_assert(strcmp(params.name, "db") == 0 && params.holder == NULL && params.all);
	ck_assert_int_eq(params.grace, 30000 * DURATION_MILLISECOND);
	json_free(tree);
	tree = parse("{\"holder\":\"5f3a9c01-18\",\"grace\":0,\"why\":\"w\"}");
	params = decode("evict", tree);
	ck_assert(strcmp(params.holder, "5f3a9c01-18") == 0 && params.name == NULL && !params.all);
	ck_assert(params.grace == 0 && strcmp(params.why, "w") == 0);
	json_free(tree);
	tree = parse("{}");
	ck_assert_ptr_null(decode("watch", tree).name);
	json_free(tree);
}
END_TEST

START_TEST(methods_are_found_by_their_name_alone)
{
	ck_assert_str_eq(method_find("acquire")->name, "acquire");
	ck_assert_ptr_null(method_find("Acquire"));
	ck_assert_ptr_null(method_find(""));
	ck_assert_ptr_null(method_find("acquire "));
	for (const struct method_spec *method = method_all(); method->name != NULL; method++)
		ck_assert_ptr_eq(method_find(method->name), method);
}
END_TEST

START_TEST(some_methods_wait_by_design)
{
	static const char *const always[] = {"acquire", "await", "watch"};
	static const char *const when_told[] = {"destroy", "resize", "fsck"};
	const struct method_params plain = {.wait = 0}, told = {.wait = 1};
	size_t waiting = 0;

	for (size_t i = 0; i < 3; i++)
		ck_assert(method_waits(method_find(always[i]), &plain));
	for (size_t i = 0; i < 3; i++) {
		ck_assert(!method_waits(method_find(when_told[i]), &plain));
		ck_assert(method_waits(method_find(when_told[i]), &told));
	}
	for (const struct method_spec *method = method_all(); method->name != NULL; method++)
		waiting += method_waits(method, &told);
	ck_assert_uint_eq(waiting, 6);
}
END_TEST

START_TEST(acquire_and_await_may_try)
{
	const struct method_params now = {.timeout = 0}, later = {.timeout = 1};
	size_t trying = 0;

	for (const struct method_spec *method = method_all(); method->name != NULL; method++) {
		trying += method_tries(method, &now);
		ck_assert(!method_tries(method, &later));
	}
	ck_assert_uint_eq(trying, 2);
	ck_assert(method_tries(method_find("acquire"), &now));
	ck_assert(method_tries(method_find("await"), &now));
}
END_TEST

Suite *
methods_suite(void)
{
	Suite *suite = suite_create("methods");
	TCase *tcase = tcase_create("params");

	tcase_add_loop_test(tcase, bad_params_are_refused_by_name, 0, COUNT(bad));
	tcase_add_test(tcase, params_have_defaults);
	tcase_add_test(tcase, params_are_decoded);
	tcase_add_test(tcase, params_of_the_other_methods_are_decoded);
	tcase_add_test(tcase, some_methods_wait_by_design);
	tcase_add_test(tcase, acquire_and_await_may_try);
	tcase_add_test(tcase, methods_are_found_by_their_name_alone);
	suite_add_tcase(suite, tcase);
	return suite;
}
