#include "daemon/base/log.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* write(2) of up to PIPE_BUF bytes to a pipe writes all bytes or none (pipe(7)). */
#define LINE_SIZE PIPE_BUF
/* Room before the text: timestamp, level word. */
#define PREFIX_SIZE 64

/* Room for the fields of the journal, besides the text. */
#define FIELDS_SIZE 1024
#define JOURNAL_PATH "/run/systemd/journal/socket"

/* Lines that wait for the end of a pass, at most. */
#define WAITING_BYTES ((size_t)64 * 1024)
#define WAITING_MOST 256

/* One log per process. */
static struct {
	enum log_level level;
	enum log_format format;
	const char *journal; /* borrowed; NULL: JOURNAL_PATH */
	int journal_fd;      /* -1: not connected */
	void (*sink)(void *ctx, enum log_level level, const char *line);
	void *sink_ctx; /* borrowed */
	uint64_t dropped;
} the_log = {.level = LOG_LEVEL_INFO, .journal_fd = -1};

/* Lines that are made and not written yet. */
static struct {
	bool collects;
	bool journal; /* they are messages to the journal */
	char text[WAITING_BYTES];
	size_t len;
	struct iovec lines[WAITING_MOST]; /* in `text` */
	size_t count;
} waiting;

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

void
log_set_format(enum log_format format)
{
	the_log.format = format;
}

void
log_set_journal(const char *path)
{
	if (the_log.journal_fd >= 0)
		close(the_log.journal_fd);
	the_log.journal_fd = -1;
	the_log.journal = path;
}

/* The ids are random (systemd-id128 new), and never change. */
static const struct {
	const char *word, *id;
} kinds[LOG_KINDS] = {
    [LOG_REQUESTED] = {"requested", "ebc9428d44d244dc8912bc546e5bc738"},
    [LOG_ACQUIRED] = {"acquired", "47dcbfdca9a74ab89fd5eaf0170082b7"},
    [LOG_REFUSED] = {"refused", "0fcada405b8a4656828ed95438333004"},
    [LOG_RELEASED] = {"released", "0e7540b605544be6ab272bda135d50f6"},
    [LOG_NOT_RELEASED] = {"not-released", "4e1ffb8f73a64d7e94c32e0d66654ef6"},
    [LOG_LOST] = {"lost", "07b86b2f8c3f4092a59d947e42f0983b"},
    [LOG_REVOKED] = {"revoked", "a714ac7566364dd3a094bf7a28da6fc7"},
    [LOG_EVICTED] = {"evicted", "eb5259a158e44622802bd7ab6281ef77"},
    [LOG_VANISHED] = {"vanished", "856c693a27204b2dacf66a966bf199f2"},
    [LOG_SUSPECT] = {"suspect", "d2d8d337857143c88fc52c742e025b19"},
    [LOG_RESTORED] = {"restored", "439923a1a109408e89672cf735d989ff"},
    [LOG_RESERVED] = {"reserved", "ef8ba95acb0a4df289ab29d368aaa4c8"},
    [LOG_DONE] = {"done", "8104e880512a4a6899b1d755b2a58842"},
    [LOG_LEFT] = {"left", "e803a1ce30d34876bf81479aad833577"},
    [LOG_FORBIDDEN] = {"forbidden", "c603ef820f1d47e7908208cb9a4376ba"},
    [LOG_GRANTED] = {"granted", "5510a79890284cf2a91f6a7917ed28ab"},
    [LOG_DENIED] = {"denied", "a4615b37c8b64f6d8496defa4503cf0a"},
};

const char *
log_kind_word(enum log_kind kind)
{
	return kinds[kind].word;
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
	const char *stream;
	unsigned long long device, inode;
	struct stat status;

	/* The socket is connected only after stderr was found to be the stream. */
	if (the_log.journal_fd >= 0)
		return true;
	stream = getenv("JOURNAL_STREAM");
	if (stream == NULL || sscanf(stream, "%llu:%llu", &device, &inode) != 2)
		return false;
	return fstat(STDERR_FILENO, &status) == 0 && status.st_dev == device &&
	       status.st_ino == inode;
}

/* A line that is being made. A part that does not fit is left out. */
struct line {
	char text[LINE_SIZE + FIELDS_SIZE];
	size_t len;
};

