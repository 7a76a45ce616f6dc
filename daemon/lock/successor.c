/*
 * The engine's part of the state for a successor (lock.h): its holds, its waiters and its waits
 * for holders. Requests that are being worked on are not saved: the caller repeats them.
 */
#include <assert.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/broker/setup.h"
#include "daemon/lock/channels.h"
#include "daemon/lock/claim.h"
#include "daemon/lock/hold.h"
#include "daemon/lock/holders.h"
#include "daemon/lock/keepalive.h"
#include "daemon/lock/lease.h"
#include "daemon/lock/lock.h"
#include "daemon/lock/mutex.h"
#include "daemon/lock/queue.h"
#include "daemon/lock/registry.h"
#include "daemon/lock/release.h"
#include "daemon/state/state.h"
#include "protocol/methods.h"

/*
 * Contents:
 *	The records: the fields of holds and waiters in the state.
 *	Freezing: lock_freeze(), and lock_is_still(), which says when nothing is in flight.
 *	Saving: lock_save_holds() and lock_save_waits().
 *	Restoring: hold_is_possible() checks a record, restore_hold() and restore_grace() make the hold.
 *	lock_restore_holds() restores all, and checks that their counts add up.
 *	lock_restore_waits() restores the acquires and the waits for holders.
 */

/* ---- records ---- */

struct engine_record {
	uint64_t last_id;
	/* of the lease of the lock connection; lease_from 0: it has none yet */
	int64_t lease_from, lease_told, recovered;
	/* counted since the start */
	uint64_t granted, refused, released, lost, holder_queues_lost;
};

static const struct state_field engine_fields[] = {
    STATE_FIELD(engine_record, last_id, STATE_NUMBER),
    STATE_FIELD(engine_record, lease_from, STATE_SIGNED),
    STATE_FIELD(engine_record, lease_told, STATE_SIGNED),
    STATE_FIELD(engine_record, recovered, STATE_SIGNED),
    STATE_FIELD(engine_record, granted, STATE_NUMBER),
    STATE_FIELD(engine_record, refused, STATE_NUMBER),
    STATE_FIELD(engine_record, released, STATE_NUMBER),
    STATE_FIELD(engine_record, lost, STATE_NUMBER),
    STATE_FIELD(engine_record, holder_queues_lost, STATE_NUMBER),
    {0},
};

/* The requester of a hold or a waiter. */
struct who_record {
	uint64_t waiter;
	int64_t uid, pid;
	bool exempt; /* charged to no user */
	const char *who, *why, *command;
};

#define WHO_FIELDS(type)                                                                           \
	{"waiter", STATE_NUMBER, offsetof(struct type, who.waiter), 0, 0},                         \
	    {"uid", STATE_SIGNED, offsetof(struct type, who.uid), 0, 0},                           \
	    {"pid", STATE_SIGNED, offsetof(struct type, who.pid), 0, 0},                           \
	    {"exempt", STATE_BOOL, offsetof(struct type, who.exempt), 0, 0},                       \
	    {"who", STATE_TEXT, offsetof(struct type, who.who), 0, 0},                             \
	    {"why", STATE_TEXT, offsetof(struct type, who.why), 0, 0},                             \
	{                                                                                          \
		"command", STATE_TEXT, offsetof(struct type, who.command), 0, 0                    \
	}

struct hold_record {
	uint64_t id, lock, peer;
	const char *name;
	const char *queue; /* B, by the templates of the earlier daemon; NULL: it has none */
	int kind, slot;    /* slot 0: a mutex, or a hold without a slot */
	bool slotless, admitted;
	int way;
	uint64_t channel;
	int64_t since, ours_since, from;
	bool wants_lease, suspect, revoked, reclaimed;
	int rechecks, passes;
	struct who_record who;
};

