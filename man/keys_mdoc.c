/*
 * Writes the manuals' lists of keys from the table that the daemon reads by: "keys" for
 * lockbrokerd.conf(5), "options" for lockbrokerd(8). Runs at build time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "daemon/config/keys.h"

/* Sentences, each on a line of its own as mdoc(7) wants them; only the first ones if so asked. */
static void
put_text(const char *text, size_t sentences)
{
	while (*text != '\0' && sentences-- > 0) {
		const char *end = strstr(text, ". ");
		size_t len = end == NULL ? strlen(text) : (size_t)(end - text) + 1;

		if (*text == '.' || *text == '\'')
			fputs("\\&", stdout);
		for (size_t i = 0; i < len; i++) {
			if (text[i] == '\\')
				fputs("\\e", stdout);
			else
				putchar(text[i]);
		}
		putchar('\n');
		text += len;
		text += *text == ' ';
	}
}

static void
put_key(const struct config_key *key)
{
	char *range = key_range(key);

	printf(".It Ic %s No = Ar %s\n", key->name, key->arg);
	put_text(key->help, SIZE_MAX);
	printf("Takes %s.\n", range);
	if (*key->fallback == '\0')
		printf("Default: empty.\n");
	else
		printf("Default:\n.Ql %s .\n", key->fallback);
	if (key->reloadable)
		printf("Reloadable.\n");
	free(range);
}

int
main(int argc, char *argv[])
{
	bool options = argc == 2 && strcmp(argv[1], "options") == 0;

	if (!options && (argc != 2 || strcmp(argv[1], "keys") != 0)) {
		fprintf(stderr, "usage: keys_mdoc keys|options\n");
		return EX_USAGE;
	}
	for (const struct config_key *key = config_keys; key->name != NULL; key++) {
		if (options) {
			printf(".It Fl -%s Ar %s\n", key->name, key->arg);
			put_text(key->help, 1);
		} else {
			put_key(key);
		}
	}
	return fflush(stdout) == 0 ? EX_OK : EX_IOERR;
}
