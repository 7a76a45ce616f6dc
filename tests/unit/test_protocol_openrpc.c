#include "tests/unit/test_protocol.h"

#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "protocol/methods.h"

static struct cJSON *doc;

static void
setup(void)
{
	struct json_error error = {0};

	doc = json_parse(openrpc_json, strlen(openrpc_json), &error);
	ck_assert_msg(doc != NULL, "%s at %zu", error.what, error.at);
}

static void
teardown(void)
{
	json_free(doc);
}

static const char *
text_of(const struct cJSON *object, const char *name)
{
	const char *text = NULL;

	ck_assert_msg(json_string(json_get(object, name), &text), "no string %s", name);
	return text;
}

static int64_t
integer_of(const struct cJSON *object, const char *name)
{
	int64_t integer = 0;

	ck_assert_msg(json_integer(json_get(object, name), &integer), "no integer %s", name);
	return integer;
}

/* Follows "#/components/<section>/<name>". */
static const struct cJSON *
follow(const char *ref)
{
	const struct cJSON *found = NULL;
	char copy[128], *section, *name;

	ck_assert_uint_lt(strlen(ref), sizeof(copy));
	strcpy(copy, ref);
	ck_assert_int_eq(strncmp(copy, "#/components/", 13), 0);
	section = copy + 13;
	name = strchr(section, '/');
	ck_assert_ptr_nonnull(name);
	*name++ = '\0';
	found = json_get(json_get(json_get(doc, "components"), section), name);
	ck_assert_msg(found != NULL, "%s leads nowhere", ref);
	return found;
}

static const struct cJSON *
resolve(const struct cJSON *schema)
{
	const char *ref;

	return json_string(json_get(schema, "$ref"), &ref) ? follow(ref) : schema;
}

static const struct cJSON *
element(const struct cJSON *array, const char *name)
{
	const struct cJSON *item;

	for (item = json_first(array); item != NULL; item = json_next(item))
		if (strcmp(text_of(item, "name"), name) == 0)
			return item;
	return NULL;
}

static size_t
count(const struct cJSON *array)
{
	size_t n = 0;

	for (const struct cJSON *item = json_first(array); item != NULL; item = json_next(item))
		n++;
	return n;
}

static bool
lists(const struct cJSON *array, const char *word)
{
	const struct cJSON *item;
	const char *text;

	for (item = json_first(array); item != NULL; item = json_next(item))
		if (json_string(item, &text) && strcmp(text, word) == 0)
			return true;
	return false;
}

static void
expect_types(const struct cJSON *schema, const char *first, const char *second)
{
	const struct cJSON *type = json_get(schema, "type");

	if (second == NULL) {
		ck_assert_str_eq(text_of(schema, "type"), first);
		return;
	}
	ck_assert_uint_eq(count(type), 2);
	ck_assert(lists(type, first) && lists(type, second));
}

static void
expect_kinds(const struct param_spec *spec, const struct cJSON *schema)
{
	static const enum lock_kind kinds[] = {
	    LOCK_KIND_SEMAPHORE, LOCK_KIND_MUTEX, LOCK_KIND_PERSISTENT_MUTEX};
	const struct cJSON *words = json_get(schema, "enum");
	size_t allowed = 0;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		bool in = (spec->kinds & METHODS_KIND_BIT(kinds[i])) != 0;

		ck_assert_int_eq(lists(words, lock_kind_word(kinds[i])), in);
		allowed += in;
	}
	ck_assert_uint_eq(count(words), allowed);
}

static void
expect_range(const struct param_spec *spec, const struct cJSON *schema)
{
	expect_types(schema, "integer", NULL);
	ck_assert_int_eq(integer_of(schema, "minimum"), spec->min);
	ck_assert_int_eq(integer_of(schema, "maximum"), spec->max);
}

static void
expect_words(const struct param_spec *spec, const struct cJSON *schema)
{
	const struct cJSON *words = json_get(schema, "enum");
	size_t i = 0;

	expect_types(schema, "string", NULL);
	for (; spec->words[i] != NULL; i++)
		ck_assert(lists(words, spec->words[i]));
	ck_assert_uint_eq(count(words), i);
}

