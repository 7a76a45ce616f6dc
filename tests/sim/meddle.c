#include "tests/sim/meddle.h"

/* A B that the server's bug deletes is deleted so soon after its declare. */
#define BY_NAME_WITHIN (30 * NSEC_PER_MSEC)
#define BY_NAME_SLOTS 4
/* The node of all foreign clients (memory.h). */
#define FOREIGN_NODE 0

static int64_t
any_time(struct sim *sim, int64_t most)
{
	return (int64_t)dice_below(&sim->dice, (uint64_t)most);
}

static int
any_name(struct sim *sim)
{
	return (int)dice_below(&sim->dice, (uint64_t)sim->plan.names);
}

static void
put_foreign(struct sim *sim, struct queue_id id)
{
	if (sim->foreign_count == FOREIGN_MAX ||
	    sim_is_cut_off(sim, FOREIGN_NODE, queue_text(id)) || !truth_put_foreign(sim, id))
		return;
	NOTE(sim, .text = "a foreign client takes {q}", .queue = queue_text(id));
	sim->foreign[sim->foreign_count++] = id;
}

/* A foreign client whose durable B was given up by its home and deleted has nothing any more. */
static bool
is_daemons(const struct sim *sim, const char *queue)
{
	const struct broker *owner = NULL;

	(void)memory_world_has(sim->world, queue, &owner);
	for (int i = 0; i < sim->plan.daemons; i++) {
		if (owner != NULL && owner == sim->daemons[i].broker)
			return true;
	}
	return false;
}

static void
end_foreign(struct sim *sim, size_t which)
{
	const char *queue = queue_text(sim->foreign[which]);

	NOTE(sim, .text = "a foreign client leaves {q}", .queue = queue);
	if (!memory_world_durable(sim->world, queue) && !is_daemons(sim, queue))
		memory_world_remove(sim->world, queue);
	/* It may have come again while its home had given it up. */
	while (memory_world_let_go(sim->world, queue))
		continue;
	sim->foreign[which] = sim->foreign[--sim->foreign_count];
}

static void
publish_to_b(struct sim *sim)
{
	const char *queue = queue_b(any_name(sim), (int)dice_below(&sim->dice, 3));

	if (!memory_world_durable(sim->world, queue))
		return;
	NOTE(sim, .text = "somebody publishes to {q}", .queue = queue);
	memory_world_publish(sim->world, queue, "not a lock's message");
}

void
meddle_foreign(struct sim *sim)
{
	struct queue_id id = {.part = QUEUE_B, .name = any_name(sim)};

	if (sim->foreign_count > 0 && dice_percent(&sim->dice, 50)) {
		end_foreign(sim, dice_below(&sim->dice, sim->foreign_count));
		return;
	}
	if (sim->plan.consumers && dice_percent(&sim->dice, 10)) {
		publish_to_b(sim);
		return;
	}
	if (dice_percent(&sim->dice, 15))
		id.part = QUEUE_ADMIN;
	else if (dice_percent(&sim->dice, 15))
		id = (struct queue_id){.part = QUEUE_DIRECTORY_MUTEX};
	else
		id.slot = (sim->plan.python ? 1 : 0) + (int)dice_below(&sim->dice, 3);
	put_foreign(sim, id);
}

static bool
is_foreign(const struct sim *sim, int name, int slot)
{
	for (size_t i = 0; i < sim->foreign_count; i++) {
		const struct queue_id *id = &sim->foreign[i];

		if (id->part == QUEUE_B && id->name == name && id->slot == slot)
			return true;
	}
	return false;
}

void
meddle_lose_b(struct sim *sim)
{
	const struct belief *belief;
	int name, slot;

	if (sim->book.belief_count == 0)
		return;
	belief = &sim->book.beliefs[dice_below(&sim->dice, sim->book.belief_count)];
	name = belief->name;
	slot = belief->slot;
	if (belief->slotless || !truth_is_ours(sim, belief->daemon, name, slot) ||
	    is_foreign(sim, name, slot) || sim_is_cut_off(sim, FOREIGN_NODE, queue_b(name, slot)) ||
	    !truth_remove_b(sim, name, slot, false))
		return;
	NOTE(sim, .text = "{q} is deleted behind its holder's back", .queue = queue_b(name, slot));
	if (dice_percent(&sim->dice, 30))
		put_foreign(sim, (struct queue_id){QUEUE_B, name, slot});
}

/*
 * An exclusive queue was deleted behind its holder's back. A passive declare does not tell it from
 * a durable queue of that name.
 */
static bool
is_missed(const struct sim *sim, const struct truth_slot *slot)
{
	for (int i = 0; i < sim->plan.daemons; i++) {
		const struct truth_deeds *deeds = &slot->deeds[i];

		if (!slot->by_consumer && slot->removed > deeds->claimed &&
		    deeds->claimed > deeds->dropped &&
		    deeds->connection == truth_hold_connection(sim, i))
			return true;
	}
	return false;
}

/* By the rule of broker_delete_holder(). The administration of lockbroker does this in admins.c. */
void
meddle_convert(struct sim *sim)
{
	int name = any_name(sim), slot = 1 + (int)dice_below(&sim->dice, 3);
	const char *queue = queue_b(name, slot);

	if (!sim->truth.names[name].slots[slot].a ||
	    is_missed(sim, &sim->truth.names[name].slots[slot]))
		return;
	if (truth_put_holder(sim, name, slot)) {
		NOTE(sim, .text = "{q} is made durable by somebody", .queue = queue);
	} else if (memory_world_durable(sim->world, queue) && !truth_is_held(sim, name, slot) &&
		   !sim_is_cut_off(sim, FOREIGN_NODE, queue)) {
		NOTE(sim, .text = "{q}, which is durable, is deleted by somebody", .queue = queue);
		memory_world_remove(sim->world, queue);
	}
}

