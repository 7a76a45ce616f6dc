#include "tests/sim/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/broker/setup.h"
#include "protocol/reason.h"
#include "tests/sim/daemons.h"

/* So many claims of one slot by one daemon are lost in so long, at most. */
#define CLAIMS_MOST (2 * REQUESTS_MAX)
#define CLAIMS_TIME (100 * NSEC_PER_MSEC)

void
check_fail(struct sim *sim, unsigned number, const char *format, ...)
{
	va_list args;

	if (sim->violation[0] != '\0')
		return;
	sim->number = number;
	va_start(args, format);
	vsnprintf(sim->violation, sizeof(sim->violation), format, args);
	va_end(args);
}

/* ---- when the world performs ---- */

/* Invariant 1: RabbitMQ lets a link declare what it has already, so nobody here may ask for it. */
void
check_claim(struct sim *sim, const struct memory_performed *what, struct queue_id id)
{
	check_judged(sim, 1);
	if (sim->truth.names[id.name].slots[id.slot].owner == what->connection &&
	    what->method == AMQP_QUEUE_DECLARE_METHOD)
		check_fail(sim, 1, "connection %d claimed %s, but it had it already",
		    (int)what->connection, what->queue);
}

/*
 * A daemon that loses a race rests, longer each time. Even all daemons together claim no more often
 * than this.
 */
void
check_claim_lost(struct sim *sim, struct truth_slot *slot, int daemon, struct queue_id id)
{
	if (sim->now - slot->lost_since[daemon] > CLAIMS_TIME) {
		slot->lost_since[daemon] = sim->now;
		slot->lost[daemon] = 0;
	}
	if (++slot->lost[daemon] > CLAIMS_MOST)
		check_fail(
		    sim, 0, "daemon %d claims %s without a rest", daemon + 1, queue_text(id));
}

/*
 * No pending request survives its link, so a link drops only what it has claimed. Its holder was
 * told before (invariant 4).
 */
void
check_drop(struct sim *sim, const struct truth_deeds *deeds, int daemon,
    const struct memory_performed *what, struct queue_id id)
{
	const struct truth_slot *slot = &sim->truth.names[id.name].slots[id.slot];

	if (what->method == AMQP_QUEUE_DELETE_METHOD && deeds != NULL && deeds->by_consumer)
		check_fail(
		    sim, 1, "daemon %d deleted %s, which is durable", daemon + 1, queue_text(id));
	if (what->method == AMQP_QUEUE_DELETE_METHOD && slot->by_consumer &&
	    slot->owner != what->connection && truth_is_alive(sim, slot->owner) &&
	    sim->homes[sim->daemons[daemon].node].reach != MEMORY_TIMED_OUT)
		check_fail(sim, 1, "daemon %d deleted %s, which another holds", daemon + 1,
		    queue_text(id));
	if (deeds == NULL)
		return; /* a link that its daemon has lost: the request was on its way */
	if (deeds->claimed <= deeds->dropped)
		check_fail(sim, 1, "daemon %d dropped %s, which this link had not claimed",
		    daemon + 1, queue_text(id));
	for (size_t i = 0; i < sim->book.belief_count; i++) {
		const struct belief *belief = &sim->book.beliefs[i];

		if (belief->daemon == daemon && belief->name == id.name &&
		    belief->slot == id.slot && !belief->slotless)
			check_fail(sim, 4, "%s was dropped while lock %d still believes in it",
			    queue_text(id), (int)belief->lock);
	}
}

/*
 * In a partition the other side deletes a B that has a consumer. A durable B is deleted only if its
 * home answered the same channel at that moment, and if the delete says if-unused and if-empty.
 */
void
check_remove_holder(struct sim *sim, const struct memory_performed *what, struct queue_id id)
{
	const amqp_queue_delete_t *delete = what->fields;
	const struct truth_slot *slot = &sim->truth.names[id.name].slots[id.slot];

	if (!delete->if_unused)
		check_fail(sim, 1, "%s was deleted without if-unused", queue_text(id));
	else if (memory_world_owner(sim->world, queue_lock(id.name)) != what->connection)
		check_fail(
		    sim, 11, "%s was deleted without the administration mutex", queue_text(id));
	else if (!delete->if_empty)
		check_fail(sim, 1, "%s was deleted without if-empty", queue_text(id));
	else if (slot->asked != what->channel || slot->asked_at != sim->now)
		check_fail(sim, 1, "%s was deleted, and its home not asked", queue_text(id));
}

