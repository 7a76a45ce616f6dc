#include "daemon/broker/side.h"

#include "daemon/broker/count.h"
#include "daemon/broker/directory.h"
#include "daemon/broker/hint.h"
#include "daemon/broker/letters.h"
#include "daemon/broker/line.h"
#include "daemon/broker/probe.h"
#include "daemon/broker/watch.h"

void
amqp_side_init(struct amqp_side *side, const struct amqp_side_config *config)
{
	const struct amqp_watches_config watches = {
	    .timers = config->timers,
	    .lanes = config->lanes,
	    .jitter = config->jitter,
	    .ack_after = config->settings->ack_after,
	    .news = config->watch_news,
	    .ctx = config->ctx,
	};
	const struct amqp_lines_config lines = {
	    .timers = config->timers,
	    .lanes = config->lanes,
	    .jitter = config->jitter,
	    .news = config->line_news,
	    .ctx = config->ctx,
	};
	const struct amqp_hints_config hints = {
	    .timers = config->timers,
	    .lanes = config->lanes,
	    .news = config->line_news,
	    .ctx = config->ctx,
	};
	const struct amqp_letters_config letters = {
	    .timers = config->timers,
	    .lanes = config->lanes,
	    .jitter = config->jitter,
	    .idle = config->settings->side_idle,
	    .replays = config->settings->replays,
	    .asked = config->asked,
	    .replied = config->replied,
	    .ctx = config->ctx,
	};

	side->probes =
	    amqp_probes_new(config->timers, config->lanes, config->settings->probe_timeout);
	side->directory = amqp_directory_new(config->timers, config->lanes);
	side->watches = amqp_watches_new(&watches);
	side->lines = amqp_lines_new(&lines);
	side->hints = amqp_hints_new(&hints);
	side->counters = amqp_counters_new(config->timers, config->lanes);
	side->letters = amqp_letters_new(&letters);
}

void
amqp_side_done(struct amqp_side *side)
{
	amqp_probes_free(side->probes);
	amqp_directory_free(side->directory);
	amqp_watches_free(side->watches);
	amqp_lines_free(side->lines);
	amqp_hints_free(side->hints);
	amqp_counters_free(side->counters);
	amqp_letters_free(side->letters);
}

void
amqp_side_silence(struct amqp_side *side)
{
	amqp_probes_silence(side->probes);
	amqp_directory_silence(side->directory);
	amqp_watches_silence(side->watches);
	amqp_lines_silence(side->lines);
	amqp_hints_silence(side->hints);
	amqp_counters_silence(side->counters);
	amqp_letters_silence(side->letters);
}

bool
amqp_side_stays(const struct amqp_side *side)
{
	return amqp_watches_any(side->watches) || amqp_lines_any(side->lines) ||
	       amqp_hints_any(side->hints) || amqp_letters_any(side->letters);
}

bool
amqp_side_in_use(const struct amqp_side *side)
{
	return amqp_probes_in_use(side->probes) || amqp_directory_in_use(side->directory) ||
	       amqp_counters_in_use(side->counters) || amqp_side_stays(side);
}

void
amqp_side_go(struct amqp_side *side, const char *user)
{
	amqp_probes_go(side->probes);
	amqp_directory_go(side->directory);
	amqp_watches_go(side->watches);
	amqp_lines_go(side->lines);
	amqp_hints_go(side->hints);
	amqp_counters_go(side->counters);
	amqp_letters_go(side->letters, user);
}

void
amqp_side_fail(struct amqp_side *side, int code)
{
	amqp_hints_fail(side->hints);
	amqp_letters_fail(side->letters);
	amqp_side_give_up(side);
	amqp_watches_fail(side->watches, code);
	amqp_lines_fail(side->lines);
}

void
amqp_side_give_up(struct amqp_side *side)
{
	amqp_probes_fail(side->probes);
	amqp_directory_fail(side->directory);
	amqp_counters_fail(side->counters);
}

void
amqp_side_block(struct amqp_side *side, bool blocked)
{
	amqp_hints_block(side->hints, blocked);
	amqp_letters_block(side->letters, blocked);
}
