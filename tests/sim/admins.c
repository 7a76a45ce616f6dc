#include "tests/sim/admins.h"

#include <stdlib.h>

#include "daemon/broker/beads.h"
#include "protocol/duration.h"
#include "tests/sim/check.h"
#include "tests/sim/clients.h"

/*
 * Request timeouts that a change may take: each step that is done is progress, from which time
 * counts anew.
 */
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
	unsigned roll = (unsigned)dice_below(&sim->dice, 100);

	if (roll < 12)
		return 0;
	if (roll < 22 && !sim->plan.quorum)
		return LOCK_UNLIMITED;
	if (roll < 26 && !sim->plan.quorum)
		return 1 + (int)dice_below(&sim->dice, SLOTS_MAX);
	return 1 + (int)dice_below(&sim->dice, 3);
}

/*
 * The order in which slots are removed, the number of slots checked above them, and the wait for
 * their holders.
 */
static void
any_manner(struct sim *sim, struct order *order)
{
	if (dice_percent(&sim->dice, 8)) {
		order->ascending = true;
		order->overshoot = (int)dice_below(&sim->dice, SLOTS_MAX);
	}
	if (dice_percent(&sim->dice, 30))
		order->wait = dice_percent(&sim->dice, 30)
				  ? DURATION_FOREVER
				  : 1 + (int64_t)dice_below(&sim->dice, 2 * NSEC_PER_SEC);
}

/* So few that the number of slots stays below the number of known names. */
static void
any_relative(struct sim *sim, struct order *order)
{
	int size =
	    sim->plan.quorum ? quorum_size(sim, order->name) : truth_size(&sim->truth, order->name);
	bool adds = dice_percent(&sim->dice, 50) && size < SLOTS_MAX / 2;

	for (size_t i = 0; adds && i < sim->book.ask_count; i++)
		adds = sim->book.asks[i].order.by != ORDER_ADD;
	order->by = adds ? ORDER_ADD : ORDER_REMOVE;
	order->slots = 1 + (int)dice_below(&sim->dice, 3);
}

/* How new slots are held, or all after a repair. */
static enum lock_claim
any_claim(struct sim *sim)
{
	static const enum lock_claim claims[] = {
	    LOCK_CLAIM_UNKNOWN, LOCK_CLAIM_BY_QUEUE, LOCK_CLAIM_BY_CONSUMER};

	if (sim->plan.quorum)
		return LOCK_CLAIM_BY_QUORUM;
	return sim->plan.consumers ? claims[dice_below(&sim->dice, 3)] : LOCK_CLAIM_UNKNOWN;
}

