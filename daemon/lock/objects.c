#include "daemon/lock/objects.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/lock.h"
#include "protocol/json.h"

/*
 * Contents:
 *	1. Requesters: requester_new() keeps the user, the process and the words of an acquire.
 *	2. Holds: hold_new() reserves a B, and hold_free() ends the reservation.
 *	   The lists of ages have the oldest answer first, for the lease. hold_answered() moves a hold.
 *	   hold_find*() look up. hold_set_channel() and hold_set_grace() keep the counts.
 *	   hold_set_state() is the diagram of objects.h, and hold_sane() the invariant of each state.
 *	3. The local queue: goes_before() is the order of its waiters. A treap keeps it.
 *	   local_queue_join(), _leave() and _set_state() keep the counts of states in the tree.
 *	   local_queue_first() and _next() find waiters, and local_queue_position() counts those before one.
 *	4. Semaphores: semaphore_saw_size(), _saw_slot() and _saw_way() keep what the broker said last.
 */

/* 1. Requesters. */

const char *
lock_row_word(enum lock_row_state state)
{
	switch (state) {
	case LOCK_ROW_WAITING:
		return "waiting";
	case LOCK_ROW_BUSY:
		return "busy";
	case LOCK_ROW_ADMITTED:
		return "granted";
	case LOCK_ROW_CANCELLED:
		return "cancelled";
	case LOCK_ROW_GONE:
		return "gone";
	}
	return "unknown";
}

/* Words of a user come to the logs and terminals of others. */
static char *
words_new(const char *words)
{
	char *copy = mem_strdup(words);

	if (copy != NULL)
		json_clean(copy);
	return copy;
}

struct requester *
requester_new(uint64_t waiter, const struct lock_acquire *acquire)
{
	struct requester *requester = mem_alloc(sizeof(*requester));

	requester->waiter = waiter;
	requester->uid = acquire->uid;
	requester->pid = acquire->pid;
	requester->who = words_new(acquire->who);
	requester->why = words_new(acquire->why);
	requester->command = words_new(acquire->command);
	return requester;
}

void
requester_free(struct requester *requester)
{
	if (requester == NULL)
		return;
	free(requester->who);
	free(requester->why);
	free(requester->command);
	free(requester);
}

/* 2. Holds. */

