/*
 * Slots that are held by quorum, over the server in memory. T is 20 s, so the lease is 18 s.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/broker/beads.h"
#include "tests/unit/quorum_fixture.h"
#include "tests/unit/test_lock.h"

static enum broker_answer made;

static void
on_made(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	(void)ctx;
	(void)id;
	made = reply->answer;
}

static enum broker_answer
make(int daemon, int slot, uint64_t epoch, int64_t wait)
{
	const struct broker_beads wanted = {.epoch = epoch, .grace = T, .wait = wait};
	char queue[64];

	made = BROKER_SKIPPED;
	snprintf(queue, sizeof(queue), "lockbroker=q=db=%d", slot);
	broker_make_beads(
	    world->daemon[daemon].broker, queue, &wanted, (struct broker_done){.fn = on_made});
	for (int i = 0; i < 600 && made == BROKER_SKIPPED; i++)
		world_pass(world, SOON);
	return made;
}

START_TEST(a_slot_is_claimed_and_released)
{
	const struct said *answer;
	uint64_t fence, lock;
	int64_t began;

	make_slots(2);
	answer = take(0, 1, TRY);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_int_eq(answer->slot, 1);
	ck_assert_int_le(answer->safe_until, world->now + LEASE);
	ck_assert_int_gt(answer->safe_until, world->now + LEASE - SECOND);
	fence = answer->fence;
	lock = answer->lock;
	ck_assert_uint_ge(fence, UINT64_C(100) << 20);
	ck_assert_int_eq(take(1, 2, TRY)->slot, 2);
	ck_assert_int_eq(take(1, 3, TRY)->reason, REASON_WOULD_BLOCK);
	/* It is renewed. */
	world_pass(world, 5 * LEASE);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 0);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_SUSPECT), 0);
	lock_verify(engine(0), 1, 7, lock, 0);
	ck_assert_int_eq(world_await(world, 0, 1, 7)->reason, REASON_NONE);
	ck_assert_uint_gt(world_answer(world, 0, 1, 7)->fence, fence);
	fence = world_answer(world, 0, 1, 7)->fence;
	release(0, 1, 2, lock);
	began = world->now;
	answer = take(1, 4, SECOND);
	ck_assert_int_eq(answer->slot, 1);
	ck_assert_int_lt(waited(answer, began), SECOND);
	ck_assert_uint_gt(answer->fence, fence);
}
END_TEST

enum end { END_CONNECTION, END_DAEMON, ENDS };

/* The next holder is granted after T. Clients that only try once a second get the slot, too. */
START_TEST(after_an_unclean_end_the_next_one_waits)
{
	const struct said *answer;
	uint64_t fence;
	int64_t began;
	int tries = 0;

	make_slots(1);
	answer = take(0, 1, TRY);
	ck_assert_int_eq(answer->slot, 1);
	fence = answer->fence;
	if (_i == END_CONNECTION) {
		sever(0);
		ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_SUSPECT), 1);
		ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 0);
	} else {
		world_kill(world, 0);
	}
	began = world->now;
	do {
		ck_assert_int_lt(++tries, 40);
		answer = acquire(1, 2, (uint64_t)(10 + tries), "db", TRY);
		world_pass(world, SECOND);
		if (tries == 2)
			ck_assert_int_le(answer->free_in, T);
		if (tries == 2)
			ck_assert_int_gt(answer->free_in, T - 3 * SECOND);
	} while (answer->reason != REASON_NONE);
	ck_assert_int_ge(waited(answer, began), T);
	ck_assert_int_le(waited(answer, began), T + 3 * SECOND);
	ck_assert_uint_gt(answer->fence, fence);
	if (_i == END_CONNECTION)
		ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 1);
}
END_TEST

