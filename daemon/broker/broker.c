#include "daemon/broker/broker.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/backoff.h"
#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/broker/ask.h"
#include "daemon/broker/channel.h"
#include "daemon/broker/consumers.h"
#include "daemon/broker/internal.h"
#include "daemon/broker/make.h"
#include "daemon/broker/publish.h"
#include "daemon/broker/quorum.h"
#include "daemon/broker/reconnector.h"
#include "daemon/broker/records.h"
#include "daemon/broker/setup.h"
#include "daemon/broker/wait_queue.h"
#include "daemon/broker/way.h"
#include "daemon/state/state.h"

/*
 * Contents:
 *	The modules of the auxiliary connection: they are made, begin with each link, and fail with it.
 *	The auxiliary connection, on demand: it rests when it was idle for long.
 *	The verdict about exclusive queues: before it, nobody hears that the lock connection is up.
 *	The test of exclusive queues: both connections open a channel for it.
 *	The test of exclusive queues, the two answers: they lead to the verdict.
 *	The test of exclusive queues, outside: it begins with the links, and ends with them.
 *	The reconnectors' events: locks_up(), broker_on_up() and broker_on_down() say what follows for whom.
 *	Operations: start, stop, the freeze, and the part of the connections in the successor.
 *	The present state: broker_get_info() and so on.
 *	Requests: broker_claim(), broker_check_holder() and broker_drop() choose by way. The others have one
 *	   channel.
 *	Life: broker_new() makes both reconnectors and all modules.
 *	For tests and the server in memory: what nobody else reads.
 * Other files of this folder implement the rest of broker.h and setup.h themselves.
 */

static struct amqp_reconnector *
broker_reconnector(const struct broker *broker, enum broker_link link)
{
	if (link >= BROKER_QUORUM)
		return amqp_quorum_reconnector(broker->quorum, link);
	return link == BROKER_LOCKS ? broker->locks : broker->auxiliary;
}

static struct amqp_channels *
broker_channels_of(const struct broker *broker, uint64_t channel)
{
	/* The lowest bit of an id (channel.c). */
	return amqp_reconnector_channels(channel & 1 ? broker->auxiliary : broker->locks);
}

/* ---- the modules of the auxiliary connection ---- */

static void
modules_new(struct broker *broker)
{
	broker->counters = amqp_counters_new(broker);
	broker->probes = amqp_probes_new(broker);
	broker->directory = amqp_directory_new(broker);
	broker->watches = amqp_watches_new(broker);
	broker->wait_queues = amqp_wait_queues_new(broker);
	broker->hints = amqp_hints_new(broker);
	broker->mailbox = amqp_mailbox_new(broker);
	broker->makers = amqp_makers_new(broker);
	broker->records = amqp_records_new(broker);
}

static void
modules_free(struct broker *broker)
{
	amqp_probes_free(broker->probes);
	amqp_directory_free(broker->directory);
	amqp_watches_free(broker->watches);
	amqp_wait_queues_free(broker->wait_queues);
	amqp_hints_free(broker->hints);
	amqp_counters_free(broker->counters);
	amqp_mailbox_free(broker->mailbox);
	amqp_makers_free(broker->makers);
	amqp_records_free(broker->records);
}

/* Whether one needs the link again when it has ended: all but requests, which are answered then. */
static bool
modules_stay(const struct broker *broker)
{
	return amqp_watches_any(broker->watches) || amqp_wait_queues_any(broker->wait_queues) ||
	       broker_owes_hints(broker) || amqp_mailbox_any(broker->mailbox);
}

static bool
auxiliary_in_use(const struct broker *broker)
{
	return amqp_channels_in_use(broker->channels) || amqp_probes_in_use(broker->probes) ||
	       amqp_directory_in_use(broker->directory) || amqp_counters_in_use(broker->counters) ||
	       amqp_makers_in_use(broker->makers) || amqp_records_in_use(broker->records) ||
	       modules_stay(broker);
}

/* user: of the login; NULL: not known. */
static void
modules_go(struct broker *broker, const char *user)
{
	amqp_probes_send_waiting(broker->probes);
	amqp_directory_go(broker->directory);
	amqp_watches_place(broker->watches);
	amqp_wait_queues_place(broker->wait_queues);
	amqp_hints_pay(broker->hints);
	amqp_counters_send_waiting(broker->counters);
	amqp_mailbox_go(broker->mailbox, user);
	amqp_makers_go(broker->makers);
	amqp_records_go(broker->records);
}

