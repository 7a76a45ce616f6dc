#include "tests/sim/clients.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/broker/way.h"
#include "protocol/duration.h"
#include "tests/sim/admins.h"
#include "tests/sim/check.h"
#include "tests/sim/daemons.h"

static struct sim_daemon *
any_daemon(struct sim *sim)
{
	return &sim->daemons[dice_below(&sim->dice, (uint64_t)sim->plan.daemons)];
}

static const struct sim_peer *
any_peer(struct sim *sim, const struct sim_daemon *daemon)
{
	return &daemon->peers[dice_below(&sim->dice, (uint64_t)sim->plan.peers)];
}

static int
any_name(struct sim *sim)
{
	return (int)dice_below(&sim->dice, (uint64_t)sim->plan.names);
}

static const struct belief *
any_belief(struct sim *sim)
{
	if (sim->book.belief_count == 0)
		return NULL;
	return &sim->book.beliefs[dice_below(&sim->dice, sim->book.belief_count)];
}

uint64_t
client_ask(struct sim *sim, struct sim_daemon *daemon, uint64_t peer, struct ask what)
{
	what.daemon = daemon->number;
	what.peer = peer;
	what.request = ++daemon->last_request;
	what.since = ++sim->truth.moment;
	what.ready = what.since;
	what.ready_at = sim->now;
	book_ask(&sim->book, &what);
	check_is_caused(sim);
	return what.request;
}

/* ---- locks ---- */

static int64_t
any_timeout(struct sim *sim)
{
	unsigned roll = (unsigned)dice_below(&sim->dice, 100);

	if (roll < (sim->plan.crowd ? 10 : 40))
		return 0;
	if (roll < 65)
		return DURATION_FOREVER;
	if (roll < 72 && sim->plan.quorum)
		return 1 + (int64_t)dice_below(&sim->dice, 2 * QUORUM_GRACE);
	if (roll < 80)
		return 1 + (int64_t)dice_below(&sim->dice, 20 * NSEC_PER_MSEC);
	return 1 + (int64_t)dice_below(&sim->dice, 2 * NSEC_PER_SEC);
}

static enum lock_kind
any_kind(struct sim *sim)
{
	unsigned roll = (unsigned)dice_below(&sim->dice, 100);

	if (roll < (sim->plan.crowd ? 85 : 75))
		return LOCK_KIND_SEMAPHORE;
	if (sim->plan.quorum && !way_row(sim->plan.settings.claim)->by_beads)
		return LOCK_KIND_PERSISTENT_MUTEX;
	return roll < 88 ? LOCK_KIND_PERSISTENT_MUTEX : LOCK_KIND_MUTEX;
}

static int
any_priority(struct sim *sim)
{
	return dice_percent(&sim->dice, 20) ? (int)dice_below(&sim->dice, 3) - 1 : 0;
}

bool
client_acquire(struct sim *sim, struct sim_daemon *daemon, int name, enum lock_kind kind,
    int64_t timeout, int priority)
{
	char who[24];
	const struct sim_peer *peer = any_peer(sim, daemon);
	struct lock_acquire acquire = {
	    .name = queue_lock(name),
	    .kind = kind,
	    .timeout = timeout,
	    .priority = priority,
	    .progress = dice_percent(&sim->dice, 20),
	    .lease = dice_percent(&sim->dice, 70),
	    .create = kind == LOCK_KIND_SEMAPHORE && dice_percent(&sim->dice, 10)
			  ? 1 + (int)dice_below(&sim->dice, 2)
			  : 0,
	    .uid = peer->uid,
	    .exempt = dice_percent(&sim->dice, 15),
	    .who = who,
	};
	uint64_t request;

	if (sim_is_deaf(daemon) || book_is_full(&sim->book))
		return false;
	/* Each one honours its lease, and creates nothing that is held in another way. */
	if (sim->plan.quorum) {
		acquire.lease = true;
		acquire.create = 0;
	}
	request = client_ask(sim, daemon, peer->id,
	    (struct ask){
		.what = ASK_ACQUIRE,
		.name = name,
		.kind = kind,
		.timeout = timeout,
		.priority = priority,
		.lease = acquire.lease,
		.create = acquire.create > 0,
		.uid = peer->uid,
		.exempt = acquire.exempt,
		/* A try that is on its way at the deadline has the request timeout, too. */
		.due = timeout == DURATION_FOREVER
			   ? INT64_MAX
			   : sim->now + timeout + sim->plan.settings.request_timeout,
	    });
	NOTE(sim, .text = "{p} of {d} asks for {q}, {w}, timeout {t} (request {n})",
	    .daemon = daemon->number, .peer = peer->id, .queue = queue_lock(name),
	    .word = lock_kind_word(kind), .time = timeout, .n = (int64_t)request);
	/* By this its row is found. */
	snprintf(who, sizeof(who), "%" PRIu64, request);
	lock_acquire(daemon->engine, peer->id, request, &acquire);
	return true;
}