static const struct state_field hold_fields[] = {
    STATE_FIELD(hold_record, id, STATE_NUMBER),
    STATE_FIELD(hold_record, lock, STATE_NUMBER),
    STATE_FIELD(hold_record, peer, STATE_NUMBER),
    STATE_FIELD(hold_record, name, STATE_TEXT),
    STATE_FIELD(hold_record, queue, STATE_TEXT),
    STATE_RANGE(hold_record, kind, 0, LOCK_KIND_PERSISTENT_MUTEX),
    STATE_RANGE(hold_record, slot, 0, INT32_MAX),
    STATE_FIELD(hold_record, slotless, STATE_BOOL),
    STATE_FIELD(hold_record, admitted, STATE_BOOL),
    STATE_RANGE(hold_record, way, 0, WAYS - 1),
    STATE_FIELD(hold_record, channel, STATE_NUMBER),
    STATE_FIELD(hold_record, since, STATE_SIGNED),
    STATE_FIELD(hold_record, ours_since, STATE_SIGNED),
    STATE_FIELD(hold_record, from, STATE_SIGNED),
    STATE_FIELD(hold_record, wants_lease, STATE_BOOL),
    STATE_FIELD(hold_record, suspect, STATE_BOOL),
    STATE_FIELD(hold_record, revoked, STATE_BOOL),
    STATE_FIELD(hold_record, reclaimed, STATE_BOOL),
    STATE_RANGE(hold_record, rechecks, 0, INT32_MAX),
    STATE_RANGE(hold_record, passes, 0, INT32_MAX),
    WHO_FIELDS(hold_record),
    {0},
};

/* Of the hold before it, which an administrator ends. */
struct eviction_record {
	int64_t deadline, uid;
	const char *host, *why;
};

static const struct state_field eviction_fields[] = {
    STATE_FIELD(eviction_record, deadline, STATE_SIGNED),
    STATE_FIELD(eviction_record, uid, STATE_SIGNED),
    STATE_FIELD(eviction_record, host, STATE_TEXT),
    STATE_FIELD(eviction_record, why, STATE_TEXT),
    {0},
};

/* Of a hold by quorum, in addition. */
struct quorum_hold_record {
	int hand_offs;
	uint64_t granted_fence;
};

static const struct state_field quorum_hold_fields[] = {
    STATE_RANGE(quorum_hold_record, hand_offs, 0, HOLD_HAND_OFFS_MOST),
    STATE_FIELD(quorum_hold_record, granted_fence, STATE_NUMBER),
    {0},
};

/* A claim by quorum in its grace, without a waiter. */
struct grace_record {
	uint64_t id;
	const char *name;
	int kind, slot;
	uint64_t channel;
	int64_t uid;
	bool exempt;
};

static const struct state_field grace_fields[] = {
    STATE_FIELD(grace_record, id, STATE_NUMBER),
    STATE_FIELD(grace_record, name, STATE_TEXT),
    STATE_RANGE(grace_record, kind, 0, LOCK_KIND_PERSISTENT_MUTEX),
    STATE_RANGE(grace_record, slot, 0, INT32_MAX),
    STATE_FIELD(grace_record, channel, STATE_NUMBER),
    STATE_FIELD(grace_record, uid, STATE_SIGNED),
    STATE_FIELD(grace_record, exempt, STATE_BOOL),
    {0},
};

struct waiter_record {
	uint64_t peer, request;
	const char *name;
	int kind, priority;
	int64_t timeout, started, deadline;
	int create;
	const char *may_not_create;
	bool progress, lease;
	struct who_record who;
};

static const struct state_field waiter_fields[] = {
    STATE_FIELD(waiter_record, peer, STATE_NUMBER),
    STATE_FIELD(waiter_record, request, STATE_NUMBER),
    STATE_FIELD(waiter_record, name, STATE_TEXT),
    STATE_RANGE(waiter_record, kind, 0, LOCK_KIND_PERSISTENT_MUTEX),
    STATE_RANGE(waiter_record, priority, -METHODS_PRIORITY_MOST, METHODS_PRIORITY_MOST),
    STATE_FIELD(waiter_record, timeout, STATE_SIGNED),
    STATE_FIELD(waiter_record, started, STATE_SIGNED),
    STATE_FIELD(waiter_record, deadline, STATE_SIGNED),
    STATE_RANGE(waiter_record, create, 0, METHODS_SLOTS_MAX),
    STATE_FIELD(waiter_record, may_not_create, STATE_TEXT),
    STATE_FIELD(waiter_record, progress, STATE_BOOL),
    STATE_FIELD(waiter_record, lease, STATE_BOOL),
    WHO_FIELDS(waiter_record),
    {0},
};

