#include "client/tool/output.h"

#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/exit_status.h"
#include "client/tool/json_text.h"
#include "client/tool/row.h"
#include "client/tool/text.h"
#include "daemon/base/notify.h"

/* Bytes of a message. */
#define LINE_SIZE 2048

/* Others wrote some of the words. No control character reaches a terminal, a log or a mail. */
static void
write_line(char line[LINE_SIZE], const char *format, va_list args)
{
	char *text = NULL;

	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	text_clean(line, LINE_SIZE, text != NULL ? text : "out of memory");
	free(text);
}

void
say(const char *format, ...)
{
	char line[LINE_SIZE];
	va_list args;

	va_start(args, format);
	write_line(line, format, args);
	va_end(args);
	fprintf(stderr, "lockbroker: %s\n", line);
}

/* A pipe that is ready takes PIPE_BUF bytes (pipe(7)): more than what is written here at a time. */
bool
output_ready(int fd)
{
	struct pollfd ready = {.fd = fd, .events = POLLOUT};

	return poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0;
}

void
say_in_passing(const char *format, ...)
{
	char line[LINE_SIZE];
	va_list args;

	va_start(args, format);
	write_line(line, format, args);
	va_end(args);
	if (output_ready(STDERR_FILENO))
		dprintf(STDERR_FILENO, "lockbroker: %s\n", line);
}

/* A group's name, or its number. */
static const char *
group_name(char buf[64], gid_t gid)
{
	const struct group *group = getgrgid(gid);

	if (group != NULL)
		snprintf(buf, 64, "%s", group->gr_name);
	else
		snprintf(buf, 64, "%u", (unsigned)gid);
	return buf;
}

/* Says which users may open the socket, as far as this user can see. */
static void
say_who_may(const char *path)
{
	char group[64];
	struct stat status;
	unsigned mode;

	if (stat(path, &status) != 0) {
		say("%s: no permission to search a directory of this path", path);
		return;
	}
	mode = status.st_mode & 0777;
	group_name(group, status.st_gid);
	if ((status.st_mode & S_IWGRP) != 0 && status.st_gid != 0)
		say("%s (mode %04o) is open to group %s; add the user to the group (usermod -aG %s "
		    "USER) and log in again",
		    path, mode, group, group);
	else
		say("%s (mode %04o, group %s) is closed to groups; set socket-group and "
		    "socket-mode (lockbrokerd.conf(5)), or SocketGroup= and SocketMode= of the "
		    "socket unit",
		    path, mode, group);
}

void
say_daemon_refused(const struct tool_options *options)
{
	if (options_want_private(options))
		say("the broker refused the login or a request: check the URL, and the "
		    "permissions of its user");
	else
		say("the broker refused lockbrokerd, not this user: an operator checks the options "
		    "broker "
		    "and password-file (lockbrokerd.conf(5)), and the permissions at the broker");
}

static void
say_what_helps(const struct tool_options *options, const char *path, int code)
{
	struct stat status;

	if (code == LB_BROKER_REFUSED)
		say_daemon_refused(options);
	/* The rest is about an installed daemon. */
	if (options_want_private(options))
		return;
	if (code == LB_NO_DAEMON && path != NULL && stat(path, &status) == 0 &&
	    !S_ISSOCK(status.st_mode))
		say("%s is a %s, not a socket", path,
		    S_ISDIR(status.st_mode) ? "directory" : "file");
	else if (code == LB_NO_DAEMON)
		say("lockbrokerd is not running, is stopping, or uses another socket: see "
		    "systemctl status lockbrokerd, or use --socket");
	/* Meanwhile systemd keeps its socket open, and the next daemon accepts the connection. */
	if (code == LB_DEADLINE)
		say("lockbrokerd may be stopping (draining), and wait for its holders: see "
		    "systemctl status lockbrokerd");
	if (code == LB_NO_ACCESS && path != NULL)
		say_who_may(path);
	if (code == LB_CLOSED)
		say("lockbrokerd ended, or could not start: see journalctl -u lockbrokerd");
	if (code == LB_BROKER_UNAVAILABLE)
		say("lockbroker info shows the connection of lockbrokerd to its broker");
}

/* Whether the words begin with what they are about: "size: parameter ..." */
static bool
names_itself(const char *words, const char *name)
{
	size_t len = strlen(name);

	return strncmp(words, name, len) == 0 && words[len] == ':';
}

