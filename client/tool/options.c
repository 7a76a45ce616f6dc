#include "client/tool/options.h"

#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <string.h>

#include "client/exit_status.h"
#include "client/lockbroker.h"
#include "client/tool/option_values.h"
#include "client/tool/output.h"
#include "daemon/base/nearest.h"

/* Options without a letter are numbered above all letters. */
enum option_id {
	OPTION_ALL = 256,
	OPTION_ASCENDING,
	OPTION_BROKER,
	OPTION_BROKER_ENV,
	OPTION_BROKER_FILE,
	OPTION_CLAIM,
	OPTION_COMMAND_TEXT,
	OPTION_CONVERT,
	OPTION_CREATE,
	OPTION_HOLDER_WAIT,
	OPTION_EXIST_OK,
	OPTION_FORCE,
	OPTION_FOREGROUND,
	OPTION_FORMAT,
	OPTION_FOR_PID,
	OPTION_GRACE,
	OPTION_JSON,
	OPTION_KIND,
	OPTION_MUTEX,
	OPTION_LOST_SIGNAL,
	OPTION_ON_LOST,
	OPTION_NO_HEADERS,
	OPTION_ON_REVOKE,
	OPTION_OVERSHOOT,
	OPTION_TAKEOVER_GRACE,
	OPTION_PRIORITY,
	OPTION_RELEASE_ON,
	OPTION_REPAIR,
	OPTION_REPLACE,
	OPTION_SHELL,
	OPTION_SOCKET,
	OPTION_STATUS_FD,
	OPTION_TIMEOUT,
	OPTION_VERBOSE,
	OPTION_WHO,
	OPTION_WHY,
	OPTION_LAST
};
#define OPTION_FIRST_LONG OPTION_ALL

/* More of an unknown option than anybody needs to recognise it. */
#define OPTION_TEXT_SIZE 80

/* The longest grace that the wire takes. */
#define GRACE_MOST_MS 86400000

#define AT(member) offsetof(struct tool_options, member)

