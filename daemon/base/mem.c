#include "daemon/base/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"

/* The log formats on the stack, so it works without memory. */
static _Noreturn void
out_of_memory(size_t size)
{
	log_error("out of memory (%zu bytes requested): ending, which frees every lock", size);
	abort();
}

void *
mem_alloc(size_t size)
{
	void *memory = calloc(1, size > 0 ? size : 1);

	if (memory == NULL)
		out_of_memory(size);
	return memory;
}

void *
mem_grow(void *old, size_t count, size_t size)
{
	void *memory;

	if (size != 0 && count > SIZE_MAX / size)
		out_of_memory(SIZE_MAX);
	/* realloc(p, 0) may free p and return NULL. */
	memory = realloc(old, count * size > 0 ? count * size : 1);
	if (memory == NULL)
		out_of_memory(count * size);
	return memory;
}

char *
mem_strdup(const char *s)
{
	size_t size;

	if (s == NULL)
		return NULL;
	size = strlen(s) + 1;
	return memcpy(mem_alloc(size), s, size);
}

char *
mem_printf(const char *format, ...)
{
	va_list args;
	char *text;
	int len;

	va_start(args, format);
	len = vsnprintf(NULL, 0, format, args);
	va_end(args);
	assert(len >= 0);
	text = mem_alloc((size_t)len + 1);
	va_start(args, format);
	vsnprintf(text, (size_t)len + 1, format, args);
	va_end(args);
	return text;
}
