#include "daemon/config/keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/base/nearest.h"
#include "daemon/config/url.h"
#include "protocol/duration.h"
#include "protocol/message.h"

/* The field of a config, by its offset. */
static void *
field(const struct config_key *key, const struct config *config)
{
	return (char *)config + key->offset;
}

static void
set_string(char **at, const char *text)
{
	free(*at);
	*at = mem_strdup(text);
}

/* Finds text that a configuration file would not return unchanged. */
static const char *
check_text(const char *text)
{
	size_t len = strlen(text);

	if (len > KEY_TEXT_MAX)
		return "longer than 4000 bytes";
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return "contains a control character";
	}
	if (len > 0 && (text[0] == ' ' || text[len - 1] == ' '))
		return "begins or ends with a space";
	return NULL;
}

/* Accepts only decimal or octal digits. strtol() would also accept signs and spaces. */
static bool
parse_digits(const char *text, int base, int64_t *ret)
{
	int64_t number = 0;

	if (*text == '\0' || strlen(text) > 12)
		return false;
	for (; *text != '\0'; text++) {
		if (*text < '0' || *text >= '0' + base)
			return false;
		number = number * base + (*text - '0');
	}
	*ret = number;
	return true;
}

static bool
out_of_range(const struct config_key *key, const char *text, char error[KEY_ERROR_MAX])
{
	char *range = key_range(key);
	char shown[64];

	snprintf(error, KEY_ERROR_MAX, "'%s': expected %s",
	    message_escape(shown, sizeof(shown), text), range);
	free(range);
	return false;
}

static bool
parse_brokers(const char *text, struct config *config, char error[KEY_ERROR_MAX])
{
	struct config_broker list[KEY_BROKERS_MAX] = {0};
	size_t count = 0;
	const char *what = NULL;
	struct nearest near = {.word = text, .len = strlen(text)};
	bool memory = strcmp(text, "memory:") == 0;

	nearest_try(&near, "memory:");
	for (const char *url = text; !memory && what == NULL; url++) {
		size_t len = strcspn(url, ",");

		if (count == KEY_BROKERS_MAX)
			what = "more than 16 URLs";
		else if ((what = url_parse(url, len, &list[count])) == NULL)
			count++;
		url += len;
		if (*url == '\0')
			break;
	}
	if (what != NULL) {
		if (near.found != NULL)
			what = "no broker URL; did you mean memory: (with a colon)?";
		snprintf(error, KEY_ERROR_MAX, "URL %zu: %s", count + 1, what);
		for (size_t i = 0; i < count; i++)
			url_done(&list[i]);
		return false;
	}
	for (size_t i = 0; i < config->broker_count; i++)
		url_done(&config->brokers[i]);
	config->memory = memory;
	config->broker_count = count;
	config->brokers = mem_grow(config->brokers, KEY_BROKERS_MAX, sizeof(list[0]));
	memcpy(config->brokers, list, sizeof(list));
	return true;
}

static bool
find_word(const struct config_key *key, const char *text, size_t *ret)
{
	for (size_t i = 0; key->words[i] != NULL; i++) {
		if (strcmp(key->words[i], text) == 0) {
			*ret = i;
			return true;
		}
	}
	return false;
}

static bool
parse_number(const struct config_key *key, const char *text, struct config *config,
    char error[KEY_ERROR_MAX])
{
	int64_t number;

	if (key->kind == KEY_DURATION) {
		if (duration_parse(text, &number) != NULL)
			return out_of_range(key, text, error);
	} else if (!parse_digits(text, key->kind == KEY_MODE ? 8 : 10, &number)) {
		return out_of_range(key, text, error);
	}
	if (number < key->min || number > key->max)
		return out_of_range(key, text, error);
	if (key->kind == KEY_DURATION)
		*(int64_t *)field(key, config) = number;
	else if (key->kind == KEY_MODE)
		*(unsigned *)field(key, config) = (unsigned)number;
	else
		*(int *)field(key, config) = (int)number;
	return true;
}

bool
key_parse(const struct config_key *key, const char *text, struct config *config,
    char error[KEY_ERROR_MAX])
{
	const char *what = check_text(text);
	int64_t len = (int64_t)strlen(text);
	size_t word;

	if (what != NULL) {
		snprintf(error, KEY_ERROR_MAX, "%s", what);
		return false;
	}
	switch (key->kind) {
	case KEY_STRING:
		if (len < key->min || len > key->max)
			return out_of_range(key, text, error);
		set_string(field(key, config), text);
		return true;
	case KEY_WORD:
		if (!find_word(key, text, &word))
			return out_of_range(key, text, error);
		set_string(field(key, config), text);
		return true;
	case KEY_LEVEL:
		if (!find_word(key, text, &word))
			return out_of_range(key, text, error);
		*(enum log_level *)field(key, config) = (enum log_level)word;
		return true;
	case KEY_INTEGER:
	case KEY_DURATION:
	case KEY_MODE:
		return parse_number(key, text, config, error);
	case KEY_BROKERS:
		return parse_brokers(text, config, error);
	}
	return false;
}

static char *
format_brokers(const struct config *config)
{
	char *text = mem_strdup(config->memory ? "memory:" : "");

	for (size_t i = 0; i < config->broker_count; i++) {
		char *url = url_format(&config->brokers[i]);
		char *longer = mem_printf("%s%s%s", text, i == 0 ? "" : ",", url);

		free(text);
		free(url);
		text = longer;
	}
	return text;
}

/* Seconds, with as many decimals as necessary. */
static char *
format_duration(int64_t ns)
{
	char *text = mem_printf("%" PRId64 ".%09" PRId64, ns / 1000000000, ns % 1000000000);
	size_t len = strlen(text);

	while (text[len - 1] == '0')
		len--;
	if (text[len - 1] == '.')
		len--;
	text[len] = '\0';
	return text;
}

char *
key_format(const struct config_key *key, const struct config *config)
{
	switch (key->kind) {
	case KEY_STRING:
	case KEY_WORD:
		return mem_strdup(*(char **)field(key, config));
	case KEY_LEVEL:
		return mem_strdup(key->words[*(enum log_level *)field(key, config)]);
	case KEY_INTEGER:
		return mem_printf("%d", *(int *)field(key, config));
	case KEY_DURATION:
		return format_duration(*(int64_t *)field(key, config));
	case KEY_MODE:
		return mem_printf("%04o", *(unsigned *)field(key, config));
	case KEY_BROKERS:
		return format_brokers(config);
	}
	return mem_strdup("");
}

char *
key_range(const struct config_key *key)
{
	char *text, *longer, *low, *high;

	switch (key->kind) {
	case KEY_STRING:
		return mem_printf(
		    "%s%" PRId64 " bytes", key->min == 0 ? "at most " : "1 to ", key->max);
	case KEY_INTEGER:
		return mem_printf("a number from %" PRId64 " to %" PRId64, key->min, key->max);
	case KEY_MODE:
		return mem_printf("an octal number up to %04" PRIo64, key->max);
	case KEY_DURATION:
		low = format_duration(key->min);
		high = format_duration(key->max);
		text = mem_printf("seconds from %s to %s", low, high);
		free(low);
		free(high);
		return text;
	case KEY_WORD:
	case KEY_LEVEL:
		text = mem_strdup("one of");
		for (size_t i = 0; key->words[i] != NULL; i++) {
			longer = mem_printf("%s%s %s", text, i == 0 ? "" : ",", key->words[i]);
			free(text);
			text = longer;
		}
		return text;
	case KEY_BROKERS:
		return mem_strdup("at most 16 URLs, or memory:");
	}
	return mem_strdup("");
}
