#include "daemon/broker/memory_broker.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/broker/memory_broker_inside.h"
#include "daemon/broker/memory_connection.h"
#include "daemon/broker/memory_letters.h"
#include "daemon/broker/memory_line.h"
#include "daemon/broker/memory_stray.h"
#include "daemon/broker/memory_watch.h"
#include "daemon/broker/memory_world.h"

static struct timers *
timers_of(const struct memory_broker *broker)
{
	return broker->timers;
}

static int64_t
now_of(const struct memory_broker *broker)
{
	return clock_now(timers_clock(timers_of(broker)));
}

/* ---- lanes' numbers ---- */

/* The link of a lane is in the lowest bit of its id, so that an id that is gone still tells. */
static uint64_t
lane_id(uint64_t number, enum broker_link which)
{
	return number << 1 | (which == BROKER_SIDE ? 1 : 0);
}

static struct link *
link_of_lane(struct memory_broker *broker, uint64_t lane)
{
	return &broker->links[lane & 1 ? BROKER_SIDE : BROKER_HOLD];
}

uint64_t
memory_broker_new_lane(struct memory_broker *broker)
{
	return lane_id(++broker->last_lane, BROKER_SIDE);
}

/* ---- links ---- */

static void
link_set_state(struct link *link, enum broker_state state, const char *why)
{
	char *copy = mem_strdup(why);

	assert(state != BROKER_UP || link->state != BROKER_UP);
	log_debug("memory broker: %s link: %s -> %s %s",
	    link->which == BROKER_HOLD ? "hold" : "side", broker_state_word(link->state),
	    broker_state_word(state), why);
	link->state = state;
	free(link->why);
	link->why = copy;
}

static void
link_tell(struct link *link)
{
	const struct broker_events *events = &link->broker->base.events;

	if (link->broker->phase == PHASE_STARTED)
		events->link(events->ctx, link->which, link->state, link->why);
}

static bool
link_is_wanted(const struct link *link)
{
	return link->which == BROKER_HOLD || link->connection != NULL ||
	       memory_watches_any(link->broker->watches) ||
	       memory_lines_want_link(link->broker->lines) ||
	       memory_letters_want_link(link->broker->letters);
}

void
memory_link_schedule(struct link *link)
{
	struct timers *timers = timers_of(link->broker);
	int64_t now = now_of(link->broker);

	if (link->broker->phase != PHASE_STARTED || link->state == BROKER_UP || link->held ||
	    !link_is_wanted(link))
		return;
	timers_set(timers, &link->up, link->earliest > now ? link->earliest : now);
}

static void
on_up(void *ctx, uint64_t id)
{
	struct link *link = ctx;

	(void)id;
	/* Out of reach from the start: the first try has failed. */
	if (link->held) {
		link_tell(link);
		return;
	}
	timers_cancel(timers_of(link->broker), &link->give_up);
	if (link->connection == NULL)
		link->connection = memory_connection_new(
		    link->broker->world, link->broker->timers, (struct broker *)link->broker);
	link_set_state(link, BROKER_UP, "");
	/* What has waited goes first, before what the listener asks for now. */
	memory_connection_up(link->connection);
	if (link->which == BROKER_SIDE) {
		memory_watches_up(link->broker->watches, link->connection);
		memory_lines_up(link->broker->lines, link->connection);
		memory_letters_up(link->broker->letters, link->connection);
	}
	link_tell(link);
}

static void
link_forget_reset(struct link *link)
{
	timers_cancel(timers_of(link->broker), &link->reset);
	free(link->reset_why);
	link->reset_why = NULL;
}

/* The link, up or opening, is lost: its requests are answered, then the listener is told. */
static void
link_lose(struct link *link, enum broker_state state, int64_t notice, const char *why)
{
	struct memory_broker *broker = link->broker;

	timers_cancel(timers_of(broker), &link->give_up);
	timers_cancel(timers_of(broker), &link->up);
	link_forget_reset(link);
	link->losing = link->connection;
	link->connection = NULL;
	link->died_at = broker->last_lane;
	link_set_state(link, state, why);
	if (link->which == BROKER_SIDE) {
		memory_lines_down(broker->lines);
		memory_letters_down(broker->letters);
	}
	memory_connection_lose(link->losing, notice);
	link->losing = NULL;
	if (link->which == BROKER_SIDE) {
		memory_watches_down(broker->watches);
		memory_lines_tell(broker->lines);
	}
	if (broker->phase != PHASE_STARTED)
		return; /* stopped by one of the answers */
	memory_link_schedule(link);
	link_tell(link);
}

