#include "daemon/server_settings.h"

#include <string.h>

struct lock_settings
server_lock_settings(const struct config *started, const struct config *config)
{
	bool python = strcmp(started->naming, "amqp-locks-python") == 0;

	return (struct lock_settings){
	    .naming = python ? LOCK_NAMING_AMQP_LOCKS_PYTHON : LOCK_NAMING_AMQP_LOCKS,
	    .max_races = (unsigned)config->max_races,
	    .reprobe = config->reprobe,
	    .request_timeout = config->request_timeout,
	    .max_locks_per_peer = (size_t)config->max_locks_per_peer,
	    .max_waits_per_peer = (size_t)config->max_waits_per_peer,
	};
}
