/*
 * The command line of every subcommand. One table of options is the source for getopt_long(3) and
 * --help. Owns nothing: strings are borrowed from argv.
 */
#ifndef CLIENT_TOOL_OPTIONS_H
#define CLIENT_TOOL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The reaction when the lock is lost or its slot is revoked. */
struct reaction {
	enum { REACTION_KILL, REACTION_IGNORE, REACTION_SIGNAL, REACTION_RUN } kind;
	int signal;          /* REACTION_SIGNAL */
	const char *command; /* REACTION_RUN: a command for the shell */
};

struct tool_options {
	int64_t wait_ms;        /* for a lock or a state of a slot; 0: only try; LB_FOREVER */
	int64_t timeout_ms;     /* for an answer; -1: the usual time of the question */
	int64_t holder_wait_ms; /* for the holders of removed slots; 0: do not wait; LB_FOREVER */
	int conflict_status;    /* exit status if the lock stays busy until the end of the wait */
	int create;             /* if there is no lock: create it with so many slots; 0: do not */
	int kind;               /* enum lb_kind */
	int priority;
	const char *socket; /* NULL: the default of lb_connect() */
	const char *broker_file,
	    *broker_env; /* the source of a broker's URL for a daemon of its own */
	bool json, verbose, help;
	const char *who, *why, *command_text;
	const char *shell_command; /* -c */
	int signal;                /* the first signal after a loss */
	int64_t kill_after_ms;     /* -1: from the lease */
	bool release_on_exit;      /* do not wait for the descendants of COMMAND */
	struct reaction on_lost, on_revoke;
	int status_fd;   /* -1: none */
	bool shell;      /* acquire: assignments instead of JSON */
	bool quiet;      /* acquire: no grant is printed */
	int for_pid;     /* acquire, release: the process that the lock is held for; 0: none */
	int lost_signal; /* acquire: for that process; 0: none */
	bool exist_ok;   /* create */
	bool force;      /* create, resize */
	int claim;       /* create, resize: enum lb_claim */
	int convert;     /* fsck: the same */
	bool ascending;
	int overshoot;
	int64_t takeover_grace_ms;   /* 0: it was not given */
	bool repair;                 /* fsck */
	bool no_headers;             /* of tables */
	bool broker;                 /* ping */
	bool all;                    /* deny, evict */
	bool replace;                /* run: evict a holder */
	int64_t grace_ms;            /* evict, run: -1: the daemon's default */
	const char *format, *output; /* metrics */
};

/* Whether the user wants a daemon of its own. */
static inline bool
options_want_private(const struct tool_options *options)
{
	return options->broker_file != NULL || options->broker_env != NULL;
}

/* Flags of the subcommands that take an option. */
enum option_user {
	FOR_RUN = 1,
	FOR_ACQUIRE = 2,
	FOR_CREATE = 4,
	FOR_PING = 8,
	FOR_RESIZE = 16,
	FOR_DESTROY = 32,
	FOR_AWAIT = 64,
	FOR_FSCK = 128,
	FOR_EXPLAIN = 256,
	FOR_DENY = 512,
	FOR_ASKING = 1024, /* all subcommands that ask one question */
	FOR_RELEASE = 2048,
	FOR_TABLE = 4096, /* list, show, fsck */
	FOR_METRICS = 8192,
	FOR_EVICT = 16384,
	FOR_ALL = 32767
};

struct command {
	const char *name;
	const char *operands; /* as in --help */
	const char *summary;
	int user;        /* of enum option_user; 0: only the common options */
	int least, most; /* number of operands; most -1: no limit */
	/*
	 * The question (asking.h). NULL: perform() does the whole work, with NULL-terminated
	 * operands.
	 */
	const struct question *question;
	int (*perform)(const struct tool_options *options, char *operands[]);
	const char *notes; /* text of --help below the options; NULL: none */
};

/*
 * Reads the options after argv[0], the subcommand's name. They may stand between the operands and behind
 * them, but before the COMMAND of `run`. Reorders argv: the operands stand from the returned index to its
 * end. Returns -1 after an error that it has printed on stderr.
 */
int options_parse(const struct command *command, int argc, char *argv[], struct tool_options *ret);
/* The subcommand's --help. */
void options_help(const struct command *command, FILE *to);

/* A row of the table. The manual is generated from it, too. */
struct option_row {
	int id; /* the letter, or a number above all letters */
	const char *name;
	const char *argument; /* NULL: none; "[...]": optional */
	int users;            /* enum option_user */
	const char *help;
	size_t at; /* offset in struct tool_options of the argument or the flag; 0: neither */
};
/* NULL: after the last row. */
const struct option_row *options_row(size_t index);

#endif