START_TEST(a_waiter_is_granted_after_the_grace)
{
	const struct said *answer;
	int64_t began;

	make_slots(1);
	ck_assert_int_eq(take(0, 1, TRY)->slot, 1);
	world_acquire(world, 1, 2, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	sever(0);
	began = world->now;
	answer = world_await(world, 1, 2, 1);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_int_ge(waited(answer, began), T - SOON);
	/* No hint comes before the hold is lost. */
	ck_assert_int_le(waited(answer, began), T + world_settings.rescan_interval + SECOND);
}
END_TEST

/*
 * RabbitMQ returns the beads of a released slot some time after the daemon has closed the channel. A
 * waiter that looks meanwhile sees a busy slot. It does not wait for the next rescan.
 */
START_TEST(a_slot_that_looks_busy_after_its_release_is_told_of_again)
{
	const struct said *answer;
	int waiting = _i == 0 ? 0 : 1;
	int64_t began;

	make_slots(1);
	for (uint64_t i = 0; i < 2; i++) {
		answer = acquire(0, 1, 2 * i + 1, "db", TRY);
		/* Long enough for the knowledge of a scan to be outdated. Or a hint has just come back. */
		if (_i < 2)
			world_pass(world, 6 * SECOND);
		memory_world_set_lingers(world->memory, "lockbroker=q=db=1", i == 1);
		release(0, 1, 2 * i + 2, answer->lock);
		world_pass(world, 5 * MS);
	}
	world_acquire(world, waiting, 2, 1, "db", DURATION_FOREVER);
	world_pass(world, 50 * MS);
	memory_world_resend(world->memory, "lockbroker=q=db=1");
	began = world->now;
	answer = world_await(world, waiting, 2, 1);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_int_lt(waited(answer, began), SECOND / 2);
}
END_TEST

START_TEST(a_waiter_takes_another_slot_that_is_clean)
{
	const struct said *answer;
	uint64_t lock;
	int64_t began;

	make_slots(2);
	ck_assert_int_eq(take(0, 1, TRY)->slot, 1);
	answer = take(1, 2, TRY);
	ck_assert_int_eq(answer->slot, 2);
	lock = answer->lock;
	world_acquire(world, 2, 3, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	sever(0);
	world_pass(world, 5 * SECOND);
	began = world->now;
	release(1, 2, 2, lock);
	answer = world_await(world, 2, 3, 1);
	ck_assert_int_eq(answer->slot, 2);
	ck_assert_int_le(waited(answer, began), SECOND);
}
END_TEST

/* They are on a connection of their own, with a lease of their own. */
START_TEST(the_lock_connection_costs_no_hold)
{
	const struct said *answer;
	uint64_t lock;

	make_slots(1);
	answer = take(0, 1, TRY);
	ck_assert_int_eq(answer->slot, 1);
	lock = answer->lock;
	memory_broker_cut(world->daemon[0].broker, BROKER_LOCKS, 0, -1, "cut");
	world_pass(world, 3 * LEASE);
	memory_broker_restore(world->daemon[0].broker, BROKER_LOCKS);
	world_pass(world, SECOND);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 0);
	lock_verify(engine(0), 1, 7, lock, 0);
	ck_assert_int_eq(world_await(world, 0, 1, 7)->reason, REASON_NONE);
	release(0, 1, 2, lock);
}
END_TEST

static int
notices(enum lock_notice_kind kind)
{
	return world_notices(world, 0, 1, kind) + world_notices(world, 0, 2, kind);
}

/* The two holds are on two connections. One goes on at the other one. */
START_TEST(the_end_of_one_connection_costs_no_hold)
{
	make_slots(2);
	ck_assert_int_eq(take(0, 1, TRY)->slot, 1);
	ck_assert_int_eq(take(0, 2, TRY)->slot, 2);
	memory_broker_cut(world->daemon[0].broker, BROKER_QUORUM, 0, -1, "cut");
	world_pass(world, SECOND);
	ck_assert_int_eq(notices(LOCK_NOTICE_SUSPECT), 1);
	ck_assert_int_eq(notices(LOCK_NOTICE_RESTORED), 1);
	world_pass(world, 2 * LEASE);
	ck_assert_int_eq(notices(LOCK_NOTICE_LOST), 0);
}
END_TEST

START_TEST(a_silent_broker_ends_the_hold_at_its_lease)
{
	const struct said *answer;
	int64_t until;

	make_slots(1);
	answer = take(0, 1, TRY);
	until = answer->safe_until;
	memory_world_starve(world->memory, "lockbroker=q=db=1", true);
	world_pass(world, until - world->now - SOON);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_SUSPECT), 1);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 0);
	world_pass(world, 2 * SOON);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 1);
}
END_TEST

