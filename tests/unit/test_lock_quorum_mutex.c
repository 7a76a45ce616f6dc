/*
 * True mutexes that are held by quorum, over the server in memory. The settings of daemons 0 and 1 say
 * so, and those of daemon 2 another way. T is 20 s.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/broker/beads.h"
#include "tests/unit/quorum_fixture.h"
#include "tests/unit/test_lock.h"

#define QUEUE "lockbroker=q=mx"
#define POST "mx-M"
#define HOUR (3600 * SECOND)
#define MINUTE (60 * SECOND)

static void
set(int daemon, enum broker_way way)
{
	struct lock_settings settings = world_settings;

	settings.claim = way;
	settings.wall_clock = &world->wall;
	lock_engine_set(engine(daemon), &settings);
}

static void
setup(void)
{
	world_begin();
	set(0, BROKER_BY_QUORUM);
	set(1, BROKER_BY_QUORUM);
	set(2, BROKER_BY_QUEUE);
}

static void
ask(int daemon, uint64_t peer, uint64_t request, int64_t timeout)
{
	lock_acquire(engine(daemon), peer, request,
	    &(struct lock_acquire){
		.name = "mx", .kind = LOCK_KIND_MUTEX, .timeout = timeout, .uid = 1000});
}

static const struct said *
try(int daemon, uint64_t peer, uint64_t request)
{
	ask(daemon, peer, request, TRY);
	return world_await(world, daemon, peer, request);
}

static bool
exists(const char *queue)
{
	return memory_world_has(world->memory, queue, NULL);
}

/* It is acquired and released once. */
static void
use_once(void)
{
	release(0, 9, 2, try(0, 9, 1)->lock);
}

/* A daemon with another setting finds the way of the mutex, and its claims are refused meanwhile. */
START_TEST(the_first_use_makes_it)
{
	const struct said *answer;
	uint64_t fence;
	int64_t began;

	set(2, (enum broker_way)_i);
	/* The queue of the records is made with the first of all. */
	lock_acquire(engine(0), 8, 1,
	    &(struct lock_acquire){.name = "other", .kind = LOCK_KIND_MUTEX, .timeout = TRY});
	ck_assert_int_eq(world_await(world, 0, 8, 1)->reason, REASON_NONE);
	began = world->now;
	answer = try(0, 1, 1);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_int_ge(waited(answer, began), 2 * SECOND);
	ck_assert_int_le(waited(answer, began), 3 * SECOND);
	fence = answer->fence;
	ck_assert_uint_gt(fence, 0);
	ck_assert(exists(QUEUE) && exists(POST));
	for (int daemon = 0; daemon < 3; daemon++)
		ck_assert_int_eq(try(daemon, 2, 1)->reason, REASON_WOULD_BLOCK);
	release(0, 1, 2, answer->lock);
	began = world->now;
	for (int daemon = 2; daemon >= 0; daemon--) {
		ask(daemon, 3, 1, 5 * SECOND);
		answer = world_await(world, daemon, 3, 1);
		ck_assert_int_eq(answer->reason, REASON_NONE);
		ck_assert_uint_gt(answer->fence, fence);
		fence = answer->fence;
		release(daemon, 3, 2, answer->lock);
	}
	ck_assert_int_lt(world->now - began, 2 * SECOND);
}
END_TEST

/* As the other programs hold it: until it is free, and by consumer a minute longer. */
START_TEST(a_mutex_is_held_in_the_way_that_is_found)
{
	const struct said *answer;
	uint64_t lock;

	set(2, (enum broker_way)_i);
	answer = try(2, 1, 1);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_uint_eq(answer->fence, 0);
	lock = answer->lock;
	ck_assert_int_eq(try(0, 2, 1)->reason, REASON_WOULD_BLOCK);
	ask(1, 3, 1, DURATION_FOREVER);
	world_pass(world, MINUTE);
	ck_assert(is_waiting(1, 3, 1));
	ck_assert(!exists(QUEUE));
	release(2, 1, 2, lock);
	answer = world_await(world, 1, 3, 1);
	ck_assert_int_eq(answer->fence > 0, _i == BROKER_BY_QUEUE);
	release(1, 3, 2, answer->lock);
	world_pass(world, 61 * SECOND);
	ck_assert_uint_gt(try(0, 4, 1)->fence, 0);
}
END_TEST

