/* The help of lockbroker top: every state and key in words, as lines. */
#ifndef CLIENT_TOP_HELP_H
#define CLIENT_TOP_HELP_H

#include <stdbool.h>
#include <stddef.h>

#include "client/row.h"

/* A line; NULL after the last. No longer than 72 columns. Static. */
const char *top_help_line(size_t index);
/* What stands for a state beside its word; one column. Static. */
const char *top_help_icon(enum row_state state, bool utf8);
/* The state that a line explains, so that its icon can stand before it; -1 = none. */
int top_help_state(size_t index);

#endif
