#include "tests/sim/check.h"

#include <string.h>

#include "protocol/reason.h"
#include "tests/sim/probes.h"

/* ---- when the world performs ---- */

/* Administrators of one daemon share its auxiliary connection: they take turns here, not
 * at the broker. */
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
	check_judged(sim, 11);
	if (memory_world_owner(sim->world, queue_lock(id.name)) != what->connection)
		check_fail(sim, 11, "connection %d changed %s without its administration mutex",
		    (int)what->connection, what->queue);
}

/*
 * Invariant 21: no slot of a semaphore made for consumers exists without its B. A slot that existed
 * before is repaired or converted.
 */
void
check_make_holder(struct sim *sim, int daemon, struct queue_id id)
{
	const struct truth_name *name = &sim->truth.names[id.name];
	const struct truth_slot *slot = &name->slots[id.slot];

	check_judged(sim, 21);
	if (daemon >= 0 && slot->a && slot->a_came_by == daemon &&
	    slot->a_came > name->work[daemon].locked && slot->a_gone < name->work[daemon].locked)
		check_fail(
		    sim, 21, "daemon %d made %s after its slot queue", daemon + 1, queue_text(id));
}

/*
 * A reader of the directory has all its entries unacknowledged for a moment. An entry is added or
 * removed only by the holder of the name's administration mutex. It may also have had the mutex on
 * this link until no request waited for it any more.
 */
void
check_directory(struct sim *sim, int daemon, const struct memory_performed *what, const char *lock)
{
	if (memory_world_owner(sim->world, queue_directory_mutex()) != what->connection)
		check_fail(sim, 11, "connection %d used the directory without its mutex",
		    (int)what->connection);
	else if (lock != NULL && daemon >= 0 &&
		 sim->truth.names[queue_lock_find(lock)].work[daemon].connection !=
		     what->connection)
		check_fail(sim, 11, "connection %d changed the entry of %s without its mutex",
		    (int)what->connection, lock);
}

/* A semaphore is entered before its first slot is there, and taken out after
 * its last is gone. */
void
check_listed(struct sim *sim, int name)
{
	const struct truth_name *of = &sim->truth.names[name];

	if (!of->meddled && of->entries == 0 && truth_exists(&sim->truth, name))
		check_fail(sim, 12, "%s exists, and is not in the directory", queue_lock(name));
}

/*
 * While a lock is resized it exists all the time, so no acquire finds no lock. Only a destroy ends
 * it, and its daemon had the mutex before the answer.
 */
void
check_gone(struct sim *sim, int name, int daemon)
{
	const struct truth_name *of = &sim->truth.names[name];
	const struct truth_work *work = &of->work[daemon];

	if (of->meddled_at < work->locked && work->destroys == 0 && work->destroyed < work->locked)
		check_fail(sim, 12, "%s is gone for a moment, without a destroy", queue_lock(name));
}

/*
 * Slots are created from the first up, and removed from the last down, one after the other. There
 * is no gap, now or a moment ago.
 */
void
check_contiguous(struct sim *sim, int name)
{
	const struct truth_name *of = &sim->truth.names[name];

	if (!of->meddled && !of->ascending && truth_shape(&sim->truth, name).uncounted > 0)
		check_fail(sim, 12, "%s has %d slots above a gap", queue_lock(name),
		    truth_shape(&sim->truth, name).uncounted);
}

/*
 * An A is declared only for a lock that exists: a create makes the lock visible when it is
 * complete.
 */
void
check_whole(struct sim *sim, struct queue_id id, int daemon)
{
	const struct truth_name *of = &sim->truth.names[id.name];
	uint64_t locked = daemon >= 0 ? of->work[daemon].locked : 0;

	if (locked > 0 && of->came > locked && of->meddled_at < locked && !of->slots[id.slot].a)
		check_fail(sim, 12, "%s came to be before all of its slots", queue_lock(id.name));
}

/* ---- completed orders ---- */

/*
 * No other request had the mutex through this daemon since this one. Its work is therefore that of
 * this request.
 */
static bool
is_alone(const struct sim *sim, const struct ask *ask)
{
	const struct truth_work *work = &sim->truth.names[ask->name].work[ask->daemon];

	return !ask->mutex_busy && work->claims == ask->claims + 1 && work->locked > ask->since;
}