/* Each hand-off has a larger number, up to 255 of them without a proof of the broker, and more with one. */
START_TEST(a_hand_off_has_a_larger_fence)
{
	const struct said *answer;
	uint64_t fence, lock;

	make_slots(1);
	answer = take(0, 1, TRY);
	for (uint64_t i = 0; i < 300; i++) {
		fence = answer->fence;
		lock = answer->lock;
		world_acquire(world, 0, 2 + i, 1, "db", DURATION_FOREVER);
		world_pass(world, SOON / 10);
		lock_release(engine(0), 1 + i, 2, lock);
		answer = world_await(world, 0, 2 + i, 1);
		ck_assert_int_eq(answer->reason, REASON_NONE);
		ck_assert_uint_gt(answer->fence, fence);
	}
}
END_TEST

START_TEST(a_gate_gets_slots)
{
	const struct said *answer;

	make_slots(0);
	ck_assert_int_eq(take(0, 1, TRY)->reason, REASON_WOULD_BLOCK);
	world_acquire(world, 0, 2, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	ck_assert_int_eq(make(1, 1, 100, 0), BROKER_OK);
	answer = world_await(world, 0, 2, 1);
	ck_assert_int_eq(answer->slot, 1);
}
END_TEST

/* The client may go on, as it was only told. */
START_TEST(an_abandoned_hold_does_not_end_cleanly)
{
	int64_t began;

	make_slots(1);
	ck_assert_int_eq(take(0, 1, TRY)->slot, 1);
	lock_abandon(engine(0));
	world_pass(world, SOON);
	began = world->now;
	ck_assert_int_ge(waited(take(1, 2, DURATION_FOREVER), began), T - SOON);
}
END_TEST

/* A daemon that knows nothing of the name finds the free slot by claims alone. */
START_TEST(without_probes_slots_are_claimed_unseen)
{
	uint64_t lock;

	make_slots(2);
	world_alarm(world);
	ck_assert_int_eq(take(0, 1, TRY)->slot, 1);
	lock = take(1, 2, TRY)->lock;
	ck_assert_int_eq(world_answer(world, 1, 2, 1)->reason, REASON_NONE);
	ck_assert_int_eq(world_answer(world, 1, 2, 1)->slot, 2);
	ck_assert_int_ne(take(2, 3, TRY)->reason, REASON_NONE);
	ck_assert_int_eq(acquire(1, 2, 5, "none", TRY)->reason, REASON_BROKER_BLOCKED);
	world_acquire(world, 2, 4, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	release(1, 2, 2, lock);
	ck_assert_int_eq(world_await(world, 2, 4, 1)->slot, 2);
}
END_TEST

static unsigned answered;

static void
on_answered(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	(void)ctx;
	ck_assert_int_eq(reply->answer, BROKER_OK);
	ck_assert_uint_eq(id, ++answered);
}

/* One reject at a time is in flight. */
START_TEST(questions_at_once_are_asked_one_after_another)
{
	const char *queue = "lockbroker=q=db=1";
	struct broker *broker = world->daemon[0].broker;
	uint64_t channel = broker_channel_take_for(broker, BROKER_BY_QUORUM);

	make_slots(1);
	answered = 0;
	broker_claim(
	    broker, channel, BROKER_BY_QUORUM, queue, (struct broker_done){on_answered, NULL, 1});
	world_pass(world, SOON);
	for (uint64_t id = 2; id <= 4; id++)
		broker_check_holder(broker, channel, BROKER_BY_QUORUM, queue,
		    (struct broker_done){on_answered, NULL, id});
	world_pass(world, SOON);
	ck_assert_uint_eq(answered, 4);
	broker_drop(broker, channel, BROKER_BY_QUORUM, queue, true,
	    (struct broker_done){on_answered, NULL, 5});
	world_pass(world, SOON);
	ck_assert_uint_eq(answered, 5);
}
END_TEST

#define DAY (86400 * SECOND)

/* The queue has a consumer timeout of 30 days. */
START_TEST(a_hold_ends_before_the_consumer_timeout)
{
	const struct broker_beads wanted = {.epoch = 100, .grace = BEAD_GRACE_MOST};

	ck_assert(memory_world_put(world->memory, "db-G", false));
	broker_make_beads(world->daemon[0].broker, "lockbroker=q=db=1", &wanted,
	    (struct broker_done){.fn = on_made});
	world_pass(world, 10 * SECOND);
	ck_assert_int_eq(take(0, 1, TRY)->slot, 1);
	world_pass(world, 29 * DAY - 3600 * SECOND);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 0);
	world_pass(world, 2 * 3600 * SECOND);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 1);
}
END_TEST

