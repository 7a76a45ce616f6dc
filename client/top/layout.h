/*
 * The pure parts of the screen of lockbroker top: column widths, and the help. If the screen is too
 * narrow, the most dispensable columns are left out first. The other columns share the room.
 */
#ifndef CLIENT_TOP_LAYOUT_H
#define CLIENT_TOP_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

#include "client/tool/row.h"

struct top_column {
	const char *title;
	int least;       /* minimum width, in columns of the screen */
	int weight;      /* share of the room left over; 0: none */
	int dispensable; /* higher is left out sooner; 0: never */
	bool number;     /* aligned right */
};

/* Room between two columns. */
#define TOP_COLUMNS_GAP 1

/* The width of each column; 0: left out. */
void top_columns_fit(const struct top_column *columns, size_t count, int room, int *ret_widths);

/* A line of the help, at most 72 columns. NULL: after the last. Static. */
const char *top_help_line(size_t index);
/* The icon beside the word of a state; one column. Static. */
const char *top_help_icon(enum row_state state, bool utf8);
/* The state that a line explains, for its icon; -1: none. */
int top_help_state(size_t index);

#endif