/* Sizes as an administrator says them: the markers go before the slots. */
static int
size_of(const struct truth_shape *shape)
{
	return shape->unlimited ? LOCK_UNLIMITED : shape->size;
}

/* The size after `order`, if the state was `found`. */
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

/* `target` slots were asked for. */
static void
check_shape(struct sim *sim, int name, const struct truth_shape *left, int target)
{
	if (left->unlimited != (target == LOCK_UNLIMITED) || left->gate != (target == 0) ||
	    (target >= 0 && left->size != target))
		check_fail(sim, 12, "%s was made to have %d slots, and had %d%s%s",
		    queue_lock(name), target, left->size, left->gate ? ", a gate" : "",
		    left->unlimited ? ", no limit" : "");
	else if (left->uncounted > 0 && target != LOCK_UNLIMITED)
		check_fail(sim, 12, "%s was made to have %d slots, and had %d above a gap",
		    queue_lock(name), target, left->uncounted);
}

static void
check_destroyed(struct sim *sim, int name, const struct truth_shape *left)
{
	if (left->unlimited || left->gate || left->size > 0 || left->uncounted > 0)
		check_fail(sim, 12, "%s was destroyed, and had %d slots, %d above a gap%s%s",
		    queue_lock(name), left->size, left->uncounted, left->gate ? ", a gate" : "",
		    left->unlimited ? ", no limit" : "");
	else if (left->listed)
		check_fail(sim, 12, "%s was destroyed, and is in the directory", queue_lock(name));
}

/* A create that finds all slots changes nothing, so it does not look for uncounted slots. */
static bool
found_all_there(const struct order *order, const struct truth_shape *found)
{
	return order->what == ASK_CREATE && size_of(found) == order->slots &&
	       (found->unlimited || found->gate == (order->slots == 0));
}

static void
check_done(struct sim *sim, const struct ask *ask, const struct lock_answer *answer)
{
	const struct truth_name *of = &sim->truth.names[ask->name];
	const struct truth_work *work = &of->work[ask->daemon];
	int target = target_of(&ask->order, &work->found);

	/* Only while it had the mutex nobody else could change what it did. */
	if (of->meddled_at > ask->since || work->locked <= ask->since ||
	    work->unlocked <= work->locked)
		return;
	/* An order that waited for holders released the mutex long ago. */
	if (ask->order.wait != 0 && !is_alone(sim, ask))
		return;
	check_judged(sim, 12);
	if (ask->what == ASK_DESTROY)
		check_destroyed(sim, ask->name, &work->left);
	else if (!found_all_there(&ask->order, &work->found))
		check_shape(sim, ask->name, &work->left, target);
	if (ask->what == ASK_CREATE && !work->left.listed)
		check_fail(
		    sim, 12, "%s was created, and is not in the directory", queue_lock(ask->name));
	if (ask->what != ASK_DESTROY && (answer->target != target || answer->slots != target))
		check_fail(sim, 12, "%s had %d slots, was to get %d, and is said to have %d of %d",
		    queue_lock(ask->name), work->found.size, target, answer->slots, answer->target);
}

/*
 * A wait for holders: each slot above the size was free at some time since, also slots removed by
 * other orders. Those that this order removed were seen absent twice.
 */
static void
check_holders_gone(struct sim *sim, const struct ask *ask, const struct lock_answer *answer)
{
	const struct truth_name *of = &sim->truth.names[ask->name];
	uint64_t locked = of->work[ask->daemon].locked;
	bool removed[SLOTS_KNOWN + 1] = {false}, any = false;
	int size = ask->what == ASK_DESTROY ? 0 : answer->target;

	if (ask->order.wait == 0 || ask->gone || size == LOCK_UNLIMITED || !is_alone(sim, ask))
		return;
	for (int slot = size + 1; slot <= SLOTS_KNOWN; slot++) {
		const struct truth_slot *its = &of->slots[slot];

		removed[slot] = its->a_gone > locked && its->a_gone_by == ask->daemon;
		any |= removed[slot];
		check_judged(sim, 13);
		if (its->b_came < locked && truth_is_held(sim, ask->name, slot))
			check_fail(sim, 13, "%s was waited for, and is still held",
			    queue_b(ask->name, slot));
	}
	if (any && !ask->handed_over &&
	    !probes_saw_gone(&sim->daemons[ask->daemon], ask->name, removed, ask->since))
		check_fail(sim, 13, "the holders of removed slots of %s were not seen gone twice",
		    queue_lock(ask->name));
}

