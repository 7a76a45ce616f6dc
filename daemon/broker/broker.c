#include "daemon/broker/broker.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/broker/auxiliary.h"
#include "daemon/broker/channel.h"
#include "daemon/broker/count.h"
#include "daemon/broker/directory.h"
#include "daemon/broker/exclusion.h"
#include "daemon/broker/hint.h"
#include "daemon/broker/internal.h"
#include "daemon/broker/mailbox.h"
#include "daemon/broker/make.h"
#include "daemon/broker/probe.h"
#include "daemon/broker/quorum.h"
#include "daemon/broker/reconnector.h"
#include "daemon/broker/records.h"
#include "daemon/broker/setup.h"
#include "daemon/broker/wait_queue.h"
#include "daemon/broker/watch.h"
#include "daemon/broker/way.h"
#include "daemon/state/state.h"

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
	broker->probes = amqp_probes_new(
	    broker->timers, broker->channels, broker->counters, broker->settings.probe_timeout);
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
	       amqp_hints_any(broker->hints) || amqp_mailbox_any(broker->mailbox);
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
	amqp_probes_go(broker->probes);
	amqp_directory_go(broker->directory);
	amqp_watches_go(broker->watches);
	amqp_wait_queues_go(broker->wait_queues);
	amqp_hints_go(broker->hints);
	amqp_counters_go(broker->counters);
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

/* The link ended. The requests are answered before the news come. */
static void
modules_fail(struct broker *broker)
{
	amqp_hints_fail(broker->hints);
	amqp_mailbox_fail(broker->mailbox);
	modules_give_up(broker);
	amqp_watches_fail(broker->watches, amqp_reconnector_code(broker->auxiliary));
	amqp_wait_queues_fail(broker->wait_queues);
}

/* ---- the auxiliary connection, on demand ---- */

static void
on_auxiliary_wait(void *ctx, uint64_t id)
{
	struct broker *broker = ctx;

	(void)id;
	if (!amqp_reconnector_is_idle(broker->auxiliary))
		return;
	amqp_channels_fail(broker->channels);
	modules_give_up(broker);
}

static void
on_auxiliary_idle(void *ctx, uint64_t id)
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

/* ---- the reconnectors' events ---- */

/*
 * If the hosts were not one cluster, one slot could be granted twice. Clusters differ only in this
 * name among the server's properties. By default each node makes the name up from its own (RabbitMQ
 * 3.10.8).
 */
static char *
on_vet(void *ctx, const struct amqp_server *server)
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

/* NULL: the login is by certificate, and only the broker knows the user. */
static const char *
auxiliary_user(const struct broker *broker)
{
	const struct amqp_settings *settings = &broker->settings;

	return settings->external ? NULL
				  : settings->hosts[amqp_reconnector_host(broker->auxiliary)].user;
}

/* From now on others use the lock connection. */
static void
broker_set_ready(struct broker *broker)
{
	if (broker->ready)
		return;
	broker->ready = true;
	if (broker->events.link != NULL)
		broker->events.link(broker->events.ctx, BROKER_LOCKS, BROKER_UP, "");
}

/* If the auxiliary connection waits for a verdict, it does not any longer. */
static void
auxiliary_let_go(struct broker *broker)
{
	if (!broker->auxiliary_waits)
		return;
	broker->auxiliary_waits = false;
	modules_go(broker, auxiliary_user(broker));
}

static void
on_verdict(void *ctx, enum amqp_exclusion_verdict verdict, const char *why)
{
	struct broker *broker = ctx;

	broker->exclusion_tested = verdict == AMQP_EXCLUSION_KEPT;
	free(broker->exclusion_why);
	broker->exclusion_why = mem_strdup(why);
	if (verdict == AMQP_EXCLUSION_BROKEN) {
		broker->unfit = true;
		amqp_reconnector_drop(broker->locks, why);
		return;
	}
	if (verdict == AMQP_EXCLUSION_NOT_TESTED)
		log_warning("exclusive queues of the broker are not tested: %s", why);
	broker_set_ready(broker);
	auxiliary_let_go(broker);
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
		amqp_exclusion_begin(broker->exclusion);
	broker->ready |= !tests;
	FAULT(READY_BEFORE_VERDICT, broker->ready = true);
	if (auxiliary_in_use(broker) || tests)
		amqp_auxiliary_need(broker);
}

