#include "daemon/broker/broker.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/amqp/settings.h"
#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/broker/count.h"
#include "daemon/broker/directory.h"
#include "daemon/broker/hint.h"
#include "daemon/broker/keeper.h"
#include "daemon/broker/letters.h"
#include "daemon/broker/line.h"
#include "daemon/broker/probe.h"
#include "daemon/broker/setup.h"
#include "daemon/broker/side.h"
#include "daemon/broker/watch.h"

struct broker {
	struct broker_events events;   /* zeroed: nobody hears */
	struct timers *timers;         /* borrowed */
	struct amqp_settings settings; /* owned copy */
	struct amqp_dialer dialer;     /* owned */
	struct jitter jitter;
	struct amqp_keeper *hold, *side;  /* owned */
	struct amqp_side over;            /* what is done over the side link */
	char *cluster;                    /* owned; the first one seen, NULL before */
	char *product, *version;          /* owned; of the hold link's server */
	bool persistent, deletes_by_name; /* that server; both while none was seen */
	bool blocked;
	bool stopped;
	int64_t side_used;      /* clock time of the last use of the side link */
	struct timer side_idle; /* while it is up */
	struct timer side_wait; /* it is needed, and the hold link is not up to say where */
};

static int64_t
now(const struct broker *broker)
{
	return clock_now(timers_clock(broker->timers));
}

static struct amqp_keeper *
keeper_of(const struct broker *broker, enum broker_link link)
{
	return link == BROKER_HOLD ? broker->hold : broker->side;
}

static struct amqp_lanes *
lanes_of(const struct broker *broker, uint64_t lane)
{
	/* The lowest bit of an id (lane.c). */
	return amqp_keeper_lanes(lane & 1 ? broker->side : broker->hold);
}

/* ---- the side link, on demand ---- */

static bool
side_in_use(const struct broker *broker)
{
	return amqp_lanes_in_use(amqp_keeper_lanes(broker->side)) ||
	       amqp_side_in_use(&broker->over);
}

/* Both links go to one host at a time: it follows the hold link. */
static void
need_side(struct broker *broker)
{
	if (broker->stopped)
		return;
	broker->side_used = now(broker);
	if (amqp_keeper_state(broker->hold) == BROKER_UP) {
		timers_cancel(broker->timers, &broker->side_wait);
		amqp_keeper_need(broker->side, amqp_keeper_host(broker->hold));
	} else if (amqp_keeper_is_idle(broker->side) && !timer_is_set(&broker->side_wait)) {
		timers_set(broker->timers, &broker->side_wait,
		    broker->side_used + broker->settings.connect_timeout);
	}
}

static void
on_side_wait(void *ctx, uint64_t id)
{
	struct broker *broker = ctx;

	(void)id;
	if (!amqp_keeper_is_idle(broker->side))
		return;
	amqp_lanes_fail(amqp_keeper_lanes(broker->side));
	amqp_side_give_up(&broker->over);
}

static void
on_side_idle(void *ctx, uint64_t id)
{
	struct broker *broker = ctx;
	int64_t due = broker->side_used + broker->settings.side_idle;

	(void)id;
	if (side_in_use(broker))
		due = now(broker) + broker->settings.side_idle;
	if (due > now(broker))
		timers_set(broker->timers, &broker->side_idle, due);
	else
		amqp_keeper_rest(broker->side, "idle");
}

/* ---- the keepers' events ---- */

/*
 * A list of hosts that are not one cluster would grant one slot twice. Nothing else in the server's
 * properties tells clusters apart, and by default each node (3.10.8) makes the name up from its own.
 */
static char *
on_vet(void *ctx, const struct amqp_server *server)
{
	struct broker *broker = ctx;

	if (broker->cluster == NULL || strcmp(broker->cluster, server->cluster) == 0)
		return NULL;
	return mem_printf("this host belongs to cluster \"%s\", not to \"%s\"; all hosts must "
			  "belong to one cluster (rabbitmqctl set_cluster_name names it)",
	    server->cluster, broker->cluster);
}

static void
hold_up(struct broker *broker)
{
	const struct amqp_server *server = &amqp_keeper_link(broker->hold)->server;

	if (broker->cluster == NULL)
		broker->cluster = mem_strdup(server->cluster);
	free(broker->product);
	free(broker->version);
	broker->product = mem_strdup(server->product);
	broker->version = mem_strdup(server->version);
	broker->persistent = server->persistent;
	broker->deletes_by_name = server->deletes_by_name;
	if (amqp_keeper_host(broker->side) != amqp_keeper_host(broker->hold))
		amqp_keeper_drop(broker->side, "the hold link goes to another host now");
	if (side_in_use(broker))
		need_side(broker);
}