/* ---- freezing ---- */

void
lock_freeze(struct lock_engine *engine, bool frozen)
{
	assert(!engine->telling && engine->frozen != frozen);
	engine->frozen = frozen;
	broker_freeze(engine->broker, frozen);
	/*
	 * RabbitMQ gives hints to other daemons meanwhile. Members that join again scan for slots
	 * that were freed meanwhile.
	 */
	wait_queue_join_or_leave(engine);
	if (frozen) {
		FAULT(FROZEN_OWES_HINTS, return;);
		hint_send_all(engine);
		return;
	}
	if (!TAILQ_EMPTY(&engine->dirty))
		timers_set(engine->timers, &engine->run_queues, engine_now(engine));
}

static bool
hands_link_over(const struct lock_engine *engine)
{
	return engine->link == BROKER_UP && !broker_is_tls(engine->broker, BROKER_LOCKS);
}

bool
lock_is_still(const struct lock_engine *engine)
{
	const struct hold *hold;

	for (hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next) {
		if (hold->state == HOLD_SLOTLESS)
			continue;
		if (way_row(hold->way)->by_beads) {
			/*
			 * Claims in their graces go on, and others end. Requests about a hold can be
			 * unanswered: the broker layer knows them.
			 */
			if (hold->state != HOLD_CLAIMING && hold->state != HOLD_HELD)
				return false;
			continue;
		}
		FAULT_IF(STILL_WHILE_CLAIMING, hold->state <= HOLD_CHECKING, return true);
		if (hold->state != HOLD_HELD || hold->asked != 0 || hold->verify != 0)
			return false;
	}
	if (!broker_quorum_is_still(engine->broker))
		return false;
	/* Without the connection there is nothing on it to hand over. */
	return hands_link_over(engine) ? broker_is_still(engine->broker)
				       : hold_count_on_link(&engine->holds) == 0;
}

bool
lock_needs_link(const struct lock_engine *engine)
{
	return hold_count_on_link(&engine->holds) > 0;
}

bool
lock_is_idle(const struct lock_engine *engine)
{
	return engine->ops == NULL && engine->mutexes == NULL && removed_is_quiet(engine) &&
	       engine->hint_questions == NULL && !broker_owes_hints(engine->broker) &&
	       broker_quorum_is_idle(engine->broker);
}

/* ---- saving ---- */

int
lock_leads_to(const struct lock_engine *engine, uint64_t peer, uint64_t request)
{
	const struct op *op;

	FAULT(CHANGE_REPEATED, return -1);
	op = engine_op_find_target(engine, peer, request);
	return op == NULL ? -1 : op->leads_to;
}

bool
lock_saves(const struct lock_engine *engine, uint64_t peer, uint64_t request)
{
	const struct lock_peer *entry = engine_peer_find(engine, peer);
	const struct waiter *waiter;

	if (holder_wait_is_of(engine, peer, request))
		return true;
	if (entry == NULL)
		return false;
	TAILQ_FOREACH (waiter, &entry->waiters, of_peer) {
		if (waiter->request == request)
			return true;
	}
	return false;
}

static struct who_record
who_of(const struct requester *requester, const struct share *share)
{
	return (struct who_record){.waiter = requester->waiter,
	    .uid = (int64_t)requester->uid,
	    .pid = (int64_t)requester->pid,
	    .exempt = share == NULL,
	    .who = requester->who,
	    .why = requester->why,
	    .command = requester->command};
}

