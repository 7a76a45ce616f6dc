/*
 * Breadth-first search over all worlds that the rules of quorum.h reach. So a trace is a shortest
 * one. It keeps each world whole, without the bytes that are 0. It must not know the rules.
 */
#ifndef TESTS_MODEL_SEARCH_H
#define TESTS_MODEL_SEARCH_H

#include "tests/model/quorum.h"

struct found {
	/* The property that was violated, or NULL. */
	const char *broken;
	unsigned long worlds, steps, grants, dropped, depth;
	/* A bit for each set + 1. */
	unsigned granted_sets;
	/* The limit was reached before all worlds were visited. */
	bool incomplete;
	/* Bytes that the search took. */
	size_t bytes;
};

/* With tell it prints the trace to a violation, each line as a comment of TAP. */
struct found search(const struct setup *setup, unsigned long worlds_max, bool tell);

#endif