/* The mutex is let go before holders are waited for. */
void
check_holder_wait(struct sim *sim, const struct ask *ask)
{
	const struct truth_work *work;

	if (ask == NULL || ask->order.wait == 0) {
		check_fail(sim, 3, "a request that waits for no holders got a notice");
		return;
	}
	work = &sim->truth.names[ask->name].work[ask->daemon];
	if (is_alone(sim, ask) && work->unlocked < work->locked &&
	    memory_world_owner(sim->world, queue_lock(ask->name)) ==
		memory_broker_connection(sim->daemons[ask->daemon].broker, BROKER_AUXILIARY))
		check_fail(sim, 11, "%s: holders are waited for under the administration mutex",
		    queue_lock(ask->name));
}

/* ---- fsck ---- */

static bool
has_problem(const struct lock_answer *answer, enum lock_problem problem)
{
	for (size_t i = 0; i < answer->finding_count; i++) {
		if (answer->findings[i].problem == problem)
			return true;
	}
	return false;
}

static void
check_problem(struct sim *sim, const struct ask *ask, const struct lock_answer *answer,
    enum lock_problem problem, bool there)
{
	if (has_problem(answer, problem) != there)
		check_fail(sim, 12, "fsck of %s %s: %s", queue_lock(ask->name),
		    there ? "does not find" : "finds what is not there",
		    lock_problem_word(problem));
}

static bool
shape_is_clean(const struct truth_shape *shape, bool exists)
{
	return shape->uncounted == 0 && !(shape->gate && (shape->unlimited || shape->size > 0)) &&
	       shape->listed == exists;
}

/* A holder of a slot that is not there: both since then at least. */
static bool
has_orphan(const struct sim *sim, int name, uint64_t since)
{
	for (int slot = 1; slot <= SLOTS_KNOWN; slot++) {
		const struct truth_slot *of = &sim->truth.names[name].slots[slot];

		if (!of->a && of->a_gone < since && of->b_came < since &&
		    truth_is_held(sim, name, slot))
			return true;
	}
	return false;
}

static void
check_fsck(struct sim *sim, const struct ask *ask, const struct lock_answer *answer)
{
	const struct truth_name *of = &sim->truth.names[ask->name];
	const struct truth_work *work = &of->work[ask->daemon];
	const struct truth_shape *found = &work->found, *left = &work->left;
	bool exists = found->unlimited || found->gate || found->size > 0;

	if (of->meddled_at > ask->since || work->locked <= ask->since ||
	    work->unlocked <= work->locked)
		return;
	check_problem(sim, ask, answer, LOCK_PROBLEM_UNCOUNTED, found->uncounted > 0);
	check_problem(sim, ask, answer, LOCK_PROBLEM_GAP, found->uncounted > 0);
	check_problem(sim, ask, answer, LOCK_PROBLEM_MARKERS,
	    found->gate && (found->unlimited || found->size > 0));
	check_problem(sim, ask, answer, LOCK_PROBLEM_NOT_LISTED, exists && !found->listed);
	check_problem(sim, ask, answer, LOCK_PROBLEM_LISTED_MISSING, !exists && found->listed);
	/* Whether a B is busy whose node cannot be reached is not known. */
	if (has_orphan(sim, ask->name, work->locked) && !has_problem(answer, LOCK_PROBLEM_ORPHAN) &&
	    !has_problem(answer, LOCK_PROBLEM_UNREACHABLE))
		check_fail(sim, 12, "fsck of %s does not find: orphan", queue_lock(ask->name));
	/* Slots above a gap never counted. */
	if (left->size != found->size || left->unlimited != found->unlimited)
		check_fail(sim, 12, "fsck of %s made %d slots of %d", queue_lock(ask->name),
		    left->size, found->size);
	else if (ask->order.repair && !shape_is_clean(left, exists))
		check_fail(
		    sim, 12, "fsck has repaired %s, and left something", queue_lock(ask->name));
}