static const struct option_row rows[] = {
    {'n', "nonblock", NULL, FOR_RUN | FOR_ACQUIRE, "do not wait for the lock", 0},
    {'n', "nonblock", NULL, FOR_AWAIT, "check once, and do not wait", 0},
    {'w', "wait", "DUR", FOR_RUN | FOR_ACQUIRE | FOR_AWAIT, "wait at most DUR", 0},
    {OPTION_HOLDER_WAIT, "wait", "[DUR]", FOR_RESIZE | FOR_DESTROY,
	"wait until removed slots are free, at most DUR", 0},
    {OPTION_HOLDER_WAIT, "wait", "[DUR]", FOR_FSCK,
	"with --repair: wait for busy slots that are not converted yet, at most DUR", 0},
    {'E', "conflict-exit-code", "N", FOR_RUN, "exit status if the wait ends without the lock (75)",
	0},
    {OPTION_CREATE, "create", "[SLOTS]", FOR_RUN | FOR_ACQUIRE,
	"create the lock if it does not exist (1 slot)", 0},
    {OPTION_KIND, "kind", "KIND", FOR_RUN | FOR_ACQUIRE | FOR_EXPLAIN,
	"semaphore (default), persistent-mutex, mutex", 0},
    {OPTION_KIND, "kind", "KIND", FOR_CREATE, "semaphore (default), persistent-mutex", 0},
    {OPTION_MUTEX, "mutex", NULL, FOR_RUN | FOR_ACQUIRE | FOR_EXPLAIN,
	"same as --kind=mutex; a mutex needs no create", 0},
    {OPTION_PRIORITY, "priority", "N", FOR_RUN | FOR_ACQUIRE,
	"-100 to 100; higher is served first (0)", 0},
    {OPTION_WHO, "who", "TEXT", FOR_RUN | FOR_ACQUIRE,
	"name of the requester, for show and the log (USER@HOST)", AT(who)},
    {OPTION_WHY, "why", "TEXT", FOR_RUN | FOR_ACQUIRE, "reason, for show and the log", AT(why)},
    {OPTION_WHY, "why", "TEXT", FOR_EVICT, "reason, for the holders and the log", AT(why)},
    {OPTION_REPLACE, "replace", NULL, FOR_RUN,
	"if no slot is free: evict the holder that has had one for longest", AT(replace)},
    {OPTION_GRACE, "grace", "DUR", FOR_EVICT | FOR_RUN,
	"time until an evicted hold ends, at most 24h (30s)", 0},
    {OPTION_COMMAND_TEXT, "command-text", "TEXT", FOR_RUN | FOR_ACQUIRE,
	"command, for show (the program's name, without its arguments)", AT(command_text)},
    {'c', "command", "STRING", FOR_RUN, "run STRING with the shell, instead of COMMAND",
	AT(shell_command)},
    {'s', "signal", "SIG", FOR_RUN, "first signal if the lock is lost (TERM)", 0},
    {'k', "kill-after", "DUR", FOR_RUN,
	"time from that signal to KILL (0.4 heartbeats, at most 5 s)", 0},
    {OPTION_ON_LOST, "on-lost", "WHAT", FOR_RUN,
	"if the lock is lost: kill (default), ignore,\nsignal:SIG, run:COMMAND", 0},
    {OPTION_FOR_PID, "for-pid", "PID", FOR_ACQUIRE,
	"hold the lock in the background until process PID ends", 0},
    {OPTION_FOR_PID, "for-pid", "PID", FOR_RELEASE, "the process that the locks are held for", 0},
    {OPTION_LOST_SIGNAL, "on-lost", "SIG", FOR_ACQUIRE,
	"with --for-pid: signal for PID if the lock is lost (TERM), or ignore", 0},
    {OPTION_ON_REVOKE, "on-revoke", "WHAT", FOR_RUN,
	"if the slot is removed: ignore (default), kill,\nsignal:SIG", 0},
    {OPTION_FOREGROUND, "foreground", NULL, FOR_RUN,
	"accepted for older scripts; COMMAND always stays in the process group", 0},
    {OPTION_RELEASE_ON, "release-on", "WHEN", FOR_RUN,
	"all (default): when COMMAND and its descendants have ended;\nexit: when COMMAND has", 0},
    {OPTION_STATUS_FD, "status-fd", "N", FOR_RUN, "write events to descriptor N, as lines of JSON",
	0},
    {OPTION_VERBOSE, "verbose", NULL, FOR_RUN | FOR_ACQUIRE, "report progress on stderr",
	AT(verbose)},
    {OPTION_SHELL, "shell", NULL, FOR_ACQUIRE, "print shell assignments for eval, instead of JSON",
	AT(shell)},
    {'q', "quiet", NULL, FOR_ACQUIRE, "do not print the grant", AT(quiet)},
    {OPTION_BROKER_FILE, "broker-file", "FILE", FOR_RUN | FOR_ASKING,
	"run a private lockbrokerd; FILE has the broker's URL", AT(broker_file)},
    {OPTION_BROKER_ENV, "broker-env", "VARIABLE", FOR_RUN | FOR_ASKING,
	"the same; the environment variable has the URL", AT(broker_env)},
    {OPTION_CLAIM, "claim", "WAY", FOR_CREATE,
	"how slots are held: exclusive-queue, consumer, quorum", 0},
    {OPTION_CLAIM, "claim", "WAY", FOR_RESIZE,
	"how the first slots of a semaphore without slots are held", 0},
    {OPTION_EXIST_OK, "exist-ok", NULL, FOR_CREATE,
	"succeed if the semaphore exists with that number of slots", AT(exist_ok)},
    {OPTION_ASCENDING, "ascending", NULL, FOR_RESIZE | FOR_DESTROY,
	"remove the lowest slots first, not the highest", AT(ascending)},
    {OPTION_TAKEOVER_GRACE, "takeover-grace", "DURATION", FOR_CREATE | FOR_RESIZE | FOR_FSCK,
	"by quorum: the wait after a hold that did not end cleanly", 0},
    {OPTION_FORCE, "force", NULL, FOR_CREATE | FOR_RESIZE,
	"by quorum: the clock is right, a year after the last change", AT(force)},
    {OPTION_OVERSHOOT, "overshoot", "N", FOR_CREATE | FOR_RESIZE | FOR_DESTROY,
	"look for uncounted slots up to N above the size (256)", 0},
    {OPTION_REPAIR, "repair", NULL, FOR_FSCK, "repair the problems that were found", AT(repair)},
    {OPTION_CONVERT, "convert", "WAY", FOR_FSCK,
	"with --repair: how slots are to be held: exclusive-queue, consumer, quorum", 0},
    {OPTION_ALL, "all", NULL, FOR_DENY, "all waiters of the lock NAME", AT(all)},
    {OPTION_ALL, "all", NULL, FOR_EVICT, "all holders of the lock NAME", AT(all)},
    {OPTION_BROKER, "broker", NULL, FOR_PING, "check the broker too; exit with 69 unless it is up",
	AT(broker)},
    {OPTION_FORMAT, "format", "FORMAT", FOR_METRICS, "prometheus (default), openmetrics",
	AT(format)},
    {'o', "output", "FILE", FOR_METRICS, "write to FILE instead of stdout", AT(output)},
    {OPTION_NO_HEADERS, "no-headers", NULL, FOR_TABLE, "print tables without the line of titles",
	AT(no_headers)},
    {OPTION_TIMEOUT, "timeout", "DUR", FOR_ASKING, "wait at most DUR for the answer", 0},
    {OPTION_SOCKET, "socket", "PATH", FOR_ALL,
	"the daemon's socket ($LOCKBROKER_SOCKET, or\n" LB_DEFAULT_SOCKET ")", AT(socket)},
    {OPTION_JSON, "json", NULL, FOR_ALL, "print results and errors as JSON", AT(json)},
    {'h', "help", NULL, FOR_ALL, "print the options", AT(help)},
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
	return row->users == FOR_ALL || (row->users & command->user) != 0;
}