static void
expect_schema(const struct param_spec *spec, const struct cJSON *schema)
{
	switch (spec->type) {
	case PARAM_NAME:
		expect_types(schema, "string", NULL);
		ck_assert_int_eq(integer_of(schema, "maxLength"), LOCKNAME_MAX);
		return;
	case PARAM_KIND:
		expect_types(schema, "string", NULL);
		expect_kinds(spec, schema);
		return;
	case PARAM_DURATION:
		expect_types(schema, "number", spec->max == 0 ? "null" : NULL);
		ck_assert_int_eq(integer_of(schema, "minimum"), 0);
		ck_assert_int_eq(integer_of(schema, "maximum"),
		    spec->max == 0 ? DURATION_MAX_SECONDS : spec->max);
		return;
	case PARAM_INTEGER:
		expect_range(spec, schema);
		return;
	case PARAM_SLOTS:
		ck_assert_uint_eq(count(json_get(schema, "oneOf")), 2);
		expect_range(spec, json_first(json_get(schema, "oneOf")));
		ck_assert_str_eq(text_of(json_next(json_first(json_get(schema, "oneOf"))), "const"),
		    "unlimited");
		return;
	case PARAM_WORD:
		expect_words(spec, schema);
		return;
	case PARAM_BOOL:
		expect_types(schema, "boolean", NULL);
		return;
	case PARAM_STRING:
		expect_types(schema, "string", NULL);
		ck_assert_int_eq(integer_of(schema, "minLength"), spec->min);
		ck_assert_int_eq(integer_of(schema, "maxLength"), spec->max);
		return;
	case PARAM_ID:
		expect_types(schema, "string", "integer");
		ck_assert_int_eq(integer_of(schema, "maxLength"), MESSAGE_ID_MAX);
		return;
	}
	ck_abort_msg("%s: unknown type", spec->name);
}

START_TEST(the_description_has_the_methods_of_the_table)
{
	const struct cJSON *described = json_get(doc, "methods");
	size_t rows = 0;

	for (const struct method_spec *method = method_all(); method->name != NULL; method++) {
		ck_assert_msg(element(described, method->name) != NULL, "%s", method->name);
		rows++;
	}
	ck_assert_uint_eq(count(described), rows);
	ck_assert_int_eq(strncmp(text_of(doc, "openrpc"), "1.", 2), 0);
	ck_assert_str_eq(text_of(json_get(doc, "info"), "version"), PACKAGE_VERSION);
}
END_TEST

START_TEST(the_description_has_the_params_of_the_table)
{
	for (const struct method_spec *method = method_all(); method->name != NULL; method++) {
		const struct cJSON *described = element(json_get(doc, "methods"), method->name);
		const struct cJSON *params = json_get(described, "params");
		size_t rows = 0;

		ck_assert_str_eq(text_of(described, "paramStructure"), "by-name");
		for (const struct param_spec *spec = method->params; spec->name != NULL; spec++) {
			const struct cJSON *param = element(params, spec->name);
			bool required;

			ck_assert_msg(param != NULL, "%s: %s", method->name, spec->name);
			ck_assert(json_bool(json_get(param, "required"), &required));
			ck_assert_int_eq(required, spec->required);
			expect_schema(spec, resolve(json_get(param, "schema")));
			ck_assert_int_eq(
			    lists(json_get(described, "x-one-of"), spec->name), spec->choice);
			rows++;
		}
		ck_assert_uint_eq(count(params), rows);
	}
}
END_TEST

/* Something that a required param takes. */
static void
add_some(struct cJSON *object, const struct param_spec *spec)
{
	switch (spec->type) {
	case PARAM_INTEGER:
	case PARAM_SLOTS:
		json_add_integer(object, spec->name, spec->max);
		return;
	case PARAM_WORD:
		json_add_string(object, spec->name, spec->words[0]);
		return;
	case PARAM_NAME:
	case PARAM_KIND:
	case PARAM_DURATION:
	case PARAM_BOOL:
	case PARAM_STRING:
	case PARAM_ID:
		json_add_string(object, spec->name, "x");
		return;
	}
}

/* All that is required, of a choice the first; both objects. */
static void
add_required(const struct method_spec *method, struct cJSON *bare, struct cJSON *full)
{
	bool chosen = false;

	for (const struct param_spec *spec = method->params; spec->name != NULL; spec++) {
		if (!spec->required && (!spec->choice || chosen))
			continue;
		chosen |= spec->choice;
		add_some(bare, spec);
		add_some(full, spec);
	}
}

