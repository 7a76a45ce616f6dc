#include "daemon/peer/unread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "daemon/base/mem.h"
#include "daemon/base/queue.h"

/* Lines that are written at once. */
#define LINES_AT_ONCE 64
/* Of the allocator, for each line. */
#define OVERHEAD 16

struct line {
	size_t len;
	TAILQ_ENTRY(line) next;
	char text[];
};

struct unread {
	TAILQ_HEAD(, line) lines; /* owned */
	size_t written;           /* of the first */
	size_t length, size;
	struct line *newest; /* owned; NULL = none */
};

struct unread *
unread_new(void)
{
	struct unread *unread = mem_alloc(sizeof(*unread));

	TAILQ_INIT(&unread->lines);
	return unread;
}

static size_t
size_of(const struct line *line)
{
	return sizeof(*line) + line->len + OVERHEAD;
}

static struct line *
line_new(struct unread *unread, const void *text, size_t len)
{
	struct line *line = mem_alloc(sizeof(*line) + len);

	line->len = len;
	memcpy(line->text, text, len);
	unread->size += size_of(line);
	return line;
}

static void
line_free(struct unread *unread, struct line *line)
{
	if (line == NULL)
		return;
	unread->size -= size_of(line);
	free(line);
}

static void
append(struct unread *unread, struct line *line)
{
	TAILQ_INSERT_TAIL(&unread->lines, line, next);
	unread->length += line->len;
}

/* The newest line is in its place: none replaces it any more. */
static void
place_newest(struct unread *unread)
{
	if (unread->newest == NULL)
		return;
	append(unread, unread->newest);
	unread->newest = NULL;
}

/* The first bytes were written. */
static void
drop(struct unread *unread, size_t written)
{
	struct line *line;

	unread->length -= written;
	unread->written += written;
	while ((line = TAILQ_FIRST(&unread->lines)) != NULL && unread->written >= line->len) {
		unread->written -= line->len;
		TAILQ_REMOVE(&unread->lines, line, next);
		line_free(unread, line);
	}
}

void
unread_free(struct unread *unread)
{
	drop(unread, unread->length);
	line_free(unread, unread->newest);
	free(unread);
}

void
unread_put(struct unread *unread, const char *line)
{
	unread_put_bytes(unread, line, strlen(line));
}

void
unread_put_bytes(struct unread *unread, const void *bytes, size_t len)
{
	place_newest(unread);
	if (len > 0)
		append(unread, line_new(unread, bytes, len));
}

void
unread_put_newest(struct unread *unread, const char *line)
{
	line_free(unread, unread->newest);
	unread->newest = line_new(unread, line, strlen(line));
}

size_t
unread_length(const struct unread *unread)
{
	return unread->length;
}

size_t
unread_size(const struct unread *unread)
{
	return unread->size;
}

char *
unread_copy(const struct unread *unread, size_t *ret_len)
{
	size_t newest = unread->newest == NULL ? 0 : unread->newest->len;
	char *bytes = mem_alloc(unread->length + newest), *at = bytes;
	size_t skip = unread->written;
	const struct line *line;

	TAILQ_FOREACH (line, &unread->lines, next) {
		memcpy(at, line->text + skip, line->len - skip);
		at += line->len - skip;
		skip = 0;
	}
	if (newest > 0)
		memcpy(at, unread->newest->text, newest);
	*ret_len = unread->length + newest;
	return bytes;
}

static ssize_t
write_some(const struct unread *unread, int fd)
{
	struct iovec parts[LINES_AT_ONCE];
	struct line *line;
	int count = 0;

	for (line = TAILQ_FIRST(&unread->lines); line != NULL && count < LINES_AT_ONCE;
	     line = TAILQ_NEXT(line, next))
		parts[count++] = (struct iovec){.iov_base = line->text, .iov_len = line->len};
	parts[0].iov_base = (char *)parts[0].iov_base + unread->written;
	parts[0].iov_len -= unread->written;
	return writev(fd, parts, count);
}

int
unread_write(struct unread *unread, int fd)
{
	ssize_t written;

	for (;;) {
		if (unread->length == 0)
			place_newest(unread);
		if (unread->length == 0)
			return 0;
		written = write_some(unread, fd);
		if (written >= 0)
			drop(unread, (size_t)written);
		else if (errno != EINTR)
			return errno == EAGAIN ? 0 : errno;
	}
}
