#include "daemon/broker/quorum_links.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/broker/internal.h"
#include "daemon/broker/reconnector.h"
#include "daemon/state/state.h"

struct amqp_quorum_link {
	struct amqp_quorum_links *links;      /* borrowed */
	struct amqp_reconnector *reconnector; /* owned */
	unsigned number;
	size_t claims;
	struct timer idle;   /* without claims */
	struct timer closes; /* when a channel could be silent */
	bool stuck;          /* one is */
};

struct amqp_quorum_links {
	struct broker *broker; /* borrowed */
	struct amqp_quorum_links_events events;
	struct amqp_quorum_link all[BROKER_QUORUM_MOST];
	unsigned count;  /* those with a reconnector */
	unsigned wanted; /* those that take new claims. Others are of an earlier program */
};

static struct amqp_quorum_link *
quorum_links_find(struct amqp_quorum_links *links, enum broker_link which)
{
	assert(which >= BROKER_QUORUM && which - BROKER_QUORUM < links->count);
	return &links->all[which - BROKER_QUORUM];
}

static void
quorum_link_rest_later(struct amqp_quorum_link *link)
{
	const struct broker *broker = link->links->broker;

	timers_set(
	    broker->timers, &link->idle, broker_now(broker) + broker->settings.auxiliary_idle);
}

static void
quorum_link_on_idle(void *ctx, uint64_t id)
{
	struct amqp_quorum_link *link = ctx;

	(void)id;
	if (link->claims == 0 && amqp_reconnector_link(link->reconnector) != NULL)
		amqp_reconnector_rest(link->reconnector, "idle");
}

/* ---- channels that do not close ---- */

static int64_t
quorum_link_silence_most(const struct amqp_quorum_link *link)
{
	const struct amqp_link *up = amqp_quorum_link_up(link);

	return 2 * (up == NULL ? 0 : up->heartbeat) * NSEC_PER_SEC;
}

/* Looks when the channel that waits for the longest time could be silent, or must be ended. */
static void
quorum_link_check_closes(struct amqp_quorum_link *link)
{
	struct broker *broker = link->links->broker;
	int64_t since = amqp_channels_closing_since(amqp_quorum_link_channels(link));
	int64_t now = broker_now(broker), most = quorum_link_silence_most(link);

	if (amqp_quorum_link_up(link) == NULL || since == 0) {
		link->stuck = false;
		return;
	}
	if (now - since < most) {
		timers_set(broker->timers, &link->closes, since + most);
		return;
	}
	if (!link->stuck)
		log_warning("a channel of quorum connection %u does not close: its slot cannot be "
			    "had. The connection ends when it has no holds, or in %d s",
		    link->number + 1, (int)(AMQP_QUORUM_STUCK_MOST / NSEC_PER_SEC));
	link->stuck = true;
	if (link->claims == 0 || now - since >= most + AMQP_QUORUM_STUCK_MOST)
		amqp_reconnector_drop(link->reconnector, "a channel does not close");
	else
		timers_set(broker->timers, &link->closes, since + most + AMQP_QUORUM_STUCK_MOST);
}

static void
quorum_link_on_closes(void *ctx, uint64_t id)
{
	(void)id;
	quorum_link_check_closes(ctx);
}

/* ---- events ---- */

static char *
quorum_links_on_vet(void *ctx, const struct amqp_server *server)
{
	struct amqp_quorum_links *links = ctx;

	return links->events.vet(links->broker, server);
}

static void
quorum_links_on_up(void *ctx, enum broker_link which)
{
	struct amqp_quorum_links *links = ctx;
	struct amqp_quorum_link *link = quorum_links_find(links, which);

	if (link->claims == 0)
		quorum_link_rest_later(link);
	links->events.up(links->events.ctx, link);
}

static void
quorum_links_on_down(void *ctx, enum broker_link which)
{
	struct amqp_quorum_links *links = ctx;
	struct amqp_quorum_link *link = quorum_links_find(links, which);

	timers_cancel(links->broker->timers, &link->idle);
	timers_cancel(links->broker->timers, &link->closes);
	link->stuck = false;
	if (links->events.down(links->events.ctx, link, amqp_reconnector_why(link->reconnector)))
		amqp_quorum_link_need(link);
}

static void
quorum_links_on_changed(void *ctx, enum broker_link which, enum broker_state state, const char *why)
{
	(void)ctx;
	(void)which;
	(void)state;
	(void)why; /* the log has it, and each claim is told its end */
}

static void
quorum_links_on_blocked(void *ctx, enum broker_link which, bool blocked, const char *why)
{
	(void)ctx;
	(void)which;
	(void)blocked;
	(void)why; /* these connections publish nothing */
}

/* ---- claims ---- */

static bool
quorum_link_is_better(
    const struct amqp_quorum_link *link, const struct amqp_quorum_link *than, bool at_once)
{
	bool up = amqp_quorum_link_up(link) != NULL, than_up = amqp_quorum_link_up(than) != NULL;

	if (link->stuck != than->stuck)
		return than->stuck;
	return at_once && up != than_up ? up : link->claims < than->claims;
}