void
client_cancel(struct sim *sim, const struct ask *meant)
{
	struct sim_daemon *daemon = &sim->daemons[meant->daemon];
	uint64_t peer = meant->peer, request = meant->request;
	/* An administrator who is still at work cannot be stopped. A conversion ends with its pass. */
	bool must = meant->what == ASK_ACQUIRE || meant->what == ASK_AWAIT;
	bool at_once = meant->what != ASK_FSCK;

	if (sim_is_deaf(daemon))
		return;
	NOTE(sim, .text = "{p} of {d} cancels request {n}", .daemon = daemon->number, .peer = peer,
	    .n = (int64_t)request);
	sim->truth.moment++;
	daemon->cancelled = true;
	if (!lock_cancel(daemon->engine, peer, request)) {
		if (must)
			check_fail(sim, 3, "request %d cannot be cancelled", (int)request);
	} else if (at_once && book_find_ask(&sim->book, daemon->number, peer, request) != NULL) {
		check_fail(sim, 3, "request %d was cancelled without an answer", (int)request);
	}
	daemon->cancelled = false;
}

static void
cancel(struct sim *sim)
{
	const struct ask *meant =
	    sim->book.ask_count == 0 ? NULL
				     : &sim->book.asks[dice_below(&sim->dice, sim->book.ask_count)];

	if (meant != NULL && book_waits(meant) && !meant->gone)
		client_cancel(sim, meant);
}

static void
verify_as(struct sim *sim, const struct belief *belief, uint64_t peer, uid_t uid, bool held)
{
	struct sim_daemon *daemon = &sim->daemons[belief->daemon];
	uint64_t lock = belief->lock, request;

	if (sim_is_deaf(daemon) || book_is_full(&sim->book) ||
	    quorum_times_out(sim, belief->name, belief->slot))
		return;
	request = client_ask(sim, daemon, peer,
	    (struct ask){
		.what = ASK_VERIFY,
		.name = belief->name,
		.slot = belief->slot,
		.lock = lock,
		.slotless = belief->slotless,
		.connection = belief->connection,
		.held = held,
		.revoked = belief->revoked,
		.due = sim->now + sim->plan.settings.request_timeout,
	    });
	NOTE(sim, .text = "{p} of {d} verifies lock {n} (request {m})", .daemon = daemon->number,
	    .peer = peer, .n = (int64_t)lock, .m = (int64_t)request);
	lock_verify(daemon->engine, peer, request, lock, uid);
}

void
client_verify(struct sim *sim, const struct belief *belief)
{
	verify_as(sim, belief, belief->peer, belief->uid, true);
}

static void
verify(struct sim *sim)
{
	const struct belief *belief = any_belief(sim);
	const struct sim_daemon *daemon = any_daemon(sim);
	struct belief nothing = {.daemon = daemon->number, .lock = 1 + dice_below(&sim->dice, 99)};
	const struct sim_peer *peer;

	if (belief == NULL || dice_percent(&sim->dice, 5)) {
		peer = any_peer(sim, daemon);
		if (book_find_belief(&sim->book, daemon->number, nothing.lock) == NULL)
			verify_as(sim, &nothing, peer->id, 0, false);
		return;
	}
	peer = any_peer(sim, &sim->daemons[belief->daemon]);
	if (dice_percent(&sim->dice, 80))
		client_verify(sim, belief);
	else if (dice_percent(&sim->dice, 30))
		verify_as(sim, belief, peer->id, 0, true);
	else
		verify_as(sim, belief, peer->id, peer->uid, peer->uid == belief->uid);
}

