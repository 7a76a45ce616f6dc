/*
 * What a watch tells, as lines on stdout: for people, or as the wire had it. Remembers whose rows there are,
 * so that it can say who is gone.
 */
#ifndef CLIENT_ROW_LINES_H
#define CLIENT_ROW_LINES_H

#include <stdbool.h>

struct row_lines;

/* NULL when out of memory. */
struct row_lines *row_lines_new(void);
void row_lines_free(struct row_lines *lines);
/* One notification of a watch: its method and params. */
void row_lines_print(struct row_lines *lines, const char *method, const char *params, bool as_json);

#endif