/* ---- a purge, and the deaths of broker, daemon and client, in each state ---- */

enum death { PURGE, BROKER_DIES, DAEMON_DIES, CLIENT_DIES, DEATHS };

/* The state of the first client, and how the next one gets the slot after it. */
enum state { FREE, GATHERING, IN_GRACE, CLAIMING, HELD, RENEWING, RELEASING };

/* A frame that is on its way then. */
enum flight {
	NOTHING,
	REJECT_LOST, /* it never arrives */
	REJECT_LATE, /* it arrives after the death */
	ANSWER_LATE  /* the reject was performed, and the delivery arrives after the death */
};

enum next {
	AT_ONCE,
	AFTER_GRACE, /* T after the death, or after the release */
	IN_GRACE_OF, /* at once after the rest of the grace, which goes on */
	WHEN_MADE    /* nobody gets it before an administrator has made it again */
};

static const struct row {
	enum state state;
	enum flight flight;
	enum next next[DEATHS];
} rows[] = {
    {FREE, NOTHING, {WHEN_MADE, AT_ONCE, AT_ONCE, AT_ONCE}},
    {GATHERING, ANSWER_LATE, {AT_ONCE, AT_ONCE, AT_ONCE, AT_ONCE}},
    {IN_GRACE, NOTHING, {AT_ONCE, AFTER_GRACE, AFTER_GRACE, IN_GRACE_OF}},
    /* A late reject names a delivery that has returned. */
    {CLAIMING, REJECT_LOST, {AT_ONCE, AT_ONCE, AT_ONCE, AT_ONCE}},
    {CLAIMING, REJECT_LATE, {AT_ONCE, AT_ONCE, AT_ONCE, AT_ONCE}},
    {CLAIMING, ANSWER_LATE, {AT_ONCE, AT_ONCE, AFTER_GRACE, AT_ONCE}},
    {HELD, NOTHING, {AT_ONCE, AT_ONCE, AFTER_GRACE, AT_ONCE}},
    /* An unanswered reject is never followed by a flip. On another channel nothing is unanswered. */
    {RENEWING, REJECT_LOST, {AFTER_GRACE, AT_ONCE, AFTER_GRACE, AFTER_GRACE}},
    {RENEWING, REJECT_LATE, {AT_ONCE, AT_ONCE, AFTER_GRACE, AT_ONCE}},
    {RENEWING, ANSWER_LATE, {AT_ONCE, AT_ONCE, AFTER_GRACE, AT_ONCE}},
    {RELEASING, REJECT_LOST, {AFTER_GRACE, AT_ONCE, AFTER_GRACE, AFTER_GRACE}},
    {RELEASING, REJECT_LATE, {AT_ONCE, AT_ONCE, AFTER_GRACE, AT_ONCE}},
    {RELEASING, ANSWER_LATE, {AT_ONCE, AT_ONCE, AT_ONCE, AT_ONCE}},
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))
#define DB_1 "lockbroker=q=db=1"

/* Waits for the reject of a state, which then is on its way. */
static void
await_reject(enum flight flight, int64_t within)
{
	unsigned before = world->rejects;
	int64_t end = world->now + within;

	if (flight == REJECT_LATE)
		memory_world_set_rejects(world->memory, DB_1, MEMORY_REJECTS_DELAYED);
	else if (flight == REJECT_LOST)
		memory_world_set_rejects(world->memory, DB_1, MEMORY_REJECTS_LOST);
	while (world->rejects == before)
		ck_assert(world_step(world, end - world->now));
	ck_assert_uint_eq(world->rejects, before + 1);
	if (flight == ANSWER_LATE)
		memory_world_delay_deliveries(world->memory, DB_1, true);
	world_pass(world, SOON);
	ck_assert_uint_eq(world->rejects, before + 1);
}

