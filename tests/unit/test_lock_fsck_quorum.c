/*
 * The problems of slots that are held by quorum, and their repair, over the server in memory. Each damage is
 * made as a foreign program makes it. After each repair a slot is granted with a larger fence. T is 20 s.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/broker/beads.h"
#include "daemon/lock/engine.h"
#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

#define T (20 * SECOND)
#define SOON (SECOND / 10)
#define SLOTS 3
#define RECORDS_QUEUE "lockbroker=quorum"

static uint64_t last_request;
static uint64_t last_fence; /* of the newest grant of slot 1 */

static const char *
b(int slot)
{
	static char text[64];

	snprintf(text, sizeof(text), "lockbroker=q=db=%d", slot);
	return text;
}

/* Changes and repairs can wait for the longest T. */
static const struct said *
await(int daemon, uint64_t peer, uint64_t request)
{
	for (int i = 0; i < 100 && world_answer(world, daemon, peer, request) == NULL; i++)
		world_pass(world, i < 20 ? SECOND / 2 : 10 * SECOND);
	ck_assert_ptr_nonnull(world_answer(world, daemon, peer, request));
	return world_answer(world, daemon, peer, request);
}

static const struct said *
change(
    void (*order)(struct lock_engine *, uint64_t, uint64_t, const struct lock_change *), int slots)
{
	const struct lock_change wanted = {
	    .name = "db", .slots = slots, .claim = LOCK_CLAIM_BY_QUORUM};

	order(engine(2), 9, ++last_request, &wanted);
	return await(2, 9, last_request);
}

static const struct said *
take(int daemon, int64_t timeout)
{
	return acquire(daemon, 1, ++last_request, "db", timeout);
}

/* Slot 1 is granted, at once, with a larger fence than ever before, and is free again. */
static void
check_grant(void)
{
	int64_t began = world->now;
	const struct said *answer = take(0, TRY);

	ck_assert_msg(answer->reason == REASON_NONE, "%s", answer->text);
	ck_assert_int_eq(answer->slot, 1);
	ck_assert_int_lt(answer->at - began, SECOND);
	ck_assert_uint_gt(answer->fence, last_fence);
	last_fence = answer->fence;
	release(0, 1, ++last_request, answer->lock);
}

static void
setup_slots(int slots)
{
	world_begin();
	last_request = 100;
	last_fence = 0;
	ck_assert_int_eq(change(lock_create, slots)->reason, REASON_NONE);
	check_grant();
}

static void
setup(void)
{
	setup_slots(SLOTS);
}

static void
teardown(void)
{
	for (int i = 0; i < DAEMONS; i++)
		ck_assert_ptr_null(engine(i)->fscks);
	world_end();
}

static const struct said *
run(bool repair)
{
	uint64_t request = ++last_request;

	lock_fsck(engine(1), 5, request, &(struct lock_check){.name = "db", .repair = repair});
	return await(1, 5, request);
}

static void
check_run(bool repair, const char *findings)
{
	const struct said *answer = run(repair);

	ck_assert_msg(answer->reason == REASON_NONE, "%s", answer->text);
	ck_assert_str_eq(answer->detail, findings);
}

/* It is found, repaired, and gone. Other slots are as they were. */
static void
check_repair(const char *found, const char *repaired)
{
	check_run(false, found);
	check_run(false, found);
	check_run(true, repaired);
	check_run(false, "");
	check_grant();
}

static void
publish(int slot, unsigned number, uint64_t epoch, uint64_t publisher, unsigned major)
{
	const struct bead bead = {
	    .number = number, .epoch = epoch, .publisher = publisher, .grace = T, .major = major};
	char text[BEAD_TEXT];

	memory_world_publish(world->memory, b(slot), bead_print(text, &bead));
}

static void
publish_set(int slot, uint64_t epoch, uint64_t publisher, unsigned major)
{
	for (unsigned number = 1; number <= BEADS; number++)
		publish(slot, number, epoch, publisher, major);
}

