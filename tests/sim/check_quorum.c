/*
 * Invariants 22 to 25, the promises of a hold by quorum. No trouble excuses a violation.
 */
#include "tests/sim/check.h"

#include <string.h>

#include "protocol/reason.h"
#include "tests/sim/quorum.h"

/* ---- two believers ---- */

/* A ghost whose time is over makes room. */
void
quorum_haunt(struct sim *sim, const struct belief *belief)
{
	struct quorum *quorum = &sim->quorum;
	size_t left = 0;

	if (belief->slotless || belief->with_a || !sim->plan.quorum)
		return;
	for (size_t i = 0; i < quorum->ghost_count; i++) {
		if (quorum->ghosts[i].until > sim->now)
			quorum->ghosts[left++] = quorum->ghosts[i];
	}
	quorum->ghost_count = left;
	if (left == GHOSTS_MAX || belief->safe_until <= sim->now)
		return;
	quorum->ghosts[quorum->ghost_count++] = (struct quorum_ghost){
	    .name = belief->name,
	    .slot = belief->slot,
	    .daemon = belief->daemon,
	    .lock = belief->lock,
	    .until = belief->safe_until,
	};
}

static void
fail_two(struct sim *sim, const struct belief *belief, int daemon, uint64_t lock, int64_t until)
{
	check_fail(sim, 22,
	    "lock %d of daemon %d has %s, which lock %d of daemon %d has for %.1f ms more",
	    (int)belief->lock, belief->daemon + 1, queue_beads(belief->name, belief->slot),
	    (int)lock, daemon + 1, (double)(until - sim->now) / 1e6);
}

void
check_believers(struct sim *sim, const struct belief *belief)
{
	const struct quorum *quorum = &sim->quorum;

	if (!sim->plan.quorum || belief->slotless || belief->with_a ||
	    belief->safe_until <= sim->now)
		return;
	check_judged(sim, 22);
	for (size_t i = 0; i < sim->book.belief_count; i++) {
		const struct belief *other = &sim->book.beliefs[i];

		if (other->name == belief->name && other->slot == belief->slot &&
		    !other->slotless && !other->with_a && other->safe_until > sim->now &&
		    (other->daemon != belief->daemon || other->lock != belief->lock))
			fail_two(sim, belief, other->daemon, other->lock, other->safe_until);
	}
	for (size_t i = 0; i < quorum->ghost_count; i++) {
		const struct quorum_ghost *ghost = &quorum->ghosts[i];

		if (ghost->name == belief->name && ghost->slot == belief->slot &&
		    ghost->until > sim->now)
			fail_two(sim, belief, ghost->daemon, ghost->lock, ghost->until);
	}
}

/* ---- grants ---- */

/* Whether the slot is clean, and only the claim that is heard of now came since. */
static bool
is_alone(const struct quorum_slot *slot)
{
	return slot->clean && slot->rivals <= 1;
}

void
check_quorum_grant(struct sim *sim, const struct ask *ask, const struct lock_answer *answer)
{
	const char *queue = queue_beads(ask->name, answer->slot);
	struct quorum_slot *slot = &sim->quorum.slots[ask->name][answer->slot];

	check_judged(sim, 23);
	if (answer->fence <= slot->fence)
		check_fail(sim, 23, "%s was granted with a fence %d below the one before", queue,
		    (int)(slot->fence - answer->fence));
	/* A set is published in dirty order, so that its publisher can die. */
	if (slot->publisher != 0 && !slot->graced)
		check_fail(
		    sim, 22, "%s was granted at once, and its publisher made nothing clean", queue);
	if (answer->safe_until <= sim->now)
		check_fail(sim, 7, "%s was granted after its lease", queue);
	if (is_alone(slot))
		check_judged(sim, 24);
	slot->clean = false;
	slot->fence = answer->fence;
	slot->publisher = 0;
}

/* ---- conversions ---- */

bool
quorum_was_shrunk(const struct sim *sim, const struct belief *belief)
{
	bool asked = sim->quorum.changed_at[belief->name] >= belief->granted_at;

	for (size_t i = 0; i < sim->book.ask_count; i++) {
		const struct order *order = &sim->book.asks[i].order;

		asked |= order->name == belief->name &&
			 (order->what == ASK_RESIZE || order->what == ASK_DESTROY);
	}
	return asked;
}