/* Request 1 is the acquire of the first client, peer 1 at daemon 0, and request 2 is its release. */
static void
reach(const struct row *row)
{
	const struct said *grant = NULL;

	if (row->state == IN_GRACE) {
		ck_assert_int_eq(take(2, 9, TRY)->slot, 1);
		world_kill(world, 2);
	}
	if (row->state >= HELD)
		grant = take(0, 1, TRY);
	else if (row->state != FREE)
		world_acquire(world, 0, 1, 1, "db", DURATION_FOREVER);
	switch (row->state) {
	case FREE:
	case HELD:
		return;
	case GATHERING:
		memory_world_delay_deliveries(world->memory, DB_1, true);
		break;
	case IN_GRACE:
		break;
	case CLAIMING:
		await_reject(row->flight, SECOND);
		return;
	case RENEWING:
		await_reject(row->flight, LEASE);
		return;
	case RELEASING:
		lock_release(engine(0), 1, 2, grant->lock);
		await_reject(row->flight, SECOND);
		return;
	}
	world_pass(world, SOON);
}

/* A first client that still waits would get the slot, too. */
static void
restart_broker(void)
{
	if (is_waiting(0, 1, 1))
		lock_peer_gone(engine(0), 1);
	memory_world_restart(world->memory);
	for (int i = 0; i < DAEMONS; i++)
		for (enum broker_link link = 0; link < BROKER_LINKS; link++)
			memory_broker_cut(world->daemon[i].broker, link, 0, MS, "restart");
}

static void
die(const struct row *row, enum death death)
{
	switch (death) {
	case PURGE:
		ck_assert_uint_eq(
		    memory_world_purge(world->memory, DB_1), row->state == FREE ? 3 : 0);
		break;
	case BROKER_DIES:
		restart_broker();
		break;
	case DAEMON_DIES:
		world_kill(world, 0);
		break;
	case CLIENT_DIES:
		lock_peer_gone(engine(0), 1);
		break;
	case DEATHS:
		break;
	}
}

static void
arrive(void)
{
	memory_world_set_rejects(world->memory, DB_1, MEMORY_REJECTS_TAKEN);
	memory_world_resend(world->memory, DB_1);
	memory_world_delay_deliveries(world->memory, DB_1, false);
}

/* The end of the belief of the first client, as far as it has heard. */
static int64_t
first_until(void)
{
	int64_t until = 0;

	for (size_t i = 0; i < world->said_count; i++) {
		const struct said *said = &world->said[i];

		if (said->daemon == 0 && said->peer == 1 && said->safe_until > until)
			until = said->safe_until;
	}
	return until;
}

/* After a purge or a restart it holds the slot, or gets it. Returns the time at which it releases it. */
static int64_t
first_goes_on(const struct row *row)
{
	const struct said *grant = world_await(world, 0, 1, 1);

	ck_assert_int_eq(grant->reason, REASON_NONE);
	world_acquire(world, 1, 2, 1, "db", DURATION_FOREVER);
	if (row->state == RELEASING)
		return world->now;
	world_pass(world, SOON);
	ck_assert(is_waiting(1, 2, 1));
	lock_release(engine(0), 1, 2, grant->lock);
	return world->now;
}

/*
 * Whatever dies in whatever state, the slot is granted again, with a larger fence, and not before the
 * first client has stopped.
 */
