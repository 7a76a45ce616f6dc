/*
 * The common part of the tests of the AMQP side. It has an event loop with its timers, as in the
 * server. Its brokers use one RabbitMQ, the server in memory, or a server of the test's own. It
 * records every answer under the number of its request. It checks that no call leads to a callback
 * before it returns.
 */
#ifndef TESTS_BROKER_AMQP_RIG_H
#define TESTS_BROKER_AMQP_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/amqp/tcp.h"
#include "daemon/base/timers.h"
#include "daemon/broker/publish.h"
#include "daemon/broker/setup.h"
#include "tests/unit/unit.h"

#define RIG_ANSWERS 4096

struct rig_answer {
	unsigned times; /* number of answers; 1 at the end */
	unsigned order; /* order among all answers */
	struct broker_reply reply;
	char text[256];
	struct name_list names; /* of a directory */
};

#define RIG_NEWS 4096

/* News of a watch. */
struct rig_news {
	char queue[64];
	enum broker_news news;
};

/* News of a wait queue. */
struct rig_wait_queue_news {
	char queue[64];
	int priority, slot;
	enum broker_wait_queue_news news;
};

#define RIG_MESSAGES 1024

struct rig_message {
	uint64_t from, asked;
	char text[128]; /* the beginning of the message */
	size_t len;
	uint64_t sum; /* of all bytes of the message */
	char user[64];
};

/* The broker of one daemon, and a record of its events. */
struct rig_broker {
	struct broker *broker;
	unsigned events[2]; /* number of link events, by link */
	enum broker_state state[2];
	char why[2][512];
	unsigned channels_closed;
	uint64_t closed_channel;
	int closed_code;
	unsigned cancelled; /* number of events */
	uint64_t cancelled_channel;
	unsigned uncleans; /* number of events */
	int64_t unclean_until;
	unsigned records_lost; /* number of events */
	uint64_t lost_session;
	char lost_why[128];
	struct rig_news news[RIG_NEWS];
	unsigned news_count;
	struct rig_wait_queue_news lines[RIG_NEWS];
	unsigned line_count;
	struct rig_message messages[RIG_MESSAGES];
	unsigned message_count;
	bool answers; /* answers each question with "here" */
};

/* The ground of the rig: its time, and the server of its brokers. */
struct rig_ground {
	const struct clock *clock;
	/* Lets so many ns pass at most, fewer if something happens. The caller runs the timers. */
	void (*wait)(int64_t ns);
	struct amqp_host (*host)(void);
	struct broker *(*broker_new)(uint64_t seed, const struct amqp_settings *settings);
	/* While there are timers, and before and after all brokers. NULL: nothing is done. */
	void (*begin)(void);
	void (*end)(void);
};
/* The real time, and servers over TCP. The host is the RabbitMQ of $LOCKBROKER_AMQP_URL. */
extern const struct rig_ground rig_ground_real;
/* The real one, unless main() sets another. */
extern const struct rig_ground *rig_ground;

extern struct event_base *rig_base;
extern struct timers *rig_timers;
extern struct rig_answer rig_answers[RIG_ANSWERS];
/* Called from inside each answer. NULL: nothing is called. */
extern void (*rig_reaction)(unsigned number);

/* Fixture of every test case. The teardown frees the brokers of rig_open(). */
void rig_setup(void);
void rig_teardown(void);

/* The host of the ground. The strings live until the test ends. */
struct amqp_host rig_host(void);
struct amqp_settings rig_settings(const struct amqp_host *hosts, size_t count);
/* A started broker. The teardown frees it. */
struct rig_broker *rig_open(const struct amqp_settings *settings);
/* The same without a start: it only lends its dialer. */
struct rig_broker *rig_new(const struct amqp_settings *settings);
/* rig_open() with rig_host(); the lock connection is up. */
struct rig_broker *rig_open_up(void);
struct broker_info rig_info(const struct rig_broker *rig);
struct amqp_counts rig_counts(const struct rig_broker *rig, enum broker_link link);

