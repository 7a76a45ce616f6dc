#include "protocol/json.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/duration.h"
#include "protocol/json_scan.h"

/* Largest integer that a double keeps apart from its neighbours. */
#define INTEGER_MAX INT64_C(9007199254740991)
/* Bytes of a text that most fit into, so that it need not grow while it is printed. */
#define PRINTED_MOSTLY 512
/* cJSON prints 15 digits when that is near enough (compare_double()): above this it is off by one. */
#define INTEGER_PRINTED INT64_C(999999999999999)

/*
 * A container that misses something has the type cJSON_Invalid, which print_value() of cJSON refuses
 * wherever it is in a tree. Needs no memory, unlike adding a marker. Its children stay its own.
 */
static void
spoil(struct cJSON *container)
{
	container->type = (container->type & ~0xff) | cJSON_Invalid;
}

/* Depth-first in the order of the text; *keys counts like json_scan_key(). */
static bool
find_duplicate(const struct cJSON *value, size_t *keys)
{
	const struct cJSON *child, *earlier;

	cJSON_ArrayForEach (child, value) {
		if (child->string != NULL) {
			for (earlier = value->child; earlier != child; earlier = earlier->next)
				if (strcmp(earlier->string, child->string) == 0)
					return true;
			(*keys)++;
		}
		if (find_duplicate(child, keys))
			return true;
	}
	return false;
}

/* Makes large integers raw, as new_integer() does, so that they are printed as they were read. */
static bool
keep_large_integers(struct cJSON *value)
{
	double number = value->valuedouble;
	struct cJSON *child;
	char text[24];

	if (cJSON_IsNumber(value) && fabs(number) > (double)INTEGER_PRINTED &&
	    fabs(number) <= (double)INTEGER_MAX && number == trunc(number)) {
		snprintf(text, sizeof(text), "%.0f", number);
		value->valuestring = strdup(text);
		if (value->valuestring == NULL)
			return false;
		value->type = cJSON_Raw;
	}
	cJSON_ArrayForEach (child, value) {
		if (!keep_large_integers(child))
			return false;
	}
	return true;
}

struct cJSON *
json_parse(const char *text, size_t len, struct json_error *ret_error)
{
	struct cJSON *value;
	size_t keys = 0;

	if (!json_scan(text, len, ret_error))
		return NULL;
	value = cJSON_ParseWithLengthOpts(text, len, NULL, false);
	if (value == NULL) {
		*ret_error = (struct json_error){.what = "out of memory", .no_memory = true};
		return NULL;
	}
	if (find_duplicate(value, &keys)) {
		cJSON_Delete(value);
		*ret_error = (struct json_error){
		    .at = json_scan_key(text, len, keys), .what = "duplicate member name"};
		return NULL;
	}
	if (!keep_large_integers(value)) {
		cJSON_Delete(value);
		*ret_error = (struct json_error){.what = "out of memory", .no_memory = true};
		return NULL;
	}
	return value;
}

void
json_free(struct cJSON *value)
{
	cJSON_Delete(value);
}

bool
json_is_object(const struct cJSON *value)
{
	return cJSON_IsObject(value);
}

bool
json_is_array(const struct cJSON *value)
{
	return cJSON_IsArray(value);
}

bool
json_is_null(const struct cJSON *value)
{
	return cJSON_IsNull(value);
}

const struct cJSON *
json_get(const struct cJSON *object, const char *name)
{
	return cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, name) : NULL;
}

bool
json_string(const struct cJSON *value, const char **ret)
{
	if (!cJSON_IsString(value))
		return false;
	*ret = value->valuestring;
	return true;
}

bool
json_number(const struct cJSON *value, double *ret)
{
	/* Raw: see new_raw_number(). */
	if (!cJSON_IsNumber(value) && !cJSON_IsRaw(value))
		return false;
	*ret = value->valuedouble;
	return true;
}

bool
json_integer(const struct cJSON *value, int64_t *ret)
{
	double number;

	if (!json_number(value, &number) || !(number >= -(double)INTEGER_MAX) ||
	    !(number <= (double)INTEGER_MAX) || number != (double)(int64_t)number)
		return false;
	*ret = (int64_t)number;
	return true;
}

bool
json_bool(const struct cJSON *value, bool *ret)
{
	if (!cJSON_IsBool(value))
		return false;
	*ret = cJSON_IsTrue(value);
	return true;
}

const struct cJSON *
json_first(const struct cJSON *value)
{
	return value == NULL ? NULL : value->child;
}

const struct cJSON *
json_next(const struct cJSON *value)
{
	return value->next;
}

const char *
json_name(const struct cJSON *member)
{
	return member->string;
}

struct cJSON *
json_copy(const struct cJSON *value)
{
	return cJSON_Duplicate(value, true);
}

/* The length of the control character at text; 0: it is none. cJSON escapes those below U+0020. */
static size_t
control_length(const char *text)
{
	unsigned char first = (unsigned char)text[0], second = (unsigned char)text[1];

	if ((first != '\0' && first < ' ') || first == 0x7f)
		return 1;
	return first == 0xc2 && second >= 0x80 && second <= 0x9f ? 2 : 0;
}

