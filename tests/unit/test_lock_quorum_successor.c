/*
 * A successor goes on with holds by quorum, graces and reclaims, over the server in memory. T is 20 s.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/broker/beads.h"
#include "daemon/broker/setup.h"
#include "tests/unit/quorum_fixture.h"
#include "tests/unit/test_lock.h"

static const char b[] = "lockbroker=q=db=1";

static void
freeze(void)
{
	lock_freeze(engine(0), true);
	ck_assert(world_stills(world, 0));
}

/* The daemon, frozen and still, is replaced. The successor begins `later` ns later. */
static void
succeed(int64_t later)
{
	char why[128], *text = world_save(world, 0);

	world->now += later;
	ck_assert_msg(world_succeed(world, 0, text, why), "%s", why);
	free(text);
}

static void
replace(void)
{
	freeze();
	succeed(0);
}

static struct broker_quorum_info
info(void)
{
	struct broker_quorum_info info;

	broker_get_quorum(world->daemon[0].broker, &info);
	return info;
}

static int
losses(uint64_t peer)
{
	return world_notices(world, 0, peer, LOCK_NOTICE_LOST);
}

static const struct said *
verify(uint64_t peer, uint64_t request, uint64_t lock)
{
	lock_verify(engine(0), peer, request, lock, 0);
	return world_await(world, 0, peer, request);
}

/* Daemon 1 gets the slot at once, with a larger number. */
static void
assert_clean(uint64_t fence)
{
	const struct said *answer;

	world_pass(world, SECOND);
	answer = take(1, 70, TRY);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_uint_gt(answer->fence, fence);
}

/* ---- holds ---- */

START_TEST(a_hold_goes_on)
{
	const struct said *granted, *verified;
	int64_t safe;

	make_slots(2);
	granted = take(0, 1, TRY);
	ck_assert_int_eq(take(0, 2, TRY)->slot, 2);
	for (int i = 0; i < 3; i++) {
		safe = now(0, 1, 1)->safe_until;
		replace();
		verified = verify(1, (uint64_t)(10 + i), granted->lock);
		ck_assert_int_eq(verified->reason, REASON_NONE);
		ck_assert_int_ge(verified->safe_until, safe);
		ck_assert_uint_gt(verified->fence, granted->fence);
		ck_assert_int_eq(take(1, (uint64_t)(20 + i), TRY)->reason, REASON_WOULD_BLOCK);
	}
	/* It is renewed. */
	world_pass(world, 5 * LEASE);
	ck_assert_int_eq(losses(1) + losses(2), 0);
	ck_assert_uint_eq(info().connection[0].holds + info().connection[1].holds, 2);
	release(0, 1, 2, granted->lock);
	assert_clean(granted->fence);
}
END_TEST

/* The lease began with the newest proof, and not with the successor. */
START_TEST(the_lease_ends_when_it_would_have)
{
	const struct said *granted;
	int64_t safe;

	make_slots(1);
	granted = take(0, 1, TRY);
	safe = granted->safe_until;
	world_pass(world, SECOND);
	freeze();
	memory_world_set_rejects(world->memory, b, MEMORY_REJECTS_LOST);
	succeed(SECOND);
	world_pass(world, safe - world->now - SOON);
	ck_assert_int_eq(losses(1), 0);
	world_pass(world, 2 * SOON);
	ck_assert_int_eq(losses(1), 1);
}
END_TEST

/* Only the server's answer is late. The successor awaits it, and rejects nothing meanwhile. */
START_TEST(a_renewal_in_flight_is_awaited)
{
	const struct said *granted;
	unsigned rejects;
	int64_t asked, safe;

	make_slots(1);
	granted = take(0, 1, TRY);
	world_pass(world, 3 * SECOND);
	memory_world_delay_deliveries(world->memory, b, true);
	lock_verify(engine(0), 1, 7, granted->lock, 0);
	asked = world->now;
	world_pass(world, SOON);
	lock_freeze(engine(0), true);
	ck_assert(!lock_is_idle(engine(0)));
	ck_assert(lock_is_still(engine(0)));
	rejects = world->rejects;
	succeed(0);
	world_pass(world, 5 * SECOND);
	ck_assert_uint_eq(world->rejects, rejects);
	/* The lease begins with the question. A renewal is due again, and is lost. */
	memory_world_set_rejects(world->memory, b, MEMORY_REJECTS_LOST);
	memory_world_delay_deliveries(world->memory, b, false);
	safe = asked + LEASE;
	world_pass(world, safe - world->now - SOON);
	ck_assert_int_eq(losses(1), 0);
	world_pass(world, 2 * SOON);
	ck_assert_int_eq(losses(1), 1);
}
END_TEST

