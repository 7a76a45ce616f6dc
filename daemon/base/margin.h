/*
 * The margin of a lease. A lease is two heartbeats less the margin: a hold is lost so long before
 * the broker could free its slot. The broker and the daemon agree on a heartbeat, so a configured
 * margin is only a wish. Times are in ns.
 */
#ifndef BASE_MARGIN_H
#define BASE_MARGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/clock.h"

/*
 * wanted: 0 = a fifth of the heartbeat. The margin is at most one heartbeat, half of the time
 * before the broker frees the slot.
 */
static inline int64_t
margin_of(int64_t heartbeat, int64_t wanted)
{
	int64_t margin = wanted > 0 ? wanted : heartbeat / 5;

	return margin < heartbeat ? margin : heartbeat;
}

/*
 * Whether the lease leaves `lockbroker run` time to end a command (client/run_lease.c). A third of
 * a heartbeat and one second can pass until a keepalive is answered. `run` needs half a second more
 * as its reserve. With a shorter lease the daemon should grant no locks at all.
 */
static inline bool
margin_leaves_lease(int64_t heartbeat, int64_t wanted, int64_t *ret_lease, int64_t *ret_needed)
{
	*ret_lease = 2 * heartbeat - margin_of(heartbeat, wanted);
	*ret_needed = heartbeat / 3 + 3 * NSEC_PER_SEC / 2;
	return *ret_lease >= *ret_needed;
}

#endif
