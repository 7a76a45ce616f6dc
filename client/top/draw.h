/*
 * The screen of lockbroker top. It draws the model, the question and the last message with ncurses,
 * as far as the terminal's size allows. It owns only the layout. The caller begins and ends
 * ncurses.
 */
#ifndef CLIENT_TOP_DRAW_H
#define CLIENT_TOP_DRAW_H

#include <stdbool.h>
#include <stddef.h>

#include "client/top/ask.h"
#include "client/top/model.h"

struct top_view {
	struct top_model *model;   /* borrowed; scrolled to the visible part */
	const struct top_ask *ask; /* borrowed */
	const char *trouble;       /* "": none */
	const char *said;
	bool said_error;
	bool help;        /* show the help alone */
	size_t help_line; /* the first visible line */
};

/* Sets up the colours, if there are any. Call it after ncurses has begun. */
void top_draw_begin(void);
/* The number of visible rows of a panel, at least 1: the height of a page. */
size_t top_draw_page(const struct top_model *model, enum top_panel panel);
/* Whether the screen is large enough for more than the message that it is too small. */
bool top_draw_possible(void);
void top_draw(const struct top_view *view);

#endif
