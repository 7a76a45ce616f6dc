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

/*
 * The meaning of an AMQP method in the scheme.
 */
enum deed {
	DEED_NONE, /* of a channel, a consumer, a message that is none of the directory's */
	DEED_CLAIM,
	DEED_CHECK,
	DEED_DROP,
	DEED_MAKE_HOLDER,   /* of a durable B: by an administrator, or in front of a claim */
	DEED_REMOVE_HOLDER, /* by an administrator, or the last holder of a removed slot */
	DEED_DECLARE,
	DEED_DELETE,
	DEED_READ,
	DEED_ENTER,
	DEED_LEAVE,
	DEED_HINT
};

static enum deed
declare_of(const amqp_queue_declare_t *declare, enum queue_part part)
{
	if (part == QUEUE_DIRECTORY)
		return DEED_READ;
	if (declare->passive)
		return DEED_CHECK;
	if (declare->exclusive)
		return DEED_CLAIM;
	return part == QUEUE_B ? DEED_MAKE_HOLDER : DEED_DECLARE;
}

static enum deed
delete_of(const struct memory_performed *what, enum queue_part part)
{
	if (part == QUEUE_A || part == QUEUE_GATE || part == QUEUE_UNLIMITED)
		return DEED_DELETE;
	return part == QUEUE_B && what->link == BROKER_AUXILIARY ? DEED_REMOVE_HOLDER : DEED_DROP;
}

static enum deed
deed_of(const struct memory_performed *what, enum queue_part part)
{
	switch (what->method) {
	case AMQP_QUEUE_DECLARE_METHOD:
		return declare_of(what->fields, part);
	case AMQP_QUEUE_DELETE_METHOD:
		return delete_of(what, part);
	case AMQP_BASIC_CONSUME_METHOD:
		return part == QUEUE_B ? DEED_CLAIM : DEED_NONE;
	case AMQP_BASIC_CANCEL_METHOD:
		return part == QUEUE_B ? DEED_DROP : DEED_NONE;
	case AMQP_BASIC_GET_METHOD:
		return DEED_READ;
	case AMQP_BASIC_PUBLISH_METHOD:
		return part == QUEUE_DIRECTORY ? DEED_ENTER
		       : part == QUEUE_WAIT    ? DEED_HINT
					       : DEED_NONE;
	case AMQP_BASIC_ACK_METHOD:
		return part == QUEUE_DIRECTORY ? DEED_LEAVE : DEED_NONE;
	default:
		return DEED_NONE;
	}
}

static const char *
deed_word(const struct memory_performed *what, enum deed deed)
{
	switch (deed) {
	case DEED_NONE:
		break;
	case DEED_CLAIM:
		return what->method == AMQP_BASIC_CONSUME_METHOD ? "consumes, exclusive,"
								 : "declares, exclusive,";
	case DEED_CHECK:
		return "declares, passive,";
	case DEED_DROP:
		return what->method == AMQP_BASIC_CANCEL_METHOD ? "cancels its consumer of"
								: "deletes";
	case DEED_MAKE_HOLDER:
		return "declares, durable,";
	case DEED_REMOVE_HOLDER:
		return "deletes, if nobody holds it,";
	case DEED_DECLARE:
		return "declares, durable,";
	case DEED_DELETE:
		return "deletes, as administrator,";
	case DEED_READ:
		return "reads";
	case DEED_ENTER:
		return "enters a name into";
	case DEED_LEAVE:
		return "takes a name out of";
	case DEED_HINT:
		return "sends a hint to";
	}
	return "?";
}

/* A slot or marker that is there, but declared otherwise, is used as it is. */
static enum broker_answer
answer_of(const struct sim *sim, const struct memory_performed *what, enum deed deed, bool refused)
{
	switch (what->code) {
	case 0:
		return BROKER_OK;
	case AMQP_NOT_FOUND:
		return memory_world_has(sim->world, what->queue, NULL) ? BROKER_UNREACHABLE
								       : BROKER_ABSENT;
	case AMQP_ACCESS_REFUSED:
		return refused ? BROKER_REFUSED : BROKER_LOCKED;
	case AMQP_RESOURCE_LOCKED:
		return BROKER_LOCKED;
	case AMQP_PRECONDITION_FAILED:
		return deed == DEED_DECLARE ? BROKER_OK : BROKER_REFUSED;
	default:
		return BROKER_REFUSED;
	}
}

