/*
 * Framing: bytes in, lines out. One JSON object a line, LF at the end, CR before it tolerated, empty
 * lines skipped. Used by both ends; holds at most one unfinished line of `max` bytes.
 *
 *	  data:  [ taken | complete lines ... | unfinished ]
 *	         0       start                scanned       len
 */
#ifndef PROTOCOL_LINE_H
#define PROTOCOL_LINE_H

#include <stddef.h>

/* What a peer may send in one line, LF included; `info` announces it. */
#define LINE_MAX_IN (64 * 1024)
/* What the daemon may send in one line: answers that list things are longer than requests. */
#define LINE_MAX_OUT (4 * 1024 * 1024)

struct line_reader;

enum line_status {
	LINE_NONE,     /* no whole line yet: feed more */
	LINE_READY,    /* one line */
	LINE_TOO_LONG, /* more than max bytes without LF: the stream cannot go on */
	LINE_NO_MEMORY
};

/* NULL when out of memory. */
struct line_reader *line_reader_new(size_t max);
void line_reader_free(struct line_reader *reader);
/* Copies len bytes in. Returns LINE_NONE, or LINE_NO_MEMORY with nothing taken. */
enum line_status line_reader_feed(struct line_reader *reader, const void *bytes, size_t len)
    __attribute__((warn_unused_result));
/*
 * The next line without its end, borrowed until the next feed or next. Followed by a NUL byte;
 * may hold NULs itself.
 */
enum line_status line_reader_next(struct line_reader *reader, const char **ret_line,
    size_t *ret_len) __attribute__((warn_unused_result));
/* The line that was handed out last, still borrowed, will be handed out again. */
void line_reader_untake(struct line_reader *reader, const char *line, size_t len);
/* Bytes of memory that it keeps: at most about twice what was fed and not handed out. */
size_t line_reader_size(const struct line_reader *reader);

#endif
