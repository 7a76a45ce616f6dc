#include "protocol/methods.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Decoding: if the value is invalid, each function describes a valid one in *wanted. */

struct wanted {
	char text[160];
};

static bool __attribute__((format(printf, 2, 3)))
want(struct wanted *wanted, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(wanted->text, sizeof(wanted->text), format, args);
	va_end(args);
	return false;
}

static bool
decode_name(const struct cJSON *value, const char **ret, struct wanted *wanted)
{
	const char *name, *error;

	if (!json_string(value, &name))
		return want(wanted, "must be a string");
	error = lockname_error(name, strlen(name));
	if (error != NULL)
		return want(wanted, "is refused: %s", error);
	*ret = name;
	return true;
}

static bool
decode_duration(
    const struct param_spec *spec, const struct cJSON *value, int64_t *ret, struct wanted *wanted)
{
	int most = spec->max != 0 ? spec->max : DURATION_MAX_SECONDS;
	double seconds;

	if (spec->max == 0 && json_is_null(value)) {
		*ret = DURATION_FOREVER;
		return true;
	}
	if (!json_number(value, &seconds) || !(seconds >= 0) || seconds > most)
		return want(wanted, "must be a number of seconds from 0 to %d%s", most,
		    spec->max == 0 ? ", or null (no limit)" : "");
	*ret = duration_from_seconds(seconds);
	return true;
}

static bool
decode_integer(
    const struct param_spec *spec, const struct cJSON *value, int *ret, struct wanted *wanted)
{
	bool slots = spec->type == PARAM_SLOTS;
	const char *word;
	int64_t integer;

	if (slots && json_string(value, &word) && strcmp(word, "unlimited") == 0) {
		*ret = METHODS_UNLIMITED;
		return true;
	}
	if (!json_integer(value, &integer) || integer < spec->min || integer > spec->max)
		return want(wanted, "must be an integer from %d to %d%s", spec->min, spec->max,
		    slots ? ", or \"unlimited\"" : "");
	*ret = (int)integer;
	return true;
}

/* The place of the word in the list. An enum has the same order. */
static bool
decode_word(
    const struct param_spec *spec, const struct cJSON *value, int *ret, struct wanted *wanted)
{
	const char *word = "";
	size_t used;

	json_string(value, &word);
	want(wanted, "must be one of:");
	for (int i = 0; spec->words[i] != NULL; i++) {
		if (spec->type == PARAM_KIND && (spec->kinds & METHODS_KIND_BIT(i)) == 0)
			continue;
		if (strcmp(word, spec->words[i]) == 0) {
			*ret = i;
			return true;
		}
		used = strlen(wanted->text);
		snprintf(
		    wanted->text + used, sizeof(wanted->text) - used, " \"%s\"", spec->words[i]);
	}
	return false;
}

static bool
decode_string(const struct param_spec *spec, const struct cJSON *value, const char **ret,
    struct wanted *wanted)
{
	const char *string;

	if (!json_string(value, &string) || strlen(string) < (size_t)spec->min ||
	    strlen(string) > (size_t)spec->max)
		return want(wanted, "must be a string of %d to %d bytes", spec->min, spec->max);
	*ret = string;
	return true;
}

static bool
decode(const struct param_spec *spec, const struct cJSON *value, struct method_params *params,
    struct wanted *wanted)
{
	void *at = (char *)params + spec->offset;

	switch (spec->type) {
	case PARAM_NAME:
		return decode_name(value, at, wanted);
	case PARAM_DURATION:
		return decode_duration(spec, value, at, wanted);
	case PARAM_INTEGER:
	case PARAM_SLOTS:
		return decode_integer(spec, value, at, wanted);
	case PARAM_KIND:
	case PARAM_WORD:
		return decode_word(spec, value, at, wanted);
	case PARAM_BOOL:
		return json_bool(value, at) || want(wanted, "must be true or false");
	case PARAM_STRING:
		return decode_string(spec, value, at, wanted);
	case PARAM_ID:
		return message_id_read(value, at) ||
		       want(wanted, "must be the id of a request: a string or an integer");
	}
	return want(wanted, "has an unknown type");
}

static bool
refuse(struct message_error *error, const struct method_spec *method, const char *parameter,
    const char *what)
{
	char name[64];

	message_escape(name, sizeof(name), parameter);
	message_error_set(
	    error, REASON_INVALID_PARAMS, "%s: parameter '%s' %s", method->name, name, what);
	message_escape(error->parameter, sizeof(error->parameter), parameter);
	return false;
}