/* The link ended, or does not come up: answers all requests. */
static void
modules_give_up(struct broker *broker)
{
	amqp_probes_fail(broker->probes);
	amqp_directory_fail(broker->directory);
	amqp_counters_fail(broker->counters);
	amqp_makers_fail(broker->makers);
	amqp_records_fail(broker->records);
}

/* ---- the auxiliary connection, on demand ---- */

static void
auxiliary_on_wait(void *ctx, uint64_t id)
{
	struct broker *broker = ctx;

	(void)id;
	if (!amqp_reconnector_is_idle(broker->auxiliary))
		return;
	amqp_channels_fail(broker->channels);
	modules_give_up(broker);
}

static void
auxiliary_on_idle(void *ctx, uint64_t id)
{
	struct broker *broker = ctx;
	int64_t due = broker->auxiliary_used + broker->settings.auxiliary_idle;

	(void)id;
	if (auxiliary_in_use(broker))
		due = broker_now(broker) + broker->settings.auxiliary_idle;
	if (due > broker_now(broker))
		timers_set(broker->timers, &broker->auxiliary_idle, due);
	else
		amqp_reconnector_rest(broker->auxiliary, "idle");
}

/* ---- the verdict about exclusive queues ---- */

enum exclusion_verdict {
	EXCLUSION_KEPT,      /* 405 */
	EXCLUSION_BROKEN,    /* the auxiliary connection has the queue, too, or cannot see it */
	EXCLUSION_NOT_TESTED /* not yet, or not allowed: another verdict may follow */
};

/* If the auxiliary connection waits for a verdict, it does not any longer. */
static void
auxiliary_let_go(struct broker *broker)
{
	const struct amqp_settings *settings = &broker->settings;
	size_t host = amqp_reconnector_host(broker->auxiliary);

	if (!broker->auxiliary_waits)
		return;
	broker->auxiliary_waits = false;
	/* If the login is by certificate, only the broker knows the user. */
	modules_go(broker, settings->external ? NULL : settings->hosts[host].user);
}

static void
broker_take_verdict(struct broker *broker, enum exclusion_verdict verdict, const char *why)
{
	broker->exclusion_tested = verdict == EXCLUSION_KEPT;
	free(broker->exclusion_why);
	broker->exclusion_why = mem_strdup(why);
	if (verdict == EXCLUSION_BROKEN) {
		broker->unfit = true;
		amqp_reconnector_drop(broker->locks, why);
		return;
	}
	if (verdict == EXCLUSION_NOT_TESTED)
		log_warning("exclusive queues of the broker are not tested: %s", why);
	/* From now on others use the lock connection. */
	if (!broker->ready) {
		broker->ready = true;
		if (broker->events.link != NULL)
			broker->events.link(broker->events.ctx, BROKER_LOCKS, BROKER_UP, "");
	}
	auxiliary_let_go(broker);
}

/* ---- the test of exclusive queues ---- */

/*
 * Tests whether the broker keeps exclusive queues to one connection. The whole scheme stands on
 * that. A proxy that shares connections breaks it. The channels of two daemons are then one
 * connection of the broker, and both get the same holder queue. AMQProxy pools connections
 * (https://github.com/cloudamqp/amqproxy).
 *
 * The lock connection declares an exclusive queue. A passive declare on the auxiliary connection must
 * then be refused with 405. Nobody is told that the lock connection is up before the verdict. The
 * auxiliary connection is made anew for it, and publishes nothing before: RabbitMQ does not read a
 * connection that publishes during an alarm. One verdict counts for the life of the lock connection.
 */

/* Another node of a cluster may learn of a new queue late: it is asked again after this. */
#define EXCLUSION_AGAIN (50 * NSEC_PER_MSEC)

static const char exclusion_shared[] =
    "two connections share their exclusive queues, so two clients could "
    "hold one slot: use no proxy that shares connections";
static const char exclusion_separate[] =
    "one connection does not see the queues of another: this host is "
    "more than one broker";

enum exclusion_state {
	EXCLUSION_NONE,      /* no lock connection, or the test is over */
	EXCLUSION_WAITING,   /* for the auxiliary connection */
	EXCLUSION_DECLARING, /* the lock connection declares the queue */
	EXCLUSION_CHECKING   /* the auxiliary connection looks for it, now or at `again` */
};

