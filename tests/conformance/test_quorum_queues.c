/*
 * Quorum queues with a single active consumer: the order and the counts of messages that return,
 * the active consumer, and refusals. A slot that is held in such a queue is three
 * messages, its beads. Their order is the state of the slot.
 */
#include <stdio.h>
#include <string.h>

#include "tests/conformance/client.h"
#include "tests/conformance/server.h"

static const struct client_quorum plain;

/* More than the messages of any case. */
#define ALL 10

static struct client *
with_queue(const char *queue)
{
	struct client *client = client_new();

	/* Of an earlier round of the case. */
	client_want(client_delete(client, queue, 0), "ok");
	client_want(client_declare_quorum(client, queue, &plain), "ok 0 0");
	return client;
}

/* A queue with three beads, and the client that made it. */
static struct client *
with_beads(const char *queue)
{
	struct client *client = with_queue(queue);

	client_want(client_publish(client, queue, "1"), "ok");
	client_want(client_publish(client, queue, "2"), "ok");
	client_want(client_publish(client, queue, "3"), "ok");
	return client;
}

/* The next three messages. */
#define want_three(client, first, second, third)                                                   \
	do {                                                                                       \
		client_want(client_next(client), first);                                           \
		client_want(client_next(client), second);                                          \
		client_want(client_next(client), third);                                           \
	} while (0)

/* A consumer of a connection of its own that has the three beads, which were never delivered. */
static struct client *
holder_of(const char *queue)
{
	struct client *client = client_new();

	client_want(client_attach(client, queue, ALL), "ok");
	want_three(client, "1 0 0", "2 0 0", "3 0 0");
	return client;
}

static const char *
look(struct client *client, const char *queue)
{
	return client_declare(client, queue, CLIENT_PASSIVE);
}

/* Waits until it has this answer. */
static void
wait_for(struct client *client, const char *queue, const char *words)
{
	const int64_t end = rig_now() + 60 * NSEC_PER_SEC;

	while (strncmp(look(client, queue), words, strlen(words)) != 0) {
		ck_assert_msg(rig_now() < end, "not in time: %s", words);
		rig_pass_for(20 * NSEC_PER_MSEC);
	}
}

/* ---- the order ---- */

START_TEST(messages_come_in_order)
{
	struct client *client = with_queue("qq-order"), *holder;

	client_want(client_publish(client, "qq-order", "1"), "ok");
	client_want(look(client, "qq-order"), "ok 1 0");
	client_want(client_publish(client, "qq-order", "2"), "ok");
	client_want(client_publish(client, "qq-order", "3"), "ok");
	client_want(look(client, "qq-order"), "ok 3 0");
	holder = holder_of("qq-order");
	ck_assert_str_eq(client_count_header(holder), "");
	client_want(look(client, "qq-order"), "ok 0 1");
	client_want(client_publish(client, "qq-order", "4"), "ok");
	client_want(client_next(holder), "4 0 0");
	client_ack(holder, "2");
	client_want(client_qos(holder, ALL), "ok");
	client_drop(holder, "4");
	client_close(holder);
	client_want(client_attach(holder, "qq-order", ALL), "ok");
	client_want(client_next(holder), "1 1 1");
	client_want(client_next(holder), "3 1 1");
	client_want(client_publish(client, "qq-order", "5"), "ok");
	client_want(client_next(holder), "5 0 0");
}
END_TEST

/* The middle bead changes the order, the last one keeps it, and the first one turns it. */
static const struct reject {
	const char *rejected, *said, *order[3];
} rejects[] = {
    {"2", "2 1 1", {"1 1 1", "3 1 1", "2 2 1"}},
    {"3", "3 1 1", {"1 1 1", "2 1 1", "3 2 1"}},
    {"1", "1 1 1", {"2 1 1", "3 1 1", "1 2 1"}},
};

