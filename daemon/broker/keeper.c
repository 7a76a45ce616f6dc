#include "daemon/broker/keeper.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/mem.h"

/* A link that was up for so long starts over with the waiting between tries. */
#define STEADY (10 * NSEC_PER_SEC)

struct amqp_keeper {
	struct amqp_keeper_config config;
	struct amqp_keeper_events events;
	struct amqp_channels *channels; /* owned */
	struct amqp_link *link;         /* owned; NULL = none */
	struct amqp_link *leaving;      /* owned; closed politely, nothing of it counts any more */
	struct amqp_counts counts;
	enum broker_state state;
	char *why;       /* owned */
	int code;        /* of the connection.close that ended the last link */
	char *host_text; /* owned; of text_host; made when asked for */
	size_t text_host;
	size_t host;
	bool keep;
	struct backoff backoff;
	int64_t up_since;
	int64_t not_before; /* clock time of the next try */
	struct timer retry; /* at not_before, while a try is wanted */
};

static int64_t
now(const struct amqp_keeper *keeper)
{
	return clock_now(timers_clock(keeper->config.timers));
}

/* Static. */
static const char *
keeper_name(const struct amqp_keeper *keeper)
{
	return keeper->config.which == BROKER_LOCKS ? "lock connection" : "auxiliary connection";
}

static const struct amqp_host *
current_host(const struct amqp_keeper *keeper)
{
	return &keeper->config.settings->hosts[keeper->host];
}

const char *
amqp_keeper_host_text(struct amqp_keeper *keeper)
{
	const struct amqp_host *host = current_host(keeper);

	if (keeper->host_text != NULL && keeper->text_host == keeper->host)
		return keeper->host_text;
	free(keeper->host_text);
	keeper->text_host = keeper->host;
	if (host->port == 0)
		keeper->host_text = mem_printf("%s:", host->host);
	else
		keeper->host_text = mem_printf(
		    strchr(host->host, ':') != NULL ? "[%s]:%d" : "%s:%d", host->host, host->port);
	return keeper->host_text;
}

/* Takes why. True when there is something new to tell. */
static bool
keeper_set_state(struct amqp_keeper *keeper, enum broker_state state, char *why)
{
	bool news = state != keeper->state || strcmp(why, keeper->why) != 0;

	keeper->state = state;
	free(keeper->why);
	keeper->why = why;
	return news;
}

static void
log_state(struct amqp_keeper *keeper, bool news)
{
	if (keeper->config.settings->in_process)
		return;
	switch (keeper->state) {
	case BROKER_UP:
		log_info("%s up: %s, %s %s, cluster %s, heartbeat %d s", keeper_name(keeper),
		    amqp_keeper_host_text(keeper), keeper->link->server.product,
		    keeper->link->server.version, keeper->link->server.cluster,
		    keeper->link->heartbeat);
		break;
	case BROKER_DOWN:
		if (news && keeper->config.which == BROKER_LOCKS)
			log_warning("lock connection down: %s", keeper->why);
		else if (news)
			log_info("auxiliary connection down: %s", keeper->why);
		else
			log_debug("%s still down: %s", keeper_name(keeper), keeper->why);
		break;
	case BROKER_LOGIN_REFUSED:
		if (news)
			log_error("%s refused by the broker: %s", keeper_name(keeper), keeper->why);
		else
			log_debug("%s still refused: %s", keeper_name(keeper), keeper->why);
		break;
	}
}

static void
tell(struct amqp_keeper *keeper, bool news)
{
	if (news)
		keeper->events.changed(
		    keeper->events.ctx, keeper->config.which, keeper->state, keeper->why);
}

/* ---- the link's events ---- */

static char *
on_vet(void *ctx, const struct amqp_server *server)
{
	struct amqp_keeper *keeper = ctx;

	return keeper->events.vet(keeper->events.ctx, server);
}

static void
on_up(void *ctx)
{
	struct amqp_keeper *keeper = ctx;
	bool news = keeper_set_state(keeper, BROKER_UP, mem_strdup(""));

	keeper->up_since = now(keeper);
	log_state(keeper, news);
	amqp_channels_attach(keeper->channels, keeper->link);
	keeper->events.up(keeper->events.ctx, keeper->config.which);
	tell(keeper, news);
}

static void
on_frame(void *ctx, const struct amqp_frame *frame)
{
	struct amqp_keeper *keeper = ctx;

	amqp_channels_frame(keeper->channels, frame);
}

static void
on_blocked(void *ctx, bool blocked, const char *why)
{
	struct amqp_keeper *keeper = ctx;

	keeper->events.blocked(keeper->events.ctx, keeper->config.which, blocked, why);
}

/* When the next try may be, and where. A link that was up for long starts over with its host. */
static void
plan_next(struct amqp_keeper *keeper, bool was_up)
{
	if (was_up && now(keeper) - keeper->up_since >= STEADY)
		backoff_reset(&keeper->backoff);
	if (!was_up && keeper->keep)
		keeper->host = (keeper->host + 1) % keeper->config.settings->host_count;
	keeper->not_before = now(keeper) + backoff_next(&keeper->backoff, keeper->config.jitter);
	if (keeper->keep)
		timers_set(keeper->config.timers, &keeper->retry, keeper->not_before);
}

