/*
 * The errors of a configuration: the first of them as texts, and how many there are. It does not know
 * where they come from.
 */
#ifndef CONFIG_ERRORS_H
#define CONFIG_ERRORS_H

#include <stddef.h>

/* Maximum number of errors that are kept; further ones are only counted. */
#define CONFIG_ERRORS_MAX 20
#define CONFIG_ERROR_MAX 512

/* "FILE:LINE: KEY: what", "--KEY: what", or "KEY (default): what". */
struct config_errors {
	size_t count;
	char texts[CONFIG_ERRORS_MAX][CONFIG_ERROR_MAX];
};

void config_errors_add(struct config_errors *errors, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Calls `say` for each text that is kept, and with the number of the others if there are any. */
void config_errors_each(const struct config_errors *errors, void (*say)(const char *text));

#endif