/* The end of a channel, or of a connection, keeps the order, and adds one to each count. */
static void
reject_and_end(const char *queue, const struct reject *reject,
    void (*give_back)(struct client *, const char *), void (*end)(struct client *))
{
	struct client *client = with_beads(queue), *holder = holder_of(queue);

	give_back(holder, reject->rejected);
	client_want(client_next(holder), reject->said);
	client_want(look(client, queue), "ok 0 1");
	end(holder);
	wait_for(client, queue, "ok 3 0");
	client_want(client_attach(client, queue, ALL), "ok");
	want_three(client, reject->order[0], reject->order[1], reject->order[2]);
}

START_TEST(a_reject_goes_behind)
{
	reject_and_end("qq-close", &rejects[_i], client_reject, client_close);
}
END_TEST

START_TEST(the_end_of_a_connection_keeps_the_order)
{
	reject_and_end("qq-end", &rejects[_i], client_reject, client_end);
}
END_TEST

START_TEST(a_nack_is_a_reject)
{
	reject_and_end("qq-nack", &rejects[_i], client_nack, client_close);
}
END_TEST

/* Two channels after another, and rejects by both. */
START_TEST(the_order_outlives_many_ends)
{
	struct client *client = with_beads("qq-many"), *holder = holder_of("qq-many");

	client_reject(holder, "2");
	client_want(client_next(holder), "2 1 1");
	client_reject(holder, "2");
	client_want(client_next(holder), "2 2 1");
	client_close(holder);
	client_want(client_attach(holder, "qq-many", ALL), "ok");
	want_three(holder, "1 1 1", "3 1 1", "2 3 1");
	client_reject(holder, "3");
	client_want(client_next(holder), "3 2 1");
	client_reject(holder, "3");
	client_want(client_next(holder), "3 3 1");
	client_end(holder);
	wait_for(client, "qq-many", "ok 3 0");
	client_want(client_attach(client, "qq-many", ALL), "ok");
	want_three(client, "1 2 1", "2 4 1", "3 4 1");
}
END_TEST

/* From 4.3 on there are two counts. A nack and the end of a node leave the old one as it is. */
START_TEST(the_header_of_the_count)
{
	struct client *client = with_beads("qq-header"), *holder = holder_of("qq-header");
	const bool two = client_version(client) >= 4003;

	client_nack(holder, "1");
	client_want(client_next(holder), "1 1 1");
	ck_assert_str_eq(
	    client_count_header(holder), two ? "x-acquired-count" : "x-delivery-count");
	ck_assert_int_eq(client_failures(holder), two ? 0 : 1);
	client_reject(holder, "1");
	client_want(client_next(holder), "1 2 1");
	ck_assert_int_eq(client_failures(holder), two ? 1 : 2);
	client_close(holder);
	wait_for(client, "qq-header", "ok 3 0");
	client_want(client_attach(holder, "qq-header", ALL), "ok");
	want_three(holder, "2 1 1", "3 1 1", "1 3 1");
	ck_assert_int_eq(client_failures(holder), two ? 2 : 3);
}
END_TEST

/*
 * Before 4.3, a message that is given back goes behind those that were never delivered. It goes
 * before them if the queue has a limit, and from 4.3 on.
 */
START_TEST(a_prefetch_of_one)
{
	struct client *client = with_beads("qq-one"), *holder = client_new();
	const struct client_quorum limited = {.limited = true, .limit = 5};
	const bool first = client_version(client) >= 4003;
	void (*const ways[])(struct client *, const char *) = {client_reject, client_nack};

	client_want(client_attach(holder, "qq-one", 1), "ok");
	client_want(client_next(holder), "1 0 0");
	client_want(look(client, "qq-one"), "ok 2 1");
	ways[_i](holder, "1");
	client_want(client_next(holder), first ? "1 1 1" : "2 0 0");
	client_want(look(client, "qq-one"), "ok 2 1");
	client_ack(holder, first ? "1" : "2");
	client_want(client_next(holder), first ? "2 0 0" : "3 0 0");
	client_ack(holder, first ? "2" : "3");
	client_want(client_next(holder), first ? "3 0 0" : "1 1 1");

	client_want(client_delete(client, "qq-limited", 0), "ok");
	client_want(client_declare_quorum(client, "qq-limited", &limited), "ok 0 0");
	client_want(client_publish(client, "qq-limited", "1"), "ok");
	client_want(client_publish(client, "qq-limited", "2"), "ok");
	client_close(holder);
	client_want(client_attach(holder, "qq-limited", 1), "ok");
	client_want(client_next(holder), "1 0 0");
	ways[_i](holder, "1");
	client_want(client_next(holder), "1 1 1");
	client_want(look(client, "qq-limited"), "ok 1 1");
}
END_TEST

