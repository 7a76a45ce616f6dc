#include "client/json_params.h"

#include <stdio.h>

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