/* Of all other codes: EXIT_STATUS_INTERNAL. -E replaces the status of the first three. */
static const struct {
	enum lb_code code;
	enum exit_status status;
} statuses[] = {
    {LB_WOULD_BLOCK, EXIT_STATUS_NOT_ACQUIRED},
    {LB_TIMEOUT, EXIT_STATUS_NOT_ACQUIRED},
    {LB_CONTENDED, EXIT_STATUS_NOT_ACQUIRED},
    {LB_OK, EXIT_STATUS_OK},
    {LB_BAD_ARGUMENT, EXIT_STATUS_USAGE},
    {LB_METHOD_NOT_FOUND, EXIT_STATUS_USAGE},
    {LB_INVALID_PARAMS, EXIT_STATUS_USAGE},
    {LB_NOT_HELD, EXIT_STATUS_NOT_HELD},
    {LB_NO_SUCH_LOCK, EXIT_STATUS_NO_SUCH_LOCK},
    {LB_NO_DAEMON, EXIT_STATUS_UNREACHABLE},
    {LB_DEADLINE, EXIT_STATUS_UNREACHABLE},
    {LB_CLOSED, EXIT_STATUS_UNREACHABLE},
    {LB_DRAINING, EXIT_STATUS_UNREACHABLE},
    {LB_BROKER_UNAVAILABLE, EXIT_STATUS_UNREACHABLE},
    {LB_BROKER_BLOCKED, EXIT_STATUS_UNREACHABLE},
    {LB_ALREADY_EXISTS, EXIT_STATUS_EXISTS},
    {LB_CANCELLED, EXIT_STATUS_NOT_ACQUIRED},
    {LB_TOO_MANY_REQUESTS, EXIT_STATUS_NOT_ACQUIRED},
    {LB_TOO_MANY_LOCKS, EXIT_STATUS_NOT_ACQUIRED},
    {LB_TOO_MANY_WAITERS, EXIT_STATUS_NOT_ACQUIRED},
    {LB_PERMISSION_DENIED, EXIT_STATUS_DENIED},
    {LB_BROKER_REFUSED, EXIT_STATUS_BROKER_REFUSED},
    {LB_NO_ACCESS, EXIT_STATUS_DENIED},
    {LB_LOST, EXIT_STATUS_LOST},
    {LB_REVOKED, EXIT_STATUS_REVOKED},
};

/*
 * Of words about this user. The daemon calls users by number, as a lookup of their names might
 * block it. False: the words are about something else.
 */
static bool
said_of_user(const char *words)
{
	const struct passwd *user;
	unsigned uid;
	int len = 0;

	if (sscanf(words, "uid %u%n", &uid, &len) != 1 || uid != getuid() ||
	    (user = getpwuid(uid)) == NULL)
		return false;
	say("user %s (%u)%s", user->pw_name, uid, words + len);
	return true;
}

/* The daemon's words are about slots, which a mutex has not. */
static const char *
words_for(int code, const char *words, const struct tool_options *options)
{
	if (options->kind == LB_MUTEX && code == LB_WOULD_BLOCK)
		return "the mutex is held";
	if (options->kind == LB_MUTEX && code == LB_TIMEOUT)
		return "the mutex was not released in time";
	return words;
}

static int
tell(int code, const char *words, const char *json, const char *path,
    const struct tool_options *options, const char *name)
{
	if (options->json && json != NULL) {
		fprintf(stderr, "{\"error\":%s}\n", json);
	} else {
		words = words_for(code, words, options);
		/* The words about a method that does not exist name it. */
		if (name == NULL || code == LB_METHOD_NOT_FOUND || names_itself(words, name))
			say("%s", words);
		else if (!said_of_user(words))
			say("%s: %s", *name != '\0' ? name : "''", words);
		say_what_helps(options, path, code);
	}
	/* -E applies only if other clients have the lock. A missing answer does not show that. */
	if (code == LB_WOULD_BLOCK || code == LB_TIMEOUT || code == LB_CONTENDED)
		return options->conflict_status;
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		if ((int)statuses[i].code == code)
			return (int)statuses[i].status;
	return EXIT_STATUS_INTERNAL;
}

int
status_of_word(const char *word)
{
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		if (strcmp(lb_code_word(statuses[i].code), word) == 0)
			return (int)statuses[i].status;
	return EXIT_STATUS_INTERNAL;
}

