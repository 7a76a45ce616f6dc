/*
 * lockbrokerd: options, configuration, run.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "config.h"
#include "daemon/config/config.h"
#include "daemon/server.h"

/*
 * Without this, a closed standard descriptor would be the number of the next file opened. The log
 * would then go to the broker, or to a peer. /dev/null fills the gap, open in the wrong direction.
 * It fails like a closed descriptor.
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

static void
say(const char *text)
{
	fprintf(stderr, "lockbrokerd: %s\n", text);
}

int
main(int argc, char *argv[])
{
	enum config_action action = CONFIG_RUN;
	struct config_errors errors;
	struct config *config;

	if (!fill_standard_descriptors()) {
		fprintf(stderr, "lockbrokerd: /dev/null: %s\n", strerror(errno));
		return EX_OSERR;
	}
	server_limit_core();
	config = config_load(argc, argv, &action, &errors);
	if (config == NULL) {
		config_errors_each(&errors, say);
		server_turn_away();
		return EX_CONFIG;
	}
	switch (action) {
	case CONFIG_RUN:
		return server_run(config);
	case CONFIG_CHECK:
		break;
	case CONFIG_PRINT:
		config_print(config, stdout);
		break;
	case CONFIG_HELP:
		config_help(stdout);
		break;
	case CONFIG_VERSION:
		puts("lockbrokerd " PACKAGE_VERSION);
		break;
	}
	config_free(config);
	return fflush(stdout) == 0 ? EX_OK : EX_IOERR;
}
