/*
 * Claims by queue, and the channels of requests: the answers to claim, check and drop, the owners
 * of queues, and the costs of a failure.
 */
#include <stdio.h>
#include <string.h>

#include "tests/conformance/client.h"
#include "tests/conformance/server.h"

#define LOCKED(queue)                                                                              \
	"405 RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '" queue             \
	"' in vhost '/'. It could be originally declared on another connection or the exclusive "  \
	"property value does not match that of the original declaration."

/* Claims it as soon as it is free. */
static void
claim_when_free(struct rig_broker *rig, rig_operation *operation, const char *queue)
{
	for (int64_t end = rig_now() + 10 * NSEC_PER_SEC;;) {
		uint64_t channel = rig_take(rig, BROKER_LOCKS);
		const struct rig_answer *answer =
		    rig_answer(rig_ask(rig, operation, channel, queue));

		if (answer->reply.answer == BROKER_OK)
			return;
		ck_assert_int_eq(answer->reply.answer, BROKER_LOCKED);
		ck_assert_int_lt(rig_now(), end);
	}
}

START_TEST(a_claim_is_checked_and_dropped)
{
	struct rig_broker *one = rig_open_up();
	uint64_t channel = rig_take(one, BROKER_LOCKS);
	const struct rig_answer *answer;
	int64_t before = rig_now();

	answer = rig_answer(rig_ask(one, rig_claim, channel, "ccd-1-B"));
	ck_assert_int_eq(answer->reply.answer, BROKER_OK);
	ck_assert(answer->reply.channel_open);
	ck_assert_int_eq(answer->reply.code, 0);
	ck_assert_int_ge(answer->reply.sent_at, before);
	ck_assert_int_le(answer->reply.sent_at, rig_now());
	rig_want(one, broker_check, channel, "ccd-1-B", BROKER_OK);
	/* A connection may declare its own again, so it alone does not arbitrate. */
	rig_want(one, rig_claim, channel, "ccd-1-B", BROKER_OK);
	rig_want(one, rig_claim, rig_take(one, BROKER_LOCKS), "ccd-1-B", BROKER_OK);
	rig_want(one, rig_drop, channel, "ccd-1-B", BROKER_OK);
	rig_want(one, rig_drop, channel, "ccd-1-B", BROKER_OK);
	answer = rig_answer(rig_ask(one, broker_check, channel, "ccd-1-B"));
	ck_assert_int_eq(answer->reply.answer, BROKER_ABSENT);
	ck_assert(!answer->reply.channel_open);
	ck_assert_int_eq(answer->reply.code, 404);
	ck_assert_ptr_nonnull(strstr(answer->text, "NOT_FOUND - no queue 'ccd-1-B' in vhost '/'"));
	ck_assert_uint_eq(one->channels_closed, 1);
	ck_assert_uint_eq(one->closed_channel, channel);
	ck_assert_int_eq(one->closed_code, 404);
}
END_TEST

/* The queue is the connection's, whichever channel declared it, and goes with the connection. */
START_TEST(an_exclusive_queue_is_its_connections)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	uint64_t mine = rig_take(one, BROKER_LOCKS), theirs = rig_take(two, BROKER_LOCKS);
	const struct rig_answer *answer;

	rig_want(one, rig_claim, mine, "contended-1-B", BROKER_OK);
	answer = rig_answer(rig_ask(two, rig_claim, theirs, "contended-1-B"));
	ck_assert_int_eq(answer->reply.answer, BROKER_LOCKED);
	ck_assert_int_eq(answer->reply.code, 405);
	ck_assert(!answer->reply.channel_open);
	theirs = rig_take(two, BROKER_LOCKS);
	rig_want(two, broker_check, theirs, "contended-1-B", BROKER_LOCKED);
	theirs = rig_take(two, BROKER_LOCKS);
	rig_want(two, rig_drop, theirs, "contended-1-B", BROKER_LOCKED);
	/* The auxiliary connection of the same daemon is another connection. */
	rig_want(
	    one, broker_check, rig_take(one, BROKER_AUXILIARY), "contended-1-B", BROKER_LOCKED);
	rig_want(one, broker_declare_slot, rig_take(one, BROKER_AUXILIARY), "contended-1-B",
	    BROKER_LOCKED);
	rig_want(one, broker_delete_slot, rig_take(one, BROKER_AUXILIARY), "contended-1-B",
	    BROKER_LOCKED);
	rig_want(one, broker_check, mine, "contended-1-B", BROKER_OK);
	broker_stop(one->broker);
	claim_when_free(two, rig_claim, "contended-1-B");
}
END_TEST

