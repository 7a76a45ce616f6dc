/*
 * Strict JSON. Only json.c includes cJSON. cJSON 1.7.15 accepts duplicate member names, invalid UTF-8, raw
 * control characters, numbers like 01 and a byte order mark. It ends strings at \u0000, and ignores case when
 * it looks up a member. Here all of these are errors.
 *
 * A value is a struct cJSON, opaque outside json.c. The caller that parsed or made a tree owns it.
 *
 * Out of memory latches: json_add*() to a NULL object does nothing, and adding a NULL value marks the object as
 * incomplete. json_print() returns NULL for both. Thus the caller checks only the last call of a chain.
 */
#ifndef PROTOCOL_JSON_H
#define PROTOCOL_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cJSON;

#define JSON_DEPTH_MAX 16
/* Members of one object. The limit bounds the search for duplicates, which compares all pairs. */
#define JSON_MEMBERS_MAX 256

struct json_error {
	size_t at;        /* byte offset in the text */
	const char *what; /* static */
	bool no_memory;   /* out of memory: the text may be correct */
};

/*
 * Parses one whole text. On failure, also out of memory: NULL and *ret_error. Duplicate member names are
 * refused at every level.
 */
struct cJSON *json_parse(const char *text, size_t len, struct json_error *ret_error)
    __attribute__((warn_unused_result));
void json_free(struct cJSON *value); /* NULL is allowed */

/* Reading. NULL has no type: every test of it is false. Case of names matters. */
bool json_is_object(const struct cJSON *value);
bool json_is_array(const struct cJSON *value);
bool json_is_null(const struct cJSON *value);
const struct cJSON *json_get(const struct cJSON *object, const char *name); /* borrowed, or NULL */
bool json_string(const struct cJSON *value, const char **ret); /* borrowed from value */
bool json_number(const struct cJSON *value, double *ret);
/* A number without a fraction, from -(2^53 - 1) to 2^53 - 1. */
bool json_integer(const struct cJSON *value, int64_t *ret);
bool json_bool(const struct cJSON *value, bool *ret);
/* The members of an object or the elements of an array, in order. NULL at the end. */
const struct cJSON *json_first(const struct cJSON *value);
const struct cJSON *json_next(const struct cJSON *value);
const char *json_name(const struct cJSON *member); /* borrowed */
struct cJSON *json_copy(const struct cJSON *value);
/*
 * Replaces each control character of a text by "?", in place: below U+0020, U+007F, and U+0080 to U+009F. A
 * terminal or a log would act on them.
 */
void json_clean(char *text);
/* A copy of a value. The control characters of a string are replaced. */
struct cJSON *json_copy_clean(const struct cJSON *value);

/* Making. Names of members are not copied: they must live as long as the object, as literals do. */
struct cJSON *json_new_object(void);
struct cJSON *json_new_array(void);
/* A value from JSON text of json_print(). The text is copied. The value can only be added and printed. */
struct cJSON *json_new_text(const char *json);
/* A NULL string becomes null. Invalid UTF-8, which a broker can send, becomes U+FFFD. */
void json_add_string(struct cJSON *object, const char *name, const char *value);
/* Adds ns as seconds, with all digits; a double would round them. */
void json_add_seconds(struct cJSON *object, const char *name, int64_t ns);
void json_add_integer(struct cJSON *object, const char *name, int64_t value);
void json_add_bool(struct cJSON *object, const char *name, bool value);
void json_add_null(struct cJSON *object, const char *name);
/* Takes ownership of value, also on failure. NULL latches: the object can no longer be printed. */
void json_add(struct cJSON *object, const char *name, struct cJSON *value);
/* Moves the members of `from` to the end of object. Takes ownership of `from`. NULL latches. */
void json_add_members(struct cJSON *object, struct cJSON *from);
void json_append(struct cJSON *array, struct cJSON *value);
void json_append_integer(struct cJSON *array, int64_t value);
void json_append_string(struct cJSON *array, const char *value);
/*
 * One line without a line end, and without control characters; the caller frees it. NULL: out of
 * memory, or the value has latched.
 */
char *json_print(const struct cJSON *value) __attribute__((warn_unused_result));

#endif
