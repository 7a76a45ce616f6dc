/*
 * JSON as text: the parameters of calls about one name or waiter, and single values. Owns nothing.
 */
#ifndef CLIENT_TOOL_JSON_TEXT_H
#define CLIENT_TOOL_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a name or an id, and of a reason for an eviction. The wire takes no more. */
#define JSON_VALUE_MOST 200
#define JSON_WHY_MOST 256
/* A value and a reason, with each byte escaped, and further members. */
#define JSON_PARAMS_SIZE 3072

/* {"MEMBER":"VALUE" and more}. value: at most JSON_VALUE_MOST bytes; the library refuses invalid UTF-8. */
void json_params(
    char ret[JSON_PARAMS_SIZE], const char *member, const char *value, const char *more);
/*
 * The parameters of `evict`: of one holder, or of all holders of a lock. grace_ms below 0, why NULL: not
 * given. why: at most JSON_WHY_MOST bytes; invalid UTF-8 becomes U+FFFD, as in an acquire. Without memory, ret
 * is "", which no call takes.
 */
void json_evict_params(char ret[JSON_PARAMS_SIZE], const char *holder, const char *name,
    int64_t grace_ms, const char *why);
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