/* To one of the three ways, or none. */
static enum lock_claim
any_conversion(struct sim *sim, struct order *order)
{
	static const enum lock_claim claims[] = {LOCK_CLAIM_UNKNOWN, LOCK_CLAIM_BY_QUEUE,
	    LOCK_CLAIM_BY_CONSUMER, LOCK_CLAIM_BY_QUORUM, LOCK_CLAIM_BY_QUORUM};
	enum lock_claim claim = claims[dice_below(&sim->dice, 5)];

	if (claim != LOCK_CLAIM_UNKNOWN && dice_percent(&sim->dice, 50))
		order->wait = 1 + (int64_t)dice_below(&sim->dice, 5 * NSEC_PER_SEC);
	return claim;
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
	order.slots = any_slots(sim);
	if (roll < 40) {
		order.what = ASK_CREATE;
		order.claim = any_claim(sim);
		order.exist_ok = dice_percent(&sim->dice, 50);
	} else if (roll < 75) {
		order.what = ASK_RESIZE;
		order.claim = any_claim(sim);
		if (dice_percent(&sim->dice, 35))
			any_relative(sim, &order);
		any_manner(sim, &order);
	} else if (roll < (sim->plan.quorum ? 80 : 92)) {
		order.what = ASK_DESTROY;
		order.slots = 0;
		any_manner(sim, &order);
	} else {
		order.what = ASK_FSCK;
		order.slots = 0;
		order.repair = dice_percent(&sim->dice, 60);
		if (order.repair)
			order.claim =
			    sim->plan.quorum ? any_conversion(sim, &order) : any_claim(sim);
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
	/* Without a record, nobody knows the T of the last holders. fsck makes one with the longest then. */
	int64_t grace = sim->plan.quorum ? BEAD_GRACE_MOST : 0;

	if (order->wait == DURATION_FOREVER)
		return INT64_MAX;
	return sim->now + STEPS_MOST * sim->plan.settings.request_timeout + order->wait + grace;
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
	    .claim = order->claim,
	    .exist_ok = order->exist_ok,
	    .ascending = order->ascending,
	    .overshoot = order->overshoot,
	    .wait = order->wait,
	    .progress = order->wait != 0,
	    .takeover_grace = order->claim == LOCK_CLAIM_BY_QUORUM ? QUORUM_GRACE : 0,
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
		lock_fsck(daemon->engine, peer, request,
		    &(struct lock_check){
			.name = change.name,
			.repair = order->repair,
			.convert = order->claim,
			.wait = order->wait,
			.takeover_grace = change.takeover_grace,
		    });
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

	if (sim_is_deaf(daemon) || book_is_full(&sim->book))
		return false;
	of->ascending |= order->ascending;
	of->work[daemon->number].destroys += order->what == ASK_DESTROY;
	if (order->what != ASK_FSCK)
		sim->unfinished[order->name] = *order;
	if (order->what != ASK_FSCK)
		sim->quorum.changed_at[order->name] = sim->now;
	request = client_ask(sim, daemon, peer,
	    (struct ask){
		.what = order->what,
		.name = order->name,
		.order = *order,
		.claims = of->work[daemon->number].claims,
		.mutex_busy = of->admin != 0 && of->admin == memory_broker_connection(
								 daemon->broker, BROKER_AUXILIARY),
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

/* A relative order is not repeated: a second one has another effect. */
void
admins_heard(struct sim *sim, const struct ask *ask, enum reason reason)
{
	struct order *unfinished = &sim->unfinished[ask->name];
	struct truth_work *work = &sim->truth.names[ask->name].work[ask->daemon];

	if (ask->what == ASK_DESTROY) {
		work->destroys--;
		work->destroyed = sim->truth.moment;
	}
	if (ask->order.what == ASK_ACQUIRE || ask->order.what == ASK_FSCK)
		return;
	sim->quorum.changed_at[ask->name] = sim->now;
	if (reason == REASON_NONE || ask->order.by != ORDER_TO)
		*unfinished = (struct order){0};
	else
		*unfinished = ask->order;
}

/* ---- requests that change nothing ---- */

static void
await(struct sim *sim, struct sim_daemon *daemon, uint64_t peer)
{
	struct lock_await what = {
	    .name = queue_lock((int)dice_below(&sim->dice, (uint64_t)sim->plan.names)),
	    .slot = 1 + (int)dice_below(&sim->dice, 4),
	    .busy = dice_percent(&sim->dice, 50),
	    .timeout = dice_percent(&sim->dice, 20) ? DURATION_FOREVER
		       : dice_percent(&sim->dice, 30)
			   ? 0
			   : 1 + (int64_t)dice_below(&sim->dice, NSEC_PER_SEC),
	};
	int name = queue_lock_find(what.name);
	uint64_t request = client_ask(sim, daemon, peer,
	    (struct ask){
		.what = ASK_AWAIT,
		.name = name,
		.slot = what.slot,
		.busy = what.busy,
		.was_busy = truth_is_held(sim, name, what.slot),
		.timeout = what.timeout,
		.due = what.timeout == DURATION_FOREVER
			   ? INT64_MAX
			   : sim->now + what.timeout + 2 * MEMORY_PROBE_TIMEOUT,
	    });

	NOTE(sim, .text = "{p} of {d} waits until {q} is {w}, timeout {t} (request {n})",
	    .daemon = daemon->number, .peer = peer, .queue = queue_b(name, what.slot),
	    .word = what.busy ? "busy" : "free", .time = what.timeout, .n = (int64_t)request);
	lock_await(daemon->engine, peer, request, &what);
}

static void
tell_read(struct sim_daemon *daemon, uint64_t peer, uint64_t request, enum request_what what,
    const char *name)
{
	if (what == ASK_SIZE)
		lock_size(daemon->engine, peer, request, name);
	else if (what == ASK_LIST)
		lock_list(daemon->engine, peer, request);
	else
		lock_explain(daemon->engine, peer, request, name, LOCK_KIND_SEMAPHORE);
}

void
admins_read(struct sim *sim)
{
	struct sim_daemon *daemon = any_daemon(sim);
	uint64_t peer = any_peer(sim, daemon), request;
	unsigned roll = (unsigned)dice_below(&sim->dice, 100);
	enum request_what what = roll < 40   ? ASK_SIZE
				 : roll < 70 ? ASK_AWAIT
				 : roll < 85 ? ASK_LIST
					     : ASK_EXPLAIN;
	int name = (int)dice_below(&sim->dice, (uint64_t)sim->plan.names);

	if (sim_is_deaf(daemon) || book_is_full(&sim->book))
		return;
	if (what == ASK_AWAIT) {
		await(sim, daemon, peer);
		return;
	}
	request = client_ask(sim, daemon, peer,
	    (struct ask){
		.what = what,
		.name = name,
		.due = due_of(sim, &(struct order){0}),
	    });
	NOTE(sim, .text = "{p} of {d}: {w} of {q} (request {m})", .daemon = daemon->number,
	    .peer = peer,
	    .word = what == ASK_SIZE   ? "size"
		    : what == ASK_LIST ? "list"
				       : "explanation",
	    .queue = queue_lock(name), .m = (int64_t)request);
	tell_read(daemon, peer, request, what, queue_lock(name));
}

/* ---- the successor ---- */

void
admins_repeat(struct sim *sim, struct sim_daemon *daemon, const struct ask *ask)
{
	struct ask *known = book_find_ask(&sim->book, daemon->number, ask->peer, ask->request);
	const struct truth_name *of = &sim->truth.names[ask->name];
	int64_t due = due_of(sim, &ask->order);

	/* Its steps begin anew. */
	if (due > known->due)
		known->due = due;
	known->claims = of->work[daemon->number].claims;
	known->mutex_busy = false;
	if (ask->order.what == ASK_ACQUIRE)
		tell_read(daemon, ask->peer, ask->request, ask->what, queue_lock(ask->name));
	else
		tell_order(daemon, ask->peer, ask->request, &ask->order);
}
