#include "daemon/lock/table/hold.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"

static struct hold *
add(struct hold_table *table, uint64_t id, enum hold_state state, const char *name,
    enum lock_kind kind)
{
	struct hold *hold = mem_alloc(sizeof(*hold));

	hold->id = id;
	hold->lock = id;
	hold->state = state;
	hold->name = mem_strdup(name);
	hold->kind = kind;
	HASH_ADD(by_id, table->by_id, id, sizeof(hold->id), hold);
	HASH_ADD(by_lock, table->by_lock, lock, sizeof(hold->lock), hold);
	table->count[hold->state]++;
	return hold;
}

static bool
is_consumer(const struct hold *hold)
{
	return way_row(hold->way)->is_channel && hold_has_a(hold);
}

struct hold *
hold_new(struct hold_table *table, uint64_t id, const struct queue_name *b, const char *name,
    enum lock_kind kind, int slot, enum broker_way way)
{
	struct hold *hold;

	assert(hold_find_queue(table, b->text) == NULL);
	hold = add(table, id, HOLD_CLAIMING, name, kind);
	hold->b = *b;
	hold->slot = slot;
	hold->way = way;
	table->consumers += is_consumer(hold);
	table->elsewhere += way_row(way)->by_beads;
	HASH_ADD_KEYPTR(by_queue, table->by_queue, hold->b.text, strlen(hold->b.text), hold);
	return hold;
}

struct hold *
hold_new_slotless(struct hold_table *table, uint64_t id, const char *name, enum lock_kind kind)
{
	return add(table, id, HOLD_SLOTLESS, name, kind);
}

/* ---- ages ---- */

void
hold_table_init(struct hold_table *table, struct timers *timers)
{
	table->timers = timers;
	TAILQ_INIT(&table->ages[HOLD_LEASE_SHARED]);
	TAILQ_INIT(&table->ages[HOLD_LEASE_OWN]);
	TAILQ_INIT(&table->ages[HOLD_LEASE_TIMED]);
}

static void
age_add(struct hold_table *table, struct hold *hold)
{
	struct hold_list *ages = &table->ages[hold_lease(hold)];
	struct hold *before = TAILQ_LAST(ages, hold_list);

	/* Answers of several channels come nearly in the order of their questions. */
	while (before != NULL && before->from > hold->from)
		before = TAILQ_PREV(before, hold_list, of_ages);
	if (before == NULL)
		TAILQ_INSERT_HEAD(ages, hold, of_ages);
	else
		TAILQ_INSERT_AFTER(ages, before, hold, of_ages);
	hold->aged = true;
	table->aged[hold_lease(hold)]++;
}

static void
age_remove(struct hold_table *table, struct hold *hold)
{
	if (!hold->aged)
		return;
	TAILQ_REMOVE(&table->ages[hold_lease(hold)], hold, of_ages);
	hold->aged = false;
	table->aged[hold_lease(hold)]--;
}

void
hold_answered(struct hold_table *table, struct hold *hold, const struct broker_reply *reply)
{
	bool aged = hold->aged;

	hold->suspended = false;
	if (reply->sent_at <= hold->from)
		return;
	age_remove(table, hold);
	hold->from = reply->sent_at;
	hold->grace = reply->grace;
	hold->fence = reply->fence;
	hold->hand_offs = 0;
	if (aged)
		age_add(table, hold);
}

void
hold_free(struct hold_table *table, struct hold *hold)
{
	assert(hold->share == NULL);
	timers_cancel(table->timers, &hold->timer);
	age_remove(table, hold);
	table->count[hold->state]--;
	table->consumers -= is_consumer(hold);
	table->elsewhere -= way_row(hold->way)->by_beads;
	table->revoked -= hold->revoked;
	hold_set_channel(table, hold, 0);
	HASH_DELETE(by_id, table->by_id, hold);
	HASH_DELETE(by_lock, table->by_lock, hold);
	if (hold->state != HOLD_SLOTLESS)
		HASH_DELETE(by_queue, table->by_queue, hold);
	requester_free(hold->requester);
	free(hold->name);
	free(hold);
}

struct hold *
hold_find(const struct hold_table *table, uint64_t id)
{
	struct hold *hold;

	HASH_FIND(by_id, table->by_id, &id, sizeof(id), hold);
	return hold;
}

struct hold *
hold_find_lock(const struct hold_table *table, uint64_t lock)
{
	struct hold *hold;

	HASH_FIND(by_lock, table->by_lock, &lock, sizeof(lock), hold);
	return hold;
}

void
hold_renumber(struct hold_table *table, struct hold *hold, uint64_t lock)
{
	HASH_DELETE(by_lock, table->by_lock, hold);
	hold->lock = lock;
	HASH_ADD(by_lock, table->by_lock, lock, sizeof(hold->lock), hold);
}