/* A daemon is told of its claim what the broker said, or that nothing is known of it. */
void
check_claim_answered(struct sim *sim, const struct sim_daemon *daemon, const struct wait_seen *seen,
    enum broker_answer answer)
{
	bool right = answer == seen->claim_answer || answer == BROKER_SKIPPED;

	if (answer == BROKER_UNKNOWN)
		right = truth_hold_connection(sim, daemon->number) != seen->claim_connection;
	check_judged(sim, 2);
	if (!right)
		check_fail(sim, 2, "a claim of daemon %d was answered %d, and the broker said %d",
		    daemon->number + 1, (int)answer, (int)seen->claim_answer);
}

/*
 * Nothing is sent while nothing is held: a daemon that checks B has claimed it, and not dropped it.
 */
void
check_queue_check(struct sim *sim, const struct truth_deeds *deeds, struct queue_id id)
{
	if (deeds->claimed <= deeds->dropped && id.part == QUEUE_B)
		check_fail(sim, 7, "checked %s, which this link has not claimed", queue_text(id));
}

/* ---- always ---- */

#define ANSWERS_MAY_HANG (NEWS_MAY_BE_HELD_UP | 1U << TROUBLE_SILENCE | 1U << TROUBLE_LATE)

/* The broker ended the consumer of a hold, or its channel, and has sent word of it. */
static bool
is_ended(const struct sim *sim, const struct belief *belief)
{
	return belief->by_consumer &&
	       truth_has_ended(&sim->truth.names[belief->name].slots[belief->slot], belief->daemon);
}

/*
 * B was deleted without its holder's knowledge: by name, or with a connection that the broker ended
 * though it was not silent. A client that does not obey its lease is not told that the broker ended
 * a silent connection.
 */
bool
check_is_excepted(const struct sim *sim, const struct belief *belief)
{
	const struct truth_slot *slot = &sim->truth.names[belief->name].slots[belief->slot];

	return sim->truth.torn[belief->daemon] == belief->connection ||
	       (!belief->heeds && sim->truth.forsaken[belief->daemon] == belief->connection) ||
	       slot->removed > slot->deeds[belief->daemon].claimed || is_ended(sim, belief) ||
	       (belief->by_consumer && !belief->heeds &&
		   slot->parted > slot->deeds[belief->daemon].claimed);
}

/* A method of the broker is delivered within so long. */
#define DELIVERED(sim) (3 * 10 * (sim)->plan.usual)

/* By consumer, the holder hears of the end of its hold as soon as the broker's word is delivered. */
static void
check_is_told(struct sim *sim, struct belief *belief)
{
	const struct sim_daemon *daemon = &sim->daemons[belief->daemon];

	if (belief->freed_at == 0)
		belief->freed_at = sim->now;
	if (sim->now - belief->freed_at > DELIVERED(sim) && is_ended(sim, belief) &&
	    (sim->plan.troubles & ANSWERS_MAY_HANG) == 0 && !daemon_is_behind(daemon))
		check_fail(sim, 4, "the broker ended lock %d of daemon %d, unreported",
		    (int)belief->lock, belief->daemon + 1);
}

/*
 * Invariant 4: a peer believes that it holds a slot only while B belongs to its daemon's link. B
 * has one owner, so two peers without an exception never hold one slot.
 */
static void
check_belief(struct sim *sim, struct belief *belief)
{
	uint64_t connection = truth_hold_connection(sim, belief->daemon);

	if (belief->slotless)
		return; /* it depends on no queue and no link */
	belief->over |= !book_is_believed(belief, sim->now);

	if (belief->connection != connection) {
		check_fail(sim, 4, "lock %d of daemon %d outlived its link", (int)belief->lock,
		    belief->daemon + 1);
		return;
	}
	check_lease(sim, belief);
	check_judged(sim, 4);
	if (truth_holder(sim, belief->name, belief->slot) == connection)
		return;
	if (belief->by_consumer)
		check_is_told(sim, belief);
	if (belief->over || check_is_excepted(sim, belief))
		return;
	check_fail(sim, 4, "lock %d is held, but its daemon %d does not own %s", (int)belief->lock,
	    belief->daemon + 1, queue_b(belief->name, belief->slot));
}