static void add(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void
add(struct line *line, const char *format, ...)
{
	size_t room = sizeof(line->text) - line->len;
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(line->text + line->len, room, format, args);
	va_end(args);
	if (len > 0 && (size_t)len < room)
		line->len += (size_t)len;
}

/* ---- the journal ---- */

static bool
journal_connect(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (the_log.journal_fd >= 0)
		return true;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s",
	    the_log.journal != NULL ? the_log.journal : JOURNAL_PATH);
	the_log.journal_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (the_log.journal_fd >= 0 &&
	    connect(the_log.journal_fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return true;
	log_set_journal(the_log.journal);
	return false;
}

/* Of a message in the journal's native protocol. No value has a line end. */
#define JOURNAL_HEAD "PRIORITY=%d\nSYSLOG_IDENTIFIER=lockbrokerd\nMESSAGE="

static void
add_fields(struct line *line, const struct log_event *event)
{
	add(line, "MESSAGE_ID=%s\nLOCKBROKER_EVENT=%s\n", kinds[event->kind].id,
	    kinds[event->kind].word);
	if (event->name != NULL)
		add(line, "LOCKBROKER_NAME=%s\n", event->name);
	if (event->lock != NULL)
		add(line, "LOCKBROKER_LOCK=%s\n", event->lock);
	if (event->slot > 0)
		add(line, "LOCKBROKER_SLOT=%d\n", event->slot);
	if (event->uid != NULL)
		add(line, "LOCKBROKER_UID=%u\n", (unsigned)*event->uid);
	if (event->user != NULL)
		add(line, "LOCKBROKER_USER=%s\n", event->user);
	if (event->pid > 0)
		add(line, "LOCKBROKER_PID=%d\n", (int)event->pid);
	if (event->method != NULL)
		add(line, "LOCKBROKER_METHOD=%s\n", event->method);
}

static void
make_journal(
    struct line *line, enum log_level level, const struct log_event *event, const char *text)
{
	add(line, JOURNAL_HEAD "%s\n", levels[level].priority, text);
	if (event != NULL)
		add_fields(line, event);
}

/* Returns how many of the lines the journal took. The others go to stderr. */
static size_t
journal_write(struct iovec *lines, size_t count)
{
	struct mmsghdr messages[WAITING_MOST];
	int sent;

	if (!journal_connect())
		return 0;
	for (size_t i = 0; i < count; i++)
		messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &lines[i], .msg_iovlen = 1}};
	sent = sendmmsg(the_log.journal_fd, messages, (unsigned)count, MSG_NOSIGNAL);
	if (sent < 0 && errno != EAGAIN)
		log_set_journal(the_log.journal); /* the next line connects anew */
	return sent < 0 ? 0 : (size_t)sent;
}

/* ---- stderr ---- */

static void
add_time(struct line *line)
{
	static char words[24];
	static time_t second; /* of words */
	struct timespec now = {0};
	struct tm utc = {0};

	clock_gettime(CLOCK_REALTIME, &now);
	if (now.tv_sec != second || words[0] == '\0') {
		gmtime_r(&now.tv_sec, &utc);
		strftime(words, sizeof(words), "%Y-%m-%dT%H:%M:%S", &utc);
		second = now.tv_sec;
	}
	add(line, "%s.%03ldZ", words, now.tv_nsec / 1000000);
}

/* A string of JSON that leaves room for the end of the line. Bytes that are not ASCII: \u00NN. */
static void
add_string(struct line *line, const char *text)
{
	add(line, "\"");
	for (; *text != '\0' && line->len < LINE_SIZE - 16; text++) {
		unsigned char byte = (unsigned char)*text;

		if (byte == '"' || byte == '\\')
			add(line, "\\%c", byte);
		else if (byte < 0x20 || byte >= 0x7f)
			add(line, "\\u%04x", byte);
		else
			line->text[line->len++] = *text;
	}
	add(line, "\"");
}

static void
add_member(struct line *line, const char *name, const char *text)
{
	if (text == NULL)
		return;
	add(line, ",\"%s\":", name);
	add_string(line, text);
}

/* The text comes last, and is cut if the line is too long. */
static void
make_json(struct line *line, enum log_level level, const struct log_event *event, const char *text)
{
	add(line, "{\"time\":\"");
	add_time(line);
	add(line, "\",\"level\":\"%s\"", levels[level].word);
	if (event != NULL) {
		add_member(line, "event", kinds[event->kind].word);
		add_member(line, "method", event->method);
		add_member(line, "name", event->name);
		add_member(line, "lock", event->lock);
		if (event->slot > 0)
			add(line, ",\"slot\":%d", event->slot);
		if (event->uid != NULL)
			add(line, ",\"uid\":%u", (unsigned)*event->uid);
		add_member(line, "user", event->user);
		if (event->pid > 0)
			add(line, ",\"pid\":%d", (int)event->pid);
	}
	add_member(line, "message", text);
	add(line, "}\n");
}

/*
 * Returns how many of the lines stderr took, with one write. Other programs may share stderr, so the
 * daemon cannot set O_NONBLOCK. It only writes if poll(2) reports room, and then at most PIPE_BUF
 * bytes, which a pipe with room takes at once. If stderr is closed by its reader, nothing is written,
 * as that would cause a SIGPIPE.
 */
static size_t
stderr_write(const struct iovec *lines, size_t count)
{
	struct pollfd fd = {.fd = STDERR_FILENO, .events = POLLOUT};
	size_t some = 0, len = 0;
	ssize_t written;

	if (poll(&fd, 1, 0) != 1 || (fd.revents & ~POLLOUT) != 0)
		return 0;
	while (some < count && (some == 0 || len + lines[some].iov_len <= PIPE_BUF))
		len += lines[some++].iov_len;
	do {
		written = writev(STDERR_FILENO, lines, (int)some);
	} while (written < 0 && errno == EINTR);
	return written < 0 ? 0 : some;
}

