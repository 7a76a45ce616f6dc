/*
 * JSON as text: the parameters of calls about one name or waiter, and single values. Owns nothing.
 */
#ifndef CLIENT_TOOL_JSON_TEXT_H
#define CLIENT_TOOL_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* A name or an id with each byte escaped, and further members. */
#define JSON_PARAMS_SIZE 512

/* {"MEMBER":"VALUE" and more}. value: at most 200 bytes; the library refuses invalid UTF-8. */
void json_params(
    char ret[JSON_PARAMS_SIZE], const char *member, const char *value, const char *more);
/* A value by its path, as in lb_json_each(), cut to size. "": there is none. */
struct json_wanted {
	const char *path;
	char *ret;
	size_t size;
};

void json_values(const char *json, const struct json_wanted *wanted, size_t count);
/* Reads one value. Returns ret. */
const char *json_value(const char *json, const char *path, char *ret, size_t size);
/* Whether the value at that path is this one. Values longer than 40 bytes never are. */
bool json_value_is(const char *json, const char *path, const char *value);

#endif
