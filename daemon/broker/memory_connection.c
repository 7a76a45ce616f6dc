#include "daemon/broker/memory_connection.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/memory_connection_inside.h"
#include "daemon/broker/memory_post.h"
#include "daemon/broker/memory_probe.h"

/* ---- requests ---- */

static void
request_free(struct request *request)
{
	timers_cancel(timers_of(request->connection), &request->perform);
	timers_cancel(request->connection->client, &request->answer);
	TAILQ_REMOVE(&request->connection->requests, request, of_connection);
	if (request->lane != NULL)
		TAILQ_REMOVE(&request->lane->requests, request, of_lane);
	memory_probe_free(request->probe);
	name_list_done(&request->verdict.names);
	free(request->queue);
	free(request->name);
	free(request);
}

static void
lane_set_state(struct lane *lane, enum lane_state state)
{
	assert(state > lane->state);
	if (lane->state < LANE_CLOSED && state >= LANE_CLOSED)
		lane->connection->usable--;
	if (lane->state == LANE_OPEN)
		memory_post_leave(&lane->connection->owner, lane->id);
	lane->state = state;
}

static void
lane_free(struct lane *lane)
{
	assert(TAILQ_EMPTY(&lane->requests));
	timers_cancel(lane->connection->client, &lane->close);
	HASH_DEL(lane->connection->lanes, lane);
	free(lane->close_text);
	free(lane);
}

/* ---- the connection's own life ---- */

static void
connection_set_state(struct memory_connection *connection, enum connection_state state)
{
	assert(state > connection->state);
	connection->state = state;
}

static void
connection_enter(struct memory_connection *connection)
{
	connection->busy++;
}

/* Frees a dead one; nothing of the connection may be touched after. */
static void
connection_leave(struct memory_connection *connection)
{
	struct request *request;
	struct lane *lane, *next;

	if (--connection->busy > 0 || connection->state != CONNECTION_DEAD)
		return;
	while ((request = TAILQ_FIRST(&connection->requests)) != NULL)
		request_free(request);
	memory_connection_deliveries_clear(connection);
	HASH_ITER (hh, connection->lanes, lane, next) {
		lane_free(lane);
	}
	timers_cancel(timers_of(connection), &connection->notice);
	memory_owner_done(&connection->owner);
	free(connection);
}

void
memory_connection_free(struct memory_connection *connection)
{
	if (connection == NULL)
		return;
	connection_enter(connection);
	if (connection->state != CONNECTION_DEAD)
		connection_set_state(connection, CONNECTION_DEAD);
	memory_owner_release(&connection->owner);
	connection_leave(connection);
}

static void
on_world_free(struct memory_owner *owner)
{
	struct memory_connection *connection = (struct memory_connection *)owner;

	/* A broker's own connection would be left with a broker that points at it. */
	assert(connection->state == CONNECTION_LOST);
	memory_connection_free(connection);
}

static void
on_notice(void *ctx, uint64_t id)
{
	(void)id;
	memory_connection_free(ctx);
}

/* ---- performing: the broker's side ---- */

static void
on_perform(void *ctx, uint64_t id)
{
	struct request *request = ctx;

	(void)id;
	if (request->connection->blocked & MEMORY_OUT)
		return; /* it is on its way until the way is free */
	if (request->lane->state != LANE_OPEN)
		return; /* not performed: closing the lane will answer it */
	request->state = REQUEST_PERFORMED;
	request->verdict = memory_owner_perform(&request->connection->owner, &request->call);
	if (request->verdict.code != 0)
		lane_set_state(request->lane, LANE_FAILED);
}

/* ---- answering: the client's side ---- */

/*
 * The request is gone from all lists when the client hears its answer; only a lost connection keeps
 * it, for what is still to be performed.
 */
static void
request_tell(
    struct request *request, enum broker_answer answer, int code, const char *text, bool lane_open)
{
	struct broker_reply reply = {
	    .answer = answer,
	    .lane_open = lane_open,
	    .sent_at = request->sent_at,
	    .code = code,
	    .text = text,
	};
	struct memory_connection *connection = request->connection;
	struct broker_names_done names_done = request->names_done;
	struct broker_count_done count_done = request->count_done;
	struct broker_done done = request->done;
	int consumers = answer == BROKER_OK       ? request->verdict.consumers
			: answer == BROKER_ABSENT ? 0
						  : -1;
	struct name_list names = {0};
	uint64_t lane = request->lane->id;

