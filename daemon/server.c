#include "daemon/server.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include <event2/event.h>

#include "config.h"
#include "daemon/base/backoff.h"
#include "daemon/base/mem.h"
#include "daemon/base/notify.h"
#include "daemon/broker/setup.h"
#include "daemon/memory/memory.h"
#include "daemon/peer/dispatch.h"
#include "daemon/peer/listener.h"
#include "daemon/peer/peers.h"
#include "daemon/server_record.h"
#include "daemon/server_rehearsal.h"
#include "daemon/server_replacement.h"
#include "daemon/server_settings.h"
#include "daemon/state/state.h"
#include "daemon/successor.h"
#include "daemon/view/view.h"
#include "protocol/duration.h"

/*
 * The loop reads the clock at least this often. libevent's clock stops while the machine sleeps,
 * but deadlines continue.
 */
#define WAIT_MAX NSEC_PER_SEC
/* Channels that memory: has, as many as a RabbitMQ connection has channels. */
#define MEMORY_CHANNELS 2047
/* If the limit is unknown: that of an ordinary process. */
#define DESCRIPTORS_UNKNOWN 1024

/* After the last lock is gone, peers are read for so long: they may have asked before the stop. */
#define LAST_WORDS NSEC_PER_SEC

enum server_state {
	SERVER_STARTING, /* nobody is served yet */
	SERVER_RUNNING,
	SERVER_DRAINING, /* nobody new is let in; holders have the stop timeout to release */
	SERVER_CLEARING, /* the last holds were ended; the broker's answers are missing */
	SERVER_STOPPED   /* the loop ends */
};

struct server {
	enum server_state state;
	struct config *started;            /* owned; the settings that need a restart */
	struct config *config;             /* owned; the same one until a reload */
	const struct queue_naming *naming; /* owned; as started says */
	size_t descriptors;                /* that the process may have */

	struct event_base *base; /* owned, as all that follow */
	struct event *wake;      /* ends the loop's wait */
	struct event *signals[SUCCESSOR_SIGNALS];
	struct timers *timers;
	struct timer stop;  /* while DRAINING, CLEARING */
	struct timer grace; /* while the first connection to the broker is awaited */
	int64_t unheld;     /* the same: since when no lock is held; 0: one was when they began */
	struct timer watchdog;      /* while it is wanted */
	struct memory_world *world; /* NULL on RabbitMQ */
	struct broker *broker;
	struct lock_engine *engine;
	struct view *view;
	struct dispatch *dispatch;
	struct peers *peers;
	struct listener *listener;
	struct replacement *replacement;
	struct dispatch_past past; /* a successor keeps it */
	bool serves;               /* the grace is over */

	enum broker_state broker_state; /* as said last */
	bool was_up;                    /* the broker was connected */
	char *broker_why;               /* owned; NULL = nothing said yet */
};

static const char *
state_name(enum server_state state)
{
	switch (state) {
	case SERVER_STARTING:
		return "starting";
	case SERVER_RUNNING:
		return "running";
	case SERVER_DRAINING:
		return "draining";
	case SERVER_CLEARING:
		return "clearing";
	case SERVER_STOPPED:
		return "stopped";
	}
	return "?";
}

static void
server_set_state(struct server *server, enum server_state state)
{
	assert(state > server->state);
	log_debug("server: %s -> %s", state_name(server->state), state_name(state));
	server->state = state;
}

static void
timer_in(struct server *server, struct timer *timer, int64_t wait)
{
	timers_set(server->timers, timer, clock_now(&clock_boottime) + wait);
}

/* ---- wiring ---- */

static uint64_t
draw(void)
{
	uint64_t drawn;

	random_fill(&drawn, sizeof(drawn));
	return drawn;
}

static struct dispatch_past
first_start(void)
{
	return (struct dispatch_past){.run = (uint32_t)draw(),
	    .started_at = clock_now(&clock_boottime),
	    .started = clock_now(&clock_wall)};
}

