#include "tests/sim/truth.h"

#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/sim.h"

static int
daemon_of(const struct sim *sim, const struct broker *broker)
{
	for (int i = 0; broker != NULL && i < sim->plan.daemons; i++) {
		if (sim->daemons[i].broker == broker)
			return i;
	}
	return -1;
}

static const char *
method_word(enum memory_method method)
{
	switch (method) {
	case MEMORY_CLAIM:
		return "declares, exclusive,";
	case MEMORY_CHECK:
		return "declares, passive,";
	case MEMORY_DROP:
		return "deletes";
	case MEMORY_DECLARE_SLOT:
		return "declares, durable,";
	case MEMORY_DELETE_SLOT:
		return "deletes, as administrator,";
	case MEMORY_DECLARE_MARKER:
		return "declares, as marker,";
	case MEMORY_DIRECTORY_READ:
		return "reads the directory";
	case MEMORY_DIRECTORY_ENTER:
		return "enters a name into";
	case MEMORY_DIRECTORY_LEAVE:
		return "takes a name out of";
	}
	return "?";
}

static const char *
answer_text(enum broker_answer answer)
{
	switch (answer) {
	case BROKER_OK:
		return "{d} (connection {n}, lane {m}) {w} {q}: ok";
	case BROKER_ABSENT:
		return "{d} (connection {n}, lane {m}) {w} {q}: 404";
	case BROKER_LOCKED:
		return "{d} (connection {n}, lane {m}) {w} {q}: 405";
	default:
		return "{d} (connection {n}, lane {m}) {w} {q}: refused";
	}
}

/* The deeds of a daemon's present hold link; NULL: it was another's. */
static struct truth_deeds *
deeds_of(struct sim *sim, int daemon, const struct memory_performed *what, struct queue_id id)
{
	struct truth_deeds *deeds;

	if (daemon < 0 || memory_broker_connection(what->broker, BROKER_HOLD) != what->connection)
		return NULL;
	deeds = &sim->truth.names[id.name].slots[id.slot].deeds[daemon];
	if (deeds->connection != what->connection)
		*deeds = (struct truth_deeds){.connection = what->connection};
	return deeds;
}

static void
slot_method(struct sim *sim, int daemon, const struct memory_performed *what, struct queue_id id)
{
	struct truth_slot *slot = &sim->truth.names[id.name].slots[id.slot];
	struct truth_deeds *deeds = deeds_of(sim, daemon, what, id);
	uint64_t moment = sim->truth.moment;

	if (what->method == MEMORY_CLAIM && what->answer == BROKER_LOCKED && daemon >= 0)
		check_claim_lost(sim, slot, daemon, id);
	if (what->method == MEMORY_CLAIM && what->answer == BROKER_OK) {
		check_claim(sim, what, id);
		slot->owner = what->connection;
		slot->claimed = moment;
		slot->claimed_at = sim->now;
		if (deeds != NULL) {
			deeds->looked_at = sim->now;
			deeds->claimed = moment;
			deeds->claimed_lane = what->lane;
		}
	} else if (what->method == MEMORY_DROP && what->answer == BROKER_OK) {
		check_drop(sim, deeds, daemon, id);
		if (slot->owner == what->connection)
			slot->owner = 0;
		if (deeds != NULL)
			deeds->dropped = moment;
	} else if (what->method == MEMORY_CHECK && deeds != NULL) {
		check_look(sim, deeds, id);
		if (id.part == QUEUE_B || what->answer != BROKER_OK)
			deeds->looked_at = sim->now; /* or its lane is closed now */
		if (id.part == QUEUE_B && what->answer == BROKER_OK)
			deeds->b_seen = moment;
		if (id.part == QUEUE_A && what->answer == BROKER_ABSENT)
			deeds->a_absent = moment;
		if (id.part == QUEUE_A && what->answer == BROKER_OK) {
			deeds->a_seen = moment;
			deeds->a_seen_lane = what->lane;
		}
	}
}

static void
change_a(struct sim *sim, int name, int slot, bool there)
{
	struct truth_slot *of = &sim->truth.names[name].slots[slot];

	if (of->a == there)
		return;
	of->a = there;
	sim->truth.names[name].changed = sim->truth.moment;
	if (there)
		of->a_came = sim->truth.moment;
}

/* The daemon is done, even if the broker does not let it drop the mutex. */
static void
admin_unlocked(struct sim *sim, int daemon, const struct memory_performed *what, int name)
{
	struct truth_name *of = &sim->truth.names[name];

	if (what->answer != BROKER_OK)
		of->admin_stayed = true;
	if (of->admin == what->connection)
		of->admin = 0;
	if (daemon >= 0) {
		of->unlocked[daemon] = sim->truth.moment;
		of->unlocked_size[daemon] = truth_size(&sim->truth, name);
	}
}

