/*
 * A daemon in the process of the test, without listener and signals. Its clients are ends of
 * socketpairs, and its broker is in memory. Another daemon can take its place.
 */
#ifndef TESTS_WHOLE_DAEMON_H
#define TESTS_WHOLE_DAEMON_H

#include <stdbool.h>

#include "daemon/broker/setup.h"
#include "tests/memory/controls.h"
#include "daemon/peer/dispatch.h"
#include "daemon/state/state.h"

struct whole_daemon {
	/* Of the test. They last longer than the daemon. */
	struct event_base *base;
	struct timers *timers;
	const struct clock *clock;
	struct memory_world *world;
	struct config *config;
	struct lock_settings locks;
	struct account_limits limits;
	size_t max_requests;
	unsigned channels_max;

	/* Of the daemon. */
	struct broker *broker;
	struct lock_engine *engine;
	struct view *view;
	struct dispatch *dispatch;
	struct peers *peers;
	struct conn_handler handler; /* of dispatch */
	bool is_replaced;            /* clients that end are not its own any more */
};

/*
 * Makes the loop, the timers and the world, then the daemon, and starts its broker. whole_daemon_end()
 * frees all that. behaviour: NULL, or borrowed for the life of the world.
 */
void whole_daemon_begin(struct whole_daemon *daemon, const struct memory_behaviour *behaviour);
void whole_daemon_end(struct whole_daemon *daemon);

/* Makes the daemon. Its broker is not started. */
void whole_daemon_make(struct whole_daemon *daemon);
void whole_daemon_free(struct whole_daemon *daemon);

/* Passes of the loop until nothing is to be done at this time. False: it does not come to rest. */
bool whole_daemon_settle(const struct whole_daemon *daemon);

/* The state for a successor; state_text_done() frees it. False: the lock connection has ended. */
bool whole_daemon_save(const struct whole_daemon *daemon, struct state_text *ret);

/*
 * A new daemon in the place of this one. It gets duplicates of the clients' sockets. False: it
 * refuses the text, for the reason why.
 */
bool whole_daemon_succeed(
    struct whole_daemon *daemon, const struct state_text *text, char *why, size_t size);

#endif