START_TEST(a_channel_that_is_put_back_frees_nothing)
{
	struct rig_broker *one = rig_open_up();
	uint64_t channel = rig_take(one, BROKER_LOCKS);

	rig_want(one, rig_claim, channel, "put-1-B", BROKER_OK);
	rig_put(one, channel);
	rig_put(one, channel); /* gone: fine */
	rig_put(one, 4711 << 1);
	rig_want(one, broker_check, rig_take(one, BROKER_LOCKS), "put-1-B", BROKER_OK);
	channel = rig_take(one, BROKER_LOCKS);
	rig_want(one, broker_check, channel, "put-none", BROKER_ABSENT);
	rig_put(one, channel);
	ck_assert_uint_ne(rig_take(one, BROKER_LOCKS), channel);
}
END_TEST

START_TEST(requests_behind_a_failure_are_skipped)
{
	struct rig_broker *one = rig_open_up();
	uint64_t channel = rig_take(one, BROKER_LOCKS);
	unsigned claim = rig_ask(one, rig_claim, channel, "skip-1-B");
	unsigned check = rig_ask(one, broker_check, channel, "skip-1-A");
	unsigned behind = rig_ask(one, rig_drop, channel, "skip-1-B");
	unsigned beside = rig_ask(one, rig_claim, rig_take(one, BROKER_LOCKS), "skip-2-B");
	unsigned late;

	ck_assert_int_eq(rig_answer(behind)->reply.answer, BROKER_SKIPPED);
	ck_assert(!rig_answer(behind)->reply.channel_open);
	ck_assert_int_eq(rig_answer(claim)->reply.answer, BROKER_OK);
	ck_assert_int_eq(rig_answer(check)->reply.answer, BROKER_ABSENT);
	ck_assert_int_eq(rig_answer(beside)->reply.answer, BROKER_OK);
	ck_assert_uint_lt(rig_answer(claim)->order, rig_answer(check)->order);
	ck_assert_uint_lt(rig_answer(check)->order, rig_answer(behind)->order);
	late = rig_ask(one, rig_drop, channel, "skip-1-B");
	ck_assert_int_eq(rig_answer(late)->reply.answer, BROKER_SKIPPED);
	/* The drop was not performed: B is still there, and still ours. */
	rig_want(one, broker_check, rig_take(one, BROKER_LOCKS), "skip-1-B", BROKER_OK);
}
END_TEST

static struct rig_broker *asker;
static uint64_t asking;

/* To the first answer: on the channel that is gone, and on a new one. */
static void
ask_on(unsigned number)
{
	if (rig_answers[number].order != 0)
		return;
	(void)rig_ask(asker, rig_claim, asking, "on-1-B");
	(void)rig_ask(asker, rig_claim, rig_take(asker, BROKER_LOCKS), "on-1-B");
}

START_TEST(an_answer_asks_on)
{
	unsigned first;

	asker = rig_open_up();
	asking = rig_take(asker, BROKER_LOCKS);
	rig_reaction = ask_on;
	first = rig_ask(asker, broker_check, asking, "on-none");
	ck_assert_int_eq(rig_answer(first)->reply.answer, BROKER_ABSENT);
	ck_assert_int_eq(rig_answer(first + 1)->reply.answer, BROKER_SKIPPED);
	ck_assert_int_eq(rig_answer(first + 2)->reply.answer, BROKER_OK);
	ck_assert_uint_eq(asker->channels_closed, 1);
}
END_TEST