static void
admin_method(struct sim *sim, int daemon, const struct memory_performed *what, struct queue_id id)
{
	struct truth_name *name = &sim->truth.names[id.name];

	if (what->method == MEMORY_DROP)
		admin_unlocked(sim, daemon, what, id.name);
	if (what->answer != BROKER_OK)
		return;
	switch (what->method) {
	case MEMORY_CLAIM:
		check_admin_claim(sim, what, id);
		name->admin = what->connection;
		if (daemon >= 0)
			name->unlocked[daemon] = 0;
		break;
	case MEMORY_DECLARE_SLOT:
	case MEMORY_DELETE_SLOT:
		check_admin_work(sim, what, id);
		change_a(sim, id.name, id.slot, what->method == MEMORY_DECLARE_SLOT);
		check_contiguous(sim, id.name);
		break;
	case MEMORY_DROP:
	case MEMORY_CHECK:
	case MEMORY_DECLARE_MARKER:
	case MEMORY_DIRECTORY_READ:
	case MEMORY_DIRECTORY_ENTER:
	case MEMORY_DIRECTORY_LEAVE:
		break;
	}
}

void
truth_performed(void *ctx, const struct memory_performed *what)
{
	struct sim *sim = ctx;
	struct queue_id id = queue_find(what->queue);
	int daemon = daemon_of(sim, what->broker);

	sim->truth.moment++;
	sim->truth.performed++;
	if (daemon >= 0 && what->connection == truth_hold_connection(sim, daemon)) {
		sim->truth.reading[daemon] = what->connection;
		sim->truth.read_at[daemon] = sim->now;
	}
	NOTE(sim, .text = answer_text(what->answer), .daemon = daemon,
	    .n = (int64_t)what->connection, .m = (int64_t)what->lane,
	    .word = method_word(what->method), .queue = queue_text(id));
	if (what->answer == BROKER_REFUSED)
		sim->truth.refusals++;
	if (id.part == QUEUE_ADMIN || what->method == MEMORY_DECLARE_SLOT ||
	    what->method == MEMORY_DELETE_SLOT)
		admin_method(sim, daemon, what, id);
	else
		slot_method(sim, daemon, what, id);
}

/* ---- behind everybody's back ---- */

bool
truth_put_a(struct sim *sim, int name, int slot, bool otherwise)
{
	const char *queue = queue_a(name, slot);

	if (otherwise ? !memory_world_put_otherwise(sim->world, queue)
		      : !memory_world_put(sim->world, queue, false))
		return false;
	sim->truth.moment++;
	sim->truth.names[name].meddled = true;
	change_a(sim, name, slot, true);
	return true;
}

bool
truth_remove_a(struct sim *sim, int name, int slot)
{
	if (!memory_world_remove(sim->world, queue_a(name, slot)))
		return false;
	sim->truth.moment++;
	sim->truth.names[name].meddled = true;
	change_a(sim, name, slot, false);
	return true;
}

bool
truth_remove_b(struct sim *sim, int name, int slot, bool by_name)
{
	struct truth_slot *of = &sim->truth.names[name].slots[slot];

	if (!memory_world_remove(sim->world, queue_b(name, slot)))
		return false;
	of->removed = ++sim->truth.moment;
	of->removed_at = sim->now;
	of->by_name = by_name ? of->owner : 0;
	of->owner = 0;
	return true;
}

/* ---- asked ---- */

uint64_t
truth_hold_connection(const struct sim *sim, int daemon)
{
	return memory_broker_connection(sim->daemons[daemon].broker, BROKER_HOLD);
}

int64_t
truth_lease(const struct sim *sim, int daemon)
{
	if (sim->truth.reading[daemon] != truth_hold_connection(sim, daemon))
		return 0; /* long ago */
	return sim->truth.read_at[daemon] + LEASE;
}

const struct truth_deeds *
truth_deeds(const struct sim *sim, int daemon, int name, int slot)
{
	return &sim->truth.names[name].slots[slot].deeds[daemon];
}

bool
truth_is_ours(const struct sim *sim, int daemon, int name, int slot)
{
	uint64_t connection = truth_hold_connection(sim, daemon);

	return connection != 0 && memory_world_owner(sim->world, queue_b(name, slot)) == connection;
}

int
truth_size(const struct truth *truth, int name)
{
	int size = 0;

	while (size < SLOTS_MAX && truth->names[name].slots[size + 1].a)
		size++;
	return size;
}
