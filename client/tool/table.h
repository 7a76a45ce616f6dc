/*
 * Arrays of objects in a result, as rows of text below a line of titles. On a terminal the columns
 * are aligned. Otherwise there are tabs between the cells, for cut(1). Tabs, line ends and escapes
 * inside a value become question marks, because they could confuse a reader or a terminal.
 */
#ifndef CLIENT_TOOL_TABLE_H
#define CLIENT_TOOL_TABLE_H

#include <stdbool.h>
#include <stddef.h>

struct table_column {
	const char *title;
	const char *member; /* of each object; "" in it: null */
	bool number;        /* aligned right */
	/* Not a column of its own: its value, unless "", replaces that of the column before. */
	bool over;
	bool behind; /* the same, but it is added to that of the column before */
	/* Turns a value into text (static, or the value itself). NULL: the value itself. */
	const char *(*show)(const char *value);
};

/*
 * Prints the arrays of those names (the last is NULL), one after another. headers false: without
 * the titles. *ret is the number of rows. False: out of memory, and nothing is printed.
 */
bool table_print(const char *json, const char *const *arrays, const struct table_column *columns,
    size_t count, bool headers, size_t *ret_rows);

#endif
