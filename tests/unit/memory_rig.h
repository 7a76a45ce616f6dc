/*
 * The brokers of two daemons, with the shipped AMQP code, over one server in memory, and a clock of
 * the test. It records all events in order, in short:
 *
 *	1=ok		the answer to request 1
 *	2=locked!	the answer to request 2, whose channel is closed with it
 *	p3=ok,absent	the answer to a probe
 *	closed:405	the broker closed a channel
 *	locks:up	a link
 *	hint:a		news of a watch
 *	hint:w/5=3	news of a wait queue: queue w, priority 5, slot 3
 *	c4=2		a count of consumers
 *	lost:records	a session of the records is over
 *	a1:holding	a raw link: link a, channel 1, an answer or a method of the server
 *
 * No call may lead to a callback before it returns. The rig checks this for every call made through
 * it.
 */
#ifndef TESTS_UNIT_MEMORY_RIG_H
#define TESTS_UNIT_MEMORY_RIG_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/amqp/frame.h"
#include "daemon/base/timers.h"
#include "daemon/broker/broker.h"
#include "tests/memory/controls.h"

#define MSEC NSEC_PER_MSEC
#define RIG_PLAN 16

struct rig {
	int64_t now;
	struct timers *timers;
	char seen[4096];
	bool in_call; /* inside a call: no callback may come */
	int64_t sent_at[300];
	char text[300]; /* of the last answer */
	uint64_t closed_channel;
	/* Called once, from inside the answer to the request of that number. */
	uint64_t react_to;
	void (*reaction)(void);
	/*
	 * The plan of the behaviour for the next requests, in order. Then nothing unusual happens.
	 */
	int64_t delays[RIG_PLAN];
	bool silences[RIG_PLAN], deafnesses[RIG_PLAN];
	size_t delays_used, silences_used, deafnesses_used;
	/* Called inside the callback for each event of a watch. */
	void (*heard)(const char *queue, enum broker_news news);
	/* Called inside the callback for each event of a wait queue. */
	void (*wait_queue_heard)(const struct broker_wait_queue_event *event);
	uint64_t from; /* of the last question: "asked:TEXT" */
	/* Called inside the callback for each daemon message. */
	void (*message_heard)(const struct broker_message *message);
};

extern struct rig rig;
/* The limit of channels of each link of broker one: 3 unless a test sets it before its rig. */
extern unsigned rig_channels_of_one;
extern struct memory_world *world;
extern struct broker *one, *two; /* requests of `two` have numbers from 100 on */

/* behaviour NULL: the plan. */
void rig_new(const struct memory_behaviour *behaviour);
void rig_start(void);
void rig_free(void);
/* Fixtures. The teardown fails if there are events that the test has not checked. */
void rig_setup(void);
void rig_setup_unstarted(void);
void rig_teardown(void);
struct broker *rig_broker_new(unsigned channels_max);
struct broker *rig_broker_new_at(struct timers *timers, unsigned channels_max);

/* Records an event. */
void see(const char *event);
/* Handles all that needs no time. */
void run(void);
/* Lets so many ns pass, and handles each event at its own time. */
void pass(int64_t ns);
/* Checks the events since the last call. */
#define ck_saw(wanted)                                                                             \
	do {                                                                                       \
		ck_assert_str_eq(rig.seen, (wanted));                                              \
		rig.seen[0] = '\0';                                                                \
	} while (0)

