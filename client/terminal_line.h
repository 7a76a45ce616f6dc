/*
 * The one line on stderr that is written over as things change, for who waits at a terminal. It is cut to the
 * terminal's width, asked anew each time. Never blocks: what the terminal does not take is left out. The
 * process has one; who shows it takes it away before anything else is said.
 */
#ifndef CLIENT_TERMINAL_LINE_H
#define CLIENT_TERMINAL_LINE_H

#include <stdbool.h>

/* Whether there is a terminal to show it on. */
bool terminal_line_possible(void);
/* Whether it is ours now: a job in the background writes over nobody's prompt again and again. */
bool terminal_line_foreground(void);
/*
 * What there is to say of a lock, in the place of what was shown before. A long name is cut before the text
 * is, to a third of the line.
 */
void terminal_line_show(const char *name, const char *text);
void terminal_line_erase(void);

#endif