/* The view of what the engine holds; `run` is in all ids of this daemon. */
static struct view *
view_of(const struct server *server, uint32_t run)
{
	const struct config *started = server->started;
	const struct view_events listener = dispatch_view_events(server->dispatch);
	/* Daemons see each other when their locks are the same queues. */
	char *naming = started->slot_queue[0] != '\0'
			   ? mem_printf("%s %s", started->slot_queue, started->holder_queue)
			   : mem_strdup(started->naming);
	char host[256] = "";
	const struct view_settings settings = {
	    .run = run, .host = host, .naming = naming, .timeout = started->query_timeout};
	struct view *view;

	if (started->host_name[0] == '\0')
		gethostname(host, sizeof(host) - 1);
	else
		snprintf(host, sizeof(host), "%s", started->host_name);
	if (host[0] == '\0')
		snprintf(host, sizeof(host), "localhost");
	/* As other hosts name it: printable, so that it can stand in any line. */
	for (char *at = host; *at != '\0'; at++) {
		if (*at <= ' ' || *at > '~')
			*at = '?';
	}
	view = view_new(server->engine, server->broker, server->timers, &settings, &listener);
	free(naming);
	return view;
}

/* ---- stopping ---- */

static void
server_clear(struct server *server)
{
	server_set_state(server, SERVER_CLEARING);
	lock_abandon(server->engine);
	peers_push(server->peers); /* holders are told before RabbitMQ is */
	timer_in(server, &server->stop, server->config->request_timeout);
}

/* The requests that waited for the first connection to the broker are handled. */
static void
server_end_grace(struct server *server)
{
	timers_cancel(server->timers, &server->grace);
	dispatch_hold(server->dispatch, false);
	lock_set_grace(server->engine, false);
}

static void
server_drain(struct server *server, const char *signal_name)
{
	int64_t grace = server->config->stop_timeout;
	struct lock_counts counts;

	lock_get_counts(server->engine, &counts);
	log_info("%s: stopping; locks held: %zu; time for their holders: %.0f s", signal_name,
	    counts.holds, duration_to_seconds(grace));
	server_set_state(server, SERVER_DRAINING);
	notify_stopping();
	notify_status("stopping; locks held: %zu", counts.holds);
	listener_close(server->listener);
	dispatch_drain(server->dispatch, grace);
	lock_drain(server->engine);
	server_end_grace(server);
	timer_in(server, &server->stop, grace);
}

static void
stop_timer_fired(void *ctx, uint64_t id)
{
	struct server *server = ctx;
	struct lock_counts counts;

	(void)id;
	lock_get_counts(server->engine, &counts);
	if (server->state == SERVER_DRAINING) {
		log_warning("the stop timeout has passed; locks ended: %zu", counts.holds);
		server_clear(server);
	} else if (server->state == SERVER_CLEARING) {
		log_warning("requests without an answer from the broker: %zu; the broker frees "
			    "their locks when the connection closes",
		    counts.in_flight);
		server_set_state(server, SERVER_STOPPED);
	}
}

/*
 * A second signal: nobody is waited for, closing the connection makes the broker free what is left.
 */
static void
server_stop_at_once(struct server *server, const char *signal_name)
{
	log_info("%s again: stopping at once", signal_name);
	if (server->state == SERVER_DRAINING)
		lock_abandon(server->engine);
	server_set_state(server, SERVER_STOPPED);
}

static void
conn_count_owed(void *ctx, struct conn *conn)
{
	*(size_t *)ctx += conn_is_owed(conn);
}

/* After each pass; peers_due: peers have more to do. */
static void
server_check_stopped(struct server *server, bool peers_due)
{
	struct lock_counts counts;
	size_t owed = 0;
	int64_t now;

	if (server->state != SERVER_DRAINING && server->state != SERVER_CLEARING)
		return;
	now = clock_now(&clock_boottime);
	lock_get_counts(server->engine, &counts);
	if (counts.holds == 0 && server->unheld == 0)
		server->unheld = now;
	/*
	 * Nobody has anything left to release. Peers that go on asking would keep the daemon for
	 * its timeout.
	 */
	if (counts.holds == 0 && now - server->unheld >= LAST_WORDS)
		peers_stop_reading(server->peers);
	if (peers_due || !lock_quiet(server->engine))
		return;
	peers_each(server->peers, conn_count_owed, &owed);
	if (owed == 0 || server->state == SERVER_CLEARING)
		server_set_state(server, SERVER_STOPPED);
}

/* ---- reloading ---- */

static void
say_unreloadable(void *ctx, const char *key)
{
	(void)ctx;
	log_warning("reload: %s changes only at a restart", key);
}

static void
set_log(const struct config *config)
{
	log_set_level(config->log_level);
	log_set_format(strcmp(config->log_format, "json") == 0 ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT);
}

