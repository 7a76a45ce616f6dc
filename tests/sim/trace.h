/*
 * The notes of a schedule. A note becomes words only when it is printed, because nearly all
 * schedules are never read.
 */
#ifndef TESTS_SIM_TRACE_H
#define TESTS_SIM_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * In `text`, {d} {p} {n} {m} {t} {w} {q} stand for the members, in this order. All strings are
 * static.
 */
struct note {
	const char *text;
	int64_t at;
	int daemon;
	uint64_t peer;
	int64_t n, m;
	int64_t time; /* ns; INT64_MAX: for ever */
	const char *word, *queue;
};

#define TRACE_NOTES 60

struct trace {
	bool aloud; /* every note is printed at once */
	int64_t began;
	struct note notes[TRACE_NOTES];
	uint64_t count;
	uint64_t digest; /* of all notes */
};

void trace_start(struct trace *trace, int64_t now, bool aloud);
void trace_note(struct trace *trace, struct note note);
/* Prints the last notes, unless they were printed already. */
void trace_print(const struct trace *trace, FILE *out);

#endif
