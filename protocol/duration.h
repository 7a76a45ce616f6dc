/*
 * Durations: seconds with decimals on the wire and in the configuration, timeout(1)'s suffixes on the
 * command line, nanoseconds inside.
 */
#ifndef PROTOCOL_DURATION_H
#define PROTOCOL_DURATION_H

#include <stdint.h>

#define DURATION_FOREVER INT64_MAX
#define DURATION_MILLISECOND INT64_C(1000000)
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

/* Room for the longest, "-9223372036.854775808", and its end. */
#define DURATION_TEXT_SIZE 22
/* ns as seconds, with the decimals that it has: "1.5", "20", "-0.000000001". */
void duration_write(char buf[DURATION_TEXT_SIZE], int64_t ns);

#endif