static void
server_apply(struct server *server)
{
	const struct config *config = server->config;
	const struct lock_settings settings =
	    settings_lock(server->config, server->started, server->naming);
	const struct account_limits limits = settings_account(config);

	set_log(config);
	lock_engine_set(server->engine, &settings);
	view_set_timeout(server->view, config->query_timeout);
	dispatch_set_config(server->dispatch, config);
	peers_set_limits(server->peers, (size_t)config->max_requests_per_connection, &limits);
	peers_set_descriptors(server->peers, server->descriptors, config->access);
}

static void
server_take_passwords(struct server *server)
{
	const struct config *started = server->started;

	for (size_t i = 0; i < started->broker_count; i++)
		broker_set_password(server->broker, i, started->brokers[i].password);
	log_info("reload: the next connection to the broker uses the new password");
}

static void
say_unchanged(const char *error)
{
	log_error("reload: %s; no change was made", error);
}

static void
server_reload(struct server *server)
{
	struct config_errors errors;
	struct config *wanted, *old = server->config;

	notify_reloading();
	wanted = config_reload(server->started, &errors);
	if (wanted == NULL) {
		config_errors_each(&errors, say_unchanged);
	} else {
		config_unreloadable(server->started, wanted, say_unreloadable, NULL);
		if (config_take_passwords(server->started, wanted))
			server_take_passwords(server);
		config_forget_passwords(wanted);
		server->config = wanted;
		server_apply(server);
		if (old != server->started)
			config_free(old);
		log_info("reloaded");
	}
	if (server->serves)
		notify_ready();
}

/* ---- the successor ---- */

/* The daemon is not replaced: it reloads its configuration, or stops in order. */
static void
goes_on(void *ctx, const char *restarts)
{
	struct server *server = ctx;

	if (restarts != NULL)
		server_drain(server, restarts);
	else
		server_reload(server);
}

static void
signal_came(evutil_socket_t signo, short what, void *ctx)
{
	struct server *server = ctx;
	const char *name = signo == SIGTERM ? "SIGTERM" : "SIGINT";
	bool replaced = replacement_is_under_way(server->replacement);

	(void)what;
	if (signo == SIGHUP || signo == SIGUSR2) {
		if (server->state != SERVER_RUNNING || replaced)
			return;
		if (signo == SIGHUP)
			server_reload(server);
		else
			replacement_begin(server->replacement, NULL);
	} else if (server->state == SERVER_RUNNING && notify_is_restarted()) {
		if (replaced)
			replacement_restart(server->replacement, name);
		else
			replacement_begin(server->replacement, name);
	} else if (server->state == SERVER_RUNNING) {
		replacement_stop(server->replacement);
		server_drain(server, name);
	} else if (server->state != SERVER_STOPPED) {
		server_stop_at_once(server, name);
	}
}

/* ---- telling ---- */

static void
watchdog_fired(void *ctx, uint64_t id)
{
	struct server *server = ctx;

	(void)id;
	notify_watchdog();
	timer_in(server, &server->watchdog, notify_watchdog_interval());
}

/*
 * Tells the service manager how the broker is, when that has changed; the log has it from the
 * broker.
 */
static void
server_tell_broker(struct server *server)
{
	struct broker_info info;

	broker_get_info(server->broker, &info);
	if (server->broker_why != NULL && info.locks == server->broker_state &&
	    strcmp(server->broker_why, info.why) == 0)
		return;
	server->broker_state = info.locks;
	free(server->broker_why);
	server->broker_why = mem_strdup(info.why);
	switch (info.locks) {
	case BROKER_UP:
		if (!server->was_up)
			view_begin(server->view);
		server->was_up = true;
		notify_status("broker up: %s, %s %s", info.host, info.product, info.version);
		break;
	case BROKER_DOWN:
		notify_status("broker down: %s", info.why[0] != '\0' ? info.why : "connecting");
		break;
	case BROKER_LOGIN_REFUSED:
		notify_status("the broker refuses the daemon: %s", info.why);
		break;
	}
}

/* ---- starting ---- */

static void
wake_came(evutil_socket_t fd, short what, void *ctx)
{
	(void)fd;
	(void)what;
	(void)ctx;
}

static void
accepted(void *ctx, int fd)
{
	struct server *server = ctx;

	peers_add(server->peers, fd);
}

