/*
 * Servers that are no RabbitMQ, broken, or hostile: every one ends in words, and none in anything
 * else.
 */
#include <string.h>

#include <sys/socket.h>

#include <event2/bufferevent.h>

#include "tests/broker/evil_server.h"

/* A server with such a greeting, and the text that the link's end must have. */
struct greeting {
	void (*put)(struct evbuffer *out);
	const char *words;
};

static void
put_version(struct evbuffer *out)
{
	evbuffer_add(out, "AMQP\0\1\0\0", 8);
}

static void
put_heartbeat_first(struct evbuffer *out)
{
	amqp_frame_put_heartbeat(out);
}

static void
put_open_ok_first(struct evbuffer *out)
{
	put_open_ok(out);
}

static void
put_start_on_channel_1(struct evbuffer *out)
{
	put_bare(out, 1, AMQP_CONNECTION_START_METHOD);
}

static void
put_large(struct evbuffer *out)
{
	static const uint8_t header[] = {AMQP_FRAME_METHOD, 0, 0, 0, 0, 0x40, 0};

	evbuffer_add(out, header, sizeof(header));
}

static void
put_huge(struct evbuffer *out)
{
	static const uint8_t header[] = {AMQP_FRAME_METHOD, 0, 0, 0xff, 0xff, 0xff, 0xff};

	evbuffer_add(out, header, sizeof(header));
}

static void
put_short_method(struct evbuffer *out)
{
	put_raw(out, AMQP_FRAME_METHOD, 0, "\0\12\0", 3);
}

static void
put_unknown_method(struct evbuffer *out)
{
	put_raw(out, AMQP_FRAME_METHOD, 0, "\0\12\0\143", 4);
}

static void
put_cut_method(struct evbuffer *out)
{
	put_raw(out, AMQP_FRAME_METHOD, 0, "\0\12\0\12\0\11\0\1\0\0", 10);
}

static void
put_wrong_end(struct evbuffer *out)
{
	static const uint8_t frame[] = {AMQP_FRAME_METHOD, 0, 0, 0, 0, 0, 4, 0, 10, 0, 11, 0xcd};

	evbuffer_add(out, frame, sizeof(frame));
}

/* A table in a table in a table ... as deep as a frame can hold. */
static void
put_deep(struct evbuffer *out)
{
	enum { LEVELS = 2500, LEVEL = 6 };
	static uint8_t payload[6 + 4 + LEVELS * LEVEL + 8] = {0, 10, 0, 10, 0, 9};
	uint8_t *at = payload + 6;
	uint32_t left = LEVELS * LEVEL;

	for (int i = 0; i <= LEVELS; i++, left -= LEVEL) {
		at[0] = at[1] = 0;
		at[2] = (uint8_t)(left >> 8);
		at[3] = (uint8_t)left;
		at[4] = 0; /* a key of no bytes */
		at[5] = 'F';
		at += LEVEL;
	}
	memset(payload + 6 + 4 + LEVELS * LEVEL, 0, 8);
	put_raw(out, AMQP_FRAME_METHOD, 0, payload, sizeof(payload));
}

static void
put_start_twice(struct evbuffer *out)
{
	put_start(out, "PLAIN", "one");
	put_start(out, "PLAIN", "one");
}

static void
put_no_plain(struct evbuffer *out)
{
	put_start(out, "AMQPLAIN XPLAIN PLAINER", "one");
}

static void
put_tiny_frames(struct evbuffer *out)
{
	put_start(out, "PLAIN", "one");
	put_tune(out, 0, 1024, 0);
}

static void
put_channel_before_open(struct evbuffer *out)
{
	put_start(out, "PLAIN", "one");
	put_bare(out, 1, AMQP_CHANNEL_OPEN_OK_METHOD);
}

/* RabbitMQ's refusal with control characters in it. */
static void
put_words(struct evbuffer *out)
{
	amqp_connection_close_t close = {
	    .reply_code = 403,
	    .reply_text = amqp_cstring_bytes("no\r\n\033[31m \377entry"),
	};

	put_start(out, "PLAIN", "one");
	put_method(out, 0, AMQP_CONNECTION_CLOSE_METHOD, &close);
}