struct amqp_exclusion {
	struct broker *broker; /* borrowed */
	enum exclusion_state state;
	bool told;                          /* a verdict, to let others go on */
	bool absent;                        /* the last answer was that there is no such queue */
	char queue[MAILBOX_NAME_MAX];       /* DECLARING, CHECKING */
	uint64_t lock_channel, aux_channel; /* taken; 0: none */
	struct timer limit;                 /* while the first verdict is missing */
	struct timer again;                 /* CHECKING */
};

static void
exclusion_set_state(struct amqp_exclusion *exclusion, enum exclusion_state state)
{
	assert(state <= EXCLUSION_WAITING || state == exclusion->state + 1);
	exclusion->state = state;
}

static void
exclusion_set_timer(struct amqp_exclusion *exclusion, struct timer *timer, int64_t wait)
{
	struct broker *broker = exclusion->broker;

	timers_set(broker->timers, timer, broker_now(broker) + wait);
}

static void
exclusion_tell(struct amqp_exclusion *exclusion, enum exclusion_verdict verdict, const char *why)
{
	exclusion->told = true;
	timers_cancel(exclusion->broker->timers, &exclusion->limit);
	broker_take_verdict(exclusion->broker, verdict, why);
}

static void
exclusion_on_dropped(void *ctx, uint64_t channel, const struct broker_reply *reply)
{
	struct amqp_exclusion *exclusion = ctx;

	(void)reply;
	amqp_channels_put(amqp_reconnector_channels(exclusion->broker->locks), channel);
	if (exclusion->lock_channel == channel)
		exclusion->lock_channel = 0;
}

/* The queue is not needed any more. */
static void
exclusion_drop_queue(struct amqp_exclusion *exclusion)
{
	amqp_channels_request(amqp_reconnector_channels(exclusion->broker->locks),
	    exclusion->lock_channel, way_queue.drop, exclusion->queue,
	    (struct broker_done){
		.fn = exclusion_on_dropped, .ctx = exclusion, .id = exclusion->lock_channel});
}

/* ---- the test of exclusive queues, the two answers ---- */

/* The answer of the auxiliary connection, with the queue of the lock connection in place. */
static void
exclusion_conclude(struct amqp_exclusion *exclusion, const struct broker_reply *reply)
{
	enum broker_answer answer = reply->answer;

	FAULT_IF(SHARED_QUEUE_IGNORED, answer == BROKER_OK, answer = BROKER_LOCKED);
	FAULT_IF(UNSEEN_QUEUE_IGNORED, answer == BROKER_ABSENT, answer = BROKER_LOCKED);
	exclusion->absent = answer == BROKER_ABSENT;
	if (exclusion->absent && timer_is_set(&exclusion->limit)) {
		exclusion_set_timer(exclusion, &exclusion->again, EXCLUSION_AGAIN);
		return;
	}
	exclusion_set_state(
	    exclusion, answer == BROKER_UNKNOWN ? EXCLUSION_WAITING : EXCLUSION_NONE);
	exclusion_drop_queue(exclusion);
	switch (answer) {
	case BROKER_LOCKED:
		exclusion_tell(exclusion, EXCLUSION_KEPT, "");
		break;
	case BROKER_OK:
		exclusion_tell(exclusion, EXCLUSION_BROKEN, exclusion_shared);
		break;
	case BROKER_ABSENT:
		exclusion_tell(exclusion, EXCLUSION_BROKEN, exclusion_separate);
		break;
	case BROKER_UNKNOWN:
		break; /* exclusion_fail() comes */
	case BROKER_REFUSED:
	case BROKER_SKIPPED:
	case BROKER_UNREACHABLE:
		exclusion_tell(exclusion, EXCLUSION_NOT_TESTED, reply->text);
		break;
	}
}

static void
exclusion_on_checked(void *ctx, uint64_t channel, const struct broker_reply *reply)
{
	struct amqp_exclusion *exclusion = ctx;

	amqp_channels_put(exclusion->broker->channels, channel);
	/* Else the lock connection ended meanwhile, and the queue with it. */
	if (exclusion->aux_channel != channel)
		return;
	exclusion->aux_channel = 0;
	exclusion_conclude(exclusion, reply);
}

static void
exclusion_check(struct amqp_exclusion *exclusion)
{
	exclusion->aux_channel = amqp_channels_take(exclusion->broker->channels);
	amqp_channels_request(exclusion->broker->channels, exclusion->aux_channel,
	    &amqp_request_check, exclusion->queue,
	    (struct broker_done){
		.fn = exclusion_on_checked, .ctx = exclusion, .id = exclusion->aux_channel});
}

