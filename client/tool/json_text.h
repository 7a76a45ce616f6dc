/* JSON as text: the parameters of calls about one name or one waiter, and single values. Owns nothing. */
#ifndef CLIENT_TOOL_JSON_TEXT_H
#define CLIENT_TOOL_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* A name or an id, each byte escaped, and what goes with it. */
#define JSON_PARAMS_SIZE 512

/* {"MEMBER":"VALUE" and more}; value: at most 200 bytes. What is no UTF-8 in it the library refuses. */
void json_params(
    char ret[JSON_PARAMS_SIZE], const char *member, const char *value, const char *more);
/* A value by its path as lb_json_each() has it, cut to size; "" = there is none. */
struct json_wanted {
	const char *path;
	char *ret;
	size_t size;
};

void json_values(const char *json, const struct json_wanted *wanted, size_t count);
/* One of them. Returns ret. */
const char *json_value(const char *json, const char *path, char *ret, size_t size);
/* Whether that is the value there; what is longer than 40 bytes is not. */
bool json_value_is(const char *json, const char *path, const char *value);

#endif