static void
save_hold(struct state_writer *writer, const struct hold *hold)
{
	const struct hold_record record = {
	    .id = hold->id,
	    .lock = hold->lock,
	    .peer = hold->peer,
	    .name = hold->name,
	    .queue = hold->state == HOLD_SLOTLESS ? NULL : hold->b.text,
	    .kind = (int)hold->kind,
	    .slot = hold->slot,
	    .slotless = hold->state == HOLD_SLOTLESS,
	    .admitted = hold->admitted,
	    .way = (int)hold->way,
	    .channel = hold->channel,
	    .since = hold->since,
	    .ours_since = hold->ours_since,
	    .from = hold->from,
	    .wants_lease = hold->wants_lease,
	    .suspect = hold->suspect,
	    .revoked = hold->revoked,
	    .reclaimed = hold->reclaimed,
	    .rechecks = (int)hold->rechecks,
	    .passes = (int)hold->passes,
	    .who = who_of(hold->requester, hold->share),
	};

	state_put(writer, "hold", hold_fields, &record);
}

static void
save_quorum_hold(struct state_writer *writer, const struct hold *hold)
{
	const struct quorum_hold_record record = {
	    .hand_offs = (int)hold->hand_offs,
	    .granted_fence = hold->granted_fence,
	};

	save_hold(writer, hold);
	state_put(writer, "quorum-hold", quorum_hold_fields, &record);
}

static void
save_eviction(struct state_writer *writer, const struct lock_eviction *by)
{
	const struct eviction_record record = {
	    .deadline = by->deadline, .uid = (int64_t)by->uid, .host = by->host, .why = by->why};

	FAULT(EVICTION_NOT_SAVED, return;);
	state_put(writer, "eviction", eviction_fields, &record);
}

static void
save_grace(struct state_writer *writer, const struct hold *hold)
{
	const struct grace_record record = {
	    .id = hold->id,
	    .name = hold->name,
	    .kind = (int)hold->kind,
	    .slot = hold->slot,
	    .channel = hold->channel,
	    .uid = hold->share != NULL ? (int64_t)hold->share->uid : 0,
	    .exempt = hold->share == NULL,
	};

	state_put(writer, "grace", grace_fields, &record);
}

/* Version 1 of the state has no such holds, and no records for them. */
static void
save_by_quorum(const struct lock_engine *engine, struct state_writer *writer)
{
	const struct hold *hold;

	for (hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next) {
		if (way_row(hold->way)->by_beads && broker_in_grace(engine->broker, hold->channel))
			save_grace(writer, hold);
	}
	/* Nothing else asks for them. */
	if (broker_state_version(engine->broker) > 1)
		lost_save_all(engine, writer);
}

static void
save_waiter(struct state_writer *writer, const struct waiter *waiter)
{
	const struct waiter_record record = {
	    .peer = waiter->peer,
	    .request = waiter->request,
	    .name = waiter->semaphore->name,
	    .kind = (int)waiter->kind,
	    .priority = waiter->priority,
	    .timeout = waiter->timeout,
	    .started = waiter->started,
	    .deadline = timer_is_set(&waiter->deadline) ? waiter->deadline.when : INT64_MAX,
	    .create = waiter->create,
	    .may_not_create = waiter->may_not_create,
	    .progress = waiter->progress,
	    .lease = waiter->lease,
	    .who = who_of(waiter->requester, waiter->share),
	};

	state_put(writer, "waiter", waiter_fields, &record);
}

/* Version 1 knows no evictions. */
int
lock_state_version(const struct lock_engine *engine)
{
	const struct hold *hold = engine->holds.by_id;

	while (hold != NULL && hold->eviction == NULL)
		hold = hold->by_id.next;
	return hold != NULL ? 2 : broker_state_version(engine->broker);
}

