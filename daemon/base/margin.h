/*
 * The margin of a lease, which lasts two heartbeats less this: by so much a hold is lost before the broker
 * could free its slot. Both ends of a connection agree on the heartbeat, so the margin that was set is
 * only a wish. Times in ns.
 */
#ifndef BASE_MARGIN_H
#define BASE_MARGIN_H

#include <stdint.h>

/* wanted: 0: a fifth of the heartbeat. At most a heartbeat: half of what there is. */
static inline int64_t
margin_of(int64_t heartbeat, int64_t wanted)
{
	int64_t margin = wanted > 0 ? wanted : heartbeat / 5;

	return margin < heartbeat ? margin : heartbeat;
}

#endif
