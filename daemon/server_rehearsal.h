/*
 * The rehearsal: a new program says whether it would take over from the running daemon, before that one
 * stops anything. It reads the record `daemon` and its configuration. Then it reaches the broker, as it
 * can refuse a broker that the old program uses. It owns nothing, and takes nothing over.
 */
#ifndef DAEMON_SERVER_REHEARSAL_H
#define DAEMON_SERVER_REHEARSAL_H

#include "daemon/config/config.h"
#include "daemon/state/state.h"

/*
 * Returns the exit status, which says whether this program would take over. Its errors go to the log
 * of the daemon that asks. Blocks for at most 3 s.
 */
int server_rehearse(const struct config *config, const struct state_text *text);

#endif
