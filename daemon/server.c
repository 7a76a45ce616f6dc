#include "daemon/server.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <unistd.h>

#include <event2/event.h>

#include "config.h"
#include "daemon/amqp/tcp.h"
#include "daemon/base/mem.h"
#include "daemon/base/notify.h"
#include "daemon/broker/setup.h"
#include "daemon/memory/memory.h"
#include "daemon/peer/dispatch.h"
#include "daemon/peer/listener.h"
#include "daemon/peer/peers.h"
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

enum { SIGNALS = 3 };

struct server {
	enum server_state state;
	struct config *started;            /* owned; the settings that need a restart */
	struct config *config;             /* owned; the same one until a reload */
	const struct queue_naming *naming; /* owned; as started says */
	size_t descriptors;                /* that the process may have */

	struct event_base *base; /* owned, as all that follow */
	struct event *wake;      /* ends the loop's wait */
	struct event *signals[SIGNALS];
	struct timers *timers;
	struct timer stop; /* while DRAINING, CLEARING */
	int64_t unheld;    /* the same: since when no lock is held; 0: one was when they began */
	struct timer watchdog;      /* while it is wanted */
	struct memory_world *world; /* NULL on RabbitMQ */
	struct broker *broker;
	struct lock_engine *engine;
	struct view *view;
	struct dispatch *dispatch;
	struct peers *peers;
	struct listener *listener;
	bool serves; /* the grace for the first connection to the broker is over */

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

/* ---- the configuration in the words of those whom it is for ---- */

static uint64_t
draw(void)
{
	uint64_t drawn;

	if (getrandom(&drawn, sizeof(drawn), 0) != sizeof(drawn)) {
		log_error("random numbers are not available: %s", strerror(errno));
		abort();
	}
	return drawn;
}

/* The names of queues. The caller owns the result, and frees it after the engine. */
static const struct queue_naming *
naming_of(const struct config *started)
{
	struct template slot, holder;
	char error[TEMPLATE_ERROR_MAX];

	if (strcmp(started->naming, "amqp-locks") == 0)
		return &queue_naming_amqp_locks;
	if (strcmp(started->naming, "amqp-locks-python") == 0)
		return &queue_naming_amqp_locks_python;
	if (!template_parse(started->slot_queue, &slot, error) ||
	    !template_parse(started->holder_queue, &holder, error) ||
	    !template_differ(&slot, &holder))
		abort(); /* the configuration was checked */
	return queue_naming_new(&slot, &holder);
}

static struct lock_settings
lock_settings_of(const struct server *server)
{
	const struct config *config = server->config;

	return (struct lock_settings){
	    .naming = server->naming,
	    .margin = server->started->margin,
	    .claim = strcmp(config->claim, "consumer") == 0 ? BROKER_BY_CONSUMER : BROKER_BY_QUEUE,
	    .max_races = (unsigned)config->max_races,
	    .rescan_interval = config->rescan_interval,
	    .hint_grace = config->hint_grace,
	    .max_local_handoffs = (unsigned)config->max_local_handoffs,
	    .request_timeout = config->request_timeout,
	    .max_locks_per_connection = (size_t)config->max_locks_per_connection,
	    .max_waits_per_connection = (size_t)config->max_waits_per_connection,
	    .channels_reserve = (size_t)config->channels_reserve,
	};
}

/* The limits for all peers of one user. */
static struct account_limits
account_limits_of(const struct config *config)
{
	const size_t mib = 1024 * 1024;

	return (struct account_limits){
	    .most = {[ACCOUNT_PEERS] = (size_t)config->max_connections_per_uid,
		[ACCOUNT_WAITS] = (size_t)config->max_waits_per_uid,
		[ACCOUNT_WATCHES] = (size_t)config->max_watches_per_uid,
		[ACCOUNT_SCANS] = (size_t)config->max_scans_per_uid,
		[ACCOUNT_BYTES] = (size_t)config->max_buffer_per_uid * mib},
	    .all_bytes = (size_t)config->max_buffer * mib,
	};
}

/* RabbitMQ as the configuration has it; NULL and *ret_error (malloc'ed). */
static struct broker *
broker_of(const struct server *server, char **ret_error)
{
	const struct config *config = server->started;
	struct amqp_host *hosts = mem_grow(NULL, config->broker_count, sizeof(*hosts));
	char machine[256] = "?", *name;
	struct amqp_settings settings;
	struct amqp_dialer dialer;
	struct broker *broker = NULL;

	for (size_t i = 0; i < config->broker_count; i++) {
		const struct config_broker *from = &config->brokers[i];

		hosts[i] = (struct amqp_host){
		    .tls = from->tls,
		    .host = from->host,
		    .port = from->port,
		    .vhost = from->vhost,
		    .user = from->user,
		    .password = from->password,
		};
	}
	gethostname(machine, sizeof(machine) - 1);
	name = mem_printf("lockbrokerd %s", machine);
	settings = (struct amqp_settings){
	    .hosts = hosts,
	    .host_count = config->broker_count,
	    .external = strcmp(config->sasl, "external") == 0,
	    .tls_ca = config->tls_ca,
	    .tls_cert = config->tls_cert,
	    .tls_key = config->tls_key,
	    .heartbeat = config->heartbeat,
	    .margin = config->margin,
	    .connect_timeout = config->connect_timeout,
	    .probe_timeout = config->probe_timeout,
	    .auxiliary_idle = config->auxiliary_idle,
	    .name = name,
	};
	if (amqp_tcp_dialer(server->base, &settings, &dialer, ret_error))
		broker = broker_new(server->timers, draw(), &settings, &dialer);
	free(name);
	free(hosts);
	return broker;
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
	timer_in(server, &server->stop, server->config->request_timeout);
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
	const struct lock_settings settings = lock_settings_of(server);
	const struct account_limits limits = account_limits_of(config);

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
server_reload(struct server *server)
{
	struct config_error error;
	struct config *wanted, *old = server->config;

	notify_reloading();
	wanted = config_reload(server->started, &error);
	if (wanted == NULL) {
		log_error("reload: %s; no change was made", error.text);
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

static void
signal_came(evutil_socket_t signo, short what, void *ctx)
{
	struct server *server = ctx;
	const char *name = signo == SIGTERM ? "SIGTERM" : "SIGINT";

	(void)what;
	if (signo == SIGHUP) {
		if (server->state == SERVER_RUNNING)
			server_reload(server);
	} else if (server->state == SERVER_RUNNING) {
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

static bool
server_init_loop(struct server *server)
{
	static const int signals[SIGNALS] = {SIGTERM, SIGINT, SIGHUP};

	signal(SIGPIPE, SIG_IGN);
	server->base = event_base_new();
	if (server->base == NULL)
		return false;
	server->wake = evtimer_new(server->base, wake_came, NULL);
	for (size_t i = 0; i < SIGNALS; i++) {
		server->signals[i] = evsignal_new(server->base, signals[i], signal_came, server);
		if (server->signals[i] == NULL || event_add(server->signals[i], NULL) != 0)
			return false;
	}
	server->timers = timers_new(&clock_boottime);
	timer_init(&server->stop, stop_timer_fired, server, 0);
	timer_init(&server->watchdog, watchdog_fired, server, 0);
	return server->wake != NULL;
}

static bool
server_init_broker(struct server *server, char **ret_error)
{
	const struct config *config = server->started;

	if (!config->memory) {
		server->broker = broker_of(server, ret_error);
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
	uint32_t run = (uint32_t)draw();

	server->naming = naming_of(server->started);
	settings = lock_settings_of(server);
	server->dispatch = dispatch_new(&clock_boottime, run, server->started);
	handler = dispatch_peers_handler(server->dispatch);
	answers = dispatch_lock_events(server->dispatch);
	server->peers = peers_new(server->base, &handler);
	server->engine =
	    lock_engine_new(server->broker, server->timers, draw(), &settings, &answers);
	server->view = view_of(server, run);
	dispatch_wire(
	    server->dispatch, server->peers, server->engine, server->view, server->broker);
	server->listener = listener_new(server->base, server->timers, accepted, server);
	server_apply(server);
}

/*
 * Clients are accepted, and the service manager is told, once the broker is connected, or when the
 * grace is over. Services that are ordered after the daemon can then acquire without a wait.
 */
static void
server_serve(struct server *server)
{
	if (server->serves || server->state != SERVER_RUNNING)
		return;
	if (listener_is_waiting(server->listener) && server->broker_state != BROKER_UP)
		return;
	server->serves = true;
	listener_go_on(server->listener);
	notify_ready();
	if (notify_watchdog_interval() > 0)
		watchdog_fired(server, 0);
}

/* EX_OK when it serves; else the exit status, and the log says why. */
static int
server_start(struct server *server)
{
	const struct listener_address address = {
	    .path = server->started->socket,
	    .mode = server->started->socket_mode,
	    .group = server->started->socket_group,
	};
	char *error = NULL;
	int status = EX_OK;

	set_log(server->started);
	server->descriptors = raise_descriptors();
	if (server->descriptors < PEERS_DESCRIPTORS_MIN) {
		log_error("the limit of %zu descriptors is too low, expected %d or more",
		    server->descriptors, PEERS_DESCRIPTORS_MIN);
		return EX_OSERR;
	}
	if (!server_init_loop(server)) {
		log_error("cannot create the event loop: %s", strerror(errno));
		return EX_OSERR;
	}
	if (!server_init_broker(server, &error))
		status = EX_CONFIG;
	if (status == EX_OK) {
		server_wire(server);
		if (!listener_open(server->listener, &address, &error))
			status = EX_UNAVAILABLE;
	}
	if (status != EX_OK) {
		log_error("%s", error);
		free(error);
		return status;
	}
	broker_start(server->broker);
	server_set_state(server, SERVER_RUNNING);
	if (server->started->file[0] != '\0')
		log_info("lockbrokerd %s serves; configuration %s", PACKAGE_VERSION,
		    server->started->file);
	else
		log_info("lockbrokerd %s serves; configuration %s does not exist", PACKAGE_VERSION,
		    CONFIG_PATH);
	server_tell_broker(server);
	listener_wait(server->listener, server->started->connect_grace);
	return EX_OK;
}

/* Peers go first, while the engine is there to hear of it; then those below, from the top. */
static void
server_done(struct server *server)
{
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
		timers_free(server->timers);
	}
	for (size_t i = 0; i < SIGNALS; i++) {
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
	return peers_are_due(server->peers);
}

int
server_run(struct config *config)
{
	struct server server = {.state = SERVER_STARTING, .started = config, .config = config};
	int status = server_start(&server);
	bool peers_due = false;

	while (status == EX_OK && server.state != SERVER_STOPPED) {
		peers_due = server_pass(&server, peers_due);
		server_check_stopped(&server, peers_due);
	}
	if (status == EX_OK) {
		/* The last notifications, such as `lost`, are still unsent. */
		peers_push(server.peers);
		log_info("stopped");
	}
	server_done(&server);
	return status;
}
