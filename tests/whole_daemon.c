#include "tests/whole_daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <event2/event.h>

#include "daemon/base/mem.h"

static bool
line_came(void *ctx, struct conn *conn, const char *line, size_t len)
{
	struct whole_daemon *daemon = ctx;

	return daemon->handler.line(daemon->handler.ctx, conn, line, len);
}

static void
peer_gone(void *ctx, struct conn *conn)
{
	struct whole_daemon *daemon = ctx;

	if (!daemon->is_replaced)
		daemon->handler.gone(daemon->handler.ctx, conn);
}

static void
peer_left(void *ctx, struct conn *conn)
{
	struct whole_daemon *daemon = ctx;

	if (!daemon->is_replaced)
		daemon->handler.left(daemon->handler.ctx, conn);
}

void
whole_daemon_make(struct whole_daemon *daemon)
{
	const struct conn_handler handler = {
	    .line = line_came, .gone = peer_gone, .left = peer_left, .ctx = daemon};
	const struct dispatch_past past = {.started_at = clock_now(daemon->clock)};
	const struct view_settings looks = {
	    .host = "here", .naming = "amqp-locks", .timeout = NSEC_PER_SEC / 2};
	struct lock_events events;
	struct view_events seen;

	daemon->is_replaced = false;
	daemon->broker = memory_broker_new(daemon->world, 10, daemon->channels_max);
	daemon->dispatch = dispatch_new(daemon->timers, &past, daemon->config);
	daemon->handler = dispatch_peers_handler(daemon->dispatch);
	daemon->peers = peers_new(daemon->base, &handler);
	events = dispatch_lock_events(daemon->dispatch);
	daemon->engine =
	    lock_engine_new(daemon->broker, daemon->timers, 1, &daemon->locks, &events);
	seen = dispatch_view_events(daemon->dispatch);
	daemon->view = view_new(daemon->engine, daemon->broker, daemon->timers, &looks, &seen);
	dispatch_wire(
	    daemon->dispatch, daemon->peers, daemon->engine, daemon->view, daemon->broker);
	peers_set_limits(daemon->peers, daemon->max_requests, &daemon->limits);
}

void
whole_daemon_free(struct whole_daemon *daemon)
{
	peers_free(daemon->peers);
	dispatch_unwire(daemon->dispatch);
	view_free(daemon->view);
	broker_stop(daemon->broker);
	lock_engine_free(daemon->engine);
	dispatch_free(daemon->dispatch);
	broker_free(daemon->broker);
}

void
whole_daemon_begin(struct whole_daemon *daemon, const struct memory_behaviour *behaviour)
{
	daemon->base = event_base_new();
	daemon->timers = timers_new(daemon->clock);
	daemon->world = memory_world_new(daemon->timers, behaviour);
	whole_daemon_make(daemon);
	broker_start(daemon->broker);
}

void
whole_daemon_end(struct whole_daemon *daemon)
{
	whole_daemon_free(daemon);
	memory_world_free(daemon->world);
	timers_free(daemon->timers);
	event_base_free(daemon->base);
}

bool
whole_daemon_settle(const struct whole_daemon *daemon)
{
	for (int i = 0; i < 100000; i++) {
		event_base_loop(daemon->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
		timers_run(daemon->timers);
		peers_visit(daemon->peers);
		if (!peers_are_due(daemon->peers) &&
		    timers_next(daemon->timers) > clock_now(daemon->clock) &&
		    event_base_get_num_events(daemon->base, EVENT_BASE_COUNT_ACTIVE) == 0 && i > 3)
			return true;
	}
	return false;
}

bool
whole_daemon_save(const struct whole_daemon *daemon, struct state_text *ret)
{
	struct state_writer *writer = state_writer_new(lock_state_version(daemon->engine));
	bool saved;

	peers_push(daemon->peers);
	saved = broker_save(daemon->broker, writer);
	lock_save_holds(daemon->engine, writer);
	dispatch_save(daemon->dispatch, writer);
	lock_save_waits(daemon->engine, writer);
	*ret = state_finish(writer);
	return saved;
}

bool
whole_daemon_succeed(
    struct whole_daemon *daemon, const struct state_text *text, char *why, size_t size)
{
	int *fds = mem_alloc((text->socket_count + 1) * sizeof(*fds));
	struct state_reader *reader;
	bool right;

	for (size_t i = 0; i < text->socket_count; i++)
		fds[i] = dup(text->sockets[i]);
	memory_broker_detach(daemon->broker, 0);
	daemon->is_replaced = true;
	whole_daemon_free(daemon);
	whole_daemon_make(daemon);
	reader = state_reader_new(text->text, text->len, fds, text->socket_count);
	right = broker_resume(daemon->broker, reader) &&
		lock_restore_holds(daemon->engine, reader) &&
		dispatch_restore(daemon->dispatch, reader) &&
		lock_restore_waits(daemon->engine, reader) && state_end(reader);
	snprintf(why, size, "%s", right ? "" : state_error(reader));
	if (right)
		dispatch_restored(daemon->dispatch);
	state_reader_free(reader);
	free(fds);
	return right;
}