START_TEST(a_renewal_that_is_never_answered_is_a_loss)
{
	const struct said *granted;
	uint64_t fence;

	make_slots(1);
	granted = take(0, 1, TRY);
	fence = granted->fence;
	memory_world_set_rejects(world->memory, b, MEMORY_REJECTS_LOST);
	lock_verify(engine(0), 1, 7, granted->lock, 0);
	world_pass(world, SOON);
	lock_freeze(engine(0), true);
	succeed(0);
	world_pass(world, LEASE - SECOND);
	ck_assert_int_eq(losses(1), 0);
	world_pass(world, SECOND);
	ck_assert_int_eq(losses(1), 1);
	memory_world_set_rejects(world->memory, b, MEMORY_REJECTS_TAKEN);
	/* The client has not stopped: the next one waits. */
	ck_assert_int_eq(take(1, 2, TRY)->reason, REASON_WOULD_BLOCK);
	ck_assert_uint_gt(take(1, 3, DURATION_FOREVER)->fence, fence);
}
END_TEST

START_TEST(fences_grow_through_hand_offs)
{
	uint64_t lock, fence;

	make_slots(1);
	lock = take(0, 1, TRY)->lock;
	fence = now(0, 1, 1)->fence;
	for (uint64_t peer = 2; peer < 8; peer++) {
		world_acquire(world, 0, peer, 1, "db", DURATION_FOREVER);
		world_pass(world, SOON);
		release(0, peer - 1, 2, lock);
		world_pass(world, SOON);
		ck_assert_int_eq(now(0, peer, 1)->reason, REASON_NONE);
		ck_assert_uint_gt(now(0, peer, 1)->fence, fence);
		lock = now(0, peer, 1)->lock;
		fence = now(0, peer, 1)->fence;
		replace();
	}
}
END_TEST

START_TEST(a_removed_slot_stays_revoked)
{
	const struct said *granted;

	make_slots(1);
	granted = take(0, 1, TRY);
	lock_resize(engine(1), 5, 1,
	    &(struct lock_change){.name = "db", .kind = LOCK_KIND_SEMAPHORE, .slots = 0});
	world_pass(world, 5 * SECOND);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_REVOKED), 1);
	replace();
	ck_assert_int_eq(verify(1, 7, granted->lock)->reason, REASON_REVOKED);
	world_pass(world, 2 * LEASE);
	ck_assert_int_eq(losses(1), 0);
	release(0, 1, 2, granted->lock);
	world_pass(world, 5 * SECOND);
	ck_assert(!memory_world_has(world->memory, b, NULL));
}
END_TEST

/* Its connection ended, and the lock connection is another one. */
START_TEST(a_hold_goes_on_without_the_lock_connection)
{
	const struct said *granted;

	make_slots(1);
	granted = take(0, 1, TRY);
	memory_broker_cut(world->daemon[0].broker, BROKER_LOCKS, 0, -1, "cut");
	world_pass(world, SECOND);
	replace();
	world_pass(world, LEASE);
	ck_assert_int_eq(verify(1, 7, granted->lock)->reason, REASON_NONE);
	ck_assert_int_eq(losses(1), 0);
}
END_TEST

/* The client is told once. The slot can be had when it has stopped. */
START_TEST(a_lease_that_ends_meanwhile_is_a_loss)
{
	const struct said *granted;

	make_slots(1);
	granted = take(0, 1, TRY);
	freeze();
	succeed(LEASE + SECOND);
	world_pass(world, SECOND);
	ck_assert_int_eq(losses(1), 1);
	lock_release(engine(0), 1, 2, granted->lock);
	assert_clean(granted->fence);
}
END_TEST

/* The connection ends in the pause, or before it. */
START_TEST(a_hold_outlives_its_connection_and_its_daemon)
{
	const struct said *granted;

	make_slots(1);
	granted = take(0, 1, TRY);
	if (_i == 0)
		world_pass(world, SOON);
	else
		sever(0);
	replace();
	if (_i == 0)
		cut(0);
	else
		join(0);
	world_pass(world, SECOND);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_SUSPECT), 1);
	world_pass(world, LEASE);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_RESTORED), 1);
	world_pass(world, LEASE);
	ck_assert_int_eq(losses(1), 0);
	ck_assert_int_eq(verify(1, 7, granted->lock)->reason, REASON_NONE);
	release(0, 1, 2, granted->lock);
	assert_clean(granted->fence);
}
END_TEST