struct amqp_quorum_link *
amqp_quorum_links_take(struct amqp_quorum_links *links, bool at_once)
{
	struct amqp_quorum_link *best = &links->all[0];

	for (unsigned i = 1; i < links->wanted; i++)
		if (quorum_link_is_better(&links->all[i], best, at_once))
			best = &links->all[i];
	best->claims++;
	return best;
}

void
amqp_quorum_link_enter(struct amqp_quorum_link *link)
{
	link->claims++;
	timers_cancel(link->links->broker->timers, &link->idle);
}

void
amqp_quorum_link_leave(struct amqp_quorum_link *link)
{
	if (--link->claims == 0)
		quorum_link_rest_later(link);
	if (link->stuck || !timer_is_set(&link->closes))
		quorum_link_check_closes(link);
}

void
amqp_quorum_link_need(struct amqp_quorum_link *link)
{
	timers_cancel(link->links->broker->timers, &link->idle);
	amqp_reconnector_need(link->reconnector, amqp_reconnector_host(link->links->broker->locks));
}

struct amqp_channels *
amqp_quorum_link_channels(const struct amqp_quorum_link *link)
{
	return amqp_reconnector_channels(link->reconnector);
}

const struct amqp_link *
amqp_quorum_link_up(const struct amqp_quorum_link *link)
{
	return amqp_reconnector_link(link->reconnector);
}

unsigned
amqp_quorum_link_number(const struct amqp_quorum_link *link)
{
	return link->number;
}

/* The connections up to that number exist. */
static void
quorum_links_make(struct amqp_quorum_links *links, unsigned count)
{
	const struct amqp_reconnector_events own = {
	    .vet = quorum_links_on_vet,
	    .blocked = quorum_links_on_blocked,
	    .up = quorum_links_on_up,
	    .down = quorum_links_on_down,
	    .changed = quorum_links_on_changed,
	    .ctx = links,
	};

	assert(count <= BROKER_QUORUM_MOST);
	for (; links->count < count; links->count++) {
		struct amqp_quorum_link *link = &links->all[links->count];

		link->links = links;
		link->number = links->count;
		link->reconnector =
		    amqp_reconnector_new(links->broker, BROKER_QUORUM + links->count, &own);
		timer_init(&link->idle, quorum_link_on_idle, link, 0);
		timer_init(&link->closes, quorum_link_on_closes, link, 0);
	}
}

/* ---- the successor ---- */

bool
amqp_quorum_link_is_tls(const struct amqp_quorum_link *link)
{
	return amqp_reconnector_is_tls(link->reconnector);
}

bool
amqp_quorum_links_are_still(const struct amqp_quorum_links *links)
{
	for (unsigned i = 0; i < links->count; i++)
		if (amqp_quorum_link_up(&links->all[i]) != NULL &&
		    !amqp_quorum_link_is_tls(&links->all[i]) &&
		    !amqp_reconnector_is_still(links->all[i].reconnector))
			return false;
	return true;
}

bool
amqp_quorum_link_save(const struct amqp_quorum_link *link, struct state_writer *writer)
{
	return amqp_reconnector_save(link->reconnector, writer);
}

struct amqp_quorum_link *
amqp_quorum_links_resume(
    struct amqp_quorum_links *links, unsigned number, struct state_reader *reader)
{
	struct amqp_quorum_link *link = &links->all[number];

	quorum_links_make(links, number + 1);
	if (amqp_quorum_link_up(link) != NULL) {
		(void)state_spoil(reader, "a connection of holds by quorum is there twice");
		return NULL;
	}
	if (!amqp_reconnector_resume(link->reconnector, reader))
		return NULL;
	quorum_link_check_closes(link);
	return link;
}

/* ---- life ---- */

struct amqp_quorum_link *
amqp_quorum_links_get(struct amqp_quorum_links *links, unsigned number)
{
	assert(number < links->count);
	return &links->all[number];
}

unsigned
amqp_quorum_links_count(const struct amqp_quorum_links *links)
{
	return links->count;
}

struct amqp_reconnector *
amqp_quorum_links_reconnector(const struct amqp_quorum_links *links, enum broker_link which)
{
	assert(which >= BROKER_QUORUM && which < BROKER_LINKS);
	return links->all[which - BROKER_QUORUM].reconnector;
}

struct amqp_quorum_links *
amqp_quorum_links_new(struct broker *broker, const struct amqp_quorum_links_events *events)
{
	struct amqp_quorum_links *links = mem_alloc(sizeof(*links));

	links->broker = broker;
	links->events = *events;
	links->wanted =
	    broker->settings.quorum_connections != 0 ? broker->settings.quorum_connections : 2;
	quorum_links_make(links, links->wanted);
	return links;
}

void
amqp_quorum_links_quit(struct amqp_quorum_links *links)
{
	for (unsigned i = 0; i < links->count; i++)
		amqp_reconnector_quit(links->all[i].reconnector);
}

void
amqp_quorum_links_free(struct amqp_quorum_links *links)
{
	for (unsigned i = 0; i < links->count; i++) {
		timers_cancel(links->broker->timers, &links->all[i].idle);
		timers_cancel(links->broker->timers, &links->all[i].closes);
		amqp_reconnector_free(links->all[i].reconnector);
	}
	free(links);
}