/* A message that returns is served before those that were never delivered. */
START_TEST(the_end_of_a_channel_goes_first)
{
	struct client *client = with_beads("qq-first"), *holder = client_new();

	client_want(client_attach(holder, "qq-first", 2), "ok");
	client_want(client_next(holder), "1 0 0");
	client_want(client_next(holder), "2 0 0");
	client_close(holder);
	wait_for(client, "qq-first", "ok 3 0");
	client_want(client_attach(holder, "qq-first", ALL), "ok");
	want_three(holder, "1 1 1", "2 1 1", "3 0 0");
}
END_TEST

/* ---- the active consumer ---- */

START_TEST(a_second_consumer_waits)
{
	struct client *client = with_beads("qq-second"), *first = holder_of("qq-second"),
		      *second = client_new(), *third = client_twin(second);

	client_want(client_attach(second, "qq-second", ALL), "ok");
	client_want(client_attach(third, "qq-second", ALL), "ok");
	/* Those that wait do not count. */
	client_want(look(client, "qq-second"), "ok 0 1");
	client_want(client_publish(client, "qq-second", "m"), "ok");
	client_want(client_next(first), "m 0 0");
	client_reject(first, "2");
	client_want(client_next(first), "2 1 1");
	ck_assert_uint_eq(client_deliveries(second), 0);
	if (_i == 0)
		client_close(first);
	else
		client_end(first);
	want_three(second, "1 1 1", "3 1 1", "m 1 1");
	client_want(client_next(second), "2 2 1");
	client_want(look(client, "qq-second"), "ok 0 1");
	ck_assert_uint_eq(client_deliveries(third), 0);
	client_close(second);
	want_three(third, "1 2 1", "3 2 1", "m 2 1");
	client_want(client_next(third), "2 3 1");
}
END_TEST

START_TEST(a_cancel_returns_nothing)
{
	struct client *client = with_beads("qq-cancel"), *first = holder_of("qq-cancel"),
		      *second = client_new();

	client_want(client_attach(second, "qq-cancel", ALL), "ok");
	client_want(client_cancel(first), "ok");
	/* The cancelled one counts as long as it has messages. */
	wait_for(client, "qq-cancel", "ok 0 2");
	client_want(client_publish(client, "qq-cancel", "m"), "ok");
	client_want(client_next(second), "m 0 0");
	client_reject(first, "2");
	client_want(client_next(second), "2 1 1");
	client_want(client_qos(first, ALL), "ok");
	ck_assert_uint_eq(client_deliveries(second), 2);
	client_close(first);
	client_want(client_next(second), "1 1 1");
	client_want(client_next(second), "3 1 1");
	wait_for(client, "qq-cancel", "ok 0 1");
	client_want(client_cancel(second), "ok");
	client_want(look(client, "qq-cancel"), "ok 0 1");
	client_ack(second, "1");
	client_ack(second, "2");
	client_ack(second, "3");
	client_ack(second, "m");
	wait_for(client, "qq-cancel", "ok 0 0");
	ck_assert_uint_eq(client_cancels(first) + client_cancels(second), 0);
}
END_TEST

START_TEST(a_consumer_that_waits_is_cancelled)
{
	struct client *client = with_beads("qq-waits"), *first = holder_of("qq-waits"),
		      *second = client_new(), *third = client_new();

	client_want(client_attach(second, "qq-waits", ALL), "ok");
	client_want(client_attach(third, "qq-waits", ALL), "ok");
	client_want(client_cancel(second), "ok");
	client_want(look(client, "qq-waits"), "ok 0 1");
	client_end(first);
	want_three(third, "1 1 1", "2 1 1", "3 1 1");
	ck_assert_uint_eq(client_deliveries(second), 0);
	client_want(client_qos(second, ALL), "ok");
}
END_TEST