/* Whether the server has it for that daemon. */
static bool
is_held_with_a(const struct sim *sim, const struct belief *belief)
{
	const char *b = queue_b(belief->name, belief->slot);
	uint64_t owner = memory_world_owner(sim->world, b);

	if (owner == 0)
		owner = memory_world_holder(sim->world, b, NULL);
	return owner == belief->connection && !quorum_was_shrunk(sim, belief);
}

static bool
is_held_by_quorum(const struct sim *sim, const struct belief *belief)
{
	return belief->safe_until > sim->now && !belief->revoked &&
	       !sim->quorum.slots[belief->name][belief->slot].removed;
}

void
check_converted(struct sim *sim, int name, bool by_quorum)
{
	for (size_t i = 0; i < sim->book.belief_count; i++) {
		const struct belief *belief = &sim->book.beliefs[i];

		if (belief->name != name || belief->slot == 0 || belief->with_a != by_quorum)
			continue;
		check_judged(sim, 22);
		if (belief->with_a ? is_held_with_a(sim, belief) : is_held_by_quorum(sim, belief))
			check_fail(sim, 22,
			    "a slot of %s is granted, and lock %d of daemon %d has slot %d in "
			    "another way",
			    queue_lock(name), (int)belief->lock, belief->daemon + 1, belief->slot);
	}
	for (size_t i = 0; i < sim->quorum.ghost_count; i++) {
		const struct quorum_ghost *ghost = &sim->quorum.ghosts[i];

		if (!by_quorum && ghost->name == name && ghost->slot > 0 &&
		    ghost->until > sim->now && !sim->quorum.slots[name][ghost->slot].removed)
			check_fail(sim, 22,
			    "a slot of %s is granted, and lock %d of daemon %d had slot %d by "
			    "quorum for %.1f ms more",
			    queue_lock(name), (int)ghost->lock, ghost->daemon + 1, ghost->slot,
			    (double)(ghost->until - sim->now) / 1e6);
	}
}

/* ---- claims ---- */

/* The claims that ended before. */
unsigned
quorum_asks(struct sim *sim, struct queue_id id, bool rival)
{
	struct quorum_slot *slot = quorum_slot(&sim->quorum, id);
	unsigned over = slot->claims - slot->claiming;

	slot->asking++;
	slot->claims += rival;
	slot->claiming += rival;
	slot->rivals += rival;
	return over + rival;
}

void
quorum_answered(struct sim *sim, struct queue_id id, bool rival)
{
	struct quorum_slot *slot = quorum_slot(&sim->quorum, id);

	slot->asking--;
	slot->claiming -= rival;
	slot->asked_at = sim->now;
}

void
quorum_removed(struct sim *sim, struct queue_id id)
{
	struct quorum_slot *slot = quorum_slot(&sim->quorum, id);

	slot->sure = slot->removed && !slot->remade;
}

void
quorum_made(struct sim *sim, struct queue_id id)
{
	struct quorum_slot *slot = quorum_slot(&sim->quorum, id);

	/* A late answer can be about a queue that is gone. Messages lost just now were perhaps its own. */
	slot->made = memory_world_has(sim->world, queue_text(id), NULL) &&
		     (slot->lost_at == 0 || sim->now - slot->lost_at > NSEC_PER_SEC);
	slot->removed = slot->sure = slot->remade = false;
	slot->publisher = 0;
}

void
quorum_proved(struct sim *sim, struct queue_id id, unsigned since)
{
	struct quorum_slot *slot = quorum_slot(&sim->quorum, id);

	slot->clean = true;
	slot->rivals = slot->claims - since;
}

/* Claims that were answered before had no beads since that end. */
void
quorum_reclaimed(struct sim *sim, struct queue_id id)
{
	const struct quorum_slot *slot = quorum_slot(&sim->quorum, id);

	NOTE(sim, .text = "{q} is reclaimed", .queue = queue_text(id));
	check_judged(sim, 24);
	quorum_proved(sim, id, slot->claims - slot->claiming);
}

