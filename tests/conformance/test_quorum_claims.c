/*
 * Slots that are held by quorum: claims, renewals and releases, unclean ends and the grace after them,
 * and the fencing number.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/broker/beads.h"
#include "tests/conformance/client.h"
#include "tests/conformance/server.h"

#define T BEAD_GRACE_LEAST

/* The set's beads, in this order. */
static void
put_set(
    struct client *client, const char *queue, const char *order, uint64_t epoch, uint64_t publisher)
{
	struct broker_info info = rig_info(rig_open_up());
	unsigned major = 0;
	char text[BEAD_TEXT];

	ck_assert_int_eq(sscanf(info.version, "%u", &major), 1);
	for (; *order != '\0'; order++) {
		struct bead bead = {
		    .number = (unsigned)(*order - '0'),
		    .epoch = epoch,
		    .publisher = publisher,
		    .grace = T,
		    .major = major,
		};

		client_want(client_publish(client, queue, bead_print(text, &bead)), "ok");
	}
}

/* A slot with one set of epoch 7. */
static struct client *
make(const char *queue, const char *order)
{
	struct client *client = client_new();

	client_want(client_declare_quorum(client, queue, &(struct client_quorum){0}), "ok");
	put_set(client, queue, order, 7, 1);
	return client;
}

static uint64_t
take_channel(struct rig_broker *rig)
{
	return broker_channel_take_for(rig->broker, BROKER_BY_QUORUM);
}

static unsigned
ask_claim(struct rig_broker *rig, const char *queue)
{
	return rig_ask(rig, rig_claim_by_quorum, take_channel(rig), queue);
}

/* Claims it at once. Returns the reply. */
static struct broker_reply
claim(struct rig_broker *rig, const char *queue, uint64_t *ret_channel)
{
	unsigned uncleans = rig->uncleans;
	unsigned asked;

	*ret_channel = take_channel(rig);
	asked = rig_ask(rig, rig_claim_by_quorum, *ret_channel, queue);
	ck_assert_int_eq(rig_answer(asked)->reply.answer, BROKER_OK);
	ck_assert_uint_eq(rig->uncleans, uncleans);
	return rig_answers[asked].reply;
}

/* Claims it after a grace that begins now. Returns the fence. */
static uint64_t
claim_unclean(struct rig_broker *rig, const char *queue, uint64_t *ret_channel)
{
	unsigned uncleans = rig->uncleans, asked;
	int64_t began = rig_now();

	*ret_channel = take_channel(rig);
	asked = rig_ask(rig, rig_claim_by_quorum, *ret_channel, queue);
	rig_wait(rig->uncleans > uncleans);
	ck_assert_int_ge(rig->unclean_until, began + T);
	ck_assert_int_le(rig->unclean_until, rig_now() + T);
	ck_assert_int_eq(rig_answer(asked)->reply.answer, BROKER_OK);
	ck_assert_int_ge(rig_answers[asked].reply.sent_at, rig->unclean_until);
	return rig_answers[asked].reply.fence;
}

static void
release(struct rig_broker *rig, uint64_t channel, const char *queue)
{
	unsigned asked = rig_ask(rig, rig_release, channel, queue);

	ck_assert_int_eq(rig_answer(asked)->reply.answer, BROKER_OK);
	ck_assert(rig_answers[asked].reply.proved);
}

/* The closing of a channel is not answered: the broker performs it soon. */
static void
wait_for(struct client *client, const char *queue, const char *words)
{
	rig_wait(strcmp(client_declare(client, queue, CLIENT_PASSIVE), words) == 0);
}

