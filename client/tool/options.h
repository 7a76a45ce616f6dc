/*
 * The command line of every subcommand: one table of options, from which getopt_long(3) reads and
 * --help is written. Owns nothing: strings are borrowed from argv.
 */
#ifndef CLIENT_TOOL_OPTIONS_H
#define CLIENT_TOOL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What is done when the lock is lost or its slot revoked. */
struct reaction {
	enum { REACTION_KILL, REACTION_IGNORE, REACTION_SIGNAL, REACTION_RUN } kind;
	int signal;          /* REACTION_SIGNAL */
	const char *command; /* REACTION_RUN: for the shell */
};

struct options {
	int64_t wait_ms;        /* for a lock, for a slot's state: 0 = try; LB_FOREVER */
	int64_t timeout_ms;     /* for the answer to a question; -1: as is usual for it */
	int64_t holder_wait_ms; /* for the holders of removed slots: 0 = do not wait; LB_FOREVER */
	int conflict_status;    /* when others have the lock until the end of the wait */
	int create;             /* slots to create the lock with when there is none; 0 = do not */
	int kind;               /* enum lb_kind */
	int priority;
	const char *socket; /* NULL: as lb_connect() */
	bool json, verbose, help;
	const char *who, *why;
	const char *shell_command; /* -c */
	int signal;                /* what a loss sends first */
	int64_t kill_after_ms;     /* -1: from the lease */
	bool foreground;
	struct reaction on_lost, on_revoke;
	int status_fd; /* -1 = none */
	bool shell;    /* acquire: assignments instead of JSON */
	bool exist_ok; /* create */
	bool ascending;
	int overshoot;
	bool repair; /* fsck */
	bool broker; /* ping */
	bool all;    /* deny */
};

/* Which subcommand takes an option. */
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
	FOR_ASKING = 1024, /* all that ask one thing, and end with the answer */
	FOR_ALL = 2047
};

struct command {
	const char *name;
	const char *operands; /* as --help shows them */
	const char *summary;
	int user;        /* of enum option_user; 0: only what all take */
	int least, most; /* operands; most -1 = any number */
	/* What it asks (asking.h); NULL: perform() does all of it, with NULL-terminated operands. */
	const struct question *question;
	int (*perform)(const struct options *options, char *operands[]);
	const char *notes; /* what --help says below the options; NULL = nothing */
};

/*
 * Reads the options that follow argv[0], the subcommand's name; they end at the first operand.
 * The index of that, or -1 after telling stderr what is wrong.
 */
int options_parse(const struct command *command, int argc, char *argv[], struct options *ret);
/* The subcommand's --help. */
void options_help(const struct command *command, FILE *to);

/* A row of the table, for the manual that is made from it. */
struct option_row {
	int id; /* the letter, or a number above all letters */
	const char *name;
	const char *argument; /* NULL = takes none; "[...]" = may be left out */
	int users;            /* enum option_user */
	const char *help;
	size_t
	    at; /* in struct options: what the argument is copied to, or what becomes true; 0 = neither */
};
/* NULL after the last. */
const struct option_row *options_row(size_t index);

#endif