static void
read_bead(void *ctx, const char *body)
{
	struct bead bead;

	if (bead_read(body, strlen(body), &bead))
		*(struct bead *)ctx = bead;
}

/* One of the slot's beads. */
static struct bead
bead_of(int slot)
{
	struct bead bead = {0};

	world_pass(world, SOON);
	memory_world_each_message(world->memory, b(slot), read_bead, &bead);
	ck_assert_uint_gt(bead.epoch, 0);
	return bead;
}

static void
lose(int slot)
{
	ck_assert(memory_world_lose(world->memory, b(slot)));
}

/* ---- sound ones ---- */

static const unsigned versions[][2] = {{3, 10}, {4, 0}, {4, 3}};

static void
setup_no_slots(void)
{
	world_begin();
	last_request = 100;
	last_fence = 0;
}

/* A clean slot stays clean, so the next holder need not wait. */
START_TEST(a_look_leaves_free_slots_as_they_are)
{
	struct lock_settings settings = world_settings;

	settings.quorum_untested = true;
	for (int i = 0; i < DAEMONS; i++)
		lock_engine_set(engine(i), &settings);
	memory_world_set_version(world->memory, versions[_i][0], versions[_i][1]);
	ck_assert_int_eq(change(lock_create, 2)->reason, REASON_NONE);
	for (int i = 0; i < 3; i++) {
		check_run(false, "");
		check_grant();
		check_run(true, "");
		check_grant();
	}
	ck_assert_uint_eq(bead_of(1).epoch, last_fence >> 20);
}
END_TEST

START_TEST(holders_and_waiters_lose_nothing)
{
	const struct said *answer;
	uint64_t lock;

	for (int slot = 1; slot <= SLOTS; slot++) {
		answer = take(0, TRY);
		ck_assert_int_eq(answer->slot, slot);
	}
	lock = answer->lock;
	world_acquire(world, 2, 3, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	check_run(false, "");
	check_run(true, "");
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 0);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_SUSPECT), 0);
	release(0, 1, ++last_request, lock);
	ck_assert_int_eq(world_await(world, 2, 3, 1)->slot, SLOTS);
	check_run(false, "");
}
END_TEST

/* It is no problem: the next holder waits. */
START_TEST(an_unclean_end_is_none)
{
	int64_t began;

	ck_assert_int_eq(take(0, TRY)->slot, 1);
	world_kill(world, 0);
	began = world->now;
	check_run(false, "");
	world_acquire(world, 1, 3, 1, "db", DURATION_FOREVER);
	for (int slot = 2; slot <= SLOTS; slot++)
		lose(slot);
	ck_assert_int_ge(world_await(world, 1, 3, 1)->at - began, SECOND);
}
END_TEST

/* ---- the messages of a slot ---- */

START_TEST(a_purge)
{
	lose(1);
	lose(3);
	check_repair("no-beads:1 no-beads:3", "no-beads:1! no-beads:3!");
}
END_TEST

START_TEST(a_part_of_a_set)
{
	struct bead bead = bead_of(1);

	lose(1);
	publish(1, 2, bead.epoch, bead.publisher, 4);
	check_repair("no-beads:1", "no-beads:1!");
	lose(2);
	publish(2, 1, bead.epoch, bead.publisher, 4);
	publish(2, 3, bead.epoch, bead.publisher, 4);
	publish(2, 2, bead.epoch, bead.publisher + 1, 4);
	check_repair("no-beads:2", "no-beads:2!");
}
END_TEST