static void
on_give_up(void *ctx, uint64_t id)
{
	struct link *link = ctx;
	const char *why = *link->why != '\0' ? link->why : "no connection in time";
	char *copy = mem_strdup(why);

	(void)id;
	link_lose(link, link->state, 0, copy);
	free(copy);
}

static void
on_reset(void *ctx, uint64_t id)
{
	struct link *link = ctx;
	char *why = link->reset_why;

	(void)id;
	link->reset_why = NULL;
	link_lose(link, BROKER_DOWN,
	    memory_world_notice(link->broker->world, (struct broker *)link->broker, link->which),
	    why);
	free(why);
}

void
memory_link_want(struct link *link)
{
	struct memory_broker *broker = link->broker;

	if (link->connection != NULL)
		return;
	link->connection =
	    memory_connection_new(broker->world, broker->timers, (struct broker *)broker);
	timers_set(timers_of(broker), &link->give_up, now_of(broker) + MEMORY_PROBE_TIMEOUT);
	memory_link_schedule(link);
}

static void
link_init(struct link *link, struct memory_broker *broker, enum broker_link which)
{
	link->broker = broker;
	link->which = which;
	link->state = BROKER_DOWN;
	link->why = mem_strdup("");
	timer_init(&link->up, on_up, link, 0);
	timer_init(&link->reset, on_reset, link, 0);
	timer_init(&link->give_up, on_give_up, link, 0);
}

static void
link_stop(struct link *link)
{
	timers_cancel(timers_of(link->broker), &link->up);
	timers_cancel(timers_of(link->broker), &link->give_up);
	link_forget_reset(link);
	/* Stopped by an answer of a link that is being lost: the rest stays unanswered. */
	memory_connection_free(link->losing);
	memory_connection_free(link->connection);
	link->losing = link->connection = NULL;
	if (link->state != BROKER_DOWN)
		link_set_state(link, BROKER_DOWN, "");
}

/* ---- the seam's operations ---- */

static void
memory_start(struct broker *base)
{
	struct memory_broker *broker = memory_of(base);
	struct link *hold = &broker->links[BROKER_HOLD];

	assert(broker->phase == PHASE_NEW);
	broker->phase = PHASE_STARTED;
	if (hold->held)
		timers_set(timers_of(broker), &hold->up, now_of(broker));
	memory_link_schedule(hold);
}

static void
memory_stop(struct broker *base)
{
	struct memory_broker *broker = memory_of(base);

	if (broker->phase == PHASE_STOPPED)
		return;
	broker->phase = PHASE_STOPPED;
	link_stop(&broker->links[BROKER_HOLD]);
	link_stop(&broker->links[BROKER_SIDE]);
	memory_watches_clear(broker->watches);
	memory_lines_clear(broker->lines);
	memory_letters_clear(broker->letters);
	memory_strays_clear(broker->strays);
}

static void
memory_free(struct broker *base)
{
	struct memory_broker *broker = memory_of(base);

	assert(broker->phase == PHASE_STOPPED);
	memory_world_forget(broker->world, base);
	memory_watches_free(broker->watches);
	memory_lines_free(broker->lines);
	memory_letters_free(broker->letters);
	memory_strays_free(broker->strays);
	free(broker->links[BROKER_HOLD].why);
	free(broker->links[BROKER_SIDE].why);
	free(broker);
}

static void
memory_get_info(const struct broker *base, struct broker_info *ret)
{
	const struct memory_broker *broker = (const struct memory_broker *)base;
	const struct link *hold = &broker->links[BROKER_HOLD];
	const struct link *side = &broker->links[BROKER_SIDE];

	*ret = (struct broker_info){
	    .hold = hold->state,
	    .side = side->state,
	    .probes_refused = "",
	    .side_blocked = side->state == BROKER_UP && memory_world_blocked(broker->world),
	    .why = hold->why,
	    .host = "memory:",
	    .product = "memory",
	    .version = "",
	    .cluster = "",
	    .heartbeat = broker->heartbeat,
	    .lanes = hold->connection == NULL ? 0 : memory_connection_lanes(hold->connection),
	    .lanes_max = broker->lanes_max,
	    .persistent = false,
	    .deletes_by_name = memory_world_deletes_by_name(broker->world),
	};
}