static const struct greeting greetings[] = {
    {put_http, "not AMQP 0-9-1: a frame of unknown type (72)"},
    {put_version, "not AMQP 0-9-1: the other end uses another version of the protocol"},
    {put_heartbeat_first, "the first frame is not connection.start"},
    {put_open_ok_first, "the first frame is not connection.start"},
    {put_start_on_channel_1, "the first frame is not connection.start"},
    {put_large, "a frame is larger than agreed (16384)"},
    {put_huge, "a frame is larger than agreed"},
    {put_short_method, "a frame is too short for its type (3)"},
    {put_unknown_method, "not AMQP 0-9-1: "},
    {put_cut_method, "not AMQP 0-9-1: "},
    {put_wrong_end, "not AMQP 0-9-1: "},
    {put_deep, ""},
    {put_start_twice, "the broker sent AMQP_CONNECTION_START_METHOD while logging in"},
    {put_no_plain, "the broker does not offer the login mechanism PLAIN, only: AMQPLAIN XPLAIN"},
    {put_tiny_frames, "the broker wants frames of at most 1024 bytes"},
    {put_channel_before_open, "the broker used channel 1 while logging in"},
    {put_words, "no???[31m ?entry (403)"},
};

START_TEST(test_greeting)
{
	const struct greeting *greeting = &greetings[_i];
	struct rig_broker *one;

	greeting->put(evil.greeting);
	evil.hang_up = greeting->words[0] == '\0';
	one = evil_open();
	rig_wait(one->events[BROKER_LOCKS] == 1);
	ck_assert_int_ne(one->state[BROKER_LOCKS], BROKER_UP);
	ck_assert_msg(
	    strstr(one->why[BROKER_LOCKS], greeting->words) != NULL, "%s", one->why[BROKER_LOCKS]);
	/* It tries on. */
	rig_wait(evil.accepted >= 2);
	ck_assert_uint_eq(rig_take(one, BROKER_LOCKS), 0);
}
END_TEST

START_TEST(test_silence)
{
	struct rig_broker *one = evil_open();

	rig_wait(one->events[BROKER_LOCKS] == 1);
	ck_assert_ptr_nonnull(strstr(
	    one->why[BROKER_LOCKS], "no connection within 0.3 s (waiting for connection.start)"));
}
END_TEST

START_TEST(test_half_a_frame)
{
	struct rig_broker *one;

	put_start(evil.greeting, "PLAIN", "one");
	ck_assert_int_eq(evbuffer_drain(evil.greeting, 0), 0);
	/* All but the last byte. */
	{
		struct evbuffer *most = evbuffer_new();

		evbuffer_remove_buffer(evil.greeting, most, evbuffer_get_length(evil.greeting) - 1);
		evbuffer_drain(evil.greeting, 1);
		evbuffer_add_buffer(evil.greeting, most);
		evbuffer_free(most);
	}
	one = evil_open();
	rig_wait(one->events[BROKER_LOCKS] == 1);
	ck_assert_ptr_nonnull(strstr(one->why[BROKER_LOCKS], "(waiting for connection.start)"));
}
END_TEST

START_TEST(test_hang_up)
{
	struct rig_broker *one;

	evil.hang_up = true;
	if (_i == 1)
		put_start(evil.greeting, "PLAIN", "one");
	one = evil_open();
	rig_wait(one->events[BROKER_LOCKS] == 1);
	ck_assert_int_eq(one->state[BROKER_LOCKS], BROKER_DOWN);
}
END_TEST

/* ---- once it is up ---- */

static void
put_unopened(struct evbuffer *out)
{
	put_bare(out, 77, AMQP_QUEUE_DECLARE_OK_METHOD);
}

static void
put_unasked(struct evbuffer *out)
{
	put_bare(out, 1, AMQP_CHANNEL_OPEN_OK_METHOD);
	put_bare(out, 1, AMQP_QUEUE_DELETE_OK_METHOD);
}

static void
put_answered_before_open(struct evbuffer *out)
{
	put_bare(out, 1, AMQP_QUEUE_DECLARE_OK_METHOD);
}

static void
put_unasked_deliver(struct evbuffer *out)
{
	put_bare(out, 1, AMQP_CHANNEL_OPEN_OK_METHOD);
	put_bare(out, 1, AMQP_BASIC_DELIVER_METHOD);
}

static void
put_content(struct evbuffer *out)
{
	put_bare(out, 1, AMQP_CHANNEL_OPEN_OK_METHOD);
	put_raw(out, AMQP_FRAME_BODY, 1, "hello", 5);
}

static void
put_content_on_0(struct evbuffer *out)
{
	put_raw(out, AMQP_FRAME_BODY, 0, "hello", 5);
}

static void
put_tune_again(struct evbuffer *out)
{
	put_tune(out, 1, 4096, 1);
}

static void
put_close_ok(struct evbuffer *out)
{
	put_bare(out, 0, AMQP_CONNECTION_CLOSE_OK_METHOD);
}

