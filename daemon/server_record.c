#include "daemon/server_record.h"

#include <string.h>

#include "daemon/broker/setup.h"

/*
 * The host of a quorum connection, which may be another one than that of the lock connection. Over TLS, that of
 * the lock connection, too: version 1 of the record of the daemon does not know TLS.
 */
struct host_record {
	const char *broker;
	int port;
	const char *vhost, *user;
	bool tls;
};

static const struct state_field host_fields[] = {
    STATE_FIELD(host_record, broker, STATE_TEXT),
    STATE_RANGE(host_record, port, 0, UINT16_MAX),
    STATE_FIELD(host_record, vhost, STATE_TEXT),
    STATE_FIELD(host_record, user, STATE_TEXT),
    STATE_FIELD(host_record, tls, STATE_BOOL),
    {0},
};

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

static void
put_host(const struct config_broker *of, struct state_writer *writer)
{
	const struct host_record record = {of->host, of->port, of->vhost, of->user, of->tls};

	state_put(writer, "host", host_fields, &record);
}

static void
put_hosts(const struct config *config, const struct broker *broker, struct state_writer *writer)
{
	struct broker_quorum_info quorum;
	struct broker_info info;

	broker_get_info(broker, &info);
	if (config->brokers[info.host_number].tls)
		put_host(&config->brokers[info.host_number], writer);
	broker_get_quorum(broker, &quorum);
	for (unsigned i = 0; i < quorum.connections; i++)
		if (quorum.connection[i].state == BROKER_UP)
			put_host(&config->brokers[quorum.connection[i].host_number], writer);
}

void
daemon_record_put(const struct daemon_record *record, const struct config *config,
    const struct broker *broker, struct state_writer *writer)
{
	if (broker_state_version(broker) > 1)
		put_hosts(config, broker, writer);
	state_put(writer, "daemon", daemon_fields, record);
}

static bool
is_same(const char *here, const char *there)
{
	return there != NULL && strcmp(here, there) == 0;
}

/* The host of the earlier daemon is one of this configuration. */
static bool
has_host(const struct config *config, const struct host_record *record)
{
	for (size_t i = 0; i < config->broker_count; i++) {
		const struct config_broker *broker = &config->brokers[i];

		if (broker->tls == record->tls && broker->port == record->port &&
		    is_same(broker->host, record->broker) &&
		    is_same(broker->vhost, record->vhost) && is_same(broker->user, record->user))
			return true;
	}
	return false;
}

static const char broker_has_changed[] = "the broker has changed, which needs a restart";

/* NULL: this configuration can go on with that daemon. Else the reason against it. */
static const char *
differs(const struct config *config, const struct daemon_record *record, bool tls)
{
	const struct host_record host = {
	    record->broker, record->port, record->vhost, record->user, tls};

	if (config->memory || !has_host(config, &host))
		return broker_has_changed;
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
	struct host_record host;
	bool tls = false;

	while (state_is(reader, "host")) {
		if (!state_take(reader, "host", host_fields, &host))
			return state_error(reader);
		if (!has_host(config, &host))
			return broker_has_changed;
		tls |= host.tls;
	}
	if (!state_take(reader, "daemon", daemon_fields, ret))
		return state_error(reader);
	return differs(config, ret, tls);
}

struct dispatch_past
daemon_record_past(const struct daemon_record *record)
{
	return (struct dispatch_past){.run = (uint32_t)record->run,
	    .started_at = record->started_at,
	    .started = record->started,
	    .takeovers = record->takeovers};
}