static void
release_as(struct sim *sim, const struct belief *belief, uint64_t peer)
{
	struct sim_daemon *daemon = &sim->daemons[belief->daemon];
	uint64_t lock = belief->lock, request;
	bool held = belief->peer == peer;

	if (sim_is_deaf(daemon) || book_is_full(&sim->book))
		return;
	request = client_ask(sim, daemon, peer,
	    (struct ask){
		.what = ASK_RELEASE,
		.name = belief->name,
		.slot = belief->slot,
		.lock = lock,
		.slotless = belief->slotless,
		.connection = belief->connection,
		.held = held,
		.revoked = belief->revoked,
		.due = sim->now + sim->plan.settings.request_timeout,
	    });
	NOTE(sim, .text = "{p} of {d} releases lock {n} (request {m})", .daemon = daemon->number,
	    .peer = peer, .n = (int64_t)lock, .m = (int64_t)request);
	/* A client that releases its lock does not believe in it any more. */
	if (held)
		book_end_belief(&sim->book, book_find_belief(&sim->book, daemon->number, lock));
	lock_release(daemon->engine, peer, request, lock);
}

void
client_release(struct sim *sim, const struct belief *belief)
{
	release_as(sim, belief, belief->peer);
}

static void
release(struct sim *sim)
{
	const struct belief *belief = any_belief(sim);

	if (belief == NULL)
		return;
	if (dice_percent(&sim->dice, 95))
		client_release(sim, belief);
	else
		release_as(sim, belief, any_peer(sim, &sim->daemons[belief->daemon])->id);
}

static void
hang_up(struct sim *sim)
{
	struct sim_daemon *daemon = any_daemon(sim);
	int peer = (int)dice_below(&sim->dice, (uint64_t)sim->plan.peers);

	if (sim_is_deaf(daemon))
		return;
	NOTE(sim, .text = "{p} of {d} hangs up", .daemon = daemon->number,
	    .peer = daemon->peers[peer].id);
	sim->truth.moment++;
	daemon_hang_up(daemon, peer);
}

/* ---- grant and deny ---- */

struct find_row {
	uint64_t request, waiter;
};

static void
find_row(void *ctx, const struct lock_row *row)
{
	struct find_row *find = ctx;

	if (row->state == LOCK_ROW_WAITING && strtoull(row->who, NULL, 10) == find->request)
		find->waiter = row->waiter;
}

/* Grants or denies a waiter at once. It happens only once to each. */
static void
let_in_or_turn_away(struct sim *sim, const struct ask *meant, bool let_in)
{
	struct sim_daemon *daemon = &sim->daemons[meant->daemon];
	struct find_row row = {.request = meant->request};
	uint64_t peer = meant->peer;
	enum reason reason;

	lock_each(daemon->engine, queue_lock(meant->name), find_row, &row);
	NOTE(sim, .text = "an administrator {w} request {n} of {d}", .daemon = daemon->number,
	    .word = let_in ? "lets in" : "denies", .n = (int64_t)meant->request);
	sim->truth.moment++;
	if (row.waiter == 0)
		check_fail(sim, 3, "request %d waits, and has no row", (int)meant->request);
	daemon->granting = let_in ? row.request : 0;
	daemon->denying = let_in ? 0 : row.request;
	reason =
	    let_in ? lock_admit(daemon->engine, row.waiter) : lock_deny(daemon->engine, row.waiter);
	daemon->granting = daemon->denying = 0;
	if (reason == REASON_TOO_MANY_LOCKS && let_in &&
	    sim->plan.settings.max_locks_per_connection <= PLAN_FEW)
		return;
	if (reason != REASON_NONE ||
	    book_find_ask(&sim->book, daemon->number, peer, row.request) != NULL)
		check_fail(sim, 3, "request %d was %s, and waits on", (int)row.request,
		    let_in ? "granted" : "denied");
	if (dice_percent(&sim->dice, 10) &&
	    lock_deny(daemon->engine, row.waiter) != REASON_NOT_HELD)
		check_fail(sim, 3, "request %d was denied and did not wait", (int)row.request);
}

/* In the same pass in which a slot is let go that may be its, now and then. */
static void
grant_or_deny(struct sim *sim)
{
	const struct ask *meant = NULL;
	const struct belief *belief = any_belief(sim);

	for (size_t i = 0; i < sim->book.ask_count; i++) {
		const struct ask *ask = &sim->book.asks[i];

		if (ask->what == ASK_ACQUIRE && !sim_is_deaf(&sim->daemons[ask->daemon]) &&
		    dice_below(&sim->dice, i + 1) == 0)
			meant = ask;
	}
	if (meant == NULL)
		return;
	if (belief != NULL && belief->name == meant->name && !book_is_full(&sim->book) &&
	    dice_percent(&sim->dice, 50)) {
		uint64_t peer = meant->peer, request = meant->request;
		int daemon = meant->daemon;

		client_release(sim, belief);
		meant = book_find_ask(&sim->book, daemon, peer, request);
	}
	if (meant == NULL)
		return;
	if (dice_percent(&sim->dice, 30))
		client_cancel(sim, meant);
	else
		let_in_or_turn_away(sim, meant, dice_percent(&sim->dice, 50));
}

