/*
 * The output of the command: sentences on stderr, errors in words or as JSON, and lines of events
 * for --status-fd. Two functions ask the daemon for a hint. The others block no longer than
 * stderr does. --status-fd never blocks.
 */
#ifndef CLIENT_TOOL_OUTPUT_H
#define CLIENT_TOOL_OUTPUT_H

#include "client/lockbroker.h"
#include "client/tool/options.h"

/* Prints "lockbroker: ..." on stderr. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* As say(), for code that must not be delayed: the text is dropped if stderr would block. */
void say_in_passing(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Whether fd takes a line without waiting for a reader. */
bool output_ready(int fd);
/* Says why the handle's last call failed, with a hint. Returns the exit status of its code. */
int say_failure(struct lb *lb, int code, const struct tool_options *options, const char *name);
/* The same for an acquire that ended with an event. */
int say_refusal(const struct lb_event *event, const struct tool_options *options, const char *name);
/* The exit status of an error word of the protocol, without -E. */
int status_of_word(const char *word);
/* How long a client that was refused waits for an answer that makes its message better. */
#define HINT_ANSWER_MS 1000
/*
 * Asks the daemon whether a client on any host holds the mutex of this name. Also false if the daemon does not
 * answer in time.
 */
bool ask_mutex_is_held(struct lb *lb, const char *name);
/* Says which requesters hold the lock, on all hosts, if the daemon answers in time. */
void say_held_by(struct lb *lb, const char *name);
/*
 * As ask_mutex_is_held(), after no-such-lock. If so, says it, because a semaphore of the same name would be another
 * lock.
 */
bool say_mutex_is_held(struct lb *lb, const char *name);
/* Says that the broker refused the daemon, and where to look. */
void say_daemon_refused(const struct tool_options *options);
/* Writes one line to --status-fd, if set: {"event": what, and the members of json}. */
void status_line(const struct tool_options *options, const char *what, const char *json);
/* A state of the broker (the wire's broker.state) as a clause. */
const char *broker_words(const char *state);
/* Says who evicts the hold, why, and when it ends. what: a clause about what follows at once, or "". */
void say_evicted(const char *name, const struct lb_event *event, const char *what);
/* Says why the hold has ended. */
void say_lost(const char *name, const struct lb_event *event);
/* Notifies the service manager that the lock is held, and whether the broker is silent. */
void say_holding(const char *name, bool silent);
/* Prints a line on stdout. Control characters in it become question marks, as in say(). */
void print_clean(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints a result on stdout, as one line. */
void print_json(const char *json);
/* Prints "path: value" for each value of a result. */
void print_members(const char *json);
/* Flushes stdout. False: output was lost; this is said once. */
bool print_done(void);

#endif