static void
put_large_tuned(struct evbuffer *out)
{
	static const uint8_t payload[8192];

	put_raw(out, AMQP_FRAME_BODY, 1, payload, sizeof(payload));
}

static const struct greeting farewells[] = {
    {put_unopened, "the broker used channel 77, which is not open"},
    {put_unasked, "the broker sent AMQP_QUEUE_DELETE_OK_METHOD on channel 1"},
    {put_answered_before_open, "the broker sent AMQP_QUEUE_DECLARE_OK_METHOD on channel 1"},
    {put_unasked_deliver, "the broker sent AMQP_BASIC_DELIVER_METHOD on channel 1"},
    {put_content, "the broker sent content on channel 1"},
    {put_content_on_0, "the broker sent content on channel 0"},
    {put_tune_again, "the broker sent AMQP_CONNECTION_TUNE_METHOD while up"},
    {put_close_ok, "the broker sent AMQP_CONNECTION_CLOSE_OK_METHOD while up"},
    {put_large_tuned, "a frame is larger than agreed (8192)"},
};

/* A claim is in flight meanwhile: it ends unknown. */
START_TEST(test_farewell)
{
	const struct greeting *farewell = &farewells[_i];
	struct rig_broker *one = evil_open_up();
	unsigned claim = rig_ask(one, rig_claim, rig_take(one, BROKER_LOCKS), "evil-1-B");
	struct evbuffer *bytes = evbuffer_new();

	rig_wait(evil_saw(AMQP_QUEUE_DECLARE_METHOD) == 1);
	farewell->put(bytes);
	evil_send(bytes);
	evbuffer_free(bytes);
	ck_assert_int_eq(rig_answer(claim)->reply.answer, BROKER_UNKNOWN);
	rig_wait(one->events[BROKER_LOCKS] == 2);
	ck_assert_int_eq(one->state[BROKER_LOCKS], BROKER_DOWN);
	ck_assert_msg(
	    strstr(one->why[BROKER_LOCKS], farewell->words) != NULL, "%s", one->why[BROKER_LOCKS]);
}
END_TEST

/* The daemon writes before it reads that the server closed the connection, and why. */
START_TEST(test_words_before_a_reset)
{
	struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
	amqp_connection_close_t close = {
	    .reply_code = AMQP_CONNECTION_FORCED,
	    .reply_text = amqp_cstring_bytes("CONNECTION_FORCED - the node stops"),
	};
	struct rig_broker *one = evil_open_up();
	int fd = bufferevent_getfd(evil.client);
	struct evbuffer *bytes = evbuffer_new();

	put_method(bytes, 0, AMQP_CONNECTION_CLOSE_METHOD, &close);
	ck_assert_int_gt(evbuffer_write(bytes, fd), 0);
	evbuffer_free(bytes);
	/* A reset at once. A close would come with the next pass of the loop. */
	ck_assert_int_eq(connect(fd, &nowhere, sizeof(nowhere)), 0);
	rig_ask(one, rig_claim, rig_take(one, BROKER_LOCKS), "evil-1-B");
	broker_flush(one->broker);
	rig_wait(one->events[BROKER_LOCKS] == 2);
	ck_assert_msg(
	    strstr(one->why[BROKER_LOCKS], "the node stops") != NULL, "%s", one->why[BROKER_LOCKS]);
}
END_TEST

/* A host of another cluster would grant a slot twice. */
START_TEST(test_another_cluster)
{
	struct rig_broker *one = evil_open_up();

	rig_wait(evil_saw(AMQP_CONNECTION_OPEN_METHOD) == 1);
	evbuffer_drain(evil.greeting, evbuffer_get_length(evil.greeting));
	put_start(evil.greeting, "PLAIN", "two");
	put_tune(evil.greeting, 2047, 131072, 60);
	put_open_ok(evil.greeting);
	evil_hang_up();
	rig_wait(strstr(one->why[BROKER_LOCKS],
		     "this host belongs to cluster \"two\", not to \"one\"") != NULL);
	ck_assert_int_eq(one->state[BROKER_LOCKS], BROKER_DOWN);
	/* It was not even told our password. */
	ck_assert_uint_eq(evil_saw(AMQP_CONNECTION_START_OK_METHOD), 1);
}
END_TEST

/* ---- anything at all ---- */

static uint64_t random_state;

static uint32_t
random_below(uint32_t bound)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(random_state >> 33) % bound;
}

