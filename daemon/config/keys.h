/*
 * The table of configuration keys: one row a key, from which files and options are read, --help and
 * --print-config are written and the manuals' lists are made. Knows texts and values; where a text
 * came from, and whether values go together, is config.c's business.
 */
#ifndef CONFIG_KEYS_H
#define CONFIG_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/config/config.h"

enum key_kind {
	KEY_STRING,   /* char *: any text, perhaps empty */
	KEY_WORD,     /* char *: one of `words` */
	KEY_LEVEL,    /* enum log_level: index in `words` */
	KEY_INTEGER,  /* int */
	KEY_DURATION, /* int64_t ns */
	KEY_MODE,     /* unsigned: octal */
	KEY_BROKERS   /* memory, brokers, broker_count */
};

struct config_key {
	const char *name; /* in the file; with -- in front, the option */
	enum key_kind kind;
	size_t offset;            /* in struct config */
	const char *fallback;     /* the default, as text */
	const char *arg;          /* what the manual calls the value */
	int64_t min, max;         /* numbers, ns for durations; KEY_STRING: bytes */
	const char *const *words; /* ends with NULL */
	bool reloadable;
	const char *help; /* plain text, one line, whole sentences */
};

/* Bytes of a value's text. */
#define KEY_TEXT_MAX 4000
/* Most hosts in `broker`. */
#define KEY_BROKERS_MAX 16
/* At least as many as there are rows. */
#define KEY_COUNT_MAX 48

/* In the order of the manual; ends with a row without name. */
extern const struct config_key config_keys[];

/* NULL when there is no such key. */
const struct config_key *key_find(const char *name);
size_t key_index(const struct config_key *key);

#define KEY_ERROR_MAX 320
/* Reads a text into config's field, whose old value is freed. False: error says why, nothing changed. */
bool key_parse(const struct config_key *key, const char *text, struct config *config,
    char error[KEY_ERROR_MAX]) __attribute__((warn_unused_result));
/* The text that gives the field's value, passwords as "***"; owned by the caller. */
char *key_format(const struct config_key *key, const struct config *config);
/* What the key takes, for the manual: "0 to 60 seconds", "one of plain, external"; owned. */
char *key_range(const struct config_key *key);

#endif
