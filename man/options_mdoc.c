/*
 * Writes the list of options in lockbroker(1) from the table that the command reads by: for each, the
 * subcommands that take it, and its help. Runs at build time.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "client/tool/options.h"

static const struct {
	int user; /* of enum option_user */
	const char *name;
} users[] = {
    {FOR_RUN | FOR_ASKING, "all but acquire, release, await, watch, top"},
    {FOR_RUN, "run"},
    {FOR_ACQUIRE, "acquire"},
    {FOR_RELEASE, "release"},
    {FOR_AWAIT, "await"},
    {FOR_CREATE, "create"},
    {FOR_RESIZE, "resize"},
    {FOR_DESTROY, "destroy"},
    {FOR_DENY, "deny"},
    {FOR_EVICT, "evict"},
    {FOR_FSCK, "fsck"},
    {FOR_EXPLAIN, "explain"},
    {FOR_METRICS, "metrics"},
    {FOR_PING, "ping"},
    {FOR_TABLE, "list, show, fsck"},
    {FOR_ASKING, "all but run, acquire, release, await, watch, top"},
};

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

static void
put_users(const struct option_row *row)
{
	const char *comma = "";
	int left = row->users;

	if (left == FOR_ALL) {
		printf("all");
		return;
	}
	for (size_t i = 0; i < sizeof(users) / sizeof(users[0]); i++) {
		if ((left & users[i].user) != users[i].user)
			continue;
		left &= ~users[i].user;
		printf("%s%s", comma, users[i].name);
		comma = ", ";
	}
}

/* --help's half sentence, on the line that the subcommands have begun. */
static void
put_help(const struct option_row *row)
{
	bool values = row->argument != NULL && strcmp(row->argument, "KIND") == 0;

	fputs(values ? ": one of " : ": ", stdout);
	for (const char *help = row->help; *help != '\0'; help++) {
		if (*help == '\\')
			fputs("\\e", stdout);
		else
			putchar(*help == '\n' ? ' ' : *help);
	}
	fputs(".\n", stdout);
}

int
main(void)
{
	const struct option_row *row;

	for (size_t i = 0; (row = options_row(i)) != NULL; i++) {
		put_head(row);
		put_users(row);
		put_help(row);
	}
	return fflush(stdout) == 0 ? EX_OK : EX_IOERR;
}