/* A consumer that wants to be alone is taken like any other. */
START_TEST(an_exclusive_consumer_is_not_alone)
{
	struct client *client = with_beads("qq-alone"), *first = holder_of("qq-alone"),
		      *second = client_new(), *third = client_new();

	client_want(client_consume(second, "qq-alone", CLIENT_ALONE | CLIENT_UNREAD, 0), "ok");
	client_want(client_attach(third, "qq-alone", 1), "ok");
	client_close(first);
	client_want(client_next(second), "1 1 1");
	client_want(look(client, "qq-alone"), "ok 2 1");
	client_close(second);
	client_want(client_next(third), "2 1 1");
}
END_TEST

/* From 4.0 on, a consumer that takes more messages goes before those that wait longer. */
START_TEST(the_order_of_the_consumers)
{
	struct client *client = with_beads("qq-next"), *first = holder_of("qq-next"),
		      *small = client_new(), *large = client_new(), *last = client_new();
	const bool by_size = client_version(client) >= 4000;

	client_want(client_attach(small, "qq-next", 5), "ok");
	client_want(client_attach(large, "qq-next", 6), "ok");
	client_want(client_attach(last, "qq-next", 6), "ok");
	client_close(first);
	want_three(by_size ? large : small, "1 1 1", "2 1 1", "3 1 1");
	client_close(by_size ? large : small);
	want_three(by_size ? last : large, "1 2 1", "2 2 1", "3 2 1");
	client_close(by_size ? last : large);
	want_three(by_size ? small : last, "1 3 1", "2 3 1", "3 3 1");
}
END_TEST

/* A mark that is published behind the consume shows which consumer is active. */
START_TEST(a_mark_finds_the_active_one)
{
	struct client *client = with_beads("qq-mark"), *first = client_new(),
		      *second = client_new();

	client_want(client_attach(first, "qq-mark", ALL), "ok");
	client_want(client_publish(client, "qq-mark", "a"), "ok");
	want_three(first, "1 0 0", "2 0 0", "3 0 0");
	client_want(client_next(first), "a 0 0");
	client_ack(first, "a");
	client_want(client_attach(second, "qq-mark", ALL), "ok");
	client_want(client_publish(client, "qq-mark", "b"), "ok");
	client_want(client_next(first), "b 0 0");
	ck_assert_uint_eq(client_deliveries(second), 0);
	client_want(client_declare_quorum(client, "qq-empty", &plain), "ok 0 0");
	client_close(second);
	client_want(client_attach(second, "qq-empty", ALL), "ok");
	client_want(client_publish(client, "qq-empty", "c"), "ok");
	client_want(client_next(second), "c 0 0");
}
END_TEST

/* ---- refusals ---- */

#define REFUSED(queue, property)                                                                   \
	"406 PRECONDITION_FAILED - invalid property '" property "' for queue '" queue              \
	"' in vhost '/'"
#define INEQUIVALENT(queue, argument)                                                              \
	"406 PRECONDITION_FAILED - inequivalent arg '" argument "' for queue '" queue              \
	"' in vhost '/': received "

START_TEST(declares_are_refused)
{
	struct client *client = client_new();
	struct client_quorum other = {.auto_delete = true};

	client_want(
	    client_declare_quorum(client, "qq-bad", &other), REFUSED("qq-bad", "auto-delete"));
	other = (struct client_quorum){.exclusive = true};
	client_want(
	    client_declare_quorum(client, "qq-bad", &other), REFUSED("qq-bad", "exclusive-owner"));
	other = (struct client_quorum){.transient = true};
	client_want(
	    client_declare_quorum(client, "qq-bad", &other), REFUSED("qq-bad", "non-durable"));
	client_want(look(client, "qq-bad"), "404 NOT_FOUND - no queue 'qq-bad' in vhost '/'");
}
END_TEST