/* By a certificate, the broker alone knows. */
static const char *
side_user(const struct broker *broker)
{
	const struct amqp_settings *settings = &broker->settings;

	return settings->external ? NULL : settings->hosts[amqp_keeper_host(broker->side)].user;
}

static void
on_up(void *ctx, enum broker_link which)
{
	struct broker *broker = ctx;

	if (which == BROKER_HOLD) {
		hold_up(broker);
		return;
	}
	broker->side_used = now(broker);
	timers_set(broker->timers, &broker->side_idle, now(broker) + broker->settings.side_idle);
	amqp_side_go(&broker->over, side_user(broker));
}

/*
 * A side link that is not up yet waits for the hold link: where the broker allows one connection alone,
 * it would take its place.
 */
static void
hold_down(struct broker *broker)
{
	if (amqp_keeper_state(broker->side) == BROKER_UP)
		return;
	amqp_keeper_drop(broker->side, "the hold link is down");
	if (side_in_use(broker))
		need_side(broker);
}

static void
on_down(void *ctx, enum broker_link which)
{
	struct broker *broker = ctx;

	if (which == BROKER_HOLD) {
		hold_down(broker);
		return;
	}
	broker->blocked = false;
	timers_cancel(broker->timers, &broker->side_idle);
	amqp_side_fail(&broker->over, amqp_keeper_code(broker->side));
	FAULT(SIDE_NOT_MADE_ANEW, return );
	/* Who waits for an answer has got it; who watches goes on watching. */
	if (amqp_side_stays(&broker->over))
		need_side(broker);
}

static void
on_blocked(void *ctx, enum broker_link which, bool blocked, const char *why)
{
	struct broker *broker = ctx;

	/* The hold link never publishes: no alarm stops it. */
	if (which == BROKER_HOLD)
		return;
	broker->blocked = blocked;
	if (blocked)
		log_warning("the broker accepts no messages: %s", why);
	else
		log_info("the broker accepts messages again");
	amqp_side_block(&broker->over, blocked);
}

static void
on_changed(void *ctx, enum broker_link which, enum broker_state state, const char *why)
{
	struct broker *broker = ctx;

	if (!broker->stopped && broker->events.link != NULL)
		broker->events.link(broker->events.ctx, which, state, why);
}

static void
on_lane_closed(void *ctx, uint64_t lane, int code, const char *text)
{
	struct broker *broker = ctx;

	if (broker->events.lane_closed != NULL)
		broker->events.lane_closed(broker->events.ctx, lane, code, text);
}

static void
on_watch_news(void *ctx, const char *queue, enum broker_news news)
{
	struct broker *broker = ctx;

	if (broker->events.watch != NULL)
		broker->events.watch(broker->events.ctx, queue, news);
}

static void
on_line_news(void *ctx, const struct broker_line_event *event)
{
	struct broker *broker = ctx;

	if (broker->events.line != NULL)
		broker->events.line(broker->events.ctx, event);
}

static void
on_asked(void *ctx, const struct broker_letter *letter)
{
	struct broker *broker = ctx;

	if (broker->events.asked != NULL)
		broker->events.asked(broker->events.ctx, letter);
}

static void
on_replied(void *ctx, const struct broker_letter *letter)
{
	struct broker *broker = ctx;

	if (broker->events.replied != NULL)
		broker->events.replied(broker->events.ctx, letter);
}

/* ---- operations ---- */

void
broker_set_events(struct broker *broker, const struct broker_events *events)
{
	broker->events = *events;
}

void
broker_start(struct broker *broker)
{
	amqp_keeper_keep(broker->hold);
}

void
broker_stop(struct broker *broker)
{
	broker->stopped = true;
	timers_cancel(broker->timers, &broker->side_idle);
	timers_cancel(broker->timers, &broker->side_wait);
	amqp_side_silence(&broker->over);
	amqp_keeper_quit(broker->side);
	amqp_keeper_quit(broker->hold);
}