void
json_clean(char *text)
{
	char *to = text;

	for (size_t len; *text != '\0'; text += len > 0 ? len : 1) {
		len = control_length(text);
		*to++ = len > 0 ? '?' : *text;
	}
	*to = '\0';
}

struct cJSON *
json_copy_clean(const struct cJSON *value)
{
	struct cJSON *copy = json_copy(value);

	if (cJSON_IsString(copy))
		json_clean(copy->valuestring);
	return copy;
}

struct cJSON *
json_new_object(void)
{
	return cJSON_CreateObject();
}

struct cJSON *
json_new_array(void)
{
	return cJSON_CreateArray();
}

struct cJSON *
json_new_text(const char *json)
{
	return cJSON_CreateRaw(json);
}

/* value, with U+FFFD for each byte that is part of no character. */
static struct cJSON *
new_repaired_string(const char *value)
{
	size_t len = strlen(value), out = 0;
	struct cJSON *string;
	char *clean;

	clean = malloc(3 * len + 1);
	if (clean == NULL)
		return NULL;
	for (size_t i = 0; i < len;) {
		size_t n = json_scan_utf8(value + i, len - i);

		memcpy(clean + out, n > 0 ? value + i : "\xef\xbf\xbd", n > 0 ? n : 3);
		out += n > 0 ? n : 3;
		i += n > 0 ? n : 1;
	}
	clean[out] = '\0';
	string = cJSON_CreateString(clean);
	free(clean);
	return string;
}

static struct cJSON *
new_string(const char *value)
{
	size_t len = strlen(value), n = 1;

	for (size_t i = 0; i < len && n > 0; i += n)
		n = json_scan_utf8(value + i, len - i);
	return n > 0 ? cJSON_CreateString(value) : new_repaired_string(value);
}

/*
 * cJSON 1.7.15 prints each number as a double, and reads it back to check whether 15 digits are enough. That is
 * slow, and off by one for large integers.
 */
static struct cJSON *
new_raw_number(const char *text, double value)
{
	struct cJSON *number = cJSON_CreateRaw(text);

	if (number != NULL)
		number->valuedouble = value;
	return number;
}

static struct cJSON *
new_integer(int64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, value);
	return new_raw_number(text, (double)value);
}

static struct cJSON *
new_seconds(int64_t ns)
{
	char text[DURATION_TEXT_SIZE];

	duration_write(text, ns);
	return new_raw_number(text, duration_to_seconds(ns));
}

void
json_add(struct cJSON *object, const char *name, struct cJSON *value)
{
	if (object == NULL) {
		cJSON_Delete(value);
	} else if (!cJSON_AddItemToObjectCS(object, name, value)) {
		cJSON_Delete(value);
		spoil(object);
	}
}

void
json_add_string(struct cJSON *object, const char *name, const char *value)
{
	json_add(object, name, value == NULL ? cJSON_CreateNull() : new_string(value));
}

void
json_add_seconds(struct cJSON *object, const char *name, int64_t ns)
{
	json_add(object, name, new_seconds(ns));
}

void
json_add_integer(struct cJSON *object, const char *name, int64_t value)
{
	assert(value >= -INTEGER_MAX && value <= INTEGER_MAX);
	json_add(object, name, new_integer(value));
}

void
json_add_bool(struct cJSON *object, const char *name, bool value)
{
	json_add(object, name, cJSON_CreateBool(value));
}

void
json_add_null(struct cJSON *object, const char *name)
{
	json_add(object, name, cJSON_CreateNull());
}

void
json_add_members(struct cJSON *object, struct cJSON *from)
{
	if (object != NULL && !cJSON_IsObject(from))
		spoil(object);
	while (from != NULL && from->child != NULL) {
		struct cJSON *member = cJSON_DetachItemViaPointer(from, from->child);

		/* Members are array elements that have a name: this keeps it and needs no memory. */
		json_append(object, member);
	}
	cJSON_Delete(from);
}

void
json_append(struct cJSON *array, struct cJSON *value)
{
	if (array == NULL) {
		cJSON_Delete(value);
	} else if (!cJSON_AddItemToArray(array, value)) {
		cJSON_Delete(value);
		spoil(array);
	}
}

void
json_append_integer(struct cJSON *array, int64_t value)
{
	json_append(array, new_integer(value));
}

void
json_append_string(struct cJSON *array, const char *value)
{
	json_append(array, new_string(value));
}

/* With an escape for each control character that cJSON leaves as it is. Takes ownership of text. */
static char *
escape_controls(char *text, size_t controls)
{
	char *escaped = malloc(strlen(text) + controls * sizeof("\\u0080"));
	char *to = escaped;

	for (const char *from = text; escaped != NULL && *from != '\0';) {
		size_t len = control_length(from);

		if (len > 0)
			to += sprintf(to, "\\u%04x", (unsigned char)from[len - 1]);
		else
			*to++ = *from;
		from += len > 0 ? len : 1;
	}
	free(text);
	if (escaped != NULL)
		*to = '\0';
	return escaped;
}

char *
json_print(const struct cJSON *value)
{
	char *text = cJSON_PrintBuffered(value, PRINTED_MOSTLY, false);
	size_t controls = 0;

	for (const char *at = text; at != NULL && *at != '\0'; at++)
		controls += control_length(at) > 0;
	return controls == 0 ? text : escape_controls(text, controls);
}
