/*
 * Reads the command line: the file, the task, and the texts of keys. It does not check those texts.
 */
#ifndef CONFIG_OPTIONS_H
#define CONFIG_OPTIONS_H

#include <stdbool.h>

#include "daemon/config/config.h"
#include "daemon/config/keys.h"

struct options {
	enum config_action action;
	const char *path;           /* --config; NULL = not given. Borrowed from argv */
	char *texts[KEY_COUNT_MAX]; /* by key_index(); NULL = not given. Borrowed from argv */
};

/* False, and adds errors: the arguments are wrong. It uses the globals of getopt_long(). */
bool options_parse(int argc, char *argv[], struct options *ret, struct config_errors *errors)
    __attribute__((warn_unused_result));

#endif
