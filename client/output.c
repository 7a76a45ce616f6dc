#include "client/output.h"

#include <grp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/exit_status.h"

void
say(const char *format, ...)
{
	char line[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(stderr, "lockbroker: %s\n", line);
}

/* A pipe that is ready takes PIPE_BUF bytes (pipe(7)): more than what is written here at a time. */
static bool
takes_a_line(int fd)
{
	struct pollfd ready = {.fd = fd, .events = POLLOUT};

	return poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0;
}

void
say_in_passing(const char *format, ...)
{
	char line[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (takes_a_line(STDERR_FILENO))
		dprintf(STDERR_FILENO, "lockbroker: %s\n", line);
}

/* The group that may open the socket, as far as this user can see it. */
static void
say_which_group(const char *path)
{
	const struct group *group = NULL;
	struct stat status;

	if (stat(path, &status) == 0 && (status.st_mode & S_IWGRP) != 0 && status.st_gid != 0)
		group = getgrgid(status.st_gid);
	say("%s may be opened by the group %s: add the user to it (adduser USER %s) and log in "
	    "anew",
	    path, group != NULL ? group->gr_name : "lockbroker",
	    group != NULL ? group->gr_name : "lockbroker");
}

static void
say_what_helps(const char *path, int code)
{
	if (code == LB_NO_DAEMON)
		say("lockbrokerd is not running, or listens elsewhere: systemctl status "
		    "lockbrokerd, "
		    "or --socket");
	if (code == LB_NO_ACCESS && path != NULL)
		say_which_group(path);
}

static int
tell(int code, const char *words, const char *json, const char *path, const struct options *options,
    const char *name)
{
	int status = (int)exit_status_of(code);

	if (options->json && json != NULL) {
		fprintf(stderr, "{\"error\":%s}\n", json);
	} else {
		say("%s%s%s", name != NULL ? name : "", name != NULL ? ": " : "", words);
		say_what_helps(path, code);
	}
	return status == EXIT_STATUS_NOT_ACQUIRED ? options->conflict_status : status;
}

int
say_failure(struct lb *lb, int code, const struct options *options, const char *name)
{
	return tell(code, lb_message(lb), lb != NULL ? lb_error_json(lb) : NULL,
	    lb != NULL ? lb_socket_path(lb) : NULL, options, name);
}

int
say_refusal(const struct lb_event *event, const struct options *options, const char *name)
{
	return tell(event->code, event->text, event->json, NULL, options, name);
}

void
status_line(const struct options *options, const char *what, const char *json)
{
	bool more = strlen(json) > 2;
	char *line;
	int len;

	/* A reader that does not read must not keep us from acting: it misses the line. */
	if (options->status_fd < 0 || !takes_a_line(options->status_fd))
		return;
	len = asprintf(&line, "{\"event\":\"%s\"%s%s\n", what, more ? "," : "", json + 1);
	if (len < 0)
		return;
	if (write(options->status_fd, line, (size_t)len) < 0)
		say_in_passing("--status-fd: %m");
	free(line);
}

void
print_json(const char *json)
{
	printf("%s\n", json != NULL ? json : "null");
}

static int
print_member(const char *path, const char *value, void *arg)
{
	(void)arg;
	printf("%s: %s\n", path, value);
	return 0;
}

void
print_members(const char *json)
{
	(void)lb_json_each(json, print_member, NULL);
}
