#include "client/web/note.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/exit_status.h"
#include "client/tool/text.h"

/* Bytes of a line. */
#define LINE_SIZE 2048

void
note(const char *format, ...)
{
	char text[LINE_SIZE], line[LINE_SIZE];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	text_clean(line, sizeof(line), text);
	fprintf(stderr, "lockbroker-web: %s\n", line);
}

void *
web_have(void *text)
{
	if (text == NULL) {
		fputs("lockbroker-web: out of memory\n", stderr);
		exit(EXIT_STATUS_INTERNAL);
	}
	return text;
}

void *
web_alloc(size_t size)
{
	return web_have(calloc(1, size));
}
