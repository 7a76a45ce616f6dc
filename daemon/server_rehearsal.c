#include "daemon/server_rehearsal.h"

#include <stdlib.h>
#include <sysexits.h>

#include <event2/event.h>

#include "config.h"
#include "daemon/base/log.h"
#include "daemon/broker/broker.h"
#include "daemon/server_record.h"
#include "daemon/server_settings.h"
#include "daemon/successor.h"

/* The rehearsal waits so long for the broker. The old program waits 5 s for the rehearsal. */
#define REHEARSAL_BROKER (3 * NSEC_PER_SEC)

/*
 * Reaches the broker as the new program would. Returns NULL, or the reason why that program must not
 * use this broker. A broker that is not reached now is no reason. The reason is owned by the broker.
 */
static const char *
try_broker(struct event_base *base, struct timers *timers, struct broker *broker)
{
	int64_t until = clock_now(&clock_boottime) + REHEARSAL_BROKER;
	const struct timeval tick = {.tv_usec = 10000};
	struct broker_info info;

	/* Only its errors go to the log of the daemon that asks. */
	log_set_level(LOG_LEVEL_ERROR);
	broker_start(broker);
	do {
		broker_flush(broker);
		event_base_loopexit(base, &tick);
		event_base_loop(base, EVLOOP_ONCE);
		timers_run(timers);
		broker_get_info(broker, &info);
	} while (info.locks == BROKER_DOWN && !info.unfit && clock_now(&clock_boottime) < until);
	return info.unfit ? info.why : NULL;
}

int
server_rehearse(const struct config *config, const struct state_text *text)
{
	struct state_reader *reader = state_reader_new(text->text, text->len, NULL, 0);
	struct event_base *base = event_base_new();
	struct timers *timers = timers_new(&clock_boottime);
	struct broker *broker = NULL;
	struct daemon_record record;
	const char *why = daemon_record_take(config, reader, &record);
	char *error = NULL;

	/* Certificates may be unreadable. */
	if (why == NULL && base != NULL)
		broker = settings_broker(
		    config, base, timers, (uint64_t)clock_now(&clock_boottime), &error);
	if (broker != NULL)
		why = try_broker(base, timers, broker);
	else if (why == NULL)
		why = error != NULL ? error : "no event loop";
	if (why != NULL)
		log_error(
		    "this version of lockbrokerd (" PACKAGE_VERSION ") cannot take over: %s", why);
	broker_free(broker);
	timers_free(timers);
	if (base != NULL)
		event_base_free(base);
	state_reader_free(reader);
	free(error);
	return why == NULL ? SUCCESSOR_AGREES : EX_UNAVAILABLE;
}