static void
exclusion_on_again(void *ctx, uint64_t id)
{
	(void)id;
	exclusion_check(ctx);
}

static void
exclusion_on_declared(void *ctx, uint64_t channel, const struct broker_reply *reply)
{
	struct amqp_exclusion *exclusion = ctx;

	if (exclusion->lock_channel == channel && reply->answer == BROKER_OK) {
		exclusion_set_state(exclusion, EXCLUSION_CHECKING);
		exclusion_check(exclusion);
		return;
	}
	amqp_channels_put(amqp_reconnector_channels(exclusion->broker->locks), channel);
	if (exclusion->lock_channel != channel)
		return;
	exclusion->lock_channel = 0;
	exclusion_set_state(exclusion, EXCLUSION_NONE);
	if (reply->answer != BROKER_UNKNOWN)
		exclusion_tell(exclusion, EXCLUSION_NOT_TESTED, reply->text);
}

static void
exclusion_on_limit(void *ctx, uint64_t id)
{
	struct amqp_exclusion *exclusion = ctx;

	(void)id;
	if (exclusion->absent)
		exclusion_tell(exclusion, EXCLUSION_BROKEN, exclusion_separate);
	else
		exclusion_tell(exclusion, EXCLUSION_NOT_TESTED,
		    "the broker did not answer within request-timeout");
}

/* ---- the test of exclusive queues, outside ---- */

/* The lock connection is up: a verdict comes within the timeout. The test waits for the other one. */
static void
exclusion_begin(struct amqp_exclusion *exclusion)
{
	exclusion_set_state(exclusion, EXCLUSION_WAITING);
	exclusion->told = exclusion->absent = false;
	exclusion_set_timer(
	    exclusion, &exclusion->limit, exclusion->broker->settings.exclusion_timeout);
}

/* The auxiliary connection is up. Returns whether the test goes on, and its verdict will come. */
static bool
exclusion_go(struct amqp_exclusion *exclusion)
{
	if (exclusion->state != EXCLUSION_WAITING || exclusion->lock_channel != 0)
		return false;
	exclusion->lock_channel =
	    amqp_channels_take(amqp_reconnector_channels(exclusion->broker->locks));
	if (exclusion->lock_channel == 0)
		return false;
	exclusion_set_state(exclusion, EXCLUSION_DECLARING);
	amqp_mailbox_name(exclusion->queue, MAILBOX_INBOX "test-", &exclusion->broker->jitter,
	    exclusion->broker->settings.replays);
	amqp_channels_request(amqp_reconnector_channels(exclusion->broker->locks),
	    exclusion->lock_channel, way_queue.claim, exclusion->queue,
	    (struct broker_done){
		.fn = exclusion_on_declared, .ctx = exclusion, .id = exclusion->lock_channel});
	return !exclusion->told;
}

/* The auxiliary connection ended, or does not come up. The verdict is NOT_TESTED if it is missing. */
static void
exclusion_fail(struct amqp_exclusion *exclusion, const char *why)
{
	/* Between two checks, no request tells of the end. */
	if (timer_is_set(&exclusion->again)) {
		timers_cancel(exclusion->broker->timers, &exclusion->again);
		exclusion_set_state(exclusion, EXCLUSION_WAITING);
		exclusion_drop_queue(exclusion);
	}
	if (exclusion->state == EXCLUSION_WAITING && !exclusion->told)
		exclusion_tell(exclusion, EXCLUSION_NOT_TESTED, why);
}

/* The lock connection ended. No verdict comes. */
static void
exclusion_stop(struct amqp_exclusion *exclusion)
{
	exclusion_set_state(exclusion, EXCLUSION_NONE);
	exclusion->lock_channel = exclusion->aux_channel = 0;
	timers_cancel(exclusion->broker->timers, &exclusion->limit);
	timers_cancel(exclusion->broker->timers, &exclusion->again);
}

/* ---- the reconnectors' events ---- */

/*
 * If the hosts were not one cluster, one slot could be granted twice. Clusters differ only in this
 * name among the server's properties. By default each node makes the name up from its own (RabbitMQ
 * 3.10.8).
 */