START_TEST(another_declare)
{
	struct client *client = with_beads("qq-again"), *holder = holder_of("qq-again");
	struct client_quorum other = {.limited = true, .limit = 5};

	client_want(client_declare_quorum(client, "qq-again", &plain), "ok 0 1");
	client_want(client_declare_quorum(client, "qq-again", &other),
	    client_version(client) >= 4000
		? INEQUIVALENT("qq-again", "x-delivery-limit") "'5' but current is '-1'"
		: INEQUIVALENT("qq-again", "x-delivery-limit") "the value '5' of type 'signedint' "
							       "but current is none");
	other = (struct client_quorum){.expires = 60000};
	client_want(client_declare_quorum(client, "qq-again", &other),
	    INEQUIVALENT("qq-again", "x-expires") "the value '60000' of type 'signedint' but "
						  "current is none");
	client_want(client_declare(client, "qq-again", CLIENT_PLAIN),
	    INEQUIVALENT("qq-again", "x-single-active-consumer") "none but current is the value "
								 "'true' of type 'bool'");
	client_want(client_declare(client, "qq-plain", CLIENT_PLAIN), "ok 0 0");
	client_want(client_declare_quorum(client, "qq-plain", &plain),
	    INEQUIVALENT("qq-plain", "x-single-active-consumer") "the value 'true' of type 'bool' "
								 "but current is none");
	client_want(client_declare(client, "qq-again", CLIENT_EXCLUSIVE), "405 RESOURCE_LOCKED - ");
	client_want(client_qos(holder, ALL), "ok");
}
END_TEST

START_TEST(a_missing_queue)
{
	struct client *client = client_new();

	client_want(client_attach(client, "qq-none", ALL),
	    "404 NOT_FOUND - no queue 'qq-none' in vhost '/'");
	client_want(client_publish(client, "qq-none", "m"), "returned");
	client_want(client_declare_quorum(client, "qq-none", &plain), "ok 0 0");
	client_want(client_publish(client, "qq-none", "m"), "ok");
	client_want(look(client, "qq-none"), "ok 1 0");
}
END_TEST

/* The end of the channel returns its messages. */
START_TEST(a_message_is_settled_once)
{
	struct client *client = with_beads("qq-twice"), *holder = holder_of("qq-twice");

	switch (_i) {
	case 0:
		client_reject(holder, "2");
		client_reject(holder, "2");
		break;
	case 1:
		client_ack(holder, "2");
		client_reject(holder, "2");
		break;
	case 2:
		client_nack(holder, "2");
		client_nack(holder, "2");
		break;
	default:
		client_drop(holder, "2");
		client_ack(holder, "2");
	}
	client_want(client_qos(holder, ALL), "406 PRECONDITION_FAILED - unknown delivery tag 2");
	if (_i == 1 || _i == 3) {
		wait_for(client, "qq-twice", "ok 2 0");
		client_want(client_attach(client, "qq-twice", ALL), "ok");
		client_want(client_next(client), "1 1 1");
		client_want(client_next(client), "3 1 1");
	} else {
		wait_for(client, "qq-twice", "ok 3 0");
		client_want(client_attach(client, "qq-twice", ALL), "ok");
		want_three(client, "1 1 1", "3 1 1", "2 2 1");
	}
}
END_TEST

START_TEST(a_get_is_refused)
{
	struct client *client = with_beads("qq-get");

	client_want(client_get(client, "qq-get"),
	    "405 RESOURCE_LOCKED - cannot obtain access to locked queue 'qq-get' in vhost '/'. "
	    "basic.get operations are not supported by ");
	client_want(look(client, "qq-get"), "ok 3 0");
}
END_TEST

START_TEST(a_deletion_with_conditions)
{
	struct client *client = with_beads("qq-if"), *other = client_new();

	client_want(
	    client_delete(client, "qq-if", _i == 0 ? CLIENT_IF_UNUSED : CLIENT_IF_EMPTY), "dead");
	client_want(look(other, "qq-if"), "ok 3 0");
}
END_TEST

/* ---- deletion, purge, expiry ---- */