static void
mutate(uint8_t *bytes, size_t *len)
{
	for (uint32_t i = 0, changes = 1 + random_below(8); i < changes; i++)
		bytes[random_below((uint32_t)*len)] = (uint8_t)random_below(256);
	if (random_below(3) == 0)
		*len = random_below((uint32_t)*len);
}

/* Moves what is in `from`, changed, to `to`. */
static void
move_mutated(struct evbuffer *to, struct evbuffer *from)
{
	uint8_t bytes[2048];
	size_t len = evbuffer_get_length(from);

	ck_assert_uint_le(len, sizeof(bytes));
	evbuffer_remove(from, bytes, len);
	mutate(bytes, &len);
	evbuffer_add(to, bytes, len);
}

START_TEST(test_mutated_greetings)
{
	random_state = (uint64_t)_i + 1;
	for (int round = 0; round < 40; round++) {
		struct evbuffer *friendly = evbuffer_new();
		struct rig_broker *one;

		put_friendly(friendly);
		move_mutated(evil.greeting, friendly);
		evbuffer_free(friendly);
		evil.hang_up = true;
		one = evil_open();
		rig_wait(one->events[BROKER_LOCKS] > 0);
		rig_wait(one->state[BROKER_LOCKS] != BROKER_UP);
		ck_assert_str_ne(one->why[BROKER_LOCKS], "");
		evil_teardown();
		evil_setup();
	}
}
END_TEST

/* Answers to three channels' requests. Each request is answered once, whatever comes. */
START_TEST(test_mutated_answers)
{
	random_state = (uint64_t)_i + 1;
	for (int round = 0; round < 40; round++) {
		struct rig_broker *one = evil_open_up();
		struct evbuffer *friendly = evbuffer_new(), *bytes = evbuffer_new();
		unsigned asked[9];

		for (unsigned i = 0; i < 9; i += 3) {
			uint64_t channel = rig_take(one, BROKER_LOCKS);

			asked[i] = rig_ask(one, rig_claim, channel, "evil-1-B");
			asked[i + 1] = rig_ask(one, broker_check, channel, "evil-1-A");
			asked[i + 2] = rig_ask(one, rig_drop, channel, "evil-1-B");
		}
		for (uint16_t number = 1; number <= 3; number++) {
			put_bare(friendly, number, AMQP_CHANNEL_OPEN_OK_METHOD);
			put_bare(friendly, number, AMQP_QUEUE_DECLARE_OK_METHOD);
			put_channel_close(
			    friendly, number, 404, "NOT_FOUND", AMQP_QUEUE_DECLARE_METHOD);
		}
		put_bare(friendly, 0, AMQP_CONNECTION_BLOCKED_METHOD);
		amqp_frame_put_heartbeat(friendly);
		move_mutated(bytes, friendly);
		evil_send(bytes);
		evbuffer_free(friendly);
		evbuffer_free(bytes);
		for (int i = 0; i < 3; i++)
			rig_pass();
		if (evil.client != NULL)
			evil_hang_up();
		for (int i = 0; i < 9; i++)
			ck_assert_uint_eq(rig_answer(asked[i])->times, 1);
		evil_teardown();
		evil_setup();
	}
}
END_TEST

static Suite *
evil_suite(void)
{
	Suite *suite = suite_create("evil");
	TCase *tcase = tcase_create("evil");

	tcase_add_checked_fixture(tcase, evil_setup, evil_teardown);
	tcase_set_timeout(tcase, 120);
	tcase_add_loop_test(
	    tcase, test_greeting, 0, (int)(sizeof(greetings) / sizeof(greetings[0])));
	tcase_add_test(tcase, test_silence);
	tcase_add_test(tcase, test_half_a_frame);
	tcase_add_loop_test(tcase, test_hang_up, 0, 2);
	tcase_add_loop_test(
	    tcase, test_farewell, 0, (int)(sizeof(farewells) / sizeof(farewells[0])));
	tcase_add_test(tcase, test_words_before_a_reset);
	tcase_add_test(tcase, test_another_cluster);
	tcase_add_loop_test(tcase, test_mutated_greetings, 0, 4);
	tcase_add_loop_test(tcase, test_mutated_answers, 0, 4);
	suite_add_tcase(suite, tcase);
	return suite;
}

int
main(void)
{
	static Suite *(*const makers[])(void) = {evil_suite, scripted_suite, scripted_watches_suite,
	    scripted_wait_queues_suite, scripted_directory_suite, scripted_holders_suite,
	    addresses_suite};

	return unit_run(makers, sizeof(makers) / sizeof(makers[0]));
}