static char *
broker_on_vet(void *ctx, const struct amqp_server *server)
{
	struct broker *broker = ctx;
	const struct amqp_settings *settings = &broker->settings;

	broker->unfit = true;
	FAULT(ANY_PRODUCT, broker->unfit = false; return NULL);
	if (!settings->in_process && !settings->any_product &&
	    strcmp(server->product, "RabbitMQ") != 0)
		return mem_printf("this broker is \"%s\", not RabbitMQ; broker-product = any uses "
				  "it, without the promises about leases",
		    server->product);
	if (settings->host_count > 1 && server->cluster[0] == '\0')
		return mem_strdup("this host names no cluster, so it could be another broker than "
				  "the other hosts; configure one host alone");
	broker->unfit = broker->cluster != NULL && strcmp(broker->cluster, server->cluster) != 0;
	if (!broker->unfit)
		return NULL;
	return mem_printf("this host belongs to cluster \"%s\", not to \"%s\"; all hosts must "
			  "belong to one cluster (rabbitmqctl set_cluster_name names it)",
	    server->cluster, broker->cluster);
}

static void
locks_up(struct broker *broker)
{
	const struct amqp_server *server = &amqp_reconnector_link(broker->locks)->server;
	bool tests = broker->settings.exclusion_timeout != 0;

	if (broker->cluster == NULL)
		broker->cluster = mem_strdup(server->cluster);
	free(broker->product);
	free(broker->version);
	broker->product = mem_strdup(server->product);
	broker->version = mem_strdup(server->version);
	broker->persistent = server->persistent;
	broker->deletes_by_name = server->deletes_by_name;
	broker->hides_queues = server->hides_queues;
	amqp_quorum_wake(broker->quorum);
	/* One for the test has not published, and is not as dead as the old lock connection. */
	if ((tests && amqp_reconnector_state(broker->auxiliary) == BROKER_UP) ||
	    amqp_reconnector_host(broker->auxiliary) != amqp_reconnector_host(broker->locks))
		broker->test_due =
		    amqp_reconnector_drop(broker->auxiliary, "the lock connection is a new one");
	if (tests && !broker->test_due)
		exclusion_begin(broker->exclusion);
	broker->ready |= !tests;
	FAULT(READY_BEFORE_VERDICT, broker->ready = true);
	if (auxiliary_in_use(broker) || tests)
		amqp_auxiliary_need(broker);
}

static void
broker_on_up(void *ctx, enum broker_link which)
{
	struct broker *broker = ctx;

	if (which == BROKER_LOCKS) {
		locks_up(broker);
		return;
	}
	amqp_auxiliary_use(broker);
	timers_set(broker->timers, &broker->auxiliary_idle,
	    broker_now(broker) + broker->settings.auxiliary_idle);
	broker->auxiliary_waits = true;
	if (!exclusion_go(broker->exclusion))
		auxiliary_let_go(broker);
}

/*
 * An auxiliary connection that is not up yet waits for the lock connection. If the broker allows
 * only one connection, it would take the place of the lock connection.
 */
static void
locks_down(struct broker *broker)
{
	if (amqp_reconnector_state(broker->auxiliary) == BROKER_UP)
		return;
	amqp_reconnector_drop(broker->auxiliary, "the lock connection is down");
	if (auxiliary_in_use(broker))
		amqp_auxiliary_need(broker);
}

static void
broker_on_down(void *ctx, enum broker_link which)
{
	struct broker *broker = ctx;

	if (which == BROKER_LOCKS) {
		broker->ready = broker->exclusion_tested = broker->test_due = false;
		exclusion_stop(broker->exclusion);
		auxiliary_let_go(broker);
		locks_down(broker);
		return;
	}
	broker->auxiliary_waits = false;
	if (broker->test_due) {
		broker->test_due = false;
		if (broker->settings.exclusion_timeout != 0) {
			exclusion_begin(broker->exclusion);
			amqp_auxiliary_need(broker);
		}
	} else {
		exclusion_fail(broker->exclusion, amqp_reconnector_why(broker->auxiliary));
	}
	broker->blocked = false;
	timers_cancel(broker->timers, &broker->auxiliary_idle);
	/* The requests are answered before the news come. */
	amqp_hints_fail(broker->hints);
	amqp_mailbox_fail(broker->mailbox);
	modules_give_up(broker);
	amqp_watches_fail(broker->watches, amqp_reconnector_code(broker->auxiliary));
	amqp_wait_queues_fail(broker->wait_queues);
	FAULT(AUXILIARY_NOT_MADE_ANEW, return );
	/* All requests are answered, but watches, wait queues, owed hints and the inbox remain. */
	if (modules_stay(broker))
		amqp_auxiliary_need(broker);
}