/* RabbitMQ has lost it. A consume would end the connection, and with it all that fsck and its mutex do there. */
START_TEST(a_queue_that_no_node_leads)
{
	lose(1);
	ck_assert(memory_world_refuse_consumers(world->memory, b(1), true));
	check_run(false, "unreachable:1");
	lose(2);
	check_run(true, "unreachable:1 no-beads:2!");
	ck_assert_int_eq(change(lock_resize, SLOTS + 1)->reason, REASON_NONE);
	ck_assert_int_eq(change(lock_resize, SLOTS)->reason, REASON_NONE);
	ck_assert_int_eq(change(lock_resize, 0)->reason, REASON_BROKER_UNAVAILABLE);
	check_run(true, "unreachable:1 gap:2! gap:3!");
	/* The conversion goes down to it, and stops. */
	lock_fsck(engine(1), 5, ++last_request,
	    &(struct lock_check){.name = "db", .convert = LOCK_CLAIM_BY_QUEUE, .repair = true});
	ck_assert_int_eq(await(1, 5, last_request)->reason, REASON_NONE);
	check_run(true, "unreachable:1 gap:2! gap:3!");
	/* As its administrator does. */
	ck_assert(memory_world_remove(world->memory, b(1)));
	check_repair("gap:1", "gap:1!");
}
END_TEST

START_TEST(a_bead_twice)
{
	struct bead bead = bead_of(1);

	publish(1, 2, bead.epoch, bead.publisher, 4);
	check_repair("odd-beads:1", "odd-beads:1!");
}
END_TEST

/* A set whose publisher died, above the one that is used. */
START_TEST(a_part_of_a_newer_set)
{
	struct bead bead = bead_of(1);

	publish(1, 1, bead.epoch + 50, 7, 4);
	publish(1, 3, bead.epoch + 50, 7, 4);
	check_repair("record:0 odd-beads:1", "record:0! odd-beads:1!");
}
END_TEST

/* The claim removes them, so no set is published: the epoch stays. */
START_TEST(older_beads_beside_the_set)
{
	struct bead bead = bead_of(1);

	publish(1, 1, bead.epoch - 1, 7, 4);
	check_repair("odd-beads:1", "odd-beads:1!");
	ck_assert_uint_eq(bead_of(1).epoch, bead.epoch);
	ck_assert_uint_eq(bead_of(1).publisher, bead.publisher);
}
END_TEST

START_TEST(two_sets_of_one_epoch)
{
	publish_set(1, bead_of(1).epoch, 7, 4);
	check_repair("two-sets:1", "two-sets:1!");
}
END_TEST

START_TEST(beads_of_another_version)
{
	struct bead bead = bead_of(2);

	lose(2);
	publish_set(2, bead.epoch, bead.publisher, 3);
	check_repair("version:2", "version:2!");
}
END_TEST

START_TEST(foreign_messages)
{
	struct bead bead = bead_of(1);

	memory_world_publish(world->memory, b(1), "hello");
	memory_world_publish(world->memory, b(1), "bead 4");
	check_repair("foreign:1", "foreign:1!");
	ck_assert_uint_eq(bead_of(1).epoch, bead.epoch);
	for (int i = 0; i < 100; i++)
		memory_world_publish(world->memory, b(2), "hello");
	check_repair("foreign:2", "foreign:2!");
	for (int i = 0; i < 1100; i++)
		memory_world_publish(world->memory, b(2), "hello");
	check_repair("foreign:2", "foreign:2!");
}
END_TEST

/* The records say a smaller epoch than the messages. A later set must have a larger one all the same. */
START_TEST(a_forged_epoch)
{
	uint64_t epoch = bead_of(1).epoch + 1000000;

	lose(1);
	publish_set(1, epoch, 7, 4);
	publish(1, 1, epoch + 1000, 8, 4);
	check_repair("record:0 odd-beads:1", "record:0! odd-beads:1!");
	ck_assert_uint_gt(last_fence >> 20, epoch + 1000);
}
END_TEST

/* No epoch is above it. When the queue is deleted, the slot is repaired as usual. */
START_TEST(the_largest_epoch)
{
	const struct said *answer;

	publish(1, 1, BEAD_EPOCH_MOST, 8, 4);
	answer = run(true);
	ck_assert_int_eq(answer->reason, REASON_BROKER_REFUSED);
	ck_assert_ptr_nonnull(strstr(answer->text, "by hand"));
	ck_assert(memory_world_remove(world->memory, b(1)));
	check_repair("gap:1", "gap:1!");
}
END_TEST

/* ---- the queues ---- */