static uint64_t
memory_lane_take(struct broker *base, enum broker_link which)
{
	struct memory_broker *broker = memory_of(base);
	struct link *link = &broker->links[which];
	uint64_t id;

	if (broker->phase != PHASE_STARTED)
		return 0;
	if (which == BROKER_SIDE)
		memory_link_want(link);
	else if (link->state != BROKER_UP ||
		 memory_connection_lanes(link->connection) >= broker->lanes_max)
		return 0;
	id = lane_id(++broker->last_lane, which);
	memory_connection_lane_open(link->connection, id);
	return id;
}

static void
memory_lane_put(struct broker *base, uint64_t lane)
{
	const struct link *link = link_of_lane(memory_of(base), lane);

	if (link->connection != NULL)
		memory_connection_lane_put(link->connection, lane);
}

void
memory_broker_request(
    struct memory_broker *broker, const struct memory_call *call, struct broker_done done)
{
	const struct link *link = link_of_lane(broker, call->lane);
	uint64_t number = call->lane >> 1;

	assert(number != 0 && number <= broker->last_lane);
	if (broker->phase != PHASE_STARTED)
		return;
	if (link->connection == NULL || !memory_connection_request(link->connection, call, done))
		memory_strays_add(broker->strays,
		    number <= link->died_at ? BROKER_UNKNOWN : BROKER_SKIPPED, done);
}

static void
request(struct broker *base, uint64_t lane, enum memory_method method, const char *queue,
    struct broker_done done)
{
	const struct memory_call call = {.lane = lane, .method = method, .queue = queue};

	memory_broker_request(memory_of(base), &call, done);
}

static void
memory_claim(struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	request(broker, lane, MEMORY_CLAIM, queue, done);
}

static void
memory_check(struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	request(broker, lane, MEMORY_CHECK, queue, done);
}

static void
memory_drop(struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	request(broker, lane, MEMORY_DROP, queue, done);
}

/* Administration has no business on the hold link. */
static void
memory_declare_slot(
    struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	assert(link_of_lane(memory_of(broker), lane)->which == BROKER_SIDE);
	request(broker, lane, MEMORY_DECLARE_SLOT, queue, done);
}

static void
memory_declare_marker(
    struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	assert(link_of_lane(memory_of(broker), lane)->which == BROKER_SIDE);
	request(broker, lane, MEMORY_DECLARE_MARKER, queue, done);
}

static void
memory_delete_slot(struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	assert(link_of_lane(memory_of(broker), lane)->which == BROKER_SIDE);
	request(broker, lane, MEMORY_DELETE_SLOT, queue, done);
}

static void
directory(struct broker *base, enum memory_method method, const char *queue, const char *name,
    struct broker_names_done done)
{
	struct memory_broker *broker = memory_of(base);
	struct link *side = &broker->links[BROKER_SIDE];
	struct memory_call call = {.method = method, .queue = queue, .name = name};

	if (broker->phase != PHASE_STARTED)
		return;
	memory_link_want(side);
	call.lane = memory_broker_new_lane(broker);
	memory_connection_directory(side->connection, &call, done);
}

static void
memory_directory_read(struct broker *broker, const char *queue, struct broker_names_done done)
{
	directory(broker, MEMORY_DIRECTORY_READ, queue, NULL, done);
}

static void
memory_directory_enter(
    struct broker *broker, const char *queue, const char *name, struct broker_names_done done)
{
	directory(broker, MEMORY_DIRECTORY_ENTER, queue, name, done);
}

static void
memory_directory_leave(
    struct broker *broker, const char *queue, const char *name, struct broker_names_done done)
{
	directory(broker, MEMORY_DIRECTORY_LEAVE, queue, name, done);
}

static void
memory_probe(
    struct broker *base, const char *const *queues, size_t count, struct broker_probe_done done)
{
	struct memory_broker *broker = memory_of(base);
	struct link *side = &broker->links[BROKER_SIDE];

	assert(count > 0 && count <= BROKER_PROBE_MAX);
	if (broker->phase != PHASE_STARTED)
		return;
	memory_link_want(side);
	memory_connection_probe(side->connection, queues, count, done);
}