	if (answer == BROKER_OK) {
		names = request->verdict.names;
		request->verdict.names = (struct name_list){0};
	}
	if (connection->state == CONNECTION_LOST)
		timers_cancel(connection->client, &request->answer);
	else
		request_free(request);
	if (names_done.fn == NULL && count_done.fn == NULL) {
		done.fn(done.ctx, done.id, &reply);
		return;
	}
	/* Its lane was its own: what the broker closed it for, it says to this. */
	if (answer == BROKER_SKIPPED)
		reply.answer = BROKER_REFUSED;
	if (is_up(connection))
		memory_connection_lane_put(connection, lane);
	if (count_done.fn != NULL)
		count_done.fn(count_done.ctx, count_done.id, consumers);
	else
		names_done.fn(names_done.ctx, names_done.id, &reply, (const char *const *)names.all,
		    names.count);
	name_list_done(&names);
}

/* The request is gone when the client hears of its probe. */
static void
probe_tell(struct request *request)
{
	struct memory_probe *probe = request->probe;

	request->probe = NULL;
	request_free(request);
	memory_probe_tell(probe);
}

/*
 * The client learns that the lane is closed: whatever is still unanswered on it is answered, in order,
 * then the event comes. Every answer may give the lane back, or end the connection.
 */
static void
lane_tell_closed(struct lane *lane, int code, const char *text)
{
	struct memory_connection *connection = lane->connection;
	struct request *request;
	uint64_t id = lane->id;

	while (is_up(connection) && (request = TAILQ_FIRST(&lane->requests)) != NULL) {
		request_tell(request,
		    request->state == REQUEST_PERFORMED ? BROKER_UNKNOWN : BROKER_SKIPPED, code,
		    text, false);
	}
	if (!is_up(connection))
		return;
	if (lane->state == LANE_CLOSED && lane->hearer != NULL) {
		lane->hearer->closed(lane->hearer->ctx, id);
	} else if (lane->state == LANE_CLOSED) {
		const struct broker_events *events =
		    &((struct broker_base *)connection->broker)->events;

		events->lane_closed(events->ctx, id, code, text);
	}
	if (is_up(connection))
		lane_free(lane);
}

static void
on_answer(void *ctx, uint64_t id)
{
	struct request *request = ctx;
	struct memory_connection *connection = request->connection;
	struct memory_verdict verdict = request->verdict;
	struct lane *lane = request->lane;

	(void)id;
	if (connection->blocked & MEMORY_IN)
		return; /* it is on its way until the way is free */
	if (timer_is_set(&request->perform)) {
		/* The client's timers ran before the world's. */
		timers_set(connection->client, &request->answer, request->perform.when);
		return;
	}
	if (request->state != REQUEST_PERFORMED)
		return; /* its lane was closed before its turn: that will answer it */
	connection_enter(connection);
	if (verdict.code == 0) {
		request_tell(request, verdict.answer, 0, verdict.text, true);
	} else {
		lane_set_state(lane, LANE_CLOSED);
		request_tell(request, verdict.answer, verdict.code, verdict.text, false);
		if (is_up(connection))
			lane_tell_closed(lane, verdict.code, verdict.text);
	}
	connection_leave(connection);
}

static void
on_lane_close(void *ctx, uint64_t id)
{
	struct lane *lane = ctx;
	struct memory_connection *connection = lane->connection;

	(void)id;
	if (connection->blocked & MEMORY_IN)
		return;
	connection_enter(connection);
	lane_set_state(lane, LANE_CLOSED);
	lane_tell_closed(lane, lane->close_code, lane->close_text);
	connection_leave(connection);
}

static void
on_probe_over(void *ctx)
{
	struct request *request = ctx;
	struct memory_connection *connection = request->connection;

	connection_enter(connection);
	probe_tell(request);
	connection_leave(connection);
}

/* ---- sending ---- */

static bool
is_publish(enum memory_method method)
{
	return method == MEMORY_LINE_WAKE || method == MEMORY_LETTER_ASK ||
	       method == MEMORY_LETTER_REPLY;
}