/*
 * The limit is 1 instead of 0. With 0 the kernel still pipes a dump to a program (core(5)). With 1
 * it makes no dump (do_coredump() in fs/coredump.c of Linux). The hard limit stays, so that an
 * administrator can raise the soft one.
 */
void
server_limit_core(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_CORE, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max > 0 ? 1 : 0;
	(void)setrlimit(RLIMIT_CORE, &limit);
}

/* Every peer is a descriptor: as many as the administrator allows. Returns how many. */
static size_t
raise_descriptors(void)
{
	struct rlimit limit, raised;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
		log_warning("the limit of descriptors is unknown, assuming %d: %s",
		    DESCRIPTORS_UNKNOWN, strerror(errno));
		return DESCRIPTORS_UNKNOWN;
	}
	raised = limit;
	raised.rlim_cur = limit.rlim_max;
	if (limit.rlim_cur == limit.rlim_max)
		return limit.rlim_cur;
	if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
		return raised.rlim_cur;
	log_warning("cannot raise the limit of %ju descriptors: %s", (uintmax_t)limit.rlim_cur,
	    strerror(errno));
	return limit.rlim_cur;
}

/* server_serve() looks whether it is over. */
static void
grace_over(void *ctx, uint64_t id)
{
	(void)ctx;
	(void)id;
}

static bool
server_init_loop(struct server *server)
{
	log_flush_at_crashes();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL); /* its parent may have ignored it */
	server->base = event_base_new();
	if (server->base == NULL)
		return false;
	server->wake = evtimer_new(server->base, wake_came, NULL);
	for (size_t i = 0; i < SUCCESSOR_SIGNALS; i++) {
		server->signals[i] =
		    evsignal_new(server->base, successor_signals[i], signal_came, server);
		if (server->signals[i] == NULL || event_add(server->signals[i], NULL) != 0)
			return false;
	}
	successor_hold_signals(false);
	server->timers = timers_new(&clock_boottime);
	timer_init(&server->stop, stop_timer_fired, server, 0);
	timer_init(&server->watchdog, watchdog_fired, server, 0);
	timer_init(&server->grace, grace_over, server, 0);
	return server->wake != NULL;
}

static bool
server_init_broker(struct server *server, char **ret_error)
{
	const struct config *config = server->started;

	if (!config->memory) {
		server->broker =
		    settings_broker(config, server->base, server->timers, draw(), ret_error);
		return server->broker != NULL;
	}
	log_info("the broker is memory: the locks are for this daemon alone, and end with it");
	server->world = memory_world_new(server->timers, NULL);
	server->broker = memory_broker_new(server->world, config->heartbeat, MEMORY_CHANNELS);
	return true;
}

static void
server_wire(struct server *server)
{
	struct lock_settings settings;
	struct conn_handler handler;
	struct lock_events answers;

	server->naming = settings_naming(server->started);
	settings = settings_lock(server->config, server->started, server->naming);
	server->dispatch = dispatch_new(server->timers, &server->past, server->started);
	handler = dispatch_peers_handler(server->dispatch);
	answers = dispatch_lock_events(server->dispatch);
	server->peers = peers_new(server->base, &handler);
	server->engine =
	    lock_engine_new(server->broker, server->timers, draw(), &settings, &answers);
	server->view = view_of(server, server->past.run);
	dispatch_wire(
	    server->dispatch, server->peers, server->engine, server->view, server->broker);
	server->listener = listener_new(server->base, server->timers, accepted, server);
	server->replacement =
	    replacement_new(&(struct replacement_config){.started = server->started,
		.past = &server->past,
		.base = server->base,
		.timers = server->timers,
		.broker = server->broker,
		.engine = server->engine,
		.dispatch = server->dispatch,
		.peers = server->peers,
		.listener = server->listener,
		.goes_on = goes_on,
		.ctx = server});
	server_apply(server);
}

/*
 * Requests that need the broker are handled, and the service manager is told, once the broker is
 * connected, or when the grace is over. Services that are ordered after the daemon can then acquire
 * without a wait. Time does not help against a refused login.
 */
static void
server_serve(struct server *server)
{
	if (server->serves || server->state != SERVER_RUNNING)
		return;
	if (timer_is_set(&server->grace) &&
	    (server->broker_state == BROKER_DOWN || !broker_tried_all(server->broker)))
		return;
	server->serves = true;
	server_end_grace(server);
	notify_ready();
	if (notify_watchdog_interval() > 0)
		watchdog_fired(server, 0);
}

