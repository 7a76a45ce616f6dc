/*
 * What the service manager is told (sd_notify(3)); silent where none listens. A manager that does not
 * read misses something: what changes the service's state waits 200 ms for room, the rest not at all.
 * The daemon and the command share it: neither may wait for a manager while it answers for locks.
 */
#ifndef BASE_NOTIFY_H
#define BASE_NOTIFY_H

#include <stdint.h>

void notify_ready(void);
void notify_stopping(void);
void notify_reloading(void);
void notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* How often the watchdog wants to be fed, in ns (half of WATCHDOG_USEC); 0 = it is off. */
int64_t notify_watchdog_interval(void);
void notify_watchdog(void);

#endif
