#include "daemon/lock/table/local_queue.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"

/* ---- states ---- */

/* From each state, those that may be next. */
static const unsigned changes[] = {
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
weight(const struct waiter *waiter)
{
	uint64_t x = waiter->id;

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static unsigned
count(const struct waiter *root, unsigned states)
{
	unsigned sum = 0;

	for (unsigned state = 0; root != NULL && state < WAITER_STATES; state++) {
		if ((states & LOCAL_QUEUE_OF(state)) != 0)
			sum += root->below[state];
	}
	return sum;
}

static void
add_up(struct waiter *root)
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
split(struct waiter *root, const struct waiter *waiter, struct waiter **ret_before,
    struct waiter **ret_behind)
{
	if (root == NULL) {
		*ret_before = *ret_behind = NULL;
	} else if (goes_before(root, waiter)) {
		split(root->right, waiter, &root->right, ret_behind);
		add_up(root);
		*ret_before = root;
	} else {
		split(root->left, waiter, ret_before, &root->left);
		add_up(root);
		*ret_behind = root;
	}
}

/* Joins two trees. All of `before` go before all of `behind`. */
static struct waiter *
merge(struct waiter *before, struct waiter *behind)
{
	if (before == NULL || behind == NULL)
		return before == NULL ? behind : before;
	if (weight(before) > weight(behind)) {
		before->right = merge(before->right, behind);
		add_up(before);
		return before;
	}
	behind->left = merge(before, behind->left);
	add_up(behind);
	return behind;
}

static struct waiter *
insert(struct waiter *root, struct waiter *waiter)
{
	if (root == NULL || weight(waiter) > weight(root)) {
		split(root, waiter, &waiter->left, &waiter->right);
		add_up(waiter);
		return waiter;
	}
	if (goes_before(waiter, root))
		root->left = insert(root->left, waiter);
	else
		root->right = insert(root->right, waiter);
	add_up(root);
	return root;
}

static struct waiter *
take_out(struct waiter *root, struct waiter *waiter)
{
	assert(root != NULL);
	if (root == waiter)
		return merge(root->left, root->right);
	if (goes_before(waiter, root))
		root->left = take_out(root->left, waiter);
	else
		root->right = take_out(root->right, waiter);
	add_up(root);
	return root;
}

static struct waiter *
first_of(struct waiter *root, unsigned states)
{
	if (count(root, states) == 0)
		return NULL;
	while (count(root->left, states) > 0 || (states & LOCAL_QUEUE_OF(root->state)) == 0)
		root = count(root->left, states) > 0 ? root->left : root->right;
	return root;
}

static struct waiter *
first_behind(struct waiter *root, const struct waiter *waiter, unsigned states)
{
	struct waiter *found;

	if (count(root, states) == 0)
		return NULL;
	if (!goes_before(waiter, root))
		return first_behind(root->right, waiter, states);
	found = first_behind(root->left, waiter, states);
	if (found != NULL)
		return found;
	return (states & LOCAL_QUEUE_OF(root->state)) != 0 ? root : first_of(root->right, states);
}

/* The number of waiters before the waiter, which may be in another tree. */
static unsigned
count_before(const struct waiter *root, const struct waiter *waiter)
{
	unsigned before = 0;

	while (root != NULL) {
		if (goes_before(root, waiter)) {
			before += 1 + count(root->left, LOCAL_QUEUE_ALL);
			root = root->right;
		} else {
			root = root->left;
		}
	}
	return before;
}

/* ---- users ---- */

static struct local_queue_user *
user_of(struct local_queue *queue, const struct waiter *waiter)
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
	waiter->user = user_of(queue, waiter);
	waiter->user->root = insert(waiter->user->root, waiter);
}

void
local_queue_leave(struct waiter *waiter)
{
	struct local_queue_user *user = waiter->user;

	user->root = take_out(user->root, waiter);
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

	assert((changes[waiter->state] & 1U << state) != 0);
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
	return count(user->root, states);
}

unsigned
local_queue_count(const struct local_queue *queue, unsigned states)
{
	const struct local_queue_user *user;
	unsigned sum = 0;

	LIST_FOREACH (user, &queue->users, of_list)
		sum += count(user->root, states);
	return sum;
}

/*
 * behind: NULL: from the start. able: only of users that may take another channel, and of `giver`.
 */
static struct waiter *
first_of_users(const struct local_queue *queue, const struct waiter *behind, unsigned states,
    bool able, const struct share *giver)
{
	struct waiter *first = NULL, *its;
	const struct local_queue_user *user;

	LIST_FOREACH (user, &queue->users, of_list) {
		if (able && user->share != giver && !share_has_room(user->share))
			continue;
		its = behind == NULL ? first_of(user->root, states)
				     : first_behind(user->root, behind, states);
		if (its != NULL && (first == NULL || goes_before(its, first)))
			first = its;
	}
	return first;
}

struct waiter *
local_queue_first(const struct local_queue *queue, unsigned states)
{
	return first_of_users(queue, NULL, states, false, NULL);
}

struct waiter *
local_queue_next(const struct local_queue *queue, const struct waiter *waiter, unsigned states)
{
	return first_of_users(queue, waiter, states, false, NULL);
}

struct waiter *
local_queue_first_able(const struct local_queue *queue, unsigned states, const struct share *giver)
{
	return first_of_users(queue, NULL, states, true, giver);
}

struct waiter *
local_queue_next_able(const struct local_queue *queue, const struct waiter *waiter, unsigned states,
    const struct share *giver)
{
	return first_of_users(queue, waiter, states, true, giver);
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
		position += (int)count_before(user->root, waiter);
	return position;
}
