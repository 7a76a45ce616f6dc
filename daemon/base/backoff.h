/*
 * Random numbers, and full-jitter exponential backoff: a random wait between 0 and a ceiling that
 * doubles. Numbers with a seed let a simulation replay.
 */
#ifndef BASE_BACKOFF_H
#define BASE_BACKOFF_H

#include <stddef.h>
#include <stdint.h>

/* Fills it with random bytes of the kernel; len: at most 256. */
void random_fill(void *ret, size_t len);

struct jitter {
	unsigned short state[3]; /* for nrand48(3) */
};

void jitter_init(struct jitter *jitter, uint64_t seed);
/* Uniform in [0, bound); 0 if bound is 0 or less. */
int64_t jitter_below(struct jitter *jitter, int64_t bound);

struct backoff {
	int64_t first, most; /* ns: the first and the highest ceiling */
	int64_t ceiling;     /* ns: of the next wait */
};

void backoff_init(struct backoff *backoff, int64_t first, int64_t most);
/* Returns the next wait in ns, and raises the ceiling. */
int64_t backoff_next(struct backoff *backoff, struct jitter *jitter);
void backoff_reset(struct backoff *backoff);

#endif
