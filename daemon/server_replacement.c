#include "daemon/server_replacement.h"

#include <assert.h>
#include <stdlib.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/base/notify.h"
#include "daemon/broker/setup.h"
#include "daemon/peer/dispatch.h"
#include "daemon/peer/listener.h"
#include "daemon/server_record.h"
#include "daemon/successor.h"

/* Frozen, the daemon waits so long for all requests; then for those on the lock connection alone. */
#define FROZEN_FOR_REQUESTS (1 * NSEC_PER_SEC)
#define FROZEN_MOST (2 * NSEC_PER_SEC)

enum replacement_state {
	REPLACEMENT_NONE,
	REPLACEMENT_REHEARSING, /* the new program is being tried */
	REPLACEMENT_FROZEN      /* nothing begins, and requests in flight end */
};

struct replacement {
	struct replacement_config config;
	enum replacement_state state;
	const char *restarts; /* see replacement_config */
	struct successor *successor;
	int version; /* of the state that is rehearsed */
	int64_t frozen_since;
	bool settled;      /* FROZEN: signals that came before have been handled */
	struct timer wake; /* FROZEN: the loop makes a pass by then */
};

static int64_t
now(const struct replacement *replacement)
{
	return clock_now(timers_clock(replacement->config.timers));
}

static void
replacement_set_state(struct replacement *replacement, enum replacement_state state)
{
	assert(state == REPLACEMENT_NONE || state == replacement->state + 1);
	replacement->state = state;
}

/* The part of the state that the rehearsal reads. */
static struct state_writer *
begin_state(const struct replacement *replacement)
{
	const struct replacement_config *parts = &replacement->config;
	const struct config *started = parts->started;
	struct state_writer *writer = state_writer_new(lock_state_version(parts->engine));
	const struct config_broker *broker;
	struct broker_info info;
	struct listener_file file;
	struct daemon_record record = {
	    .run = parts->past->run,
	    .started_at = parts->past->started_at,
	    .started = parts->past->started,
	    .takeovers = parts->past->takeovers + 1,
	    .frozen_since = replacement->frozen_since,
	    .naming = started->naming,
	    .slot_queue = started->slot_queue,
	    .holder_queue = started->holder_queue,
	    .socket = started->socket,
	    .margin = started->margin,
	    .listener = listener_save(parts->listener, &file),
	    .file = file.path,
	    .file_device = (uint64_t)file.device,
	    .file_inode = (uint64_t)file.inode,
	};

	broker_get_info(parts->broker, &info);
	broker = &started->brokers[info.host_number];
	record.broker = broker->host;
	record.port = broker->port;
	record.vhost = broker->vhost;
	record.user = broker->user;
	daemon_record_put(&record, started, parts->broker, writer);
	return writer;
}

/* The daemon is still. False: its lock connection cannot be handed over. */
static bool
save(const struct replacement *replacement, struct state_text *ret)
{
	const struct replacement_config *parts = &replacement->config;
	struct state_writer *writer = begin_state(replacement);
	bool saved = broker_save(parts->broker, writer);

	if (saved) {
		lock_save_holds(parts->engine, writer);
		dispatch_save(parts->dispatch, writer);
		lock_save_waits(parts->engine, writer);
	}
	*ret = state_finish(writer);
	return saved;
}

/* Why the daemon cannot be replaced; NULL: it can. */
static const char *
hindrance(const struct replacement *replacement)
{
	struct broker_info info;

	broker_get_info(replacement->config.broker, &info);
	if (replacement->config.started->memory)
		return "the locks are in the memory of this process";
	if (!info.handover && lock_needs_link(replacement->config.engine))
		return "the connection to the broker uses TLS, and not all locks are held by "
		       "quorum";
	return NULL;
}

void
replacement_stop(struct replacement *replacement)
{
	const struct replacement_config *parts = &replacement->config;

	if (replacement->state == REPLACEMENT_FROZEN) {
		timers_cancel(parts->timers, &replacement->wake);
		lock_freeze(parts->engine, false);
		peers_pause(parts->peers, false);
		successor_hold_signals(false);
	}
	replacement_set_state(replacement, REPLACEMENT_NONE);
}

static void
give_up(struct replacement *replacement, const char *why)
{
	if (replacement->restarts != NULL)
		log_warning("the next daemon cannot take over the locks: %s", why);
	else
		log_error("this program goes on, and is not replaced: %s", why);
	replacement_stop(replacement);
	replacement->config.goes_on(replacement->config.ctx, replacement->restarts);
}