static const char *
answer_text(enum broker_answer answer)
{
	switch (answer) {
	case BROKER_OK:
		return "{d} (connection {n}, channel {m}) {w} {q}: ok";
	case BROKER_ABSENT:
		return "{d} (connection {n}, channel {m}) {w} {q}: 404";
	case BROKER_LOCKED:
		return "{d} (connection {n}, channel {m}) {w} {q}: it is held";
	case BROKER_UNREACHABLE:
		return "{d} (connection {n}, channel {m}) {w} {q}: its node cannot be reached";
	default:
		return "{d} (connection {n}, channel {m}) {w} {q}: refused";
	}
}

/* A deed, as it was performed for a daemon (-1: one that is gone). */
struct done {
	int daemon;
	enum deed deed;
	struct queue_id id;
	enum broker_answer answer;
	const struct memory_performed *what;
};

/* The deeds of a daemon's present lock connection; NULL: it was another's. */
static struct truth_deeds *
deeds_of(struct sim *sim, const struct done *done)
{
	const struct memory_performed *what = done->what;
	struct truth_deeds *deeds;

	if (done->daemon < 0 ||
	    memory_broker_connection(what->broker, BROKER_LOCKS) != what->connection)
		return NULL;
	deeds = &sim->truth.names[done->id.name].slots[done->id.slot].deeds[done->daemon];
	if (deeds->connection != what->connection)
		*deeds = (struct truth_deeds){.connection = what->connection};
	return deeds;
}

static void
slot_deed(struct sim *sim, const struct done *done)
{
	struct queue_id id = done->id;
	const struct memory_performed *what = done->what;
	int daemon = done->daemon;
	struct truth_slot *slot = &sim->truth.names[id.name].slots[id.slot];
	struct truth_deeds *deeds = deeds_of(sim, done);
	struct wait_seen *seen =
	    &sim->waits.names[id.name].slots[id.slot].seen[daemon >= 0 ? daemon : 0];
	uint64_t moment = sim->truth.moment;

	if (daemon >= 0 && done->answer != BROKER_OK && done->deed != DEED_DROP)
		sim->waits.names[id.name].failed_at[daemon] = sim->now;
	if (done->answer == BROKER_LOCKED || done->deed == DEED_DROP)
		seen->vanished = false; /* and not claimed again */
	if (done->deed == DEED_CLAIM && deeds != NULL)
		seen->claim_answer = done->answer;
	if (done->deed == DEED_CLAIM && done->answer == BROKER_LOCKED && daemon >= 0)
		check_claim_lost(sim, slot, daemon, id);
	if (done->deed == DEED_CLAIM && done->answer == BROKER_OK) {
		check_claim(sim, what, id);
		slot->by_consumer = what->method == AMQP_BASIC_CONSUME_METHOD;
		slot->owner = what->connection;
		slot->b_came = moment;
		slot->claimed = moment;
		slot->claimed_at = sim->now;
		if (deeds != NULL) {
			/* Claimed again for its holder, it keeps its watch as well. */
			if (!seen->vanished)
				seen->granted = seen->unheard = 0;
			seen->vanished = false;
			deeds->checked_at = sim->now;
			deeds->claimed = moment;
			deeds->claimed_channel = what->channel;
			deeds->by_consumer = slot->by_consumer;
			deeds->b_read_at = sim->now;
		}
	} else if (done->deed == DEED_DROP && done->answer == BROKER_OK) {
		check_drop(sim, deeds, daemon, what, id);
		if (deeds != NULL)
			sim->waits.names[id.name].slots[id.slot].freed_at = sim->now;
		if (slot->owner == what->connection)
			slot->owner = 0;
		if (!slot->a && deeds != NULL &&
		    (seen->revoked > seen->granted || deeds->a_absent > deeds->claimed))
			slot->left_at = sim->now;
		if (deeds != NULL)
			deeds->dropped = moment;
		/* A home that cannot be reached in time does not heed if-unused. */
		if (what->method == AMQP_QUEUE_DELETE_METHOD)
			truth_find_freed(sim, true);
	} else if (done->deed == DEED_CHECK && deeds != NULL) {
		check_queue_check(sim, deeds, id);
		if (id.part == QUEUE_B || done->answer != BROKER_OK)
			deeds->checked_at = sim->now; /* or its channel is closed now */
		if (id.part == QUEUE_B && done->answer == BROKER_OK &&
		    (!deeds->by_consumer || truth_has_ended(slot, done->daemon) ||
			truth_holder(sim, id.name, id.slot) == what->connection)) {
			deeds->b_seen = moment;
			deeds->b_read_at = sim->now;
		}
		if (id.part == QUEUE_A && done->answer == BROKER_ABSENT)
			deeds->a_absent = moment;
		if (id.part == QUEUE_A && done->answer == BROKER_OK) {
			deeds->a_seen = moment;
			if (what->channel == deeds->claimed_channel)
				deeds->a_seen_behind = moment;
		}
	}
}

