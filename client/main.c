/* lockbroker: the table of subcommands, and the way to them. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/commands.h"
#include "client/exit_status.h"
#include "client/lockbroker.h"
#include "client/tool/output.h"
#include "daemon/base/nearest.h"

static const struct command commands[] = {
    {"run", "NAME [--] COMMAND [ARGUMENT...]", "Runs a command while holding a lock", FOR_RUN, 1,
	-1, NULL, cmd_run,
	"The lock is released when COMMAND and all processes that it started have ended.\n"
	"Processes in the background, or with their own session (setsid(1)), count too.\n"
	"--release-on=exit does not wait for them. If SIGKILL ends `run`, they end with it."},
    {"acquire", "NAME", "Prints the grant, and holds the lock until stdin or a signal ends it",
	FOR_ACQUIRE, 1, 1, NULL, cmd_acquire,
	"Stdin must be a pipe, a socket or a terminal that has not ended,\n"
	"unless $NOTIFY_SOCKET is set.\n"
	"With --for-pid, prints the grant and exits. The lock is held until PID ends, or\n"
	"until `lockbroker release`. In a script: lockbroker acquire --for-pid $$ NAME"},
    {"release", "[NAME]", "Releases locks that are held with acquire --for-pid", FOR_RELEASE, 0, 1,
	NULL, cmd_release, "Without NAME, releases all locks that are held for PID."},
    {"verify", "[LOCK]", "Checks that a lock is still held (default: $LOCKBROKER_LOCK)", FOR_ASKING,
	0, 1, &question_verify, NULL, NULL},
    {"await", "NAME SLOT STATE", "Waits until a slot is `free` or `busy`", FOR_AWAIT, 3, 3,
	&question_await, NULL, "The slot need not exist: a removed slot can be waited for."},
    {"create", "NAME [SLOTS]", "Creates a semaphore (default: 1 slot)", FOR_ASKING | FOR_CREATE, 1,
	2, &question_create, NULL,
	"SLOTS: 0 to 10000, or `unlimited`. 0 makes a gate: every client waits.\n"
	"`unlimited`: every client is granted the lock at once."},
    {"resize", "NAME SLOTS", "Changes the number of slots (SLOTS: N, +N, -N or unlimited)",
	FOR_ASKING | FOR_RESIZE, 2, 2, &question_resize, NULL,
	"+N and -N print the new number of slots. 0 makes a gate: every client waits.\n"
	"Holders of removed slots are notified, and keep them until they release them."},
    {"destroy", "NAME", "Removes a semaphore", FOR_ASKING | FOR_DESTROY, 1, 1, &question_destroy,
	NULL, "Holders are notified, and keep their slots until they release them."},
    {"grant", "WAITER", "Lets a waiter start at once, without a slot", FOR_ASKING, 1, 1,
	&question_grant, NULL,
	"WAITER: the last column of `lockbroker show`.\n"
	"The waiter becomes a holder, and releases the lock like any other."},
    {"deny", "WAITER|NAME", "Denies the lock to a waiter, or to all waiters (--all)",
	FOR_ASKING | FOR_DENY, 1, 1, &question_deny, NULL,
	"WAITER: the last column of `lockbroker show`. Its `run` or `acquire` exits with 80.\n"
	"NAME is the name of a lock, and needs --all."},
    {"evict", "HOLDER|NAME", "Ends a hold after a grace, or all holds of a lock (--all)",
	FOR_ASKING | FOR_EVICT, 1, 1, &question_evict, NULL,
	"HOLDER: the last column of `lockbroker show`. The holder is told at once.\n"
	"Its `run` sends TERM to its command then, and KILL before the end of the grace.\n"
	"NAME is the name of a lock, and needs --all."},
    {"fsck", "NAME", "Checks a semaphore, and repairs problems (--repair)",
	FOR_ASKING | FOR_FSCK | FOR_TABLE, 1, 1, &question_fsck, NULL,
	"If the output is no terminal, tabs are between the columns. Exits with 1 if a problem is "
	"left.\n"
	"Exits with 4 if --repair can repair none of the problems that are left. These are\n"
	"slots that are held in another way (see --convert), slot queues with other\n"
	"arguments, and nodes that cannot be reached."},
    {"list", "", "Prints every lock with its slots, busy slots and waiters", FOR_ASKING | FOR_TABLE,
	0, 0, &question_list, NULL,
	"If the output is no terminal, tabs are between the columns.\n"
	"`?`: unknown. `mutex`: a mutex that is held or waited for.\n"
	"`missing`: the semaphore is listed, but does not exist (see fsck)."},
    {"show", "[NAME]", "Prints the holders and waiters of a lock, or of all, on all hosts",
	FOR_ASKING | FOR_TABLE, 0, 1, &question_show, NULL,
	"If the output is no terminal, tabs are between the columns.\n"
	"Without NAME, the first column is the name of the lock.\n"
	"The position is that in the local queue of the daemon of that host."},
    {"watch", "[NAME]", "Prints holders and waiters, and then each change", 0, 0, 1,
	&question_watch, NULL,
	"First prints a line for each holder and waiter, of one lock or of all.\n"
	"Then prints a line that begins with `synced`, and then a line for each change.\n"
	"The WAITER is in brackets."},
    {"top", "", "Shows semaphores, holders and waiters live, with administration keys", 0, 0, 0,
	NULL, cmd_top,
	"Press ? for help. Without a terminal, or with --json, `top` acts as `watch`."},
    {"size", "NAME", "Prints the number of slots of a semaphore, or `unlimited`", FOR_ASKING, 1, 1,
	&question_size, NULL, NULL},
    {"explain", "NAME", "Explains whether an acquire would succeed now, and why not",
	FOR_ASKING | FOR_EXPLAIN, 1, 1, &question_explain, NULL, NULL},
    {"metrics", "", "Prints counts, ages and histograms of the daemon for Prometheus",
	FOR_ASKING | FOR_METRICS, 0, 0, &question_metrics, NULL,
	"FILE is replaced at once. For the textfile collector of node_exporter, its name\n"
	"ends in .prom."},
    {"ping", "", "Checks that the daemon answers", FOR_ASKING | FOR_PING, 0, 0, &question_ping,
	NULL,
	"With --broker it exits with 69 if the daemon's connection to the broker is down.\n"
	"It also does if the broker has been silent for a heartbeat: locks are suspect then."},
    {"info", "", "Prints the state of the daemon and of its connection to the broker", FOR_ASKING,
	0, 0, &question_info, NULL, NULL},
    {"call", "METHOD [JSON]", "Calls a method of the protocol with a JSON object of parameters",
	FOR_ASKING, 1, 2, &question_call, NULL,
	"A lock that the call acquires is released as soon as the call ends."},
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

/* --help puts a title in front of these. */
static const struct {
	const char *first, *title;
} groups[] = {{"run", "Jobs"}, {"create", "Administration"}, {"list", "Look"}, {"ping", "Debug"}};

