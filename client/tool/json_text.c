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

struct wanted {
	const char *path;
	char *ret;
	size_t size;
};

static int
take_wanted(const char *path, const char *value, void *arg)
{
	const struct wanted *wanted = arg;

	if (strcmp(path, wanted->path) == 0)
		snprintf(wanted->ret, wanted->size, "%s", value);
	return 0;
}

const char *
json_value(const char *json, const char *path, char *ret, size_t size)
{
	struct wanted wanted = {.path = path, .ret = ret, .size = size};

	*ret = '\0';
	(void)lb_json_each(json, take_wanted, &wanted);
	return ret;
}

bool
json_value_is(const char *json, const char *path, const char *value)
{
	char found[41];

	return strcmp(json_value(json, path, found, sizeof(found)), value) == 0;
}