void
broker_free(struct broker *broker)
{
	if (broker == NULL)
		return;
	broker_stop(broker);
	amqp_side_done(&broker->over);
	amqp_keeper_free(broker->side);
	amqp_keeper_free(broker->hold);
	broker->dialer.free(broker->dialer.ctx);
	amqp_settings_done(&broker->settings);
	free(broker->cluster);
	free(broker->product);
	free(broker->version);
	free(broker);
}

void
broker_get_info(const struct broker *broker, struct broker_info *ret)
{
	const struct amqp_link *link = amqp_keeper_link(broker->hold);

	*ret = (struct broker_info){
	    .hold = amqp_keeper_state(broker->hold),
	    .side = amqp_keeper_state(broker->side),
	    .probes_refused = amqp_probes_refused(broker->over.probes),
	    .side_blocked = broker->blocked,
	    .why = amqp_keeper_why(broker->hold),
	    .host = amqp_keeper_host_text(broker->hold),
	    .product = broker->product != NULL ? broker->product : "",
	    .version = broker->version != NULL ? broker->version : "",
	    .cluster = broker->cluster != NULL ? broker->cluster : "",
	    .heartbeat = link != NULL ? link->heartbeat : broker->settings.heartbeat,
	    .lanes = amqp_lanes_open(amqp_keeper_lanes(broker->hold)),
	    .lanes_max = amqp_lanes_max(amqp_keeper_lanes(broker->hold)),
	    .persistent = broker->persistent,
	    .deletes_by_name =
		link != NULL ? link->server.deletes_by_name : broker->deletes_by_name,
	};
}

uint64_t
broker_lane_take(struct broker *broker, enum broker_link link)
{
	uint64_t lane = amqp_lanes_take(amqp_keeper_lanes(keeper_of(broker, link)));

	if (link == BROKER_SIDE)
		need_side(broker);
	return lane;
}

void
broker_lane_put(struct broker *broker, uint64_t lane)
{
	if (lane & 1)
		broker->side_used = now(broker);
	amqp_lanes_put(lanes_of(broker, lane), lane);
}

void
broker_claim(struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	amqp_lanes_request(lanes_of(broker, lane), lane, AMQP_REQUEST_CLAIM, queue, done);
}

void
broker_check(struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	amqp_lanes_request(lanes_of(broker, lane), lane, AMQP_REQUEST_CHECK, queue, done);
}

void
broker_drop(struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	amqp_lanes_request(lanes_of(broker, lane), lane, AMQP_REQUEST_DROP, queue, done);
}

void
broker_declare_slot(
    struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	assert(lane & 1);
	amqp_lanes_request(lanes_of(broker, lane), lane, AMQP_REQUEST_DECLARE_SLOT, queue, done);
}

void
broker_declare_marker(
    struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	assert(lane & 1);
	amqp_lanes_request(lanes_of(broker, lane), lane, AMQP_REQUEST_DECLARE_MARKER, queue, done);
}

void
broker_delete_slot(struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	assert(lane & 1);
	amqp_lanes_request(lanes_of(broker, lane), lane, AMQP_REQUEST_DELETE_SLOT, queue, done);
}

void
broker_probe(
    struct broker *broker, const char *const *queues, size_t count, struct broker_probe_done done)
{
	amqp_probes_ask(broker->over.probes, queues, count, broker->blocked, done);
	need_side(broker);
}

void
broker_directory_read(struct broker *broker, const char *queue, struct broker_names_done done)
{
	amqp_directory_read(broker->over.directory, queue, done);
	need_side(broker);
}

void
broker_directory_enter(
    struct broker *broker, const char *queue, const char *name, struct broker_names_done done)
{
	amqp_directory_enter(broker->over.directory, queue, name, broker->blocked, done);
	need_side(broker);
}

void
broker_directory_leave(
    struct broker *broker, const char *queue, const char *name, struct broker_names_done done)
{
	amqp_directory_leave(broker->over.directory, queue, name, done);
	need_side(broker);
}

void
broker_reset(struct broker *broker, enum broker_link link, const char *why)
{
	struct amqp_keeper *keeper = keeper_of(broker, link);

	if (amqp_keeper_state(keeper) == BROKER_UP)
		amqp_keeper_drop(keeper, why);
}

void
broker_watch(struct broker *broker, const char *queue)
{
	if (broker->stopped)
		return;
	amqp_watches_add(broker->over.watches, queue);
	need_side(broker);
}

void
broker_unwatch(struct broker *broker, const char *queue)
{
	broker->side_used = now(broker);
	amqp_watches_remove(broker->over.watches, queue);
}

