/*
 * The meaning of the broker's refusals. RabbitMQ cuts their texts to 255 bytes.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/amqp/frame.h"
#include "daemon/broker/ways.h"
#include "daemon/broker/way.h"
#include "tests/unit/unit.h"

/* The requests whose refusals mean different things. */
enum { CHECK, CHECK_QUEUE, DROP, DECLARE, DELETE_HOLDER, REQUESTS };

#define ABSENT BROKER_ABSENT
#define LOCKED BROKER_LOCKED
#define OK BROKER_OK
#define REFUSED BROKER_REFUSED
#define UNREACHABLE BROKER_UNREACHABLE

static const struct refusal {
	int code;
	const char *before, *after; /* the name of the queue */
	enum broker_answer answers[REQUESTS];
} refusals[] = {
    {404, "NOT_FOUND - no queue '", "' in vhost '/'", {ABSENT, ABSENT, ABSENT, ABSENT, ABSENT}},
    {404, "NOT_FOUND - home node 'rabbit@n2' of durable queue '",
	"' in vhost '/' is down or "
	"inaccessible",
	{UNREACHABLE, LOCKED, LOCKED, UNREACHABLE, UNREACHABLE}},
    {404, "NOT_FOUND - failed to perform operation on queue '", "' in vhost '/' due to timeout",
	{UNREACHABLE, LOCKED, UNREACHABLE, UNREACHABLE, UNREACHABLE}},
    {404, "NOT_FOUND - queue '", "' in vhost '/' process is stopped by supervisor",
	{UNREACHABLE, LOCKED, UNREACHABLE, UNREACHABLE, UNREACHABLE}},
    {404, "NOT_FOUND - words of a later version about '", "'",
	{UNREACHABLE, LOCKED, UNREACHABLE, UNREACHABLE, UNREACHABLE}},
    {405, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '", "' in vhost '/'",
	{LOCKED, LOCKED, LOCKED, LOCKED, LOCKED}},
    {403, "ACCESS_REFUSED - queue '", "' in vhost '/' in exclusive use",
	{LOCKED, LOCKED, LOCKED, LOCKED, LOCKED}},
    {403, "ACCESS_REFUSED - access to queue '", "' in vhost '/' refused for user 'u'",
	{REFUSED, REFUSED, REFUSED, REFUSED, REFUSED}},
    {403, "ACCESS_REFUSED - read access to queue '", "' in vhost '/' refused for user 'u'",
	{REFUSED, REFUSED, REFUSED, REFUSED, REFUSED}},
    {406, "PRECONDITION_FAILED - inequivalent arg 'x-expires' for queue '", "' in vhost '/'",
	{REFUSED, REFUSED, LOCKED, OK, LOCKED}},
    {406, "PRECONDITION_FAILED - queue '", "' in vhost '/' in use",
	{REFUSED, REFUSED, LOCKED, REFUSED, LOCKED}},
    {406, "PRECONDITION_FAILED - queue '", "' in vhost '/' not empty",
	{REFUSED, REFUSED, LOCKED, REFUSED, UNREACHABLE}},
};
enum { REFUSALS = sizeof(refusals) / sizeof(*refusals) };

static const struct amqp_request *
request(int which)
{
	switch (which) {
	case CHECK:
		return &amqp_request_check;
	case CHECK_QUEUE:
		return way_queue.check;
	case DROP:
		return way_queue.drop;
	case DECLARE:
		return way_consumer.make;
	default:
		return way_consumer.remove;
	}
}

static void
check_meaning(const struct refusal *refusal, size_t len)
{
	char queue[256] = "", text[512];
	bool cut;

	memset(queue, 'q', len);
	/* As rabbit_binary_generator of RabbitMQ shortens it. */
	cut = snprintf(text, sizeof(text), "%s%s%s", refusal->before, queue, refusal->after) > 255;
	if (cut)
		strcpy(text + 252, "...");
	for (int i = 0; i < REQUESTS; i++) {
		enum broker_answer answer = refusal->answers[i];
		amqp_channel_close_t close = {.reply_code = (uint16_t)refusal->code,
		    .reply_text = amqp_cstring_bytes(text),
		    .class_id = AMQP_QUEUE_DECLARE_METHOD >> 16,
		    .method_id = AMQP_QUEUE_DECLARE_METHOD & UINT16_MAX};
		char *words = amqp_request_words(&close);

		/* "in use" and "not empty" stand behind the name. */
		if (cut && i == DELETE_HOLDER && refusal->code == 406)
			answer = LOCKED;
		ck_assert_msg(amqp_request_refusal(request(i), refusal->code, words) == answer,
		    "request %d, %s", i, words);
		free(words);
	}
}

START_TEST(refusals_mean_the_same_for_each_name)
{
	for (size_t len = 1; len <= 255; len++)
		check_meaning(&refusals[_i], len);
}
END_TEST

static Suite *
request_suite(void)
{
	Suite *suite = suite_create("request");
	TCase *tcase = tcase_create("refusals");

	tcase_add_loop_test(tcase, refusals_mean_the_same_for_each_name, 0, REFUSALS);
	suite_add_tcase(suite, tcase);
	return suite;
}

int
main(void)
{
	static Suite *(*const makers[])(void) = {request_suite};

	return unit_run(makers, sizeof(makers) / sizeof(makers[0]));
}
