#include "client/options.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "client/exit_status.h"
#include "client/lockbroker.h"
#include "client/output.h"
#include "protocol/duration.h"

/* Options without a letter are numbered above all letters. */
enum option_id {
	OPTION_BROKER = 256,
	OPTION_CREATE,
	OPTION_EXIST_OK,
	OPTION_FOREGROUND,
	OPTION_JSON,
	OPTION_MUTEX,
	OPTION_ON_LOST,
	OPTION_ON_REVOKE,
	OPTION_PRIORITY,
	OPTION_SHELL,
	OPTION_SOCKET,
	OPTION_STATUS_FD,
	OPTION_VERBOSE,
	OPTION_WHO,
	OPTION_WHY
};

static const struct option_row rows[] = {
    {'n', "nonblock", NULL, FOR_RUN | FOR_ACQUIRE, "do not wait for the lock"},
    {'w', "wait", "DUR", FOR_RUN | FOR_ACQUIRE, "wait no longer than that (90, 1.5, 2m, 1h)"},
    {'E', "conflict-exit-code", "N", FOR_RUN, "exit status when the lock was not got (75)"},
    {OPTION_CREATE, "create", "[SLOTS]", FOR_RUN | FOR_ACQUIRE,
	"create the lock when there is none (with 1 slot)"},
    {OPTION_MUTEX, "mutex", NULL, FOR_RUN | FOR_ACQUIRE, "a mutex, which needs no create"},
    {OPTION_PRIORITY, "priority", "N", FOR_RUN | FOR_ACQUIRE,
	"-100 to 100, higher is served first (0)"},
    {OPTION_WHO, "who", "TEXT", FOR_RUN | FOR_ACQUIRE, "who holds it, for others to read"},
    {OPTION_WHY, "why", "TEXT", FOR_RUN | FOR_ACQUIRE, "and why"},
    {'c', "command", "STRING", FOR_RUN, "have the shell run STRING; then there is no COMMAND"},
    {'s', "signal", "SIG", FOR_RUN, "what a loss sends first (TERM)"},
    {'k', "kill-after", "DUR", FOR_RUN,
	"and how long after it KILL follows (0.4 heartbeats, at most 5 s)"},
    {OPTION_ON_LOST, "on-lost", "WHAT", FOR_RUN, "kill (default), ignore, signal:SIG, run:COMMAND"},
    {OPTION_ON_REVOKE, "on-revoke", "WHAT", FOR_RUN, "ignore (default), kill, signal:SIG"},
    {OPTION_FOREGROUND, "foreground", NULL, FOR_RUN, "no process group of its own for COMMAND"},
    {OPTION_STATUS_FD, "status-fd", "N", FOR_RUN, "write what happens to it, as lines of JSON"},
    {OPTION_VERBOSE, "verbose", NULL, FOR_RUN | FOR_ACQUIRE, "say what is done"},
    {OPTION_SHELL, "shell", NULL, FOR_ACQUIRE, "print assignments for a shell instead of JSON"},
    {OPTION_EXIST_OK, "exist-ok", NULL, FOR_CREATE, "fine if it exists with as many slots"},
    {OPTION_BROKER, "broker", NULL, FOR_PING, "ask for the broker too; 69 unless it is up"},
    {OPTION_SOCKET, "socket", "PATH", FOR_ALL,
	"the daemon's socket ($LOCKBROKER_SOCKET, or\n" LB_DEFAULT_SOCKET ")"},
    {OPTION_JSON, "json", NULL, FOR_ALL, "results and errors as JSON"},
    {'h', "help", NULL, FOR_ALL, "this text"},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

const struct option_row *
options_row(size_t index)
{
	return index < ROWS ? &rows[index] : NULL;
}

static bool
takes(const struct command *command, const struct option_row *row)
{
	return row->users == FOR_ALL || (row->users & (int)command->user) != 0;
}

void
options_help(const struct command *command, FILE *to)
{
	fprintf(to, "Usage: lockbroker %s [OPTIONS]%s%s\n%s.\n\n", command->name,
	    *command->operands != '\0' ? " " : "", command->operands, command->summary);
	for (size_t i = 0; i < ROWS; i++) {
		const struct option_row *row = &rows[i];
		const char *text = row->help;
		char left[64], letter[8] = "   ";
		bool optional = row->argument != NULL && row->argument[0] == '[';

		if (!takes(command, row))
			continue;
		if (row->id < OPTION_BROKER)
			snprintf(letter, sizeof(letter), "-%c,", row->id);
		snprintf(left, sizeof(left), "%s --%s%s%.*s%s", letter, row->name,
		    row->argument == NULL ? ""
		    : optional            ? "[="
					  : "=",
		    row->argument == NULL ? 0 : (int)strlen(row->argument) - 2 * optional,
		    row->argument == NULL ? "" : row->argument + optional, optional ? "]" : "");
		for (const char *end; (end = strchr(text, '\n')) != NULL; text = end + 1) {
			fprintf(to, "  %-32s %.*s\n", left, (int)(end - text), text);
			left[0] = '\0';
		}
		fprintf(to, "  %-32s %s\n", left, text);
	}
}

/* ---- arguments ---- */

static bool
parse_number(const char *text, long least, long most, int *ret)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (end == text || *end != '\0' || errno != 0 || value < least || value > most ||
	    *text == ' ')
		return false;
	*ret = (int)value;
	return true;
}