/* The defaults that the description promises are those that decoding gives. */
START_TEST(the_description_has_the_defaults_of_the_table)
{
	for (const struct method_spec *method = method_all(); method->name != NULL; method++) {
		const struct cJSON *described = element(json_get(doc, "methods"), method->name);
		const struct cJSON *param = json_first(json_get(described, "params"));
		struct cJSON *bare = json_new_object(), *full = json_new_object();
		struct method_params by_bare, by_full;
		struct message_error error;

		add_required(method, bare, full);
		for (; param != NULL; param = json_next(param)) {
			const char *name = text_of(param, "name");
			const struct cJSON *value =
			    json_get(resolve(json_get(param, "schema")), "default");

			if (value != NULL && json_get(full, name) == NULL)
				json_add(full, name, json_copy(value));
		}
		ck_assert(method_params_parse(method, bare, &by_bare, &error));
		ck_assert_msg(
		    method_params_parse(method, full, &by_full, &error), "%s", error.text);
		ck_assert_int_eq(by_bare.kind, by_full.kind);
		ck_assert_int_eq(by_bare.timeout, by_full.timeout);
		ck_assert_int_eq(by_bare.priority, by_full.priority);
		ck_assert_int_eq(by_bare.slots, by_full.slots);
		ck_assert_int_eq(by_bare.exist_ok, by_full.exist_ok);
		ck_assert_int_eq(by_bare.progress, by_full.progress);
		ck_assert_int_eq(by_bare.wait, by_full.wait);
		ck_assert_int_eq(by_bare.grace, by_full.grace);
		ck_assert_int_eq(by_bare.overshoot, by_full.overshoot);
		ck_assert_int_eq(by_bare.order, by_full.order);
		ck_assert_int_eq(by_bare.repair, by_full.repair);
		ck_assert_int_eq(by_bare.claim, by_full.claim);
		ck_assert_int_eq(by_bare.convert, by_full.convert);
		ck_assert_int_eq(by_bare.broker, by_full.broker);
		ck_assert_int_eq(by_bare.all, by_full.all);
		json_free(bare);
		json_free(full);
	}
}
END_TEST

START_TEST(the_description_has_the_reasons)
{
	const struct cJSON *schemas = json_get(json_get(doc, "components"), "schemas");
	const struct cJSON *words = json_get(json_get(schemas, "Reason"), "enum");
	const struct cJSON *error = json_first(json_get(json_get(doc, "components"), "errors"));
	size_t reasons = 0;

	for (; error != NULL; error = json_next(error)) {
		enum reason reason = reason_from_code((int)integer_of(error, "code"));
		const struct cJSON *data = json_get(json_get(error, "x-data"), "properties");
		bool retry;

		ck_assert_int_ne(reason, REASON_NONE);
		ck_assert_str_eq(text_of(error, "message"), reason_word(reason));
		ck_assert_str_eq(text_of(json_get(data, "reason"), "const"), reason_word(reason));
		ck_assert(json_bool(json_get(json_get(data, "retry"), "const"), &retry));
		ck_assert_int_eq(retry, reason_retry(reason));
		ck_assert(lists(words, reason_word(reason)));
		reasons++;
	}
	ck_assert_uint_eq(count(words), reasons);
	for (int code = 1; reason_from_code(code) != REASON_NONE; code++)
		ck_assert(lists(words, reason_word(reason_from_code(code))));
}
END_TEST

static size_t
check_refs(const struct cJSON *value)
{
	const struct cJSON *child;
	const char *ref;
	size_t found = 0;

	if (json_string(json_get(value, "$ref"), &ref)) {
		ck_assert_ptr_nonnull(follow(ref));
		found++;
	}
	for (child = json_first(value); child != NULL; child = json_next(child))
		found += check_refs(child);
	return found;
}

START_TEST(the_references_of_the_description_lead_somewhere)
{
	ck_assert_uint_gt(check_refs(doc), 50);
}
END_TEST

START_TEST(the_description_has_results_and_notifications)
{
	static const char *const notes[] = {"lost", "revoked", "evicted", "suspect", "restored",
	    "lease", "waiting", "holders", "row", "gone", "synced", "resync", "broker", "draining"};
	const struct cJSON *method = json_first(json_get(doc, "methods"));

	for (; method != NULL; method = json_next(method)) {
		const struct cJSON *schema = json_get(json_get(method, "result"), "schema");

		ck_assert_str_eq(text_of(schema, "type"), "object");
		ck_assert_uint_gt(count(json_get(method, "errors")), 0);
	}
	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
		const struct cJSON *note = element(json_get(doc, "x-notifications"), notes[i]);

		ck_assert_msg(note != NULL, "%s", notes[i]);
		ck_assert_str_eq(text_of(json_get(note, "params"), "type"), "object");
	}
	ck_assert_uint_eq(
	    count(json_get(doc, "x-notifications")), sizeof(notes) / sizeof(notes[0]));
}
END_TEST

Suite *
openrpc_suite(void)
{
	Suite *suite = suite_create("openrpc");
	TCase *tcase = tcase_create("description");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, the_description_has_the_methods_of_the_table);
	tcase_add_test(tcase, the_description_has_the_params_of_the_table);
	tcase_add_test(tcase, the_description_has_the_defaults_of_the_table);
	tcase_add_test(tcase, the_description_has_the_reasons);
	tcase_add_test(tcase, the_references_of_the_description_lead_somewhere);
	tcase_add_test(tcase, the_description_has_results_and_notifications);
	suite_add_tcase(suite, tcase);
	return suite;
}
