/*
 * The library's one look at the time. It is a file of its own so that the linker can put a test's
 * clock in its place (--wrap=client_clock_now): the library itself keeps no state for that.
 */
#ifndef CLIENT_LIB_CLOCK_H
#define CLIENT_LIB_CLOCK_H

#include <stdint.h>

/* Milliseconds of CLOCK_BOOTTIME: a fresh reading, as leases are compared with it. */
int64_t client_clock_now(void);

#endif