/* ---- claims and graces ---- */

/* A waiter of daemon 0, for a slot whose last hold ended uncleanly. */
static void
begin_grace(void)
{
	ck_assert_int_eq(take(1, 1, TRY)->slot, 1);
	world_acquire(world, 0, 2, 1, "db", DURATION_FOREVER);
	world_pass(world, SOON);
	world_kill(world, 1);
	for (int i = 0; i < 100 && info().graces == 0; i++)
		world_pass(world, SOON);
	ck_assert_uint_eq(info().graces, 1);
}

/* The end may pass while the daemon is frozen, or before the successor begins. */
START_TEST(a_grace_keeps_its_end)
{
	static const int64_t frozen[] = {0, 0, T, 0}, later[] = {0, SECOND, 0, T};
	const struct said *answer;
	int64_t began;

	make_slots(1);
	begin_grace();
	began = world->now;
	freeze();
	world_pass(world, frozen[_i]);
	ck_assert_uint_eq(info().graces, 1);
	succeed(later[_i]);
	ck_assert_uint_eq(info().graces, 1);
	if (_i < 2)
		ck_assert_int_gt(acquire(0, 3, 1, "db", TRY)->free_in, T / 2);
	answer = world_await(world, 0, 2, 1);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_int_ge(waited(answer, began), T - SOON);
	ck_assert_int_le(waited(answer, began), T + 2 * SECOND);
}
END_TEST