static struct hold *
hold_add(struct hold_table *table, uint64_t id, enum hold_state state, const char *name,
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
hold_is_consumer(const struct hold *hold)
{
	return way_row(hold->way)->is_channel && hold_has_a(hold);
}

struct hold *
hold_new(struct hold_table *table, uint64_t id, const struct queue_name *b, const char *name,
    enum lock_kind kind, int slot, enum broker_way way)
{
	struct hold *hold;

	assert(hold_find_queue(table, b->text) == NULL);
	hold = hold_add(table, id, HOLD_CLAIMING, name, kind);
	hold->b = *b;
	hold->slot = slot;
	hold->way = way;
	table->consumers += hold_is_consumer(hold);
	table->elsewhere += way_row(way)->by_beads;
	HASH_ADD_KEYPTR(by_queue, table->by_queue, hold->b.text, strlen(hold->b.text), hold);
	return hold;
}

struct hold *
hold_new_slotless(struct hold_table *table, uint64_t id, const char *name, enum lock_kind kind)
{
	return hold_add(table, id, HOLD_SLOTLESS, name, kind);
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
	table->consumers -= hold_is_consumer(hold);
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
static const unsigned hold_changes[] = {
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
	assert((hold_changes[hold->state] & 1U << state) != 0);
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

/* 3. The local queue: waiters. */

/* ---- states ---- */

/* From each state, those that may be next. */
static const unsigned waiter_changes[] = {
    [WAITER_BEHIND] = 1U << WAITER_NEW | 1U << WAITER_RESTING,
    [WAITER_NEW] = 1U << WAITER_SCANNED | 1U << WAITER_WAITING | 1U << WAITER_CLAIMING,
    [WAITER_SCANNED] = 1U << WAITER_NEW | 1U << WAITER_WAITING | 1U << WAITER_UNSEEN |
		       1U << WAITER_CLAIMING | 1U << WAITER_RESTING | 1U << WAITER_BEHIND,
    [WAITER_WAITING] = 1U << WAITER_NEW | 1U << WAITER_CLAIMING | 1U << WAITER_BEHIND,
    [WAITER_UNSEEN] = 1U << WAITER_NEW | 1U << WAITER_WAITING | 1U << WAITER_CLAIMING,
    [WAITER_CLAIMING] =
	1U << WAITER_NEW | 1U << WAITER_UNSEEN | 1U << WAITER_RESTING | 1U << WAITER_WAITING,
    [WAITER_RESTING] = 1U << WAITER_NEW,
};

/* ---- the tree ---- */

static bool
goes_before(const struct waiter *a, const struct waiter *b)
{
	FAULT_IF(LAST_COME_FIRST_SERVED, a->priority == b->priority, return a->id > b->id);
	FAULT(PRIORITY_IGNORED, return a->id < b->id);
	return a->priority != b->priority ? a->priority > b->priority : a->id < b->id;
}

/*
 * The heap order of the treap: the scattered number (splitmix64's finish). It keeps the tree
 * balanced as a rule.
 */
static uint64_t
treap_weight(const struct waiter *waiter)
{
	uint64_t x = waiter->id;

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static unsigned
treap_count(const struct waiter *root, unsigned states)
{
	unsigned sum = 0;

	for (unsigned state = 0; root != NULL && state < WAITER_STATES; state++) {
		if ((states & LOCAL_QUEUE_OF(state)) != 0)
			sum += root->below[state];
	}
	return sum;
}

static void
treap_add_up(struct waiter *root)
{
	for (unsigned state = 0; state < WAITER_STATES; state++) {
		root->below[state] = root->state == state ? 1 : 0;
		if (root->left != NULL)
			root->below[state] += root->left->below[state];
		if (root->right != NULL)
			root->below[state] += root->right->below[state];
	}
}

/* Splits a tree into the waiters before `waiter` and the waiters behind it. */
static void
treap_split(struct waiter *root, const struct waiter *waiter, struct waiter **ret_before,
    struct waiter **ret_behind)
{
	if (root == NULL) {
		*ret_before = *ret_behind = NULL;
	} else if (goes_before(root, waiter)) {
		treap_split(root->right, waiter, &root->right, ret_behind);
		treap_add_up(root);
		*ret_before = root;
	} else {
		treap_split(root->left, waiter, ret_before, &root->left);
		treap_add_up(root);
		*ret_behind = root;
	}
}

/* Joins two trees. All of `before` go before all of `behind`. */
static struct waiter *
treap_merge(struct waiter *before, struct waiter *behind)
{
	if (before == NULL || behind == NULL)
		return before == NULL ? behind : before;
	if (treap_weight(before) > treap_weight(behind)) {
		before->right = treap_merge(before->right, behind);
		treap_add_up(before);
		return before;
	}
	behind->left = treap_merge(before, behind->left);
	treap_add_up(behind);
	return behind;
}

static struct waiter *
treap_insert(struct waiter *root, struct waiter *waiter)
{
	if (root == NULL || treap_weight(waiter) > treap_weight(root)) {
		treap_split(root, waiter, &waiter->left, &waiter->right);
		treap_add_up(waiter);
		return waiter;
	}
	if (goes_before(waiter, root))
		root->left = treap_insert(root->left, waiter);
	else
		root->right = treap_insert(root->right, waiter);
	treap_add_up(root);
	return root;
}

static struct waiter *
treap_take_out(struct waiter *root, struct waiter *waiter)
{
	assert(root != NULL);
	if (root == waiter)
		return treap_merge(root->left, root->right);
	if (goes_before(waiter, root))
		root->left = treap_take_out(root->left, waiter);
	else
		root->right = treap_take_out(root->right, waiter);
	treap_add_up(root);
	return root;
}

static struct waiter *
treap_first(struct waiter *root, unsigned states)
{
	if (treap_count(root, states) == 0)
		return NULL;
	while (treap_count(root->left, states) > 0 || (states & LOCAL_QUEUE_OF(root->state)) == 0)
		root = treap_count(root->left, states) > 0 ? root->left : root->right;
	return root;
}

static struct waiter *
treap_first_behind(struct waiter *root, const struct waiter *waiter, unsigned states)
{
	struct waiter *found;

	if (treap_count(root, states) == 0)
		return NULL;
	if (!goes_before(waiter, root))
		return treap_first_behind(root->right, waiter, states);
	found = treap_first_behind(root->left, waiter, states);
	if (found != NULL)
		return found;
	return (states & LOCAL_QUEUE_OF(root->state)) != 0 ? root
							   : treap_first(root->right, states);
}

/* The number of waiters before the waiter, which may be in another tree. */
static unsigned
treap_count_before(const struct waiter *root, const struct waiter *waiter)
{
	unsigned before = 0;

	while (root != NULL) {
		if (goes_before(root, waiter)) {
			before += 1 + treap_count(root->left, LOCAL_QUEUE_ALL);
			root = root->right;
		} else {
			root = root->left;
		}
	}
	return before;
}

/* ---- users ---- */

static struct local_queue_user *
local_queue_user_of(struct local_queue *queue, const struct waiter *waiter)
{
	struct local_queue_user *user;

	LIST_FOREACH (user, &queue->users, of_list) {
		if (user->share == waiter->share)
			return user;
	}
	user = mem_alloc(sizeof(*user));
	user->share = waiter->share;
	user->starved.semaphore = waiter->semaphore;
	LIST_INSERT_HEAD(&queue->users, user, of_list);
	return user;
}

/* ---- the queue ---- */

void
local_queue_join(struct local_queue *queue, struct waiter *waiter)
{
	waiter->user = local_queue_user_of(queue, waiter);
	waiter->user->root = treap_insert(waiter->user->root, waiter);
}

void
local_queue_leave(struct waiter *waiter)
{
	struct local_queue_user *user = waiter->user;

	user->root = treap_take_out(user->root, waiter);
	waiter->left = waiter->right = NULL;
	waiter->user = NULL;
	if (user->root != NULL)
		return;
	if (user->starved.listed)
		TAILQ_REMOVE(&user->share->starved, &user->starved, of_list);
	LIST_REMOVE(user, of_list);
	free(user);
}

void
local_queue_set_state(struct waiter *waiter, enum waiter_state state)
{
	struct waiter *root = waiter->user->root;

	assert((waiter_changes[waiter->state] & 1U << state) != 0);
	for (;;) {
		root->below[waiter->state]--;
		root->below[state]++;
		if (root == waiter)
			break;
		root = goes_before(waiter, root) ? root->left : root->right;
	}
	waiter->state = state;
}

unsigned
local_queue_user_count(const struct local_queue_user *user, unsigned states)
{
	return treap_count(user->root, states);
}

unsigned
local_queue_count(const struct local_queue *queue, unsigned states)
{
	const struct local_queue_user *user;
	unsigned sum = 0;

	LIST_FOREACH (user, &queue->users, of_list)
		sum += treap_count(user->root, states);
	return sum;
}

/*
 * behind: NULL: from the start. able: only of users that may take another channel, and of `giver`.
 */
static struct waiter *
local_queue_first_of_users(const struct local_queue *queue, const struct waiter *behind,
    unsigned states, bool able, const struct share *giver)
{
	struct waiter *first = NULL, *its;
	const struct local_queue_user *user;

	LIST_FOREACH (user, &queue->users, of_list) {
		if (able && user->share != giver && !share_has_room(user->share))
			continue;
		its = behind == NULL ? treap_first(user->root, states)
				     : treap_first_behind(user->root, behind, states);
		if (its != NULL && (first == NULL || goes_before(its, first)))
			first = its;
	}
	return first;
}

struct waiter *
local_queue_first(const struct local_queue *queue, unsigned states)
{
	return local_queue_first_of_users(queue, NULL, states, false, NULL);
}

struct waiter *
local_queue_next(const struct local_queue *queue, const struct waiter *waiter, unsigned states)
{
	return local_queue_first_of_users(queue, waiter, states, false, NULL);
}

struct waiter *
local_queue_first_able(const struct local_queue *queue, unsigned states, const struct share *giver)
{
	return local_queue_first_of_users(queue, NULL, states, true, giver);
}

struct waiter *
local_queue_next_able(const struct local_queue *queue, const struct waiter *waiter, unsigned states,
    const struct share *giver)
{
	return local_queue_first_of_users(queue, waiter, states, true, giver);
}

struct waiter *
local_queue_who_wants(const struct local_queue *queue, int slot, const struct share *giver)
{
	struct waiter *waiter = local_queue_first_able(queue, LOCAL_QUEUE_WANTS, giver);

	while (waiter != NULL && waiter->kind == LOCK_KIND_PERSISTENT_MUTEX && slot != 1)
		waiter = local_queue_next_able(queue, waiter, LOCAL_QUEUE_WANTS, giver);
	return waiter;
}

int
local_queue_position(const struct local_queue *queue, const struct waiter *waiter)
{
	const struct local_queue_user *user;
	int position = 1;

	LIST_FOREACH (user, &queue->users, of_list)
		position += (int)treap_count_before(user->root, waiter);
	return position;
}

/* 4. Semaphores. */

struct semaphore *
semaphore_new(const char *name, bool mutex)
{
	struct semaphore *semaphore = mem_alloc(sizeof(*semaphore));

	semaphore->name = mem_strdup(name);
	semaphore->key = semaphore_key(name, mutex);
	semaphore->mutex = mutex;
	TAILQ_INIT(&semaphore->told);
	semaphore->starved.semaphore = semaphore;
	semaphore_forget(semaphore);
	return semaphore;
}

void
semaphore_free(struct semaphore *semaphore)
{
	assert(LIST_EMPTY(&semaphore->local_queue.users) && !semaphore->starved.listed);
	assert(semaphore->members == NULL && !semaphore->dirty);
	assert(!timer_is_set(&semaphore->rescan) && semaphore->scan.state != SCAN_PROBING);
	assert(!timer_is_set(&semaphore->progress) && TAILQ_EMPTY(&semaphore->told));
	assert(semaphore->withheld == NULL);
	free(semaphore->name);
	free(semaphore->busy);
	free(semaphore->ways);
	free(semaphore->hinted);
	free(semaphore->not_created);
	free(semaphore);
}

struct semaphore_key
semaphore_key(const char *name, bool mutex)
{
	struct semaphore_key key;
	size_t len = strlen(name);

	assert(len <= LOCKNAME_MAX);
	memcpy(key.text, name, len);
	/* '=' is in no lock name */
	strcpy(key.text + len, mutex ? "=M" : "");
	return key;
}

bool
semaphore_is_fresh(const struct semaphore *semaphore, int64_t now, int64_t interval)
{
	return semaphore->seen != INT64_MIN && now - semaphore->seen < interval;
}

void
semaphore_forget(struct semaphore *semaphore)
{
	semaphore->seen = INT64_MIN;
	semaphore->mode = SEMAPHORE_PLAIN;
	/* A scan in progress has only a part of the new state. */
	semaphore->scan.overtaken = semaphore->scan.forgotten = true;
	semaphore->scan.direct = 0;
	semaphore->extra = semaphore->above_count = 0;
	semaphore_saw_size(semaphore, 0, false);
}

void
semaphore_saw_size(struct semaphore *semaphore, int size, bool complete)
{
	if (size > semaphore->room) {
		semaphore->busy = mem_grow(semaphore->busy, (size_t)size, 1);
		semaphore->room = size;
	}
	for (; semaphore->size < size; semaphore->size++) {
		semaphore->busy[semaphore->size] = 1;
		semaphore->busy_count++;
	}
	for (; semaphore->size > size; semaphore->size--)
		semaphore->busy_count -= semaphore->busy[semaphore->size - 1];
	semaphore->complete = complete;
}

void
semaphore_saw_slot(struct semaphore *semaphore, int slot, bool busy)
{
	if (slot < 1 || slot > semaphore->size)
		return;
	semaphore->busy_count += busy - semaphore->busy[slot - 1];
	semaphore->busy[slot - 1] = busy;
}

bool
semaphore_way(const struct semaphore *semaphore, int slot, enum broker_way *ret_way)
{
	if (slot > semaphore->ways_room || semaphore->ways[slot - 1] == 0)
		return false;
	*ret_way = semaphore->ways[slot - 1] - 1;
	return true;
}

void
semaphore_saw_way(struct semaphore *semaphore, int slot, enum broker_way way)
{
	if (slot > semaphore->ways_room) {
		semaphore->ways = mem_grow(semaphore->ways, (size_t)slot, 1);
		memset(semaphore->ways + semaphore->ways_room, 0,
		    (size_t)(slot - semaphore->ways_room));
		semaphore->ways_room = slot;
	}
	semaphore->ways[slot - 1] = (unsigned char)(1 + way);
}

void
semaphore_hinted(struct semaphore *semaphore, int slot)
{
	semaphore->hinted =
	    mem_grow(semaphore->hinted, semaphore->hinted_count + 1, sizeof(*semaphore->hinted));
	semaphore->hinted[semaphore->hinted_count++] = slot;
}

bool
semaphore_has_free(const struct semaphore *semaphore)
{
	return semaphore->busy_count < semaphore->size;
}

int
semaphore_busy_count(const struct semaphore *semaphore)
{
	return semaphore->complete ? semaphore->busy_count : -1;
}