/* A test's own broker, which each pass flushes like those of rig_open(). NULL: none. */
extern struct broker *rig_own_broker;
/* One pass of the loop, 20 ms at most. */
void rig_pass(void);
void rig_pass_for(int64_t ns);
int64_t rig_now(void);
/* Passes until the condition holds. Fails the test if that takes more than so many seconds. */
#define rig_wait_for(seconds, condition)                                                           \
	do {                                                                                       \
		int64_t rig_end = rig_now() + (seconds)*NSEC_PER_SEC;                              \
		while (!(condition)) {                                                             \
			ck_assert_msg(rig_now() < rig_end, "not in time: %s", #condition);         \
			rig_pass();                                                                \
		}                                                                                  \
	} while (0)
#define rig_wait(condition) rig_wait_for(60, condition)

/* Send a request and return its number. */
typedef void rig_operation(struct broker *, uint64_t, const char *, struct broker_done);
rig_operation rig_claim, rig_check_queue, rig_drop;                           /* by queue */
rig_operation rig_consume, rig_consume_mutex, rig_check_consumer, rig_cancel; /* by consumer */
/* By quorum. rig_give_up: the drop of a hold whose holder has not stopped. */
rig_operation rig_claim_by_quorum, rig_renew, rig_release, rig_give_up;
unsigned rig_ask(
    struct rig_broker *rig, rig_operation *operation, uint64_t channel, const char *queue);
uint64_t rig_take(struct rig_broker *rig, enum broker_link link);
void rig_put(struct rig_broker *rig, uint64_t channel);
/* The same for a directory. */
unsigned rig_read(struct rig_broker *rig, const char *queue);
unsigned rig_enter(struct rig_broker *rig, const char *queue, const char *name);
unsigned rig_leave(struct rig_broker *rig, const char *queue, const char *name);
/* The same for the records. */
unsigned rig_records_open(struct rig_broker *rig, uint64_t *ret_session);
unsigned rig_records_set(
    struct rig_broker *rig, uint64_t session, const struct broker_record *record, uint64_t lowest);
unsigned rig_records_remove(
    struct rig_broker *rig, uint64_t session, const char *name, uint64_t lowest);
/* Waits for the answer. */
const struct rig_answer *rig_answer(unsigned number);
/* Asks, waits, and checks the answer. */
#define rig_want(rig, operation, channel, queue, wanted)                                           \
	ck_assert_int_eq(                                                                          \
	    rig_answer(rig_ask((rig), (operation), (channel), (queue)))->reply.answer, (wanted))
/*
 * Probes without waiting. The other two return the number of answered probes, and the answers of
 * the last one.
 */
void rig_ask_probe(struct rig_broker *rig, const char *const *queues, size_t count);
unsigned rig_probes_answered(void);
const enum broker_answer *rig_probe_answers(void);
/* The same with questions of any kind. */
void rig_ask_questions(
    struct rig_broker *rig, const struct broker_question *questions, size_t count);
const enum broker_way *rig_probe_ways(void);
/* Probes and waits. The answers are valid until the next probe. */
const enum broker_answer *rig_probe(
    struct rig_broker *rig, const char *const *queues, size_t count);

void rig_watch(struct rig_broker *rig, const char *queue);
void rig_unwatch(struct rig_broker *rig, const char *queue);
/* The number of such news. queue NULL: of any queue. */
unsigned rig_told(const struct rig_broker *rig, const char *queue, enum broker_news news);

void rig_join(struct rig_broker *rig, const char *queue, int priority, unsigned credit);
void rig_leave_wait_queue(struct rig_broker *rig, const char *queue, int priority);
void rig_wake(struct rig_broker *rig, const char *queue, int slot);
/* Counts the consumers, and waits for the answer. */
int rig_count(struct rig_broker *rig, const char *queue);
/* The number of such news of a wait queue. queue NULL: of any queue. */
unsigned rig_wait_queue_told(
    const struct rig_broker *rig, const char *queue, enum broker_wait_queue_news news);

void rig_inbox(struct rig_broker *rig, bool open);
uint64_t rig_ask_all(struct rig_broker *rig, const char *text, size_t len);
void rig_reply(struct rig_broker *rig, uint64_t from, const char *text, size_t len);
uint64_t rig_sum(const char *text, size_t len);

/* Runs the harness's rabbit.py with these words and the node's folder. It must succeed. Brokers go on meanwhile. */
void rig_rabbit(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The suites. */
Suite *versions_suite(void);
Suite *costs_suite(void);
Suite *links_suite(void);
Suite *denied_suite(void);
Suite *tls_suite(void);
Suite *watches_suite(void);
Suite *scripted_suite(void);
Suite *scripted_directory_suite(void);
Suite *scripted_holders_suite(void);
Suite *scripted_watches_suite(void);
Suite *scripted_wait_queues_suite(void);
Suite *addresses_suite(void);

#endif