/* An administrator asks for the holder of a B, makes a durable B, or deletes it. */
static void
holder_deed(struct sim *sim, const struct done *done)
{
	struct truth_slot *slot = &sim->truth.names[done->id.name].slots[done->id.slot];
	struct wait_slot *waits = &sim->waits.names[done->id.name].slots[done->id.slot];

	/* The first half of a claim. */
	if (done->deed == DEED_MAKE_HOLDER && done->what->link == BROKER_LOCKS &&
	    deeds_of(sim, done) != NULL)
		waits->seen[done->daemon].claim_answer = done->answer;
	switch (done->deed) {
	case DEED_MAKE_HOLDER: /* the B of a true mutex may be at home anywhere */
		check_make_holder(sim, done->daemon, done->id);
		if (done->answer == BROKER_OK && sim_has(sim, TROUBLE_HOMES) &&
		    !truth_is_held(sim, done->id.name, done->id.slot) &&
		    dice_percent(&sim->dice, 30))
			memory_world_set_home(sim->world, done->what->queue, HOME);
		break;
	case DEED_CHECK:
		if (done->answer == BROKER_OK) {
			slot->asked = done->what->channel;
			slot->asked_at = sim->now;
		}
		break;
	case DEED_REMOVE_HOLDER:
		check_remove_holder(sim, done->what, done->id);
		if (done->answer == BROKER_OK)
			truth_find_freed(sim, true);
		break;
	default:
		break;
	}
}

/* ---- work of administrators ---- */

/* by: the daemon; -1: none. */
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
		of->a_came_by = by;
		if (by >= 0) /* and the waiters get hints */
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
admin_unlocked(struct sim *sim, const struct done *done)
{
	int name = done->id.name, daemon = done->daemon;
	struct truth_name *of = &sim->truth.names[name];

	if (of->admin == done->what->connection)
		of->admin = 0;
	if (daemon >= 0) {
		of->work[daemon].unlocked = sim->truth.moment;
		of->work[daemon].unlocked_at = sim->now;
		of->work[daemon].left = truth_shape(&sim->truth, name);
		sim->waits.names[name].ordered_at[daemon] = sim->now;
	}
}

static void
admin_locked(struct sim *sim, const struct done *done)
{
	struct truth_name *of = &sim->truth.names[done->id.name];
	int daemon = done->daemon;

	check_admin_claim(sim, done->what, done->id);
	of->admin = done->what->connection;
	if (daemon >= 0) {
		of->work[daemon].locked = sim->truth.moment;
		of->work[daemon].connection = done->what->connection;
		of->work[daemon].claims++;
		of->work[daemon].found = truth_shape(&sim->truth, done->id.name);
	}
}

static void
admin_deed(struct sim *sim, const struct done *done)
{
	struct queue_id id = done->id;
	bool there = done->deed == DEED_DECLARE, existed;

	if (id.part == QUEUE_ADMIN && done->deed == DEED_DROP)
		admin_unlocked(sim, done);
	if (done->deed == DEED_DROP)
		sim->truth.mutex_stayed |= done->answer != BROKER_OK;
	if (done->answer != BROKER_OK)
		return;
	switch (id.part) {
	case QUEUE_ADMIN:
		if (done->deed == DEED_CLAIM)
			admin_locked(sim, done);
		break;
	case QUEUE_A:
		check_admin_work(sim, done->what, id);
		existed = truth_exists(&sim->truth, id.name);
		if (there && existed)
			check_whole(sim, id, done->daemon);
		change_a(sim, id.name, id.slot, there, done->daemon);
		if (existed || truth_exists(&sim->truth, id.name))
			check_contiguous(sim, id.name);
		check_listed(sim, id.name);
		break;
	case QUEUE_GATE:
	case QUEUE_UNLIMITED:
		check_admin_work(sim, done->what, id);
		change_marker(sim, id, there, done->daemon);
		check_listed(sim, id.name);
		break;
	case QUEUE_B:
	case QUEUE_BEADS:
	case QUEUE_WAIT:
	case QUEUE_DIRECTORY:
	case QUEUE_DIRECTORY_MUTEX:
	case QUEUE_RECORDS:
		break;
	}
}