void
lock_save_holds(const struct lock_engine *engine, struct state_writer *writer)
{
	const struct lock_counts *total = &engine->total;
	const struct engine_record record = {
	    .last_id = engine->last_id,
	    /* Without the lock connection, the last one's lease is of no use. Holds by quorum go on. */
	    .lease_from = hands_link_over(engine) ? engine->lease.from : 0,
	    .lease_told = engine->lease.told,
	    .recovered = engine->lease.recovered,
	    .granted = total->granted,
	    .refused = total->refused,
	    .released = total->released,
	    .lost = total->lost,
	    .holder_queues_lost = total->holder_queues_lost,
	};

	state_put(writer, "engine", engine_fields, &record);
	for (const struct hold *hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next) {
		FAULT_IF(STILL_WHILE_CLAIMING, hold->peer == 0, continue);
		if (hold->state == HOLD_SLOTLESS || !way_row(hold->way)->by_beads)
			save_hold(writer, hold);
		else if (hold->state == HOLD_HELD)
			save_quorum_hold(writer, hold);
		if (hold->eviction != NULL)
			save_eviction(writer, &hold->eviction->by);
	}
	save_by_quorum(engine, writer);
}

/* By number: in this order they have joined their queues. */
static int
compare_waiters(struct waiter *a, struct waiter *b)
{
	return a->id < b->id ? -1 : a->id > b->id;
}

void
lock_save_waits(struct lock_engine *engine, struct state_writer *writer)
{
	HASH_SRT(by_id, engine->waiters, compare_waiters);
	for (const struct waiter *waiter = engine->waiters; waiter != NULL;
	     waiter = waiter->by_id.next)
		save_waiter(writer, waiter);
	holder_wait_save_all(engine, writer);
}

/* ---- restoring ---- */

static bool
is_name(const struct lock_engine *engine, const char *name)
{
	return name != NULL && lockname_error(name, strlen(name)) == NULL &&
	       lock_name_refusal(engine, name) == NULL;
}

static bool
is_number(const struct lock_engine *engine, uint64_t number)
{
	FAULT(RESTORED_ORDER_LOST, return number > 0);
	return number > 0 && number <= engine->last_id;
}

/* Whether a clock time is not in the future. 0: never. */
static bool
is_past(const struct lock_engine *engine, int64_t time)
{
	return time >= 0 && time <= engine_now(engine);
}

static bool
is_requester(const struct who_record *who)
{
	return who->uid >= 0 && who->uid <= UINT32_MAX && who->pid >= 0 && who->pid <= INT32_MAX;
}

static struct lock_acquire
acquire_of(const struct who_record *who)
{
	return (struct lock_acquire){.uid = (uid_t)who->uid,
	    .exempt = who->exempt,
	    .pid = (pid_t)who->pid,
	    .who = who->who,
	    .why = who->why,
	    .command = who->command};
}

/*
 * Unless the channel is the hold, one that died may not be replaced yet. False: the channel cannot
 * be the hold's. ret_proof: by quorum.
 */
static bool
restore_channel(
    struct lock_engine *engine, const struct hold_record *record, struct broker_reply *ret_proof)
{
	if (record->slotless || record->channel == 0)
		return record->slotless || !way_row(record->way)->is_channel;
	if (way_row(record->way)->by_beads)
		return broker_restore_hold(
		    engine->broker, record->channel, record->queue, ret_proof);
	return broker_restore_channel(
	    engine->broker, record->channel, way_row(record->way)->is_channel);
}

static struct queue_name
b_of(const struct lock_engine *engine, const struct hold_record *record)
{
	if (way_row(record->way)->by_beads)
		return queue_name_quorum(record->name, record->slot);
	if (record->kind == LOCK_KIND_MUTEX)
		return queue_name_mutex(engine->settings.naming, record->name);
	return queue_name_b(engine->settings.naming, record->name, record->slot);
}

