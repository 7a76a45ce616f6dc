#include "tests/sim/replace.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/broker/setup.h"
#include "daemon/state/state.h"
#include "tests/sim/admins.h"
#include "tests/sim/check.h"
#include "tests/sim/clients.h"
#include "tests/sim/daemons.h"

/* The engine that is not still after this time goes on itself. */
#define FROZEN_MOST (2 * NSEC_PER_SEC)
/*
 * Until then, requests that are being worked on are awaited. Later they are repeated. Mostly the
 * schedule waits for less.
 */
#define IDLE_MOST (1 * NSEC_PER_SEC)

/* ---- the book, the truth and the observers go on with the successor ---- */

/* The daemon has the administration mutex, and no other request can have it. */
static bool
has_mutex(const struct sim *sim, const struct ask *ask)
{
	const struct truth_work *work = &sim->truth.names[ask->name].work[ask->daemon];
	unsigned others = 0;

	for (size_t i = 0; i < sim->book.ask_count; i++) {
		const struct ask *other = &sim->book.asks[i];

		others += other != ask && other->daemon == ask->daemon &&
			  other->name == ask->name &&
			  (other->order.what != ASK_ACQUIRE || other->create);
	}
	return others == 0 && !ask->mutex_busy && work->claims == ask->claims + 1 &&
	       work->locked > ask->since && work->unlocked < work->locked;
}

/* A change by a number is repeated as a change to the size that it leads to. */
static void
check_repeated(struct sim *sim, const struct ask *ask, int slots)
{
	const struct truth_name *of = &sim->truth.names[ask->name];
	const struct truth_work *work = &of->work[ask->daemon];
	const struct order *order = &ask->order;
	int size = work->found.size, target;

	if (order->what != ASK_RESIZE || order->by == ORDER_TO || !has_mutex(sim, ask))
		return;
	target = order->by == ORDER_ADD ? size + order->slots
		 : size > order->slots  ? size - order->slots
					: 0;
	if (slots >= 0 ? slots != target
		       : of->changed > work->locked && of->meddled_at < work->locked)
		check_fail(sim, 12,
		    "%s had %d slots, and is to get %d by a change that is repeated",
		    queue_lock(ask->name), size, slots);
}

/* Requests of clients that are gone, which the daemon still worked on, end with it. */
static void
end_gone(struct sim *sim, int daemon)
{
	for (size_t i = sim->book.ask_count; i-- > 0;) {
		struct ask *ask = &sim->book.asks[i];

		if (ask->daemon != daemon || !ask->gone)
			continue;
		admins_heard(sim, ask, REASON_BROKER_UNAVAILABLE);
		book_end_ask(&sim->book, ask);
	}
}

/* Which requests the caller of the engine repeats, the oldest first. */
static size_t
find_repeated(struct sim *sim, const struct sim_daemon *daemon, struct ask *ret)
{
	size_t count = 0, place;
	int slots;

	for (size_t i = 0; i < sim->book.ask_count; i++) {
		struct ask *ask = &sim->book.asks[i];

		if (ask->daemon != daemon->number || ask->gone)
			continue;
		ask->handed_over = lock_saves(daemon->engine, ask->peer, ask->request);
		if (ask->handed_over)
			continue;
		/* By quorum, an unanswered renewal does not keep the daemon from its end. */
		if (ask->what == ASK_VERIFY)
			ask->due = sim->now + sim->plan.settings.request_timeout;
		slots = lock_leads_to(daemon->engine, ask->peer, ask->request);
		check_repeated(sim, ask, slots);
		if (slots >= 0) {
			ask->order.by = ORDER_TO;
			ask->order.slots = slots;
		}
		for (place = count++; place > 0 && ret[place - 1].since > ask->since; place--)
			ret[place] = ret[place - 1];
		ret[place] = *ask;
	}
	return count;
}

