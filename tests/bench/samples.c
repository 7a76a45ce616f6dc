#include "tests/bench/bench.h"

#include <err.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SIDES_MAX 128
#define PERCENT(sorted, count, percent) ((sorted)[((count)-1) * (percent) / 100] * 1e6)

struct side {
	char name[64];
	double *took;
	size_t count, room;
	size_t began; /* the samples before this one are of earlier rounds */
	double span, spans;
};

static struct side sides[SIDES_MAX];

double
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

void
rest(unsigned ms)
{
	struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	if (ms > 0)
		nanosleep(&time, NULL);
}

double
cpu_of(pid_t pid)
{
	struct timespec time;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0)
		errx(1, "processor time of process %d", (int)pid);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

void *
checked_alloc(size_t count, size_t size)
{
	void *memory = calloc(count, size);

	if (memory == NULL)
		err(1, "memory");
	return memory;
}

struct side *
side_of(const char *format, ...)
{
	struct side *side = sides;
	va_list arguments;
	char name[sizeof(side->name)];

	va_start(arguments, format);
	vsnprintf(name, sizeof(name), format, arguments);
	va_end(arguments);
	while (side->name[0] != '\0' && strcmp(side->name, name) != 0)
		if (++side == sides + SIDES_MAX)
			errx(1, "more than %d sides", SIDES_MAX);
	memcpy(side->name, name, sizeof(name));
	return side;
}

size_t
side_count(const struct side *side)
{
	return side->count;
}

void
side_add(struct side *side, double seconds)
{
	if (side->count == side->room) {
		side->room = 2 * side->room + 1024;
		side->took = realloc(side->took, side->room * sizeof(*side->took));
		if (side->took == NULL)
			err(1, "memory");
	}
	side->took[side->count++] = seconds;
}

void
side_span(struct side *side, double seconds)
{
	side->span = seconds;
}

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void
print(const char *name, const char *round, double *took, size_t count, double span)
{
	if (count == 0)
		return;
	qsort(took, count, sizeof(*took), compare);
	printf("%s\t%s\t%zu\t%.3f\t%.3f\t%.6f\n", name, round, count, PERCENT(took, count, 50),
	    PERCENT(took, count, 99), span);
}

void
print_round(size_t round)
{
	char text[24];

	snprintf(text, sizeof(text), "%zu", round);
	for (struct side *side = sides; side->name[0] != '\0'; side++) {
		double span = side->span;

		for (size_t i = side->began; side->span == 0 && i < side->count; i++)
			span += side->took[i];
		print(side->name, text, side->took + side->began, side->count - side->began, span);
		side->spans += span;
		side->span = 0;
		side->began = side->count;
	}
	fflush(stdout);
}

void
print_all(void)
{
	for (struct side *side = sides; side->name[0] != '\0'; side++)
		print(side->name, "all", side->took, side->count, side->spans);
}
