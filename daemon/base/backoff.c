#include "daemon/base/backoff.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/base/log.h"

void
random_fill(void *ret, size_t len)
{
	/* getrandom(2) returns so few bytes completely, and without an interruption. */
	assert(len <= 256);
	if (getrandom(ret, len, 0) != (ssize_t)len) {
		log_error("random numbers are not available: %s", strerror(errno));
		abort();
	}
}

void
jitter_init(struct jitter *jitter, uint64_t seed)
{
	/*
	 * nrand48(3) has 48 bits of state. The other 16 are folded in, so that each bit of the seed
	 * counts.
	 */
	seed ^= seed >> 48;
	jitter->state[0] = (unsigned short)(seed & 0xffff);
	jitter->state[1] = (unsigned short)(seed >> 16 & 0xffff);
	jitter->state[2] = (unsigned short)(seed >> 32 & 0xffff);
	/* Similar seeds have similar first numbers, which are skipped. */
	for (int i = 0; i < 8; i++)
		(void)nrand48(jitter->state);
}

int64_t
jitter_below(struct jitter *jitter, int64_t bound)
{
	uint64_t drawn, range, limit;

	if (bound <= 0)
		return 0;
	range = (uint64_t)bound;
	/*
	 * 63 random bits. Numbers above the last multiple of range are drawn again, because they
	 * would cause a bias.
	 */
	limit = (UINT64_C(1) << 63) / range * range;
	do {
		drawn = (uint64_t)nrand48(jitter->state) << 32;
		drawn |= (uint64_t)nrand48(jitter->state) << 1;
		drawn |= (uint64_t)nrand48(jitter->state) & 1;
	} while (drawn >= limit);
	return (int64_t)(drawn % range);
}

void
backoff_init(struct backoff *backoff, int64_t first, int64_t most)
{
	assert(first > 0 && first <= most);
	backoff->first = first;
	backoff->most = most;
	backoff->ceiling = first;
}

int64_t
backoff_next(struct backoff *backoff, struct jitter *jitter)
{
	int64_t wait = jitter_below(jitter, backoff->ceiling + 1);

	if (backoff->ceiling > backoff->most / 2)
		backoff->ceiling = backoff->most;
	else
		backoff->ceiling *= 2;
	return wait;
}

void
backoff_reset(struct backoff *backoff)
{
	backoff->ceiling = backoff->first;
}