START_TEST(in_each_state_a_death_leaves_one_holder)
{
	const struct row *row = &rows[_i / DEATHS];
	enum death death = (enum death)(_i % DEATHS);
	enum next next = row->next[death];
	bool outlives = death == BROKER_DIES && (row->state == HELD || row->state == RENEWING);
	bool goes_on = (death == PURGE && row->state != FREE) || outlives;
	const struct said *answer;
	uint64_t fence;
	int64_t began;

	make_slots(1);
	answer = take(1, 8, TRY);
	fence = answer->fence;
	release(1, 8, 2, answer->lock);
	world_pass(world, SOON);
	reach(row);
	began = world->now;
	die(row, death);
	if (goes_on || death == CLIENT_DIES)
		arrive();
	world_pass(world, outlives ? 2 * SECOND : SOON);
	if (goes_on) {
		began = first_goes_on(row);
	} else {
		world_acquire(world, 1, 2, 1, "db", DURATION_FOREVER);
		arrive();
	}
	if (next == WHEN_MADE) {
		world_pass(world, 2 * T);
		ck_assert(is_waiting(1, 2, 1));
		began = world->now;
		ck_assert_int_eq(make(2, 1, 200, T), BROKER_OK);
	}
	answer = world_await(world, 1, 2, 1);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_uint_gt(answer->fence, fence);
	if (world_answer(world, 0, 1, 1) != NULL)
		ck_assert_uint_gt(answer->fence, world_answer(world, 0, 1, 1)->fence);
	if (next == AT_ONCE)
		ck_assert_int_lt(waited(answer, began), T / 2);
	else
		ck_assert_int_le(waited(answer, began), T + 10 * SECOND);
	if (next == AFTER_GRACE || next == WHEN_MADE)
		ck_assert_int_ge(waited(answer, began), T - SOON);
	/* A paused client of a dead daemon has heard no more than that. */
	if (next == AFTER_GRACE && row->state != RELEASING)
		ck_assert_int_ge(answer->at, first_until());
	release(1, 2, 2, answer->lock);
}
END_TEST

/* ---- administration ---- */

static const struct said *
change(void (*order)(struct lock_engine *, uint64_t, uint64_t, const struct lock_change *),
    uint64_t request, int slots)
{
	const struct lock_change wanted = {
	    .name = "db", .slots = slots, .claim = LOCK_CLAIM_BY_QUORUM};

	order(engine(2), 9, request, &wanted);
	return world_await(world, 2, 9, request);
}

/* The clock goes back each time: the floor of the records alone makes the epochs grow. */
START_TEST(fences_grow_over_destroy_and_create)
{
	uint64_t fence = 0;

	for (uint64_t i = 0; i < 4; i++) {
		const struct said *answer;

		ck_assert_int_eq(change(lock_create, 10 * i + 1, 2)->reason, REASON_NONE);
		for (uint64_t j = 0; j < 3; j++) {
			answer = acquire(0, 1, 100 * i + 2 * j + 1, "db", TRY);
			ck_assert_int_eq(answer->slot, 1);
			ck_assert_uint_gt(answer->fence, fence);
			fence = answer->fence;
			release(0, 1, 100 * i + 2 * j + 2, answer->lock);
		}
		ck_assert_int_eq(change(lock_resize, 10 * i + 2, 0)->reason, REASON_NONE);
		ck_assert_int_eq(change(lock_resize, 10 * i + 3, 1)->reason, REASON_NONE);
		answer = acquire(1, 2, 100 * i + 1, "db", TRY);
		ck_assert_uint_gt(answer->fence, fence);
		fence = answer->fence;
		release(1, 2, 100 * i + 2, answer->lock);
		ck_assert_int_eq(change(lock_destroy, 10 * i + 5, 0)->reason, REASON_NONE);
		world->wall_ahead -= DAY;
	}
}
END_TEST

/* A clock that is far ahead would raise the floor for good. */
START_TEST(a_clock_far_ahead_needs_force)
{
	struct lock_change wanted = {.name = "db", .slots = 2, .claim = LOCK_CLAIM_BY_QUORUM};
	const struct said *answer;

	ck_assert_int_eq(change(lock_create, 1, 1)->reason, REASON_NONE);
	world->wall_ahead = 364 * DAY;
	ck_assert_int_eq(change(lock_resize, 2, 2)->reason, REASON_NONE);
	world->wall_ahead += 366 * DAY;
	answer = change(lock_resize, 3, 3);
	ck_assert_int_eq(answer->reason, REASON_INVALID_PARAMS);
	ck_assert_str_eq(answer->parameter, "force");
	ck_assert_str_eq(answer->text,
	    "declared 0 of 1 slots, then: the clock of this host is 366 days ahead of the newest "
	    "epoch; if it is right, repeat with force");
	ck_assert_int_eq(acquire(0, 1, 1, "db", TRY)->slot, 1);
	wanted.slots = 3;
	wanted.force = true;
	lock_resize(engine(2), 9, 4, &wanted);
	ck_assert_int_eq(world_await(world, 2, 9, 4)->reason, REASON_NONE);
	/* That is the newest epoch now. */
	ck_assert_int_eq(change(lock_resize, 5, 4)->reason, REASON_NONE);
}
END_TEST