static void
memory_reset(struct broker *broker, enum broker_link which, const char *why)
{
	struct memory_broker *memory = memory_of(broker);
	struct link *link = &memory->links[which];

	if (link->state != BROKER_UP || link->reset_why != NULL)
		return;
	link->reset_why = mem_strdup(why);
	timers_set(timers_of(memory), &link->reset, now_of(memory));
}

static void
memory_watch(struct broker *base, const char *queue)
{
	struct memory_broker *broker = memory_of(base);

	if (broker->phase != PHASE_STARTED)
		return;
	memory_watches_add(broker->watches, queue);
	memory_link_schedule(&broker->links[BROKER_SIDE]);
}

static void
memory_unwatch(struct broker *base, const char *queue)
{
	memory_watches_remove(memory_of(base)->watches, queue);
}

static const struct broker_ops memory_ops = {
    .start = memory_start,
    .stop = memory_stop,
    .free = memory_free,
    .get_info = memory_get_info,
    .lane_take = memory_lane_take,
    .lane_put = memory_lane_put,
    .claim = memory_claim,
    .check = memory_check,
    .drop = memory_drop,
    .declare_slot = memory_declare_slot,
    .declare_marker = memory_declare_marker,
    .delete_slot = memory_delete_slot,
    .directory_read = memory_directory_read,
    .directory_enter = memory_directory_enter,
    .directory_leave = memory_directory_leave,
    .probe = memory_probe,
    .reset = memory_reset,
    .watch = memory_watch,
    .unwatch = memory_unwatch,
    .line_join = memory_broker_line_join,
    .line_leave = memory_broker_line_leave,
    .line_wake = memory_broker_line_wake,
    .line_count = memory_broker_line_count,
    .inbox_open = memory_broker_inbox_open,
    .inbox_close = memory_broker_inbox_close,
    .ask = memory_broker_ask,
    .reply_to = memory_broker_reply_to,
};

struct broker *
memory_broker_new(struct memory_world *world, int heartbeat, unsigned lanes_max)
{
	struct memory_broker *broker = mem_alloc(sizeof(*broker));

	broker->base.ops = &memory_ops;
	broker->world = world;
	broker->timers = memory_world_timers(world);
	broker->phase = PHASE_NEW;
	broker->heartbeat = heartbeat;
	broker->lanes_max = lanes_max;
	link_init(&broker->links[BROKER_HOLD], broker, BROKER_HOLD);
	link_init(&broker->links[BROKER_SIDE], broker, BROKER_SIDE);
	broker->strays = memory_strays_new(broker->timers);
	broker->watches = memory_watches_new(world, broker->timers, (struct broker *)broker);
	broker->lines = memory_lines_new(broker);
	broker->letters = memory_letters_new(broker);
	return (struct broker *)broker;
}

/* ---- for tests and the simulation ---- */

static void
link_down(struct link *link, enum broker_state state, int64_t notice, const char *why)
{
	if (link->state == BROKER_UP) {
		link_lose(link, state, notice, why);
		return;
	}
	/* Tries under way come to the new way back, or to none. */
	timers_cancel(timers_of(link->broker), &link->up);
	link_set_state(link, state, why);
	if (state == BROKER_DENIED)
		link_tell(link);
	memory_link_schedule(link);
}

void
memory_broker_cut(
    struct broker *broker, enum broker_link which, int64_t notice, int64_t back, const char *why)
{
	struct link *link = &memory_of(broker)->links[which];

	assert(memory_of(broker)->phase != PHASE_STOPPED);
	link->held = back < 0;
	link->earliest = back < 0 ? 0 : now_of(memory_of(broker)) + back;
	link_down(link, BROKER_DOWN, notice, why);
}

void
memory_broker_deny(struct broker *broker, enum broker_link which, const char *why)
{
	struct link *link = &memory_of(broker)->links[which];

	assert(memory_of(broker)->phase != PHASE_STOPPED);
	link->held = true;
	link_down(link, BROKER_DENIED, 0, why);
}

void
memory_broker_restore(struct broker *broker, enum broker_link which)
{
	struct link *link = &memory_of(broker)->links[which];

	link->held = false;
	link->earliest = 0;
	memory_link_schedule(link);
}

void
memory_broker_close_lane(struct broker *broker, uint64_t lane, int code, const char *text)
{
	const struct link *link = link_of_lane(memory_of(broker), lane);

	if (link->connection != NULL)
		memory_connection_lane_close(link->connection, lane, code, text);
}
