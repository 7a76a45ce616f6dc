#include "daemon/config/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ini.h>

#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "protocol/message.h"

/* inih skips it in front of the first line. */
#define BYTE_ORDER_MARK "\xef\xbb\xbf"

struct reading {
	const char *path;
	const char *at, *end; /* the rest that inih has not read */
	int line;             /* the line that it read last, from 1 */
	bool wants_key;       /* inih has not found a key in that line yet */
	bool skips;           /* the section is unknown, and so are its keys */
	file_handler *handler;
	void *ctx;
	struct config_errors *errors;
};

static void
reading_fail(struct reading *r, const char *what)
{
	config_errors_add(r->errors, "%s:%d: %s", r->path, r->line, what);
}

/* inih tells only the first line that it cannot parse. */
static void
end_line(struct reading *r)
{
	if (r->wants_key)
		reading_fail(r, "expected `key = value`, [section] or a comment");
	r->wants_key = false;
}

/*
 * Reads the whole file into memory before the parsing. A file without an end (a device, an open
 * pipe) or one that grows meanwhile is refused here.
 */
static char *
slurp(const char *path, bool may_be_missing, size_t *ret_len, const char **ret_what)
{
	struct stat st;
	ssize_t n;
	size_t len = 0;
	char *buf;
	/* O_NONBLOCK: open(2) of a FIFO would wait for a writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	*ret_len = 0;
	*ret_what = NULL;
	if (fd < 0) {
		if (errno == ENOENT && may_be_missing)
			return mem_strdup("");
		*ret_what = strerror(errno);
		return NULL;
	}
	buf = mem_alloc(FILE_SIZE_MAX + 1);
	if (fstat(fd, &st) != 0)
		*ret_what = strerror(errno);
	else if (!S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode))
		*ret_what = "not a file";
	while (*ret_what == NULL) {
		n = read(fd, buf + len, FILE_SIZE_MAX + 1 - len);
		if (n == 0)
			break;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			*ret_what = strerror(errno);
		else if ((len += (size_t)n) > FILE_SIZE_MAX)
			*ret_what = "larger than 1 MiB";
	}
	close(fd);
	if (*ret_what != NULL) {
		explicit_bzero(buf, FILE_SIZE_MAX + 1);
		free(buf);
		return NULL;
	}
	*ret_len = len;
	return buf;
}

/*
 * Checks a section header. inih reports one only if keys follow, and ignores the rest of its line.
 */
static void
check_section(struct reading *r, const char *line, size_t len)
{
	char quoted[LOG_QUOTE_MAX], what[LOG_QUOTE_MAX + 64];

	while (len > 0 && strchr(" \t\r\n", line[len - 1]) != NULL)
		len--;
	r->skips = len != strlen("[access]") || memcmp(line, "[access]", len) != 0;
	if (!r->skips)
		return;
	snprintf(what, sizeof(what), "%s: unknown section; the only one is [access]",
	    log_quote(quoted, line, len));
	reading_fail(r, what);
}

/* Whether inih is to read the line. */
static bool
check_line(struct reading *r, const char *line, size_t len, size_t most)
{
	const char *text = line, *end = line + len;

	/* inih would read the rest of a long line as the next line. */
	if (len > most) {
		reading_fail(r, "the line is too long");
		return false;
	}
	if (memchr(line, '\0', len) != NULL) {
		reading_fail(r, "the line contains a NUL byte");
		return false;
	}
	if (r->line == 1 && len >= 3 && memcmp(line, BYTE_ORDER_MARK, 3) == 0)
		text += 3;
	while (text < end && strchr(" \t\v\f\r\n", *text) != NULL)
		text++;
	if (text < end && *text == '[')
		check_section(r, text, (size_t)(end - text));
	else
		r->wants_key = !r->skips && text < end && strchr("#;", *text) == NULL;
	return !r->skips;
}

/* Gives lines to inih, as fgets() does, and counts them. */
static char *
next_line(char *str, int num, void *stream)
{
	struct reading *r = stream;
	const char *newline, *line = r->at;
	size_t len;

	end_line(r);
	/* The last line may contain a password, and inih only frees its buffer. */
	explicit_bzero(str, (size_t)num);
	if (r->at == r->end)
		return NULL;
	newline = memchr(r->at, '\n', (size_t)(r->end - r->at));
	len = newline == NULL ? (size_t)(r->end - r->at) : (size_t)(newline - r->at) + 1;
	r->line++;
	r->at += len;
	if (check_line(r, line, len, (size_t)num - 1))
		memcpy(str, line, len);
	else
		strcpy(str, "\n");
	return str;
}

static int
take_value(void *user, const char *section, const char *key, const char *value)
{
	struct reading *r = user;
	char error[320] = "", what[384], shown[48];

	r->wants_key = false;
	if (r->handler(r->ctx, section, key, value, r->line, error, sizeof(error)))
		return 1;
	snprintf(what, sizeof(what), "%s: %s", message_escape(shown, sizeof(shown), key), error);
	reading_fail(r, what);
	return 0;
}

bool
file_read(const char *path, bool may_be_missing, file_handler *handler, void *ctx,
    struct config_errors *errors)
{
	struct reading r = {.path = path, .handler = handler, .ctx = ctx, .errors = errors};
	size_t len, before = errors->count;
	const char *what;
	char *text = slurp(path, may_be_missing, &len, &what);
	int bad;

	if (text == NULL) {
		config_errors_add(errors, "%s: %s", path, what);
		return false;
	}
	r.at = text;
	r.end = text + len;
	/*
	 * Debian's inih has settings at run time. By default it cuts lines at 200 bytes and values
	 * at " ;". It also takes an indented line for a continuation of the one above.
	 */
	ini_use_stack = false;
	ini_max_line = FILE_LINE_MAX;
	ini_initial_alloc = FILE_LINE_MAX;
	ini_allow_realloc = false;
	ini_allow_multiline = false;
	ini_allow_inline_comments = false;
	bad = ini_parse_stream(next_line, &r, take_value, &r);
	explicit_bzero(text, len);
	free(text);
	if (bad != 0 && errors->count == before)
		config_errors_add(errors, "%s:%d: %s", path, bad < 0 ? 0 : bad,
		    bad < 0 ? "out of memory" : "cannot be parsed");
	return true;
}
