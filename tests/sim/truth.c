#include "tests/sim/truth.h"

#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/fuse.h"
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
		return "declares, as a marker,";
	case MEMORY_DIRECTORY_READ:
		return "reads";
	case MEMORY_DIRECTORY_ENTER:
		return "enters a name into";
	case MEMORY_DIRECTORY_LEAVE:
		return "takes a name out of";
	case MEMORY_LINE_JOIN:
		return "joins";
	case MEMORY_LINE_CREDIT:
		return "changes its credit in";
	case MEMORY_LINE_LEAVE:
		return "leaves";
	case MEMORY_LINE_WAKE:
		return "sends a hint to";
	case MEMORY_LINE_COUNT:
		return "counts the consumers of";
	case MEMORY_INBOX_OPEN:
		return "opens";
	case MEMORY_INBOX_CLOSE:
		return "closes";
	case MEMORY_LETTER_ASK:
		return "asks all, from";
	case MEMORY_LETTER_REPLY:
		return "replies to";
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
	struct wait_seen *seen =
	    &sim->waits.names[id.name].slots[id.slot].seen[daemon >= 0 ? daemon : 0];
	uint64_t moment = sim->truth.moment;

	if (daemon >= 0 && what->answer != BROKER_OK && what->method != MEMORY_DROP)
		sim->waits.names[id.name].failed_at[daemon] = sim->now;
	if (what->answer == BROKER_LOCKED || what->method == MEMORY_DROP)
		seen->vanished = false; /* and not claimed again */
	if (what->method == MEMORY_CLAIM && what->answer == BROKER_LOCKED && daemon >= 0)
		check_claim_lost(sim, slot, daemon, id);
	if (what->method == MEMORY_CLAIM && what->answer == BROKER_OK) {
		check_claim(sim, what, id);
		slot->owner = what->connection;
		slot->b_came = moment;
		slot->claimed = moment;
		slot->claimed_at = sim->now;
		if (deeds != NULL) {
			/* Claimed again for its holder, it keeps its watch as well. */
			if (!seen->vanished)
				seen->granted = seen->unheard = 0;
			seen->vanished = false;
			deeds->looked_at = sim->now;
			deeds->claimed = moment;
			deeds->claimed_lane = what->lane;
		}
	} else if (what->method == MEMORY_DROP && what->answer == BROKER_OK) {
		check_drop(sim, deeds, daemon, id);
		if (deeds != NULL)
			sim->waits.names[id.name].slots[id.slot].freed_at = sim->now;
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

/* ---- what administrators do ---- */

/* by: the daemon; -1 = nobody of ours. */
static void
has_changed(struct sim *sim, int name, bool existed, int by)
{
	struct truth_name *of = &sim->truth.names[name];

	of->changed = sim->truth.moment;
	if (!existed && truth_exists(&sim->truth, name))
		of->came = sim->truth.moment;
	else if (existed && !truth_exists(&sim->truth, name) && by >= 0)
		check_gone(sim, name, by);
}

static void
change_a(struct sim *sim, int name, int slot, bool there, int by)
{
	struct truth_slot *of = &sim->truth.names[name].slots[slot];
	bool existed = truth_exists(&sim->truth, name);

	if (of->a == there)
		return;
	of->a = there;
	if (there) {
		of->a_came = sim->truth.moment;
		if (by >= 0) /* and those who wait are told */
			sim->waits.names[name].slots[slot].freed_at = sim->now;
	} else {
		of->a_gone = sim->truth.moment;
		sim->waits.names[name].slots[slot].gone_at = sim->now;
		of->a_gone_by = by;
	}
	has_changed(sim, name, existed, by);
}

static void
change_marker(struct sim *sim, struct queue_id id, bool there, int by)
{
	struct truth_name *of = &sim->truth.names[id.name];
	bool *marker = id.part == QUEUE_GATE ? &of->gate : &of->unlimited;
	bool existed = truth_exists(&sim->truth, id.name);

	if (*marker == there)
		return;
	*marker = there;
	if (id.part == QUEUE_UNLIMITED && !there)
		of->unlimited_until = sim->truth.moment;
	has_changed(sim, id.name, existed, by);
}

/* The daemon is done, even if the broker does not let it drop the mutex. */
static void
admin_unlocked(struct sim *sim, int daemon, const struct memory_performed *what, int name)
{
	struct truth_name *of = &sim->truth.names[name];

	if (of->admin == what->connection)
		of->admin = 0;
	if (daemon >= 0) {
		of->work[daemon].unlocked = sim->truth.moment;
		of->work[daemon].unlocked_at = sim->now;
		of->work[daemon].left = truth_shape(&sim->truth, name);
		sim->waits.names[name].ordered_at[daemon] = sim->now;
	}
}

static void
admin_locked(struct sim *sim, int daemon, const struct memory_performed *what, struct queue_id id)
{
	struct truth_name *of = &sim->truth.names[id.name];

	check_admin_claim(sim, what, id);
	of->admin = what->connection;
	if (daemon >= 0) {
		of->work[daemon].locked = sim->truth.moment;
		of->work[daemon].connection = what->connection;
		of->work[daemon].claims++;
		of->work[daemon].found = truth_shape(&sim->truth, id.name);
	}
}

static void
admin_method(struct sim *sim, int daemon, const struct memory_performed *what, struct queue_id id)
{
	bool there = what->method != MEMORY_DELETE_SLOT, existed;

	if (id.part == QUEUE_ADMIN && what->method == MEMORY_DROP)
		admin_unlocked(sim, daemon, what, id.name);
	if (what->method == MEMORY_DROP)
		sim->truth.mutex_stayed |= what->answer != BROKER_OK;
	if (what->answer != BROKER_OK)
		return;
	switch (id.part) {
	case QUEUE_ADMIN:
		if (what->method == MEMORY_CLAIM)
			admin_locked(sim, daemon, what, id);
		break;
	case QUEUE_A:
		check_admin_work(sim, what, id);
		existed = truth_exists(&sim->truth, id.name);
		if (there && existed)
			check_whole(sim, id, daemon);
		change_a(sim, id.name, id.slot, there, daemon);
		if (existed || truth_exists(&sim->truth, id.name))
			check_contiguous(sim, id.name);
		check_listed(sim, id.name);
		break;
	case QUEUE_GATE:
	case QUEUE_UNLIMITED:
		check_admin_work(sim, what, id);
		change_marker(sim, id, there, daemon);
		check_listed(sim, id.name);
		break;
	case QUEUE_B:
	case QUEUE_LINE:
	case QUEUE_DIRECTORY:
	case QUEUE_DIRECTORY_MUTEX:
		break;
	}
}

struct entries {
	const char *name;
	unsigned count;
};

static void
count_entry(void *ctx, const char *body)
{
	struct entries *entries = ctx;

	entries->count += strcmp(body, entries->name) == 0;
}

static unsigned
entries_of(const struct sim *sim, int name)
{
	struct entries entries = {.name = queue_lock(name)};

	memory_world_each_message(sim->world, queue_directory(), count_entry, &entries);
	return entries.count;
}

static void
directory_method(struct sim *sim, int daemon, const struct memory_performed *what)
{
	struct truth_name *of;
	int name;

	check_directory(sim, daemon, what);
	if (what->answer != BROKER_OK || what->name == NULL)
		return;
	name = queue_lock_find(what->name);
	of = &sim->truth.names[name];
	of->entries = entries_of(sim, name);
	of->listed = sim->truth.moment;
	check_listed(sim, name);
}

/* Which mutex of amqp-locks-python is meant: only hold links claim true ones. */
static struct queue_id
which(const struct sim *sim, const struct memory_performed *what)
{
	struct queue_id id = queue_find(what->queue);

	if (id.part == QUEUE_ADMIN && sim->plan.python && what->connection < TRUTH_CONNECTIONS &&
	    (sim->truth.holds[what->connection / 64] & UINT64_C(1) << what->connection % 64) != 0)
		id.part = QUEUE_B;
	return id;
}

static bool
is_administration(enum memory_method method, enum queue_part part)
{
	return part == QUEUE_ADMIN || part == QUEUE_DIRECTORY || part == QUEUE_DIRECTORY_MUTEX ||
	       method == MEMORY_DECLARE_SLOT || method == MEMORY_DELETE_SLOT ||
	       method == MEMORY_DECLARE_MARKER;
}

void
truth_performed(void *ctx, const struct memory_performed *what)
{
	struct sim *sim = ctx;
	struct queue_id id = which(sim, what);
	int daemon = daemon_of(sim, what->broker);

	sim->truth.moment++;
	sim->truth.performed++;
	if (daemon >= 0)
		check_method(sim, daemon);
	if (daemon >= 0 && what->connection == truth_hold_connection(sim, daemon)) {
		sim->truth.reading[daemon] = what->connection;
		sim->truth.read_at[daemon] = sim->now;
	}
	NOTE(sim, .text = answer_text(what->answer), .daemon = daemon,
	    .n = (int64_t)what->connection, .m = (int64_t)what->lane,
	    .word = method_word(what->method), .queue = queue_text(id));
	if (what->answer == BROKER_REFUSED)
		sim->truth.refusals++;
	if (id.part == QUEUE_DIRECTORY)
		directory_method(sim, daemon, what);
	else if (id.part == QUEUE_LINE)
		return;
	else if (is_administration(what->method, id.part))
		admin_method(sim, daemon, what, id);
	else
		slot_method(sim, daemon, what, id);
	if (is_administration(what->method, id.part))
		fuse_step(
		    sim, daemon, id.part == QUEUE_DIRECTORY_MUTEX && what->answer == BROKER_LOCKED);
}

void
truth_see_links(struct sim *sim)
{
	for (int i = 0; i < sim->plan.daemons; i++) {
		uint64_t connection = truth_hold_connection(sim, i);

		if (connection < TRUTH_CONNECTIONS)
			sim->truth.holds[connection / 64] |= UINT64_C(1) << connection % 64;
	}
}

/* ---- behind everybody's back ---- */

void
truth_begin(struct sim *sim, int name, int slots)
{
	for (int slot = 1; slot <= slots; slot++) {
		memory_world_put(sim->world, queue_a(name, slot), false);
		change_a(sim, name, slot, true, -1);
	}
	if (slots == 0)
		return;
	memory_world_publish(sim->world, queue_directory(), queue_lock(name));
	sim->truth.names[name].entries = 1;
}

bool
truth_put_foreign(struct sim *sim, struct queue_id id)
{
	if (!memory_world_put(sim->world, queue_text(id), true))
		return false;
	sim->truth.moment++;
	if (id.part == QUEUE_B)
		sim->truth.names[id.name].slots[id.slot].b_came = sim->truth.moment;
	return true;
}

static void
meddle(struct sim *sim, int name)
{
	sim->truth.names[name].meddled_at = ++sim->truth.moment;
	sim->truth.names[name].meddled = true;
}

bool
truth_put_a(struct sim *sim, int name, int slot, bool otherwise)
{
	const char *queue = queue_a(name, slot);

	if (otherwise ? !memory_world_put_otherwise(sim->world, queue)
		      : !memory_world_put(sim->world, queue, false))
		return false;
	meddle(sim, name);
	change_a(sim, name, slot, true, -1);
	return true;
}

bool
truth_remove_a(struct sim *sim, int name, int slot)
{
	if (!memory_world_remove(sim->world, queue_a(name, slot)))
		return false;
	meddle(sim, name);
	change_a(sim, name, slot, false, -1);
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

	while (size < SLOTS_KNOWN && truth->names[name].slots[size + 1].a)
		size++;
	return size;
}

struct truth_shape
truth_shape(const struct truth *truth, int name)
{
	const struct truth_name *of = &truth->names[name];
	struct truth_shape shape = {
	    .unlimited = of->unlimited,
	    .gate = of->gate,
	    .size = truth_size(truth, name),
	    .listed = of->entries > 0,
	};

	for (int slot = shape.size + 1; slot <= SLOTS_KNOWN; slot++)
		shape.strays += of->slots[slot].a;
	return shape;
}

bool
truth_exists(const struct truth *truth, int name)
{
	const struct truth_name *of = &truth->names[name];

	return of->unlimited || of->gate || of->slots[1].a;
}