START_TEST(a_claim_is_renewed_and_released)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	struct broker_reply reply;
	uint64_t channel, fence;
	unsigned renewal;

	make("quorum-life", "123");
	reply = claim(one, "quorum-life", &channel);
	/* The claim began anew, as the beads had never been returned. That returned each of them. */
	ck_assert_uint_eq(reply.fence, (UINT64_C(7) << 20) + (4 << 8));
	ck_assert_int_eq(reply.grace, T);
	for (unsigned i = 1; i <= 3; i++) {
		int64_t asked_at = rig_now();

		renewal = rig_ask(one, rig_renew, channel, "quorum-life");
		ck_assert_int_eq(rig_answer(renewal)->reply.answer, BROKER_OK);
		ck_assert_int_ge(rig_answers[renewal].reply.sent_at, asked_at);
		/* A rotation, which is rare, adds to it. */
		ck_assert_uint_ge(rig_answers[renewal].reply.fence, reply.fence + (i << 8));
	}
	fence = rig_answers[renewal].reply.fence;
	release(one, channel, "quorum-life");
	for (unsigned i = 0; i < 4; i++) {
		reply = claim(i % 2 == 0 ? two : one, "quorum-life", &channel);
		ck_assert_uint_gt(reply.fence, fence);
		fence = reply.fence;
		release(i % 2 == 0 ? two : one, channel, "quorum-life");
	}
	ck_assert_uint_eq(one->channels_closed + two->channels_closed, 0);
	ck_assert_uint_eq(one->uncleans + two->uncleans, 0);
}
END_TEST

/* The other one is not the active consumer, and gets no message. */
START_TEST(a_held_slot_is_busy)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	uint64_t channel;

	make("quorum-busy", "123");
	(void)claim(one, "quorum-busy", &channel);
	rig_want(two, rig_claim_by_quorum, take_channel(two), "quorum-busy", BROKER_LOCKED);
	rig_want(one, rig_claim_by_quorum, take_channel(one), "quorum-busy", BROKER_LOCKED);
	rig_want(one, rig_renew, channel, "quorum-busy", BROKER_OK);
	release(one, channel, "quorum-busy");
	(void)claim(two, "quorum-busy", &channel);
}
END_TEST

START_TEST(a_new_slot_is_dirty)
{
	struct rig_broker *one = rig_open_up();
	uint64_t channel;

	make("quorum-new", "132");
	(void)claim_unclean(one, "quorum-new", &channel);
	release(one, channel, "quorum-new");
	(void)claim(one, "quorum-new", &channel);
}
END_TEST

enum unclean { CONNECTION, GIVEN_UP, PUT, DAEMON, UNCLEANS };

/* The next holder waits for T, and has a larger number. */
START_TEST(after_an_unclean_end_the_next_one_waits)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	struct broker_reply reply;
	uint64_t channel, fence;
	char queue[64];

	snprintf(queue, sizeof(queue), "quorum-end-%d", _i);
	make(queue, "123");
	reply = claim(one, queue, &channel);
	rig_want(one, rig_renew, channel, queue, BROKER_OK);
	switch ((enum unclean)_i) {
	case CONNECTION:
		broker_reset(one->broker, BROKER_QUORUM, "by the test");
		rig_wait(one->channels_closed == 1);
		ck_assert_uint_eq(one->closed_channel, channel);
		rig_want(one, rig_renew, channel, queue, BROKER_SKIPPED);
		rig_want(one, rig_release, channel, queue, BROKER_SKIPPED);
		break;
	case GIVEN_UP:
		rig_want(one, rig_give_up, channel, queue, BROKER_OK);
		break;
	case PUT:
		rig_put(one, channel);
		break;
	case DAEMON:
		broker_stop(one->broker);
		break;
	case UNCLEANS:
		break;
	}
	fence = claim_unclean(two, queue, &channel);
	ck_assert_uint_gt(fence, reply.fence + 256);
	release(two, channel, queue);
	(void)claim(two, queue, &channel);
}
END_TEST

static uint64_t
reclaimed(const struct rig_broker *rig)
{
	struct broker_quorum_info info;

	broker_get_quorum(rig->broker, &info);
	return info.reclaimed;
}

