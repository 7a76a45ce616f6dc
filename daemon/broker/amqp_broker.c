#include "daemon/broker/amqp_broker.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/amqp/settings.h"
#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/broker/amqp_broker_inside.h"
#include "daemon/broker/count.h"
#include "daemon/broker/directory.h"
#include "daemon/broker/hint.h"
#include "daemon/broker/keeper.h"
#include "daemon/broker/letters.h"
#include "daemon/broker/line.h"
#include "daemon/broker/probe.h"
#include "daemon/broker/watch.h"

static struct amqp_keeper *
keeper_of(const struct amqp_broker *amqp, enum broker_link link)
{
	return link == BROKER_HOLD ? amqp->hold : amqp->side;
}

static struct amqp_lanes *
lanes_of(const struct amqp_broker *amqp, uint64_t lane)
{
	/* The lowest bit of an id (amqp_lane.c). */
	return amqp_keeper_lanes(lane & 1 ? amqp->side : amqp->hold);
}

/* ---- the side link, on demand ---- */

static bool
side_in_use(const struct amqp_broker *amqp)
{
	return amqp_lanes_in_use(amqp_keeper_lanes(amqp->side)) || amqp_side_in_use(&amqp->over);
}

/* Both links go to one host at a time: it follows the hold link. */
static void
need_side(struct amqp_broker *amqp)
{
	if (amqp->stopped)
		return;
	amqp->side_used = amqp_now(amqp);
	if (amqp_keeper_state(amqp->hold) == BROKER_UP) {
		timers_cancel(amqp->timers, &amqp->side_wait);
		amqp_keeper_need(amqp->side, amqp_keeper_host(amqp->hold));
	} else if (amqp_keeper_is_idle(amqp->side) && !timer_is_set(&amqp->side_wait)) {
		timers_set(amqp->timers, &amqp->side_wait,
		    amqp->side_used + amqp->settings.connect_timeout);
	}
}

static void
on_side_wait(void *ctx, uint64_t id)
{
	struct amqp_broker *amqp = ctx;

	(void)id;
	if (!amqp_keeper_is_idle(amqp->side))
		return;
	amqp_lanes_fail(amqp_keeper_lanes(amqp->side));
	amqp_side_give_up(&amqp->over);
}

static void
on_side_idle(void *ctx, uint64_t id)
{
	struct amqp_broker *amqp = ctx;
	int64_t due = amqp->side_used + amqp->settings.side_idle;

	(void)id;
	if (side_in_use(amqp))
		due = amqp_now(amqp) + amqp->settings.side_idle;
	if (due > amqp_now(amqp))
		timers_set(amqp->timers, &amqp->side_idle, due);
	else
		amqp_keeper_rest(amqp->side, "not needed any more");
}

/* ---- the keepers' events ---- */

/*
 * A list of hosts that are not one cluster would grant one slot twice. Nothing else in the server's
 * properties tells clusters apart, and by default each node (3.10.8) makes the name up from its own.
 */
static char *
on_vet(void *ctx, const struct amqp_server *server)
{
	struct amqp_broker *amqp = ctx;

	if (amqp->cluster == NULL || strcmp(amqp->cluster, server->cluster) == 0)
		return NULL;
	return mem_printf("this host is of cluster \"%s\", not of \"%s\", which was seen first "
			  "(the nodes of one cluster each say their own name until "
			  "rabbitmqctl set_cluster_name gives it one)",
	    server->cluster, amqp->cluster);
}

static void
hold_up(struct amqp_broker *amqp)
{
	const struct amqp_server *server = &amqp_keeper_link(amqp->hold)->server;

	if (amqp->cluster == NULL)
		amqp->cluster = mem_strdup(server->cluster);
	free(amqp->product);
	free(amqp->version);
	amqp->product = mem_strdup(server->product);
	amqp->version = mem_strdup(server->version);
	amqp->persistent = server->persistent;
	amqp->deletes_by_name = server->deletes_by_name;
	if (amqp_keeper_host(amqp->side) != amqp_keeper_host(amqp->hold))
		amqp_keeper_drop(amqp->side, "the hold link goes to another host now");
	if (side_in_use(amqp))
		need_side(amqp);
}