/* Without a way in the request, the setting decides. */
START_TEST(the_setting_makes_slots_by_quorum)
{
	struct lock_settings settings = world_settings;
	struct lock_change wanted = {.name = "db", .slots = 2};
	const struct said *answer;

	settings.claim = BROKER_BY_QUORUM;
	settings.wall_clock = &world->wall;
	for (int i = 0; i < 3; i++)
		lock_engine_set(engine(i), &settings);
	lock_create(engine(0), 9, 1, &wanted);
	ck_assert_int_eq(world_await(world, 0, 9, 1)->reason, REASON_NONE);
	ck_assert_uint_gt(acquire(1, 1, 1, "db", TRY)->fence, 0);
	/* A gate and an unlimited one have no slots. */
	wanted = (struct lock_change){.name = "gate", .slots = 0};
	lock_create(engine(0), 9, 2, &wanted);
	ck_assert_int_eq(world_await(world, 0, 9, 2)->reason, REASON_NONE);
	wanted.slots = 1;
	lock_resize(engine(0), 9, 3, &wanted);
	ck_assert_int_eq(world_await(world, 0, 9, 3)->reason, REASON_NONE);
	ck_assert_uint_gt(acquire(1, 1, 2, "gate", TRY)->fence, 0);
	wanted = (struct lock_change){.name = "all", .slots = LOCK_UNLIMITED};
	lock_create(engine(0), 9, 4, &wanted);
	ck_assert_int_eq(world_await(world, 0, 9, 4)->reason, REASON_NONE);
	/* A missing semaphore is made so, and so is a mutex. */
	lock_acquire(engine(1), 1, 3,
	    &(struct lock_acquire){.name = "new", .timeout = DURATION_FOREVER, .create = 1});
	ck_assert_uint_gt(world_await(world, 1, 1, 3)->fence, 0);
	lock_acquire(engine(1), 1, 4,
	    &(struct lock_acquire){.name = "mutex", .kind = LOCK_KIND_MUTEX, .timeout = TRY});
	answer = world_await(world, 1, 1, 4);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_uint_gt(answer->fence, 0);
}
END_TEST

/* ---- how a slot is made ---- */

START_TEST(a_held_slot_is_not_made_again)
{
	const struct said *answer;

	make_slots(1);
	answer = take(0, 1, TRY);
	ck_assert_int_eq(make(1, 1, 200, 0), BROKER_LOCKED);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 0);
	release(0, 1, 2, answer->lock);
	/* It is as it was: its set remains. */
	ck_assert_int_eq(make(1, 1, 200, 0), BROKER_OK);
	answer = take(0, 3, TRY);
	ck_assert_uint_lt(answer->fence, UINT64_C(200) << 20);
}
END_TEST

/* An earlier holder of the name may believe in its hold for T. */
static void
on_claim_over(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	(void)ctx;
	(void)id;
	ck_assert_int_eq(reply->answer, BROKER_LOCKED);
}

/* An old hint leads a waiter to a slot that has no beads yet. It takes the mark of the maker. */
START_TEST(a_claim_before_the_beads_costs_the_maker_time_alone)
{
	const struct broker_beads wanted = {.epoch = 100, .grace = T};
	struct broker *other = world->daemon[1].broker;

	made = BROKER_SKIPPED;
	broker_make_beads(world->daemon[0].broker, "lockbroker=q=db=1", &wanted,
	    (struct broker_done){.fn = on_made});
	world_pass(world, SECOND);
	broker_claim(other, broker_channel_take_for(other, BROKER_BY_QUORUM), BROKER_BY_QUORUM,
	    "lockbroker=q=db=1", (struct broker_done){.fn = on_claim_over});
	world_pass(world, 15 * SECOND);
	ck_assert_int_eq(made, BROKER_OK);
}
END_TEST