static void
turn_all_away(struct sim *sim)
{
	struct sim_daemon *daemon = any_daemon(sim);
	int name = any_name(sim);
	size_t waiting = 0;

	if (sim_is_deaf(daemon))
		return;
	NOTE(sim, .text = "an administrator denies all of {q} at {d}", .daemon = daemon->number,
	    .queue = queue_lock(name));
	sim->truth.moment++;
	for (size_t i = 0; i < sim->book.ask_count; i++)
		waiting += sim->book.asks[i].what == ASK_ACQUIRE &&
			   sim->book.asks[i].daemon == daemon->number &&
			   sim->book.asks[i].name == name;
	daemon->denying = UINT64_MAX;
	if (lock_deny_all(daemon->engine, queue_lock(name)) != waiting)
		check_fail(sim, 3, "not all of the %zu waiters were denied", waiting);
	daemon->denying = 0;
}

/* ---- evict ---- */

struct find_hold {
	uint64_t lock, waiter;
};

static void
find_hold(void *ctx, const struct lock_row *row)
{
	struct find_hold *find = ctx;

	if (row->lock == find->lock)
		find->waiter = row->waiter;
}

/* Some clients ignore it. A second eviction never puts the deadline off. */
static void
evict(struct sim *sim)
{
	const struct belief *meant = any_belief(sim);
	struct find_hold find;
	struct lock_eviction eviction = {.host = "admin",
	    .deadline = sim->now + (int64_t)dice_below(&sim->dice, 10 * NSEC_PER_SEC)};
	struct belief *belief;

	if (meant == NULL || sim_is_deaf(&sim->daemons[meant->daemon]))
		return;
	belief = book_find_belief(&sim->book, meant->daemon, meant->lock);
	find = (struct find_hold){.lock = belief->lock};
	lock_each_holding(
	    sim->daemons[belief->daemon].engine, queue_lock(belief->name), find_hold, &find);
	NOTE(sim, .text = "an administrator evicts lock {n} of {d}", .daemon = belief->daemon,
	    .n = (int64_t)belief->lock);
	sim->truth.moment++;
	if (belief->evict_at == 0 || eviction.deadline < belief->evict_at)
		belief->evict_at = eviction.deadline;
	if (find.waiter == 0 ||
	    lock_evict(sim->daemons[belief->daemon].engine, find.waiter, &eviction) != REASON_NONE)
		check_fail(sim, 4, "lock %d cannot be evicted", (int)belief->lock);
}

/* ---- all of them ---- */

/* A daemon's configuration is read again. */
static void
reload(struct sim *sim)
{
	struct lock_settings settings = sim->plan.settings;
	struct sim_daemon *daemon = any_daemon(sim);

	settings.wall_clock = &daemon->wall;
	settings.rescan_interval -=
	    (int64_t)dice_below(&sim->dice, (uint64_t)settings.rescan_interval / 2);
	settings.max_races = 1 + (unsigned)dice_below(&sim->dice, 16);
	daemon->rescan_interval = settings.rescan_interval;
	lock_engine_set(daemon->engine, &settings);
}

void
client_step(struct sim *sim)
{
	unsigned roll = (unsigned)dice_below(&sim->dice, 100);

	if (sim->plan.evicts && dice_percent(&sim->dice, 10))
		evict(sim);
	else if (roll < 40)
		client_acquire(sim, any_daemon(sim), any_name(sim), any_kind(sim), any_timeout(sim),
		    any_priority(sim));
	else if (roll < 62)
		release(sim);
	else if (roll < 76)
		verify(sim);
	else if (roll < 82)
		cancel(sim);
	else if (roll < 86)
		hang_up(sim);
	else if (roll < 88)
		grant_or_deny(sim);
	else if (roll < 94)
		admins_step(sim);
	else if (roll < 98 && !sim->plan.quorum)
		admins_read(sim);
	else if (roll < 99 || dice_percent(&sim->dice, 70))
		reload(sim);
	else
		turn_all_away(sim);
}
