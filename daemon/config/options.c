#include "daemon/config/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/nearest.h"

#define HELP_WIDTH 78
#define HELP_INDENT 10

enum {
	OPTION_HELP = 'h',
	OPTION_VERSION = 'V',
	OPTION_CONFIG = 256,
	OPTION_CHECK,
	OPTION_PRINT,
	OPTION_KEYS /* this and higher values: the keys, by index */
};

static const struct {
	int value;
	const char *name, *arg, *help;
} others[] = {
    {OPTION_CONFIG, "config", "FILE", "Read this file instead of " CONFIG_PATH "."},
    {OPTION_CHECK, "check-config", NULL,
	"Check the configuration, print its first 20 errors, and exit with status 0 or 78."},
    {OPTION_PRINT, "print-config", NULL,
	"Print the effective configuration, without passwords, and exit."},
    {OPTION_VERSION, "version", NULL, "Print the version and exit."},
    {OPTION_HELP, "help", NULL, "Print the options and exit."},
};
#define OTHERS (sizeof(others) / sizeof(others[0]))

static void
fill(struct option options[])
{
	size_t n = 0;

	for (size_t i = 0; i < OTHERS; i++) {
		options[n].name = others[i].name;
		options[n].has_arg = others[i].arg != NULL ? required_argument : no_argument;
		options[n++].val = others[i].value;
	}
	for (const struct config_key *key = config_keys; key->name != NULL; key++) {
		options[n].name = key->name;
		options[n].has_arg = required_argument;
		options[n++].val = OPTION_KEYS + (int)key_index(key);
	}
}

static void
take(struct options *options, int option)
{
	switch (option) {
	case OPTION_CONFIG:
		options->path = optarg;
		break;
	case OPTION_CHECK:
		options->action = CONFIG_CHECK;
		break;
	case OPTION_PRINT:
		options->action = CONFIG_PRINT;
		break;
	case OPTION_HELP:
		options->action = CONFIG_HELP;
		break;
	case OPTION_VERSION:
		options->action = CONFIG_VERSION;
		break;
	default:
		options->texts[option - OPTION_KEYS] = optarg;
		break;
	}
}

/* Reports an argument without its value, which may be a URL with a password. */
static void
complain(const char *arg, const char *what, struct config_errors *errors)
{
	char quoted[LOG_QUOTE_MAX];

	config_errors_add(errors, "%s: %s", log_quote(quoted, arg, strcspn(arg, "=")), what);
}

static void
complain_of_unknown(const char *arg, const struct option options[], struct config_errors *errors)
{
	struct nearest near = {.word = arg, .len = 0};
	char what[80];

	if (strncmp(arg, "--", 2) == 0)
		near = (struct nearest){.word = arg + 2, .len = strcspn(arg + 2, "=")};
	for (; near.len > 0 && options->name != NULL; options++)
		nearest_try(&near, options->name);
	if (near.found == NULL) {
		complain(arg, "unknown option; see --help", errors);
		return;
	}
	snprintf(what, sizeof(what), "unknown option; did you mean --%s?", near.found);
	complain(arg, what, errors);
}

bool
options_parse(int argc, char *argv[], struct options *ret, struct config_errors *errors)
{
	struct option options[OTHERS + KEY_COUNT_MAX + 1] = {0};
	struct options found = {.action = CONFIG_RUN};
	size_t before = errors->count;
	int option;

	fill(options);
	optind = 0; /* getopt(3): start again, for a second command line in one process */
	opterr = 0;
	/* --help and --version end the reading: later arguments have no effect. */
	while (found.action != CONFIG_HELP && found.action != CONFIG_VERSION) {
		/* "+" keeps the order of argv. ":" reports a missing value in its own way. */
		option = getopt_long(argc, argv, "+:hV", options, NULL);
		if (option == -1)
			break;
		if (option == ':')
			complain(argv[optind - 1], "needs a value", errors);
		else if (option == '?' && optopt >= OPTION_CONFIG)
			complain(argv[optind - 1], "takes no value", errors);
		else if (option == '?')
			complain_of_unknown(argv[optind > 1 ? optind - 1 : 1], options, errors);
		else
			take(&found, option);
	}
	/* Behind an unknown option it may be the value. */
	if (found.action != CONFIG_HELP && found.action != CONFIG_VERSION && optind < argc &&
	    errors->count == before)
		complain(argv[optind], "expected an option; see --help", errors);
	*ret = found;
	return errors->count == before;
}

/* Prints a text in indented lines. */
static void
put_wrapped(FILE *to, const char *text)
{
	size_t column = 0;

	while (*text != '\0') {
		size_t len = strcspn(text, " ");

		if (column > 0 && column + 1 + len > HELP_WIDTH) {
			fputc('\n', to);
			column = 0;
		}
		if (column == 0)
			column = (size_t)fprintf(to, "%*s", HELP_INDENT, "");
		else
			column += (size_t)fprintf(to, " ");
		column += (size_t)fprintf(to, "%.*s", (int)len, text);
		text += len;
		text += *text == ' ';
	}
	fputc('\n', to);
}

void
config_help(FILE *to)
{
	fprintf(to,
	    "Usage: lockbrokerd [OPTION...]\n"
	    "Provides distributed locks, kept in RabbitMQ, to the processes of this host.\n\n");
	for (size_t i = 0; i < OTHERS; i++) {
		fprintf(to, "  %s--%s%s%s\n", others[i].value == OPTION_HELP ? "-h, " : "",
		    others[i].name, others[i].arg != NULL ? " " : "",
		    others[i].arg != NULL ? others[i].arg : "");
		put_wrapped(to, others[i].help);
	}
	fprintf(to, "\nEach of these is also a key of the file; an option overrides it:\n");
	for (const struct config_key *key = config_keys; key->name != NULL; key++) {
		char *range = key_range(key);

		fprintf(to, "  --%s %s\n", key->name, key->arg);
		put_wrapped(to, key->help);
		fprintf(to, "%*s(%s; default: %s)\n", HELP_INDENT, "", range,
		    *key->fallback == '\0' ? "empty" : key->fallback);
		free(range);
	}
	fprintf(to, "\nlockbrokerd(8), lockbrokerd.conf(5)\n");
}