void
options_help(const struct command *command, FILE *to)
{
	bool durations = false;

	fprintf(to, "Usage: lockbroker %s [OPTIONS]%s%s\n%s.\n\n", command->name,
	    *command->operands != '\0' ? " " : "", command->operands, command->summary);
	for (size_t i = 0; i < ROWS; i++) {
		const struct option_row *row = &rows[i];
		const char *text = row->help;
		char left[64], letter[8] = "   ";
		bool optional = row->argument != NULL && row->argument[0] == '[';

		if (!takes(command, row))
			continue;
		if (row->id < OPTION_FIRST_LONG)
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
		durations |= row->argument != NULL && strstr(row->argument, "DUR") != NULL;
	}
	if (durations)
		fputs(
		    "\nDUR: seconds, or a number followed by s, m, h or d: 90, 1.5, 2m, 1h.\n", to);
	if (command->notes != NULL)
		fprintf(to, "\n%s\n", command->notes);
}

/* ---- the effect of each option ---- */

/*
 * The time to wait for holders. 0 is not allowed: it means no wait at all, but the user asked for
 * one.
 */
static const char *
option_holder_wait(const char *argument, int64_t *ret_ms)
{
	const char *wanted = NULL;

	*ret_ms = LB_FOREVER;
	if (argument != NULL)
		wanted = option_duration(argument, ret_ms);
	return *ret_ms == 0 ? "more than 0: without --wait, lockbroker does not wait" : wanted;
}

/* A daemon has to have some time to answer. */
static const char *
option_timeout(const char *argument, int64_t *ret_ms)
{
	const char *wanted = option_duration(argument, ret_ms);

	return wanted == NULL && *ret_ms == 0 ? "more than 0" : wanted;
}

