/*
 * Durations: seconds with decimals on the wire and in the configuration, timeout(1)'s suffixes on the
 * command line, nanoseconds inside.
 */
#ifndef PROTOCOL_DURATION_H
#define PROTOCOL_DURATION_H

#include <stdint.h>

#define DURATION_FOREVER INT64_MAX
/* Longest finite duration: 10 years, in seconds. */
#define DURATION_MAX_SECONDS 315360000

/*
 * "1.5", "90s", "2m", "1h", "7d" to ns. Returns NULL, or why the text is no duration (static). No
 * sign, no exponent, no spaces.
 */
const char *duration_parse(const char *text, int64_t *ret_ns) __attribute__((warn_unused_result));
/* A number of seconds from the wire, 0 to DURATION_MAX_SECONDS, to ns (rounded up). */
int64_t duration_from_seconds(double seconds);
double duration_to_seconds(int64_t ns);

#endif
