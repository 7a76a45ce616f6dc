/*
 * What of the screen of lockbroker top is pure: how wide the columns of a table are where there is no room for all
 * of them (who has the least to say goes first, and what is left is shared out), and every state and key in words.
 */
#ifndef CLIENT_TOP_LAYOUT_H
#define CLIENT_TOP_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

#include "client/tool/row.h"

struct top_column {
	const char *title;
	int least;       /* columns of the screen */
	int weight;      /* of what is left over; 0 = least is all it needs */
	int dispensable; /* the higher, the sooner it is left out; 0 = never */
	bool number;     /* to the right */
};

/* Between two columns. */
#define TOP_COLUMNS_GAP 1

/* The width of each; 0 = left out. */
void top_columns_fit(const struct top_column *columns, size_t count, int room, int *ret_widths);

/* A line; NULL after the last. No longer than 72 columns. Static. */
const char *top_help_line(size_t index);
/* What stands for a state beside its word; one column. Static. */
const char *top_help_icon(enum row_state state, bool utf8);
/* The state that a line explains, so that its icon can stand before it; -1 = none. */
int top_help_state(size_t index);

#endif