static void
on_up(void *ctx, enum broker_link which)
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
	if (!amqp_exclusion_go(broker->exclusion))
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
on_down(void *ctx, enum broker_link which)
{
	struct broker *broker = ctx;

	if (which == BROKER_LOCKS) {
		broker->ready = broker->exclusion_tested = broker->test_due = false;
		amqp_exclusion_stop(broker->exclusion);
		auxiliary_let_go(broker);
		locks_down(broker);
		return;
	}
	broker->auxiliary_waits = false;
	if (broker->test_due) {
		broker->test_due = false;
		if (broker->settings.exclusion_timeout != 0) {
			amqp_exclusion_begin(broker->exclusion);
			amqp_auxiliary_need(broker);
		}
	} else {
		amqp_exclusion_fail(broker->exclusion, amqp_reconnector_why(broker->auxiliary));
	}
	broker->blocked = false;
	timers_cancel(broker->timers, &broker->auxiliary_idle);
	modules_fail(broker);
	FAULT(AUXILIARY_NOT_MADE_ANEW, return );
	/* All requests are answered, but watches, wait queues, owed hints and the inbox remain. */
	if (modules_stay(broker))
		amqp_auxiliary_need(broker);
}

static void
on_blocked(void *ctx, enum broker_link which, bool blocked, const char *why)
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
	amqp_hints_go(broker->hints);
	amqp_mailbox_go_on(broker->mailbox);
}

static void
on_changed(void *ctx, enum broker_link which, enum broker_state state, const char *why)
{
	struct broker *broker = ctx;

	/* broker_set_ready() tells it. */
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
	return amqp_reconnector_is_still(broker->locks) &&
	       !amqp_exclusion_is_running(broker->exclusion);
}

bool
broker_tried_all(const struct broker *broker)
{
	return amqp_reconnector_tried_all(broker->locks);
}

bool
broker_owes_hints(const struct broker *broker)
{
	return amqp_hints_any(broker->hints);
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
broker_quorum_is_still(const struct broker *broker)
{
	return amqp_quorum_is_still(broker->quorum);
}

bool
broker_quorum_is_idle(const struct broker *broker)
{
	return amqp_quorum_is_idle(broker->quorum);
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

bool
broker_restore_hold(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_reply *ret_proof)
{
	return amqp_quorum_restore_hold(broker->quorum, channel, queue, ret_proof);
}

bool
broker_restore_grace(struct broker *broker, uint64_t channel, const char *queue,
    struct broker_done claimed, int64_t *ret_until)
{
	return amqp_quorum_restore_grace(broker->quorum, channel, queue, claimed, ret_until);
}

bool
broker_in_grace(const struct broker *broker, uint64_t channel)
{
	return amqp_quorum_in_grace(broker->quorum, channel);
}

bool
broker_await_proof(struct broker *broker, uint64_t channel, struct broker_done done)
{
	return amqp_quorum_await(broker->quorum, channel, done);
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
	amqp_exclusion_stop(broker->exclusion);
	amqp_probes_silence(broker->probes);
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
	amqp_exclusion_free(broker->exclusion);
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
broker_get_quorum(const struct broker *broker, struct broker_quorum_info *ret)
{
	amqp_quorum_get(broker->quorum, ret);
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
broker_holder_stopped(struct broker *broker, uint64_t channel)
{
	amqp_quorum_stopped(broker->quorum, channel);
}

size_t
broker_reclaims(const struct broker *broker)
{
	return amqp_quorum_fresh(broker->quorum);
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
broker_probe(struct broker *broker, const struct broker_question *questions, size_t count,
    struct broker_probe_done done)
{
	amqp_probes_ask(broker->probes, questions, count, broker->blocked, done);
	amqp_auxiliary_need(broker);
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
	    .vet = on_vet,
	    .blocked = on_blocked,
	    .up = on_up,
	    .down = on_down,
	    .changed = on_changed,
	    .ctx = broker,
	};

	return amqp_reconnector_new(broker, which, &events);
}

static void
broker_init_exclusion(struct broker *broker)
{
	const struct amqp_exclusion_config config = {
	    .timers = broker->timers,
	    .locks = amqp_reconnector_channels(broker->locks),
	    .auxiliary = broker->channels,
	    .jitter = &broker->jitter,
	    .replays = broker->settings.replays,
	    .timeout = broker->settings.exclusion_timeout,
	    .verdict = on_verdict,
	    .ctx = broker,
	};

	broker->exclusion = amqp_exclusion_new(&config);
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
	timer_init(&broker->auxiliary_idle, on_auxiliary_idle, broker, 0);
	timer_init(&broker->auxiliary_wait, on_auxiliary_wait, broker, 0);
	broker->locks = broker_new_reconnector(broker, BROKER_LOCKS);
	broker->auxiliary = broker_new_reconnector(broker, BROKER_AUXILIARY);
	broker->channels = amqp_reconnector_channels(broker->auxiliary);
	broker->quorum = amqp_quorum_new(broker, on_vet);
	modules_new(broker);
	broker_init_exclusion(broker);
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

/* ---- for tests, metrics and the server in memory ---- */

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