/* ---- requests that read ---- */

static void
check_size(struct sim *sim, const struct ask *ask, const struct lock_answer *answer)
{
	const struct truth_name *of = &sim->truth.names[ask->name];
	struct truth_shape shape = truth_shape(&sim->truth, ask->name);

	if (of->changed < ask->since && answer->slots != size_of(&shape))
		check_fail(sim, 12, "%s has %d slots, and is said to have %d",
		    queue_lock(ask->name), size_of(&shape), answer->slots);
}

static void
check_awaited(struct sim *sim, const struct ask *ask)
{
	const struct truth_slot *slot = &sim->truth.names[ask->name].slots[ask->slot];
	bool has = truth_is_held(sim, ask->name, ask->slot);
	bool came = slot->b_came > ask->since;

	if (ask->busy ? !ask->was_busy && !came : ask->was_busy && has && !came)
		check_fail(sim, 13, "%s is said to be %s, and was not",
		    queue_b(ask->name, ask->slot), ask->busy ? "busy" : "free");
	else if (!ask->busy &&
		 !probes_saw_free(&sim->daemons[ask->daemon], ask->name, ask->slot, ask->since))
		check_fail(sim, 13, "%s is said to be free, and was not seen so twice",
		    queue_b(ask->name, ask->slot));
}

static const struct lock_listed *
row_of(const struct lock_answer *answer, int name)
{
	for (size_t i = 0; i < answer->row_count; i++) {
		if (strcmp(answer->rows[i].name, queue_lock(name)) == 0)
			return &answer->rows[i];
	}
	return NULL;
}

static void
check_list(struct sim *sim, const struct ask *ask, const struct lock_answer *answer)
{
	for (int name = 0; name < sim->plan.names; name++) {
		const struct truth_name *of = &sim->truth.names[name];
		struct truth_shape shape = truth_shape(&sim->truth, name);
		const struct lock_listed *row = row_of(answer, name);

		if (of->listed > ask->since)
			continue;
		if ((row != NULL) != shape.listed)
			check_fail(sim, 12, "list is wrong about %s", queue_lock(name));
		else if (row != NULL && row->slots != -1 && of->changed < ask->since &&
			 (row->exists != truth_exists(&sim->truth, name) ||
			     (row->exists && row->slots != size_of(&shape))))
			check_fail(sim, 12, "%s has %d slots, and is listed with %d",
			    queue_lock(name), size_of(&shape), row->slots);
	}
}

static void
check_explained(struct sim *sim, const struct ask *ask, const struct lock_answer *answer)
{
	const struct truth_name *of = &sim->truth.names[ask->name];
	struct truth_shape shape = truth_shape(&sim->truth, ask->name);
	bool right = of->changed > ask->since;

	switch (answer->explanation->verdict) {
	case LOCK_VERDICT_FREE:
	case LOCK_VERDICT_FULL:
		right |= !shape.unlimited && shape.size > 0;
		break;
	case LOCK_VERDICT_UNLIMITED:
		right |= shape.unlimited;
		break;
	case LOCK_VERDICT_GATE:
		right |= shape.gate && !shape.unlimited && shape.size == 0;
		break;
	case LOCK_VERDICT_NO_SUCH_LOCK:
		right |= !truth_exists(&sim->truth, ask->name);
		break;
	case LOCK_VERDICT_ALREADY_EXISTS: /* of a mutex, which nobody asks for here */
		right = false;
		break;
	case LOCK_VERDICT_UNKNOWN:
		right = true;
		break;
	}
	if (!right)
		check_fail(sim, 12, "%s (%d slots) is explained as %s", queue_lock(ask->name),
		    size_of(&shape), lock_verdict_word(answer->explanation->verdict));
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
		check_holders_gone(sim, ask, answer);
		break;
	case ASK_FSCK:
		check_fsck(sim, ask, answer);
		break;
	case ASK_SIZE:
		check_size(sim, ask, answer);
		break;
	case ASK_AWAIT:
		check_awaited(sim, ask);
		break;
	case ASK_LIST:
		check_list(sim, ask, answer);
		break;
	case ASK_EXPLAIN:
		check_explained(sim, ask, answer);
		break;
	case ASK_ACQUIRE:
	case ASK_VERIFY:
	case ASK_RELEASE:
		break;
	}
}

