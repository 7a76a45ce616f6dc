/*
 * Messages to the service manager (sd_notify(3)). Without a service manager they do nothing. If it
 * does not read, a change of the service's state waits up to 200 ms for room, and any other message
 * is dropped. The daemon and the command share this module: neither may block while locks depend on
 * it.
 */
#ifndef BASE_NOTIFY_H
#define BASE_NOTIFY_H

#include <stdint.h>

void notify_ready(void);
void notify_stopping(void);
void notify_reloading(void);
void notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));
/*
 * The interval at which the watchdog expects notify_watchdog(), in ns: half of WATCHDOG_USEC. 0: it
 * is off.
 */
int64_t notify_watchdog_interval(void);
void notify_watchdog(void);

#endif