struct broker_done done(uint64_t id);
void claim(struct broker *broker, uint64_t channel, const char *queue, uint64_t id);
void check(struct broker *broker, uint64_t channel, const char *queue, uint64_t id);
void drop(struct broker *broker, uint64_t channel, const char *queue, uint64_t id);
void declare_slot(struct broker *broker, uint64_t channel, const char *queue, uint64_t id);
void declare_marker(struct broker *broker, uint64_t channel, const char *queue, uint64_t id);
void delete_slot(struct broker *broker, uint64_t channel, const char *queue, uint64_t id);
void probe(struct broker *broker, const char *const *queues, size_t count, uint64_t id);
/* For a directory. The answer to a read is "1=ok(a,b)". */
void read_names(struct broker *broker, const char *queue, uint64_t id);
void enter_name(struct broker *broker, const char *queue, const char *name, uint64_t id);
void leave_name(struct broker *broker, const char *queue, const char *name, uint64_t id);
uint64_t take(struct broker *broker, enum broker_link link);
void watch(struct broker *broker, const char *queue);
void unwatch(struct broker *broker, const char *queue);
void join(struct broker *broker, const char *queue, int priority, unsigned credit);
void leave(struct broker *broker, const char *queue, int priority);
void wake(struct broker *broker, const char *queue, int slot);
void count(struct broker *broker, const char *queue, uint64_t id);
uint64_t ask(struct broker *broker, const char *text);
void reply(struct broker *broker, uint64_t from, const char *text);
bool exists(const char *queue);
const struct broker *owner_of(const char *queue);

/*
 * A raw link: a client of the server that speaks AMQP without the daemon's code. It is connected to
 * that node of the server. rig_free() frees it (memory_raw.c). It answers channel.close, and records:
 *
 *	a1:declared(2,1)	messages and consumers
 *	a1:consuming, a1:cancelled, a1:deleted, a1:empty	answers to consume, cancel, delete, get
 *	a1:cancel		the server cancels the consumer
 *	a1:got(text)		a delivery
 *	a1:got(text,2)		the same, and the count in its header; of 4.3: got(text,2/1)
 *	a1:ack, a1:nack, a1:return
 *	a1:closed:403, a:dead	rig.text is the text
 */
struct raw;
struct raw *raw_new(unsigned node);
void raw_open(struct raw *raw, uint16_t channel);
enum raw_declare {
	RAW_PASSIVE,
	RAW_EXCLUSIVE,
	RAW_DURABLE,
	RAW_HOLDER,  /* durable, x-max-length 0, x-overflow reject-publish */
	RAW_MUTEX,   /* the same, and x-expires RAW_EXPIRES */
	RAW_QUORUM,  /* a quorum queue with a single active consumer, and without a limit */
	RAW_QUORUM_3 /* the same before RabbitMQ 4.0 */
};
#define RAW_EXPIRES 60000 /* ms */
void raw_declare(struct raw *raw, uint16_t channel, const char *queue, enum raw_declare how);
/* With the consumer tag "h": no_ack, and exclusive if wanted. */
void raw_consume(struct raw *raw, uint16_t channel, const char *queue, bool exclusive);
void raw_cancel(struct raw *raw, uint16_t channel, const char *tag);
enum raw_if { RAW_IF_UNUSED = 1, RAW_IF_EMPTY = 2 };
void raw_delete(struct raw *raw, uint16_t channel, const char *queue, enum raw_if condition);
void raw_get(struct raw *raw, uint16_t channel, const char *queue);
void raw_confirm(struct raw *raw, uint16_t channel);
/* mandatory, with the body "m" */
void raw_publish(struct raw *raw, uint16_t channel, const char *queue);
/* With a body, and the same text in a header. */
void raw_put(struct raw *raw, uint16_t channel, const char *queue, const char *body);
/* Consumes from a quorum queue with the tag "h". Each message must have that header. */
void raw_attach(struct raw *raw, uint16_t channel, const char *queue);
/* tag: of a delivery. The first one of the channel is 1. */
void raw_reject(struct raw *raw, uint16_t channel, unsigned tag);
void raw_ack(struct raw *raw, uint16_t channel, unsigned tag);
void raw_close(struct raw *raw, uint16_t channel);
/* The number of its connection. */
uint64_t raw_number(const struct raw *raw);
/* Ends the link without a word, and frees it. The server notices at once. */
void raw_end(struct raw *raw);
void raw_end_all(void);

/* A test case of the suite with the rig as its fixture. */
TCase *rig_tcase(Suite *suite, const char *name);

#endif
