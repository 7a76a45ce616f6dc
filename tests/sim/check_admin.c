#include "tests/sim/check.h"

#include <string.h>

#include "protocol/reason.h"

/* ---- when the world performs ---- */

/* Administrators of one daemon share its side link: they take turns here, not at the broker. */
void
check_admin_claim(struct sim *sim, const struct memory_performed *what, struct queue_id id)
{
	if (sim->truth.names[id.name].admin == what->connection)
		check_fail(sim, 11, "two administrators of %s on connection %d", what->queue,
		    (int)what->connection);
}

/* As and markers are changed under the administration mutex. */
void
check_admin_work(struct sim *sim, const struct memory_performed *what, struct queue_id id)
{
	if (memory_world_owner(sim->world, queue_lock(id.name)) != what->connection)
		check_fail(sim, 11, "connection %d changed %s without its administration mutex",
		    (int)what->connection, what->queue);
}

/* Who reads a directory has all of its entries in hand for a moment. */
void
check_directory(struct sim *sim, const struct memory_performed *what)
{
	if (memory_world_owner(sim->world, queue_directory_mutex()) != what->connection)
		check_fail(sim, 11, "connection %d used the directory without its mutex",
		    (int)what->connection);
}

/* Slots come up from the first and go down from the last, each after the one before: there is no gap. */
void
check_contiguous(struct sim *sim, int name)
{
	const struct truth_name *of = &sim->truth.names[name];

	if (!of->meddled && !of->ascending && truth_shape(&sim->truth, name).strays > 0)
		check_fail(sim, 12, "%s has %d slots above a gap", queue_lock(name),
		    truth_shape(&sim->truth, name).strays);
}

/* ---- what was done ---- */

/* Nobody else had the mutex through this daemon since it was asked; what the daemon did is its doing. */
static bool
is_alone(const struct sim *sim, const struct ask *ask)
{
	const struct truth_work *work = &sim->truth.names[ask->name].work[ask->daemon];

	return work->claims == ask->claims + 1 && work->locked > ask->since;
}

/* Sizes as an administrator says them: the markers go before the slots. */
static int
size_of(const struct truth_shape *shape)
{
	return shape->unlimited ? LOCK_UNLIMITED : shape->size;
}

/* What `order` comes to where it found `found`. */
static int
target_of(const struct order *order, const struct truth_shape *found)
{
	if (order->what == ASK_DESTROY)
		return 0;
	switch (order->by) {
	case ORDER_TO:
		return order->slots;
	case ORDER_ADD:
		return found->size + order->slots;
	case ORDER_REMOVE:
		return found->size > order->slots ? found->size - order->slots : 0;
	}
	return 0;
}

static void
check_shape(struct sim *sim, int name, const struct order *order, const struct truth_shape *left,
    int target)
{
	bool gate = target == 0 && order->what != ASK_DESTROY;

	if (left->unlimited != (target == LOCK_UNLIMITED) || left->gate != gate ||
	    (target >= 0 && left->size != target))
		check_fail(sim, 12, "%s was made to have %d slots, and had %d%s%s",
		    queue_lock(name), target, left->size, left->gate ? ", a gate" : "",
		    left->unlimited ? ", no limit" : "");
	else if (left->strays > 0 && target != LOCK_UNLIMITED)
		check_fail(sim, 12, "%s was made to have %d slots, and had %d above a gap",
		    queue_lock(name), target, left->strays);
}

/* A create that finds all there changes nothing, and so looks for no strays. */
static bool
found_all_there(const struct order *order, const struct truth_shape *found)
{
	return order->what == ASK_CREATE && size_of(found) == order->slots &&
	       found->gate == (order->slots == 0);
}

static void
check_done(struct sim *sim, const struct ask *ask, const struct lock_answer *answer)
{
	const struct truth_name *of = &sim->truth.names[ask->name];
	const struct truth_work *work = &of->work[ask->daemon];
	struct truth_shape left = work->left;
	int target;

	/* Only while it had the mutex nobody else could change what it did. */
	if (of->meddled || work->locked <= ask->since || work->unlocked <= work->locked)
		return;
	/* Who waited for holders had let it go long ago. */
	if (ask->order.wait != 0 && !is_alone(sim, ask))
		return;
	target = target_of(&ask->order, &work->found);
	if (found_all_there(&ask->order, &work->found))
		left.strays = 0;
	check_shape(sim, ask->name, &ask->order, &left, target);
	if (ask->what != ASK_DESTROY && answer->slots != target)
		check_fail(sim, 12, "%s had %d slots, was to get %d, and is said to have %d of %d",
		    queue_lock(ask->name), work->found.size, target, answer->slots, answer->target);
}

