/*
 * The margin of a lease, which lasts two heartbeats less this: by so much a hold is lost before the broker
 * could free its slot. Both ends of a connection agree on the heartbeat, so the margin that was set is
 * only a wish. Times in ns.
 */
#ifndef BASE_MARGIN_H
#define BASE_MARGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/clock.h"

/* wanted: 0: a fifth of the heartbeat. At most a heartbeat: half of what there is. */
static inline int64_t
margin_of(int64_t heartbeat, int64_t wanted)
{
	int64_t margin = wanted > 0 ? wanted : heartbeat / 5;

	return margin < heartbeat ? margin : heartbeat;
}

/*
 * Whether the lease is long enough for `lockbroker run` to end a command in time, however fast that ends
 * (client/run_lease.c): until an answer has come a third of a heartbeat and a second pass, and half a second
 * is its reserve. With a shorter one locks are better not given at all.
 */
static inline bool
margin_leaves_lease(int64_t heartbeat, int64_t wanted, int64_t *ret_lease, int64_t *ret_needed)
{
	*ret_lease = 2 * heartbeat - margin_of(heartbeat, wanted);
	*ret_needed = heartbeat / 3 + 3 * NSEC_PER_SEC / 2;
	return *ret_lease >= *ret_needed;
}

#endif
