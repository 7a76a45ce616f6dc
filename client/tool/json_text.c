#include "client/tool/json_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lockbroker.h"
#include "protocol/json.h"

/* The longest escape, \u001f. */
#define ESCAPE_MOST 6

/* The text as a string of JSON. The rest of a text that is too long is left out. */
static void
quote(char *ret, size_t size, const char *text)
{
	size_t len = 0;

	ret[len++] = '"';
	for (; *text != '\0' && len + ESCAPE_MOST + 2 <= size; text++) {
		unsigned char byte = (unsigned char)*text;

		if (byte < ' ') {
			len += (size_t)snprintf(ret + len, size - len, "\\u%04x", byte);
			continue;
		}
		if (byte == '"' || byte == '\\')
			ret[len++] = '\\';
		ret[len++] = *text;
	}
	ret[len++] = '"';
	ret[len] = '\0';
}

void
json_params(char ret[JSON_PARAMS_SIZE], const char *member, const char *value, const char *more)
{
	char quoted[JSON_VALUE_MOST * ESCAPE_MOST + 3];

	quote(quoted, sizeof(quoted), value);
	snprintf(ret, JSON_PARAMS_SIZE, "{\"%s\":%s%s}", member, quoted, more);
}

void
json_evict_params(char ret[JSON_PARAMS_SIZE], const char *holder, const char *name,
    int64_t grace_ms, const char *why)
{
	struct cJSON *params = json_new_object();
	char *text;

	json_add_string(params, holder != NULL ? "holder" : "name", holder != NULL ? holder : name);
	if (holder == NULL)
		json_add_bool(params, "all", true);
	if (grace_ms >= 0)
		json_add_seconds(params, "grace", grace_ms * 1000000);
	if (why != NULL)
		json_add_string(params, "why", why);
	text = json_print(params);
	snprintf(ret, JSON_PARAMS_SIZE, "%s", text != NULL ? text : "");
	free(text);
	json_free(params);
}

struct search {
	const struct json_wanted *wanted;
	size_t count;
};

static int
take_wanted(const char *path, const char *value, void *arg)
{
	const struct search *search = arg;

	for (size_t i = 0; i < search->count; i++)
		if (strcmp(path, search->wanted[i].path) == 0)
			snprintf(search->wanted[i].ret, search->wanted[i].size, "%s", value);
	return 0;
}

void
json_values(const char *json, const struct json_wanted *wanted, size_t count)
{
	struct search search = {.wanted = wanted, .count = count};

	for (size_t i = 0; i < count; i++)
		*wanted[i].ret = '\0';
	(void)lb_json_each(json, take_wanted, &search);
}

const char *
json_value(const char *json, const char *path, char *ret, size_t size)
{
	const struct json_wanted wanted = {.path = path, .ret = ret, .size = size};

	json_values(json, &wanted, 1);
	return ret;
}

bool
json_value_is(const char *json, const char *path, const char *value)
{
	char found[41];

	return strcmp(json_value(json, path, found, sizeof(found)), value) == 0;
}
