/*
 * The screen of lockbroker top: model, question and what was said, drawn with ncurses as the terminal's size
 * allows. Owns nothing but the way it looks; ncurses is begun and ended by the caller.
 */
#ifndef CLIENT_TOP_DRAW_H
#define CLIENT_TOP_DRAW_H

#include <stdbool.h>
#include <stddef.h>

#include "client/top/ask.h"
#include "client/top/model.h"

struct top_view {
	struct top_model *model;   /* borrowed; scrolled to what is in sight */
	const struct top_ask *ask; /* borrowed */
	const char *trouble;       /* "" = none */
	const char *said;
	bool said_error;
	bool help;        /* instead of all else */
	size_t help_line; /* the topmost */
};

/* After ncurses was begun: colours, if there are any. */
void top_draw_begin(void);
/* How many rows of a panel are in sight at the screen's size, at least 1: what a page is. */
size_t top_draw_page(const struct top_model *model, enum top_panel panel);
/* Whether the screen has room for more than a word that it has none. */
bool top_draw_possible(void);
void top_draw(const struct top_view *view);

#endif
