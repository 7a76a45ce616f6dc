/*
 * The only random numbers of a schedule: seeded, so that a schedule can be repeated.
 */
#ifndef TESTS_SIM_DICE_H
#define TESTS_SIM_DICE_H

#include <stdbool.h>
#include <stdint.h>

struct dice {
	uint64_t state;
};

/* splitmix64, by Sebastiano Vigna, in the public domain. */
static inline uint64_t
dice_next(struct dice *dice)
{
	uint64_t z = (dice->state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* 0 to bound - 1. bound 0: 0. */
static inline uint64_t
dice_below(struct dice *dice, uint64_t bound)
{
	return bound == 0 ? 0 : dice_next(dice) % bound;
}

static inline bool
dice_percent(struct dice *dice, unsigned percent)
{
	return dice_below(dice, 100) < percent;
}

#endif
