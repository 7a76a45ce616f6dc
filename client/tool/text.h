/*
 * Text of other users on its way to a terminal: its width in columns, and its first part that fits.
 * Characters that could confuse a reader or a terminal become question marks. Such are tabs, line
 * ends, escapes, marks of writing direction, and characters that the locale cannot show. Owns
 * nothing. The caller has set the locale.
 */
#ifndef CLIENT_TOOL_TEXT_H
#define CLIENT_TOOL_TEXT_H

#include <limits.h>
#include <stddef.h>

#define TEXT_WHOLE INT_MAX

/* The whole text, cut at a character if it does not fit into `size` bytes. In any locale. */
void text_clean(char *ret, size_t size, const char *text);
/* The width of the whole text in columns. */
int text_columns(const char *text);
/*
 * Copies as many whole characters as fit into `columns` columns and `size` bytes. A cut text ends
 * with a mark. Returns the number of columns.
 */
int text_fit(char *ret, size_t size, const char *text, int columns);

#endif