START_TEST(a_queue_of_another_type)
{
	ck_assert(memory_world_remove(world->memory, b(1)));
	ck_assert(memory_world_put(world->memory, b(1), false));
	check_repair("queue-type:1", "queue-type:1!");
}
END_TEST

/* Its beads are claimed before it is deleted, so later fences are larger. */
START_TEST(a_queue_with_other_arguments)
{
	uint64_t epoch = bead_of(1).epoch + 500000;

	ck_assert(memory_world_remove(world->memory, b(1)));
	ck_assert(memory_world_put_quorum(world->memory, b(1)));
	publish_set(1, epoch, 7, 4);
	check_repair("queue-arguments:1", "queue-arguments:1!");
	ck_assert_uint_gt(last_fence >> 20, epoch);
	ck_assert(memory_world_remove(world->memory, b(1)));
	ck_assert(memory_world_put_quorum(world->memory, b(1)));
	check_repair("queue-arguments:1", "queue-arguments:1!");
}
END_TEST

START_TEST(a_deleted_queue)
{
	ck_assert(memory_world_remove(world->memory, b(1)));
	ck_assert(memory_world_remove(world->memory, b(3)));
	check_repair("gap:1 gap:3", "gap:1! gap:3!");
	for (int slot = 1; slot <= SLOTS; slot++)
		ck_assert(memory_world_remove(world->memory, b(slot)));
	check_repair("gap:1 gap:2 gap:3", "gap:1! gap:2! gap:3!");
}
END_TEST

START_TEST(a_post_that_is_gone)
{
	ck_assert(memory_world_remove(world->memory, "db-G"));
	ck_assert_int_eq(take(2, TRY)->reason, REASON_NO_SUCH_LOCK);
	check_repair("markers:0", "markers:0!");
}
END_TEST

/* A foreign queue far above the others has no effect. */
START_TEST(a_queue_above_a_missing_one)
{
	ck_assert(memory_world_put_quorum(world->memory, b(SLOTS + 5)));
	check_repair("gap:4 gap:5 gap:6 gap:7 uncounted:8 queue-arguments:8",
	    "gap:4! gap:5! gap:6! gap:7! uncounted:8! queue-arguments:8!");
	ck_assert(!memory_world_has(world->memory, b(SLOTS + 5), NULL));
}
END_TEST

/* ---- the records ---- */

START_TEST(a_missing_record)
{
	ck_assert(memory_world_remove(world->memory, RECORDS_QUEUE));
	check_repair("no-record:0", "no-record:0!");
}
END_TEST

/* Definitions were imported without messages. No T is known, so the longest is waited. */
START_TEST(definitions_without_messages)
{
	int64_t began;

	lose(1);
	lose(2);
	lose(3);
	ck_assert(memory_world_lose(world->memory, RECORDS_QUEUE));
	began = world->now;
	check_repair("no-record:0 no-beads:1 no-beads:2 no-beads:3",
	    "no-record:0! no-beads:1! no-beads:2! no-beads:3!");
	ck_assert_int_ge(world->now - began, BEAD_GRACE_MOST);
}
END_TEST

static enum broker_answer made;

static void
on_made(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	(void)ctx;
	(void)id;
	made = reply->answer;
}

static enum broker_answer
make(int slot, struct broker_beads wanted)
{
	wanted.grace = T;
	made = BROKER_SKIPPED;
	broker_make_beads(
	    world->daemon[2].broker, b(slot), &wanted, (struct broker_done){.fn = on_made});
	for (int i = 0; i < 600 && made == BROKER_SKIPPED; i++)
		world_pass(world, SOON);
	return made;
}

START_TEST(a_record_of_fewer_slots)
{
	ck_assert_int_eq(
	    make(SLOTS + 1, (struct broker_beads){.epoch = bead_of(1).epoch}), BROKER_OK);
	check_repair("record:0", "record:0!");
}
END_TEST

