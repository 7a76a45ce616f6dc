/*
 * The searches: with the rules, and with one mistake each. It owns the table. It must not know
 * how a search works.
 */
#ifndef TESTS_MODEL_MUTATIONS_H
#define TESTS_MODEL_MUTATIONS_H

#include "tests/model/quorum.h"

struct mutation {
	const char *name;
	/* Takes long: only `make model-large` runs it. */
	bool large;
	struct setup setup;
	/* The property that the search must find violated, or NULL: none. */
	const char *broken;
};

/* The last one has no name. */
extern const struct mutation mutations[];

#endif