static bool
parse_duration(const char *text, int64_t *ret_ms)
{
	int64_t ns;

	if (duration_parse(text, &ns) != NULL)
		return false;
	*ret_ms = ns / 1000000 + (ns % 1000000 != 0);
	return true;
}

static bool
parse_signal(const char *text, int *ret)
{
	const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;

	if (parse_number(text, 1, SIGRTMAX, ret))
		return true;
	for (int signo = 1; signo < SIGRTMIN; signo++) {
		const char *known = sigabbrev_np(signo);

		if (known != NULL && strcasecmp(known, name) == 0) {
			*ret = signo;
			return true;
		}
	}
	return false;
}

static bool
parse_reaction(const char *text, bool may_run, struct reaction *ret)
{
	int signo;

	if (strcmp(text, "kill") == 0) {
		*ret = (struct reaction){.kind = REACTION_KILL};
	} else if (strcmp(text, "ignore") == 0) {
		*ret = (struct reaction){.kind = REACTION_IGNORE};
	} else if (strncmp(text, "signal:", 7) == 0 && parse_signal(text + 7, &signo)) {
		*ret = (struct reaction){.kind = REACTION_SIGNAL, .signal = signo};
	} else if (may_run && strncmp(text, "run:", 4) == 0 && text[4] != '\0') {
		*ret = (struct reaction){.kind = REACTION_RUN, .command = text + 4};
	} else {
		return false;
	}
	return true;
}