START_TEST(a_held_queue_is_deleted)
{
	struct client *client = with_beads("qq-gone"), *first = holder_of("qq-gone"),
		      *second = client_new();

	client_want(client_attach(second, "qq-gone", ALL), "ok");
	client_want(client_delete(client, "qq-gone", 0), "ok");
	rig_wait(client_cancels(first) == 1 && client_cancels(second) == 1);
	client_want(look(client, "qq-gone"), "404 NOT_FOUND - no queue 'qq-gone' in vhost '/'");
	client_ack(first, "1");
	client_reject(first, "2");
	client_want(client_qos(first, ALL), "ok");
	/* A new queue has nothing of the old one. */
	client_want(client_declare_quorum(client, "qq-gone", &plain), "ok 0 0");
	client_reject(first, "3");
	client_want(client_qos(first, ALL), "ok");
	client_close(first);
	client_want(client_publish(client, "qq-gone", "4"), "ok");
	client_want(client_attach(client, "qq-gone", ALL), "ok");
	client_want(client_next(client), "4 0 0");
}
END_TEST

/* A channel that is used again takes an old delivery for the new one of that number. */
START_TEST(a_new_queue_on_an_old_channel)
{
	struct client *client = with_beads("qq-new"), *holder = holder_of("qq-new");

	client_want(client_delete(client, "qq-new", 0), "ok");
	rig_wait(client_cancels(holder) == 1);
	client_want(client_declare_quorum(client, "qq-new", &plain), "ok 0 0");
	client_want(client_publish(client, "qq-new", "4"), "ok");
	client_want(client_publish(client, "qq-new", "5"), "ok");
	client_want(client_publish(client, "qq-new", "6"), "ok");
	client_want(client_attach(holder, "qq-new", ALL), "ok");
	want_three(holder, "4 0 0", "5 0 0", "6 0 0");
	client_reject(holder, "2");
	client_want(client_next(holder), "5 1 1");
}
END_TEST

/* A cancelled consumer that has messages goes on. RabbitMQ 3.10 cannot do that. */
START_TEST(a_channel_consumes_again)
{
	struct client *client = with_beads("qq-goes-on"), *holder = holder_of("qq-goes-on");

	if (client_version(client) < 4000)
		return;
	client_want(client_cancel(holder), "ok");
	client_want(client_attach(holder, "qq-goes-on", ALL), "ok");
	client_want(client_publish(client, "qq-goes-on", "m"), "ok");
	client_want(client_next(holder), "m 0 0");
	client_want(look(client, "qq-goes-on"), "ok 0 1");
	client_reject(holder, "2");
	client_want(client_next(holder), "2 1 1");
	client_close(holder);
	wait_for(client, "qq-goes-on", "ok 4 0");
}
END_TEST

START_TEST(a_purge_takes_what_is_ready)
{
	struct client *client = with_beads("qq-purge"), *holder = client_new();

	client_want(client_attach(holder, "qq-purge", 2), "ok");
	client_want(client_next(holder), "1 0 0");
	client_want(client_next(holder), "2 0 0");
	client_want(client_purge(client, "qq-purge"), "ok 1");
	client_want(look(client, "qq-purge"), "ok 0 1");
	client_want(client_purge(client, "qq-purge"), "ok 0");
	client_reject(holder, "1");
	client_want(client_next(holder), "1 1 1");
	client_close(holder);
	wait_for(client, "qq-purge", "ok 2 0");
	client_want(client_purge(client, "qq-purge"), "ok 2");
	client_want(look(client, "qq-purge"), "ok 0 0");
}
END_TEST