/* Every request is answered or ended by its deadline. */
static void
check_dues(struct sim *sim)
{
	struct book *book = &sim->book;

	if (sim->now <= book->next_due)
		return;
	book->next_due = INT64_MAX;
	for (size_t i = 0; i < book->ask_count; i++) {
		if (book->asks[i].due < sim->now &&
		    daemon_is_behind(&sim->daemons[book->asks[i].daemon]))
			book->next_due = sim->now;
		else if (book->asks[i].due < sim->now)
			check_fail(sim, 3, "request %d of client %d of daemon %d is not answered",
			    (int)book->asks[i].request, (int)book->asks[i].peer,
			    book->asks[i].daemon + 1);
		else if (book->asks[i].due < book->next_due)
			book->next_due = book->asks[i].due;
	}
}

/* A verify of a hold that ended with its link does not wait for the deadline. */
static void
check_verifies(struct sim *sim)
{
	for (size_t i = 0; i < sim->book.ask_count; i++) {
		const struct ask *ask = &sim->book.asks[i];

		if (ask->what == ASK_VERIFY && ask->lost_at != 0 &&
		    sim->now > ask->lost_at + 10 * sim->plan.usual &&
		    (sim->plan.troubles & (ANSWERS_MAY_HANG | 1U << TROUBLE_HOMES)) == 0)
			check_fail(sim, 3,
			    "request %d of daemon %d verifies what is lost, and waits",
			    (int)ask->request, ask->daemon + 1);
		if (ask->what == ASK_VERIFY && ask->held && !ask->slotless &&
		    ask->connection != sim->daemons[ask->daemon].told_connection)
			check_fail(sim, 3, "request %d of daemon %d waits for a link that is gone",
			    (int)ask->request, ask->daemon + 1);
	}
}

/* The counts of a daemon agree with its clients, and each hold counts once. */
static void
check_counts(struct sim *sim, const struct sim_daemon *daemon)
{
	struct lock_counts counts;
	size_t beliefs = 0;

	lock_get_counts(daemon->engine, &counts);
	for (size_t i = 0; i < sim->book.belief_count; i++)
		beliefs += sim->book.beliefs[i].daemon == daemon->number;
	if (counts.granted != counts.released + counts.lost + counts.holds)
		check_fail(sim, 0, "daemon %d counts %d grants, %d releases, %d losses, %d holds",
		    daemon->number + 1, (int)counts.granted, (int)counts.released, (int)counts.lost,
		    (int)counts.holds);
	else if (counts.granted != daemon->granted || counts.lost != daemon->lost ||
		 counts.holds != beliefs)
		check_fail(sim, 0,
		    "daemon %d counts %d grants, %d losses, %d holds; its clients %d, %d, %d",
		    daemon->number + 1, (int)counts.granted, (int)counts.lost, (int)counts.holds,
		    (int)daemon->granted, (int)daemon->lost, (int)beliefs);
}

/* A frozen engine evicts nobody, for up to two seconds and a tick. */
#define EVICTED_SOON (3 * NSEC_PER_SEC)

/* Invariant 4: a hold whose deadline is over has ended, unless its daemon cannot work. */
static void
check_evictions(struct sim *sim)
{
	for (size_t i = 0; i < sim->book.belief_count; i++) {
		const struct belief *belief = &sim->book.beliefs[i];
		const struct sim_daemon *daemon = &sim->daemons[belief->daemon];

		if (belief->evict_at != 0 && sim->now > belief->evict_at + EVICTED_SOON &&
		    !daemon_is_behind(daemon) && !daemon->resuming)
			check_fail(sim, 4, "lock %d was not evicted", (int)belief->lock);
	}
}