START_TEST(two_first_users_make_one_set)
{
	const struct said *first, *second;

	ask(0, 1, 1, 30 * SECOND);
	ask(1, 2, 1, 30 * SECOND);
	for (int i = 0; i < 100 && is_waiting(0, 1, 1) && is_waiting(1, 2, 1); i++)
		world_pass(world, SOON);
	ck_assert(is_waiting(0, 1, 1) != is_waiting(1, 2, 1));
	first = is_waiting(0, 1, 1) ? world_answer(world, 1, 2, 1) : world_answer(world, 0, 1, 1);
	ck_assert_int_eq(first->reason, REASON_NONE);
	release(first->daemon, first->peer, 2, first->lock);
	second = first->daemon == 0 ? world_await(world, 1, 2, 1) : world_await(world, 0, 1, 1);
	ck_assert_int_eq(second->reason, REASON_NONE);
	ck_assert_uint_gt(second->fence, first->fence);
	release(second->daemon, second->peer, 2, second->lock);
	world_pass(world, SOON);
	ck_assert_uint_eq(memory_world_purge(world->memory, QUEUE), 3);
}
END_TEST

/* The maker dies after so many tenths of a second. A set that was unclean costs the next one a grace. */
START_TEST(the_work_of_a_dead_maker_is_completed)
{
	const struct said *answer;

	ask(0, 1, 1, 30 * SECOND);
	world_pass(world, _i * SOON);
	world_kill(world, 0);
	ask(1, 2, 1, DURATION_FOREVER);
	answer = world_await(world, 1, 2, 1);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	release(1, 2, 2, answer->lock);
	world_pass(world, SOON);
	ck_assert_uint_eq(memory_world_purge(world->memory, QUEUE), 3);
	ck_assert(exists(POST));
}
END_TEST

/* Its queue ends an hour after its last use. The clock goes back, and the floor makes the fences grow. */
START_TEST(its_fences_grow_although_nothing_is_left)
{
	uint64_t fence = 0;

	for (uint64_t i = 0; i < 3; i++) {
		const struct said *answer = try(0, 1, 10 * i + 1);

		ck_assert_int_eq(answer->reason, REASON_NONE);
		ck_assert_uint_gt(answer->fence, fence);
		release(0, 1, 10 * i + 2, answer->lock);
		/* It is used so often that its fences are above its epoch. */
		for (uint64_t j = 0; j < 6000; j++) {
			ask(1, 2, 10000 * i + 2 * j + 1, 5 * SECOND);
			answer = world_await(world, 1, 2, 10000 * i + 2 * j + 1);
			ck_assert_int_eq(answer->reason, REASON_NONE);
			ck_assert_uint_gt(answer->fence, fence);
			fence = answer->fence;
			release(1, 2, 10000 * i + 2 * j + 2, answer->lock);
			world->said_count = 0;
		}
		world->wall_ahead -= 24 * HOUR;
		world_pass(world, HOUR + MINUTE);
		ck_assert(!exists(QUEUE));
		ck_assert(exists(POST));
		world_pass(world, HOUR);
		ck_assert(!exists(POST));
	}
}
END_TEST

/* While the mutex is held, its post stands. After that it outlives the queue, and any daemon may make the queue. */
START_TEST(the_post_outlives_the_queue)
{
	const struct said *answer = try(0, 1, 1);

	world_pass(world, 5 * HOUR);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 0);
	ck_assert(exists(POST));
	release(0, 1, 2, answer->lock);
	for (int64_t passed = 0; exists(QUEUE); passed += MINUTE) {
		ck_assert_int_lt(passed, HOUR + 2 * MINUTE);
		ck_assert(exists(POST));
		world_pass(world, MINUTE);
	}
	ck_assert(exists(POST));
	set(2, (enum broker_way)_i);
	answer = try(2, 1, 1);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_uint_gt(answer->fence, 0);
}
END_TEST

/* Somebody deletes the post of a mutex that is free, or held. The next user declares it again. */
START_TEST(a_deleted_post_is_declared_again)
{
	const struct said *answer = try(0, 1, 1);
	uint64_t lock = answer->lock;

	if (_i == 0)
		release(0, 1, 2, lock);
	memory_world_remove(world->memory, POST);
	answer = try(1, 2, 1);
	ck_assert_int_eq(answer->reason, _i == 0 ? REASON_NONE : REASON_WOULD_BLOCK);
	ck_assert(exists(POST));
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 0);
}
END_TEST

