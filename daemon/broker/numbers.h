/*
 * The channel numbers of one link: which are free, and what the others are used for. Low numbers are
 * used again and again, so that the broker and the table stay small.
 */
#ifndef BROKER_NUMBERS_H
#define BROKER_NUMBERS_H

#include <stdint.h>

struct amqp_numbers {
	unsigned max; /* highest number; 0 = there is no link */
	unsigned used, next;
	void **user_of;       /* owned; [max + 1]; NULL = free */
	uint16_t *free_again; /* owned; stack of numbers that were used before */
	unsigned free_count;
};

void amqp_numbers_init(struct amqp_numbers *numbers, unsigned max);
void amqp_numbers_done(struct amqp_numbers *numbers); /* zeroed is fine, and it is zeroed after */
/* The caller knows that one is free: used < max. */
uint16_t amqp_numbers_take(struct amqp_numbers *numbers, void *user);
void amqp_numbers_give_back(struct amqp_numbers *numbers, uint16_t number);
/* NULL when it is free or beyond max. */
void *amqp_numbers_user(const struct amqp_numbers *numbers, uint16_t number);

#endif
