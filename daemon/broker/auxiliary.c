#include "daemon/broker/auxiliary.h"

#include "daemon/broker/count.h"
#include "daemon/broker/directory.h"
#include "daemon/broker/hint.h"
#include "daemon/broker/mailbox.h"
#include "daemon/broker/wait_queue.h"
#include "daemon/broker/probe.h"
#include "daemon/broker/watch.h"

void
amqp_auxiliary_init(struct amqp_auxiliary *auxiliary, const struct amqp_auxiliary_config *config)
{
	const struct amqp_watches_config watches = {
	    .timers = config->timers,
	    .channels = config->channels,
	    .jitter = config->jitter,
	    .ack_after = config->settings->ack_after,
	    .news = config->watch_news,
	    .ctx = config->ctx,
	};
	const struct amqp_wait_queues_config wait_queues = {
	    .timers = config->timers,
	    .channels = config->channels,
	    .jitter = config->jitter,
	    .news = config->wait_queue_news,
	    .ctx = config->ctx,
	};
	const struct amqp_hints_config hints = {
	    .timers = config->timers,
	    .channels = config->channels,
	    .news = config->wait_queue_news,
	    .ctx = config->ctx,
	};
	const struct amqp_mailbox_config mailbox = {
	    .timers = config->timers,
	    .channels = config->channels,
	    .jitter = config->jitter,
	    .idle = config->settings->auxiliary_idle,
	    .replays = config->settings->replays,
	    .asked = config->asked,
	    .replied = config->replied,
	    .ctx = config->ctx,
	};

	auxiliary->counters = amqp_counters_new(config->timers, config->channels);
	auxiliary->probes = amqp_probes_new(
	    config->timers, config->channels, auxiliary->counters, config->settings->probe_timeout);
	auxiliary->directory = amqp_directory_new(config->timers, config->channels);
	auxiliary->watches = amqp_watches_new(&watches);
	auxiliary->wait_queues = amqp_wait_queues_new(&wait_queues);
	auxiliary->hints = amqp_hints_new(&hints);
	auxiliary->mailbox = amqp_mailbox_new(&mailbox);
}

void
amqp_auxiliary_done(struct amqp_auxiliary *auxiliary)
{
	amqp_probes_free(auxiliary->probes);
	amqp_directory_free(auxiliary->directory);
	amqp_watches_free(auxiliary->watches);
	amqp_wait_queues_free(auxiliary->wait_queues);
	amqp_hints_free(auxiliary->hints);
	amqp_counters_free(auxiliary->counters);
	amqp_mailbox_free(auxiliary->mailbox);
}

void
amqp_auxiliary_silence(struct amqp_auxiliary *auxiliary)
{
	amqp_probes_silence(auxiliary->probes);
	amqp_directory_silence(auxiliary->directory);
	amqp_watches_silence(auxiliary->watches);
	amqp_wait_queues_silence(auxiliary->wait_queues);
	amqp_hints_silence(auxiliary->hints);
	amqp_counters_silence(auxiliary->counters);
	amqp_mailbox_silence(auxiliary->mailbox);
}

bool
amqp_auxiliary_stays(const struct amqp_auxiliary *auxiliary)
{
	return amqp_watches_any(auxiliary->watches) ||
	       amqp_wait_queues_any(auxiliary->wait_queues) || amqp_hints_any(auxiliary->hints) ||
	       amqp_mailbox_any(auxiliary->mailbox);
}

bool
amqp_auxiliary_in_use(const struct amqp_auxiliary *auxiliary)
{
	return amqp_probes_in_use(auxiliary->probes) ||
	       amqp_directory_in_use(auxiliary->directory) ||
	       amqp_counters_in_use(auxiliary->counters) || amqp_auxiliary_stays(auxiliary);
}

void
amqp_auxiliary_go(struct amqp_auxiliary *auxiliary, const char *user)
{
	amqp_probes_go(auxiliary->probes);
	amqp_directory_go(auxiliary->directory);
	amqp_watches_go(auxiliary->watches);
	amqp_wait_queues_go(auxiliary->wait_queues);
	amqp_hints_go(auxiliary->hints);
	amqp_counters_go(auxiliary->counters);
	amqp_mailbox_go(auxiliary->mailbox, user);
}

void
amqp_auxiliary_fail(struct amqp_auxiliary *auxiliary, int code)
{
	amqp_hints_fail(auxiliary->hints);
	amqp_mailbox_fail(auxiliary->mailbox);
	amqp_auxiliary_give_up(auxiliary);
	amqp_watches_fail(auxiliary->watches, code);
	amqp_wait_queues_fail(auxiliary->wait_queues);
}

void
amqp_auxiliary_give_up(struct amqp_auxiliary *auxiliary)
{
	amqp_probes_fail(auxiliary->probes);
	amqp_directory_fail(auxiliary->directory);
	amqp_counters_fail(auxiliary->counters);
}

void
amqp_auxiliary_block(struct amqp_auxiliary *auxiliary, bool blocked)
{
	amqp_hints_block(auxiliary->hints, blocked);
	amqp_mailbox_block(auxiliary->mailbox, blocked);
}
