#include "daemon/broker/numbers.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/mem.h"

void
amqp_numbers_init(struct amqp_numbers *numbers, unsigned max)
{
	assert(max > 0 && max <= UINT16_MAX);
	*numbers = (struct amqp_numbers){
	    .max = max,
	    .user_of = mem_alloc((max + (size_t)1) * sizeof(*numbers->user_of)),
	    .free_again = mem_alloc(max * sizeof(*numbers->free_again)),
	};
}

void
amqp_numbers_done(struct amqp_numbers *numbers)
{
	free(numbers->user_of);
	free(numbers->free_again);
	*numbers = (struct amqp_numbers){0};
}

uint16_t
amqp_numbers_take(struct amqp_numbers *numbers, void *user)
{
	uint16_t number;

	assert(numbers->used < numbers->max);
	/* Channel 0 is the connection's own. */
	number = numbers->free_count > 0 ? numbers->free_again[--numbers->free_count]
					 : (uint16_t)++numbers->next;
	assert(numbers->user_of[number] == NULL);
	numbers->user_of[number] = user;
	numbers->used++;
	return number;
}

void
amqp_numbers_give_back(struct amqp_numbers *numbers, uint16_t number)
{
	assert(numbers->user_of[number] != NULL);
	numbers->user_of[number] = NULL;
	numbers->free_again[numbers->free_count++] = number;
	numbers->used--;
}

void *
amqp_numbers_user(const struct amqp_numbers *numbers, uint16_t number)
{
	return number <= numbers->max && numbers->max > 0 ? numbers->user_of[number] : NULL;
}