/* Requests to the old engine are unanswered no more, and its auxiliary connection is gone. */
static void
forget(struct sim *sim, struct sim_daemon *daemon)
{
	int number = daemon->number;

	timers_cancel(daemon->heard, &daemon->cut[BROKER_AUXILIARY]);
	timers_cancel(sim->timers, &daemon->starve[BROKER_AUXILIARY]);
	memset(daemon->awaited, 0, sizeof(daemon->awaited));
	daemon->last_message = 0;
	daemon->replies = 0;
	for (int name = 0; name < NAMES; name++) {
		struct truth_work *work = &sim->truth.names[name].work[number];
		struct wait_name *of = &sim->waits.names[name];

		memset(of->places[number], 0, sizeof(of->places[number]));
		of->ordered_at[number] = sim->now;
		if (work->locked > work->unlocked) {
			work->unlocked = sim->truth.moment;
			work->unlocked_at = sim->now;
			work->left = truth_shape(&sim->truth, name);
		}
		/* The successor withholds no slot, and knows of no hint. */
		for (int slot = 0; slot <= SLOTS_KNOWN; slot++)
			of->slots[slot].seen[number].hinted_at = 0;
	}
	/* A watch is placed again later, and then A is checked. */
	for (size_t i = 0; i < sim->book.belief_count; i++) {
		if (sim->book.beliefs[i].daemon == number)
			sim->book.beliefs[i].heard_due = 0;
	}
}

/* ---- the replacement ---- */

static struct state_text
save(struct sim_daemon *daemon)
{
	struct state_writer *writer = state_writer_new(lock_state_version(daemon->engine));

	if (!broker_save(daemon->broker, writer))
		check_fail(daemon->sim, 0, "the lock connection cannot be saved");
	lock_save_holds(daemon->engine, writer);
	lock_save_waits(daemon->engine, writer);
	return state_finish(writer);
}

static void
repeat(struct sim *sim, struct sim_daemon *daemon, const struct ask *ask)
{
	NOTE(sim, .text = "request {n} of {d} is repeated", .daemon = daemon->number,
	    .n = (int64_t)ask->request);
	sim->truth.moment++;
	switch (ask->what) {
	case ASK_VERIFY:
		lock_verify(daemon->engine, ask->peer, ask->request, ask->lock, ask->uid);
		break;
	case ASK_RELEASE:
		lock_release(daemon->engine, ask->peer, ask->request, ask->lock);
		break;
	case ASK_ACQUIRE:
	case ASK_AWAIT:
		check_fail(sim, 3, "request %d waits, and is not saved", (int)ask->request);
		break;
	case ASK_CREATE:
	case ASK_RESIZE:
	case ASK_DESTROY:
	case ASK_FSCK:
	case ASK_SIZE:
	case ASK_LIST:
	case ASK_EXPLAIN:
		admins_repeat(sim, daemon, ask);
		break;
	}
}

static void
restore(
    struct sim_daemon *daemon, struct state_reader *reader, const struct ask *asks, size_t count)
{
	struct sim *sim = daemon->sim;
	bool right;

	daemon->resuming = true;
	right = broker_resume(daemon->broker, reader) && lock_restore_holds(daemon->engine, reader);
	daemon->resuming = false;
	for (size_t i = 0; i < count && right; i++)
		repeat(sim, daemon, &asks[i]);
	if (!right || !lock_restore_waits(daemon->engine, reader) || !state_end(reader))
		check_fail(sim, 0, "the state of daemon %d is refused: %s", daemon->number + 1,
		    state_error(reader));
}

/* A client hung up while its daemon was frozen. */
static void
notice_hang_up(struct sim_daemon *daemon)
{
	struct sim *sim = daemon->sim;
	int peer = (int)dice_below(&sim->dice, (uint64_t)sim->plan.peers);

	NOTE(sim, .text = "{p} of {d} has hung up", .daemon = daemon->number,
	    .peer = daemon->peers[peer].id);
	sim->truth.moment++;
	daemon_hang_up(daemon, peer);
}

