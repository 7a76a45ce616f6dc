#include "tests/broker/amqp_rig.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <amqp.h>
#include <event2/event.h>

#define BROKERS 12

struct event_base *rig_base;
struct timers *rig_timers;
struct rig_answer rig_answers[RIG_ANSWERS];
void (*rig_reaction)(unsigned number);

static struct rig_broker brokers[BROKERS];
struct broker *rig_own_broker;
static size_t broker_count;
static unsigned asked, answered;
static bool in_call;
static char url[512];
/* of the last probe */
static enum broker_answer probe_answers[BROKER_PROBE_MAX];
static enum broker_way probe_ways[BROKER_PROBE_MAX];
static unsigned probes_answered;

void
rig_setup(void)
{
	signal(SIGPIPE, SIG_IGN);
	rig_base = event_base_new();
	rig_timers = timers_new(rig_ground->clock);
	memset(brokers, 0, sizeof(brokers));
	memset(rig_answers, 0, sizeof(rig_answers));
	broker_count = 0;
	asked = answered = probes_answered = 0;
	in_call = false;
	rig_reaction = NULL;
	rig_own_broker = NULL;
	if (rig_ground->begin != NULL)
		rig_ground->begin();
}

void
rig_teardown(void)
{
	for (size_t i = 0; i < broker_count; i++) {
		in_call = true;
		broker_free(brokers[i].broker);
		in_call = false;
	}
	for (unsigned i = 0; i < asked; i++) {
		ck_assert_uint_le(rig_answers[i].times, 1);
		name_list_done(&rig_answers[i].names);
	}
	if (rig_ground->end != NULL)
		rig_ground->end();
	timers_free(rig_timers);
	event_base_free(rig_base);
}

int64_t
rig_now(void)
{
	return clock_now(rig_ground->clock);
}

static void
on_tick(evutil_socket_t fd, short what, void *ctx)
{
	(void)fd;
	(void)what;
	(void)ctx;
}

static void
wait_for_events(int64_t ns)
{
	struct timeval tv = {0};

	if (ns > 0)
		tv.tv_usec = (suseconds_t)(ns / 1000 + 1);
	event_base_once(rig_base, -1, EV_TIMEOUT, on_tick, NULL, &tv);
	event_base_loop(rig_base, EVLOOP_ONCE);
}

void
rig_pass(void)
{
	int64_t wait = timers_next(rig_timers) - rig_now();

	rig_ground->wait(wait > 20 * NSEC_PER_MSEC ? 20 * NSEC_PER_MSEC : wait);
	timers_run(rig_timers);
	for (size_t i = 0; i < broker_count; i++)
		broker_flush(brokers[i].broker);
	if (rig_own_broker != NULL)
		broker_flush(rig_own_broker);
}

void
rig_pass_for(int64_t ns)
{
	for (int64_t end = rig_now() + ns; rig_now() < end;)
		rig_pass();
}

/* ---- callbacks ---- */

static void
on_answer(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct rig_answer *answer = &rig_answers[id];

	(void)ctx;
	ck_assert(!in_call);
	ck_assert_uint_lt(id, asked);
	answer->times++;
	answer->order = answered++;
	answer->reply = *reply;
	snprintf(answer->text, sizeof(answer->text), "%s", reply->text);
	answer->reply.text = answer->text;
	if (rig_reaction != NULL)
		rig_reaction((unsigned)id);
}

static void
on_names(void *ctx, uint64_t id, const struct broker_reply *reply, const char *const *names,
    size_t count)
{
	ck_assert(reply->answer == BROKER_OK || count == 0);
	for (size_t i = 0; i < count; i++)
		name_list_add(&rig_answers[id].names, names[i]);
	on_answer(ctx, id, reply);
}

static void
on_probed(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	(void)ctx;
	(void)id;
	ck_assert(!in_call);
	memcpy(probe_answers, seen->answers, seen->count * sizeof(*seen->answers));
	memcpy(probe_ways, seen->ways, seen->count * sizeof(*seen->ways));
	probes_answered++;
}