/* During an alarm a mutex that exists can be acquired, and one that does not cannot be made. */
START_TEST(in_an_alarm_it_must_exist)
{
	const struct said *answer;

	if (_i == 0)
		use_once();
	world_alarm(world);
	for (int daemon = 0; daemon < 3; daemon++) {
		answer = try(daemon, 1, 1);
		if (_i == 0) {
			ck_assert_int_eq(answer->reason, REASON_NONE);
			ck_assert_uint_gt(answer->fence, 0);
			for (int other = 0; other < 3; other++)
				ck_assert_int_ne(
				    try(other, 2, (uint64_t)daemon + 1)->reason, REASON_NONE);
			release(daemon, 1, 2, answer->lock);
		} else if (daemon < 2) {
			ck_assert_int_eq(answer->reason, REASON_BROKER_BLOCKED);
		}
	}
	ck_assert_int_eq(exists(QUEUE), _i == 0);
}
END_TEST

/* After an unclean end the next one waits T, unless the client has stopped. */
START_TEST(an_unclean_end_is_as_of_a_slot)
{
	const struct said *answer = try(0, 1, 1);
	int64_t began;

	began = world->now;
	if (_i == 0) {
		world_kill(world, 0);
	} else {
		uint64_t lock = answer->lock;

		cut(0);
		lock_release(engine(0), 1, 2, lock);
	}
	ask(1, 2, 1, DURATION_FOREVER);
	answer = world_await(world, 1, 2, 1);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	if (_i == 0)
		ck_assert_int_ge(waited(answer, began), T - SOON);
	else
		ck_assert_int_lt(waited(answer, began), SECOND);
}
END_TEST

/* The beads are purged after an unclean end, and the client of a dead daemon works on until its lease is over. */
START_TEST(an_empty_queue_is_filled_after_a_grace)
{
	int64_t began, until = try(0, 1, 1)->safe_until;

	world_kill(world, 0);
	world_pass(world, SOON);
	ck_assert_uint_eq(memory_world_purge(world->memory, QUEUE), 3);
	began = world->now;
	ask(1, 2, 1, DURATION_FOREVER);
	ck_assert_int_eq(world_await(world, 1, 2, 1)->reason, REASON_NONE);
	ck_assert_int_ge(world->now, until);
	ck_assert_int_le(world->now - began, T + 10 * SECOND);
}
END_TEST

/* Four messages look like a free mutex. A claim finds out, and a maker publishes a third set. */
START_TEST(two_dead_makers_leave_no_mutex_that_looks_free)
{
	const struct bead left[] = {{.number = 1, .epoch = 7}, {.number = 3, .epoch = 7},
	    {.number = 1, .epoch = 8}, {.number = 3, .epoch = 8}};
	const struct said *answer = NULL;
	char text[BEAD_TEXT];

	use_once();
	world_pass(world, SOON);
	ck_assert_uint_eq(memory_world_purge(world->memory, QUEUE), 3);
	for (int i = 0; i < 4; i++) {
		struct bead bead = left[i];

		bead.grace = T;
		bead.major = 4;
		memory_world_publish(world->memory, QUEUE, bead_print(text, &bead));
	}
	if (_i == 0) {
		ask(1, 2, 1, DURATION_FOREVER);
		answer = world_await(world, 1, 2, 1);
	} else {
		/*
		 * Clients of two daemons try in turn. While one claims, the other one sees a busy mutex. Or they
		 * leave before the claim has ended, and the next one comes late.
		 */
		for (uint64_t n = 0; n < 60 && (answer == NULL || answer->reason != REASON_NONE);
		     n++) {
			ask((int)(n % 2), 2, 10 + n, TRY);
			if (_i == 1)
				(void)world_await(world, (int)(n % 2), 2, 10 + n);
			world_pass(world, SECOND);
			answer = world_answer(world, (int)(n % 2), 2, 10 + n);
			if (answer == NULL)
				lock_cancel(engine((int)(n % 2)), 2, 10 + n);
			if (answer == NULL)
				world_pass(world, MINUTE);
		}
	}
	ck_assert_ptr_nonnull(answer);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	release(answer->daemon, 2, 3, answer->lock);
	world_pass(world, SOON);
	ck_assert_uint_eq(memory_world_purge(world->memory, QUEUE), 3);
}
END_TEST

/* Another program takes it between the scan and the post. */
START_TEST(no_set_is_published_without_a_post)
{
	ask(0, 1, 1, DURATION_FOREVER);
	/* The administration mutex is taken after the scan. */
	while (!exists("mx"))
		ck_assert(world_step(world, SECOND));
	ck_assert(memory_world_put(world->memory, POST, true));
	world_pass(world, 10 * SECOND);
	ck_assert(is_waiting(0, 1, 1));
	ck_assert(!exists(QUEUE));
	ck_assert(memory_world_remove(world->memory, POST));
	ck_assert_uint_gt(world_await(world, 0, 1, 1)->fence, 0);
}
END_TEST