/* A claim that waits for its beads, or whose proof is not answered, ends. Its waiter goes on. */
START_TEST(a_claim_in_flight_ends_and_its_waiter_goes_on)
{
	int64_t began;

	make_slots(1);
	if (_i == 0)
		memory_world_delay_deliveries(world->memory, b, true);
	else
		memory_world_set_rejects(world->memory, b, MEMORY_REJECTS_DELAYED);
	world_acquire(world, 0, 1, 1, "db", DURATION_FOREVER);
	world_pass(world, SOON);
	ck_assert_ptr_null(world_answer(world, 0, 1, 1));
	lock_freeze(engine(0), true);
	ck_assert(!lock_is_idle(engine(0)));
	ck_assert(lock_is_still(engine(0)));
	succeed(0);
	world_pass(world, SOON);
	memory_world_delay_deliveries(world->memory, b, false);
	memory_world_set_rejects(world->memory, b, MEMORY_REJECTS_TAKEN);
	memory_world_resend(world->memory, b);
	began = world->now;
	ck_assert_int_le(waited(world_await(world, 0, 1, 1), began), 3 * SECOND);
	ck_assert_int_eq(now(0, 1, 1)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_frozen_daemon_rotates_nothing)
{
	struct broker *broker = world->daemon[0].broker;

	make_slots(1);
	ck_assert_int_eq(take(0, 1, TRY)->slot, 1);
	freeze();
	ck_assert_int_eq(broker_state_version(broker), 2);
	world_pass(world, LEASE);
	ck_assert_int_eq(losses(1), 0);
	ck_assert(lock_is_still(engine(0)));
	lock_freeze(engine(0), false);
	world_pass(world, LEASE);
	ck_assert_int_eq(losses(1), 0);
}
END_TEST

/* ---- reclaims ---- */

/* The client is told before the takeover, and stops after it. */
START_TEST(a_lost_hold_is_reclaimed_by_the_successor)
{
	const struct said *granted;

	make_slots(1);
	granted = take(0, 1, TRY);
	abandon(0);
	ck_assert_int_eq(losses(1), 1);
	if (_i == 1)
		lock_peer_gone(engine(0), 1);
	replace();
	world_pass(world, 5 * SECOND);
	ck_assert_uint_eq(info().reclaimed, 0);
	if (_i == 0)
		lock_release(engine(0), 1, 2, granted->lock);
	else
		world_pass(world, LEASE - 5 * SECOND);
	assert_clean(granted->fence);
	ck_assert_uint_eq(info().reclaimed, 1);
}
END_TEST

START_TEST(a_reclaim_that_waits_is_tried_by_the_successor)
{
	const struct said *granted;

	make_slots(1);
	granted = take(0, 1, TRY);
	abandon(0);
	lock_freeze(engine(0), true);
	lock_release(engine(0), 1, 2, granted->lock);
	world_pass(world, 2 * SECOND);
	ck_assert_uint_eq(info().reclaimed, 0);
	succeed(0);
	assert_clean(granted->fence);
}
END_TEST

/* ---- the version of the state ---- */

static int
version_of(const char *text)
{
	int version;

	ck_assert_int_eq(sscanf(text, "{\"record\":\"lockbrokerd\",\"state\":%d,", &version), 1);
	return version;
}

static int
save_version(void)
{
	char *text = world_save(world, 0);
	int version = version_of(text);

	free(text);
	return version;
}

/* Also while an unused connection is up. */
START_TEST(without_anything_by_quorum_the_state_is_version_1)
{
	const struct said *granted;
	char *text;

	make_slots(1);
	world_make(world, "old", 1);
	ck_assert_int_eq(acquire(0, 9, 1, "old", TRY)->slot, 1);
	granted = take(0, 1, TRY);
	freeze();
	ck_assert_int_eq(save_version(), 2);
	lock_freeze(engine(0), false);
	release(0, 1, 2, granted->lock);
	world_pass(world, SECOND);
	ck_assert_int_eq(info().connection[0].state, BROKER_UP);
	freeze();
	text = world_save(world, 0);
	ck_assert_int_eq(version_of(text), 1);
	ck_assert_ptr_null(strstr(text, "quorum"));
	free(text);
	succeed(0);
	ck_assert_int_eq(verify(9, 2, now(0, 9, 1)->lock)->reason, REASON_NONE);
}
END_TEST

START_TEST(each_of_these_needs_version_2)
{
	make_slots(1);
	if (_i == 0) {
		begin_grace();
	} else {
		ck_assert_int_eq(take(0, 1, TRY)->slot, 1);
		if (_i == 1)
			abandon(0);
		if (_i == 3)
			sever(0);
	}
	freeze();
	ck_assert_int_eq(save_version(), 2);
}
END_TEST

/* ---- states that cannot be ---- */

/* Replaces `what` in the text, where it comes first behind `from`, and the digits behind it. */
static char *
edited(const char *text, const char *from, const char *what, const char *by)
{
	const char *at = strstr(strstr(text, from), what), *rest;
	char *result = malloc(strlen(text) + strlen(by) + 1);

	ck_assert_ptr_nonnull(at);
	rest = at + strlen(what);
	rest += strspn(rest, "0123456789");
	sprintf(result, "%.*s%s%s", (int)(at - text), text, by, rest);
	return result;
}

static const struct {
	const char *record, *what, *by;
} wrong[] = {
    {"quorum", "\"serial\":\"", "\"serial\":\"0"},
    {"quorum", "\"serial\":\"", "\"serial\":\"9999999999999999999"},
    {"quorum-link", "\"number\":", "\"number\":8"},
    {"quorum-link", "\"connection\":\"", "\"connection\":\"99"},
    {"quorum-link", "\"host\":\"memory\"", "\"host\":\"other\""},
    {"raw-channel", "\"number\":", "\"number\":65535"},
    {"raw-channel", "\"closing_at\":\"", "\"closing_at\":\"1"},
    {"raw-channel", "\"closing_at\":\"", "\"closing_at\":\"9000000000000"},
    {"claim", "\"id\":\"", "\"id\":\"1"},
    {"claim", "\"channel\":", "\"channel\":77"},
    {"claim", "\"queue\":\"lockbroker=q=db=1\"", "\"queue\":\"lockbroker=q=db=9\""},
    {"claim", "\"held\":true", "\"held\":false"},
    {"claim", "\"awaited\":false", "\"awaited\":2"},
    {"claim", "\"grace\":\"", "\"grace\":\"1"},
    {"claim", "\"asked_at\":\"", "\"asked_at\":\"1"},
    {"claim", "\"proved_at\":\"", "\"proved_at\":\"9000000000000"},
    {"claim", "\"others\":0", "\"others\":1"},
    {"bead", "\"number\":", "\"number\":4"},
    {"bead", "\"epoch\":\"", "\"epoch\":\"0"},
    {"bead", "\"publisher\":\"", "\"publisher\":\"7"},
    {"bead", "\"count\":\"", "\"count\":\"1099511627777"},
    {"bead", "\"tag\":\"", "\"tag\":\"0"},
    {"bead", "\"grace\":\"", "\"grace\":\"1"},
    {"bead", "\"major\":", "\"major\":9"},
    {"bead", "\"record\":\"bead\"", "\"record\":\"lead\""},
    {"hold", "\"way\":3", "\"way\":0"},
    {"hold", "\"slot\":1", "\"slot\":2"},
    {"hold", "\"channel\":\"", "\"channel\":\"0"},
    {"hold", "\"channel\":\"", "\"channel\":\"2"},
    {"quorum-hold", "\"granted_fence\":\"", "\"granted_fence\":\"9007199254740991"},
    {"quorum-hold", "\"hand_offs\":", "\"hand_offs\":256"},
    {"quorum-hold", "\"record\":\"quorum-hold\"", "\"record\":\"quorum-held\""},
};

START_TEST(a_wrong_state_is_refused)
{
	char why[128], from[64], *text, *its;

	make_slots(1);
	ck_assert_int_eq(take(0, 1, TRY)->slot, 1);
	world_pass(world, SECOND);
	freeze();
	text = world_save(world, 0);
	snprintf(from, sizeof(from), "{\"record\":\"%s\"", wrong[_i].record);
	its = edited(text, from, wrong[_i].what, wrong[_i].by);
	ck_assert_msg(!world_succeed(world, 0, its, why), "%s: accepted", wrong[_i].by);
	ck_assert_int_eq(strncmp(why, "line ", 5), 0);
	free(its);
	free(text);
}
END_TEST

static const struct {
	const char *record, *what, *by;
} wrong_graces[] = {
    {"grace", "\"id\":\"", "\"id\":\"99999"},
    {"grace", "\"name\":\"db\"", "\"name\":null"},
    {"grace", "\"kind\":0", "\"kind\":1"},
    {"grace", "\"slot\":1", "\"slot\":2"},
    {"grace", "\"channel\":\"", "\"channel\":\"0"},
    {"grace", "\"uid\":\"", "\"uid\":\"4294967296"},
    {"claim", "\"until\":\"", "\"until\":\"9000000000000"},
    {"claim", "\"held\":false", "\"held\":true"},
};

START_TEST(a_wrong_grace_is_refused)
{
	char why[128], from[64], *text, *its;

	make_slots(1);
	begin_grace();
	freeze();
	text = world_save(world, 0);
	snprintf(from, sizeof(from), "{\"record\":\"%s\"", wrong_graces[_i].record);
	its = edited(text, from, wrong_graces[_i].what, wrong_graces[_i].by);
	ck_assert_msg(!world_succeed(world, 0, its, why), "%s: accepted", wrong_graces[_i].by);
	ck_assert_int_eq(strncmp(why, "line ", 5), 0);
	free(its);
	free(text);
}
END_TEST

/* ---- over TLS ---- */

static void
begin_over_tls(void)
{
	world = world_new_over_tls();
}

/* No connection is handed over. Nobody waits for the slots. A renewal may be unanswered. */
START_TEST(over_tls_holds_are_reclaimed)
{
	const struct said *granted[20], *verified;

	make_slots(20);
	for (int i = 0; i < 20; i++)
		granted[i] = take(0, 1 + (uint64_t)i, TRY);
	world_pass(world, _i * SECOND);
	if (_i == 1)
		memory_world_set_rejects(world->memory, b, MEMORY_REJECTS_DELAYED);
	if (_i >= 1)
		lock_verify(engine(0), 1, 7, granted[0]->lock, 0);
	if (_i >= 2)
		memory_world_delay_deliveries(world->memory, b, true);
	world_pass(world, SOON);
	lock_freeze(engine(0), true);
	ck_assert(!lock_needs_link(engine(0)));
	ck_assert(lock_is_still(engine(0)));
	succeed(0);
	memory_world_delay_deliveries(world->memory, b, false);
	memory_world_set_rejects(world->memory, b, MEMORY_REJECTS_TAKEN);
	world_pass(world, 2 * LEASE);
	for (int i = 0; i < 20; i++) {
		ck_assert_int_eq(losses(1 + (uint64_t)i), 0);
		verified = verify(1 + (uint64_t)i, 9, granted[i]->lock);
		ck_assert_int_eq(verified->reason, REASON_NONE);
		ck_assert_uint_ge(verified->fence, granted[i]->fence);
	}
	release(0, 1, 2, granted[0]->lock);
	assert_clean(granted[0]->fence);
}
END_TEST

/* A rival is faster than the successor. The hold ends with its lease, and then the rival gets the slot. */
START_TEST(over_tls_a_hold_with_a_rival_is_lost)
{
	const struct said *granted, *answer;
	int64_t safe;

	make_slots(1);
	granted = take(0, 1, TRY);
	world_pass(world, SOON);
	safe = granted->safe_until;
	freeze();
	memory_broker_cut(world->daemon[0].broker, BROKER_QUORUM, 0, -1, "cut");
	memory_broker_cut(world->daemon[0].broker, BROKER_QUORUM + 1, 0, -1, "cut");
	world_acquire(world, 1, 70, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	succeed(0);
	answer = world_await(world, 1, 70, 1);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_int_ge(answer->at, safe);
	ck_assert_uint_gt(answer->fence, granted->fence);
	ck_assert_int_eq(losses(1), 1);
}
END_TEST

/* The grace ends with the connection. The waiter claims anew, and waits for the whole of it. */
START_TEST(over_tls_a_waiter_claims_anew)
{
	const struct said *answer;
	int64_t began;

	make_slots(1);
	begin_grace();
	world_pass(world, T / 2);
	freeze();
	began = world->now;
	succeed(0);
	answer = world_await(world, 0, 2, 1);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_int_ge(waited(answer, began), T);
}
END_TEST

/* A hold by queue ends with its connection, so the daemon is not replaced. */
START_TEST(over_tls_other_holds_hinder)
{
	make_slots(1);
	world_make(world, "other", 1);
	ck_assert(!lock_needs_link(engine(0)));
	ck_assert_int_eq(acquire(0, 1, 1, "other", TRY)->reason, REASON_NONE);
	ck_assert(lock_needs_link(engine(0)));
	lock_freeze(engine(0), true);
	ck_assert(!world_stills(world, 0));
}
END_TEST

Suite *
suite_lock_quorum_successor(void)
{
	Suite *suite = suite_create("lock: successor of holds by quorum");
	TCase *tc = tcase_create("quorum_successor");

	tcase_add_checked_fixture(tc, world_begin, world_end);
	tcase_add_test(tc, a_hold_goes_on);
	tcase_add_test(tc, the_lease_ends_when_it_would_have);
	tcase_add_test(tc, a_renewal_in_flight_is_awaited);
	tcase_add_test(tc, a_renewal_that_is_never_answered_is_a_loss);
	tcase_add_test(tc, fences_grow_through_hand_offs);
	tcase_add_test(tc, a_removed_slot_stays_revoked);
	tcase_add_test(tc, a_hold_goes_on_without_the_lock_connection);
	tcase_add_loop_test(tc, a_hold_outlives_its_connection_and_its_daemon, 0, 2);
	tcase_add_test(tc, a_lease_that_ends_meanwhile_is_a_loss);
	tcase_add_loop_test(tc, a_grace_keeps_its_end, 0, 4);
	tcase_add_loop_test(tc, a_claim_in_flight_ends_and_its_waiter_goes_on, 0, 2);
	tcase_add_test(tc, a_frozen_daemon_rotates_nothing);
	tcase_add_loop_test(tc, a_lost_hold_is_reclaimed_by_the_successor, 0, 2);
	tcase_add_test(tc, a_reclaim_that_waits_is_tried_by_the_successor);
	tcase_add_test(tc, without_anything_by_quorum_the_state_is_version_1);
	tcase_add_loop_test(tc, each_of_these_needs_version_2, 0, 4);
	tcase_add_loop_test(
	    tc, a_wrong_state_is_refused, 0, (int)(sizeof(wrong) / sizeof(wrong[0])));
	tcase_add_loop_test(
	    tc, a_wrong_grace_is_refused, 0, (int)(sizeof(wrong_graces) / sizeof(wrong_graces[0])));
	suite_add_tcase(suite, tc);
	tc = tcase_create("quorum_successor_tls");
	tcase_add_checked_fixture(tc, begin_over_tls, world_end);
	tcase_add_loop_test(tc, over_tls_holds_are_reclaimed, 0, 3);
	tcase_add_test(tc, over_tls_a_hold_with_a_rival_is_lost);
	tcase_add_test(tc, over_tls_a_waiter_claims_anew);
	tcase_add_test(tc, over_tls_other_holds_hinder);
	suite_add_tcase(suite, tc);
	return suite;
}