static void
put_back(unsigned number)
{
	if (rig_answers[number].order == 0)
		rig_put(asker, asking);
}

START_TEST(no_event_of_a_channel_that_the_answer_put_back)
{
	unsigned check, claim;

	asker = rig_open_up();
	asking = rig_take(asker, BROKER_LOCKS);
	rig_reaction = put_back;
	check = rig_ask(asker, broker_check, asking, "back-none");
	claim = rig_ask(asker, rig_claim, asking, "back-1-B");
	ck_assert_int_eq(rig_answer(claim)->reply.answer, BROKER_SKIPPED);
	ck_assert_int_eq(rig_answers[check].reply.answer, BROKER_ABSENT);
	rig_pass_for(100 * NSEC_PER_MSEC);
	ck_assert_uint_eq(asker->channels_closed, 0);
}
END_TEST

/* The numbers of channels that were closed are used again. */
START_TEST(three_hundred_failures)
{
	struct rig_broker *one = rig_open_up();

	for (int i = 0; i < 100; i++) {
		unsigned asked[3];

		for (int j = 0; j < 3; j++)
			asked[j] =
			    rig_ask(one, broker_check, rig_take(one, BROKER_LOCKS), "reuse-none");
		for (int j = 0; j < 3; j++)
			ck_assert_int_eq(rig_answer(asked[j])->reply.answer, BROKER_ABSENT);
	}
	ck_assert_uint_eq(one->channels_closed, 300);
	ck_assert_uint_eq(rig_info(one).channels, 0);
	ck_assert_uint_eq(one->events[BROKER_LOCKS], 1);
}
END_TEST

START_TEST(five_hundred_holds)
{
	enum { MANY = 500 };
	struct rig_broker *one = rig_open_up();
	uint64_t channels[MANY];
	unsigned asked[MANY];
	char queue[MANY][32];

	for (int i = 0; i < MANY; i++) {
		snprintf(queue[i], sizeof(queue[i]), "many-%d-B", i);
		channels[i] = rig_take(one, BROKER_LOCKS);
		ck_assert_uint_ne(channels[i], 0);
		asked[i] = rig_ask(one, rig_claim, channels[i], queue[i]);
	}
	for (int i = 0; i < MANY; i++)
		ck_assert_int_eq(rig_answer(asked[i])->reply.answer, BROKER_OK);
	ck_assert_uint_eq(rig_info(one).channels, MANY);
	ck_assert_uint_ge(rig_info(one).channels_max, 2047);
	for (int i = 0; i < MANY; i++)
		asked[i] = rig_ask(one, rig_drop, channels[i], queue[i]);
	for (int i = 0; i < MANY; i++) {
		ck_assert_int_eq(rig_answer(asked[i])->reply.answer, BROKER_OK);
		rig_put(one, channels[i]);
	}
	rig_want(one, broker_check, rig_take(one, BROKER_LOCKS), queue[0], BROKER_ABSENT);
	ck_assert_uint_eq(one->channels_closed, 1);
}
END_TEST

/* ---- queues of other programs ---- */