/* Accepts clients at the address, and begins to connect. False and *ret_error. */
static bool
server_begin(struct server *server, char **ret_error)
{
	const struct listener_address address = {
	    .path = server->started->socket,
	    .mode = server->started->socket_mode,
	    .group = server->started->socket_group,
	};

	if (!listener_open(server->listener, &address, ret_error))
		return false;
	broker_start(server->broker);
	return true;
}

/* Goes on where an earlier program stopped. False and *ret_error. */
static bool
server_resume(struct server *server, struct state_reader *reader,
    const struct daemon_record *record, char **ret_error)
{
	const struct listener_file file = {.path = (char *)record->file,
	    .device = (dev_t)record->file_device,
	    .inode = (ino_t)record->file_inode};

	if (record->listener < 0) {
		*ret_error = mem_strdup("the socket for clients did not arrive");
		return false;
	}
	if (!listener_restore(server->listener, record->listener, &file, ret_error))
		return false;
	if (!broker_resume(server->broker, reader) || !lock_restore_holds(server->engine, reader) ||
	    !dispatch_restore(server->dispatch, reader) ||
	    !lock_restore_waits(server->engine, reader) || !state_end(reader)) {
		*ret_error = mem_strdup(state_error(reader));
		return false;
	}
	dispatch_restored(server->dispatch);
	return true;
}

/*
 * EX_OK when it serves; else the exit status, and the log says why. reader: the state of an earlier
 * program. past: its own record. NULL: an ordinary start.
 */
static int
server_start(struct server *server, struct state_reader *reader, const struct daemon_record *past)
{
	char *error = NULL;
	int status = EX_OK;

	set_log(server->started);
	if (server->descriptors < PEERS_DESCRIPTORS_MIN) {
		log_error("the limit of %zu descriptors is too low, expected %d or more",
		    server->descriptors, PEERS_DESCRIPTORS_MIN);
		return EX_OSERR;
	}
	if (!server_init_loop(server)) {
		log_error("cannot create the event loop: %s", strerror(errno));
		return EX_OSERR;
	}
	server->past = reader != NULL ? daemon_record_past(past) : first_start();
	if (!server_init_broker(server, &error))
		status = EX_CONFIG;
	if (status == EX_OK) {
		server_wire(server);
		if (reader != NULL ? !server_resume(server, reader, past, &error)
				   : !server_begin(server, &error))
			status = EX_UNAVAILABLE;
	}
	if (status != EX_OK) {
		log_error("%s", error);
		free(error);
		return status;
	}
	server_set_state(server, SERVER_RUNNING);
	if (reader != NULL)
		log_info("lockbrokerd %s has taken over from %s: %zu clients, a pause of %.0f ms",
		    PACKAGE_VERSION, state_writer_version(reader), peers_count(server->peers),
		    (double)(clock_now(&clock_boottime) - past->frozen_since) / NSEC_PER_MSEC);
	else if (server->started->file[0] != '\0')
		log_info("lockbrokerd %s serves; configuration %s", PACKAGE_VERSION,
		    server->started->file);
	else
		log_info("lockbrokerd %s serves; configuration %s does not exist", PACKAGE_VERSION,
		    CONFIG_PATH);
	server_tell_broker(server);
	if (reader == NULL) {
		dispatch_hold(server->dispatch, true);
		lock_set_grace(server->engine, true);
		timer_in(server, &server->grace, server->started->connect_grace);
	}
	return EX_OK;
}

/* Peers go first, while the engine is there to hear of it; then those below, from the top. */
static void
server_done(struct server *server)
{
	replacement_free(server->replacement);
	listener_free(server->listener);
	peers_free(server->peers);
	if (server->dispatch != NULL)
		dispatch_unwire(server->dispatch);
	view_free(server->view);
	if (server->broker != NULL)
		broker_stop(server->broker);
	lock_engine_free(server->engine);
	queue_naming_free(server->naming);
	dispatch_free(server->dispatch);
	broker_free(server->broker);
	memory_world_free(server->world);
	if (server->timers != NULL) {
		timers_cancel(server->timers, &server->stop);
		timers_cancel(server->timers, &server->watchdog);
		timers_cancel(server->timers, &server->grace);
		timers_free(server->timers);
	}
	for (size_t i = 0; i < SUCCESSOR_SIGNALS; i++) {
		if (server->signals[i] != NULL)
			event_free(server->signals[i]);
	}
	if (server->wake != NULL)
		event_free(server->wake);
	if (server->base != NULL)
		event_base_free(server->base);
	free(server->broker_why);
	if (server->config != server->started)
		config_free(server->config);
	config_free(server->started);
}