/* By a certificate, the broker alone knows. */
static const char *
side_user(const struct amqp_broker *amqp)
{
	const struct amqp_settings *settings = &amqp->settings;

	return settings->external ? NULL : settings->hosts[amqp_keeper_host(amqp->side)].user;
}

static void
on_up(void *ctx, enum broker_link which)
{
	struct amqp_broker *amqp = ctx;

	if (which == BROKER_HOLD) {
		hold_up(amqp);
		return;
	}
	amqp->side_used = amqp_now(amqp);
	timers_set(amqp->timers, &amqp->side_idle, amqp_now(amqp) + amqp->settings.side_idle);
	amqp_side_go(&amqp->over, side_user(amqp));
}

/*
 * A side link that is not up yet waits for the hold link: where the broker allows one connection alone,
 * it would take its place.
 */
static void
hold_down(struct amqp_broker *amqp)
{
	if (amqp_keeper_state(amqp->side) == BROKER_UP)
		return;
	amqp_keeper_drop(amqp->side, "the hold link is down");
	if (side_in_use(amqp))
		need_side(amqp);
}

static void
on_down(void *ctx, enum broker_link which)
{
	struct amqp_broker *amqp = ctx;

	if (which == BROKER_HOLD) {
		hold_down(amqp);
		return;
	}
	amqp->blocked = false;
	timers_cancel(amqp->timers, &amqp->side_idle);
	amqp_side_fail(&amqp->over, amqp_keeper_code(amqp->side));
	FAULT(SIDE_NOT_MADE_ANEW, return );
	/* Who waits for an answer has got it; who watches goes on watching. */
	if (amqp_side_stays(&amqp->over))
		need_side(amqp);
}

static void
on_blocked(void *ctx, enum broker_link which, bool blocked, const char *why)
{
	struct amqp_broker *amqp = ctx;

	/* The hold link never publishes: no alarm stops it. */
	if (which == BROKER_HOLD)
		return;
	amqp->blocked = blocked;
	if (blocked)
		log_warning("the broker takes no messages: %s", why);
	else
		log_info("the broker takes messages again");
	amqp_side_block(&amqp->over, blocked);
}

static void
on_changed(void *ctx, enum broker_link which, enum broker_state state, const char *why)
{
	struct amqp_broker *amqp = ctx;

	if (!amqp->stopped && amqp->base.events.link != NULL)
		amqp->base.events.link(amqp->base.events.ctx, which, state, why);
}

static void
on_lane_closed(void *ctx, uint64_t lane, int code, const char *text)
{
	struct amqp_broker *amqp = ctx;

	if (amqp->base.events.lane_closed != NULL)
		amqp->base.events.lane_closed(amqp->base.events.ctx, lane, code, text);
}

static void
on_watch_news(void *ctx, const char *queue, enum broker_news news)
{
	struct amqp_broker *amqp = ctx;

	if (amqp->base.events.watch != NULL)
		amqp->base.events.watch(amqp->base.events.ctx, queue, news);
}

static void
on_line_news(void *ctx, const struct broker_line_event *event)
{
	struct amqp_broker *amqp = ctx;

	if (amqp->base.events.line != NULL)
		amqp->base.events.line(amqp->base.events.ctx, event);
}

static void
on_asked(void *ctx, const struct broker_letter *letter)
{
	struct amqp_broker *amqp = ctx;

	if (amqp->base.events.asked != NULL)
		amqp->base.events.asked(amqp->base.events.ctx, letter);
}

static void
on_replied(void *ctx, const struct broker_letter *letter)
{
	struct amqp_broker *amqp = ctx;

	if (amqp->base.events.replied != NULL)
		amqp->base.events.replied(amqp->base.events.ctx, letter);
}