void
meddle_cancel_b(struct sim *sim)
{
	const struct belief *belief;
	const char *queue;

	if (sim->book.belief_count == 0)
		return;
	belief = &sim->book.beliefs[dice_below(&sim->dice, sim->book.belief_count)];
	if (belief->slotless)
		return;
	queue = queue_b(belief->name, belief->slot);
	if (!memory_world_durable(sim->world, queue) || sim_is_cut_off(sim, FOREIGN_NODE, queue) ||
	    !memory_world_cancel(sim->world, queue))
		return;
	NOTE(sim, .text = "the server cancels the consumer of {q}", .queue = queue);
	truth_find_freed(sim, true);
}

static void
bring_back_a(struct sim *sim, int name, int slot, bool otherwise)
{
	if (truth_put_a(sim, name, slot, otherwise))
		NOTE(sim, .text = "{q} is declared by somebody", .queue = queue_a(name, slot));
}

static void
on_a_back(void *ctx, uint64_t id)
{
	struct sim *sim = ctx;

	(void)id;
	bring_back_a(sim, sim->a_back_queue.name, sim->a_back_queue.slot, false);
}

void
meddle_lose_a(struct sim *sim)
{
	int name = any_name(sim), slot = 1 + (int)dice_below(&sim->dice, 3);
	bool otherwise = dice_percent(&sim->dice, 20);
	const struct belief *belief;

	if (sim->book.belief_count > 0 && dice_percent(&sim->dice, 60)) {
		belief = &sim->book.beliefs[dice_below(&sim->dice, sim->book.belief_count)];
		name = belief->name;
		slot = belief->slot == 0 ? slot : belief->slot;
	}
	if (!truth_remove_a(sim, name, slot)) {
		bring_back_a(sim, name, slot, otherwise);
		return;
	}
	NOTE(sim, .text = "{q} is deleted by somebody", .queue = queue_a(name, slot));
	if (!timer_is_set(&sim->a_back) && dice_percent(&sim->dice, 50)) {
		sim->a_back_queue = (struct queue_id){QUEUE_A, name, slot};
		timers_set(
		    sim->timers, &sim->a_back, sim->now + any_time(sim, 4 * sim->plan.usual));
	}
}

/* ---- wait queues ---- */

void
meddle_lines(struct sim *sim)
{
	static const char *const hints[] = {"1", "2", "3", "0", "40", "-1", "no number"};
	const char *queue = queue_line(any_name(sim), dice_percent(&sim->dice, 15));
	const char *hint = hints[dice_below(&sim->dice, sizeof(hints) / sizeof(hints[0]))];

	if (!memory_world_has(sim->world, queue, NULL))
		return;
	if (dice_percent(&sim->dice, 40)) {
		NOTE(sim, .text = "{q} is deleted by somebody", .queue = queue);
		memory_world_remove(sim->world, queue);
	} else {
		NOTE(
		    sim, .text = "somebody sends a hint to {q}: {w}", .queue = queue, .word = hint);
		memory_world_publish(sim->world, queue, hint);
	}
}

/* ---- the server's bug ---- */

static void
on_by_name(void *ctx, uint64_t id)
{
	struct sim *sim = ctx;
	const struct queue_id *queue = &sim->by_name_queue;
	const struct truth_slot *slot = &sim->truth.names[queue->name].slots[queue->slot];

	(void)id;
	if (slot->claimed != sim->by_name_claim || slot->owner == 0 ||
	    memory_world_owner(sim->world, queue_text(*queue)) != slot->owner)
		return;
	NOTE(sim, .text = "{q} is deleted by name", .queue = queue_text(*queue));
	truth_remove_b(sim, queue->name, queue->slot, true);
	if (!sim->calm && dice_percent(&sim->dice, 30))
		put_foreign(sim, *queue);
}

/* A B that was declared just now is to be deleted: whichever comes first, from a random one on. */
void
meddle_by_name(struct sim *sim)
{
	int name = any_name(sim), first = (int)dice_below(&sim->dice, BY_NAME_SLOTS);

	for (int i = 0; i < BY_NAME_SLOTS; i++) {
		int slot = (first + i) % BY_NAME_SLOTS;
		const struct truth_slot *of = &sim->truth.names[name].slots[slot];
		int64_t when = of->claimed_at + any_time(sim, BY_NAME_WITHIN);

		if (of->owner == 0 || when < sim->now || timer_is_set(&sim->by_name))
			continue;
		sim->by_name_queue = (struct queue_id){QUEUE_B, name, slot};
		sim->by_name_claim = of->claimed;
		timers_set(sim->timers, &sim->by_name, when);
	}
}

/* ---- all of it ---- */

void
meddle_init(struct sim *sim)
{
	timer_init(&sim->by_name, on_by_name, sim, 0);
	timer_init(&sim->a_back, on_a_back, sim, 0);
}

void
meddle_end(struct sim *sim)
{
	while (sim->foreign_count > 0)
		end_foreign(sim, 0);
}
