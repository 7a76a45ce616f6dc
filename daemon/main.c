/*
 * lockbrokerd: options, configuration, run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#include "config.h"
#include "daemon/config/config.h"
#include "daemon/server.h"

int
main(int argc, char *argv[])
{
	enum config_action action = CONFIG_RUN;
	struct config_error error;
	struct config *config = config_load(argc, argv, &action, &error);

	if (config == NULL) {
		fprintf(stderr, "lockbrokerd: %s\n", error.text);
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