static void
directory_deed(struct sim *sim, const struct done *done)
{
	bool changes = done->deed == DEED_ENTER || done->deed == DEED_LEAVE;
	const char *lock = changes ? done->what->body : NULL;
	struct truth_name *of;
	int name;

	if (done->deed == DEED_NONE)
		return;
	check_directory(sim, done->daemon, done->what, lock);
	if (done->answer != BROKER_OK || lock == NULL)
		return;
	name = queue_lock_find(lock);
	of = &sim->truth.names[name];
	of->entries = (unsigned)memory_world_copies(sim->world, queue_directory(), lock);
	of->listed = sim->truth.moment;
	check_listed(sim, name);
}

/* Which mutex of amqp-locks-python is meant: only lock connections claim true ones. */
static struct queue_id
which(const struct sim *sim, const struct memory_performed *what)
{
	struct queue_id id = queue_find(what->queue);

	if (id.part == QUEUE_ADMIN && sim->plan.python && what->link == BROKER_LOCKS)
		id.part = QUEUE_B;
	return id;
}

static bool
is_administration(enum deed deed, enum queue_part part)
{
	return part == QUEUE_ADMIN || part == QUEUE_DIRECTORY || part == QUEUE_DIRECTORY_MUTEX ||
	       deed == DEED_DECLARE || deed == DEED_DELETE;
}

static void
line_deed(struct sim *sim, const struct done *done)
{
	struct wait_name *of = &sim->waits.names[done->id.name];
	size_t places = 0;

	for (int i = 0; i < sim->plan.daemons; i++)
		places += (size_t)__builtin_popcount(of->places[i][done->id.slot]);
	if (done->deed == DEED_CHECK &&
	    memory_world_members(sim->world, done->what->queue) > places)
		of->overcounted_at = sim->now;
}

static void
perform(struct sim *sim, const struct done *done)
{
	const struct memory_performed *what = done->what;
	enum queue_part part = done->id.part;

	/* Questions about consumers are in a flush of probes, which is one method. */
	if (done->daemon >= 0 && what->method != AMQP_BASIC_GET_METHOD &&
	    (done->deed != DEED_CHECK || what->link != BROKER_AUXILIARY || part != QUEUE_B))
		check_method(sim, done->daemon);
	NOTE(sim, .text = answer_text(done->answer), .daemon = done->daemon,
	    .n = (int64_t)what->connection, .m = (int64_t)what->channel,
	    .word = deed_word(what, done->deed), .queue = queue_text(done->id));
	/* An administrator cannot make the durable B of a slot that is held by an exclusive queue. */
	if (done->answer == BROKER_REFUSED ||
	    (done->deed == DEED_MAKE_HOLDER && what->link == BROKER_AUXILIARY &&
		done->answer != BROKER_OK))
		sim->truth.refusals++;
	if (part == QUEUE_DIRECTORY)
		directory_deed(sim, done);
	else if (part == QUEUE_WAIT)
		line_deed(sim, done);
	else if (part == QUEUE_B &&
		 (what->link == BROKER_AUXILIARY || done->deed == DEED_MAKE_HOLDER))
		holder_deed(sim, done);
	else if (is_administration(done->deed, part))
		admin_deed(sim, done);
	else
		slot_deed(sim, done);
	/* The channel is closed. */
	if (what->code != 0 && what->link == BROKER_LOCKS)
		truth_find_freed(sim, true);
	if (is_administration(done->deed, part))
		fuse_step(sim, done->daemon,
		    part == QUEUE_DIRECTORY_MUTEX && done->answer == BROKER_LOCKED);
}

/* Whether it is a publish that probes a slot. The names of wait queues end with W. */
static bool
is_probe(const struct memory_performed *what)
{
	return what->method == AMQP_BASIC_PUBLISH_METHOD && what->body[0] == '\0' &&
	       what->queue[strlen(what->queue) - 1] != 'W';
}

