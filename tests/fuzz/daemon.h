/*
 * For fuzz targets of the daemon: a clock that they set, and a log that nobody reads.
 */
#ifndef TESTS_FUZZ_DAEMON_H
#define TESTS_FUZZ_DAEMON_H

#include <stdint.h>

#include "daemon/base/clock.h"
#include "daemon/base/log.h"

static int64_t now; /* of the virtual clock */

static inline int64_t
read_now(void *ctx)
{
	(void)ctx;
	return now;
}

static const struct clock virtual_clock = {.now = read_now};

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