static void
on_link(void *ctx, enum broker_link link, enum broker_state state, const char *why)
{
	struct rig_broker *rig = ctx;

	ck_assert(!in_call);
	rig->events[link]++;
	rig->state[link] = state;
	snprintf(rig->why[link], sizeof(rig->why[link]), "%s", why);
}

static void
on_channel_closed(void *ctx, uint64_t channel, int code, const char *text)
{
	struct rig_broker *rig = ctx;

	ck_assert(!in_call);
	ck_assert_ptr_nonnull(text);
	rig->channels_closed++;
	rig->closed_channel = channel;
	rig->closed_code = code;
}

static void
on_cancelled(void *ctx, uint64_t channel)
{
	struct rig_broker *rig = ctx;

	ck_assert(!in_call);
	rig->cancelled++;
	rig->cancelled_channel = channel;
}

static bool
on_unclean(void *ctx, uint64_t channel, int64_t until)
{
	struct rig_broker *rig = ctx;

	ck_assert(!in_call && channel != 0);
	rig->uncleans++;
	rig->unclean_until = until;
	return true;
}

static void
on_records_lost(void *ctx, uint64_t session, const char *why)
{
	struct rig_broker *rig = ctx;

	ck_assert(!in_call);
	rig->records_lost++;
	rig->lost_session = session;
	snprintf(rig->lost_why, sizeof(rig->lost_why), "%s", why);
}

static void
on_watch(void *ctx, const char *queue, enum broker_news news)
{
	struct rig_broker *rig = ctx;
	struct rig_news *told = &rig->news[rig->news_count];

	ck_assert(!in_call);
	ck_assert_uint_lt(rig->news_count++, RIG_NEWS);
	snprintf(told->queue, sizeof(told->queue), "%s", queue);
	told->news = news;
}

static void
on_wait_queue(void *ctx, const struct broker_wait_queue_event *event)
{
	struct rig_broker *rig = ctx;
	struct rig_wait_queue_news *told = &rig->lines[rig->line_count];

	ck_assert(!in_call);
	ck_assert_uint_lt(rig->line_count++, RIG_NEWS);
	snprintf(told->queue, sizeof(told->queue), "%s", event->queue);
	told->priority = event->priority;
	told->slot = event->slot;
	told->news = event->news;
}

uint64_t
rig_sum(const char *text, size_t len)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < len; i++)
		sum = sum * 31 + (unsigned char)text[i];
	return sum;
}

static void
on_message(void *ctx, const struct broker_message *message)
{
	struct rig_broker *rig = ctx;
	struct rig_message *told = &rig->messages[rig->message_count];

	ck_assert(!in_call);
	ck_assert_uint_lt(rig->message_count++, RIG_MESSAGES);
	ck_assert_int_eq(message->text[message->len], '\0');
	told->from = message->from;
	told->asked = message->asked;
	told->len = message->len;
	told->sum = rig_sum(message->text, message->len);
	snprintf(told->text, sizeof(told->text), "%s", message->text);
	snprintf(told->user, sizeof(told->user), "%s", message->user);
	if (rig->answers && message->from != 0)
		broker_reply_to(rig->broker, message->from, "here", 4);
}

static void
on_counted(void *ctx, uint64_t id, int consumers)
{
	int *counted = ctx;

	(void)id;
	ck_assert(!in_call);
	*counted = consumers;
}

/* ---- brokers ---- */

static struct amqp_host
given_host(void)
{
	struct amqp_connection_info info;
	const char *given = getenv("LOCKBROKER_AMQP_URL");

	ck_assert_msg(
	    given != NULL, "LOCKBROKER_AMQP_URL is not set: run by tests/harness/rabbit.py");
	snprintf(url, sizeof(url), "%s", given);
	ck_assert_int_eq(amqp_parse_url(url, &info), AMQP_STATUS_OK);
	return (struct amqp_host){
	    .host = info.host,
	    .port = info.port,
	    .vhost = info.vhost,
	    .user = info.user,
	    .password = info.password,
	};
}

