/*
 * Messages to the service manager (sd_notify(3)). Without a service manager they do nothing. If it
 * does not read, a change of the service's state waits up to 200 ms for room, and any other message
 * is dropped. The daemon and the command share this module: neither may block while locks depend on
 * it. notify_is_restarted() and notify_store() alone take longer.
 */
#ifndef BASE_NOTIFY_H
#define BASE_NOTIFY_H

#include <stdbool.h>
#include <stddef.h>
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

/*
 * Whether this process stops because the service manager restarts it, and the service manager keeps
 * descriptors meanwhile (FileDescriptorStoreMax= of the unit). False without a system bus, and with
 * a warning if the service manager does not answer. Blocks for at most 2 s. SIGCHLD must not be
 * ignored.
 */
bool notify_is_restarted(void);
/*
 * Leaves a descriptor with the service manager under a name, and waits until it has it. Blocks for
 * at most a second for each of three steps. False: it may not have it.
 */
bool notify_store(const char *name, int fd);
/* The service manager forgets the descriptors of that name. */
void notify_forget(const char *name);

#endif