static const char *
option_grace(const char *argument, int64_t *ret_ms)
{
	const char *wanted = option_duration(argument, ret_ms);

	return wanted == NULL && *ret_ms > GRACE_MOST_MS ? "at most 24h" : wanted;
}

/* A signal; 0: none. */
static const char *
option_lost_signal(const char *argument, int *ret)
{
	if (strcmp(argument, "ignore") != 0)
		return option_signal(argument, ret);
	*ret = 0;
	return NULL;
}

/* NULL, or the expected form of the argument. */
static const char *
apply(int id, const char *argument, struct tool_options *options)
{
	const struct option_row *row = rows;
	void *at;

	while (row->id != id)
		row++;
	at = (char *)options + row->at;
	if (row->at != 0 && row->argument == NULL)
		*(bool *)at = true;
	else if (row->at != 0)
		*(const char **)at = argument;
	switch (id) {
	case 'n':
		options->wait_ms = 0;
		break;
	case 'w':
		return option_duration(argument, &options->wait_ms);
	case 'E':
		return option_number(argument, 0, 255, "0 to 255", &options->conflict_status);
	case 's':
		return option_signal(argument, &options->signal);
	case 'k':
		return option_duration(argument, &options->kill_after_ms);
	case OPTION_CLAIM:
		return option_claim(argument, &options->claim);
	case OPTION_CONVERT:
		return option_claim(argument, &options->convert);
	case OPTION_CREATE:
		options->create = 1;
		return argument == NULL ? NULL
					: option_number(argument, 1, 10000, "1 to 10000 slots",
					      &options->create);
	case OPTION_GRACE:
		return option_grace(argument, &options->grace_ms);
	case OPTION_HOLDER_WAIT:
		return option_holder_wait(argument, &options->holder_wait_ms);
	case OPTION_KIND:
		return option_kind(argument, &options->kind);
	case OPTION_MUTEX:
		options->kind = LB_MUTEX;
		break;
	case OPTION_FOR_PID:
		return option_number(
		    argument, 1, INT_MAX, "the number of a process", &options->for_pid);
	case OPTION_LOST_SIGNAL:
		return option_lost_signal(argument, &options->lost_signal);
	case OPTION_ON_LOST:
		return option_reaction(argument, true, &options->on_lost);
	case OPTION_ON_REVOKE:
		return option_reaction(argument, false, &options->on_revoke);
	case OPTION_OVERSHOOT:
		return option_number(argument, 0, 10000, "0 to 10000 slots", &options->overshoot);
	case OPTION_PRIORITY:
		return option_number(argument, -100, 100, "-100 to 100", &options->priority);
	case OPTION_RELEASE_ON:
		options->release_on_exit = strcmp(argument, "exit") == 0;
		return options->release_on_exit || strcmp(argument, "all") == 0 ? NULL
										: "all or exit";
	case OPTION_STATUS_FD:
		return option_descriptor(argument, &options->status_fd);
	case OPTION_TAKEOVER_GRACE:
		return option_duration(argument, &options->takeover_grace_ms);
	case OPTION_TIMEOUT:
		return option_timeout(argument, &options->timeout_ms);
	default:
		break;
	}
	return NULL;
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
		if (row->id >= OPTION_FIRST_LONG)
			continue;
		*letter++ = (char)row->id;
		if (argument == required_argument)
			*letter++ = ':';
	}
	*name = (struct option){.name = NULL};
	*letter = '\0';
}

static int
refuse(const struct command *command, const char *which, const char *what)
{
	say("%s: %s: %s (see lockbroker %s --help)", command->name, which, what, command->name);
	return -1;
}

