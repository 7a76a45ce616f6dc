/*
 * The daemon's log: one line for each event, to stderr. If stderr is the journal, the event goes to
 * the journal's own socket, with its facts as fields (systemd.journal-fields(7)). Otherwise the line
 * is text or JSON. The log never blocks the loop: sd_journal_send(3) would wait if the journal does
 * not read. A line that cannot be written is counted and dropped, and the count is logged later.
 * There is one log in a process.
 *
 * A line is written at once. During a pass of the loop lines are collected instead, and are written
 * behind the answers and requests of the pass, by one write. SIGKILL can lose the lines of a pass.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

/* The kinds of events of locks. Each has a word and a MESSAGE_ID, which never change (log.c). */
enum log_kind {
	LOG_REQUESTED,
	LOG_ACQUIRED,
	LOG_REFUSED,
	LOG_RELEASED,
	LOG_NOT_RELEASED,
	LOG_LOST,
	LOG_REVOKED,
	LOG_EVICTED,
	LOG_VANISHED,
	LOG_SUSPECT,
	LOG_RESTORED,
	LOG_RESERVED,
	LOG_DONE,
	LOG_LEFT,
	LOG_FORBIDDEN,
	LOG_GRANTED,
	LOG_DENIED
};
#define LOG_KINDS (LOG_DENIED + 1)

/* Static. "acquired" */
const char *log_kind_word(enum log_kind kind);

/* The facts of an event. */
struct log_event {
	enum log_kind kind;
	const char *name;   /* of the lock; NULL: none */
	const char *lock;   /* the id of the hold on the wire; NULL: none */
	int slot;           /* 0: none */
	const uid_t *uid;   /* NULL: none */
	const char *user;   /* its name; NULL: unknown */
	pid_t pid;          /* 0: none */
	const char *method; /* of the request; NULL: none */
};

void log_set_level(enum log_level level);
/* Of lines that do not go to the journal. */
void log_set_format(enum log_format format);
/* Lines go to sink instead of stderr, without newline and prefix; for tests. NULL: stderr again. */
void log_set_sink(void (*sink)(void *ctx, enum log_level level, const char *line), void *ctx);
/* The socket of the journal, for tests. */
void log_set_journal(const char *path);

/*
 * Lines are collected until log_flush(). If there is no room for another line, or if it is an error,
 * they are written earlier.
 */
void log_collect(void);
/* Writes the collected lines. Later ones are written at once. Also for a process before its end. */
void log_flush(void);
/* Has the collected lines written if the process crashes or aborts. */
void log_flush_at_crashes(void);

/* Whether lines of that level are written. */
bool log_takes(enum log_level level);
/* The line begins with the kind's word. event: NULL: it is about no lock. */
void log_event_at(enum log_level level, const struct log_event *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define log_error(...) log_event_at(LOG_LEVEL_ERROR, NULL, __VA_ARGS__)
#define log_warning(...) log_event_at(LOG_LEVEL_WARNING, NULL, __VA_ARGS__)
#define log_info(...) log_event_at(LOG_LEVEL_INFO, NULL, __VA_ARGS__)
#define log_debug(...) log_event_at(LOG_LEVEL_DEBUG, NULL, __VA_ARGS__)

#define LOG_QUOTE_MAX 256
/*
 * Makes bytes from a client or the broker fit for a log line. Control characters, double quotes,
 * backslashes and bytes that are not ASCII become \xNN. A text that is too long ends with "...".
 * Returns buf.
 */
const char *log_quote(char buf[LOG_QUOTE_MAX], const char *bytes, size_t len);

#endif
