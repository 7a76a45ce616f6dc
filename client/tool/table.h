/*
 * Arrays of objects in a result, as rows of text: on a terminal aligned below a line of titles; otherwise
 * one line each with tabs between the cells and nothing else, for cut(1). What could confuse a reader or a
 * terminal (tabs, line ends, escapes) becomes a question mark.
 */
#ifndef CLIENT_TOOL_TABLE_H
#define CLIENT_TOOL_TABLE_H

#include <stdbool.h>
#include <stddef.h>

struct table_column {
	const char *title;
	const char *member; /* of each object; "" there = null */
	bool number;        /* to the right */
	/* No column of its own: what it shows, unless that is "", stands in the column before. */
	bool over;
	/* What stands for a value (static, or the value itself); NULL = each stands for itself. */
	const char *(*show)(const char *value);
};

/*
 * Prints what is in the arrays of those names (NULL after the last), one after another; returns the number of
 * rows. False: out of memory, and nothing is printed.
 */
bool table_print(const char *json, const char *const *arrays, const struct table_column *columns,
    size_t count, size_t *ret_rows);

#endif