static void
broker_on_blocked(void *ctx, enum broker_link which, bool blocked, const char *why)
{
	struct broker *broker = ctx;

	/* The lock connection never publishes: no alarm stops it. */
	if (which == BROKER_LOCKS)
		return;
	broker->blocked = blocked;
	if (blocked)
		log_warning("the broker accepts no messages: %s", why);
	else
		log_info("the broker accepts messages again");
	amqp_hints_pay(broker->hints);
	amqp_mailbox_send_waiting(broker->mailbox);
}

static void
broker_on_changed(void *ctx, enum broker_link which, enum broker_state state, const char *why)
{
	struct broker *broker = ctx;

	/* broker_take_verdict() tells it. */
	if (which == BROKER_LOCKS && state == BROKER_UP && !broker->ready)
		return;
	if (broker->events.link != NULL)
		broker->events.link(broker->events.ctx, which, state, why);
}

/* ---- operations ---- */

void
broker_set_events(struct broker *broker, const struct broker_events *events)
{
	broker->events = *events;
}

void
broker_start(struct broker *broker)
{
	amqp_reconnector_start(broker->locks);
}

bool
broker_is_tls(const struct broker *broker, enum broker_link link)
{
	return amqp_reconnector_is_tls(broker_reconnector(broker, link));
}

bool
broker_is_still(const struct broker *broker)
{
	return amqp_reconnector_is_still(broker->locks) && broker->exclusion->lock_channel == 0;
}

void
broker_freeze(struct broker *broker, bool frozen)
{
	broker->frozen = frozen;
	if (!frozen)
		amqp_quorum_wake(broker->quorum);
}

int
broker_state_version(const struct broker *broker)
{
	return amqp_quorum_has_state(broker->quorum) || amqp_reconnector_is_tls(broker->locks) ? 2
											       : 1;
}

bool
broker_save(struct broker *broker, struct state_writer *writer)
{
	bool saves = broker->ready && !amqp_reconnector_is_tls(broker->locks);

	return (!saves || amqp_reconnector_save(broker->locks, writer)) &&
	       amqp_quorum_save(broker->quorum, writer);
}

bool
broker_resume(struct broker *broker, struct state_reader *reader)
{
	if (state_is(reader, "link")) {
		/* Its holds go on during the test. */
		broker->ready = true;
		if (!amqp_reconnector_resume(broker->locks, reader))
			return false;
	} else {
		broker_start(broker);
	}
	return amqp_quorum_resume(broker->quorum, reader);
}

size_t
broker_channels_taken(const struct broker *broker)
{
	return amqp_channels_taken(amqp_reconnector_channels(broker->locks)) +
	       amqp_quorum_taken(broker->quorum);
}

bool
broker_restore_channel(struct broker *broker, uint64_t channel, bool consumes)
{
	return amqp_channels_restore_to_hold(
	    amqp_reconnector_channels(broker->locks), channel, consumes);
}

void
broker_flush(struct broker *broker)
{
	if (broker->dialer.flush != NULL)
		broker->dialer.flush(broker->dialer.ctx);
}

void
broker_stop(struct broker *broker)
{
	broker->stopped = true;
	broker->events = (struct broker_events){0};
	timers_cancel(broker->timers, &broker->auxiliary_idle);
	timers_cancel(broker->timers, &broker->auxiliary_wait);
	exclusion_stop(broker->exclusion);
	amqp_quorum_quit(broker->quorum);
	amqp_reconnector_quit(broker->auxiliary);
	amqp_reconnector_quit(broker->locks);
}

void
broker_free(struct broker *broker)
{
	if (broker == NULL)
		return;
	broker_stop(broker);
	modules_free(broker);
	amqp_quorum_free(broker->quorum);
	free(broker->exclusion);
	amqp_reconnector_free(broker->auxiliary);
	amqp_reconnector_free(broker->locks);
	broker->dialer.free(broker->dialer.ctx);
	amqp_settings_done(&broker->settings);
	free(broker->exclusion_why);
	free(broker->cluster);
	free(broker->product);
	free(broker->version);
	free(broker);
}

/* ---- the present state ---- */

