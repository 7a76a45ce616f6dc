#include "daemon/amqp/settings.h"

#include <stdlib.h>

#include "daemon/base/clock.h"
#include "daemon/base/mem.h"

#define BACKOFF_FIRST (100 * NSEC_PER_MSEC)
#define BACKOFF_MOST (10 * NSEC_PER_SEC)

void
amqp_settings_copy(struct amqp_settings *ret, const struct amqp_settings *settings)
{
	struct amqp_host *hosts = mem_alloc(settings->host_count * sizeof(*hosts));

	*ret = *settings;
	if (ret->backoff_first == 0)
		ret->backoff_first = BACKOFF_FIRST;
	if (ret->backoff_most == 0)
		ret->backoff_most = BACKOFF_MOST;
	ret->name = mem_strdup(settings->name);
	ret->tls_ca = ret->tls_cert = ret->tls_key = NULL;
	for (size_t i = 0; i < settings->host_count; i++) {
		const struct amqp_host *host = &settings->hosts[i];

		hosts[i] = *host;
		hosts[i].host = mem_strdup(host->host);
		hosts[i].vhost = mem_strdup(host->vhost);
		hosts[i].user = mem_strdup(host->user != NULL ? host->user : "");
		hosts[i].password = host->password != NULL ? host->password : "";
	}
	ret->hosts = hosts;
}

void
amqp_settings_done(struct amqp_settings *copy)
{
	for (size_t i = 0; i < copy->host_count; i++) {
		free((char *)copy->hosts[i].host);
		free((char *)copy->hosts[i].vhost);
		free((char *)copy->hosts[i].user);
	}
	free((struct amqp_host *)copy->hosts);
	free((char *)copy->name);
}