START_TEST(it_is_handed_off)
{
	uint64_t fence = try(0, 1, 1)->fence;
	const struct said *answer;

	ask(0, 2, 1, DURATION_FOREVER);
	world_pass(world, SECOND);
	release(0, 1, 2, world_answer(world, 0, 1, 1)->lock);
	answer = world_await(world, 0, 2, 1);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_uint_gt(answer->fence, fence);
}
END_TEST

START_TEST(a_server_that_has_no_such_slots_says_so)
{
	const struct said *answer;
	struct lock_settings settings = world_settings;

	settings.claim = BROKER_BY_QUORUM;
	settings.quorum_untested = false;
	lock_engine_set(engine(0), &settings);
	memory_world_set_version(world->memory, 3, 13);
	broker_reset(world->daemon[0].broker, BROKER_LOCKS, "another version");
	world_pass(world, 5 * SECOND);
	answer = try(0, 1, 1);
	ck_assert_int_eq(answer->reason, REASON_BROKER_REFUSED);
	ck_assert_str_eq(answer->text, "slots are held by quorum at RabbitMQ 4.0 or later alone");
}
END_TEST

START_TEST(it_is_explained)
{
	static const char *const busy[DAEMONS] = {
	    "here 1 waiting 0", "here 0 waiting 0", "here 0 waiting 0"};
	char expected[80];

	(void)try(0, 1, 1);
	for (int daemon = 0; daemon < DAEMONS; daemon++) {
		lock_explain(engine(daemon), 9, 2, "mx", LOCK_KIND_MUTEX);
		snprintf(
		    expected, sizeof(expected), "full 1/1 %s uncounted 0 quorum", busy[daemon]);
		ck_assert_str_eq(world_await(world, daemon, 9, 2)->detail, expected);
		lock_busy(engine(daemon), 9, 3, "mx");
		ck_assert_str_eq(world_await(world, daemon, 9, 3)->detail, "0");
	}
	release(0, 1, 2, world_answer(world, 0, 1, 1)->lock);
	world_pass(world, SOON);
	lock_explain(engine(2), 9, 4, "mx", LOCK_KIND_MUTEX);
	ck_assert_str_eq(
	    world_await(world, 2, 9, 4)->detail, "free 1/0 here 0 waiting 0 uncounted 0 quorum");
	lock_busy(engine(2), 9, 5, "mx");
	ck_assert_str_eq(world_await(world, 2, 9, 5)->detail, "");
}
END_TEST

Suite *
suite_lock_quorum_mutex(void)
{
	Suite *suite = suite_create("lock: quorum mutex");
	TCase *tc = tcase_create("quorum_mutex");

	tcase_add_checked_fixture(tc, setup, world_end);
	tcase_add_loop_test(tc, the_first_use_makes_it, BROKER_BY_QUEUE, BROKER_BY_QUORUM + 1);
	tcase_add_loop_test(
	    tc, a_mutex_is_held_in_the_way_that_is_found, BROKER_BY_QUEUE, BROKER_BY_CONSUMER + 1);
	tcase_add_test(tc, two_first_users_make_one_set);
	tcase_add_loop_test(tc, the_work_of_a_dead_maker_is_completed, 0, 30);
	tcase_add_test(tc, its_fences_grow_although_nothing_is_left);
	tcase_add_loop_test(
	    tc, the_post_outlives_the_queue, BROKER_BY_QUEUE, BROKER_BY_CONSUMER + 1);
	tcase_add_loop_test(tc, a_deleted_post_is_declared_again, 0, 2);
	tcase_add_loop_test(tc, in_an_alarm_it_must_exist, 0, 2);
	tcase_add_loop_test(tc, an_unclean_end_is_as_of_a_slot, 0, 2);
	tcase_add_test(tc, an_empty_queue_is_filled_after_a_grace);
	tcase_add_loop_test(tc, two_dead_makers_leave_no_mutex_that_looks_free, 0, 3);
	tcase_add_test(tc, no_set_is_published_without_a_post);
	tcase_add_test(tc, it_is_handed_off);
	tcase_add_test(tc, a_server_that_has_no_such_slots_says_so);
	tcase_add_test(tc, it_is_explained);
	suite_add_tcase(suite, tc);
	return suite;
}
