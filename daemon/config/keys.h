/*
 * The table of configuration keys, one row for each. Files and options are read by this table.
 * --help, --print-config and the lists of the manual are made from it. It converts texts to values
 * and back. It does not know the source of a text, nor whether values go together: config.c does.
 */
#ifndef CONFIG_KEYS_H
#define CONFIG_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/config/config.h"

enum key_kind {
	KEY_STRING,   /* char *: any text, also empty */
	KEY_WORD,     /* char *: one of `words` */
	KEY_LEVEL,    /* enum log_level: index in `words` */
	KEY_INTEGER,  /* int */
	KEY_DURATION, /* int64_t ns */
	KEY_MODE,     /* unsigned: octal */
	KEY_BROKERS   /* memory, brokers, broker_count */
};

struct config_key {
	const char *name; /* in the file; as an option with -- in front */
	enum key_kind kind;
	size_t offset;            /* in struct config */
	const char *fallback;     /* the default, as text */
	const char *arg;          /* name of the value in the manual */
	int64_t min, max;         /* of a number; ns for durations; bytes for KEY_STRING */
	const char *const *words; /* ends with NULL */
	bool reloadable;
	const char *help; /* plain text on one line, whole sentences */
};

/* Maximum bytes of a value's text. */
#define KEY_TEXT_MAX 4000
/* Maximum number of hosts in `broker`. */
#define KEY_BROKERS_MAX 16
/* At least the number of rows. */
#define KEY_COUNT_MAX 48

/* In the order of the manual. The last row has no name. */
extern const struct config_key config_keys[];

/* NULL: there is no such key. */
const struct config_key *key_find(const char *name);
size_t key_index(const struct config_key *key);

#define KEY_ERROR_MAX 320
/*
 * Reads a text into the field of config, and frees its old value. False: error says why, and
 * nothing changed.
 */
bool key_parse(const struct config_key *key, const char *text, struct config *config,
    char error[KEY_ERROR_MAX]) __attribute__((warn_unused_result));
/* The text of the field's value, with passwords as "***". The caller owns it. */
char *key_format(const struct config_key *key, const struct config *config);
/*
 * The valid values of a key, for the manual: "0 to 60 seconds", "one of plain, external". The
 * caller owns it.
 */
char *key_range(const struct config_key *key);

#endif