static int
refuse_unknown(const struct command *command, const char *which, const struct option names[])
{
	char what[OPTION_TEXT_SIZE] = "no such option";
	struct nearest near = {.word = which, .len = 0};

	if (strncmp(which, "--", 2) == 0)
		near = (struct nearest){.word = which + 2, .len = strcspn(which + 2, "=")};
	for (; near.len > 0 && names->name != NULL; names++)
		nearest_try(&near, names->name);
	if (near.found != NULL)
		snprintf(what, sizeof(what), "no such option; did you mean --%s?", near.found);
	return refuse(command, which, what);
}

static int
refuse_missing(const struct command *command, int given)
{
	const char *word = command->operands;

	for (; given > 0; given--)
		word = strchr(word, ' ') + 1;
	say("%s: missing %.*s%s (see lockbroker %s --help)", command->name, (int)strcspn(word, " "),
	    word, (command->user & (FOR_DENY | FOR_EVICT)) != 0 ? ": NAME needs --all" : "",
	    command->name);
	return -1;
}

/* An option as it was written: by its long name, by its letter, or, when unknown, as a word. */
static const char *
written(char buf[OPTION_TEXT_SIZE], const struct option *name, int letter, const char *word)
{
	if (name != NULL)
		snprintf(buf, OPTION_TEXT_SIZE, "--%s", name->name);
	else if (letter > 0 && letter < OPTION_FIRST_LONG && strncmp(word, "--", 2) != 0)
		snprintf(buf, OPTION_TEXT_SIZE, "-%c", letter);
	else
		snprintf(buf, OPTION_TEXT_SIZE, "%s", word);
	return buf;
}

/* `--create 3 db`: the number would be the name of a lock, and db the command. */
static bool
is_lost_number(const char *option, const char *operand)
{
	return strcmp(option, "--create") == 0 && *operand != '\0' &&
	       operand[strspn(operand, "0123456789")] == '\0';
}

static int
refuse_lost_number(const struct command *command, const char *number)
{
	say("%s: %s: did you mean --create=%s? (for a lock of that name: --create -- %s)",
	    command->name, number, number, number);
	return -1;
}

static bool
check_operands(const struct command *command, int count, char *operands[], bool bare_wait)
{
	if (count < command->least) {
		refuse_missing(command, count);
		return false;
	}
	if (command->most >= 0 && count > command->most) {
		refuse(command, operands[command->most],
		    bare_wait ? "unexpected argument, or did you mean --wait=DUR?"
			      : "unexpected argument");
		return false;
	}
	return true;
}

/*
 * Whether the next argument is an operand. A negative number is one, unless it would be the COMMAND of
 * `run`.
 */
static bool
is_operand(const struct command *command, const char *word)
{
	return word[0] != '-' || word[1] == '\0' ||
	       (command->most >= 0 && word[1] >= '0' && word[1] <= '9');
}

/* Checks for options that contradict each other. */
static bool
check_together(const struct command *command, const bool given[OPTION_LAST],
    const struct tool_options *options)
{
	if (given['n'] && given['w']) {
		say("%s: --nonblock and --wait exclude each other", command->name);
		return false;
	}
	if (given['n'] && options->replace) {
		say("%s: --nonblock and --replace exclude each other", command->name);
		return false;
	}
	if ((command->user & FOR_RUN) != 0 && given[OPTION_GRACE] && !options->replace) {
		say("%s: --grace needs --replace", command->name);
		return false;
	}
	if (given[OPTION_BROKER_FILE] + given[OPTION_BROKER_ENV] + given[OPTION_SOCKET] > 1) {
		say("%s: --broker-file, --broker-env and --socket exclude each other",
		    command->name);
		return false;
	}
	if (given[OPTION_LOST_SIGNAL] && !given[OPTION_FOR_PID]) {
		say("%s: --on-lost needs --for-pid", command->name);
		return false;
	}
	if ((command->user & FOR_RELEASE) != 0 && !given[OPTION_FOR_PID]) {
		say("%s: missing --for-pid: only locks of acquire --for-pid are released in this "
		    "way (see lockbroker %s --help)",
		    command->name, command->name);
		return false;
	}
	if (options->quiet && (options->json || options->shell)) {
		say("%s: --quiet excludes --json and --shell", command->name);
		return false;
	}
	if (given[OPTION_MUTEX] && given[OPTION_KIND]) {
		say("%s: --mutex and --kind exclude each other", command->name);
		return false;
	}
	if (options->kind == LB_MUTEX && (command->user & FOR_CREATE) != 0) {
		say("create: a mutex is not created; use lockbroker run --mutex NAME COMMAND");
		return false;
	}
	if ((command->user & FOR_FSCK) != 0 && !options->repair &&
	    (given[OPTION_CONVERT] || given[OPTION_TAKEOVER_GRACE] || given[OPTION_HOLDER_WAIT])) {
		say("%s: --%s needs --repair", command->name,
		    given[OPTION_CONVERT]          ? "convert"
		    : given[OPTION_TAKEOVER_GRACE] ? "takeover-grace"
						   : "wait");
		return false;
	}
	if (options->kind == LB_MUTEX && options->create > 0) {
		say("%s: --create does not apply to a mutex", command->name);
		return false;
	}
	if (options->kind == LB_PERSISTENT_MUTEX && options->create > 1) {
		say("%s: --create=%d: a persistent-mutex has one slot", command->name,
		    options->create);
		return false;
	}
	return true;
}

