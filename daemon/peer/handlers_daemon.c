#include "daemon/peer/handlers.h"

#include <string.h>
#include <unistd.h>

#include "config.h"

void
handle_ping(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	struct cJSON *result = json_new_object(), *broker;
	struct broker_info info;

	if (params->broker) {
		broker_get_info(dispatch->broker, &info);
		broker = json_new_object();
		json_add_string(broker, "state", broker_state_word(info.hold));
		json_add(result, "broker", broker);
	}
	dispatch_reply(conn, request, result);
}

void
handle_info(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	const struct config *config = dispatch->config;
	struct cJSON *result = json_new_object(), *limits = json_new_object();
	struct cJSON *lease = json_new_object();
	struct broker_info info;
	struct lock_counts counts;

	(void)params;
	broker_get_info(dispatch->broker, &info);
	lock_get_counts(dispatch->engine, &counts);
	json_add_string(result, "version", PACKAGE_VERSION);
	json_add_integer(result, "pid", getpid());
	json_add_seconds(result, "uptime", clock_now(dispatch->clock) - dispatch->started_at);
	json_add_bool(result, "draining", dispatch->draining);
	json_add_string(result, "naming", dispatch->started->naming);
	json_add_integer(limits, "line", LINE_MAX_IN);
	json_add_integer(limits, "locks_per_peer", config->max_locks_per_peer);
	json_add_integer(limits, "waits_per_peer", config->max_waits_per_peer);
	json_add_integer(limits, "requests_per_peer", config->max_requests_per_peer);
	json_add_integer(limits, "waits_per_uid", config->max_waits_per_uid);
	json_add_integer(limits, "watches_per_uid", config->max_watches_per_uid);
	json_add_integer(limits, "looks_per_uid", config->max_looks_per_uid);
	json_add(result, "limits", limits);
	json_add(result, "broker", result_broker(&info));
	json_add_seconds(lease, "margin", lock_margin(dispatch->engine));
	json_add_seconds(lease, "takeover", lock_takeover(dispatch->engine));
	json_add_bool(lease, "recovering", lock_is_recovering(dispatch->engine));
	json_add(result, "lease", lease);
	json_add(result, "counts", result_counts(&counts, peers_count(dispatch->peers)));
	dispatch_reply(conn, request, result);
}

void
handle_discover(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	(void)dispatch;
	(void)params;
	dispatch_reply(conn, request, json_new_text(openrpc_json));
}