/* ---- operations ---- */

static void
amqp_start(struct broker *broker)
{
	amqp_keeper_keep(amqp_of(broker)->hold);
}

static void
amqp_stop(struct broker *broker)
{
	struct amqp_broker *amqp = amqp_of(broker);

	amqp->stopped = true;
	timers_cancel(amqp->timers, &amqp->side_idle);
	timers_cancel(amqp->timers, &amqp->side_wait);
	amqp_side_silence(&amqp->over);
	amqp_keeper_quit(amqp->side);
	amqp_keeper_quit(amqp->hold);
}

static void
amqp_free(struct broker *broker)
{
	struct amqp_broker *amqp = amqp_of(broker);

	amqp_side_done(&amqp->over);
	amqp_keeper_free(amqp->side);
	amqp_keeper_free(amqp->hold);
	amqp->dialer.free(amqp->dialer.ctx);
	amqp_settings_done(&amqp->settings);
	free(amqp->cluster);
	free(amqp->product);
	free(amqp->version);
	free(amqp);
}

static void
amqp_get_info(const struct broker *broker, struct broker_info *ret)
{
	struct amqp_broker *amqp = amqp_of((struct broker *)broker);
	const struct amqp_link *link = amqp_keeper_link(amqp->hold);

	*ret = (struct broker_info){
	    .hold = amqp_keeper_state(amqp->hold),
	    .side = amqp_keeper_state(amqp->side),
	    .probes_refused = amqp_probes_refused(amqp->over.probes),
	    .side_blocked = amqp->blocked,
	    .why = amqp_keeper_why(amqp->hold),
	    .host = amqp_keeper_host_text(amqp->hold),
	    .product = amqp->product != NULL ? amqp->product : "",
	    .version = amqp->version != NULL ? amqp->version : "",
	    .cluster = amqp->cluster != NULL ? amqp->cluster : "",
	    .heartbeat = link != NULL ? link->heartbeat : amqp->settings.heartbeat,
	    .lanes = amqp_lanes_open(amqp_keeper_lanes(amqp->hold)),
	    .lanes_max = amqp_lanes_max(amqp_keeper_lanes(amqp->hold)),
	    .persistent = amqp->persistent,
	    .deletes_by_name = amqp->deletes_by_name,
	};
}

static uint64_t
amqp_lane_take(struct broker *broker, enum broker_link link)
{
	struct amqp_broker *amqp = amqp_of(broker);
	uint64_t lane = amqp_lanes_take(amqp_keeper_lanes(keeper_of(amqp, link)));

	if (link == BROKER_SIDE)
		need_side(amqp);
	return lane;
}

static void
amqp_lane_put(struct broker *broker, uint64_t lane)
{
	struct amqp_broker *amqp = amqp_of(broker);

	if (lane & 1)
		amqp->side_used = amqp_now(amqp);
	amqp_lanes_put(lanes_of(amqp, lane), lane);
}

static void
amqp_claim(struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	amqp_lanes_request(lanes_of(amqp_of(broker), lane), lane, AMQP_REQUEST_CLAIM, queue, done);
}

static void
amqp_check(struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	amqp_lanes_request(lanes_of(amqp_of(broker), lane), lane, AMQP_REQUEST_CHECK, queue, done);
}

static void
amqp_drop(struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	amqp_lanes_request(lanes_of(amqp_of(broker), lane), lane, AMQP_REQUEST_DROP, queue, done);
}

static void
amqp_declare_slot(struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	assert(lane & 1);
	amqp_lanes_request(
	    lanes_of(amqp_of(broker), lane), lane, AMQP_REQUEST_DECLARE_SLOT, queue, done);
}

static void
amqp_declare_marker(
    struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	assert(lane & 1);
	amqp_lanes_request(
	    lanes_of(amqp_of(broker), lane), lane, AMQP_REQUEST_DECLARE_MARKER, queue, done);
}

