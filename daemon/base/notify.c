#include "daemon/base/notify.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <systemd/sd-daemon.h>

/* Longer ones help nobody in `systemctl status`. */
#define STATUS_MAX 512

/* Nobody to hear it, or no room with them: neither is worth a word, the daemon goes on. */
static void
say(const char *text)
{
	(void)sd_notify(0, text);
}

void
notify_ready(void)
{
	say("READY=1");
}

void
notify_stopping(void)
{
	say("STOPPING=1");
}

void
notify_reloading(void)
{
	struct timespec now;

	/* systemd wants the time with it (sd_notify(3), MONOTONIC_USEC), and CLOCK_MONOTONIC at that. */
	if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
		return;
	(void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
	    (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
}

void
notify_status(const char *format, ...)
{
	char text[STATUS_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	/* A line end would start an assignment of its own, and the broker's words may hold one. */
	for (char *c = text; *c != '\0'; c++) {
		if (iscntrl((unsigned char)*c))
			*c = ' ';
	}
	(void)sd_notifyf(0, "STATUS=%s", text);
}

int64_t
notify_watchdog_interval(void)
{
	uint64_t usec;

	if (sd_watchdog_enabled(0, &usec) <= 0)
		return 0;
	return usec > INT64_MAX / 500 ? INT64_MAX : (int64_t)usec * 500;
}

void
notify_watchdog(void)
{
	say("WATCHDOG=1");
}