/* Consumers, and messages that they have, are a use. RabbitMQ looks at a queue each 5 s. */
START_TEST(an_unused_queue_expires)
{
	const struct client_quorum brief = {.expires = 1000};
	struct client *client = client_new(), *holder = client_new(), *cancelled = client_new();

	client_want(client_declare_quorum(client, "qq-used", &brief), "ok 0 0");
	client_want(client_declare_quorum(client, "qq-unread", &brief), "ok 0 0");
	client_want(client_publish(client, "qq-unread", "1"), "ok");
	client_want(client_attach(holder, "qq-used", ALL), "ok");
	client_want(client_attach(cancelled, "qq-unread", ALL), "ok");
	client_want(client_next(cancelled), "1 0 0");
	client_want(client_cancel(cancelled), "ok");
	client_want(client_declare_quorum(client, "qq-unused", &brief), "ok 0 0");
	client_want(client_publish(client, "qq-unused", "1"), "ok");
	/* These looks are no use. */
	wait_for(client, "qq-unused", "404 NOT_FOUND");
	client_want(look(client, "qq-used"), "ok 0 1");
	client_want(look(client, "qq-unread"), "ok 0 1");
	client_close(holder);
	client_end(cancelled);
	wait_for(client, "qq-used", "404 NOT_FOUND");
	wait_for(client, "qq-unread", "404 NOT_FOUND");
}
END_TEST

/* ---- the limit of deliveries ---- */

static void
attach_and_close(struct client *holder, const char *queue, int returns)
{
	char words[32];

	for (int i = 0; i <= returns; i++) {
		snprintf(words, sizeof(words), "1 %d %d", i, i > 0);
		client_want(client_attach(holder, queue, ALL), "ok");
		client_want(client_next(holder), words);
		client_close(holder);
	}
}

START_TEST(a_message_returns_so_often)
{
	const struct client_quorum limited = {.limited = true, .limit = 2};
	struct client *client = client_new(), *holder = client_new();

	client_want(client_declare_quorum(client, "qq-limit", &limited), "ok 0 0");
	client_want(client_publish(client, "qq-limit", "1"), "ok");
	attach_and_close(holder, "qq-limit", 2);
	wait_for(client, "qq-limit", "ok 0 0");
	client_want(client_publish(client, "qq-limit", "1"), "ok");
	client_want(client_publish(client, "qq-limit", "2"), "ok");
	client_want(client_attach(holder, "qq-limit", ALL), "ok");
	client_want(client_next(holder), "1 0 0");
	client_want(client_next(holder), "2 0 0");
	client_reject(holder, "1");
	client_want(client_next(holder), "1 1 1");
	client_nack(holder, "1");
	client_want(client_next(holder), "1 2 1");
	/* From 4.3 on, nacks do not count. */
	if (client_version(client) >= 4003) {
		client_reject(holder, "1");
		client_want(client_next(holder), "1 3 1");
	}
	client_reject(holder, "1");
	client_want(client_publish(client, "qq-limit", "m"), "ok");
	client_want(client_next(holder), "m 0 0");
}
END_TEST

/* -1 is no limit from 4.0 on. Before, it is one of no return. */
START_TEST(a_limit_below_zero)
{
	const struct client_quorum limited = {.limited = true, .limit = -1};
	struct client *client = client_new(), *holder = client_new();

	client_want(client_declare_quorum(client, "qq-minus", &limited), "ok 0 0");
	client_want(client_publish(client, "qq-minus", "1"), "ok");
	client_want(client_attach(holder, "qq-minus", ALL), "ok");
	client_want(client_next(holder), "1 0 0");
	client_reject(holder, "1");
	if (client_version(client) >= 4000)
		client_want(client_next(holder), "1 1 1");
	client_close(holder);
	wait_for(client, "qq-minus", client_version(client) >= 4000 ? "ok 1 0" : "ok 0 0");
}
END_TEST

/* Without the argument: 20 from 4.0 on, and none before. */
START_TEST(a_limit_by_default)
{
	const struct client_quorum unlimited = {.no_limit = true};
	struct client *client = client_new(), *holder = client_new();

	client_want(client_declare_quorum(client, "qq-default", &unlimited), "ok 0 0");
	client_want(client_publish(client, "qq-default", "1"), "ok");
	attach_and_close(holder, "qq-default", 20);
	wait_for(client, "qq-default", client_version(client) >= 4000 ? "ok 0 0" : "ok 1 0");
}
END_TEST

/* ---- the node ---- */