static struct broker *
broker_over_tcp(uint64_t seed, const struct amqp_settings *settings)
{
	struct amqp_dialer dialer;
	char *error = NULL;

	ck_assert_msg(amqp_tcp_dialer(rig_base, settings, &dialer, &error), "%s", error);
	return broker_new(rig_timers, seed, settings, &dialer);
}

const struct rig_ground rig_ground_real = {
    .clock = &clock_boottime,
    .wait = wait_for_events,
    .host = given_host,
    .broker_new = broker_over_tcp,
};
const struct rig_ground *rig_ground = &rig_ground_real;

struct amqp_host
rig_host(void)
{
	return rig_ground->host();
}

struct amqp_settings
rig_settings(const struct amqp_host *hosts, size_t count)
{
	return (struct amqp_settings){
	    .hosts = hosts,
	    .host_count = count,
	    .heartbeat = 10,
	    .connect_timeout = 10 * NSEC_PER_SEC,
	    .probe_timeout = 2 * NSEC_PER_SEC,
	    .auxiliary_idle = 60 * NSEC_PER_SEC,
	    .proof_timeout = 60 * NSEC_PER_SEC,
	    .name = "lockbrokerd test",
	};
}

struct rig_broker *
rig_new(const struct amqp_settings *settings)
{
	struct rig_broker *rig = &brokers[broker_count++];
	const struct broker_events events = {
	    .link = on_link,
	    .channel_closed = on_channel_closed,
	    .cancelled = on_cancelled,
	    .unclean = on_unclean,
	    .records_lost = on_records_lost,
	    .watch = on_watch,
	    .wait_queue = on_wait_queue,
	    .asked = on_message,
	    .replied = on_message,
	    .ctx = rig,
	};

	ck_assert_uint_le(broker_count, BROKERS);
	rig->broker = rig_ground->broker_new(broker_count, settings);
	broker_set_events(rig->broker, &events);
	return rig;
}

struct rig_broker *
rig_open(const struct amqp_settings *settings)
{
	struct rig_broker *rig = rig_new(settings);

	in_call = true;
	broker_start(rig->broker);
	in_call = false;
	return rig;
}

struct rig_broker *
rig_open_up(void)
{
	const struct amqp_host host = rig_host();
	const struct amqp_settings settings = rig_settings(&host, 1);
	struct rig_broker *rig = rig_open(&settings);

	rig_wait(rig->state[BROKER_LOCKS] == BROKER_UP);
	return rig;
}

struct broker_info
rig_info(const struct rig_broker *rig)
{
	struct broker_info info;

	broker_get_info(rig->broker, &info);
	return info;
}

struct amqp_counts
rig_counts(const struct rig_broker *rig, enum broker_link link)
{
	struct amqp_counts counts;

	broker_get_counts(rig->broker, link, &counts);
	return counts;
}

/* ---- requests ---- */

void
rig_claim(struct broker *broker, uint64_t channel, const char *queue, struct broker_done done)
{
	broker_claim(broker, channel, BROKER_BY_QUEUE, queue, done);
}

void
rig_drop(struct broker *broker, uint64_t channel, const char *queue, struct broker_done done)
{
	broker_drop(broker, channel, BROKER_BY_QUEUE, queue, true, done);
}

void
rig_consume(struct broker *broker, uint64_t channel, const char *queue, struct broker_done done)
{
	broker_claim(broker, channel, BROKER_BY_CONSUMER, queue, done);
}

void
rig_consume_mutex(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_done done)
{
	broker_claim(broker, channel, BROKER_BY_MUTEX_CONSUMER, queue, done);
}

void
rig_check_queue(struct broker *broker, uint64_t channel, const char *queue, struct broker_done done)
{
	broker_check_holder(broker, channel, BROKER_BY_QUEUE, queue, done);
}

void
rig_check_consumer(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_done done)
{
	broker_check_holder(broker, channel, BROKER_BY_CONSUMER, queue, done);
}

void
rig_cancel(struct broker *broker, uint64_t channel, const char *queue, struct broker_done done)
{
	broker_drop(broker, channel, BROKER_BY_CONSUMER, queue, true, done);
}

