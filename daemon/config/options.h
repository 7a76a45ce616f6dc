/*
 * The command line: which file, what to do, and the texts given for keys. Reads, does not judge.
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

/* False and *ret_error when the arguments are wrong. Uses getopt_long's globals. */
bool options_parse(int argc, char *argv[], struct options *ret, struct config_error *ret_error)
    __attribute__((warn_unused_result));

#endif