START_TEST(the_order_outlives_the_node)
{
	struct client *client = with_beads("qq-node"), *holder = holder_of("qq-node");

	client_reject(holder, "2");
	client_want(client_next(holder), "2 1 1");
	/* A queue that is a second old keeps its messages. */
	rig_pass_for(3 * NSEC_PER_SEC);
	server->restart();
	client_want(client_qos(client, ALL), "dead");
	client_end_all();
	client = client_new();
	wait_for(client, "qq-node", "ok 3 0");
	client_want(client_attach(client, "qq-node", ALL), "ok");
	want_three(client, "1 1 1", "3 1 1", "2 2 1");
}
END_TEST

/* version: sets that of the server; NULL: it has its own. */
static TCase *
tcase_of(Suite *suite, const char *name, void (*version)(void))
{
	TCase *tcase = tcase_create(name);

	if (version != NULL)
		tcase_add_checked_fixture(tcase, version, NULL);
	tcase_add_checked_fixture(tcase, server_setup, server_teardown);
	tcase_set_timeout(tcase, 120);
	suite_add_tcase(suite, tcase);
	return tcase;
}

static Suite *
suite_of(const char *name, void (*version)(void))
{
	Suite *suite = suite_create(name);
	TCase *tcase = tcase_of(suite, "order", version);

	tcase_add_test(tcase, messages_come_in_order);
	tcase_add_loop_test(tcase, a_reject_goes_behind, 0, 3);
	tcase_add_loop_test(tcase, the_end_of_a_connection_keeps_the_order, 0, 3);
	tcase_add_loop_test(tcase, a_nack_is_a_reject, 0, 3);
	tcase_add_test(tcase, the_order_outlives_many_ends);
	tcase_add_test(tcase, the_header_of_the_count);
	tcase_add_loop_test(tcase, a_prefetch_of_one, 0, 2);
	tcase_add_test(tcase, the_end_of_a_channel_goes_first);
	tcase = tcase_of(suite, "active", version);
	tcase_add_loop_test(tcase, a_second_consumer_waits, 0, 2);
	tcase_add_test(tcase, a_cancel_returns_nothing);
	tcase_add_test(tcase, a_consumer_that_waits_is_cancelled);
	tcase_add_test(tcase, an_exclusive_consumer_is_not_alone);
	tcase_add_test(tcase, the_order_of_the_consumers);
	tcase_add_test(tcase, a_mark_finds_the_active_one);
	tcase = tcase_of(suite, "refusals", version);
	tcase_add_test(tcase, declares_are_refused);
	tcase_add_test(tcase, another_declare);
	tcase_add_test(tcase, a_missing_queue);
	tcase_add_loop_test(tcase, a_message_is_settled_once, 0, 4);
	tcase_add_test(tcase, a_get_is_refused);
	tcase_add_loop_test(tcase, a_deletion_with_conditions, 0, 2);
	tcase = tcase_of(suite, "ends", version);
	tcase_add_test(tcase, a_held_queue_is_deleted);
	tcase_add_test(tcase, a_new_queue_on_an_old_channel);
	tcase_add_test(tcase, a_channel_consumes_again);
	tcase_add_test(tcase, a_purge_takes_what_is_ready);
	tcase_add_test(tcase, an_unused_queue_expires);
	tcase_add_test(tcase, the_order_outlives_the_node);
	tcase = tcase_of(suite, "limits", version);
	tcase_add_test(tcase, a_message_returns_so_often);
	tcase_add_test(tcase, a_limit_below_zero);
	tcase_add_test(tcase, a_limit_by_default);
	return suite;
}

Suite *
quorum_queues_suite(void)
{
	return suite_of("conformance/quorum_queues", NULL);
}

static void
be_3_10(void)
{
	server->be(3, 10);
}

static void
be_4_3(void)
{
	server->be(4, 3);
}

/* The server in memory is of 4.0, unless it is told otherwise. */
Suite *
quorum_queues_3_10_suite(void)
{
	return suite_of("conformance/quorum_queues_3_10", be_3_10);
}

Suite *
quorum_queues_4_3_suite(void)
{
	return suite_of("conformance/quorum_queues_4_3", be_4_3);
}