START_TEST(a_lost_set_is_made_anew)
{
	int64_t began;
	const struct said *answer;

	make_slots(1);
	answer = take(0, 1, TRY);
	ck_assert(memory_world_lose(world->memory, "lockbroker=q=db=1"));
	world_kill(world, 0);
	began = world->now;
	ck_assert_int_eq(make(1, 1, 200, T), BROKER_OK);
	ck_assert_int_ge(world->now, began + T);
	answer = take(1, 3, TRY);
	ck_assert_int_eq(answer->slot, 1);
	ck_assert_uint_ge(answer->fence, UINT64_C(200) << 20);
}
END_TEST

START_TEST(a_new_set_is_published_in_dirty_order)
{
	int64_t began;

	ck_assert(memory_world_put(world->memory, "db-G", false));
	/* Its publisher dies before it makes the set clean. */
	const struct broker_beads wanted = {.epoch = 100, .grace = T};

	broker_make_beads(world->daemon[1].broker, "lockbroker=q=db=1", &wanted,
	    (struct broker_done){.fn = on_made});
	memory_world_set_rejects(world->memory, "lockbroker=q=db=1", MEMORY_REJECTS_LOST);
	for (int i = 0; i < 30; i++) {
		world_pass(world, SOON);
		memory_world_set_rejects(world->memory, "lockbroker=q=db=1", MEMORY_REJECTS_LOST);
	}
	world_kill(world, 1);
	memory_world_set_rejects(world->memory, "lockbroker=q=db=1", MEMORY_REJECTS_TAKEN);
	began = world->now;
	ck_assert_int_ge(waited(take(0, 1, DURATION_FOREVER), began), T - SOON);
}
END_TEST

Suite *
suite_lock_quorum(void)
{
	Suite *suite = suite_create("lock: quorum");
	TCase *tc = tcase_create("quorum");

	tcase_add_checked_fixture(tc, world_begin, world_end);
	tcase_add_test(tc, a_slot_is_claimed_and_released);
	tcase_add_loop_test(tc, after_an_unclean_end_the_next_one_waits, 0, ENDS);
	tcase_add_test(tc, a_waiter_is_granted_after_the_grace);
	tcase_add_loop_test(tc, a_slot_that_looks_busy_after_its_release_is_told_of_again, 0, 3);
	tcase_add_test(tc, a_waiter_takes_another_slot_that_is_clean);
	tcase_add_test(tc, the_lock_connection_costs_no_hold);
	tcase_add_test(tc, the_end_of_one_connection_costs_no_hold);
	tcase_add_test(tc, a_silent_broker_ends_the_hold_at_its_lease);
	tcase_add_test(tc, a_hand_off_has_a_larger_fence);
	tcase_add_test(tc, a_gate_gets_slots);
	tcase_add_test(tc, an_abandoned_hold_does_not_end_cleanly);
	tcase_add_test(tc, without_probes_slots_are_claimed_unseen);
	tcase_add_test(tc, questions_at_once_are_asked_one_after_another);
	tcase_add_test(tc, a_hold_ends_before_the_consumer_timeout);
	tcase_add_loop_test(tc, in_each_state_a_death_leaves_one_holder, 0, ROWS * DEATHS);
	tcase_add_test(tc, fences_grow_over_destroy_and_create);
	tcase_add_test(tc, a_clock_far_ahead_needs_force);
	tcase_add_test(tc, the_setting_makes_slots_by_quorum);
	tcase_add_test(tc, a_held_slot_is_not_made_again);
	tcase_add_test(tc, a_claim_before_the_beads_costs_the_maker_time_alone);
	tcase_add_test(tc, a_lost_set_is_made_anew);
	tcase_add_test(tc, a_new_set_is_published_in_dirty_order);
	suite_add_tcase(suite, tc);
	return suite;
}
