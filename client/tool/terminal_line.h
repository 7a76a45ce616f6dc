/*
 * The line on stderr that is overwritten while a user at a terminal waits. It is cut to the
 * terminal's width, which is read each time. It never blocks: output that the terminal does not
 * take is dropped. The process has one such line. Its user removes it before any other output.
 */
#ifndef CLIENT_TOOL_TERMINAL_LINE_H
#define CLIENT_TOOL_TERMINAL_LINE_H

#include <stdbool.h>

#include "client/lockbroker.h"

/* Whether there is a terminal for it. */
bool terminal_line_possible(void);
/*
 * Whether the command is in the foreground. A background job must not overwrite the shell's prompt.
 */
bool terminal_line_foreground(void);
/*
 * Shows the text about a lock instead of the last one. A long name is cut first, to a third of the
 * line.
 */
void terminal_line_show(const char *name, const char *text);
void terminal_line_erase(void);

/*
 * Shows the wait for the holders of removed slots while a call blocks, if there is a terminal. For
 * one handle at a time. name is borrowed until progress_end(), which removes the line.
 */
void progress_begin(struct lb *lb, const char *name);
void progress_end(struct lb *lb);

#define SLOT_WORDS_SIZE 192
/*
 * Slots in words: "slot 4", "slots 2-5, 9 and 7 more". The member of JSON is an array of numbers,
 * or of objects with "slot". `total`: the whole number, if the array was cut. False: there are
 * none; ret is "".
 */
bool slot_words(char ret[SLOT_WORDS_SIZE], const char *json, const char *member, int total);

#endif
