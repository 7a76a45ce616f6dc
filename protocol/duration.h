/*
 * Durations: seconds with decimals in the protocol and the configuration, suffixes as in timeout(1) on the
 * command line, nanoseconds in the code.
 */
#ifndef PROTOCOL_DURATION_H
#define PROTOCOL_DURATION_H

#include <stdint.h>

#define DURATION_FOREVER INT64_MAX
#define DURATION_MILLISECOND INT64_C(1000000)
/* The longest finite duration: 10 years, in seconds. */
#define DURATION_MAX_SECONDS 315360000

/*
 * Converts "1.5", "90s", "2m", "1h" or "7d" to ns. Returns NULL, or why the text is not a duration (static).
 * Signs, exponents and spaces are refused.
 */
const char *duration_parse(const char *text, int64_t *ret_ns) __attribute__((warn_unused_result));
/* Converts seconds of the protocol, 0 to DURATION_MAX_SECONDS, to ns. Rounds up. */
int64_t duration_from_seconds(double seconds);
double duration_to_seconds(int64_t ns);

/* Bytes of the longest text, "-9223372036.854775808", with its NUL. */
#define DURATION_TEXT_SIZE 22
/* Writes ns as seconds, without zeros at the end: "1.5", "20", "-0.000000001". */
void duration_write(char buf[DURATION_TEXT_SIZE], int64_t ns);

#endif