static void
amqp_delete_slot(struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	assert(lane & 1);
	amqp_lanes_request(
	    lanes_of(amqp_of(broker), lane), lane, AMQP_REQUEST_DELETE_SLOT, queue, done);
}

static void
amqp_probe(
    struct broker *broker, const char *const *queues, size_t count, struct broker_probe_done done)
{
	struct amqp_broker *amqp = amqp_of(broker);

	amqp_probes_ask(amqp->over.probes, queues, count, amqp->blocked, done);
	need_side(amqp);
}

static void
amqp_read_directory(struct broker *broker, const char *queue, struct broker_names_done done)
{
	struct amqp_broker *amqp = amqp_of(broker);

	amqp_directory_read(amqp->over.directory, queue, done);
	need_side(amqp);
}

static void
amqp_enter_directory(
    struct broker *broker, const char *queue, const char *name, struct broker_names_done done)
{
	struct amqp_broker *amqp = amqp_of(broker);

	amqp_directory_enter(amqp->over.directory, queue, name, amqp->blocked, done);
	need_side(amqp);
}

static void
amqp_leave_directory(
    struct broker *broker, const char *queue, const char *name, struct broker_names_done done)
{
	struct amqp_broker *amqp = amqp_of(broker);

	amqp_directory_leave(amqp->over.directory, queue, name, done);
	need_side(amqp);
}

static void
amqp_reset(struct broker *broker, enum broker_link link, const char *why)
{
	struct amqp_keeper *keeper = keeper_of(amqp_of(broker), link);

	if (amqp_keeper_state(keeper) == BROKER_UP)
		amqp_keeper_drop(keeper, why);
}

static void
amqp_watch(struct broker *broker, const char *queue)
{
	struct amqp_broker *amqp = amqp_of(broker);

	if (amqp->stopped)
		return;
	amqp_watches_add(amqp->over.watches, queue);
	need_side(amqp);
}

static void
amqp_unwatch(struct broker *broker, const char *queue)
{
	struct amqp_broker *amqp = amqp_of(broker);

	amqp->side_used = amqp_now(amqp);
	amqp_watches_remove(amqp->over.watches, queue);
}

static void
amqp_line_join(struct broker *broker, const char *queue, int priority, unsigned credit)
{
	struct amqp_broker *amqp = amqp_of(broker);

	if (amqp->stopped)
		return;
	amqp_lines_join(amqp->over.lines, queue, priority, credit);
	need_side(amqp);
}

static void
amqp_line_leave(struct broker *broker, const char *queue, int priority)
{
	struct amqp_broker *amqp = amqp_of(broker);

	amqp->side_used = amqp_now(amqp);
	amqp_lines_leave(amqp->over.lines, queue, priority);
}

static void
amqp_line_wake(struct broker *broker, const char *queue, int slot)
{
	struct amqp_broker *amqp = amqp_of(broker);

	if (amqp->stopped)
		return;
	amqp_hints_send(amqp->over.hints, queue, slot);
	need_side(amqp);
}

static void
amqp_line_count(struct broker *broker, const char *queue, struct broker_count_done done)
{
	struct amqp_broker *amqp = amqp_of(broker);

	if (amqp->stopped)
		return;
	amqp_counters_ask(amqp->over.counters, queue, done);
	need_side(amqp);
}

static void
amqp_inbox_open(struct broker *broker)
{
	struct amqp_broker *amqp = amqp_of(broker);

	if (amqp->stopped)
		return;
	amqp_letters_open(amqp->over.letters);
	need_side(amqp);
}

static void
amqp_inbox_close(struct broker *broker)
{
	struct amqp_broker *amqp = amqp_of(broker);

	if (amqp->stopped)
		return;
	amqp->side_used = amqp_now(amqp);
	amqp_letters_close(amqp->over.letters);
}