void
rig_claim_by_quorum(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_done done)
{
	broker_claim(broker, channel, BROKER_BY_QUORUM, queue, done);
}

void
rig_renew(struct broker *broker, uint64_t channel, const char *queue, struct broker_done done)
{
	broker_check_holder(broker, channel, BROKER_BY_QUORUM, queue, done);
}

void
rig_release(struct broker *broker, uint64_t channel, const char *queue, struct broker_done done)
{
	broker_drop(broker, channel, BROKER_BY_QUORUM, queue, true, done);
}

void
rig_give_up(struct broker *broker, uint64_t channel, const char *queue, struct broker_done done)
{
	broker_drop(broker, channel, BROKER_BY_QUORUM, queue, false, done);
}

static struct broker_done
answer_done(void)
{
	ck_assert_uint_lt(asked, RIG_ANSWERS);
	in_call = true;
	return (struct broker_done){.fn = on_answer, .id = asked++};
}

unsigned
rig_ask(struct rig_broker *rig, rig_operation *operation, uint64_t channel, const char *queue)
{
	struct broker_done done = answer_done();

	operation(rig->broker, channel, queue, done);
	in_call = false;
	return (unsigned)done.id;
}

static struct broker_names_done
names_done(void)
{
	ck_assert_uint_lt(asked, RIG_ANSWERS);
	in_call = true;
	return (struct broker_names_done){.fn = on_names, .id = asked++};
}

unsigned
rig_read(struct rig_broker *rig, const char *queue)
{
	struct broker_names_done done = names_done();

	broker_directory_read(rig->broker, queue, done);
	in_call = false;
	return (unsigned)done.id;
}

unsigned
rig_enter(struct rig_broker *rig, const char *queue, const char *name)
{
	struct broker_names_done done = names_done();

	broker_directory_enter(rig->broker, queue, name, done);
	in_call = false;
	return (unsigned)done.id;
}

unsigned
rig_leave(struct rig_broker *rig, const char *queue, const char *name)
{
	struct broker_names_done done = names_done();

	broker_directory_leave(rig->broker, queue, name, done);
	in_call = false;
	return (unsigned)done.id;
}

unsigned
rig_records_open(struct rig_broker *rig, uint64_t *ret_session)
{
	struct broker_done done = answer_done();

	*ret_session = broker_records_open(rig->broker, done);
	in_call = false;
	return (unsigned)done.id;
}

unsigned
rig_records_set(
    struct rig_broker *rig, uint64_t session, const struct broker_record *record, uint64_t lowest)
{
	struct broker_done done = answer_done();

	broker_records_set(rig->broker, session, record, lowest, done);
	in_call = false;
	return (unsigned)done.id;
}

unsigned
rig_records_remove(struct rig_broker *rig, uint64_t session, const char *name, uint64_t lowest)
{
	struct broker_done done = answer_done();

	broker_records_remove(rig->broker, session, name, lowest, done);
	in_call = false;
	return (unsigned)done.id;
}

uint64_t
rig_take(struct rig_broker *rig, enum broker_link link)
{
	uint64_t channel;

	in_call = true;
	channel = broker_channel_take(rig->broker, link);
	in_call = false;
	return channel;
}

void
rig_put(struct rig_broker *rig, uint64_t channel)
{
	in_call = true;
	broker_channel_put(rig->broker, channel);
	in_call = false;
}

const struct rig_answer *
rig_answer(unsigned number)
{
	rig_wait_for(60, rig_answers[number].times > 0);
	return &rig_answers[number];
}

void
rig_ask_questions(struct rig_broker *rig, const struct broker_question *questions, size_t count)
{
	struct broker_probe_done done = {.fn = on_probed};

	in_call = true;
	broker_probe(rig->broker, questions, count, done);
	in_call = false;
}

void
rig_ask_probe(struct rig_broker *rig, const char *const *queues, size_t count)
{
	struct broker_question questions[BROKER_PROBE_MAX];

	for (size_t i = 0; i < count; i++)
		questions[i] = (struct broker_question){queues[i], BROKER_ASK_EXISTENCE};
	rig_ask_questions(rig, questions, count);
}

