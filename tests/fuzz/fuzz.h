/*
 * A fuzz target: one function, called by libFuzzer or by replay.c.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the process if a property does not hold. what: the text of the failure. */
static inline void
must(bool fine, const char *what)
{
	if (fine)
		return;
	fprintf(stderr, "failed: %s\n", what);
	abort();
}

/*
 * Calls act for each line of a script. whole: text[len] is LF. Else it is a NUL, at the end of the
 * script. act may overwrite it.
 */
static inline void
fuzz_each_line(const uint8_t *data, size_t size, void (*act)(char *text, size_t len, bool whole))
{
	char *script = malloc(size + 1);

	must(script != NULL, "memory");
	if (size > 0)
		memcpy(script, data, size);
	script[size] = '\0';
	for (size_t at = 0, len; at < size; at += len + 1) {
		char *lf = memchr(script + at, '\n', size - at);

		len = lf == NULL ? size - at : (size_t)(lf - script) - at;
		act(script + at, len, lf != NULL);
	}
	free(script);
}

#endif
