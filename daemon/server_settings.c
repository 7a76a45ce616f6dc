#include "daemon/server_settings.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/amqp/tcp.h"
#include "daemon/base/mem.h"
#include "daemon/broker/setup.h"
#include "daemon/broker/way.h"

const struct queue_naming *
settings_naming(const struct config *started)
{
	struct template slot, holder;
	char error[TEMPLATE_ERROR_MAX];

	if (strcmp(started->naming, "amqp-locks") == 0)
		return &queue_naming_amqp_locks;
	if (strcmp(started->naming, "amqp-locks-python") == 0)
		return &queue_naming_amqp_locks_python;
	if (!template_parse(started->slot_queue, &slot, error) ||
	    !template_parse(started->holder_queue, &holder, error) ||
	    !template_differ(&slot, &holder))
		abort(); /* the configuration was checked */
	return queue_naming_new(&slot, &holder);
}

static enum broker_way
claim_of(const char *word)
{
	enum method_claim claim = METHOD_CLAIM_BY_QUEUE;

	while (strcmp(method_claim_words[claim], word) != 0)
		claim++;
	return way_of_word(claim);
}

struct lock_settings
settings_lock(
    const struct config *config, const struct config *started, const struct queue_naming *naming)
{
	return (struct lock_settings){
	    .naming = naming,
	    .margin = started->margin,
	    .wall_clock = &clock_wall,
	    .claim = claim_of(config->claim),
	    .max_races = (unsigned)config->max_races,
	    .rescan_interval = config->rescan_interval,
	    .hint_grace = config->hint_grace,
	    .max_local_handoffs = (unsigned)config->max_local_handoffs,
	    .request_timeout = config->request_timeout,
	    .max_locks_per_connection = (size_t)config->max_locks_per_connection,
	    .max_waits_per_connection = (size_t)config->max_waits_per_connection,
	    .channels_reserve = (size_t)config->channels_reserve,
	    .max_mutexes_per_uid = (size_t)config->max_mutexes_per_uid,
	    .quorum_untested = strcmp(config->quorum_servers, "untested") == 0,
	};
}

struct account_limits
settings_account(const struct config *config)
{
	const size_t mib = 1024 * 1024;

	return (struct account_limits){
	    .most = {[ACCOUNT_PEERS] = (size_t)config->max_connections_per_uid,
		[ACCOUNT_WAITS] = (size_t)config->max_waits_per_uid,
		[ACCOUNT_WATCHES] = (size_t)config->max_watches_per_uid,
		[ACCOUNT_SCANS] = (size_t)config->max_scans_per_uid,
		[ACCOUNT_BYTES] = (size_t)config->max_buffer_per_uid * mib},
	    .all_bytes = (size_t)config->max_buffer * mib,
	};
}

struct broker *
settings_broker(const struct config *config, struct event_base *base, struct timers *timers,
    uint64_t seed, char **ret_error)
{
	struct amqp_host *hosts = mem_grow(NULL, config->broker_count, sizeof(*hosts));
	char machine[256] = "?", *name;
	struct amqp_settings settings;
	struct amqp_dialer dialer;
	struct broker *broker = NULL;

	for (size_t i = 0; i < config->broker_count; i++) {
		const struct config_broker *from = &config->brokers[i];

		hosts[i] = (struct amqp_host){
		    .tls = from->tls,
		    .host = from->host,
		    .port = from->port,
		    .vhost = from->vhost,
		    .user = from->user,
		    .password = from->password,
		};
	}
	gethostname(machine, sizeof(machine) - 1);
	name = mem_printf("lockbrokerd %s", machine);
	settings = (struct amqp_settings){
	    .hosts = hosts,
	    .host_count = config->broker_count,
	    .external = strcmp(config->sasl, "external") == 0,
	    .tls_ca = config->tls_ca,
	    .tls_cert = config->tls_cert,
	    .tls_key = config->tls_key,
	    .heartbeat = config->heartbeat,
	    .margin = config->margin,
	    .connect_timeout = config->connect_timeout,
	    .first_timeout = config->connect_grace / 3,
	    .probe_timeout = config->probe_timeout,
	    .auxiliary_idle = config->auxiliary_idle,
	    .any_product = strcmp(config->broker_product, "any") == 0,
	    .exclusion_timeout = config->request_timeout,
	    .quorum_connections = (unsigned)config->quorum_connections,
	    .name = name,
	};
	if (amqp_tcp_dialer(base, &settings, &dialer, ret_error))
		broker = broker_new(timers, seed, &settings, &dialer);
	free(name);
	free(hosts);
	return broker;
}