bool
check_was_there(const struct sim *sim, int name, uint64_t since)
{
	return truth_exists(&sim->truth, name) || sim->truth.names[name].changed > since;
}

/* Relative to what has no number, or to more than there may be. */
static bool
may_be_invalid(const struct sim *sim, const struct ask *ask)
{
	const struct truth_name *of = &sim->truth.names[ask->name];

	/* Or it is to hold new slots otherwise than the first. */
	return ask->what == ASK_RESIZE &&
	       (ask->order.claim != LOCK_CLAIM_UNKNOWN || ask->order.by != ORDER_TO) &&
	       (ask->order.claim != LOCK_CLAIM_UNKNOWN || of->unlimited ||
		   of->unlimited_until > ask->since);
}

static bool
refusal_is_right(const struct sim *sim, const struct sim_daemon *daemon, const struct ask *ask,
    enum reason reason)
{
	switch (reason) {
	case REASON_NO_SUCH_LOCK:
		return ask->what != ASK_CREATE && ask->what != ASK_LIST && ask->what != ASK_AWAIT &&
		       check_was_no_lock(sim, ask->name, ask->since);
	case REASON_ALREADY_EXISTS:
		return ask->what == ASK_CREATE && check_was_there(sim, ask->name, ask->since);
	case REASON_WOULD_BLOCK: /* the B of a slot is an exclusive queue */
		return (ask->what == ASK_CREATE || ask->what == ASK_RESIZE) &&
		       sim->truth.refusals > 0;
	case REASON_BROKER_REFUSED: /* the channel of a directory's request may be closed */
		return sim->truth.refusals + sim->truth.denials > 0 ||
		       (sim->plan.troubles & 1U << TROUBLE_CLOSE) != 0;
	case REASON_BROKER_BLOCKED:
		return check_was_alarm(sim, ask->since);
	case REASON_INVALID_PARAMS:
		return may_be_invalid(sim, ask);
	case REASON_CANCELLED:
		return daemon->cancelled && book_waits(ask);
	case REASON_DRAINING:
		return daemon->draining && book_waits(ask);
	case REASON_TOO_MANY_WAITERS:
		return sim->plan.settings.max_waits_per_connection <= PLAN_FEW && book_waits(ask);
	case REASON_TIMEOUT:
	case REASON_BROKER_UNAVAILABLE:
		return true;
	default:
		return false;
	}
}

/* An absolute target is said in every answer. */
static void
check_target(struct sim *sim, const struct ask *ask, const struct lock_answer *answer)
{
	if ((ask->what == ASK_CREATE || (ask->what == ASK_RESIZE && ask->order.by == ORDER_TO)) &&
	    answer->target != ask->order.slots)
		check_fail(sim, 12, "%s was to get %d slots, and the answer says %d",
		    queue_lock(ask->name), ask->order.slots, answer->target);
}

void
check_admin(struct sim *sim, const struct sim_daemon *daemon, const struct ask *ask,
    const struct lock_answer *answer)
{
	check_target(sim, ask, answer);
	if (answer->reason == REASON_NONE)
		check_success(sim, ask, answer);
	else if (!refusal_is_right(sim, daemon, ask, answer->reason))
		check_fail(sim, 0, "administration of %s (%d slots) was answered %s",
		    queue_lock(ask->name), truth_size(&sim->truth, ask->name),
		    reason_word(answer->reason));
}

/* ---- when all is still ---- */

bool
check_is_clean(const struct sim *sim, int name)
{
	struct truth_shape shape = truth_shape(&sim->truth, name);

	return shape_is_clean(&shape, truth_exists(&sim->truth, name));
}

void
check_repaired(struct sim *sim, int name)
{
	struct truth_shape shape = truth_shape(&sim->truth, name);

	if (!check_is_clean(sim, name))
		check_fail(sim, 12, "%s is not repaired: %d slots, %d above a gap%s%s%s",
		    queue_lock(name), shape.size, shape.uncounted, shape.gate ? ", a gate" : "",
		    shape.unlimited ? ", no limit" : "", shape.listed ? ", listed" : "");
}
