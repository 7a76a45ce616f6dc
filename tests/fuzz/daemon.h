/*
 * For fuzz targets of the daemon: a log that nobody reads.
 */
#ifndef TESTS_FUZZ_DAEMON_H
#define TESTS_FUZZ_DAEMON_H

#include "daemon/base/log.h"

static inline void
swallow(void *ctx, enum log_level level, const char *line)
{
	(void)ctx;
	(void)level;
	(void)line;
}

static inline void
silence_log(void)
{
	log_set_sink(swallow, NULL);
}

#endif