/* The name is gone by other means than destroy. */
START_TEST(a_stale_record)
{
	ck_assert_int_eq(change(lock_resize, 0)->reason, REASON_NONE);
	check_run(false, "");
	ck_assert(memory_world_remove(world->memory, "db-G"));
	check_run(false, "listed-missing:0 stale-record:0");
	check_run(true, "listed-missing:0! stale-record:0!");
	ck_assert_int_eq(run(false)->reason, REASON_NO_SUCH_LOCK);
	/* The floor stays. */
	ck_assert_int_eq(change(lock_create, 1)->reason, REASON_NONE);
	check_grant();
}
END_TEST

START_TEST(destroy_of_a_gate_leaves_no_record)
{
	ck_assert_int_eq(change(lock_resize, 0)->reason, REASON_NONE);
	ck_assert_int_eq(change(lock_destroy, 0)->reason, REASON_NONE);
	ck_assert_int_eq(run(false)->reason, REASON_NO_SUCH_LOCK);
	ck_assert_int_eq(change(lock_create, 1)->reason, REASON_NONE);
	check_grant();
}
END_TEST

/* As an older daemon leaves them if slot 1 was deleted by hand before its destroy. */
START_TEST(queues_that_a_destroy_has_not_seen)
{
	const struct lock_change other = {.name = "x", .slots = 1, .claim = LOCK_CLAIM_BY_QUORUM};

	ck_assert(memory_world_remove(world->memory, b(1)));
	ck_assert(memory_world_remove(world->memory, "db-G"));
	ck_assert(memory_world_remove(world->memory, RECORDS_QUEUE));
	lock_create(engine(2), 9, ++last_request, &other);
	ck_assert_int_eq(await(2, 9, last_request)->reason, REASON_NONE);
	check_run(false, "listed-missing:0 gap:1 uncounted:2 uncounted:3");
	check_run(true, "listed-missing:0! gap:1! uncounted:2! uncounted:3!");
	ck_assert_int_eq(run(false)->reason, REASON_NO_SUCH_LOCK);
}
END_TEST

START_TEST(an_unused_server_gets_no_records)
{
	ck_assert(memory_world_put(world->memory, "db-G", false));
	ck_assert_int_eq(run(false)->reason, REASON_NONE);
	ck_assert_int_eq(change(lock_destroy, 0)->reason, REASON_NONE);
	ck_assert_int_eq(run(true)->reason, REASON_NO_SUCH_LOCK);
	ck_assert(!memory_world_has(world->memory, RECORDS_QUEUE, NULL));
}
END_TEST

/* ---- nobody believes beside another one ---- */

/* An earlier holder may believe in its hold for T, though its beads are gone. */
START_TEST(a_repair_waits_for_earlier_holders)
{
	int64_t began;

	ck_assert_int_eq(take(0, TRY)->slot, 1);
	lose(1);
	world_kill(world, 0);
	began = world->now;
	lock_fsck(engine(1), 5, ++last_request, &(struct lock_check){.name = "db", .repair = true});
	world_pass(world, T);
	ck_assert_int_eq(acquire(1, 7, ++last_request, "db", TRY)->slot, 2);
	ck_assert_int_eq(acquire(1, 7, ++last_request, "db", TRY)->slot, 3);
	world_acquire(world, 1, 7, 1, "db", DURATION_FOREVER);
	ck_assert_int_eq(world_await(world, 1, 7, 1)->slot, 1);
	ck_assert_int_ge(world_answer(world, 1, 7, 1)->at - began, T);
}
END_TEST

enum forgetting { BY_DESTROY, BY_DESTROY_OF_ALL, BY_RESIZE, FORGETTINGS };

/*
 * The queue of a held slot is deleted while its holder is cut off. An administrator removes the rest, and makes
 * the slot again: the next holder still waits until the first one has stopped.
 */