/* Waiting for holders: each slot that was removed has been free since. */
static void
check_drained(struct sim *sim, const struct ask *ask)
{
	const struct truth_name *of = &sim->truth.names[ask->name];

	if (ask->order.wait == 0 || !is_alone(sim, ask))
		return;
	for (int slot = 1; slot <= SLOTS_KNOWN; slot++) {
		const struct truth_slot *its = &of->slots[slot];

		if (its->a_gone > ask->since && its->a_gone_by == ask->daemon &&
		    its->b_came < its->a_gone &&
		    memory_world_has(sim->world, queue_b(ask->name, slot), NULL))
			check_fail(sim, 13, "%s was waited for, and is still held",
			    queue_b(ask->name, slot));
	}
}

/* The mutex is let go before holders are waited for. */
void
check_draining(struct sim *sim, const struct ask *ask)
{
	const struct truth_work *work;

	if (ask == NULL || ask->order.wait == 0) {
		check_fail(sim, 3, "told of holders that it does not wait for");
		return;
	}
	work = &sim->truth.names[ask->name].work[ask->daemon];
	if (is_alone(sim, ask) && work->unlocked < work->locked &&
	    memory_world_owner(sim->world, queue_lock(ask->name)) ==
		memory_broker_connection(sim->daemons[ask->daemon].broker, BROKER_SIDE))
		check_fail(sim, 11, "%s: holders are waited for under the administration mutex",
		    queue_lock(ask->name));
}

/* ---- who looks ---- */

static void
check_size(struct sim *sim, const struct ask *ask, const struct lock_answer *answer)
{
	const struct truth_name *of = &sim->truth.names[ask->name];
	struct truth_shape shape = truth_shape(&sim->truth, ask->name);

	if (of->changed < ask->since && answer->slots != size_of(&shape))
		check_fail(sim, 12, "%s has %d slots, and is said to have %d",
		    queue_lock(ask->name), size_of(&shape), answer->slots);
}

/* ---- answers ---- */

static void
check_success(struct sim *sim, const struct ask *ask, const struct lock_answer *answer)
{
	switch (ask->what) {
	case ASK_CREATE:
	case ASK_RESIZE:
	case ASK_DESTROY:
		check_done(sim, ask, answer);
		check_drained(sim, ask);
		break;
	case ASK_SIZE:
		check_size(sim, ask, answer);
		break;
	case ASK_FSCK:
	case ASK_AWAIT:
	case ASK_LIST:
	case ASK_EXPLAIN:
	case ASK_ACQUIRE:
	case ASK_VERIFY:
	case ASK_RELEASE:
		break;
	}
}

static bool
was_there(const struct sim *sim, const struct ask *ask)
{
	return truth_exists(&sim->truth, ask->name) ||
	       sim->truth.names[ask->name].changed > ask->since;
}

/* Relative to what has no number, or to more than there may be. */
static bool
may_be_invalid(const struct sim *sim, const struct ask *ask)
{
	const struct truth_name *of = &sim->truth.names[ask->name];

	return ask->what == ASK_RESIZE && ask->order.by != ORDER_TO &&
	       (of->unlimited || of->unlimited_until > ask->since);
}

static bool
refusal_is_right(const struct sim *sim, const struct sim_daemon *daemon, const struct ask *ask,
    enum reason reason)
{
	switch (reason) {
	case REASON_NO_SUCH_LOCK:
		return ask->what != ASK_CREATE && ask->what != ASK_FSCK && ask->what != ASK_LIST &&
		       ask->what != ASK_AWAIT && check_was_no_lock(sim, ask->name, ask->since);
	case REASON_ALREADY_EXISTS:
		return ask->what == ASK_CREATE && was_there(sim, ask);
	case REASON_BROKER_DENIED:
		return sim->truth.refusals + sim->truth.denials > 0;
	case REASON_BROKER_BLOCKED:
		return check_was_alarm(sim, ask->since);
	case REASON_INVALID_PARAMS:
		return may_be_invalid(sim, ask);
	case REASON_CANCELLED:
		return daemon->cancelled && book_waits(ask);
	case REASON_DRAINING:
		return daemon->draining && book_waits(ask);
	case REASON_TOO_MANY_WAITERS:
		return sim->plan.settings.max_waits_per_peer <= PLAN_FEW && book_waits(ask);
	case REASON_TIMEOUT:
	case REASON_BROKER_UNAVAILABLE:
		return true;
	default:
		return false;
	}
}

void
check_admin(struct sim *sim, const struct sim_daemon *daemon, const struct ask *ask,
    const struct lock_answer *answer)
{
	if (answer->reason == REASON_NONE)
		check_success(sim, ask, answer);
	else if (!refusal_is_right(sim, daemon, ask, answer->reason))
		check_fail(sim, 0, "administration of %s (%d slots) was answered %s",
		    queue_lock(ask->name), truth_size(&sim->truth, ask->name),
		    reason_word(answer->reason));
}
