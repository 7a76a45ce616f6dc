/*
 * The local queue, compared with a plain list.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/backoff.h"
#include "daemon/lock/objects.h"
#include "tests/unit/lock_world.h"
#include "tests/unit/test_lock.h"

#define MOST 200
#define ROUNDS 4000
#define USERS 3

struct model {
	struct local_queue line;
	struct waiter *order[MOST]; /* as they stand */
	size_t count;
	struct jitter dice;
	uint64_t last_id;
	struct share users[USERS]; /* one of whom has no room */
};

static void
come(struct model *model)
{
	struct waiter *waiter = calloc(1, sizeof(*waiter));
	size_t place = model->count;

	waiter->id = ++model->last_id;
	waiter->priority = (int)jitter_below(&model->dice, 5) - 2;
	if (jitter_below(&model->dice, USERS + 1) > 0) /* else it is exempt */
		waiter->share = &model->users[jitter_below(&model->dice, USERS)];
	waiter->state = jitter_below(&model->dice, 4) == 0 ? WAITER_BEHIND : WAITER_NEW;
	while (place > 0 && model->order[place - 1]->priority < waiter->priority)
		place--;
	memmove(model->order + place + 1, model->order + place,
	    (model->count - place) * sizeof(struct waiter *));
	model->order[place] = waiter;
	model->count++;
	local_queue_join(&model->line, waiter);
}

static void
go(struct model *model, size_t place)
{
	struct waiter *waiter = model->order[place];

	local_queue_leave(waiter);
	free(waiter);
	model->count--;
	memmove(model->order + place, model->order + place + 1,
	    (model->count - place) * sizeof(struct waiter *));
}

static void
change(struct model *model, size_t place)
{
	static const enum waiter_state next[WAITER_STATES] = {
	    [WAITER_BEHIND] = WAITER_NEW,
	    [WAITER_NEW] = WAITER_SCANNED,
	    [WAITER_SCANNED] = WAITER_UNSEEN,
	    [WAITER_UNSEEN] = WAITER_WAITING,
	    [WAITER_WAITING] = WAITER_CLAIMING,
	    [WAITER_CLAIMING] = WAITER_RESTING,
	    [WAITER_RESTING] = WAITER_NEW,
	};
	struct waiter *waiter = model->order[place];

	local_queue_set_state(waiter, next[waiter->state]);
}

/* The first from `place` on, by the plain list. */
static const struct waiter *
expected(const struct model *model, size_t place, unsigned states)
{
	for (; place < model->count; place++) {
		if ((states & LOCAL_QUEUE_OF(model->order[place]->state)) != 0)
			return model->order[place];
	}
	return NULL;
}

static bool
is_able(const struct waiter *waiter, const struct share *giver)
{
	return waiter->share == giver || share_has_room(waiter->share);
}

/* The same for waiters that may take another channel. */
static void
compare_able(const struct model *model, unsigned states, const struct share *giver)
{
	const struct waiter *next = NULL;

	for (size_t i = model->count; i-- > 0;) {
		ck_assert_ptr_eq(
		    local_queue_next_able(&model->line, model->order[i], states, giver), next);
		if ((states & LOCAL_QUEUE_OF(model->order[i]->state)) != 0 &&
		    is_able(model->order[i], giver))
			next = model->order[i];
	}
	ck_assert_ptr_eq(local_queue_first_able(&model->line, states, giver), next);
}

static void
compare(const struct model *model)
{
	static const unsigned sets[] = {LOCAL_QUEUE_ALL, LOCAL_QUEUE_READY,
	    LOCAL_QUEUE_OF(WAITER_BEHIND),
	    LOCAL_QUEUE_OF(WAITER_UNSEEN) | LOCAL_QUEUE_OF(WAITER_RESTING)};

	for (size_t set = 0; set < sizeof(sets) / sizeof(sets[0]); set++) {
		unsigned count = 0;

		ck_assert_ptr_eq(
		    local_queue_first(&model->line, sets[set]), expected(model, 0, sets[set]));
		for (size_t i = 0; i < model->count; i++) {
			count += (sets[set] & LOCAL_QUEUE_OF(model->order[i]->state)) != 0;
			ck_assert_ptr_eq(local_queue_next(&model->line, model->order[i], sets[set]),
			    expected(model, i + 1, sets[set]));
		}
		ck_assert_uint_eq(local_queue_count(&model->line, sets[set]), count);
		compare_able(model, sets[set], NULL);
		compare_able(model, sets[set], &model->users[0]);
	}
	for (size_t i = 0; i < model->count; i++)
		ck_assert_int_eq(local_queue_position(&model->line, model->order[i]), (int)i + 1);
}

START_TEST(the_local_queue_orders_waiters_as_a_plain_list_does)
{
	struct model model = {.count = 0};

	jitter_init(&model.dice, (uint64_t)_i + 1);
	for (int i = 1; i < USERS; i++)
		model.users[i].most = 1;
	for (int round = 0; round < ROUNDS; round++) {
		int64_t what = jitter_below(&model.dice, 10);

		if (model.count < MOST && (model.count == 0 || what < 3))
			come(&model);
		else if (what < 5)
			go(&model, (size_t)jitter_below(&model.dice, (int64_t)model.count));
		else
			change(&model, (size_t)jitter_below(&model.dice, (int64_t)model.count));
		if (round % 100 == 0)
			compare(&model);
	}
	while (model.count > 0)
		go(&model, model.count - 1);
	ck_assert_ptr_null(local_queue_first(&model.line, LOCAL_QUEUE_ALL));
}
END_TEST

/* Each dirty mark once walked the whole queue: as many steps again for every served waiter. */
START_TEST(waiters_cost_nothing_while_others_are_served)
{
	const uint64_t waiters = 50000, served = 1000;
	struct lock_world *world = world_new();
	uint64_t lock;

	world_make(world, "db", 1);
	world_acquire(world, 0, 1, 1, "db", 0);
	lock = world_await(world, 0, 1, 1)->lock;
	for (uint64_t i = 0; i < waiters; i++)
		world_acquire(world, 0, 2 + i / 1000, 1 + i % 1000, "db", DURATION_FOREVER);
	world_pass(world, NSEC_PER_SEC);
	lock_release(world->daemon[0].engine, 1, 2, lock);
	for (uint64_t i = 0; i < served; i++) {
		lock = world_await(world, 0, 2, 1 + i)->lock;
		ck_assert_uint_ne(lock, 0);
		world->said_count = 0;
		/* And a newcomer comes, which causes a scan. */
		world_acquire(world, 0, 1, 3 + i, "db", DURATION_FOREVER);
		lock_release(world->daemon[0].engine, 2, 2000, lock);
	}
	world_free(world);
}
END_TEST

Suite *
suite_lock_local_queue(void)
{
	Suite *suite = suite_create("lock: local queue");
	TCase *tc = tcase_create("line");

	tcase_add_loop_test(tc, the_local_queue_orders_waiters_as_a_plain_list_does, 0, 4);
	tcase_add_test(tc, waiters_cost_nothing_while_others_are_served);
	suite_add_tcase(suite, tc);
	return suite;
}