static void
help(FILE *to)
{
	size_t group = 0;

	fputs("Usage: lockbroker SUBCOMMAND [OPTIONS] [OPERANDS]\n"
	      "Acquires and administers distributed locks through the lockbrokerd of this host.\n",
	    to);
	for (size_t i = 0; i < COMMANDS; i++) {
		if (group < sizeof(groups) / sizeof(groups[0]) &&
		    strcmp(commands[i].name, groups[group].first) == 0)
			fprintf(to, "\n%s:\n", groups[group++].title);
		fprintf(to, "  %-8s %s\n", commands[i].name, commands[i].summary);
	}
	fputs("\n`lockbroker SUBCOMMAND --help` lists its options.\n", to);
}

/* NULL after telling that there is none. */
static const struct command *
find(const char *name)
{
	static const char *const general[] = {"--help", "--version"};
	struct nearest near = {.word = name, .len = strlen(name)};
	bool is_option = name[0] == '-';

	for (size_t i = 0; i < COMMANDS; i++) {
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
		if (!is_option)
			nearest_try(&near, commands[i].name);
	}
	for (size_t i = 0; is_option && i < sizeof(general) / sizeof(general[0]); i++)
		nearest_try(&near, general[i]);
	if (near.found != NULL)
		say("%s: no such %s; did you mean '%s'? (see lockbroker --help)", name,
		    is_option ? "option" : "subcommand", near.found);
	else if (is_option)
		say("%s: options come after the subcommand (see lockbroker --help)", name);
	else
		say("%s: no such subcommand (see lockbroker --help)", name);
	return NULL;
}

static int
perform(const struct command *command, int argc, char *argv[])
{
	struct tool_options options;
	int first = options_parse(command, argc, argv, &options);
	int status;

	if (first < 0)
		return EXIT_STATUS_USAGE;
	if (options.help) {
		options_help(command, stdout);
		return print_done() ? EXIT_STATUS_OK : EXIT_STATUS_IO;
	}
	status = command->question != NULL
		     ? asking_perform(command->question, command->name, &options, argv + first)
		     : command->perform(&options, argv + first);
	/* Output that could not be written is an error. */
	return print_done() || status != EXIT_STATUS_OK ? status : EXIT_STATUS_IO;
}

/* --help, -h, help [SUBCOMMAND] */
static int
cmd_help(const char *name)
{
	const struct command *command;

	if (name == NULL) {
		help(stdout);
	} else if ((command = find(name)) != NULL) {
		options_help(command, stdout);
	} else {
		return EXIT_STATUS_USAGE;
	}
	return print_done() ? EXIT_STATUS_OK : EXIT_STATUS_IO;
}

/*
 * Without this, a closed standard descriptor would be the number of the next file opened. Messages
 * to the user could then go to the daemon, which closes the connection on invalid input. /dev/null
 * fills the gap, open in the wrong direction. It fails like a closed descriptor, and is closed for
 * a COMMAND.
 */
static bool
fill_standard_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		int wrong_way = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;

		if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", wrong_way | O_CLOEXEC) != fd)
			return false;
	}
	return true;
}

int
main(int argc, char *argv[])
{
	const char *name = argc > 1 ? argv[1] : "";
	const struct command *command;

	if (!fill_standard_descriptors()) {
		say("/dev/null: %m");
		return EXIT_STATUS_INTERNAL;
	}
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
		return cmd_help(NULL);
	if (strcmp(name, "help") == 0)
		return cmd_help(argv[2]);
	if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
		printf("lockbroker %s\n", lb_version());
		return print_done() ? EXIT_STATUS_OK : EXIT_STATUS_IO;
	}
	if (argc < 2) {
		help(stderr);
		return EXIT_STATUS_USAGE;
	}
	command = find(name);
	return command != NULL ? perform(command, argc - 1, argv + 1) : EXIT_STATUS_USAGE;
}
