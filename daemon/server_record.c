#include "daemon/server_record.h"

#include <string.h>

static const struct state_field daemon_fields[] = {
    STATE_FIELD(daemon_record, run, STATE_SIGNED),
    STATE_FIELD(daemon_record, started_at, STATE_SIGNED),
    STATE_FIELD(daemon_record, started, STATE_SIGNED),
    STATE_RANGE(daemon_record, takeovers, 0, INT32_MAX),
    STATE_FIELD(daemon_record, frozen_since, STATE_SIGNED),
    STATE_FIELD(daemon_record, naming, STATE_TEXT),
    STATE_FIELD(daemon_record, slot_queue, STATE_TEXT),
    STATE_FIELD(daemon_record, holder_queue, STATE_TEXT),
    STATE_FIELD(daemon_record, socket, STATE_TEXT),
    STATE_FIELD(daemon_record, broker, STATE_TEXT),
    STATE_RANGE(daemon_record, port, 0, UINT16_MAX),
    STATE_FIELD(daemon_record, vhost, STATE_TEXT),
    STATE_FIELD(daemon_record, user, STATE_TEXT),
    STATE_FIELD(daemon_record, margin, STATE_SIGNED),
    STATE_FIELD(daemon_record, listener, STATE_SOCKET),
    STATE_FIELD(daemon_record, file, STATE_TEXT),
    STATE_FIELD(daemon_record, file_device, STATE_NUMBER),
    STATE_FIELD(daemon_record, file_inode, STATE_NUMBER),
    {0},
};

void
daemon_record_put(const struct daemon_record *record, struct state_writer *writer)
{
	state_put(writer, "daemon", daemon_fields, record);
}

static bool
is_same(const char *here, const char *there)
{
	return there != NULL && strcmp(here, there) == 0;
}

/* The broker of the earlier daemon is one of this configuration. */
static bool
has_broker(const struct config *config, const struct daemon_record *record)
{
	for (size_t i = 0; i < config->broker_count; i++) {
		const struct config_broker *broker = &config->brokers[i];

		if (!broker->tls && broker->port == record->port &&
		    is_same(broker->host, record->broker) &&
		    is_same(broker->vhost, record->vhost) && is_same(broker->user, record->user))
			return true;
	}
	return false;
}

/* NULL: this configuration can go on with that daemon. Else the reason against it. */
static const char *
differs(const struct config *config, const struct daemon_record *record)
{
	if (config->memory || !has_broker(config, record))
		return "the broker has changed, which needs a restart";
	if (!is_same(config->naming, record->naming) ||
	    !is_same(config->slot_queue, record->slot_queue) ||
	    !is_same(config->holder_queue, record->holder_queue))
		return "the names of queues have changed, which needs a restart";
	if (!is_same(config->socket, record->socket))
		return "the socket has changed, which needs a restart";
	if (config->margin != record->margin)
		return "the margin has changed, which needs a restart";
	return NULL;
}

const char *
daemon_record_take(
    const struct config *config, struct state_reader *reader, struct daemon_record *ret)
{
	if (!state_take(reader, "daemon", daemon_fields, ret))
		return state_error(reader);
	return differs(config, ret);
}

struct dispatch_past
daemon_record_past(const struct daemon_record *record)
{
	return (struct dispatch_past){.run = (uint32_t)record->run,
	    .started_at = record->started_at,
	    .started = record->started,
	    .takeovers = record->takeovers};
}