static const struct tool_options defaults = {
    .wait_ms = LB_FOREVER,
    .timeout_ms = -1,
    .grace_ms = -1,
    .conflict_status = EXIT_STATUS_NOT_ACQUIRED,
    .signal = SIGTERM,
    .lost_signal = SIGTERM,
    .kill_after_ms = -1,
    .on_lost = {.kind = REACTION_KILL},
    .on_revoke = {.kind = REACTION_IGNORE},
    .status_fd = -1,
};

int
options_parse(const struct command *command, int argc, char *argv[], struct tool_options *ret)
{
	struct getopt_tables tables;
	bool given[OPTION_LAST] = {false};
	char which[OPTION_TEXT_SIZE];
	const struct option *name;
	const char *wanted;
	int id, index, count = 0;

	*ret = defaults;
	make_tables(command, &tables);
	opterr = 0;
	optind = 1;
	/* Operands are moved to the front, over options that were read. */
	while (optind < argc) {
		if (is_operand(command, argv[optind])) {
			if (is_lost_number(argv[optind - 1], argv[optind]))
				return refuse_lost_number(command, argv[optind]);
			/* The COMMAND of `run` has options of its own. */
			if (command->most < 0 && count == command->least)
				break;
			argv[1 + count++] = argv[optind++];
			continue;
		}
		index = -1;
		id = getopt_long(argc, argv, tables.letters, tables.names, &index);
		/* Behind "--" there are only operands; `run` is to know that there was one. */
		if (id == -1) {
			optind -= command->most < 0 && count > 0;
			break;
		}
		name = index >= 0 ? &tables.names[index] : NULL;
		written(which, name, id == '?' || id == ':' ? optopt : id, argv[optind - 1]);
		/* It may know the option, but not with a value. */
		if (id == '?' && optopt != 0 && strncmp(argv[optind - 1], "--", 2) == 0)
			return refuse(command, which, "takes no value");
		if (id == '?')
			return refuse_unknown(command, which, tables.names);
		if (id == ':')
			return refuse(command, which, "missing value");
		wanted = apply(id, optarg, ret);
		if (wanted != NULL) {
			say("%s: %s: '%s': expected %s", command->name, which, optarg, wanted);
			return -1;
		}
		given[id] = true;
	}
	if (ret->help)
		return optind;
	memmove(&argv[1 + count], &argv[optind], (size_t)(argc - optind + 1) * sizeof(*argv));
	count += argc - optind;
	if (!check_together(command, given, ret) ||
	    !check_operands(command, count, argv + 1, ret->holder_wait_ms == LB_FOREVER))
		return -1;
	return 1;
}
