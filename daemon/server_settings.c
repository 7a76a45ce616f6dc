#include "daemon/server_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/mem.h"
#include "daemon/broker/amqp_tcp.h"

const struct queue_naming *
server_naming(const struct config *started)
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

struct lock_settings
server_lock_settings(
    const struct queue_naming *naming, const struct config *started, const struct config *config)
{
	return (struct lock_settings){
	    .naming = naming,
	    .margin = started->margin,
	    .max_races = (unsigned)config->max_races,
	    .reprobe = config->reprobe,
	    .hint_grace = config->hint_grace,
	    .max_local_passes = (unsigned)config->max_local_passes,
	    .request_timeout = config->request_timeout,
	    .max_locks_per_peer = (size_t)config->max_locks_per_peer,
	    .max_waits_per_peer = (size_t)config->max_waits_per_peer,
	    .channels_reserve = (size_t)config->channels_reserve,
	};
}

struct account_limits
server_account_limits(const struct config *config)
{
	const size_t mib = 1024 * 1024;

	return (struct account_limits){
	    .most = {[ACCOUNT_PEERS] = (size_t)config->max_peers_per_uid,
		[ACCOUNT_WAITS] = (size_t)config->max_waits_per_uid,
		[ACCOUNT_WATCHES] = (size_t)config->max_watches_per_uid,
		[ACCOUNT_LOOKS] = (size_t)config->max_looks_per_uid,
		[ACCOUNT_BYTES] = (size_t)config->max_buffer_per_uid * mib},
	    .all_bytes = (size_t)config->max_buffer * mib,
	};
}

struct broker *
server_amqp_broker(struct event_base *base, struct timers *timers, uint64_t seed,
    const struct config *config, char **ret_error)
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
	    .probe_timeout = config->probe_timeout,
	    .side_idle = config->side_idle,
	    .name = name,
	};
	if (amqp_tcp_dialer(base, &settings, &dialer, ret_error))
		broker = amqp_broker_new(timers, seed, &settings, &dialer);
	free(name);
	free(hosts);
	return broker;
}

/* As other hosts name it: printable, so that it can stand in any line. */
static char *
host_name(const struct config *started)
{
	char machine[256] = "";

	if (started->host_name[0] == '\0')
		gethostname(machine, sizeof(machine) - 1);
	else
		snprintf(machine, sizeof(machine), "%s", started->host_name);
	for (char *at = machine; *at != '\0'; at++) {
		if (*at <= ' ' || *at > '~')
			*at = '?';
	}
	return mem_strdup(machine[0] == '\0' ? "localhost" : machine);
}

struct view *
server_view(struct lock_engine *engine, struct broker *broker, struct timers *timers, uint32_t run,
    const struct config *started, const struct view_listener *listener)
{
	bool custom = started->slot_queue[0] != '\0';
	char *host = host_name(started);
	/* Daemons see each other when their locks are the same queues. */
	char *naming = custom ? mem_printf("%s %s", started->slot_queue, started->holder_queue)
			      : mem_strdup(started->naming);
	const struct view_settings settings = {
	    .run = run, .host = host, .naming = naming, .timeout = started->inspect_timeout};
	struct view *view = view_new(engine, broker, timers, &settings, listener);

	free(naming);
	free(host);
	return view;
}