void
check_unclean(struct sim *sim, struct queue_id id)
{
	struct quorum_slot *slot = quorum_slot(&sim->quorum, id);

	NOTE(sim, .text = "a claim of {q} waits for the end of a grace", .queue = queue_text(id));
	slot->graced = true;
	if (is_alone(slot))
		check_fail(
		    sim, 24, "a claim of %s waits, and its last end was proved", queue_text(id));
	slot->clean = false;
}

/* ---- the world ---- */

static void
beads_performed(struct sim *sim, const struct memory_performed *what, struct queue_id id)
{
	struct quorum_slot *slot = quorum_slot(&sim->quorum, id);
	const amqp_queue_declare_t *declare = what->fields;

	switch (what->method) {
	case AMQP_QUEUE_DECLARE_METHOD:
		if (declare->passive)
			break;
		NOTE(sim, .text = "{q} is declared", .queue = queue_text(id));
		slot->sure = false;
		slot->remade |= slot->removed;
		slot->maker = what->channel;
		if (sim_has(sim, TROUBLE_HOMES))
			memory_world_set_home(sim->world, what->queue, HOME);
		break;
	case AMQP_QUEUE_DELETE_METHOD:
		NOTE(sim, .text = "{q} is deleted", .queue = queue_text(id));
		slot->made = slot->clean = slot->removed = slot->sure = slot->remade = false;
		slot->publisher = 0;
		slot->troubles = 0;
		break;
	case AMQP_BASIC_PUBLISH_METHOD:
		slot->removed |= strcmp(what->body, "removed") == 0;
		if (strncmp(what->body, "bead ", 5) != 0)
			break;
		slot->publisher = what->channel;
		slot->graced = false;
		if (!sim->calm && dice_percent(&sim->dice, 5)) {
			for (int i = 0; i < sim->plan.daemons; i++) {
				if (sim->daemons[i].broker == what->broker)
					sim->quorum.fuse_daemon = i;
			}
			timers_set(sim->timers, &sim->quorum.fuse,
			    sim->now + (int64_t)dice_below(&sim->dice, 2 * NSEC_PER_MSEC));
		}
		break;
	default:
		break;
	}
}

void
quorum_performed(struct sim *sim, const struct memory_performed *what)
{
	if (what->queue != NULL && what->code == 0 && queue_is_locks(what->queue) &&
	    queue_find(what->queue).part == QUEUE_BEADS)
		beads_performed(sim, what, queue_find(what->queue));
	if (what->method != AMQP_BASIC_REJECT_METHOD)
		return;
	for (int name = 0; name < sim->plan.names; name++) {
		for (int slot = 0; slot <= SLOTS_KNOWN; slot++) {
			struct quorum_slot *of = &sim->quorum.slots[name][slot];

			/* A later maker of the slot waits for a grace before its reject. */
			if (of->publisher == what->channel || of->maker == what->channel)
				of->publisher = 0;
		}
	}
}

/* All is calm: each holder of a removed slot was told. */
void
check_removals(struct sim *sim)
{
	for (size_t i = 0; i < sim->book.belief_count; i++) {
		const struct belief *belief = &sim->book.beliefs[i];

		const struct quorum_slot *slot = &sim->quorum.slots[belief->name][belief->slot];

		if (belief->slotless || belief->with_a || !slot->sure)
			continue;
		check_judged(sim, 5);
		if (!belief->revoked)
			check_fail(sim, 5, "%s is removed, and lock %d of daemon %d is not revoked",
			    queue_beads(belief->name, belief->slot), (int)belief->lock,
			    belief->daemon + 1);
	}
}

/* ---- other answers ---- */

void
check_quorum_answer(struct sim *sim, const struct ask *ask, enum reason reason)
{
	bool right = true;

	switch (ask->what) {
	case ASK_RELEASE:
		right = reason == REASON_NONE || reason == REASON_BROKER_UNAVAILABLE
			    ? ask->held
			    : reason == (ask->held ? REASON_LOST : REASON_NOT_HELD);
		break;
	case ASK_VERIFY:
		right = ask->held || reason == REASON_NOT_HELD;
		break;
	default:
		break;
	}
	if (!right)
		check_fail(sim, 6, "request %d of daemon %d was answered %s", (int)ask->request,
		    ask->daemon + 1, reason_word(reason));
}
