#include "daemon/config/errors.h"

#include <stdarg.h>
#include <stdio.h>

void
config_errors_add(struct config_errors *errors, const char *format, ...)
{
	va_list ap;

	if (errors->count < CONFIG_ERRORS_MAX) {
		va_start(ap, format);
		vsnprintf(errors->texts[errors->count], CONFIG_ERROR_MAX, format, ap);
		va_end(ap);
	}
	errors->count++;
}

void
config_errors_each(const struct config_errors *errors, void (*say)(const char *text))
{
	char others[64];

	for (size_t i = 0; i < errors->count && i < CONFIG_ERRORS_MAX; i++)
		say(errors->texts[i]);
	if (errors->count <= CONFIG_ERRORS_MAX)
		return;
	snprintf(others, sizeof(others), "further errors: %zu", errors->count - CONFIG_ERRORS_MAX);
	say(others);
}