static void
request_send(struct request *request)
{
	struct memory_connection *connection = request->connection;
	struct lane *lane = request->lane;
	int64_t delay;
	bool silent;

	if (connection->frozen) {
		request->state = REQUEST_SENT;
		return;
	}
	if (request->probe != NULL) {
		memory_probe_send(request->probe);
		if (connection->blocked != 0)
			memory_probe_freeze(request->probe);
		return;
	}
	delay = memory_world_delay(connection->owner.world);
	/* A publish without a confirm is not answered by anybody: it cannot be found out to be silent. */
	silent = !is_publish(request->call.method) && memory_world_silent(connection->owner.world);
	assert(delay >= 0);
	request->state = REQUEST_SENT;
	request->sent_at = now_of(connection);
	lane->perform_at = later_of(lane->perform_at, request->sent_at + delay / 2);
	lane->answer_at = later_of(lane->answer_at, request->sent_at + delay);
	if (lane->stalled)
		return;
	request->reaches = true;
	request->returns = !silent;
	timers_set(timers_of(connection), &request->perform, lane->perform_at);
	if (silent)
		lane->stalled = true;
	else
		timers_set(connection->client, &request->answer, lane->answer_at);
}

static void
on_unblocked(struct memory_owner *owner)
{
	struct memory_connection *connection = (struct memory_connection *)owner;
	struct request *request;

	if (!is_up(connection) || connection->frozen)
		return;
	TAILQ_FOREACH (request, &connection->requests, of_connection) {
		if (request->probe != NULL)
			memory_probe_unblocked(request->probe);
	}
}

static void
on_restarted(struct memory_owner *owner)
{
	struct memory_connection *connection = (struct memory_connection *)owner;

	if (connection->state == CONNECTION_LOST)
		memory_connection_free(connection);
	else if (is_up(connection))
		memory_connection_freeze(connection);
}

/* ---- what the broker asks for ---- */

struct memory_connection *
memory_connection_new(struct memory_world *world, struct timers *timers, struct broker *broker)
{
	struct memory_connection *connection = mem_alloc(sizeof(*connection));

	connection->broker = broker;
	connection->client = timers;
	connection->owner.free = on_world_free;
	connection->owner.unblocked = on_unblocked;
	connection->owner.restarted = on_restarted;
	connection->owner.delivered = memory_connection_delivered;
	connection->owner.cancelled = memory_connection_cancelled;
	memory_owner_init(&connection->owner, world, broker);
	TAILQ_INIT(&connection->requests);
	TAILQ_INIT(&connection->deliveries);
	timer_init(&connection->notice, on_notice, connection, 0);
	return connection;
}

void
memory_connection_up(struct memory_connection *connection)
{
	struct request *request;

	connection_set_state(connection, CONNECTION_UP);
	TAILQ_FOREACH (request, &connection->requests, of_connection)
		request_send(request);
}

void
memory_connection_lose(struct memory_connection *connection, int64_t notice)
{
	bool was_up = is_up(connection);
	struct request *request, *next;
	struct lane *lane;

	connection_enter(connection);
	connection_set_state(connection, CONNECTION_LOST);
	for (lane = connection->lanes; lane != NULL; lane = lane->hh.next)
		timers_cancel(connection->client, &lane->close);
	memory_connection_deliveries_clear(connection);
	/* The broker deletes exclusive queues before any client can learn of it. */
	if (notice <= 0)
		memory_owner_release(&connection->owner);
	/* What an answer makes the client ask for goes elsewhere, so only the current one may go. */
	TAILQ_FOREACH_SAFE (request, &connection->requests, of_connection, next) {
		if (request->probe != NULL)
			probe_tell(request);
		else
			request_tell(request, BROKER_UNKNOWN, 0, "", false);
		if (connection->state == CONNECTION_DEAD)
			break;
	}
	if (connection->state == CONNECTION_LOST && was_up && notice > 0)
		timers_set(timers_of(connection), &connection->notice, now_of(connection) + notice);
	else if (connection->state == CONNECTION_LOST)
		connection_set_state(connection, CONNECTION_DEAD);
	connection_leave(connection);
}

uint64_t
memory_connection_number(const struct memory_connection *connection)
{
	return connection->owner.number;
}

