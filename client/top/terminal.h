/*
 * The terminal of lockbroker top: gives it to ncurses and takes it back, and follows its size. The
 * process has one.
 */
#ifndef CLIENT_TOP_TERMINAL_H
#define CLIENT_TOP_TERMINAL_H

#include <stdbool.h>

/* False: the terminal cannot move its cursor, or its type is unknown. Then nothing has changed. */
bool top_terminal_begin(void);
void top_terminal_end(void);
/* Restores the terminal for a while. The next drawing takes it again. */
void top_terminal_leave(void);
/* The next drawing redraws everything, because another process wrote on the terminal. */
void top_terminal_redraw(void);
/* Reads the terminal's size. If it changed, the reader of keys gets KEY_RESIZE. */
void top_terminal_follow_size(void);

#endif