/* Whether a hold can be as the record says. */
static bool
hold_is_possible(const struct lock_engine *engine, const struct hold_record *record)
{
	bool mutex = record->kind == LOCK_KIND_MUTEX;
	struct queue_name b;

	if (!is_name(engine, record->name) || !is_number(engine, record->id) ||
	    !is_number(engine, record->lock) || record->peer == 0 || !is_requester(&record->who) ||
	    !is_past(engine, record->since) || !is_past(engine, record->ours_since) ||
	    !is_past(engine, record->from) || hold_find(&engine->holds, record->id) != NULL ||
	    hold_find_lock(&engine->holds, record->lock) != NULL)
		return false;
	if (record->slotless)
		return record->slot == 0 && record->queue == NULL && record->channel == 0 &&
		       !record->revoked && !record->wants_lease;
	if ((record->slot == 0) != mutex || record->slot > engine->settings.slots_most ||
	    (record->kind == LOCK_KIND_PERSISTENT_MUTEX && record->slot != 1) ||
	    (way_row(record->way)->is_channel && !way_row(record->way)->by_beads &&
		mutex != (way_row(record->way)->leaves_b > 0)) ||
	    record->admitted || record->from == 0 || record->ours_since == 0 ||
	    (engine->lease.state == LEASE_NONE && !way_row(record->way)->by_beads))
		return false;
	b = b_of(engine, record);
	return record->queue != NULL && strcmp(record->queue, b.text) == 0 &&
	       hold_find_queue(&engine->holds, b.text) == NULL;
}

static struct hold *
hold_of(struct lock_engine *engine, const struct hold_record *record)
{
	enum lock_kind kind = (enum lock_kind)record->kind;
	struct queue_name b;

	if (record->slotless)
		return hold_new_slotless(&engine->holds, record->id, record->name, kind);
	b = b_of(engine, record);
	return hold_new(&engine->holds, record->id, &b, record->name, kind, record->slot,
	    (enum broker_way)record->way);
}

/* False: the fencing number would fall. */
static bool
restore_proof(struct hold *hold, const struct broker_reply *proof, struct state_reader *reader)
{
	struct quorum_hold_record record;

	if (!state_take(reader, "quorum-hold", quorum_hold_fields, &record))
		return false;
	hold->from = proof->sent_at;
	hold->grace = proof->grace;
	hold->fence = proof->fence;
	hold->hand_offs = (unsigned)record.hand_offs;
	hold->suspended = !proof->channel_open;
	hold->granted_fence = record.granted_fence;
	FAULT(RESTORED_HAND_OFFS_ANEW, hold->hand_offs = 0);
	FAULT(RESTORED_COUNT_FORGOTTEN, return true;);
	FAULT(RESTORED_HAND_OFFS_ANEW, return true;);
	if (hold_fence(hold) < record.granted_fence)
		return state_spoil(reader, "a fencing number is smaller than before");
	return true;
}

/* The hold is at rest, with a slot. */
static void
hold_goes_on(struct lock_engine *engine, struct hold *hold, const struct hold_record *record)
{
	FAULT(RESTORED_UNRESERVED, HASH_DELETE(by_queue, engine->holds.by_queue, hold);
	      HASH_ADD_KEYPTR(by_queue, engine->holds.by_queue, "", 0, hold));
	hold_set_channel(&engine->holds, hold, record->channel);
	if (!FAULT_ELSE(RESTORED_UNCHARGED, true, record->who.exempt))
		channels_charge_again(engine, hold, (uid_t)record->who.uid);
	if (!way_row(hold->way)->by_beads)
		hold->from = record->from;
	FAULT(RESTORED_LEASE_IS_NEW, hold->from = engine->lease.from = engine_now(engine));
	hold->ours_since = record->ours_since;
	hold->wants_lease = record->wants_lease;
	hold->suspect = record->suspect;
	FAULT(RESTORED_UNSUSPECT, hold->suspect = false);
	if (record->revoked)
		hold_revoke(&engine->holds, hold);
	FAULT_IF(RESTORED_UNREVOKED, hold->revoked, hold->revoked = false; engine->holds.revoked--);
	hold->reclaimed = record->reclaimed;
	hold->rechecks = (unsigned)record->rechecks;
	hold->passes = (unsigned)record->passes;
	hold_set_state(&engine->holds, hold, HOLD_HELD);
	lifecycle_resume(engine, hold);
	if (way_row(hold->way)->by_beads)
		keepalive_await(engine, hold);
	keepalive_granted(engine, hold);
	mutex_post_granted(engine, hold);
	FAULT(RESTORED_UNWATCHED, return );
	watch_start(engine, hold);
}