START_TEST(a_missing_slot_is_not_forgotten)
{
	int last = _i == BY_DESTROY_OF_ALL ? 1 : SLOTS;
	const struct said *answer = NULL;
	int64_t began;
	uint64_t fence;

	for (int slot = 1; slot <= last; slot++)
		answer = acquire(0, 1, ++last_request, "db", TRY);
	ck_assert_int_eq(answer->slot, last);
	fence = answer->fence;
	world_kill(world, 0);
	began = world->now;
	for (int slot = last; slot <= SLOTS; slot++)
		ck_assert(memory_world_remove(world->memory, b(slot)));
	if (_i == BY_RESIZE) {
		world_pass(world, T + SECOND);
		ck_assert_int_eq(change(lock_resize, 1)->reason, REASON_NONE);
		began = world->now;
		ck_assert_int_eq(change(lock_resize, SLOTS)->reason, REASON_NONE);
		ck_assert_int_lt(world->now - began, T);
	} else {
		ck_assert_int_eq(change(lock_destroy, 0)->reason, REASON_NONE);
		ck_assert_int_eq(change(lock_create, SLOTS)->reason, REASON_NONE);
	}
	do
		answer = acquire(1, 1, ++last_request, "db", DURATION_FOREVER);
	while (answer->slot != last);
	ck_assert_int_ge(answer->at - began, _i == BY_RESIZE ? 0 : T);
	ck_assert_uint_gt(answer->fence, fence);
}
END_TEST

/*
 * The make of slot 2 gets no answer, so that both are made again. Meanwhile slot 1 has had a holder, and lost its
 * beads.
 */
START_TEST(slots_that_are_made_again_have_perhaps_holders)
{
	const struct lock_change wanted = {.name = "db", .slots = 2, .claim = LOCK_CLAIM_BY_QUORUM};
	const struct said *answer;
	int64_t began;
	uint64_t fence;

	ck_assert_int_eq(change(lock_destroy, 0)->reason, REASON_NONE);
	lock_create(engine(2), 9, ++last_request, &wanted);
	world_pass(world, SECOND);
	memory_world_set_rejects(world->memory, b(2), MEMORY_REJECTS_LOST);
	world_pass(world, 2 * SECOND);
	answer = acquire(0, 1, 1, "db", TRY);
	ck_assert_int_eq(answer->slot, 1);
	fence = answer->fence;
	world_kill(world, 0);
	began = world->now;
	lose(1);
	memory_world_set_rejects(world->memory, b(2), MEMORY_REJECTS_TAKEN);
	ck_assert_int_eq(await(2, 9, last_request)->reason, REASON_NONE);
	do
		answer = acquire(1, 1, ++last_request, "db", DURATION_FOREVER);
	while (answer->slot != 1);
	ck_assert_int_ge(answer->at - began, T);
	ck_assert_uint_gt(answer->fence, fence);
}
END_TEST

/* The holder of a slot beside damaged ones goes on. */
START_TEST(a_held_slot_is_not_repaired)
{
	const struct said *answer = take(0, TRY);
	uint64_t lock = answer->lock;

	ck_assert_int_eq(answer->slot, 1);
	lose(2);
	ck_assert(memory_world_remove(world->memory, RECORDS_QUEUE));
	memory_world_publish(world->memory, b(1), "hello");
	world_pass(world, SOON);
	check_run(true, "no-record:0! no-beads:2!");
	ck_assert_int_eq(
	    make(1,
		(struct broker_beads){.epoch = bead_of(2).epoch + 1, .wait = T, .repairs = true}),
	    BROKER_LOCKED);
	world_pass(world, 2 * T);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 0);
	lock_verify(engine(0), 1, ++last_request, lock, 0);
	ck_assert_int_eq(world_await(world, 0, 1, last_request)->reason, REASON_NONE);
}
END_TEST

/* The T of a held slot is not known. So a record that is made anew has the longest one. */
START_TEST(a_new_record_covers_held_slots)
{
	int64_t began;

	ck_assert_int_eq(take(0, TRY)->slot, 1);
	ck_assert(memory_world_remove(world->memory, RECORDS_QUEUE));
	check_run(true, "no-record:0!");
	lose(2);
	began = world->now;
	check_run(true, "no-beads:2!");
	ck_assert_int_ge(world->now - began, BEAD_GRACE_MOST);
}
END_TEST

