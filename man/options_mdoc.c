/*
 * Writes the lists of options in lockbroker(1) from the table that the command reads by: those that
 * only some subcommands take, for the one that is named, or with "all" those that every one takes.
 * Runs at build time.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "client/tool/options.h"

static const struct {
	const char *name;
	int user; /* of enum option_user */
} lists[] = {
    {"run", FOR_RUN},
    {"acquire", FOR_ACQUIRE},
    {"create", FOR_CREATE},
    {"resize", FOR_RESIZE},
    {"destroy", FOR_DESTROY},
    {"await", FOR_AWAIT},
    {"deny", FOR_DENY},
    {"fsck", FOR_FSCK},
    {"explain", FOR_EXPLAIN},
    {"ping", FOR_PING},
    {"asking", FOR_ASKING},
    {"all", FOR_ALL},
};
#define LISTS (sizeof(lists) / sizeof(lists[0]))

static void
put_head(const struct option_row *row)
{
	const char *argument = row->argument;

	printf(".It ");
	if (isalpha(row->id))
		printf("Fl %c , ", row->id);
	printf("Fl -%s", row->name);
	if (argument != NULL && argument[0] == '[')
		printf(" Ns Op = Ns Ar %.*s", (int)strlen(argument) - 2, argument + 1);
	else if (argument != NULL)
		printf(" Ns = Ns Ar %s", argument);
	putchar('\n');
}

/* --help's half sentence as a whole one, on one line. Where it lists values they stay as they are. */
static void
put_help(const struct option_row *row)
{
	const char *help = row->help;

	if (row->argument != NULL &&
	    (strcmp(row->argument, "WHAT") == 0 || strcmp(row->argument, "KIND") == 0))
		printf("One of %c", *help);
	else
		putchar(toupper((unsigned char)*help));
	while (*++help != '\0') {
		if (*help == '\\')
			fputs("\\e", stdout);
		else
			putchar(*help == '\n' ? ' ' : *help);
	}
	fputs(".\n", stdout);
}

static void
put_list(int user)
{
	const struct option_row *row;

	for (size_t i = 0; (row = options_row(i)) != NULL; i++) {
		bool common = row->users == FOR_ALL;

		if (user == FOR_ALL ? !common : common || (row->users & user) == 0)
			continue;
		put_head(row);
		put_help(row);
	}
}

int
main(int argc, char *argv[])
{
	for (size_t i = 0; argc == 2 && i < LISTS; i++) {
		if (strcmp(argv[1], lists[i].name) != 0)
			continue;
		put_list(lists[i].user);
		return fflush(stdout) == 0 ? EX_OK : EX_IOERR;
	}
	fprintf(stderr, "usage: options_mdoc SUBCOMMAND|all\n");
	return EX_USAGE;
}
