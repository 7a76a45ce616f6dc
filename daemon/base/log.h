/*
 * The daemon's log: one line an event to stderr, with journald's priority prefix when stderr is the
 * journal. Never blocks the loop: a line that stderr will not take at once is counted and dropped, and
 * the count is logged when there is room again. One per process; tests hook the sink.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stddef.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_set_level(enum log_level level);
/* NULL gives stderr back. The line has no newline and no prefix. */
void log_set_sink(void (*sink)(void *ctx, enum log_level level, const char *line), void *ctx);

void log_at(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define log_error(...) log_at(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_at(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)

#define LOG_QUOTE_MAX 256
/*
 * Bytes that came from a peer or the broker, fit for a log line: control characters, quotes,
 * backslashes and what is not ASCII as \xNN, cut at the buffer with "...". Returns buf.
 */
const char *log_quote(char buf[LOG_QUOTE_MAX], const char *bytes, size_t len);

#endif