static bool
restore_eviction(struct lock_engine *engine, struct hold *hold, struct state_reader *reader)
{
	struct eviction_record record;

	if (!state_is(reader, "eviction"))
		return true;
	if (!state_take(reader, "eviction", eviction_fields, &record))
		return false;
	if (record.deadline < 0 || record.host == NULL || record.uid < 0 || record.uid > UINT32_MAX)
		return state_spoil(reader, "invalid record of an eviction");
	release_evict(engine, hold,
	    &(struct lock_eviction){.deadline = record.deadline,
		.uid = (uid_t)record.uid,
		.host = record.host,
		.why = record.why});
	return true;
}

static bool
restore_hold(
    struct lock_engine *engine, const struct hold_record *record, struct state_reader *reader)
{
	struct lock_acquire acquire = acquire_of(&record->who);
	struct broker_reply proof = {.text = ""};
	struct hold *hold;

	if (!hold_is_possible(engine, record) || !restore_channel(engine, record, &proof))
		return state_spoil(reader, "invalid record of a hold");
	FAULT(RESTORED_HOLD_FORGOTTEN, return true;);
	hold = hold_of(engine, record);
	hold_renumber(&engine->holds, hold, record->lock);
	hold->requester = requester_new(record->who.waiter, &acquire);
	/* The record's texts are gone then. */
	if (!record->slotless && way_row(record->way)->by_beads &&
	    !restore_proof(hold, &proof, reader))
		return false;
	hold->since = record->since;
	hold->admitted = record->admitted;
	registry_hold_attach(engine, hold, record->peer);
	if (hold->state != HOLD_SLOTLESS)
		hold_goes_on(engine, hold, record);
	if (!restore_eviction(engine, hold, reader))
		return false;
	rows_holds(engine, hold);
	return true;
}

static bool
restore_grace(struct lock_engine *engine, const struct grace_record *record)
{
	struct queue_name b;
	struct hold *hold;

	if (!is_name(engine, record->name) || !is_number(engine, record->id) ||
	    hold_find(&engine->holds, record->id) != NULL ||
	    hold_find_lock(&engine->holds, record->id) != NULL ||
	    (record->kind == LOCK_KIND_MUTEX) != (record->slot == 0) ||
	    (record->kind == LOCK_KIND_PERSISTENT_MUTEX && record->slot != 1) ||
	    record->slot > engine->settings.slots_most || record->channel == 0 || record->uid < 0 ||
	    record->uid > UINT32_MAX)
		return false;
	b = queue_name_quorum(record->name, record->slot);
	if (hold_find_queue(&engine->holds, b.text) != NULL)
		return false;
	hold = hold_new(&engine->holds, record->id, &b, record->name, (enum lock_kind)record->kind,
	    record->slot, BROKER_BY_QUORUM);
	hold_set_channel(&engine->holds, hold, record->channel);
	if (!record->exempt)
		channels_charge_again(engine, hold, (uid_t)record->uid);
	return claim_resume(engine, hold);
}

static size_t
count_channels(const struct lock_engine *engine)
{
	const struct hold *hold = engine->holds.by_id;
	size_t count = 0;

	for (; hold != NULL; hold = hold->by_id.next)
		count += hold->channel != 0;
	return count;
}

/*
 * Daemons of version 0.1.0 also counted drops of claims that were never granted, and some losses twice.
 * The numbers of grants and of holds are right.
 */
static void
make_counts_add_up(struct lock_counts *total, size_t holds)
{
	uint64_t ended;

	FAULT(RESTORED_COUNTS_BELIEVED, return;);
	if (total->granted < holds)
		total->granted = holds;
	ended = total->granted - holds;
	if (total->lost > ended)
		total->lost = ended;
	total->released = ended - total->lost;
}

