/*
 * The configuration in the words of the parts that it is for. Knows no server.
 */
#ifndef SERVER_SETTINGS_H
#define SERVER_SETTINGS_H

#include "daemon/config/config.h"
#include "daemon/lock/lock.h"
#include "daemon/peer/requests.h"

struct event_base;

/* The names of queues. The caller owns the result, and frees it after the engine. */
const struct queue_naming *settings_naming(const struct config *started);
/* started: has the settings that need a restart. */
struct lock_settings settings_lock(
    const struct config *config, const struct config *started, const struct queue_naming *naming);
/* The limits for all peers of one user. */
struct account_limits settings_account(const struct config *config);
/* RabbitMQ as the configuration has it; NULL and *ret_error (malloc'ed). */
struct broker *settings_broker(const struct config *config, struct event_base *base,
    struct timers *timers, uint64_t seed, char **ret_error);

#endif
