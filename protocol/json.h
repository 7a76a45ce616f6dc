/*
 * Strict JSON: the only file of the project that includes cJSON is json.c. cJSON 1.7.15 accepts
 * duplicate keys, invalid UTF-8, raw control characters, numbers like 01, a byte order mark, cuts
 * strings at \u0000 and looks members up without regard to case; here all of that is an error.
 *
 * A value is a struct cJSON, opaque outside json.c. Trees are owned by whoever parsed or made them.
 * Makers that run out of memory latch: every json_add to a NULL object is a no-op, a value that could
 * not be made spoils what it was to be added to, and json_print of NULL or of anything spoilt is NULL,
 * so that only the end of a chain needs a look.
 */
#ifndef PROTOCOL_JSON_H
#define PROTOCOL_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cJSON;

#define JSON_DEPTH_MAX 16
/* Members of one object: looking for duplicates compares each with each. */
#define JSON_MEMBERS_MAX 256

struct json_error {
	size_t at;        /* byte offset in the text */
	const char *what; /* static */
	bool no_memory;   /* the text may be fine */
};

/*
 * Parses one whole text. NULL and *ret_error on failure (out of memory included). Duplicate
 * keys are refused at every level.
 */
struct cJSON *json_parse(const char *text, size_t len, struct json_error *ret_error)
    __attribute__((warn_unused_result));
void json_free(struct cJSON *value); /* NULL is fine */

/* Looking: NULL values are never of any type. Names match with case. */
bool json_is_object(const struct cJSON *value);
bool json_is_array(const struct cJSON *value);
bool json_is_null(const struct cJSON *value);
const struct cJSON *json_get(const struct cJSON *object, const char *name); /* borrowed, or NULL */
bool json_string(const struct cJSON *value, const char **ret); /* borrowed from value */
bool json_number(const struct cJSON *value, double *ret);
/* A number without fraction, at most 2^53 - 1 either way. */
bool json_integer(const struct cJSON *value, int64_t *ret);
bool json_bool(const struct cJSON *value, bool *ret);
/* Members of an object or elements of an array, in order: first, then next; NULL at the end. */
const struct cJSON *json_first(const struct cJSON *value);
const struct cJSON *json_next(const struct cJSON *value);
const char *json_name(const struct cJSON *member); /* borrowed */
struct cJSON *json_copy(const struct cJSON *value);

/* Making. A member's name is not copied: it stays as long as the object does, as a literal does. */
struct cJSON *json_new_object(void);
struct cJSON *json_new_array(void);
/* A value that is JSON text already, as json_print() makes it; copied. It can be added and printed, no more. */
struct cJSON *json_new_text(const char *json);
/* NULL: null. Bytes that are not UTF-8 (a broker's words may be anything) become U+FFFD. */
void json_add_string(struct cJSON *object, const char *name, const char *value);
/* A duration or a time in ns, as seconds: exact, which is more than a double's digits would be. */
void json_add_seconds(struct cJSON *object, const char *name, int64_t ns);
void json_add_integer(struct cJSON *object, const char *name, int64_t value);
void json_add_bool(struct cJSON *object, const char *name, bool value);
void json_add_null(struct cJSON *object, const char *name);
/* Takes value, whatever happens; a NULL value latches: the object cannot be printed any more. */
void json_add(struct cJSON *object, const char *name, struct cJSON *value);
/* Moves the members of `from` to the end of object; takes from, a NULL one latches. */
void json_add_members(struct cJSON *object, struct cJSON *from);
void json_append(struct cJSON *array, struct cJSON *value);
void json_append_integer(struct cJSON *array, int64_t value);
void json_append_string(struct cJSON *array, const char *value);
/* On one line, without line end; malloc'ed, the caller frees. NULL when out of memory. */
char *json_print(const struct cJSON *value) __attribute__((warn_unused_result));

#endif