bool
lock_restore_holds(struct lock_engine *engine, struct state_reader *reader)
{
	struct engine_record all;
	struct hold_record record;
	struct grace_record grace;

	assert(engine->holds.by_id == NULL && engine->last_id == 0);
	if (!state_take(reader, "engine", engine_fields, &all))
		return false;
	if ((engine->link != BROKER_UP && all.lease_from != 0) || all.last_id > UINT64_MAX / 2 ||
	    !is_past(engine, all.lease_from) || !is_past(engine, all.lease_told) ||
	    all.recovered < 0)
		return state_spoil(reader, "invalid record of the engine");
	engine->last_id = all.last_id;
	engine->lease.from = all.lease_from;
	engine->lease.told = all.lease_told;
	engine->lease.recovered = all.recovered;
	if (all.lease_from > 0)
		lease_set_state(engine, LEASE_GOOD);
	engine->total.granted = all.granted;
	engine->total.refused = all.refused;
	engine->total.released = all.released;
	engine->total.lost = all.lost;
	engine->total.holder_queues_lost = all.holder_queues_lost;
	while (state_is(reader, "hold")) {
		if (!state_take(reader, "hold", hold_fields, &record) ||
		    !restore_hold(engine, &record, reader))
			return false;
	}
	make_counts_add_up(&engine->total, HASH_CNT(by_id, engine->holds.by_id));
	while (state_is(reader, "grace")) {
		if (!state_take(reader, "grace", grace_fields, &grace))
			return false;
		if (!restore_grace(engine, &grace))
			return state_spoil(reader, "invalid record of a grace");
	}
	if (!lost_restore_all(engine, reader))
		return false;
	FAULT(RESTORED_COUNTS_ANEW, engine->total.granted = engine->total.released = 0);
	FAULT(RESTORED_WITHOUT_KEEPALIVE, return true;);
	keepalive_resume(engine);
	FAULT(RESTORED_HOLD_FORGOTTEN, return true;);
	FAULT(STILL_WHILE_CLAIMING, return true;);
	if (broker_channels_taken(engine->broker) != count_channels(engine))
		return state_spoil(reader, "a channel is in use without a hold");
	return true;
}

static bool
restore_waiter(struct lock_engine *engine, const struct waiter_record *record)
{
	struct acquire_resumed resumed = {
	    .id = record->who.waiter,
	    .peer = record->peer,
	    .request = record->request,
	    .acquire = acquire_of(&record->who),
	    .started = record->started,
	    .deadline = record->deadline,
	};

	if (!is_name(engine, record->name) || !is_number(engine, resumed.id) ||
	    engine_waiter_find(engine, resumed.id) != NULL || record->peer == 0 ||
	    !is_requester(&record->who) || !is_past(engine, record->started) ||
	    record->timeout < 0 || record->deadline < 0 ||
	    (record->deadline != INT64_MAX &&
		record->deadline - record->started < record->timeout) ||
	    (record->create != 0 && record->kind == LOCK_KIND_MUTEX))
		return false;
	FAULT(RESTORED_WAITER_FORGOTTEN, return true;);
	FAULT(RESTORED_ORDER_LOST, resumed.id = UINT32_MAX - resumed.id);
	FAULT_IF(RESTORED_DEADLINE_IS_NEW, record->deadline != INT64_MAX && record->timeout > 0,
	    resumed.deadline = engine_now(engine) + record->timeout);
	resumed.acquire.name = record->name;
	resumed.acquire.kind = (enum lock_kind)record->kind;
	resumed.acquire.timeout = record->timeout;
	resumed.acquire.priority = record->priority;
	resumed.acquire.progress = record->progress;
	resumed.acquire.lease = record->lease;
	resumed.acquire.create = record->create;
	resumed.acquire.may_not_create = record->may_not_create;
	acquire_resume(engine, &resumed);
	return true;
}

bool
lock_restore_waits(struct lock_engine *engine, struct state_reader *reader)
{
	struct waiter_record record;

	while (state_is(reader, "waiter")) {
		if (!state_take(reader, "waiter", waiter_fields, &record))
			return false;
		if (!restore_waiter(engine, &record))
			return state_spoil(reader, "invalid record of a waiter");
	}
	FAULT(RESTORED_NUMBERS_ANEW, engine->last_id = 0);
	return holder_wait_restore_all(engine, reader);
}