static const struct param_spec *
find_param(const struct method_spec *method, const char *name)
{
	for (const struct param_spec *spec = method->params; spec->name != NULL; spec++)
		if (strcmp(spec->name, name) == 0)
			return spec;
	return NULL;
}

/* All required parameters must be present, and exactly one of the alternatives. */
static bool
check_presence(
    const struct method_spec *method, const struct cJSON *params, struct message_error *ret_error)
{
	const struct param_spec *chosen = NULL, *choice = NULL;
	char what[64];

	for (const struct param_spec *spec = method->params; spec->name != NULL; spec++) {
		bool given = json_get(params, spec->name) != NULL;

		if (spec->required && !given)
			return refuse(ret_error, method, spec->name, "is missing");
		if (!spec->choice)
			continue;
		if (choice == NULL)
			choice = spec;
		if (given && chosen != NULL) {
			snprintf(what, sizeof(what), "must not be given together with '%s'",
			    chosen->name);
			return refuse(ret_error, method, spec->name, what);
		}
		if (given)
			chosen = spec;
	}
	if (choice != NULL && chosen == NULL)
		return refuse(
		    ret_error, method, choice->name, "is missing, or an alternative to it");
	return true;
}

/* The kind restricts the values of other parameters. */
static bool
check_kind(const struct method_spec *method, const struct method_params *params,
    struct message_error *ret_error)
{
	if (params->kind == LOCK_KIND_MUTEX && params->create != 0)
		return refuse(ret_error, method, "create",
		    "must be left out for a mutex, which is not created");
	if (params->kind == LOCK_KIND_PERSISTENT_MUTEX && params->create > 1)
		return refuse(ret_error, method, "create", "must be 1 for a persistent-mutex");
	if (params->kind == LOCK_KIND_PERSISTENT_MUTEX && params->slots != 1)
		return refuse(ret_error, method, "slots", "must be 1 for a persistent-mutex");
	return true;
}

/* Without a repair nothing is changed, and nothing waited for. */
static bool
check_repair(const struct method_spec *method, const struct method_params *params,
    struct message_error *ret_error)
{
	if (params->repair || find_param(method, "repair") == NULL)
		return true;
	if (params->convert != METHOD_CLAIM_ABSENT)
		return refuse(ret_error, method, "convert", "needs 'repair'");
	if (params->takeover_grace != 0)
		return refuse(ret_error, method, "takeover_grace", "needs 'repair'");
	if (params->wait != 0)
		return refuse(ret_error, method, "wait", "needs 'repair'");
	return true;
}

/* `all` is required with `name`, so that no client denies or evicts all by mistake. */
static bool
check_all(const struct method_spec *method, const struct method_params *params,
    struct message_error *ret_error)
{
	const char *one = find_param(method, "holder") != NULL ? "holder" : "waiter";
	char what[80];

	if (params->all == (params->name != NULL) || find_param(method, "all") == NULL)
		return true;
	if (params->all)
		snprintf(what, sizeof(what), "must be left out with '%s'", one);
	else
		snprintf(what, sizeof(what),
		    "must be true with 'name': the request is about all %ss", one);
	return refuse(ret_error, method, "all", what);
}

bool
method_params_parse(const struct method_spec *method, const struct cJSON *params,
    struct method_params *ret, struct message_error *ret_error)
{
	struct method_params decoded = {
	    .kind = LOCK_KIND_SEMAPHORE,
	    .timeout = DURATION_FOREVER,
	    .grace = METHODS_GRACE_DEFAULT * 1000 * DURATION_MILLISECOND,
	    .slots = 1,
	    .claim = METHOD_CLAIM_ABSENT,
	    .convert = METHOD_CLAIM_ABSENT,
	    .id.kind = MESSAGE_ID_NULL,
	};
	const struct param_spec *spec;
	const struct cJSON *member;
	struct wanted wanted;

	for (member = json_first(params); member != NULL; member = json_next(member)) {
		spec = find_param(method, json_name(member));
		if (spec == NULL)
			return refuse(ret_error, method, json_name(member), "is unknown");
		if (!decode(spec, member, &decoded, &wanted))
			return refuse(ret_error, method, spec->name, wanted.text);
	}
	if (!check_presence(method, params, ret_error) ||
	    !check_kind(method, &decoded, ret_error) ||
	    !check_repair(method, &decoded, ret_error) || !check_all(method, &decoded, ret_error))
		return false;
	*ret = decoded;
	return true;
}