struct hold *
hold_find_queue(const struct hold_table *table, const char *queue)
{
	struct hold *hold;

	HASH_FIND(by_queue, table->by_queue, queue, strlen(queue), hold);
	FAULT_IF(NO_RESERVATION, hold != NULL && hold->state <= HOLD_CHECKING, return NULL);
	FAULT_IF(RESERVATION_ENDS_EARLY, hold != NULL && hold->state == HOLD_DROPPING, return NULL);
	FAULT_IF(REVOKED_IS_FREE, hold != NULL && hold->revoked, return NULL);
	return hold;
}

struct hold *
hold_find_channel(const struct hold_table *table, uint64_t channel)
{
	struct hold *hold;

	HASH_FIND(by_channel, table->by_channel, &channel, sizeof(channel), hold);
	return hold;
}

void
hold_set_channel(struct hold_table *table, struct hold *hold, uint64_t channel)
{
	if (hold->channel != 0)
		HASH_DELETE(by_channel, table->by_channel, hold);
	hold->channel = channel;
	if (channel != 0)
		HASH_ADD(by_channel, table->by_channel, channel, sizeof(hold->channel), hold);
}

void
hold_set_grace(struct hold_table *table, struct hold *hold, int64_t free_at)
{
	bool was = hold->free_at != 0, is = free_at != 0;

	table->graces += (size_t)is - (size_t)was;
	if (hold->share != NULL)
		hold->share->graces += (size_t)is - (size_t)was;
	hold->free_at = free_at;
}

size_t
hold_count_on_link(const struct hold_table *table)
{
	return HASH_CNT(by_id, table->by_id) - table->count[HOLD_SLOTLESS] - table->elsewhere;
}

/* From each state, those that may be next. */
static const unsigned changes[] = {
    [HOLD_CLAIMING] = 1U << HOLD_CHECKING | 1U << HOLD_HELD |
		      1U << HOLD_DROPPING, /* a true mutex has no A to check: straight to HELD */
    [HOLD_CHECKING] = 1U << HOLD_HELD | 1U << HOLD_DROPPING,
    [HOLD_HELD] =
	1U << HOLD_RECLAIMING | 1U << HOLD_COUNTING | 1U << HOLD_PASSING | 1U << HOLD_DROPPING,
    [HOLD_COUNTING] = 1U << HOLD_HELD | 1U << HOLD_PASSING | 1U << HOLD_DROPPING,
    [HOLD_PASSING] = 1U << HOLD_HELD | 1U << HOLD_DROPPING,
    [HOLD_RECLAIMING] = 1U << HOLD_HELD | 1U << HOLD_DROPPING,
    [HOLD_DROPPING] = 0,
    [HOLD_SLOTLESS] = 0,
};

void
hold_set_state(struct hold_table *table, struct hold *hold, enum hold_state state)
{
	assert((changes[hold->state] & 1U << state) != 0);
	table->count[hold->state]--;
	table->count[state]++;
	hold->state = state;
	if (state != HOLD_CHECKING)
		timers_cancel(table->timers, &hold->timer);
	if (state == HOLD_HELD && !hold->aged)
		age_add(table, hold);
	if (state == HOLD_DROPPING)
		age_remove(table, hold);
	hold_sane(hold);
}

void
hold_revoke(struct hold_table *table, struct hold *hold)
{
	table->revoked += !hold->revoked;
	hold->revoked = true;
}

void
hold_sane(const struct hold *hold)
{
	bool takes_slot = hold->state != HOLD_SLOTLESS;

	assert((hold->slot > 0) == (takes_slot && hold->kind != LOCK_KIND_MUTEX));
	assert((hold->b.text[0] != '\0') == takes_slot);
	switch (hold->state) {
	case HOLD_CLAIMING:
	case HOLD_CHECKING:
		assert(hold->releasing == 0 && !hold->revoked);
		break;
	case HOLD_HELD:
	case HOLD_RECLAIMING:
		assert(hold->peer != 0 && hold->acquire == 0 && hold->releasing == 0);
		break;
	case HOLD_COUNTING:
	case HOLD_PASSING:
		assert(hold->peer == 0 && hold->acquire == 0);
		break;
	case HOLD_DROPPING:
		assert(hold->acquire == 0);
		break;
	case HOLD_SLOTLESS:
		assert(
		    hold->peer != 0 && hold->channel == 0 && !hold->revoked && !hold->wants_lease);
		assert(hold->watch == HOLD_WATCH_NONE && !timer_is_set(&hold->timer));
		assert(hold->share == NULL);
		break;
	}
}