int
broker_heartbeat(const struct broker *broker)
{
	const struct amqp_link *link = amqp_reconnector_link(broker->locks);

	return link != NULL ? link->heartbeat : broker->settings.heartbeat;
}

bool
broker_auxiliary_is_up(const struct broker *broker)
{
	return amqp_reconnector_state(broker->auxiliary) == BROKER_UP;
}

bool
broker_takes_messages(const struct broker *broker)
{
	return broker_auxiliary_is_up(broker) && !broker->blocked;
}

void
broker_get_info(const struct broker *broker, struct broker_info *ret)
{
	const struct amqp_link *link = amqp_reconnector_link(broker->locks);
	/* Without a link there is nothing to test. */
	bool tested = link == NULL || broker->ready;

	*ret = (struct broker_info){
	    .locks = tested ? amqp_reconnector_state(broker->locks) : BROKER_DOWN,
	    .auxiliary = amqp_reconnector_state(broker->auxiliary),
	    .probes_refused = amqp_probes_refused(broker->probes),
	    .auxiliary_blocked = broker->blocked,
	    .why = tested ? amqp_reconnector_why(broker->locks)
			  : "connected; the test of exclusive queues is not answered yet",
	    .host = amqp_reconnector_host_text(broker->locks),
	    .host_number = amqp_reconnector_host(broker->locks),
	    .product = broker->product != NULL ? broker->product : "",
	    .version = broker->version != NULL ? broker->version : "",
	    .cluster = broker->cluster != NULL ? broker->cluster : "",
	    .heartbeat = broker_heartbeat(broker),
	    .last_read = link != NULL ? link->last_read : 0,
	    .channels = amqp_channels_open(amqp_reconnector_channels(broker->locks)),
	    .channels_max = amqp_channels_max(amqp_reconnector_channels(broker->locks)),
	    .persistent = broker->persistent,
	    .handover = !broker->settings.in_process && !amqp_reconnector_is_tls(broker->locks),
	    .deletes_by_name =
		link != NULL ? link->server.deletes_by_name : broker->deletes_by_name,
	    .hides_queues = link != NULL ? link->server.hides_queues : broker->hides_queues,
	    .exclusion_tested = broker->exclusion_tested,
	    .exclusion_why = broker->exclusion_why != NULL ? broker->exclusion_why : "",
	    .unfit = broker->unfit,
	};
}

void
broker_get_traffic(const struct broker *broker, enum broker_link link, struct broker_traffic *ret)
{
	const struct amqp_reconnector *reconnector = broker_reconnector(broker, link);

	*ret = (struct broker_traffic){
	    .reconnects = amqp_reconnector_count(reconnector),
	    .round_trips = *amqp_channels_round_trips(amqp_reconnector_channels(reconnector)),
	};
}

/* ---- requests ---- */

uint64_t
broker_channel_take(struct broker *broker, enum broker_link link)
{
	uint64_t channel =
	    amqp_channels_take(amqp_reconnector_channels(broker_reconnector(broker, link)));

	if (link == BROKER_AUXILIARY)
		amqp_auxiliary_need(broker);
	return channel;
}

uint64_t
broker_channel_take_for(struct broker *broker, enum broker_way way)
{
	return way_row(way)->by_beads ? amqp_quorum_take(broker->quorum)
				      : broker_channel_take(broker, BROKER_LOCKS);
}

void
broker_channel_put(struct broker *broker, uint64_t channel)
{
	if (amqp_quorum_has(channel)) {
		amqp_quorum_put(broker->quorum, channel);
		return;
	}
	if (channel & 1)
		amqp_auxiliary_use(broker);
	amqp_channels_put(broker_channels_of(broker, channel), channel);
}

static void
broker_request(struct broker *broker, uint64_t channel, const struct amqp_request *kind,
    const char *queue, struct broker_done done)
{
	amqp_channels_request(broker_channels_of(broker, channel), channel, kind, queue, done);
}

void
broker_claim(struct broker *broker, uint64_t channel, enum broker_way way, const char *queue,
    struct broker_done done)
{
	if (way_row(way)->by_beads)
		amqp_quorum_claim(broker->quorum, channel, queue, done);
	else
		broker_request(broker, channel, way_row(way)->claim, queue, done);
}

void
broker_check(struct broker *broker, uint64_t channel, const char *queue, struct broker_done done)
{
	broker_request(broker, channel, &amqp_request_check, queue, done);
}