static void
on_dead(void *ctx, struct amqp_link *link, bool refused, int code, const char *why)
{
	struct amqp_keeper *keeper = ctx;
	bool news, was_up = keeper->state == BROKER_UP;

	if (link == keeper->leaving) {
		keeper->leaving = NULL;
		amqp_link_free(link);
		return;
	}
	assert(link == keeper->link);
	keeper->link = NULL;
	keeper->code = code;
	if (code == AMQP_NOT_ALLOWED)
		amqp_channels_learn_limit(keeper->channels);
	news = keeper_set_state(keeper, refused ? BROKER_LOGIN_REFUSED : BROKER_DOWN,
	    current_host(keeper)->port == 0
		? mem_strdup(why)
		: mem_printf("%s: %s", amqp_keeper_host_text(keeper), why));
	log_state(keeper, news);
	plan_next(keeper, was_up);
	amqp_channels_fail(keeper->channels);
	keeper->events.down(keeper->events.ctx, keeper->config.which);
	amqp_link_free(link);
	tell(keeper, news);
}

static void
keeper_connect(struct amqp_keeper *keeper)
{
	const struct amqp_link_config config = {
	    .timers = keeper->config.timers,
	    .settings = keeper->config.settings,
	    .host = current_host(keeper),
	    .name = keeper_name(keeper),
	    .queues_alone = keeper->config.which == BROKER_LOCKS,
	    .counts = &keeper->counts,
	};
	const struct amqp_link_events events = {
	    .vet = on_vet,
	    .up = on_up,
	    .frame = on_frame,
	    .blocked = on_blocked,
	    .dead = on_dead,
	    .ctx = keeper,
	};

	assert(keeper->link == NULL);
	timers_cancel(keeper->config.timers, &keeper->retry);
	keeper->link = keeper->config.dialer->connect(keeper->config.dialer->ctx, &config, &events);
}

static void
on_retry(void *ctx, uint64_t id)
{
	(void)id;
	keeper_connect(ctx);
}

/* ---- outside ---- */

void
amqp_keeper_keep(struct amqp_keeper *keeper)
{
	keeper->keep = true;
	keeper_connect(keeper);
}

void
amqp_keeper_need(struct amqp_keeper *keeper, size_t host)
{
	if (keeper->link != NULL)
		return;
	keeper->host = host;
	if (now(keeper) >= keeper->not_before)
		keeper_connect(keeper);
	else if (!timer_is_set(&keeper->retry))
		timers_set(keeper->config.timers, &keeper->retry, keeper->not_before);
}

void
amqp_keeper_rest(struct amqp_keeper *keeper, const char *why)
{
	bool news;

	assert(keeper->state == BROKER_UP && !amqp_channels_in_use(keeper->channels));
	/* It died a moment ago: that is told from the loop. */
	if (keeper->link->state != AMQP_LINK_UP)
		return;
	amqp_link_free(keeper->leaving);
	keeper->leaving = keeper->link;
	keeper->link = NULL;
	amqp_link_close(keeper->leaving);
	keeper->code = 0;
	news = keeper_set_state(keeper, BROKER_DOWN, mem_strdup(why));
	log_state(keeper, news);
	amqp_channels_fail(keeper->channels);
	keeper->events.down(keeper->events.ctx, keeper->config.which);
	tell(keeper, news);
}

void
amqp_keeper_drop(struct amqp_keeper *keeper, const char *why)
{
	timers_cancel(keeper->config.timers, &keeper->retry);
	if (keeper->link == NULL)
		return;
	amqp_link_drop(keeper->link, why);
}

struct amqp_channels *
amqp_keeper_channels(const struct amqp_keeper *keeper)
{
	return keeper->channels;
}

enum broker_state
amqp_keeper_state(const struct amqp_keeper *keeper)
{
	return keeper->state;
}

const char *
amqp_keeper_why(const struct amqp_keeper *keeper)
{
	return keeper->why;
}

int
amqp_keeper_code(const struct amqp_keeper *keeper)
{
	return keeper->code;
}

size_t
amqp_keeper_host(const struct amqp_keeper *keeper)
{
	return keeper->host;
}

bool
amqp_keeper_is_idle(const struct amqp_keeper *keeper)
{
	return keeper->link == NULL && !timer_is_set(&keeper->retry);
}

const struct amqp_link *
amqp_keeper_link(const struct amqp_keeper *keeper)
{
	return keeper->state == BROKER_UP ? keeper->link : NULL;
}

const struct amqp_counts *
amqp_keeper_counts(const struct amqp_keeper *keeper)
{
	return &keeper->counts;
}

/* ---- life ---- */

struct amqp_keeper *
amqp_keeper_new(const struct amqp_keeper_config *config, const struct amqp_keeper_events *events)
{
	struct amqp_keeper *keeper = mem_alloc(sizeof(*keeper));
	const struct amqp_channels_config channels = {
	    .timers = config->timers,
	    .which = config->which,
	    .counts = &keeper->counts,
	    .closed = events->channel_closed,
	    .ctx = events->ctx,
	};

	keeper->config = *config;
	keeper->events = *events;
	keeper->channels = amqp_channels_new(&channels);
	keeper->state = BROKER_DOWN;
	keeper->why = mem_strdup("not connected yet");
	keeper->not_before = INT64_MIN;
	backoff_init(
	    &keeper->backoff, config->settings->backoff_first, config->settings->backoff_most);
	timer_init(&keeper->retry, on_retry, keeper, 0);
	return keeper;
}

void
amqp_keeper_quit(struct amqp_keeper *keeper)
{
	amqp_channels_silence(keeper->channels);
	timers_cancel(keeper->config.timers, &keeper->retry);
	if (keeper->link != NULL)
		amqp_link_quit(keeper->link);
	if (keeper->leaving != NULL)
		amqp_link_quit(keeper->leaving);
}

void
amqp_keeper_free(struct amqp_keeper *keeper)
{
	if (keeper == NULL)
		return;
	amqp_keeper_quit(keeper);
	amqp_channels_free(keeper->channels);
	amqp_link_free(keeper->link);
	amqp_link_free(keeper->leaving);
	free(keeper->why);
	free(keeper->host_text);
	free(keeper);
}
