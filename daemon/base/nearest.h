/*
 * The word that was probably meant, where one that a person wrote is unknown: for `did you mean`. It
 * does not know what the words are for.
 */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

/* Set word and len, and leave the rest 0. */
struct nearest {
	const char *word; /* as it was written, len bytes. Borrowed */
	size_t len;
	const char *found; /* the nearest of the words so far; NULL: none is near. Borrowed */
	int changes;       /* between it and the word */
};

/* Compares with one of the words that exist. Of equally near ones the first counts. */
void nearest_try(struct nearest *nearest, const char *existing);

#endif
