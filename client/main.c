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

static const struct command commands[] = {
    {"run", "NAME [--] COMMAND [ARGUMENT...]", "Runs a command while holding a lock", FOR_RUN, 1,
	-1, NULL, cmd_run,
	"The lock is given back when all that COMMAND has started is gone, not only COMMAND: what "
	"goes\n"
	"into the background, with setsid(1) too, keeps it. When `run` itself gets KILL only "
	"COMMAND\n"
	"dies with it, and what that has started goes on without the lock."},
    {"acquire", "NAME", "Prints the grant and holds the lock until stdin ends or a signal comes",
	FOR_ACQUIRE, 1, 1, NULL, cmd_acquire,
	"Stdin must be a pipe, a socket or a terminal that has not ended, unless $NOTIFY_SOCKET is "
	"set."},
    {"verify", "[LOCK]", "Asks whether a hold still stands ($LOCKBROKER_LOCK)", FOR_ASKING, 0, 1,
	&question_verify, NULL, NULL},
    {"create", "NAME [SLOTS]", "Creates a semaphore, with 1 slot unless told",
	FOR_ASKING | FOR_CREATE, 1, 2, &question_create, NULL,
	"SLOTS: 0 to 10000; 0 is a gate at which all who ask wait. Or `unlimited`: who asks is "
	"granted "
	"at\n"
	"once."},
    {"resize", "NAME SLOTS", "Changes the number of slots: N, +N, -N or unlimited",
	FOR_ASKING | FOR_RESIZE, 2, 2, &question_resize, NULL,
	"+N and -N print the number of slots that there are then. Who holds a slot that is removed "
	"goes "
	"on\n"
	"until it is done, and is told. Removing all (0) makes a gate at which all who ask wait."},
    {"destroy", "NAME", "Removes a semaphore", FOR_ASKING | FOR_DESTROY, 1, 1, &question_destroy,
	NULL, "Who holds a slot goes on until it is done, and is told."},
    {"size", "NAME", "Prints how many slots a semaphore has, or `unlimited`", FOR_ASKING, 1, 1,
	&question_size, NULL, NULL},
    {"await", "NAME SLOT STATE", "Waits until a slot is `free`, or `taken`", FOR_AWAIT, 3, 3,
	&question_await, NULL,
	"Whether the slot exists is not asked: one that was removed can be waited for."},
    {"list", "", "Prints every semaphore: its slots, how many are busy, how many wait", FOR_ASKING,
	0, 0, &question_list, NULL,
	"On a terminal a table; else a line each, with tabs between: name, slots, busy, waiting.\n"
	"`?`: not known. `missing`: listed, but it does not exist (see fsck)."},
    {"show", "NAME", "Prints who holds a lock and who waits for it, on all hosts", FOR_ASKING, 1, 1,
	&question_show, NULL,
	"On a terminal a table; else a line each, with tabs between: state, slot, position, who, "
	"why,\n"
	"command, uid, pid, host, age, waiter. The position is that at its host's daemon."},
    {"watch", "[NAME]", "Prints who holds and who waits, line by line as it changes", 0, 0, 1,
	&question_watch, NULL,
	"First a line for each that holds or waits, of one lock or of all, up to a line that "
	"begins\n"
	"with `synced`; then one for each that comes, changes or is gone. The WAITER is in "
	"brackets."},
    {"top", "", "Shows semaphores and rows live, with keys to steer them", 0, 0, 0, NULL, cmd_top,
	"? tells the keys. Where there is no terminal, and with --json, it does what watch does."},
    {"grant", "WAITER", "Lets one that waits start at once, without a slot", FOR_ASKING, 1, 1,
	&question_grant, NULL,
	"WAITER: the last column of lockbroker show. Who is let in gives the lock back as all "
	"others do."},
    {"deny", "WAITER|NAME", "Lets one that waits fail, or with --all all that wait",
	FOR_ASKING | FOR_DENY, 1, 1, &question_deny, NULL,
	"WAITER: the last column of lockbroker show; with --all the NAME of a lock."},
    {"fsck", "NAME", "Looks for what is wrong with a semaphore, and repairs it",
	FOR_ASKING | FOR_FSCK, 1, 1, &question_fsck, NULL,
	"On a terminal a table; else a line each, with tabs between: what, slot, whether it was "
	"repaired,\n"
	"in words. Exits with 1 when something was found and not repaired, and with 4 when that "
	"is\n"
	"nothing that it repairs: orphans, which go when their holders are done, and slots "
	"declared "
	"with\n"
	"other arguments, which work."},
    {"explain", "NAME", "Tells why an acquire would not succeed now", FOR_ASKING | FOR_EXPLAIN, 1,
	1, &question_explain, NULL, NULL},
    {"info", "", "Prints how the daemon and its broker are", FOR_ASKING, 0, 0, &question_info, NULL,
	NULL},
    {"ping", "", "Asks whether the daemon answers", FOR_ASKING | FOR_PING, 0, 0, &question_ping,
	NULL, NULL},
    {"call", "METHOD [JSON]", "Calls a method of the wire with an object of parameters", FOR_ASKING,
	1, 2, &question_call, NULL,
	"What is acquired by a call is given back when the call ends, and that is at once."},
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void
help(FILE *to)
{
	fputs("Usage: lockbroker SUBCOMMAND [OPTIONS] [OPERANDS]\n"
	      "Distributed locks, by way of this host's lockbrokerd.\n\n",
	    to);
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(to, "  %-8s %s\n", commands[i].name, commands[i].summary);
	fputs("\nlockbroker SUBCOMMAND --help tells its options.\n", to);
}

/* NULL after telling that there is none. */
static const struct command *
find(const char *name)
{
	for (size_t i = 0; i < COMMANDS; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	say("%s: no such subcommand", name);
	return NULL;
}

static int
perform(const struct command *command, int argc, char *argv[])
{
	struct options options;
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
	/* What could not be written was not said. */
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
		help(stderr);
		return EXIT_STATUS_USAGE;
	}
	return print_done() ? EXIT_STATUS_OK : EXIT_STATUS_IO;
}

/*
 * A standard descriptor that is closed would be the number of the next one that is opened, and what is
 * said to people would be said to the daemon, which hangs up on nonsense. What fills the gap can be read
 * or written as little as one that is closed, and is closed for a COMMAND.
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
	if (strcmp(name, "--version") == 0) {
		printf("lockbroker %s\n", lb_version());
		return print_done() ? EXIT_STATUS_OK : EXIT_STATUS_IO;
	}
	command = argc > 1 ? find(name) : NULL;
	if (command != NULL)
		return perform(command, argc - 1, argv + 1);
	help(stderr);
	return EXIT_STATUS_USAGE;
}
