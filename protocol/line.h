/*
 * Framing: bytes in, lines out. A line ends in LF; CR before it is allowed, and empty lines are skipped. The
 * daemon and the client use it. It keeps at most one unfinished line of `max` bytes.
 *
 *	  data:  [ taken | complete lines ... | unfinished ]
 *	         0       start                scanned       len
 */
#ifndef PROTOCOL_LINE_H
#define PROTOCOL_LINE_H

#include <stddef.h>

/* Maximum bytes of a line to the daemon, LF included (limits.line of `info`). */
#define LINE_MAX_IN (64 * 1024)
/* Maximum bytes of a line from the daemon: answers with lists are longer than requests. */
#define LINE_MAX_OUT (4 * 1024 * 1024)

struct line_reader;

enum line_status {
	LINE_NONE,     /* no complete line: feed more bytes */
	LINE_READY,    /* one line */
	LINE_TOO_LONG, /* more than max bytes without LF: the stream cannot continue */
	LINE_NO_MEMORY
};

/* NULL: out of memory. */
struct line_reader *line_reader_new(size_t max);
void line_reader_free(struct line_reader *reader);
/* Copies len bytes. Returns LINE_NONE, or LINE_NO_MEMORY and has copied none. */
enum line_status line_reader_feed(struct line_reader *reader, const void *bytes, size_t len)
    __attribute__((warn_unused_result));
/*
 * Takes the next line, without its end. Borrowed until the next feed or next. A NUL follows it, and it can
 * contain NULs.
 */
enum line_status line_reader_next(struct line_reader *reader, const char **ret_line,
    size_t *ret_len) __attribute__((warn_unused_result));
/* Gives back the line of the last line_reader_next(), still borrowed: the next call returns it again. */
void line_reader_untake(struct line_reader *reader, const char *line, size_t len);
/* The bytes that were fed and not taken. Borrowed until the next call. */
const char *line_reader_left(const struct line_reader *reader, size_t *ret_len);
/* Bytes of memory in use: at most about twice the bytes that were fed and not taken. */
size_t line_reader_size(const struct line_reader *reader);

#endif
