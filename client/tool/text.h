/*
 * Text from the daemon, which others wrote, on its way to a terminal: how many columns it takes, and no more
 * of it than fits. What could confuse a reader or a terminal (tabs, line ends, escapes, marks that turn the
 * direction of writing, what the locale cannot show) becomes a question mark. Owns nothing; needs the locale.
 */
#ifndef CLIENT_TOOL_TEXT_H
#define CLIENT_TOOL_TEXT_H

#include <limits.h>
#include <stddef.h>

#define TEXT_WHOLE INT_MAX

/* Columns of the whole text. */
int text_columns(const char *text);
/*
 * Copies as much as `columns` columns and `size` bytes take, by whole characters; what was cut ends in a mark
 * that says so. Returns the columns taken.
 */
int text_fit(char *ret, size_t size, const char *text, int columns);

#endif
