/*
 * lockbroker release: ends the holds of acquire --for-pid. Each is a process of this user with a name of its
 * own, and its command line says for which process it holds which lock.
 */
#include "client/commands.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "client/exit_status.h"
#include "client/process.h"
#include "client/tool/output.h"

/* Arguments and bytes of a command line that is read. */
#define ARGUMENTS_MOST 64
#define CMDLINE_SIZE 8192
/* The holder itself waits 5 s for the daemon's answer. */
#define END_TIMEOUT_MS 10000

static const struct command acquire = {
    .name = "acquire", .operands = "NAME", .user = FOR_ACQUIRE, .least = 1, .most = 1};

static bool
is_holder(pid_t pid)
{
	char name[32];

	return process_read(pid, "comm", name, sizeof(name)) > 0 &&
	       strcmp(name, PROCESS_HOLDER_NAME "\n") == 0;
}

/* Whether it holds a lock of that name (NULL: any) for the wanted process. */
static bool
holds_for(pid_t pid, int for_pid, const char *name)
{
	char cmdline[CMDLINE_SIZE], *argv[ARGUMENTS_MOST + 1];
	ssize_t len = process_read(pid, "cmdline", cmdline, sizeof(cmdline));
	struct tool_options options;
	int argc = 0, first;

	for (char *word = cmdline; word < cmdline + len && argc < ARGUMENTS_MOST;
	     word += strlen(word) + 1)
		argv[argc++] = word;
	argv[argc] = NULL;
	if (argc < 2)
		return false;
	first = options_parse(&acquire, argc - 1, argv + 1, &options);
	return first > 0 && options.for_pid == for_pid &&
	       (name == NULL || strcmp(argv[1 + first], name) == 0);
}

/* False: it did not end in time. */
static bool
end_holder(int pidfd)
{
	struct pollfd ended = {.fd = pidfd, .events = POLLIN};

	return pidfd_send_signal(pidfd, SIGUSR1, NULL, 0) != 0 ||
	       poll(&ended, 1, END_TIMEOUT_MS) == 1;
}

int
cmd_release(const struct tool_options *options, char *operands[])
{
	DIR *folder = opendir("/proc");
	const char *name = operands[0];
	const struct dirent *entry;
	int found = 0, status = EXIT_STATUS_OK;

	if (folder == NULL) {
		say("release: /proc: %m");
		return EXIT_STATUS_INTERNAL;
	}
	while ((entry = readdir(folder)) != NULL) {
		pid_t pid = atoi(entry->d_name);
		int pidfd;

		if (pid <= 0 || !is_holder(pid) || (pidfd = process_open(pid)) < 0)
			continue;
		if (is_holder(pid) && holds_for(pid, options->for_pid, name) &&
		    !process_ended(pidfd)) {
			found++;
			if (!end_holder(pidfd)) {
				say("release: process %d does not end", (int)pid);
				status = EXIT_STATUS_UNREACHABLE;
			}
		}
		close(pidfd);
	}
	closedir(folder);
	if (found > 0)
		return status;
	if (name != NULL)
		say("%s: not held for process %d", name, options->for_pid);
	else
		say("release: no lock is held for process %d", options->for_pid);
	return EXIT_STATUS_NOT_HELD;
}
