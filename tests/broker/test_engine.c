/*
 * The lock engine over a real RabbitMQ: the cost of an acquire on the wire. Two local clients never
 * share a slot, although RabbitMQ would allow that. Started by test_engine.py.
 */
#include "tests/broker/amqp_rig.h"

#include <stdio.h>

#include "daemon/lock/lock.h"
#include "protocol/duration.h"
#include "tests/lock_settings.h"

#define PEERS 3
#define ROUNDS 200

/* One daemon's engine, and the last answer to each client. */
struct side {
	struct broker *broker;
	struct lock_engine *engine;
	uint64_t last_request;
	struct {
		uint64_t request; /* answered */
		enum reason reason;
		uint64_t lock;
		int slot, slots;
	} peer[PEERS];
	unsigned lost;
	bool up;
};

static const struct lock_settings settings = {
    TEST_LOCK_SETTINGS,
    .max_locks_per_connection = 1024,
    .max_waits_per_connection = 1024,
};

static struct side ours;
static struct rig_broker *other; /* somebody else's connection */

static void
on_answer(void *ctx, uint64_t peer, uint64_t request, const struct lock_answer *answer)
{
	struct side *side = ctx;

	ck_assert_uint_lt(peer, PEERS);
	side->peer[peer].request = request;
	side->peer[peer].reason = answer->reason;
	side->peer[peer].lock = answer->lock;
	side->peer[peer].slot = answer->slot;
	side->peer[peer].slots = answer->slots;
}

static void
on_notice(void *ctx, uint64_t peer, const struct lock_notice *notice)
{
	struct side *side = ctx;

	(void)peer;
	side->lost += notice->kind == LOCK_NOTICE_LOST;
}

static bool
is_up(void)
{
	struct broker_info info;

	broker_get_info(ours.broker, &info);
	return info.locks == BROKER_UP;
}

static void
setup(void)
{
	struct amqp_host host;
	struct amqp_settings amqp;
	struct lock_events events = {.answer = on_answer, .notice = on_notice, .ctx = &ours};
	struct amqp_dialer dialer;
	char *error;

	rig_setup();
	ours = (struct side){0};
	host = rig_host();
	amqp = rig_settings(&host, 1);
	ck_assert_msg(amqp_tcp_dialer(rig_base, &amqp, &dialer, &error), "%s", error);
	ours.broker = rig_own_broker = broker_new(rig_timers, 1, &amqp, &dialer);
	ours.engine = lock_engine_new(ours.broker, rig_timers, 1, &settings, &events);
	broker_start(ours.broker);
	rig_wait(is_up());
	other = rig_open_up();
}

static void
teardown(void)
{
	broker_stop(ours.broker);
	lock_engine_free(ours.engine);
	broker_free(ours.broker);
	rig_teardown();
}

static struct amqp_counts
counts(enum broker_link link)
{
	struct amqp_counts counted;

	broker_get_counts(ours.broker, link, &counted);
	return counted;
}

static void
await(uint64_t peer, uint64_t request)
{
	rig_wait(ours.peer[peer].request == request);
}

static void
send_acquire(uint64_t peer, const char *name, int64_t timeout)
{
	struct lock_acquire acquire = {
	    .name = name, .kind = LOCK_KIND_SEMAPHORE, .timeout = timeout};

	lock_acquire(ours.engine, peer, ++ours.last_request, &acquire);
}

static enum reason
acquire(uint64_t peer, const char *name)
{
	send_acquire(peer, name, 0);
	await(peer, ours.last_request);
	return ours.peer[peer].reason;
}

static void
release(uint64_t peer)
{
	lock_release(ours.engine, peer, ++ours.last_request, ours.peer[peer].lock);
	await(peer, ours.last_request);
	ck_assert_int_eq(ours.peer[peer].reason, REASON_NONE);
}

static void
make(const char *name, int slots)
{
	lock_create(ours.engine, 1, ++ours.last_request,
	    &(struct lock_change){
		.name = name, .kind = LOCK_KIND_SEMAPHORE, .slots = slots, .exist_ok = false});
	await(1, ours.last_request);
	ck_assert_int_eq(ours.peer[1].reason, REASON_NONE);
}

static void
destroy(const char *name)
{
	lock_destroy(ours.engine, 1, ++ours.last_request, &(struct lock_change){.name = name});
	await(1, ours.last_request);
	ck_assert_int_eq(ours.peer[1].reason, REASON_NONE);
}

START_TEST(a_known_free_slot_is_one_flight)
{
	struct amqp_counts hold, side;

	make("cost", 2);
	ck_assert_int_eq(acquire(1, "cost"), REASON_NONE);
	release(1);
	/* The checks of B after that claim, on old servers, are over. */
	hold = counts(BROKER_LOCKS);
	side = counts(BROKER_AUXILIARY);
	ck_assert_int_eq(acquire(2, "cost"), REASON_NONE);
	ck_assert_uint_eq(counts(BROKER_LOCKS).sent_methods, hold.sent_methods + 2);
	ck_assert_uint_eq(counts(BROKER_LOCKS).flushes, hold.flushes + 1);
	ck_assert_uint_eq(counts(BROKER_LOCKS).channels_opened, hold.channels_opened);
	ck_assert_uint_eq(counts(BROKER_AUXILIARY).sent_publishes, side.sent_publishes);
	ck_assert_uint_eq(counts(BROKER_LOCKS).sent_publishes, 0);
	ck_assert_uint_eq(counts(BROKER_LOCKS).sent_consumes, 0);
	release(2);
	destroy("cost");
}
END_TEST

