/*
 * The one line on stderr that is written over as things change, for who waits at a terminal. It is cut to the
 * terminal's width, asked anew each time. Never blocks: what the terminal does not take is left out. The
 * process has one; who shows it takes it away before anything else is said.
 */
#ifndef CLIENT_TOOL_TERMINAL_LINE_H
#define CLIENT_TOOL_TERMINAL_LINE_H

#include <stdbool.h>

#include "client/lockbroker.h"

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

/*
 * From here on how the waiting for the holders of removed slots stands is shown while a call blocks, if there
 * is a terminal. Only one handle at a time; name is borrowed until progress_end(), which takes the line away.
 */
void progress_begin(struct lb *lb, const char *name);
void progress_end(struct lb *lb);

#define SLOT_WORDS_SIZE 192
/*
 * Slots as people read them: "slot 4", "slots 2-5, 9 and 7 more", of a member of JSON that is an array of numbers,
 * or of objects with a "slot". `total`: how many there are, if more than it has. False: it has none, "".
 */
bool slot_words(char ret[SLOT_WORDS_SIZE], const char *json, const char *member, int total);

#endif