/* A line that the journal did not take: its text alone, for the stream to the journal. */
static void
make_stream(struct line *line, const struct iovec *message)
{
	const char *text = message->iov_base;
	int priority = 0, head = 0;

	(void)sscanf(text, JOURNAL_HEAD "%n", &priority, &head);
	text += head;
	add(line, "<%d>%.*s\n", priority, (int)strcspn(text, "\n"), text);
}

/* Returns how many of the lines were written, from the first on. 0: there is no room. */
static size_t
write_some(struct iovec *lines, size_t count)
{
	size_t written;
	struct line line;

	if (!waiting.journal)
		return stderr_write(lines, count);
	written = journal_write(lines, count);
	if (written > 0)
		return written;
	line.len = 0;
	make_stream(&line, &lines[0]);
	return stderr_write(&(struct iovec){.iov_base = line.text, .iov_len = line.len}, 1);
}

static void
make(struct line *line, enum log_level level, const struct log_event *event, const char *text)
{
	line->len = 0;
	if (waiting.journal) {
		make_journal(line, level, event, text);
	} else if (the_log.format == LOG_FORMAT_JSON) {
		make_json(line, level, event, text);
	} else {
		add_time(line);
		add(line, " %s: %s\n", levels[level].word, text);
	}
}

static void
tell_dropped(void)
{
	struct line line;
	char note[80];

	snprintf(note, sizeof(note), "%ju log lines were dropped: stderr was full",
	    (uintmax_t)the_log.dropped);
	make(&line, LOG_LEVEL_WARNING, NULL, note);
	if (write_some(&(struct iovec){.iov_base = line.text, .iov_len = line.len}, 1) == 1)
		the_log.dropped = 0;
}

static void
write_waiting(void)
{
	size_t done = 0, written;

	while (done < waiting.count) {
		if (the_log.dropped > 0)
			tell_dropped();
		written = the_log.dropped > 0
			      ? 0
			      : write_some(waiting.lines + done, waiting.count - done);
		the_log.dropped += written == 0;
		done += written == 0 ? 1 : written;
	}
	waiting.count = waiting.len = 0;
}

static void
put(enum log_level level, const struct log_event *event, const char *text)
{
	struct line line;

	if (waiting.count == 0)
		waiting.journal = is_journal();
	make(&line, level, event, text);
	if (waiting.count == WAITING_MOST || waiting.len + line.len > sizeof(waiting.text))
		write_waiting();
	memcpy(waiting.text + waiting.len, line.text, line.len);
	waiting.lines[waiting.count++] =
	    (struct iovec){.iov_base = waiting.text + waiting.len, .iov_len = line.len};
	waiting.len += line.len;
	/* The program may end behind an error. */
	if (!waiting.collects || level == LOG_LEVEL_ERROR)
		write_waiting();
}

void
log_collect(void)
{
	waiting.collects = true;
}

void
log_flush(void)
{
	int saved = errno;

	waiting.collects = false;
	write_waiting();
	errno = saved;
}

/* ---- crashes ---- */

static const int crashes[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV};
#define CRASHES (sizeof(crashes) / sizeof(crashes[0]))
static struct sigaction before[CRASHES];

/* Then the signal has the effect that it had before. */
static void
crashed(int signo, siginfo_t *info, void *context)
{
	(void)context;
	for (size_t i = 0; i < CRASHES; i++)
		sigaction(crashes[i], &before[i], NULL);
	log_flush();
	/* A faulty instruction is executed again, and abort(3) sends the signal again. */
	if (info->si_code <= 0)
		raise(signo);
}

void
log_flush_at_crashes(void)
{
	struct sigaction action = {.sa_sigaction = crashed, .sa_flags = SA_SIGINFO};

	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < CRASHES; i++)
		sigaction(crashes[i], &action, &before[i]);
}

/* ---- events ---- */

static void
log_line(enum log_level level, const struct log_event *event, const char *format, va_list args)
{
	char text[LINE_SIZE - PREFIX_SIZE - 1];
	int saved = errno, start = 0, len;

	if (event != NULL)
		start = snprintf(text, sizeof(text), "%s ", kinds[event->kind].word);
	len = start + vsnprintf(text + start, sizeof(text) - (size_t)start, format, args);
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
		put(level, event, text);
	errno = saved;
}

bool
log_takes(enum log_level level)
{
	return level <= the_log.level;
}

void
log_event_at(enum log_level level, const struct log_event *event, const char *format, ...)
{
	va_list args;

	if (!log_takes(level))
		return;
	va_start(args, format);
	log_line(level, event, format, args);
	va_end(args);
}

static bool
is_plain(unsigned char byte)
{
	return byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\';
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