void
check_step(struct sim *sim)
{
	for (int i = 0; i < sim->plan.daemons; i++) {
		if (!sim->daemons[i].resuming)
			check_counts(sim, &sim->daemons[i]);
	}
	check_dues(sim);
	check_evictions(sim);
	if (sim->plan.quorum)
		return;
	for (size_t i = 0; i < sim->book.belief_count; i++)
		check_belief(sim, &sim->book.beliefs[i]);
	check_verifies(sim);
	check_channels(sim);
	check_passed(sim);
	check_waits(sim);
}

/*
 * No slot is free while somebody works, so nothing is left when the daemon says so: it may go now.
 */
void
check_stopped(struct sim *sim, const struct sim_daemon *daemon)
{
	if (!lock_quiet(daemon->engine))
		return;
	for (int name = 0; name < sim->plan.names; name++) {
		for (int slot = 0; slot <= SLOTS_KNOWN; slot++) {
			if (truth_is_ours(sim, daemon->number, name, slot))
				check_fail(sim, 6, "daemon %d is quiet, and has %s",
				    daemon->number + 1, queue_b(name, slot));
		}
	}
}

/* ---- when all is still ---- */

/*
 * Rows match the waiters and holders. Invariant 10: on a server that deletes by name, B is checked
 * again until it is safe. Invariant 5: if a watch reported a deletion of A, the holder was told by
 * now, unless A came back before the check.
 */
void
check_healed(struct sim *sim)
{
	for (int i = 0; i < sim->plan.daemons; i++)
		check_rows(sim, &sim->daemons[i]);
	for (size_t i = 0; i < sim->book.belief_count; i++) {
		const struct belief *belief = &sim->book.beliefs[i];
		const struct truth_slot *slot = &sim->truth.names[belief->name].slots[belief->slot];

		if (belief->slotless)
			continue;
		check_judged(sim, 5);
		if (slot->by_name == belief->connection)
			check_judged(sim, 10);
		if (slot->by_name == belief->connection &&
		    slot->removed > slot->deeds[belief->daemon].claimed)
			check_fail(sim, 10, "%s was deleted by name, unnoticed by its daemon",
			    queue_b(belief->name, belief->slot));
		if (belief->heard != 0 && !belief->revoked && slot->a_came < belief->heard &&
		    !check_is_unseen(sim, belief))
			check_fail(sim, 5, "%s was deleted, and its holder not notified",
			    queue_a(belief->name, belief->slot));
	}
}

/* All is still, and a watch asked for is placed within so long. */
#define WATCH_TIME (100 * NSEC_PER_MSEC)

/* After these nothing may be watched for a while. */
#define MAY_BE_UNWATCHED                                                                           \
	(1U << TROUBLE_REFUSE | 1U << TROUBLE_CLOSE | 1U << TROUBLE_SILENCE |                      \
	    1U << TROUBLE_CANCEL | 1U << TROUBLE_LOSE_A | 1U << TROUBLE_UNHEARD)

bool
check_is_unseen(const struct sim *sim, const struct belief *belief)
{
	return belief->by_consumer && sim_is_short(sim);
}

static void
check_is_watched(struct sim *sim, const struct belief *belief)
{
	if (!belief->revoked && sim->now - belief->granted_at > WATCH_TIME &&
	    !check_is_unseen(sim, belief) && (sim->plan.troubles & MAY_BE_UNWATCHED) == 0 &&
	    memory_world_members(sim->world, queue_a(belief->name, belief->slot)) == 0)
		check_fail(
		    sim, 5, "%s is held, and not watched", queue_a(belief->name, belief->slot));
}

/* Of all that is held and has an A, which is watched unless it is known to be gone. */
void
check_watches(struct sim *sim)
{
	for (int i = 0; i < sim->plan.daemons; i++) {
		size_t watched = broker_watched(sim->daemons[i].broker), least = 0, most = 0;

		for (size_t j = 0; j < sim->book.belief_count; j++) {
			const struct belief *belief = &sim->book.beliefs[j];

			if (belief->daemon != i || belief->slot == 0)
				continue;
			least += !belief->revoked && !check_is_unseen(sim, belief) &&
				 sim->now - belief->granted_at > WATCH_TIME;
			check_is_watched(sim, belief);
			most++;
		}
		if (watched < least || watched > most)
			check_fail(sim, 5, "daemon %d watches %zu queues, and holds %zu slots",
			    i + 1, watched, most);
	}
}

