/*
 * The daemon's log: one line for each event, to stderr. If stderr is the journal, the line has its
 * priority prefix. The log never blocks the loop. A line that stderr does not take at once is
 * counted and dropped, and the count is logged later. There is one log in a process.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stddef.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_set_level(enum log_level level);
/* Lines go to sink instead of stderr, without newline and prefix; for tests. NULL: stderr again. */
void log_set_sink(void (*sink)(void *ctx, enum log_level level, const char *line), void *ctx);

void log_at(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define log_error(...) log_at(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_at(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)

#define LOG_QUOTE_MAX 256
/*
 * Makes bytes from a client or the broker fit for a log line. Control characters, quotes,
 * backslashes and bytes that are not ASCII become \xNN. A text that is too long ends with "...".
 * Returns buf.
 */
const char *log_quote(char buf[LOG_QUOTE_MAX], const char *bytes, size_t len);

#endif