/* By the end of its connection, or of its channel. Each bead returns once, and nothing else counts. */
START_TEST(a_hold_is_reclaimed_when_its_holder_has_stopped)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	struct broker_reply reply;
	uint64_t channel, fence;
	char queue[64];

	snprintf(queue, sizeof(queue), "quorum-reclaim-%d", _i);
	make(queue, "123");
	reply = claim(one, queue, &channel);
	rig_want(one, rig_renew, channel, queue, BROKER_OK);
	if (_i == CONNECTION) {
		broker_reset(one->broker, BROKER_QUORUM, "by the test");
		rig_wait(one->channels_closed == 1);
	} else {
		rig_want(one, rig_give_up, channel, queue, BROKER_OK);
	}
	ck_assert_uint_eq(reclaimed(one), 0);
	broker_holder_stopped(one->broker, channel);
	rig_wait(reclaimed(one) == 1);
	fence = claim(two, queue, &channel).fence;
	ck_assert_uint_gt(fence, reply.fence + 256);
	release(two, channel, queue);
}
END_TEST

START_TEST(a_slot_is_not_reclaimed_after_another_holder)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	uint64_t first, second;

	make("quorum-between", "123");
	(void)claim(one, "quorum-between", &first);
	rig_want(one, rig_give_up, first, "quorum-between", BROKER_OK);
	(void)claim_unclean(two, "quorum-between", &second);
	rig_want(two, rig_give_up, second, "quorum-between", BROKER_OK);
	broker_holder_stopped(one->broker, first);
	rig_wait(broker_reclaims(one->broker) == 0);
	ck_assert_uint_eq(reclaimed(one), 0);
	(void)claim_unclean(two, "quorum-between", &second);
	release(two, second, "quorum-between");
}
END_TEST

/* One reject is in flight at a time, and each question is answered by one that was sent after it. */
START_TEST(renewals_at_once_are_answered_in_order)
{
	struct rig_broker *one = rig_open_up();
	uint64_t channel;
	unsigned first, second, third, last;

	make("quorum-many", "123");
	(void)claim(one, "quorum-many", &channel);
	first = rig_ask(one, rig_renew, channel, "quorum-many");
	second = rig_ask(one, rig_renew, channel, "quorum-many");
	third = rig_ask(one, rig_renew, channel, "quorum-many");
	last = rig_ask(one, rig_release, channel, "quorum-many");
	ck_assert_int_eq(rig_answer(last)->reply.answer, BROKER_OK);
	ck_assert(rig_answers[last].reply.proved);
	ck_assert_int_eq(rig_answers[first].reply.answer, BROKER_OK);
	/* They were not asked any more. */
	ck_assert_int_eq(rig_answers[second].reply.answer, BROKER_SKIPPED);
	ck_assert_int_eq(rig_answers[third].reply.answer, BROKER_SKIPPED);
	(void)claim(one, "quorum-many", &channel);
	first = rig_ask(one, rig_renew, channel, "quorum-many");
	second = rig_ask(one, rig_renew, channel, "quorum-many");
	ck_assert_int_eq(rig_answer(second)->reply.answer, BROKER_OK);
	ck_assert_uint_gt(rig_answers[second].reply.fence, rig_answers[first].reply.fence);
}
END_TEST

START_TEST(a_deleted_queue_ends_the_hold)
{
	struct rig_broker *one = rig_open_up();
	struct client *client = make("quorum-gone", "123");
	uint64_t channel;

	(void)claim(one, "quorum-gone", &channel);
	client_want(client_delete(client, "quorum-gone", 0), "ok");
	rig_wait(one->channels_closed == 1);
	ck_assert_uint_eq(one->closed_channel, channel);
	rig_want(one, rig_claim_by_quorum, take_channel(one), "quorum-gone", BROKER_ABSENT);
	ck_assert_uint_eq(one->channels_closed, 1);
}
END_TEST

START_TEST(a_slot_without_beads_is_busy)
{
	struct rig_broker *one = rig_open_up();
	struct client *client = client_new();
	uint64_t channel;

	client_want(
	    client_declare_quorum(client, "quorum-empty", &(struct client_quorum){0}), "ok");
	rig_want(one, rig_claim_by_quorum, take_channel(one), "quorum-empty", BROKER_LOCKED);
	wait_for(client, "quorum-empty", "ok 0 0");
	put_set(client, "quorum-empty", "12", 7, 1);
	rig_want(one, rig_claim_by_quorum, take_channel(one), "quorum-empty", BROKER_UNREACHABLE);
	wait_for(client, "quorum-empty", "ok 2 0");
	put_set(client, "quorum-empty", "3", 7, 1);
	/* Each of the two came back once. Then the claim began anew, which returned all three. */
	ck_assert_uint_eq(
	    claim(one, "quorum-empty", &channel).fence, (UINT64_C(7) << 20) + (6 << 8));
}
END_TEST

