/*
 * Memory that is there or ends the daemon: out of memory is fatal here, because the broker then
 * drops the links and frees every lock, which is the safe way to fail. Nothing returns NULL.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>

void *mem_alloc(size_t size);                         /* zeroed */
void *mem_grow(void *old, size_t count, size_t size); /* realloc of count * size, checked */
char *mem_strdup(const char *s);                      /* NULL stays NULL */
char *mem_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
