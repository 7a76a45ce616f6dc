/*
 * The clock of the library. It has a file of its own so that a test can replace it with the linker
 * (--wrap=client_clock_now). The library itself keeps no state for that.
 */
#ifndef CLIENT_LIB_CLOCK_H
#define CLIENT_LIB_CLOCK_H

#include <stdint.h>

/*
 * Milliseconds of CLOCK_BOOTTIME. Each call reads the clock, because leases are compared with it.
 */
int64_t client_clock_now(void);

#endif
