/*
 * The configuration in the words of those whom it is for: engine, view, peers and broker.
 */
#ifndef SERVER_SETTINGS_H
#define SERVER_SETTINGS_H

#include "daemon/broker/amqp_broker.h"
#include "daemon/config/config.h"
#include "daemon/lock/lock.h"
#include "daemon/peer/account.h"
#include "daemon/view/view.h"

struct event_base;

/* How queues are named; owned by the caller, who frees it after the engine. */
const struct queue_naming *server_naming(const struct config *started);
/* `started` has what only a restart changes, `config` the rest; they may be the same. naming is borrowed. */
struct lock_settings server_lock_settings(
    const struct queue_naming *naming, const struct config *started, const struct config *config);

/* The view of what that engine holds; `run` is in all ids of this daemon. */
struct view *server_view(struct lock_engine *engine, struct broker *broker, struct timers *timers,
    uint32_t run, const struct config *started, const struct view_listener *listener);

/* What the peers of one user may have in use. */
struct account_limits server_account_limits(const struct config *config);

/* RabbitMQ as the configuration has it; NULL and *ret_error (malloc'ed). */
struct broker *server_amqp_broker(struct event_base *base, struct timers *timers, uint64_t seed,
    const struct config *config, char **ret_error);

#endif
