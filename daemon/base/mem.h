/*
 * Allocation that never returns NULL. If memory runs out, the daemon ends. The broker then drops
 * its connections and frees all its locks, which is the safe way to fail.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>

void *mem_alloc(size_t size);                         /* zeroed */
void *mem_grow(void *old, size_t count, size_t size); /* realloc, checked for overflow */
char *mem_strdup(const char *s);                      /* NULL stays NULL */
char *mem_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