/* A descriptor that can be written to; the child is not to have it, unless it is one of the usual. */
static bool
parse_descriptor(const char *text, int *ret)
{
	int fd, flags;

	if (!parse_number(text, 1, 1 << 20, &fd))
		return false;
	flags = fcntl(fd, F_GETFL);
	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
		return false;
	if (fd > 2 && fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
		return false;
	*ret = fd;
	return true;
}

/* False: the argument is not valid. */
static bool
apply(int id, const char *argument, struct options *options)
{
	switch (id) {
	case 'n':
		options->wait_ms = 0;
		return true;
	case 'w':
		return parse_duration(argument, &options->wait_ms);
	case 'E':
		return parse_number(argument, 0, 255, &options->conflict_status);
	case 'c':
		options->shell_command = argument;
		return true;
	case 's':
		return parse_signal(argument, &options->signal);
	case 'k':
		return parse_duration(argument, &options->kill_after_ms);
	case 'h':
		options->help = true;
		return true;
	case OPTION_BROKER:
		options->broker = true;
		return true;
	case OPTION_CREATE:
		options->create = 1;
		return argument == NULL || parse_number(argument, 1, 10000, &options->create);
	case OPTION_EXIST_OK:
		options->exist_ok = true;
		return true;
	case OPTION_FOREGROUND:
		options->foreground = true;
		return true;
	case OPTION_JSON:
		options->json = true;
		return true;
	case OPTION_MUTEX:
		options->mutex = true;
		return true;
	case OPTION_ON_LOST:
		return parse_reaction(argument, true, &options->on_lost);
	case OPTION_ON_REVOKE:
		return parse_reaction(argument, false, &options->on_revoke);
	case OPTION_PRIORITY:
		return parse_number(argument, -100, 100, &options->priority);
	case OPTION_SHELL:
		options->shell = true;
		return true;
	case OPTION_SOCKET:
		options->socket = argument;
		return true;
	case OPTION_STATUS_FD:
		return parse_descriptor(argument, &options->status_fd);
	case OPTION_VERBOSE:
		options->verbose = true;
		return true;
	case OPTION_WHO:
		options->who = argument;
		return true;
	default:
		options->why = argument;
		return true;
	}
}

/* ---- getopt ---- */

struct getopt_tables {
	char letters[2 * ROWS + 3];
	struct option names[ROWS + 1];
};

static void
make_tables(const struct command *command, struct getopt_tables *ret)
{
	struct option *name = ret->names;
	char *letter = ret->letters;

	/* "+": options end at the first operand; ":": a missing argument is told apart. */
	*letter++ = '+';
	*letter++ = ':';
	for (size_t i = 0; i < ROWS; i++) {
		const struct option_row *row = &rows[i];
		int argument = row->argument == NULL     ? no_argument
			       : row->argument[0] == '[' ? optional_argument
							 : required_argument;

		if (!takes(command, row))
			continue;
		*name++ = (struct option){.name = row->name, .has_arg = argument, .val = row->id};
		if (row->id >= OPTION_BROKER)
			continue;
		*letter++ = (char)row->id;
		if (argument == required_argument)
			*letter++ = ':';
	}
	*name = (struct option){.name = NULL};
	*letter = '\0';
}

static int
refuse(const struct command *command, const char *what, const char *which)
{
	say("%s: %s: %s (see lockbroker %s --help)", command->name, what, which, command->name);
	return -1;
}

static int
check_operands(const struct command *command, int argc, char *argv[], const struct options *options)
{
	int count = argc - optind;

	if (options->help)
		return optind;
	if (count < command->least)
		return refuse(command, "something is missing", command->operands);
	if (command->most >= 0 && count > command->most)
		return refuse(command, "too much", argv[optind + command->most]);
	return optind;
}

int
options_parse(const struct command *command, int argc, char *argv[], struct options *ret)
{
	struct getopt_tables tables;
	int id;

	*ret = (struct options){
	    .wait_ms = LB_FOREVER,
	    .conflict_status = EXIT_STATUS_NOT_ACQUIRED,
	    .signal = SIGTERM,
	    .kill_after_ms = -1,
	    .on_lost = {.kind = REACTION_KILL},
	    .on_revoke = {.kind = REACTION_IGNORE},
	    .status_fd = -1,
	};
	make_tables(command, &tables);
	opterr = 0;
	optind = 1;
	while ((id = getopt_long(argc, argv, tables.letters, tables.names, NULL)) != -1) {
		if (id == '?')
			return refuse(command, "no such option", argv[optind - 1]);
		if (id == ':')
			return refuse(command, "an argument is missing", argv[optind - 1]);
		if (!apply(id, optarg, ret))
			return refuse(command, "not a value for the option", optarg);
	}
	return check_operands(command, argc, argv, ret);
}