void
broker_check_holder(struct broker *broker, uint64_t channel, enum broker_way way, const char *queue,
    struct broker_done done)
{
	if (way_row(way)->by_beads)
		amqp_quorum_check(broker->quorum, channel, done);
	else
		broker_request(broker, channel, way_row(way)->check, queue, done);
}

void
broker_drop(struct broker *broker, uint64_t channel, enum broker_way way, const char *queue,
    bool stopped, struct broker_done done)
{
	if (way_row(way)->by_beads)
		amqp_quorum_drop(broker->quorum, channel, stopped, done);
	else
		broker_request(broker, channel, way_row(way)->drop, queue, done);
}

void
broker_declare_slot(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_done done)
{
	assert(channel & 1);
	broker_request(broker, channel, &amqp_request_declare_slot, queue, done);
}

void
broker_declare_marker(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_done done)
{
	assert(channel & 1);
	broker_request(broker, channel, &amqp_request_declare_marker, queue, done);
}

void
broker_declare_holder(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_done done)
{
	assert(channel & 1);
	broker_request(broker, channel, way_consumer.make, queue, done);
}

void
broker_declare_post(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_done done)
{
	assert(channel & 1);
	broker_request(broker, channel, &amqp_request_declare_post, queue, done);
}

void
broker_delete_slot(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_done done)
{
	assert(channel & 1);
	broker_request(broker, channel, &amqp_request_delete_slot, queue, done);
}

void
broker_delete_holder(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_done done)
{
	assert(channel & 1);
	broker_request(broker, channel, way_consumer.remove, queue, done);
}

void
broker_reset(struct broker *broker, enum broker_link link, const char *why)
{
	struct amqp_reconnector *reconnector = broker_reconnector(broker, link);

	if (amqp_reconnector_state(reconnector) == BROKER_UP)
		amqp_reconnector_drop(reconnector, why);
}

/* ---- life ---- */

static struct amqp_reconnector *
broker_new_reconnector(struct broker *broker, enum broker_link which)
{
	const struct amqp_reconnector_events events = {
	    .vet = broker_on_vet,
	    .blocked = broker_on_blocked,
	    .up = broker_on_up,
	    .down = broker_on_down,
	    .changed = broker_on_changed,
	    .ctx = broker,
	};

	return amqp_reconnector_new(broker, which, &events);
}

struct broker *
broker_new(struct timers *timers, uint64_t seed, const struct amqp_settings *settings,
    const struct amqp_dialer *dialer)
{
	struct broker *broker = mem_alloc(sizeof(*broker));

	assert(settings->host_count > 0);
	broker->timers = timers;
	broker->dialer = *dialer;
	amqp_settings_copy(&broker->settings, settings);
	broker->persistent = !settings->in_process;
	broker->deletes_by_name = broker->hides_queues = true;
	jitter_init(&broker->jitter, seed);
	timer_init(&broker->auxiliary_idle, auxiliary_on_idle, broker, 0);
	timer_init(&broker->auxiliary_wait, auxiliary_on_wait, broker, 0);
	broker->locks = broker_new_reconnector(broker, BROKER_LOCKS);
	broker->auxiliary = broker_new_reconnector(broker, BROKER_AUXILIARY);
	broker->channels = amqp_reconnector_channels(broker->auxiliary);
	broker->quorum = amqp_quorum_new(broker, broker_on_vet);
	modules_new(broker);
	broker->exclusion = mem_alloc(sizeof(*broker->exclusion));
	broker->exclusion->broker = broker;
	timer_init(&broker->exclusion->limit, exclusion_on_limit, broker->exclusion, 0);
	timer_init(&broker->exclusion->again, exclusion_on_again, broker->exclusion, 0);
	return broker;
}

void
broker_set_password(struct broker *broker, size_t host, const char *password)
{
	/* The broker's own copy. */
	struct amqp_host *hosts = (struct amqp_host *)broker->settings.hosts;

	assert(host < broker->settings.host_count);
	hosts[host].password = password;
}

/* ---- for tests and the server in memory ---- */

void
broker_get_counts(const struct broker *broker, enum broker_link link, struct amqp_counts *ret)
{
	*ret = *amqp_reconnector_counts(broker_reconnector(broker, link));
}

const struct amqp_dialer *
broker_dialer(const struct broker *broker)
{
	return &broker->dialer;
}

const struct amqp_channels *
broker_channels(const struct broker *broker, enum broker_link link)
{
	return amqp_reconnector_channels(broker_reconnector(broker, link));
}