void
memory_connection_each_lane(const struct memory_connection *connection,
    void (*fn)(void *ctx, uint64_t lane, bool silent), void *ctx)
{
	const struct lane *lane;

	for (lane = connection->lanes; lane != NULL; lane = lane->hh.next) {
		if (lane->state <= LANE_FAILED)
			fn(ctx, lane->id, lane->stalled || connection->frozen);
	}
}

unsigned
memory_connection_lanes(const struct memory_connection *connection)
{
	return connection->usable;
}

void
memory_connection_lane_open(struct memory_connection *connection, uint64_t id)
{
	struct lane *lane = mem_alloc(sizeof(*lane));

	lane->id = id;
	lane->connection = connection;
	TAILQ_INIT(&lane->requests);
	timer_init(&lane->close, on_lane_close, lane, 0);
	HASH_ADD_KEYPTR(hh, connection->lanes, &lane->id, sizeof(lane->id), lane);
	connection->usable++;
}

void
memory_connection_lane_put(struct memory_connection *connection, uint64_t id)
{
	struct lane *lane = lane_find(connection, id);

	if (lane == NULL || lane->state == LANE_PUT)
		return;
	if (lane->state == LANE_CLOSED) {
		lane_set_state(lane, LANE_PUT);
		return;
	}
	assert(TAILQ_EMPTY(&lane->requests));
	lane_set_state(lane, LANE_PUT);
	lane_free(lane);
}

void
memory_connection_lane_close(
    struct memory_connection *connection, uint64_t id, int code, const char *text)
{
	struct lane *lane = lane_find(connection, id);
	int64_t when = now_of(connection);
	const struct request *request;

	if (!is_up(connection) || connection->frozen || lane == NULL || lane->state != LANE_OPEN)
		return;
	lane_set_state(lane, LANE_FAILED);
	lane->close_code = code;
	lane->close_text = mem_strdup(text);
	/* The answers that are on their way come first. */
	TAILQ_FOREACH (request, &lane->requests, of_lane) {
		if (request->state == REQUEST_PERFORMED && timer_is_set(&request->answer))
			when = later_of(when, request->answer.when);
	}
	timers_set(connection->client, &lane->close, when);
}

static struct request *
request_new(struct memory_connection *connection)
{
	struct request *request = mem_alloc(sizeof(*request));

	request->connection = connection;
	request->sent_at = now_of(connection);
	timer_init(&request->perform, on_perform, request, 0);
	timer_init(&request->answer, on_answer, request, 0);
	TAILQ_INSERT_TAIL(&connection->requests, request, of_connection);
	return request;
}

static struct request *
request_on_lane(struct lane *lane, const struct memory_call *call)
{
	struct request *request = request_new(lane->connection);

	request->lane = lane;
	TAILQ_INSERT_TAIL(&lane->requests, request, of_lane);
	request->call = *call;
	request->call.queue = request->queue = mem_strdup(call->queue);
	request->call.name = request->name = mem_strdup(call->name);
	return request;
}

bool
memory_connection_request(
    struct memory_connection *connection, const struct memory_call *call, struct broker_done done)
{
	struct lane *lane = lane_find(connection, call->lane);
	struct request *request;

	if (lane == NULL || lane->state >= LANE_CLOSED)
		return false;
	request = request_on_lane(lane, call);
	request->done = done;
	if (is_up(connection))
		request_send(request);
	return true;
}

void
memory_connection_directory(struct memory_connection *connection, const struct memory_call *call,
    struct broker_names_done done)
{
	struct request *request;

	memory_connection_lane_open(connection, call->lane);
	request = request_on_lane(lane_find(connection, call->lane), call);
	request->names_done = done;
	if (is_up(connection))
		request_send(request);
}

void
memory_connection_count(struct memory_connection *connection, const struct memory_call *call,
    struct broker_count_done done)
{
	struct request *request;

	memory_connection_lane_open(connection, call->lane);
	request = request_on_lane(lane_find(connection, call->lane), call);
	request->count_done = done;
	if (is_up(connection))
		request_send(request);
}

void
memory_connection_probe(struct memory_connection *connection, const char *const *queues,
    size_t count, struct broker_probe_done done)
{
	struct request *request = request_new(connection);

	request->probe = memory_probe_new(connection->owner.world, connection->client, queues,
	    count, done, on_probe_over, request);
	if (is_up(connection))
		request_send(request);
}