START_TEST(a_queue_of_another_program)
{
	struct rig_broker *one = rig_open_up();
	struct client *client = client_new();
	const struct rig_answer *answer;

	client_want(client_declare(client, "theirs-1-B", CLIENT_EXCLUSIVE), "ok 0 0");
	client_want(client_declare(client, "plain-1-B", CLIENT_TRANSIENT), "ok 0 0");
	rig_want(one, rig_claim, rig_take(one, BROKER_LOCKS), "theirs-1-B", BROKER_LOCKED);
	/* A queue that is not exclusive cannot be declared so. */
	rig_want(one, rig_claim, rig_take(one, BROKER_LOCKS), "plain-1-B", BROKER_LOCKED);
	rig_want(one, broker_check, rig_take(one, BROKER_LOCKS), "plain-1-B", BROKER_OK);
	answer = rig_answer(rig_ask(one, rig_claim, rig_take(one, BROKER_LOCKS), "amq.mine"));
	ck_assert_int_eq(answer->reply.answer, BROKER_REFUSED);
	ck_assert_int_eq(answer->reply.code, 403);
	client_want(client_delete(client, "plain-1-B", 0), "ok");
	client_want(client_delete(client, "theirs-1-B", 0), "ok");
	rig_want(one, rig_claim, rig_take(one, BROKER_LOCKS), "theirs-1-B", BROKER_OK);
	client_want(client_declare(client, "theirs-1-B", CLIENT_EXCLUSIVE), LOCKED("theirs-1-B"));
	client_want(client_declare(client, "theirs-1-B", CLIENT_PASSIVE), LOCKED("theirs-1-B"));
	client_want(client_delete(client, "theirs-1-B", 0), LOCKED("theirs-1-B"));
	client_want(client_consume(client, "theirs-1-B", 0, 0), LOCKED("theirs-1-B"));
	client_want(client_get(client, "theirs-1-B"), LOCKED("theirs-1-B"));
}
END_TEST

/* A declare that differs in `exclusive` is refused even to the owner. */
START_TEST(declared_in_the_other_way)
{
	struct client *client = client_new(), *twin = client_twin(client), *rival = client_new();

	client_want(client_declare(client, "way-1-B", CLIENT_HOLDER), "ok 0 0");
	client_want(client_declare(rival, "way-1-B", CLIENT_EXCLUSIVE), LOCKED("way-1-B"));
	client_want(client_declare(client, "way-2-B", CLIENT_EXCLUSIVE), "ok 0 0");
	client_want(client_declare(rival, "way-2-B", CLIENT_HOLDER), LOCKED("way-2-B"));
	client_want(client_declare(client, "way-2-B", CLIENT_HOLDER), LOCKED("way-2-B"));
	client_want(client_declare(twin, "way-2-B", CLIENT_PASSIVE), "ok 0 0");
	client_want(client_declare(twin, "way-2-B", CLIENT_EXCLUSIVE), "ok 0 0");
	client_want(client_delete(client, "way-1-B", 0), "ok");
}
END_TEST

START_TEST(an_exclusive_queue_ends_with_its_connection_alone)
{
	struct rig_broker *one = rig_open_up();
	struct client *client = client_new(), *twin = client_twin(client);

	client_want(client_declare(twin, "ends-1-B", CLIENT_EXCLUSIVE), "ok 0 0");
	client_close(twin);
	client_want(client_declare(client, "ends-none", CLIENT_PASSIVE), "404 NOT_FOUND - ");
	rig_want(one, rig_claim, rig_take(one, BROKER_LOCKS), "ends-1-B", BROKER_LOCKED);
	client_end(client);
	claim_when_free(one, rig_claim, "ends-1-B");
}
END_TEST

Suite *
claims_suite(void)
{
	Suite *suite = suite_create("claims");
	TCase *tcase = server_tcase(suite, "claims");

	tcase_add_test(tcase, a_claim_is_checked_and_dropped);
	tcase_add_test(tcase, an_exclusive_queue_is_its_connections);
	tcase_add_test(tcase, a_channel_that_is_put_back_frees_nothing);
	tcase_add_test(tcase, requests_behind_a_failure_are_skipped);
	tcase_add_test(tcase, an_answer_asks_on);
	tcase_add_test(tcase, no_event_of_a_channel_that_the_answer_put_back);
	tcase_add_test(tcase, three_hundred_failures);
	tcase_add_test(tcase, five_hundred_holds);
	tcase_add_test(tcase, a_queue_of_another_program);
	tcase_add_test(tcase, declared_in_the_other_way);
	tcase_add_test(tcase, an_exclusive_queue_ends_with_its_connection_alone);
	return suite;
}