void
truth_performed(void *ctx, const struct memory_performed *what)
{
	struct sim *sim = ctx;
	struct done done = {.daemon = daemon_of(sim, what->broker), .what = what};
	bool refused = sim->truth.refuses;

	sim->truth.refuses = false;
	sim->truth.moment++;
	sim->truth.performed++;
	if (sim->plan.quorum) {
		quorum_performed(sim, what);
		return;
	}
	if (what->code >= AMQP_FRAME_ERROR)
		check_fail(sim, 0, "daemon %d sent a method that ends its link: %d",
		    done.daemon + 1, what->code);
	if (what->alarmed)
		check_fail(
		    sim, 0, "daemon %d publishes although it knows of an alarm", done.daemon + 1);
	if (done.daemon >= 0 && what->connection == truth_hold_connection(sim, done.daemon)) {
		sim->truth.reading[done.daemon] = what->connection;
		sim->truth.read_at[done.daemon] = sim->now;
	}
	if (what->queue == NULL || is_probe(what) || !queue_is_locks(what->queue))
		return;
	done.id = which(sim, what);
	done.deed = deed_of(what, done.id.part);
	done.answer = answer_of(sim, what, done.deed, refused);
	if (done.deed != DEED_NONE)
		perform(sim, &done);
}

/* ---- behind everybody's back ---- */

void
truth_begin(struct sim *sim, int name, int slots, unsigned by_consumer)
{
	for (int slot = 1; slot <= slots; slot++) {
		if (dice_percent(&sim->dice, by_consumer))
			truth_put_holder(sim, name, slot);
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
	const char *queue = queue_text(id);

	/* A client of seeds/000 is refused a durable B: 405. Another client consumes from it. */
	if (!memory_world_put(sim->world, queue, true) &&
	    !(memory_world_durable(sim->world, queue) && id.part == QUEUE_B &&
		memory_world_hold(sim->world, queue)))
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

bool
truth_put_holder(struct sim *sim, int name, int slot)
{
	if (!memory_world_put_holder(sim->world, queue_b(name, slot)))
		return false;
	sim->truth.moment++;
	memory_world_set_home(sim->world, queue_b(name, slot),
	    dice_percent(&sim->dice, 50) ? HOME : (unsigned)dice_below(&sim->dice, HOME));
	return true;
}

bool
truth_is_alive(const struct sim *sim, uint64_t connection)
{
	for (int i = 0; i < sim->plan.daemons; i++) {
		if (truth_hold_connection(sim, i) == connection)
			return sim->truth.forsaken[i] != connection;
	}
	return false;
}

void
truth_find_freed(struct sim *sim, bool told)
{
	if (!sim->plan.consumers)
		return;
	for (int name = 0; name < sim->plan.names; name++) {
		for (int slot = 0; slot <= SLOTS_KNOWN; slot++) {
			struct truth_slot *of = &sim->truth.names[name].slots[slot];

			if (of->owner == 0 || !of->by_consumer || !truth_is_alive(sim, of->owner) ||
			    truth_holder(sim, name, slot) == of->owner)
				continue;
			of->owner = 0;
			*(told ? &of->freed : &of->parted) = ++sim->truth.moment;
		}
	}
}

/* ---- asked ---- */

uint64_t
truth_holder(const struct sim *sim, int name, int slot)
{
	const char *queue = queue_b(name, slot);
	uint64_t owner = memory_world_owner(sim->world, queue);

	return owner != 0 || !sim->plan.consumers ? owner
						  : memory_world_holder(sim->world, queue, NULL);
}

bool
truth_has_ended(const struct truth_slot *slot, int daemon)
{
	uint64_t claimed = slot->deeds[daemon].claimed;

	return slot->freed > claimed || slot->removed > claimed;
}

bool
truth_is_held(const struct sim *sim, int name, int slot)
{
	return truth_holder(sim, name, slot) != 0;
}

uint64_t
truth_hold_connection(const struct sim *sim, int daemon)
{
	return memory_broker_connection(sim->daemons[daemon].broker, BROKER_LOCKS);
}

int64_t
truth_lease(const struct sim *sim, int daemon)
{
	if (sim->truth.reading[daemon] != truth_hold_connection(sim, daemon))
		return 0; /* long ago */
	return sim->truth.read_at[daemon] + LEASE;
}

int64_t
truth_lease_of(const struct sim *sim, int daemon, int name, int slot)
{
	const struct truth_deeds *deeds = truth_deeds(sim, daemon, name, slot);
	int64_t lease = truth_lease(sim, daemon), own = deeds->b_read_at + LEASE;

	return deeds->by_consumer && own < lease ? own : lease;
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

	return connection != 0 && truth_holder(sim, name, slot) == connection;
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
		shape.uncounted += of->slots[slot].a;
	return shape;
}

bool
truth_exists(const struct truth *truth, int name)
{
	const struct truth_name *of = &truth->names[name];

	return of->unlimited || of->gate || of->slots[1].a;
}