/*
 * The record of an earlier repair says the longest T, and a slot that it counts is missing. A resize makes it
 * after that time, and keeps the mutex until then. Clients can have the other slots meanwhile.
 */
START_TEST(a_resize_waits_for_the_longest_grace)
{
	const struct lock_change wanted = {
	    .name = "db", .slots = SLOTS, .claim = LOCK_CLAIM_BY_QUORUM, .takeover_grace = T};
	uint64_t request = ++last_request;
	const struct said *answer = take(0, TRY);
	int64_t began;

	ck_assert_int_eq(answer->slot, 1);
	ck_assert(memory_world_remove(world->memory, RECORDS_QUEUE));
	check_run(true, "no-record:0!");
	world_kill(world, 0);
	ck_assert(memory_world_remove(world->memory, b(1)));
	began = world->now;
	lock_resize(engine(2), 9, request, &wanted);
	world_pass(world, BEAD_GRACE_MOST / 2);
	ck_assert_int_eq(take(1, TRY)->slot, 2);
	ck_assert_int_eq(run(true)->reason, REASON_TIMEOUT);
	world_pass(world, BEAD_GRACE_MOST - (world->now - began));
	ck_assert_ptr_null(world_answer(world, 2, 9, request));
	ck_assert_int_eq(await(2, 9, request)->reason, REASON_NONE);
	ck_assert_int_lt(
	    world_answer(world, 2, 9, request)->at - began, BEAD_GRACE_MOST + 10 * SECOND);
}
END_TEST

/* It has a complete set, so no other one is published. */
START_TEST(a_sound_slot_gets_no_set)
{
	uint64_t epoch = bead_of(1).epoch;

	ck_assert_int_eq(
	    make(1, (struct broker_beads){.epoch = epoch + 9, .repairs = true}), BROKER_OK);
	ck_assert_uint_eq(bead_of(1).epoch, epoch);
}
END_TEST

/* Two publishers of one name have different epochs. */
START_TEST(a_newer_set_is_not_replaced)
{
	uint64_t epoch = bead_of(1).epoch;

	publish(1, 1, epoch + 9, 7, 4);
	ck_assert_int_eq(
	    make(1, (struct broker_beads){.epoch = epoch + 9, .repairs = true}), BROKER_LOCKED);
}
END_TEST

/* The lock of the records excludes other administrators. */
START_TEST(another_administrator_is_waited_for)
{
	const struct said *answer;
	uint64_t session;

	lose(1);
	made = BROKER_SKIPPED;
	session = broker_records_open(world->daemon[2].broker, (struct broker_done){.fn = on_made});
	world_pass(world, SECOND);
	ck_assert_int_eq(made, BROKER_OK);
	answer = run(true);
	ck_assert_int_eq(answer->reason, REASON_WOULD_BLOCK);
	ck_assert_str_eq(answer->text, "another administrator works on slots held by quorum");
	broker_records_close(world->daemon[2].broker, session);
	world_pass(world, SECOND);
	check_run(true, "no-beads:1!");
}
END_TEST

START_TEST(an_alarm_ends_it)
{
	lose(1);
	world_alarm(world);
	ck_assert_int_eq(run(true)->reason, REASON_BROKER_BLOCKED);
	memory_world_block(world->memory, false);
	world_pass(world, SECOND);
	check_run(true, "no-beads:1!");
	check_grant();
}
END_TEST

/* After so many timers more, each time. The last cut comes after the end. */
#define CUT_STEPS 61
#define CUTS 40

