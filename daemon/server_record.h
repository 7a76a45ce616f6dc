/*
 * The daemon's own record in the state for a successor: settings that must be the same, the
 * listening socket, and the history of the daemon.
 */
#ifndef SERVER_RECORD_H
#define SERVER_RECORD_H

#include <stdint.h>

#include "daemon/config/config.h"
#include "daemon/peer/dispatch.h"
#include "daemon/state/state.h"

struct broker;

struct daemon_record {
	int64_t run, started_at, started;
	int takeovers;
	int64_t frozen_since;
	const char *naming, *slot_queue, *holder_queue, *socket;
	const char *broker; /* host of the present one */
	int port;
	const char *vhost, *user;
	int64_t margin;
	int listener;
	const char *file; /* NULL: the service manager made the listening socket */
	uint64_t file_device, file_inode;
};

/* Also the hosts of the other connections that are handed over. config: that of the hosts of the broker. */
void daemon_record_put(const struct daemon_record *record, const struct config *config,
    const struct broker *broker, struct state_writer *writer);
/*
 * Reads the record, and the hosts. NULL: this configuration can go on with the earlier daemon. Else the reason
 * against it, borrowed. The texts of *ret are borrowed until the next record.
 */
const char *daemon_record_take(
    const struct config *config, struct state_reader *reader, struct daemon_record *ret);

struct dispatch_past daemon_record_past(const struct daemon_record *record);

#endif
