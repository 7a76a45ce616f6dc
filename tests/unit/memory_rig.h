/*
 * Two daemons' brokers, with the shipped AMQP code, over one server in memory and a clock of our
 * own. Whatever comes back is written down in order, in short: "1=ok" is the answer to request 1,
 * "2=locked!" one whose channel is gone with it, "p3=ok,absent" a probe, "closed:405" a channel closed by
 * the broker, "locks:up" a link, "hint:a" a watch's news, "hint:w/5=3" those of a wait queue (queue
 * w, priority 5, slot 3), "c4=2" a count of consumers. Nothing may come back from inside a call
 * that asks for it: the rig checks that of every call made through it.
 */
#ifndef TESTS_UNIT_MEMORY_RIG_H
#define TESTS_UNIT_MEMORY_RIG_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/timers.h"
#include "daemon/broker/broker.h"
#include "daemon/memory/memory.h"

#define MSEC NSEC_PER_MSEC
#define RIG_PLAN 16

struct rig {
	int64_t now;
	struct timers *timers;
	char seen[4096];
	bool in_call; /* nothing may be called back */
	int64_t sent_at[300];
	char text[128]; /* of the last answer */
	uint64_t closed_channel;
	/* What a test does from inside the answer to the request of that number, once. */
	uint64_t react_to;
	void (*reaction)(void);
	/* The plan of the behaviour: for the requests to come, in order; then plain. */
	int64_t delays[RIG_PLAN];
	bool silences[RIG_PLAN], nacks[RIG_PLAN], deafnesses[RIG_PLAN];
	size_t delays_used, silences_used, nacks_used, deafnesses_used;
	bool holds_acks; /* publishes that the world reads together are confirmed together */
	/* What a test does from inside each piece of a watch's news. */
	void (*heard)(const char *queue, enum broker_news news);
	/* The same of a wait queue's. */
	void (*line_heard)(const struct broker_wait_queue_event *event);
	uint64_t from; /* of the last daemon message that asked; "asked:TEXT" */
	/* The same of a daemon message; "replied:NUMBER=TEXT". */
	void (*message_heard)(const struct broker_message *message);
};

extern struct rig rig;
extern unsigned
    rig_channels_of_one; /* most channels of each of its links: 3, unless a fixture says more */
extern struct memory_world *world;
extern struct broker *one, *two; /* two's requests are numbered from 100 */

/* With behaviour NULL: the plan. */
void rig_new(const struct memory_behaviour *behaviour);
void rig_start(void);
void rig_free(void);
/* Fixtures: started, and teardown that wants to have seen nothing unexpected. */
void rig_setup(void);
void rig_setup_unstarted(void);
void rig_teardown(void);
struct broker *rig_broker_new(unsigned channels_max);
struct broker *rig_broker_new_at(struct timers *timers, unsigned channels_max);

/* What needs no time. */
void run(void);
/* All that falls due in so many ns, at its own time. */
void pass(int64_t ns);
/* What was seen since the last call. */
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
/* Of a directory: the answer is "1=ok(a,b)". */
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

/* A test case of the suite, with the rig as its fixture. */
TCase *rig_tcase(Suite *suite, const char *name);

#endif
