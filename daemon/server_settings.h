/*
 * The configuration in the words of those whom it is for: engine and broker.
 */
#ifndef SERVER_SETTINGS_H
#define SERVER_SETTINGS_H

#include "daemon/config/config.h"
#include "daemon/lock/lock.h"

/* `started` has what only a restart changes, `config` the rest; they may be the same. */
struct lock_settings server_lock_settings(
    const struct config *started, const struct config *config);

#endif