/*
 * An exclusive queue was deleted behind its holder's back, and made durable by somebody. A passive
 * declare of it is OK, and does not tell the difference while nobody else holds it.
 */
static bool
is_missed(const struct sim *sim, const struct belief *belief)
{
	const struct truth_slot *slot = &sim->truth.names[belief->name].slots[belief->slot];

	return !belief->by_consumer && slot->removed > slot->deeds[belief->daemon].claimed &&
	       memory_world_durable(sim->world, queue_b(belief->name, belief->slot)) &&
	       !truth_is_held(sim, belief->name, belief->slot);
}

/* Invariants 5, 10: a peer that has just verified its lock believes the truth. */
void
check_verified(struct sim *sim)
{
	for (size_t i = 0; i < sim->book.belief_count; i++) {
		const struct belief *belief = &sim->book.beliefs[i];

		if (belief->slotless)
			continue;
		if (!belief->revoked && !is_missed(sim, belief) &&
		    !truth_is_ours(sim, belief->daemon, belief->name, belief->slot))
			check_fail(sim, 10, "%s was verified, and is not ours",
			    queue_b(belief->name, belief->slot));
		if (!belief->revoked && belief->slot != 0 && !check_is_unseen(sim, belief) &&
		    !sim->truth.names[belief->name].slots[belief->slot].a)
			check_fail(sim, 5, "%s was verified, and is gone",
			    queue_a(belief->name, belief->slot));
	}
}

static void
count_channel(void *ctx, uint64_t channel, bool silent)
{
	(void)channel;
	(void)silent;
	(*(size_t *)ctx)++;
}

static void
check_not_left(void *ctx, const char *queue, const struct broker *owner)
{
	if (owner != NULL)
		check_fail(ctx, 3, "%s is left behind", queue);
}

static void
check_daemon_quiet(struct sim *sim, const struct sim_daemon *daemon)
{
	struct lock_counts counts;
	size_t hold_channels = 0, auxiliary_channels = 0;

	memory_broker_each_channel(daemon->broker, BROKER_LOCKS, count_channel, &hold_channels);
	memory_broker_each_channel(
	    daemon->broker, BROKER_AUXILIARY, count_channel, &auxiliary_channels);
	lock_get_counts(daemon->engine, &counts);
	if (!lock_quiet(daemon->engine))
		check_fail(sim, 0, "daemon %d says that it is not quiet", daemon->number + 1);
	else if (hold_channels > 0 || auxiliary_channels > sim->plan.messages)
		check_fail(sim, 0,
		    "daemon %d has %zu channels of the lock connection, %zu of the auxiliary "
		    "connection",
		    daemon->number + 1, hold_channels, auxiliary_channels);
	else if (broker_watched(daemon->broker) > 0)
		check_fail(
		    sim, 5, "daemon %d watches a slot that it does not hold", daemon->number + 1);
	else if (counts.holds + counts.waiting + counts.in_flight > 0)
		check_fail(sim, 0, "daemon %d counts holds, but has none", daemon->number + 1);
}

/* Nobody holds a B, and the last holder of a removed slot has deleted its B. */
static void
check_holders_quiet(struct sim *sim)
{
	for (int name = 0; name < sim->plan.names; name++) {
		for (int slot = 0; slot <= SLOTS_KNOWN; slot++) {
			const struct truth_slot *of = &sim->truth.names[name].slots[slot];

			if (truth_is_held(sim, name, slot))
				check_fail(
				    sim, 3, "%s is left behind, and held", queue_b(name, slot));
			else if (slot != 0 && !of->a && of->left_at > sim->waits.settled &&
				 memory_world_durable(sim->world, queue_b(name, slot)))
				check_fail(
				    sim, 3, "%s is left behind, and removed", queue_b(name, slot));
		}
	}
}

void
check_quiet(struct sim *sim)
{
	for (int i = 0; i < sim->plan.daemons; i++)
		check_daemon_quiet(sim, &sim->daemons[i]);
	memory_world_each(sim->world, check_not_left, sim);
	check_holders_quiet(sim);
}