/* The connection ends at any time of a repair. The next repair completes it. */
START_TEST(a_repair_that_is_cut_is_completed)
{
	struct broker *broker = world->daemon[1].broker;
	const struct said *answer;
	uint64_t request;

	lose(1);
	ck_assert(memory_world_remove(world->memory, b(2)));
	ck_assert(memory_world_remove(world->memory, b(3)));
	ck_assert(memory_world_put(world->memory, b(3), false));
	ck_assert(memory_world_remove(world->memory, "db-G"));
	request = ++last_request;
	lock_fsck(engine(1), 5, request, &(struct lock_check){.name = "db", .repair = true});
	for (int step = 0; step < CUT_STEPS * _i; step++)
		if (!world_step(world, SECOND))
			world_pass(world, SECOND);
	if (_i == CUTS - 1)
		ck_assert_ptr_nonnull(world_answer(world, 1, 5, request));
	broker_reset(broker, BROKER_AUXILIARY, "cut");
	world_pass(world, SECOND);
	answer = run(true);
	ck_assert_msg(answer->reason == REASON_NONE, "%s", answer->text);
	check_run(false, "");
	/* Perhaps it was cut before the new set was made clean. The next holder waits then. */
	for (int slot = 1; slot <= SLOTS; slot++) {
		answer = take(0, DURATION_FOREVER);
		ck_assert_int_eq(answer->reason, REASON_NONE);
		ck_assert_uint_gt(answer->fence, last_fence);
	}
}
END_TEST

Suite *
suite_lock_fsck_quorum(void)
{
	Suite *suite = suite_create("lock: fsck of slots by quorum");
	TCase *tc = tcase_create("fsck_quorum"), *cut = tcase_create("fsck_quorum_cut");
	TCase *none = tcase_create("fsck_quorum_none");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, holders_and_waiters_lose_nothing);
	tcase_add_test(tc, an_unclean_end_is_none);
	tcase_add_test(tc, a_purge);
	tcase_add_test(tc, a_part_of_a_set);
	tcase_add_test(tc, a_queue_that_no_node_leads);
	tcase_add_test(tc, a_bead_twice);
	tcase_add_test(tc, a_part_of_a_newer_set);
	tcase_add_test(tc, older_beads_beside_the_set);
	tcase_add_test(tc, two_sets_of_one_epoch);
	tcase_add_test(tc, beads_of_another_version);
	tcase_add_test(tc, foreign_messages);
	tcase_add_test(tc, a_forged_epoch);
	tcase_add_test(tc, the_largest_epoch);
	tcase_add_test(tc, a_queue_of_another_type);
	tcase_add_test(tc, a_queue_with_other_arguments);
	tcase_add_test(tc, a_deleted_queue);
	tcase_add_test(tc, a_post_that_is_gone);
	tcase_add_test(tc, a_queue_above_a_missing_one);
	tcase_add_test(tc, a_missing_record);
	tcase_add_test(tc, definitions_without_messages);
	tcase_add_test(tc, a_record_of_fewer_slots);
	tcase_add_test(tc, a_stale_record);
	tcase_add_test(tc, destroy_of_a_gate_leaves_no_record);
	tcase_add_test(tc, queues_that_a_destroy_has_not_seen);
	tcase_add_test(tc, a_repair_waits_for_earlier_holders);
	tcase_add_loop_test(tc, a_missing_slot_is_not_forgotten, 0, FORGETTINGS);
	tcase_add_test(tc, slots_that_are_made_again_have_perhaps_holders);
	tcase_add_test(tc, a_held_slot_is_not_repaired);
	tcase_add_test(tc, a_new_record_covers_held_slots);
	tcase_add_test(tc, a_resize_waits_for_the_longest_grace);
	tcase_add_test(tc, a_sound_slot_gets_no_set);
	tcase_add_test(tc, a_newer_set_is_not_replaced);
	tcase_add_test(tc, another_administrator_is_waited_for);
	tcase_add_test(tc, an_alarm_ends_it);
	suite_add_tcase(suite, tc);
	tcase_add_checked_fixture(cut, setup, teardown);
	tcase_add_loop_test(cut, a_repair_that_is_cut_is_completed, 1, CUTS);
	suite_add_tcase(suite, cut);
	tcase_add_checked_fixture(none, setup_no_slots, teardown);
	tcase_add_loop_test(none, a_look_leaves_free_slots_as_they_are, 0, 3);
	tcase_add_test(none, an_unused_server_gets_no_records);
	suite_add_tcase(suite, none);
	return suite;
}
