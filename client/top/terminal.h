/*
 * The terminal of lockbroker top: into ncurses' hands and back, and its size. The process has one.
 */
#ifndef CLIENT_TOP_TERMINAL_H
#define CLIENT_TOP_TERMINAL_H

#include <stdbool.h>

/* False: it cannot move its cursor, or nobody knows how; nothing has changed then. */
bool top_terminal_begin(void);
void top_terminal_end(void);
/* Back to how it was, for a while: the next drawing takes it again. */
void top_terminal_leave(void);
/* The next drawing draws all: somebody else wrote on it. */
void top_terminal_redraw(void);
/* It may have got another size; who reads keys is told (KEY_RESIZE). */
void top_terminal_follow_size(void);

#endif
