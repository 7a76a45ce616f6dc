#include "protocol/line.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The smallest buffer. A reader that holds nothing has none: most peers are idle most of the time. */
#define LINE_FIRST 512

struct line_reader {
	char *data; /* owned */
	size_t cap;
	size_t start;   /* of the first line that was not handed out */
	size_t scanned; /* no LF from start to here */
	size_t len;
	size_t max;
};

struct line_reader *
line_reader_new(size_t max)
{
	struct line_reader *reader = calloc(1, sizeof(*reader));

	assert(max > 0);
	if (reader != NULL)
		reader->max = max;
	return reader;
}

void
line_reader_free(struct line_reader *reader)
{
	if (reader == NULL)
		return;
	free(reader->data);
	free(reader);
}

static void
compact(struct line_reader *reader)
{
	if (reader->start == 0)
		return;
	memmove(reader->data, reader->data + reader->start, reader->len - reader->start);
	reader->len -= reader->start;
	reader->scanned -= reader->start;
	reader->start = 0;
}

static bool
reserve(struct line_reader *reader, size_t more)
{
	size_t cap = reader->cap > 0 ? reader->cap : LINE_FIRST;
	char *data;

	if (more > SIZE_MAX / 2 - reader->len)
		return false;
	while (cap - reader->len < more)
		cap *= 2;
	if (cap == reader->cap)
		return true;
	data = realloc(reader->data, cap);
	if (data == NULL)
		return false;
	reader->data = data;
	reader->cap = cap;
	return true;
}

enum line_status
line_reader_feed(struct line_reader *reader, const void *bytes, size_t len)
{
	if (len == 0)
		return LINE_NONE;
	compact(reader);
	if (!reserve(reader, len))
		return LINE_NO_MEMORY;
	memcpy(reader->data + reader->len, bytes, len);
	reader->len += len;
	return LINE_NONE;
}

/* All lines were handed out, and none is borrowed any more: keeps no more memory than what is left needs. */
static void
shrink(struct line_reader *reader)
{
	size_t cap = LINE_FIRST;
	char *data;

	if (reader->start == 0)
		return;
	compact(reader);
	if (reader->len == 0) {
		free(reader->data);
		reader->data = NULL;
		reader->cap = 0;
		return;
	}
	while (cap < reader->len)
		cap *= 2;
	/* Not realloc(): with a little left at its begin the hole would be too short for the next long line. */
	data = cap < reader->cap ? malloc(cap) : NULL;
	if (data == NULL)
		return;
	memcpy(data, reader->data, reader->len);
	free(reader->data);
	reader->data = data;
	reader->cap = cap;
}

enum line_status
line_reader_next(struct line_reader *reader, const char **ret_line, size_t *ret_len)
{
	while (reader->start < reader->len) {
		char *line = reader->data + reader->start;
		char *end =
		    memchr(reader->data + reader->scanned, '\n', reader->len - reader->scanned);
		size_t len;

		if (end == NULL) {
			reader->scanned = reader->len;
			if (reader->len - reader->start >= reader->max)
				return LINE_TOO_LONG;
			break;
		}
		len = (size_t)(end - line);
		if (len + 1 > reader->max)
			return LINE_TOO_LONG;
		reader->start += len + 1;
		reader->scanned = reader->start;
		if (len > 0 && line[len - 1] == '\r')
			len--;
		if (len == 0)
			continue;
		line[len] = '\0';
		*ret_line = line;
		*ret_len = len;
		return LINE_READY;
	}
	shrink(reader);
	return LINE_NONE;
}

void
line_reader_untake(struct line_reader *reader, const char *line, size_t len)
{
	reader->start = reader->scanned = (size_t)(line - reader->data);
	/* Of a CR LF it is the CR: then an empty line follows, which is skipped. */
	reader->data[reader->start + len] = '\n';
}

const char *
line_reader_left(const struct line_reader *reader, size_t *ret_len)
{
	*ret_len = reader->len - reader->start;
	return *ret_len == 0 ? NULL : reader->data + reader->start;
}

size_t
line_reader_size(const struct line_reader *reader)
{
	return reader->cap;
}