void
broker_line_join(struct broker *broker, const char *queue, int priority, unsigned credit)
{
	if (broker->stopped)
		return;
	amqp_lines_join(broker->over.lines, queue, priority, credit);
	need_side(broker);
}

void
broker_line_leave(struct broker *broker, const char *queue, int priority)
{
	broker->side_used = now(broker);
	amqp_lines_leave(broker->over.lines, queue, priority);
}

void
broker_line_wake(struct broker *broker, const char *queue, int slot)
{
	if (broker->stopped)
		return;
	amqp_hints_send(broker->over.hints, queue, slot);
	need_side(broker);
}

void
broker_line_count(struct broker *broker, const char *queue, struct broker_count_done done)
{
	if (broker->stopped)
		return;
	amqp_counters_ask(broker->over.counters, queue, done);
	need_side(broker);
}

void
broker_inbox_open(struct broker *broker)
{
	if (broker->stopped)
		return;
	amqp_letters_open(broker->over.letters);
	need_side(broker);
}

void
broker_inbox_close(struct broker *broker)
{
	if (broker->stopped)
		return;
	broker->side_used = now(broker);
	amqp_letters_close(broker->over.letters);
}

uint64_t
broker_ask(struct broker *broker, const char *text, size_t len)
{
	uint64_t number;

	if (broker->stopped)
		return 0;
	number = amqp_letters_ask(broker->over.letters, text, len);
	need_side(broker);
	return number;
}

void
broker_reply_to(struct broker *broker, uint64_t from, const char *text, size_t len)
{
	if (!broker->stopped)
		amqp_letters_reply(broker->over.letters, from, text, len);
}

/* ---- life ---- */

static struct amqp_keeper *
new_keeper(struct broker *broker, enum broker_link which)
{
	const struct amqp_keeper_config config = {
	    .timers = broker->timers,
	    .settings = &broker->settings,
	    .dialer = &broker->dialer,
	    .jitter = &broker->jitter,
	    .which = which,
	};
	const struct amqp_keeper_events events = {
	    .vet = on_vet,
	    .blocked = on_blocked,
	    .up = on_up,
	    .down = on_down,
	    .changed = on_changed,
	    .lane_closed = on_lane_closed,
	    .ctx = broker,
	};

	return amqp_keeper_new(&config, &events);
}

static void
init_side(struct broker *broker)
{
	const struct amqp_side_config config = {
	    .timers = broker->timers,
	    .lanes = amqp_keeper_lanes(broker->side),
	    .jitter = &broker->jitter,
	    .settings = &broker->settings,
	    .watch_news = on_watch_news,
	    .line_news = on_line_news,
	    .asked = on_asked,
	    .replied = on_replied,
	    .ctx = broker,
	};

	amqp_side_init(&broker->over, &config);
}

struct broker *
broker_new(struct timers *timers, uint64_t seed, const struct amqp_settings *settings,
    const struct amqp_dialer *dialer)
{
	struct broker *broker = mem_alloc(sizeof(*broker));

	assert(settings->host_count > 0);
	broker->timers = timers;
	broker->dialer = *dialer;
	amqp_settings_copy(&broker->settings, settings);
	broker->persistent = broker->deletes_by_name = true;
	jitter_init(&broker->jitter, seed);
	timer_init(&broker->side_idle, on_side_idle, broker, 0);
	timer_init(&broker->side_wait, on_side_wait, broker, 0);
	broker->hold = new_keeper(broker, BROKER_HOLD);
	broker->side = new_keeper(broker, BROKER_SIDE);
	init_side(broker);
	return broker;
}

/* ---- for tests, metrics and the server in memory ---- */

void
broker_get_counts(const struct broker *broker, enum broker_link link, struct amqp_counts *ret)
{
	*ret = *amqp_keeper_counts(keeper_of(broker, link));
}

const struct amqp_dialer *
broker_dialer(const struct broker *broker)
{
	return &broker->dialer;
}

const struct amqp_lanes *
broker_lanes(const struct broker *broker, enum broker_link link)
{
	return amqp_keeper_lanes(keeper_of(broker, link));
}

size_t
broker_watched(const struct broker *broker)
{
	return amqp_watches_count(broker->over.watches);
}

size_t
broker_joined(const struct broker *broker)
{
	return amqp_lines_count(broker->over.lines);
}
