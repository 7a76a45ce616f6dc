#include "daemon/base/timers.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "daemon/base/mem.h"

/* A place with this bit is an index of `due`. */
#define PLACE_DUE (SIZE_MAX ^ SIZE_MAX >> 1)

/*
 * A binary heap, from index 1: the parent of place p is p / 2. Between calls heap[p]->place == p.
 * So moving and cancelling a timer need no search.
 *
 * A run first moves all due timers to `due`. So no timer that is set during the run fires in it. A
 * timer in `due` can still be moved or cancelled by an earlier one, and leaves NULL there.
 */
struct timers {
	const struct clock *clock; /* borrowed */
	struct timer **heap;       /* owned; the timers are borrowed */
	size_t count, room;
	struct timer **due; /* owned; of the present run */
	size_t due_count, due_next, due_room;
	uint64_t order; /* of the timer that was set last */
	bool running;
};

struct timers *
timers_new(const struct clock *clock)
{
	struct timers *timers = mem_alloc(sizeof(*timers));

	timers->clock = clock;
	return timers;
}

void
timers_free(struct timers *timers)
{
	if (timers == NULL)
		return;
	assert(timers->count == 0 && !timers->running);
	free(timers->heap);
	free(timers->due);
	free(timers);
}

const struct clock *
timers_clock(const struct timers *timers)
{
	return timers->clock;
}

void
timer_init(struct timer *timer, void (*fire)(void *ctx, uint64_t id), void *ctx, uint64_t id)
{
	*timer = (struct timer){.fire = fire, .ctx = ctx, .id = id};
}

static bool
is_before(const struct timer *a, const struct timer *b)
{
	return a->when != b->when ? a->when < b->when : a->order < b->order;
}

static struct timer **
reserve(struct timer **array, size_t wanted, size_t *room)
{
	if (wanted <= *room)
		return array;
	*room = *room == 0 ? 16 : *room * 2;
	return mem_grow(array, *room, sizeof(struct timer *));
}

static void
put(struct timers *timers, struct timer *timer, size_t place)
{
	timers->heap[place] = timer;
	timer->place = place;
}

/* Puts a timer at its right place, starting from a free one, and moves others into the gap. */
static void
settle(struct timers *timers, struct timer *timer, size_t place)
{
	while (place > 1 && is_before(timer, timers->heap[place / 2])) {
		put(timers, timers->heap[place / 2], place);
		place /= 2;
	}
	for (;;) {
		size_t child = place * 2;

		if (child > timers->count)
			break;
		if (child < timers->count &&
		    is_before(timers->heap[child + 1], timers->heap[child]))
			child++;
		if (!is_before(timers->heap[child], timer))
			break;
		put(timers, timers->heap[child], place);
		place = child;
	}
	put(timers, timer, place);
}

void
timers_set(struct timers *timers, struct timer *timer, int64_t when)
{
	assert(timer->fire != NULL);
	timers_cancel(timers, timer);
	timers->heap = reserve(timers->heap, timers->count + 2, &timers->room);
	timer->when = when;
	timer->order = ++timers->order;
	timers->count++;
	settle(timers, timer, timers->count);
}

void
timers_cancel(struct timers *timers, struct timer *timer)
{
	size_t place = timer->place;
	struct timer *last;

	if (place == 0)
		return;
	timer->place = 0;
	if (place & PLACE_DUE) {
		place &= ~PLACE_DUE;
		assert(place < timers->due_count && timers->due[place] == timer);
		timers->due[place] = NULL;
		return;
	}
	assert(place <= timers->count && timers->heap[place] == timer);
	last = timers->heap[timers->count--];
	if (last != timer)
		settle(timers, last, place);
}

int64_t
timers_next(const struct timers *timers)
{
	for (size_t i = timers->due_next; i < timers->due_count; i++) {
		if (timers->due[i] != NULL)
			return timers->due[i]->when;
	}
	return timers->count == 0 ? INT64_MAX : timers->heap[1]->when;
}

void
timers_run(struct timers *timers)
{
	int64_t now = clock_now(timers->clock);

	assert(!timers->running);
	timers->running = true;
	timers->due_count = timers->due_next = 0;
	while (timers->count > 0 && timers->heap[1]->when <= now) {
		struct timer *timer = timers->heap[1];

		timers_cancel(timers, timer);
		timers->due = reserve(timers->due, timers->due_count + 1, &timers->due_room);
		timers->due[timers->due_count] = timer;
		timer->place = PLACE_DUE | timers->due_count++;
	}
	while (timers->due_next < timers->due_count) {
		struct timer *timer = timers->due[timers->due_next++];

		if (timer == NULL)
			continue;
		timer->place = 0;
		/* The timer's object may be gone after this. */
		timer->fire(timer->ctx, timer->id);
	}
	timers->running = false;
}