START_TEST(foreign_messages_are_removed)
{
	struct rig_broker *one = rig_open_up();
	struct client *client = client_new();
	uint64_t channel;
	char large[300];

	memset(large, 'x', sizeof(large) - 1);
	large[sizeof(large) - 1] = '\0';
	client_want(
	    client_declare_quorum(client, "quorum-foreign", &(struct client_quorum){0}), "ok");
	client_want(client_publish(client, "quorum-foreign", "hello"), "ok");
	put_set(client, "quorum-foreign", "1", 7, 1);
	client_want(client_publish(client, "quorum-foreign", ""), "ok");
	client_want(client_publish(client, "quorum-foreign", large), "ok");
	put_set(client, "quorum-foreign", "23", 7, 1);
	(void)claim(one, "quorum-foreign", &channel);
	release(one, channel, "quorum-foreign");
	wait_for(client, "quorum-foreign", "ok 3 0");
}
END_TEST

START_TEST(of_two_sets_the_newer_one_counts)
{
	struct rig_broker *one = rig_open_up();
	struct client *client = make("quorum-two", "123");
	uint64_t channel;

	put_set(client, "quorum-two", "1", 9, 2);
	put_set(client, "quorum-two", "132", 8, 2);
	/* The claim of the first set begins anew as the second one is read, and removes the first. */
	ck_assert_uint_ge(claim_unclean(one, "quorum-two", &channel), UINT64_C(8) << 20);
	release(one, channel, "quorum-two");
}
END_TEST

START_TEST(two_sets_of_one_epoch_are_refused)
{
	struct rig_broker *one = rig_open_up();
	struct client *client = make("quorum-twin", "123");
	unsigned asked;

	put_set(client, "quorum-twin", "123", 7, 2);
	asked = ask_claim(one, "quorum-twin");
	ck_assert_int_eq(rig_answer(asked)->reply.answer, BROKER_REFUSED);
	ck_assert_str_eq(rig_answers[asked].text, beads_end_words(BEADS_END_TWO_SETS));
}
END_TEST

START_TEST(a_missing_permission_is_told)
{
	struct rig_broker *one = rig_open_up();
	unsigned asked;

	make("quorum-permit", "123");
	server->permit(false);
	asked = ask_claim(one, "quorum-permit");
	ck_assert_int_eq(rig_answer(asked)->reply.answer, BROKER_REFUSED);
	ck_assert_int_eq(rig_answers[asked].reply.code, 403);
	server->permit(true);
}
END_TEST

Suite *
quorum_claims_suite(void)
{
	Suite *suite = suite_create("quorum claims");
	TCase *tcase = server_tcase(suite, "quorum claims");

	tcase_add_test(tcase, a_claim_is_renewed_and_released);
	tcase_add_test(tcase, a_held_slot_is_busy);
	tcase_add_test(tcase, a_new_slot_is_dirty);
	tcase_add_loop_test(tcase, after_an_unclean_end_the_next_one_waits, 0, UNCLEANS);
	tcase_add_loop_test(
	    tcase, a_hold_is_reclaimed_when_its_holder_has_stopped, CONNECTION, GIVEN_UP + 1);
	tcase_add_test(tcase, a_slot_is_not_reclaimed_after_another_holder);
	tcase_add_test(tcase, renewals_at_once_are_answered_in_order);
	tcase_add_test(tcase, a_deleted_queue_ends_the_hold);
	tcase_add_test(tcase, a_slot_without_beads_is_busy);
	tcase_add_test(tcase, foreign_messages_are_removed);
	tcase_add_test(tcase, of_two_sets_the_newer_one_counts);
	tcase_add_test(tcase, two_sets_of_one_epoch_are_refused);
	tcase_add_test(tcase, a_missing_permission_is_told);
	return suite;
}