/* ---- running ---- */

/*
 * One pass: waits for what comes first, unless peers are due. Returns whether peers are due again.
 */
static bool
server_pass(struct server *server, bool peers_due)
{
	int64_t wait = timers_next(server->timers);
	struct timeval tv;

	log_collect();
	wait = wait == INT64_MAX ? WAIT_MAX : wait - clock_now(&clock_boottime);
	if (wait > WAIT_MAX)
		wait = WAIT_MAX;
	if (peers_due || wait <= 0) {
		event_base_loop(server->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	} else {
		tv.tv_sec = wait / NSEC_PER_SEC;
		tv.tv_usec = (wait % NSEC_PER_SEC + 999) / 1000;
		evtimer_add(server->wake, &tv);
		event_base_loop(server->base, EVLOOP_ONCE);
	}
	timers_run(server->timers);
	peers_visit(server->peers);
	/* The waiters that came are served at once, and peers get their answers before the broker. */
	timers_run(server->timers);
	broker_flush(server->broker);
	server_tell_broker(server);
	server_serve(server);
	/* Nobody waits for the log while it is written. */
	log_flush();
	return peers_are_due(server->peers);
}

/*
 * The state cannot be used. Its sockets are closed: the broker frees the slots, and clients see the
 * end of their connections. owns_socket: the listening socket is not one of the service manager's.
 * Returns the exit status if the service manager starts the daemon again.
 */
static int
give_up_state(const struct state_text *text, bool owns_socket, const char *why)
{
	log_error("all locks of the earlier program end: %s", why);
	if (text->sockets == NULL && owns_socket)
		successor_start_anew();
	return EX_TEMPFAIL;
}

/*
 * Serves until a signal stops it. Returns the exit status. reader: of the state of an earlier
 * program; NULL: there was none.
 */
static int
serve(struct config *config, const struct state_text *text, struct state_reader *reader,
    const struct daemon_record *past, size_t descriptors)
{
	struct server server = {.state = SERVER_STARTING,
	    .started = config,
	    .config = config,
	    .descriptors = descriptors};
	bool peers_due = false, owns_socket = past->file != NULL;
	int status = server_start(&server, reader, past);

	if (reader != NULL && status != EX_OK)
		status = give_up_state(text, owns_socket, "see above");
	while (status == EX_OK && server.state != SERVER_STOPPED) {
		peers_due = server_pass(&server, peers_due);
		replacement_check(server.replacement);
		server_check_stopped(&server, peers_due);
	}
	if (status == EX_OK) {
		/* The last notifications, such as `lost`, are still unsent. */
		peers_push(server.peers);
		log_info("stopped");
	} else {
		listener_turn_away();
	}
	server_done(&server);
	return status;
}

void
server_turn_away(void)
{
	struct state_text text;

	(void)successor_role(&text);
	for (size_t i = 0; i < text.socket_count; i++)
		close(text.sockets[i]);
	state_text_done(&text);
	listener_turn_away();
}

int
server_run(struct config *config)
{
	/* Before the sockets of a state arrive. */
	size_t descriptors = raise_descriptors();
	struct state_text text;
	enum successor_role role = successor_role(&text);
	struct state_reader *reader = NULL;
	struct daemon_record past = {0};
	const char *why = NULL;
	int status;

	successor_remember(config->args);
	if (role == SUCCESSOR_TAKES_OVER) {
		reader = state_reader_new(text.text, text.len, text.sockets, text.socket_count);
		why = daemon_record_take(config, reader, &past);
	}
	if (role == SUCCESSOR_REHEARSES) {
		status = server_rehearse(config, &text);
		config_free(config);
	} else if (why != NULL) {
		/* Without the record its owner is unknown, and taken for this daemon. */
		status =
		    give_up_state(&text, past.file != NULL || state_error(reader) != NULL, why);
		config_free(config);
	} else {
		status = serve(config, &text, reader, &past, descriptors);
	}
	state_reader_free(reader);
	state_text_done(&text);
	return status;
}
