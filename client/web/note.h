/*
 * Shared by all files of lockbroker-web: lines on standard error, and memory. Owns
 * nothing. It knows no HTTP and no daemon.
 */
#ifndef CLIENT_WEB_NOTE_H
#define CLIENT_WEB_NOTE_H

#include <stddef.h>

/* Prints "lockbroker-web: ..." on stderr. Words of others reach it without control characters. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* If memory runs out, the program ends: it holds nothing, and the service manager starts it again. */
void *web_alloc(size_t size); /* zeroed */
/* Returns `text`; NULL: out of memory. For results of functions that return NULL only then. */
void *web_have(void *text);

#endif
