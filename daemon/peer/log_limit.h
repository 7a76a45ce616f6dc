/*
 * The limit of log lines about the requests of a user: LOG_LIMIT_LINES a second. Then one line has the
 * number of those that were left out. No user can then drive the other lines out of the log. A user's
 * count outlives its connections.
 */
#ifndef PEER_LOG_LIMIT_H
#define PEER_LOG_LIMIT_H

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/base/timers.h"

#define LOG_LIMIT_LINES 64

struct log_limit;

struct log_limit *log_limit_new(struct timers *timers);
void log_limit_free(struct log_limit *limit); /* as log_limit_end() first */
/* Whether a line about a request of that user may be written. Counts it. */
bool log_limit_takes(struct log_limit *limit, uid_t uid);
/* Writes the numbers of lines that were left out. All users begin anew. */
void log_limit_end(struct log_limit *limit);

#endif
