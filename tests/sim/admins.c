#include "tests/sim/admins.h"

#include <stdlib.h>

#include "protocol/duration.h"
#include "tests/sim/check.h"
#include "tests/sim/clients.h"

/* Request timeouts that a change may take: each step that is done is progress, from which time counts anew. */
#define STEPS_MOST (4 * SLOTS_KNOWN)

/* ---- orders ---- */

static const char *
order_word(const struct order *order)
{
	switch (order->what) {
	case ASK_CREATE:
		return order->exist_ok ? "create, if need be," : "create";
	case ASK_RESIZE:
		if (order->by == ORDER_ADD)
			return "add to";
		return order->by == ORDER_REMOVE ? "remove from" : "resize";
	case ASK_DESTROY:
		return "destroy";
	case ASK_FSCK:
		return order->repair ? "repair" : "check";
	default:
		return "?";
	}
}

static int
any_slots(struct sim *sim)
{
	if (dice_percent(&sim->dice, 5))
		return 1 + (int)dice_below(&sim->dice, SLOTS_MAX);
	return 1 + (int)dice_below(&sim->dice, 3);
}

static struct order
any_order(struct sim *sim)
{
	unsigned roll = (unsigned)dice_below(&sim->dice, 100);
	struct order order = {.name = (int)dice_below(&sim->dice, (uint64_t)sim->plan.names)};

	if (sim->unfinished[order.name].what == ASK_CREATE ||
	    sim->unfinished[order.name].what == ASK_RESIZE ||
	    sim->unfinished[order.name].what == ASK_DESTROY) {
		if (dice_percent(&sim->dice, 25))
			return sim->unfinished[order.name];
	}
	if (roll < 60) {
		order.what = ASK_CREATE;
		order.slots = any_slots(sim);
		order.exist_ok = dice_percent(&sim->dice, 50);
	} else {
		order.what = ASK_DESTROY;
	}
	return order;
}

/* ---- asking ---- */

static struct sim_daemon *
any_daemon(struct sim *sim)
{
	return &sim->daemons[dice_below(&sim->dice, (uint64_t)sim->plan.daemons)];
}

static uint64_t
any_peer(struct sim *sim, const struct sim_daemon *daemon)
{
	return daemon->peers[dice_below(&sim->dice, (uint64_t)sim->plan.peers)].id;
}

static int64_t
due_of(const struct sim *sim, const struct order *order)
{
	if (order->wait == DURATION_FOREVER)
		return INT64_MAX;
	return sim->now + STEPS_MOST * sim->plan.settings.request_timeout + order->wait;
}

static void
tell_order(struct sim_daemon *daemon, uint64_t peer, uint64_t request, const struct order *order)
{
	struct lock_change change = {
	    .name = queue_lock(order->name),
	    .kind = LOCK_KIND_SEMAPHORE,
	    .by = order->by == ORDER_TO    ? LOCK_SLOTS_TO
		  : order->by == ORDER_ADD ? LOCK_SLOTS_ADD
					   : LOCK_SLOTS_REMOVE,
	    .slots = order->slots,
	    .exist_ok = order->exist_ok,
	    .ascending = order->ascending,
	    .overshoot = order->overshoot,
	    .wait = order->wait,
	    .progress = order->wait != 0,
	};

	switch (order->what) {
	case ASK_CREATE:
		lock_create(daemon->engine, peer, request, &change);
		break;
	case ASK_RESIZE:
		lock_resize(daemon->engine, peer, request, &change);
		break;
	case ASK_DESTROY:
		lock_destroy(daemon->engine, peer, request, &change);
		break;
	case ASK_FSCK:
		lock_fsck(daemon->engine, peer, request, change.name, order->repair);
		break;
	default:
		abort();
	}
}

bool
admins_ask(struct sim *sim, struct sim_daemon *daemon, const struct order *order)
{
	struct truth_name *of = &sim->truth.names[order->name];
	uint64_t peer = any_peer(sim, daemon), request;

	if (daemon->stopped || book_is_full(&sim->book))
		return false;
	of->ascending |= order->ascending;
	if (order->what != ASK_FSCK)
		sim->unfinished[order->name] = *order;
	request = client_ask(sim, daemon, peer,
	    (struct ask){
		.what = order->what,
		.name = order->name,
		.order = *order,
		.claims = of->work[daemon->number].claims,
		.due = due_of(sim, order),
	    });
	NOTE(sim, .text = "{p} of {d}: {w} {q}, {n} slots, wait {t} (request {m})",
	    .daemon = daemon->number, .peer = peer, .word = order_word(order),
	    .queue = queue_lock(order->name), .n = order->slots, .time = order->wait,
	    .m = (int64_t)request);
	tell_order(daemon, peer, request, order);
	return true;
}

void
admins_step(struct sim *sim)
{
	struct order order = any_order(sim);

	admins_ask(sim, any_daemon(sim), &order);
}

/* A relative one is not the same when it is told again. */
void
admins_heard(struct sim *sim, const struct ask *ask, enum reason reason)
{
	struct order *unfinished = &sim->unfinished[ask->name];

	if (ask->order.what == ASK_ACQUIRE || ask->order.what == ASK_FSCK)
		return;
	if (reason == REASON_NONE || ask->order.by != ORDER_TO)
		*unfinished = (struct order){0};
	else
		*unfinished = ask->order;
}

/* ---- looking ---- */

void
admins_look(struct sim *sim)
{
	struct sim_daemon *daemon = any_daemon(sim);
	uint64_t peer = any_peer(sim, daemon), request;
	int name = (int)dice_below(&sim->dice, (uint64_t)sim->plan.names);

	if (daemon->stopped || book_is_full(&sim->book))
		return;
	request = client_ask(sim, daemon, peer,
	    (struct ask){
		.what = ASK_SIZE,
		.name = name,
		.due = due_of(sim, &(struct order){0}),
	    });
	NOTE(sim, .text = "{p} of {d}: size of {q} (request {m})", .daemon = daemon->number,
	    .peer = peer, .queue = queue_lock(name), .m = (int64_t)request);
	lock_size(daemon->engine, peer, request, queue_lock(name));
}