static uint64_t
amqp_ask(struct broker *broker, const char *text, size_t len)
{
	struct amqp_broker *amqp = amqp_of(broker);
	uint64_t number;

	if (amqp->stopped)
		return 0;
	number = amqp_letters_ask(amqp->over.letters, text, len);
	need_side(amqp);
	return number;
}

static void
amqp_reply_to(struct broker *broker, uint64_t from, const char *text, size_t len)
{
	struct amqp_broker *amqp = amqp_of(broker);

	if (!amqp->stopped)
		amqp_letters_reply(amqp->over.letters, from, text, len);
}

static const struct broker_ops amqp_ops = {
    .start = amqp_start,
    .stop = amqp_stop,
    .free = amqp_free,
    .get_info = amqp_get_info,
    .lane_take = amqp_lane_take,
    .lane_put = amqp_lane_put,
    .claim = amqp_claim,
    .check = amqp_check,
    .drop = amqp_drop,
    .declare_slot = amqp_declare_slot,
    .declare_marker = amqp_declare_marker,
    .delete_slot = amqp_delete_slot,
    .directory_read = amqp_read_directory,
    .directory_enter = amqp_enter_directory,
    .directory_leave = amqp_leave_directory,
    .probe = amqp_probe,
    .reset = amqp_reset,
    .watch = amqp_watch,
    .unwatch = amqp_unwatch,
    .line_join = amqp_line_join,
    .line_leave = amqp_line_leave,
    .line_wake = amqp_line_wake,
    .line_count = amqp_line_count,
    .inbox_open = amqp_inbox_open,
    .inbox_close = amqp_inbox_close,
    .ask = amqp_ask,
    .reply_to = amqp_reply_to,
};

/* ---- life ---- */

static struct amqp_keeper *
new_keeper(struct amqp_broker *amqp, enum broker_link which)
{
	const struct amqp_keeper_config config = {
	    .timers = amqp->timers,
	    .settings = &amqp->settings,
	    .dialer = &amqp->dialer,
	    .jitter = &amqp->jitter,
	    .which = which,
	};
	const struct amqp_keeper_events events = {
	    .vet = on_vet,
	    .blocked = on_blocked,
	    .up = on_up,
	    .down = on_down,
	    .changed = on_changed,
	    .lane_closed = on_lane_closed,
	    .ctx = amqp,
	};

	return amqp_keeper_new(&config, &events);
}

static void
init_side(struct amqp_broker *amqp)
{
	const struct amqp_side_config config = {
	    .timers = amqp->timers,
	    .lanes = amqp_keeper_lanes(amqp->side),
	    .jitter = &amqp->jitter,
	    .settings = &amqp->settings,
	    .watch_news = on_watch_news,
	    .line_news = on_line_news,
	    .asked = on_asked,
	    .replied = on_replied,
	    .ctx = amqp,
	};

	amqp_side_init(&amqp->over, &config);
}

struct broker *
amqp_broker_new(struct timers *timers, uint64_t seed, const struct amqp_settings *settings,
    const struct amqp_dialer *dialer)
{
	struct amqp_broker *amqp = mem_alloc(sizeof(*amqp));

	assert(settings->host_count > 0);
	amqp->base.ops = &amqp_ops;
	amqp->timers = timers;
	amqp->dialer = *dialer;
	amqp_settings_copy(&amqp->settings, settings);
	amqp->persistent = amqp->deletes_by_name = true;
	jitter_init(&amqp->jitter, seed);
	timer_init(&amqp->side_idle, on_side_idle, amqp, 0);
	timer_init(&amqp->side_wait, on_side_wait, amqp, 0);
	amqp->hold = new_keeper(amqp, BROKER_HOLD);
	amqp->side = new_keeper(amqp, BROKER_SIDE);
	init_side(amqp);
	return (struct broker *)amqp;
}

void
amqp_broker_get_counts(const struct broker *broker, enum broker_link link, struct amqp_counts *ret)
{
	*ret = *amqp_keeper_counts(keeper_of((const struct amqp_broker *)broker, link));
}
