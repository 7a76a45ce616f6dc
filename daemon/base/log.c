#include "daemon/base/log.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* write(2) of up to PIPE_BUF bytes to a pipe writes all bytes or none (pipe(7)). */
#define LINE_SIZE PIPE_BUF
/* Room before the text: timestamp, level word. */
#define PREFIX_SIZE 64

/* One log per process. */
static struct {
	enum log_level level;
	void (*sink)(void *ctx, enum log_level level, const char *line);
	void *sink_ctx; /* borrowed */
	uint64_t dropped;
} the_log = {.level = LOG_LEVEL_INFO};

void
log_set_level(enum log_level level)
{
	the_log.level = level;
}

void
log_set_sink(void (*sink)(void *ctx, enum log_level level, const char *line), void *ctx)
{
	the_log.sink = sink;
	the_log.sink_ctx = ctx;
}

/* The priorities of syslog(3), which sd-daemon(3) puts in front of a line. */
static const struct {
	const char *word;
	int priority;
} levels[] = {
    [LOG_LEVEL_ERROR] = {"error", 3},
    [LOG_LEVEL_WARNING] = {"warning", 4},
    [LOG_LEVEL_INFO] = {"info", 6},
    [LOG_LEVEL_DEBUG] = {"debug", 7},
};

/* Whether stderr is the stream to the journal (systemd.exec(5), $JOURNAL_STREAM). */
static bool
is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat status;

	if (stream == NULL || sscanf(stream, "%llu:%llu", &device, &inode) != 2)
		return false;
	return fstat(STDERR_FILENO, &status) == 0 && status.st_dev == device &&
	       status.st_ino == inode;
}

static void
make_prefix(char prefix[PREFIX_SIZE], enum log_level level)
{
	struct timespec now = {0};
	struct tm utc = {0};
	char time[24];

	if (is_journal()) {
		snprintf(prefix, PREFIX_SIZE, "<%d>", levels[level].priority);
		return;
	}
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(
	    prefix, PREFIX_SIZE, "%s.%03ldZ %s: ", time, now.tv_nsec / 1000000, levels[level].word);
}

/*
 * Returns whether stderr took the line. Other programs may share stderr, so the daemon cannot set
 * O_NONBLOCK. It only writes if poll(2) reports room. If stderr is closed by its reader, nothing is
 * written, as that would cause a SIGPIPE.
 */
static bool
write_line(enum log_level level, const char *text)
{
	struct pollfd fd = {.fd = STDERR_FILENO, .events = POLLOUT};
	char line[LINE_SIZE], prefix[PREFIX_SIZE];
	ssize_t written;
	int len;

	if (poll(&fd, 1, 0) != 1 || (fd.revents & ~POLLOUT) != 0)
		return false;
	make_prefix(prefix, level);
	len = snprintf(line, sizeof(line), "%s%s\n", prefix, text);
	do {
		written = write(STDERR_FILENO, line, (size_t)len);
	} while (written < 0 && errno == EINTR);
	return written >= 0;
}

static void
write_all(enum log_level level, const char *text)
{
	char note[80];

	if (the_log.dropped > 0) {
		snprintf(note, sizeof(note), "%ju log lines were dropped: stderr was full",
		    (uintmax_t)the_log.dropped);
		if (write_line(LOG_LEVEL_WARNING, note))
			the_log.dropped = 0;
	}
	if (the_log.dropped > 0 || !write_line(level, text))
		the_log.dropped++;
}

void
log_at(enum log_level level, const char *format, ...)
{
	char text[LINE_SIZE - PREFIX_SIZE - 1];
	int saved = errno, len;
	va_list args;

	if (level > the_log.level)
		return;
	va_start(args, format);
	len = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (len >= (int)sizeof(text))
		strcpy(text + sizeof(text) - sizeof("..."), "...");
	/* Each event is one line, even if an argument was not quoted. */
	for (char *c = text; *c != '\0'; c++) {
		if (iscntrl((unsigned char)*c))
			*c = ' ';
	}
	if (the_log.sink != NULL)
		the_log.sink(the_log.sink_ctx, level, text);
	else
		write_all(level, text);
	errno = saved;
}

static bool
is_plain(unsigned char byte)
{
	return byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\'' && byte != '\\';
}

const char *
log_quote(char buf[LOG_QUOTE_MAX], const char *bytes, size_t len)
{
	static const char cut[] = "...";
	size_t used = 0, last = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned char byte = (unsigned char)bytes[i];
		size_t wanted = is_plain(byte) ? 1 : 4;

		/* The last place at which a cut fits. */
		if (used + sizeof(cut) <= LOG_QUOTE_MAX)
			last = used;
		if (used + wanted >= LOG_QUOTE_MAX) {
			memcpy(buf + last, cut, sizeof(cut));
			return buf;
		}
		if (wanted == 1)
			buf[used] = (char)byte;
		else
			snprintf(buf + used, 5, "\\x%02x", byte);
		used += wanted;
	}
	buf[used] = '\0';
	return buf;
}
