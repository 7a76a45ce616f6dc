#include "daemon/lock/table/line.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"

/* ---- states ---- */

/* From each state, those that may be next. */
static const unsigned changes[] = {
    [WAITER_BEHIND] = 1U << WAITER_NEW,
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

/* What makes it a heap, and so balanced as a rule: the number, scattered (splitmix64's finish). */
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
		if ((states & LINE_OF(state)) != 0)
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

/* Into those that go before `waiter` and those that go behind it. */
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

/* All of `before` go before all of `behind`. */
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
	while (count(root->left, states) > 0 || (states & LINE_OF(root->state)) == 0)
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
	return (states & LINE_OF(root->state)) != 0 ? root : first_of(root->right, states);
}

/* How many go before the waiter, which may be in another tree. */
static unsigned
count_before(const struct waiter *root, const struct waiter *waiter)
{
	unsigned before = 0;

	while (root != NULL) {
		if (goes_before(root, waiter)) {
			before += 1 + count(root->left, LINE_ALL);
			root = root->right;
		} else {
			root = root->left;
		}
	}
	return before;
}

/* ---- users ---- */

static struct line_user *
user_of(struct line *line, const struct waiter *waiter)
{
	struct line_user *user;

	LIST_FOREACH (user, &line->users, of_line) {
		if (user->share == waiter->share)
			return user;
	}
	user = mem_alloc(sizeof(*user));
	user->share = waiter->share;
	user->starved.semaphore = waiter->semaphore;
	LIST_INSERT_HEAD(&line->users, user, of_line);
	return user;
}

/* ---- the line ---- */

void
line_join(struct line *line, struct waiter *waiter)
{
	waiter->user = user_of(line, waiter);
	waiter->user->root = insert(waiter->user->root, waiter);
}

void
line_leave(struct waiter *waiter)
{
	struct line_user *user = waiter->user;

	user->root = take_out(user->root, waiter);
	waiter->left = waiter->right = NULL;
	waiter->user = NULL;
	if (user->root != NULL)
		return;
	if (user->starved.listed)
		TAILQ_REMOVE(&user->share->starved, &user->starved, of_line);
	LIST_REMOVE(user, of_line);
	free(user);
}

void
line_set_state(struct waiter *waiter, enum waiter_state state)
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
line_user_count(const struct line_user *user, unsigned states)
{
	return count(user->root, states);
}

unsigned
line_count(const struct line *line, unsigned states)
{
	const struct line_user *user;
	unsigned sum = 0;

	LIST_FOREACH (user, &line->users, of_line)
		sum += count(user->root, states);
	return sum;
}

/* behind: NULL: from the start on. able: only of users that may take another channel, and of `giver`. */
static struct waiter *
first_of_users(const struct line *line, const struct waiter *behind, unsigned states, bool able,
    const struct share *giver)
{
	struct waiter *first = NULL, *its;
	const struct line_user *user;

	LIST_FOREACH (user, &line->users, of_line) {
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
line_first(const struct line *line, unsigned states)
{
	return first_of_users(line, NULL, states, false, NULL);
}

struct waiter *
line_next(const struct line *line, const struct waiter *waiter, unsigned states)
{
	return first_of_users(line, waiter, states, false, NULL);
}

struct waiter *
line_first_able(const struct line *line, unsigned states, const struct share *giver)
{
	return first_of_users(line, NULL, states, true, giver);
}

struct waiter *
line_next_able(const struct line *line, const struct waiter *waiter, unsigned states,
    const struct share *giver)
{
	return first_of_users(line, waiter, states, true, giver);
}

struct waiter *
line_who_wants(const struct line *line, int slot, const struct share *giver)
{
	struct waiter *waiter = line_first_able(line, LINE_WANTS, giver);

	while (waiter != NULL && waiter->kind == LOCK_KIND_PERSISTENT_MUTEX && slot != 1)
		waiter = line_next_able(line, waiter, LINE_WANTS, giver);
	return waiter;
}

int
line_position(const struct line *line, const struct waiter *waiter)
{
	const struct line_user *user;
	int position = 1;

	LIST_FOREACH (user, &line->users, of_line)
		position += (int)count_before(user->root, waiter);
	return position;
}