int
say_failure(struct lb *lb, int code, const struct tool_options *options, const char *name)
{
	return tell(code, lb_message(lb), lb != NULL ? lb_error_json(lb) : NULL,
	    lb != NULL ? lb_socket_path(lb) : NULL, options, name);
}

int
say_refusal(const struct lb_event *event, const struct tool_options *options, const char *name)
{
	return tell(event->code, event->text, event->json, NULL, options, name);
}

/* "full": it has a holder. The daemon probes the one queue of the mutex, which all hosts share. */
bool
ask_mutex_is_held(struct lb *lb, const char *name)
{
	char params[JSON_PARAMS_SIZE];

	json_params(params, "name", name, ",\"kind\":\"mutex\"");
	return lb_call(lb, "explain", params, HINT_ANSWER_MS, NULL) == LB_OK &&
	       json_value_is(lb_result_json(lb), "verdict", "full");
}

bool
say_mutex_is_held(struct lb *lb, const char *name)
{
	bool held = ask_mutex_is_held(lb, name);

	if (held)
		say("%s: a mutex of this name is in use; lockbroker show %s prints its holder; to "
		    "wait for the mutex: lockbroker run --mutex %s COMMAND",
		    name, name, name);
	return held;
}

void
say_held_by(struct lb *lb, const char *name)
{
	char params[JSON_PARAMS_SIZE], words[200];

	json_params(params, "name", name, "");
	if (lb_call(lb, "show", params, HINT_ANSWER_MS, NULL) != LB_OK)
		return;
	holders_words(lb_result_json(lb), words, sizeof(words));
	if (*words != '\0')
		say("%s: held by %s", name, words);
}

void
status_line(const struct tool_options *options, const char *what, const char *json)
{
	bool more = strlen(json) > 2;
	char *line;
	int len;

	/* A reader that does not read must not keep us from acting: it misses the line. */
	if (options->status_fd < 0 || !output_ready(options->status_fd))
		return;
	len = asprintf(&line, "{\"event\":\"%s\"%s%s\n", what, more ? "," : "", json + 1);
	if (len < 0)
		return;
	if (write(options->status_fd, line, (size_t)len) < 0)
		say_in_passing("--status-fd: %m");
	free(line);
}

const char *
broker_words(const char *state)
{
	if (strcmp(state, "up") == 0)
		return "the broker is up";
	if (strcmp(state, "refused") == 0)
		return "the broker refused the daemon";
	return "the broker is down";
}

void
say_evicted(const char *name, const struct lb_event *event, const char *what)
{
	char grace[24];

	row_age_words(((double)event->grace_ms + 500) / 1000, grace, sizeof(grace));
	say_in_passing("%s: the hold ends in %s%s: %s", name, grace, what, event->text);
}

void
say_lost(const char *name, const struct lb_event *event)
{
	/* Of one queue that is gone nobody knows why. */
	bool plain = *event->reason == '\0' || strcmp(event->reason, "lost") == 0;

	if (*event->text != '\0')
		say_in_passing("%s: lost: %s", name, event->text);
	else if (plain)
		say_in_passing("%s: lost: this host no longer has the slot", name);
	else
		say_in_passing("%s: lost: %s", name, event->reason);
}

void
say_holding(const char *name, bool silent)
{
	notify_status("holding %s%s", name, silent ? ", but the broker does not answer" : "");
}

/* ---- stdout ---- */

static bool stdout_broken;

/* At the first failure, while errno is its own. */
static void
check_stdout(bool ok)
{
	if (ok || stdout_broken)
		return;
	stdout_broken = true;
	say("stdout: %m");
}

void
print_clean(const char *format, ...)
{
	char line[LINE_SIZE];
	va_list args;

	va_start(args, format);
	write_line(line, format, args);
	va_end(args);
	check_stdout(printf("%s\n", line) >= 0);
}

void
print_json(const char *json)
{
	check_stdout(printf("%s\n", json != NULL ? json : "null") >= 0);
}

static int
print_member(const char *path, const char *value, void *arg)
{
	(void)arg;
	print_clean("%s: %s", path, value);
	return 0;
}

void
print_members(const char *json)
{
	(void)lb_json_each(json, print_member, NULL);
}

bool
print_done(void)
{
	check_stdout(fflush(stdout) == 0 && ferror(stdout) == 0);
	return !stdout_broken;
}