/* If the server hides queues: 1, as an absent slot queue costs one more question. */
static unsigned
asked_again(void)
{
	struct broker_info info;

	broker_get_info(ours.broker, &info);
	return info.hides_queues;
}

/* The wait queue's work after a change is over when a question costs as little as it can. */
static void
settle(const char *name)
{
	struct amqp_counts before;

	for (int i = 0; i < 100; i++) {
		before = counts(BROKER_AUXILIARY);
		lock_size(ours.engine, 1, ++ours.last_request, name);
		await(1, ours.last_request);
		if (counts(BROKER_AUXILIARY).flushes == before.flushes + 1 + 2 * asked_again())
			return;
	}
	ck_abort_msg("the auxiliary connection does not come to rest");
}

/*
 * The cost of a failed try: one flush of probes on the auxiliary connection, without a channel. A
 * question that is asked again costs a channel: a flush with it, and one with its close-ok.
 */
static void
fails_cheaply(uint64_t peer, const char *name, enum reason reason)
{
	/* A[1], and the three questions about markers. */
	unsigned again = reason == REASON_NO_SUCH_LOCK ? 4 * asked_again() : 0;
	struct amqp_counts hold = counts(BROKER_LOCKS), side = counts(BROKER_AUXILIARY), after;

	ck_assert_int_eq(acquire(peer, name), reason);
	after = counts(BROKER_LOCKS);
	ck_assert_uint_eq(after.sent_methods, hold.sent_methods);
	ck_assert_uint_eq(after.channels_closed_by_broker, hold.channels_closed_by_broker);
	after = counts(BROKER_AUXILIARY);
	ck_assert_uint_gt(after.sent_publishes, side.sent_publishes);
	ck_assert_uint_ge(after.flushes, side.flushes + 1 + again);
	ck_assert_uint_le(after.flushes, side.flushes + 1 + 2 * again);
	ck_assert_uint_eq(after.channels_closed_by_broker, side.channels_closed_by_broker + again);
}

START_TEST(a_failing_try_is_one_flush_of_probes)
{
	uint64_t channels[3];
	char queue[32];

	make("full", 3); /* which brings up the auxiliary connection, too */
	settle("full");
	fails_cheaply(2, "missing", REASON_NO_SUCH_LOCK);
	for (int i = 0; i < 3; i++) {
		snprintf(queue, sizeof(queue), "full-%d-B", i + 1);
		channels[i] = rig_take(other, BROKER_LOCKS);
		rig_want(other, rig_claim, channels[i], queue, BROKER_OK);
	}
	fails_cheaply(2, "full", REASON_WOULD_BLOCK);
	ck_assert_int_eq(ours.peer[2].slots, 3);
	for (int i = 0; i < 3; i++) {
		snprintf(queue, sizeof(queue), "full-%d-B", i + 1);
		rig_want(other, rig_drop, channels[i], queue, BROKER_OK);
		rig_put(other, channels[i]);
	}
	destroy("full");
}
END_TEST

/* Whether the slot's B exists and belongs to another connection than `other`: to ours. */
static bool
b_is_held(const char *queue)
{
	uint64_t channel = rig_take(other, BROKER_LOCKS);
	enum broker_answer answer =
	    rig_answer(rig_ask(other, broker_check, channel, queue))->reply.answer;

	rig_put(other, channel);
	return answer == BROKER_LOCKED;
}

START_TEST(two_local_clients_on_one_slot_never_share_it_or_hold_nothing)
{
	uint64_t waits;

	/* Each is granted only with a B that is there, and that outlives the other's delete. */
	make("turns", 1);
	ck_assert_int_eq(acquire(1, "turns"), REASON_NONE);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t holder = 1 + (uint64_t)(round % 2), waiter = 3 - holder;
		uint64_t released;

		send_acquire(waiter, "turns", 30 * NSEC_PER_SEC);
		waits = ours.last_request;
		ck_assert_uint_ne(ours.peer[waiter].request, waits);
		lock_release(ours.engine, holder, ++ours.last_request, ours.peer[holder].lock);
		released = ours.last_request;
		rig_wait(ours.peer[waiter].request == waits);
		ck_assert_int_eq(ours.peer[waiter].reason, REASON_NONE);
		ck_assert_msg(ours.peer[holder].request == released,
		    "round %d: granted before the other's delete-ok", round);
		ck_assert_msg(b_is_held("turns-1-B"), "round %d: held, and there is no B", round);
	}
	ck_assert_uint_eq(ours.lost, 0);
	release(1 + ROUNDS % 2);
	destroy("turns");
}
END_TEST

static Suite *
engine_suite(void)
{
	Suite *suite = suite_create("engine over RabbitMQ");
	TCase *tc = tcase_create("engine");

	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, a_known_free_slot_is_one_flight);
	tcase_add_test(tc, a_failing_try_is_one_flush_of_probes);
	tcase_add_test(tc, two_local_clients_on_one_slot_never_share_it_or_hold_nothing);
	suite_add_tcase(suite, tc);
	return suite;
}

int
main(void)
{
	static Suite *(*const makers[])(void) = {engine_suite};

	return unit_run(makers, sizeof(makers) / sizeof(makers[0]));
}