static void
wake(void *ctx, uint64_t id)
{
	(void)ctx;
	(void)id;
}

static void
rehearse(struct replacement *replacement)
{
	struct state_text text = state_finish(begin_state(replacement));

	replacement->version = lock_state_version(replacement->config.engine);
	successor_rehearse(replacement->successor, &text);
	state_text_done(&text);
}

static void
rehearsed(void *ctx, const char *why)
{
	struct replacement *replacement = ctx;

	if (replacement->state != REPLACEMENT_REHEARSING)
		return;
	if (why == NULL)
		why = hindrance(replacement);
	if (why != NULL) {
		give_up(replacement, why);
		return;
	}
	/* Something by quorum, or an eviction, has begun meanwhile. The new program may not know it. */
	if (lock_state_version(replacement->config.engine) > replacement->version) {
		rehearse(replacement);
		return;
	}
	replacement_set_state(replacement, REPLACEMENT_FROZEN);
	replacement->frozen_since = now(replacement);
	replacement->settled = false;
	successor_hold_signals(true);
	peers_pause(replacement->config.peers, true);
	lock_freeze(replacement->config.engine, true);
	timers_set(replacement->config.timers, &replacement->wake, replacement->frozen_since);
}

void
replacement_begin(struct replacement *replacement, const char *restarts)
{
	const char *why = hindrance(replacement);

	log_info("%s: the program is to be replaced, without the loss of a lock",
	    restarts != NULL ? restarts : "SIGUSR2");
	replacement->restarts = restarts;
	if (restarts == NULL)
		notify_reloading();
	if (why != NULL) {
		give_up(replacement, why);
		return;
	}
	replacement_set_state(replacement, REPLACEMENT_REHEARSING);
	rehearse(replacement);
}

void
replacement_restart(struct replacement *replacement, const char *restarts)
{
	assert(replacement->state != REPLACEMENT_NONE);
	replacement->restarts = restarts;
}

bool
replacement_is_under_way(const struct replacement *replacement)
{
	return replacement->state != REPLACEMENT_NONE;
}

/* Returns only if the daemon goes on. */
static void
hand_over(struct replacement *replacement)
{
	const struct peers *peers = replacement->config.peers;
	struct state_text text;
	char *why;

	/* Other daemons are heard while this one is frozen. */
	if (lock_state_version(replacement->config.engine) > replacement->version) {
		give_up(replacement, "an eviction has begun, which the new program may not know");
		return;
	}
	peers_push(replacement->config.peers);
	if (!save(replacement, &text)) {
		why = mem_strdup("the connection to the broker cannot be handed over");
	} else if (replacement->restarts == NULL) {
		log_info("the program is replaced: %zu clients", peers_count(peers));
		why = successor_exec(&text);
	} else if (successor_store(&text)) {
		/* Nothing may be closed in order: the sockets live on. */
		log_info("the next daemon will take over: %zu clients", peers_count(peers));
		_exit(EX_OK);
	} else {
		why = mem_strdup("the service manager does not keep the state");
	}
	state_text_done(&text);
	give_up(replacement, why);
	free(why);
}

void
replacement_check(struct replacement *replacement)
{
	const struct lock_engine *engine = replacement->config.engine;
	int64_t frozen, next;

	if (replacement->state != REPLACEMENT_FROZEN)
		return;
	frozen = now(replacement) - replacement->frozen_since;
	if (replacement->settled && lock_is_still(engine) &&
	    (frozen >= FROZEN_FOR_REQUESTS || lock_is_idle(engine))) {
		hand_over(replacement);
		return;
	}
	if (frozen >= FROZEN_MOST) {
		give_up(replacement, "the broker did not answer within 2 s");
		return;
	}
	next = frozen < FROZEN_FOR_REQUESTS ? FROZEN_FOR_REQUESTS : FROZEN_MOST;
	timers_set(replacement->config.timers, &replacement->wake,
	    replacement->frozen_since + (replacement->settled ? next : 0));
	replacement->settled = true;
}

struct replacement *
replacement_new(const struct replacement_config *config)
{
	struct replacement *replacement = mem_alloc(sizeof(*replacement));

	replacement->config = *config;
	replacement->successor =
	    successor_new(config->base, config->timers, rehearsed, replacement);
	timer_init(&replacement->wake, wake, replacement, 0);
	return replacement;
}

void
replacement_free(struct replacement *replacement)
{
	if (replacement == NULL)
		return;
	successor_free(replacement->successor);
	timers_cancel(replacement->config.timers, &replacement->wake);
	free(replacement);
}
