/*
 * Fuzz target: bytes as a configuration file. If the first one is '-', the rest is the value of
 * --broker. It must not crash. A refused input has a reason that names a place. An accepted one is
 * printed as a file that loads and prints the same.
 *
 *	make fuzz FUZZ=config
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/mem.h"
#include "daemon/config/config.h"
#include "tests/fuzz/daemon.h"
#include "tests/fuzz/fuzz.h"

/* Loads bytes as the file, with an option or NULL. */
static struct config *
load(const void *bytes, size_t size, const char *option, struct config_errors *ret_errors)
{
	enum config_action action;
	int fd = memfd_create("config", MFD_CLOEXEC);
	char *args[] = {mem_strdup("lockbrokerd"), mem_printf("--config=/proc/self/fd/%d", fd),
	    mem_strdup(option), NULL};
	struct config *config;

	must(fd >= 0 && write(fd, bytes, size) == (ssize_t)size, "no file");
	config = config_load(option == NULL ? 2 : 3, args, &action, ret_errors);
	close(fd);
	for (size_t i = 0; i < 3; i++)
		free(args[i]);
	return config;
}

static char *
print(const struct config *config)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	config_print(config, to);
	fclose(to);
	return text;
}

static void
check(struct config *config)
{
	struct config_errors errors;
	char *printed = print(config), *reprinted;
	struct config *again;

	/* A password is not printed, and a user without one is an error. */
	if (strstr(printed, ":***@") == NULL) {
		again = load(printed, strlen(printed), NULL, &errors);
		must(again != NULL, "what was printed is refused");
		must(config_unreloadable(config, again, NULL, NULL) == 0, "is another one");
		reprinted = print(again);
		must(strcmp(printed, reprinted) == 0, "is printed in another way");
		free(reprinted);
		config_free(again);
	}
	free(printed);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config_errors errors = {0};
	struct config *config;
	char *option = NULL;

	silence_log();
	if (size > 0 && data[0] == '-') {
		option = mem_printf("--broker=%.*s", (int)(size - 1), (const char *)data + 1);
		size = 0;
	}
	config = load(data, size, option, &errors);
	free(option);
	if (config == NULL)
		must(strchr(errors.texts[0], ':') != NULL, "an error without place");
	else
		check(config);
	config_free(config);
	return 0;
}