unsigned
rig_probes_answered(void)
{
	return probes_answered;
}

const enum broker_answer *
rig_probe_answers(void)
{
	return probe_answers;
}

const enum broker_way *
rig_probe_ways(void)
{
	return probe_ways;
}

const enum broker_answer *
rig_probe(struct rig_broker *rig, const char *const *queues, size_t count)
{
	unsigned before = probes_answered;

	rig_ask_probe(rig, queues, count);
	rig_wait(probes_answered > before);
	return probe_answers;
}

void
rig_watch(struct rig_broker *rig, const char *queue)
{
	in_call = true;
	broker_watch(rig->broker, queue);
	in_call = false;
}

void
rig_unwatch(struct rig_broker *rig, const char *queue)
{
	in_call = true;
	broker_unwatch(rig->broker, queue);
	in_call = false;
}

unsigned
rig_told(const struct rig_broker *rig, const char *queue, enum broker_news news)
{
	unsigned count = 0;

	for (unsigned i = 0; i < rig->news_count; i++)
		count += rig->news[i].news == news &&
			 (queue == NULL || strcmp(rig->news[i].queue, queue) == 0);
	return count;
}

void
rig_join(struct rig_broker *rig, const char *queue, int priority, unsigned credit)
{
	in_call = true;
	broker_wait_queue_join(rig->broker, queue, priority, credit);
	in_call = false;
}

void
rig_leave_wait_queue(struct rig_broker *rig, const char *queue, int priority)
{
	in_call = true;
	broker_wait_queue_leave(rig->broker, queue, priority);
	in_call = false;
}

void
rig_wake(struct rig_broker *rig, const char *queue, int slot)
{
	in_call = true;
	broker_wait_queue_wake(rig->broker, queue, slot);
	in_call = false;
}

int
rig_count(struct rig_broker *rig, const char *queue)
{
	enum { NOT_YET = -2 };
	int counted = NOT_YET;

	in_call = true;
	broker_wait_queue_count(
	    rig->broker, queue, (struct broker_count_done){.fn = on_counted, .ctx = &counted});
	in_call = false;
	rig_wait_for(60, counted != NOT_YET);
	return counted;
}

unsigned
rig_wait_queue_told(
    const struct rig_broker *rig, const char *queue, enum broker_wait_queue_news news)
{
	unsigned count = 0;

	for (unsigned i = 0; i < rig->line_count; i++)
		count += rig->lines[i].news == news &&
			 (queue == NULL || strcmp(rig->lines[i].queue, queue) == 0);
	return count;
}

void
rig_inbox(struct rig_broker *rig, bool open)
{
	in_call = true;
	if (open)
		broker_inbox_open(rig->broker);
	else
		broker_inbox_close(rig->broker);
	in_call = false;
}

uint64_t
rig_ask_all(struct rig_broker *rig, const char *text, size_t len)
{
	uint64_t number;

	in_call = true;
	number = broker_ask(rig->broker, text, len);
	in_call = false;
	return number;
}

void
rig_reply(struct rig_broker *rig, uint64_t from, const char *text, size_t len)
{
	in_call = true;
	broker_reply_to(rig->broker, from, text, len);
	in_call = false;
}

void
rig_rabbit(const char *format, ...)
{
	const char *script = getenv("LOCKBROKER_RABBIT_PY"), *dir = getenv("LOCKBROKER_RABBIT_DIR");
	char words[512], verb[32], command[1500];
	va_list args;
	int at = 0, status = -1;
	pid_t pid;

	ck_assert(script != NULL && dir != NULL);
	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	ck_assert_int_eq(sscanf(words, "%31s %n", verb, &at), 1);
	snprintf(
	    command, sizeof(command), "%s %s '%s' %s >/dev/null", script, verb, dir, words + at);
	pid = fork();
	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	while (waitpid(pid, &status, WNOHANG) == 0)
		rig_pass();
	ck_assert_msg(status == 0, "failed: %s", command);
}
