/*
 * How wide the columns of a table are on a screen that may be too narrow for all of them: who has the least to
 * say goes first, and what is left is shared out. Pure.
 */
#ifndef CLIENT_TOP_COLUMNS_H
#define CLIENT_TOP_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
