#include "client/tool/json_text.h"

#include <stdio.h>
#include <string.h>

#include "client/lockbroker.h"

void
json_params(char ret[JSON_PARAMS_SIZE], const char *member, const char *value, const char *more)
{
	size_t len = (size_t)snprintf(ret, JSON_PARAMS_SIZE, "{\"%s\":\"", member);

	for (; *value != '\0' && len + 2 < JSON_PARAMS_SIZE; value++) {
		if (*value == '"' || *value == '\\')
			ret[len++] = '\\';
		ret[len++] = *value;
	}
	snprintf(ret + len, JSON_PARAMS_SIZE - len, "\"%s}", more);
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