static void
replace(struct sim_daemon *daemon)
{
	struct sim *sim = daemon->sim;
	struct ask asks[REQUESTS_MAX];
	struct state_reader *reader;
	size_t count;
	struct state_text text;

	NOTE(sim, .text = "{d} is replaced by its successor", .daemon = daemon->number);
	sim->truth.moment++;
	count = find_repeated(sim, daemon, asks);
	end_gone(sim, daemon->number);
	text = save(daemon);
	memory_broker_detach(daemon->broker, (int64_t)dice_below(&sim->dice, 4 * NSEC_PER_MSEC));
	daemon_close(daemon);
	forget(sim, daemon);
	sim->truth.moment++;
	daemon_open(daemon);
	for (int link = BROKER_LOCKS; link < LINKS; link++)
		if (daemon->denied[link])
			memory_broker_deny(daemon->broker, link, "ACCESS_REFUSED");
	reader = state_reader_new(text.text, text.len, NULL, 0);
	restore(daemon, reader, asks, count);
	state_reader_free(reader);
	state_text_done(&text);
	if (dice_percent(&sim->dice, 15))
		notice_hang_up(daemon);
}

static void
goes_on(struct sim_daemon *daemon)
{
	timers_cancel(daemon->sim->timers, &daemon->replace);
	daemon->frozen = false;
	daemon->unfrozen_at = daemon->disturbed = daemon->sim->now;
}

static void
poll_again(struct sim_daemon *daemon)
{
	struct sim *sim = daemon->sim;
	int64_t most = dice_percent(&sim->dice, 50) ? NSEC_PER_MSEC : 20 * NSEC_PER_MSEC;

	timers_set(sim->timers, &daemon->replace,
	    sim->now + (int64_t)dice_below(&sim->dice, (uint64_t)most));
}

static void
on_poll(void *ctx, uint64_t id)
{
	struct sim_daemon *daemon = ctx;
	struct sim *sim = daemon->sim;
	int64_t frozen = sim->now - daemon->frozen_at;

	(void)id;
	if (daemon->stopped || daemon->late) {
		poll_again(daemon);
	} else if (daemon->alone) {
		replace_give_up(daemon);
	} else if (lock_is_still(daemon->engine) &&
		   (frozen >= daemon->idle_most || lock_is_idle(daemon->engine))) {
		goes_on(daemon);
		replace(daemon);
	} else if (frozen >= FROZEN_MOST) {
		replace_give_up(daemon);
	} else {
		poll_again(daemon);
	}
}

/* ---- outside ---- */

void
replace_init(struct sim_daemon *daemon)
{
	timer_init(&daemon->replace, on_poll, daemon, 0);
}

void
replace_done(struct sim_daemon *daemon)
{
	timers_cancel(daemon->sim->timers, &daemon->replace);
}

static void
freeze(struct sim_daemon *daemon, bool alone)
{
	NOTE(daemon->sim, .text = "{d} is frozen", .daemon = daemon->number);
	daemon->frozen = true;
	daemon->frozen_at = daemon->sim->now;
	daemon->idle_most = dice_percent(&daemon->sim->dice, 30)
				? IDLE_MOST
				: (int64_t)dice_below(&daemon->sim->dice, 20 * NSEC_PER_MSEC);
	daemon->alone = alone;
	lock_freeze(daemon->engine, true);
}

void
replace_begin(struct sim_daemon *daemon)
{
	freeze(daemon, false);
	poll_again(daemon);
}

void
replace_freeze(struct sim_daemon *daemon, int64_t time)
{
	freeze(daemon, true);
	timers_set(daemon->sim->timers, &daemon->replace, daemon->sim->now + time);
}

void
replace_give_up(struct sim_daemon *daemon)
{
	if (!daemon->frozen)
		return;
	NOTE(daemon->sim, .text = "{d} is not frozen any more", .daemon = daemon->number);
	goes_on(daemon);
	lock_freeze(daemon->engine, false);
}
