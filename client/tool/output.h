/*
 * What the command says: sentences on stderr, errors in words or as JSON, lines of events for
 * --status-fd. Nothing here blocks for longer than stderr does, and --status-fd never blocks.
 */
#ifndef CLIENT_TOOL_OUTPUT_H
#define CLIENT_TOOL_OUTPUT_H

#include "client/lockbroker.h"
#include "client/tool/options.h"

/* "lockbroker: ..." on stderr. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for who must not be kept from acting: dropped when stderr would block. */
void say_in_passing(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Whether a line can be written there without waiting for a reader. */
bool output_ready(int fd);
/* Tells why the handle's last call failed and what helps; returns the exit status for its code. */
int say_failure(struct lb *lb, int code, const struct options *options, const char *name);
/* The same for an acquire that ended in an event. */
int say_refusal(const struct lb_event *event, const struct options *options, const char *name);
/* One line on --status-fd, if there is one: {"event": what, and the members of json}. */
void status_line(const struct options *options, const char *what, const char *json);
/* A state of the broker (the wire's broker.state) as a clause. */
const char *broker_words(const char *state);
/* Why the hold has ended, in words. */
void say_lost(const char *name, const struct lb_event *event);
/* To the service manager: that the lock is held, and whether the broker is silent about it. */
void say_holding(const char *name, bool silent);
/* A result on stdout: one line. */
void print_json(const char *json);
/* Prints "path: value" for each value in it. */
void print_members(const char *json);
/* Writes out what was printed. False after telling, once, that some of it could not be written. */
bool print_done(void);

#endif
