#include "protocol/duration.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define NS_PER_SECOND INT64_C(1000000000)

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Seconds of a suffix of timeout(1); 0 for anything else. */
static int64_t
unit_seconds(const char *suffix)
{
	if (suffix[0] == '\0')
		return 1;
	if (suffix[1] != '\0')
		return 0;
	switch (suffix[0]) {
	case 's':
		return 1;
	case 'm':
		return 60;
	case 'h':
		return 3600;
	case 'd':
		return 86400;
	default:
		return 0;
	}
}

const char *
duration_parse(const char *text, int64_t *ret_ns)
{
	int64_t whole = 0, fraction = 0, place = NS_PER_SECOND, unit, ns;
	bool more = false;

	if (!is_digit(*text))
		return "a duration starts with a digit";
	for (; is_digit(*text); text++)
		if (whole <= DURATION_MAX_SECONDS)
			whole = whole * 10 + (*text - '0');
	if (*text == '.') {
		if (!is_digit(*++text))
			return "digits are missing after the point";
		for (; is_digit(*text); text++) {
			place /= 10;
			fraction += place * (*text - '0');
			more = more || (place == 0 && *text != '0');
		}
	}
	unit = unit_seconds(text);
	if (unit == 0)
		return "a duration ends in s, m, h, d, or its last digit";
	/* fraction: billionths of a unit, rounded up; at most 1 unit. */
	ns = (fraction + more) * unit;
	if (whole > DURATION_MAX_SECONDS / unit ||
	    whole * unit * NS_PER_SECOND + ns > DURATION_MAX_SECONDS * NS_PER_SECOND)
		return "a duration is at most 10 years (3650d)";
	*ret_ns = whole * unit * NS_PER_SECOND + ns;
	return NULL;
}

int64_t
duration_from_seconds(double seconds)
{
	double ns = seconds * (double)NS_PER_SECOND;
	int64_t down;

	assert(seconds >= 0 && seconds <= DURATION_MAX_SECONDS);
	down = (int64_t)ns;
	return (double)down < ns ? down + 1 : down;
}

double
duration_to_seconds(int64_t ns)
{
	return (double)ns / (double)NS_PER_SECOND;
}

void
duration_write(char buf[DURATION_TEXT_SIZE], int64_t ns)
{
	uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
	int len = snprintf(buf, DURATION_TEXT_SIZE, "%s%" PRIu64 ".%09" PRIu64, ns < 0 ? "-" : "",
	    size / NS_PER_SECOND, size % NS_PER_SECOND);

	while (buf[len - 1] == '0')
		len--;
	if (buf[len - 1] == '.')
		len--;
	buf[len] = '\0';
}
