#include "daemon/broker/reclaim.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/base/timers.h"
#include "daemon/broker/ask.h"
#include "daemon/broker/internal.h"
#include "daemon/broker/reconnector.h"
#include "daemon/state/state.h"

/*
 * Contents:
 *	Connections: each rests when no claim uses it.
 *	Connections, channels that do not close: quorum_link_check_closes() ends a connection with such a
 *	   channel.
 *	Connections, events: a connection came up or ended, and quorum.c is told.
 *	Connections, claims: amqp_quorum_links_take() chooses the connection of a new claim.
 *	Connections, the successor: a connection is saved, and goes on.
 *	Connections, life: with the broker.
 *	Reclaims: the table of holds that ended. reclaims_on_due() looks at their beads, then tries.
 *	Reclaims, outside: amqp_reclaims_add(), amqp_reclaims_stopped(), and amqp_reclaims_tried() after an
 *	   attempt.
 *	Reclaims, the successor: reclaims are saved and restored.
 *	Reclaims, life: with the broker.
 */

/* ---- connections ---- */

struct amqp_quorum_link {
	struct amqp_quorum_links *links;      /* borrowed */
	struct amqp_reconnector *reconnector; /* owned */
	unsigned number;
	size_t claims;
	struct timer idle;   /* without claims */
	struct timer closes; /* when a channel could be silent */
	bool stuck;          /* one is */
};

struct amqp_quorum_links {
	struct broker *broker; /* borrowed */
	struct amqp_quorum_links_events events;
	struct amqp_quorum_link all[BROKER_QUORUM_MOST];
	unsigned count;  /* those with a reconnector */
	unsigned wanted; /* those that take new claims. Others are of an earlier program */
};

static struct amqp_quorum_link *
quorum_links_find(struct amqp_quorum_links *links, enum broker_link which)
{
	assert(which >= BROKER_QUORUM && which - BROKER_QUORUM < links->count);
	return &links->all[which - BROKER_QUORUM];
}

static void
quorum_link_rest_later(struct amqp_quorum_link *link)
{
	const struct broker *broker = link->links->broker;

	timers_set(
	    broker->timers, &link->idle, broker_now(broker) + broker->settings.auxiliary_idle);
}

static void
quorum_link_on_idle(void *ctx, uint64_t id)
{
	struct amqp_quorum_link *link = ctx;

	(void)id;
	if (link->claims == 0 && amqp_reconnector_link(link->reconnector) != NULL)
		amqp_reconnector_rest(link->reconnector, "idle");
}

/* ---- connections, channels that do not close ---- */

/* Looks when the channel that waits for the longest time could be silent, or must be ended. */
static void
quorum_link_check_closes(struct amqp_quorum_link *link)
{
	struct broker *broker = link->links->broker;
	int64_t since = amqp_channels_closing_since(amqp_quorum_link_channels(link));
	int64_t now = broker_now(broker), most;
	const struct amqp_link *up = amqp_quorum_link_up(link);

	if (up == NULL || since == 0) {
		link->stuck = false;
		return;
	}
	most = 2 * up->heartbeat * NSEC_PER_SEC;
	if (now - since < most) {
		timers_set(broker->timers, &link->closes, since + most);
		return;
	}
	if (!link->stuck)
		log_warning("a channel of quorum connection %u does not close: its slot cannot be "
			    "had. The connection ends when it has no holds, or in %d s",
		    link->number + 1, (int)(AMQP_QUORUM_STUCK_MOST / NSEC_PER_SEC));
	link->stuck = true;
	if (link->claims == 0 || now - since >= most + AMQP_QUORUM_STUCK_MOST)
		amqp_reconnector_drop(link->reconnector, "a channel does not close");
	else
		timers_set(broker->timers, &link->closes, since + most + AMQP_QUORUM_STUCK_MOST);
}

static void
quorum_link_on_closes(void *ctx, uint64_t id)
{
	(void)id;
	quorum_link_check_closes(ctx);
}

/* ---- connections, events ---- */

static char *
quorum_links_on_vet(void *ctx, const struct amqp_server *server)
{
	struct amqp_quorum_links *links = ctx;

	return links->events.vet(links->broker, server);
}

static void
quorum_links_on_up(void *ctx, enum broker_link which)
{
	struct amqp_quorum_links *links = ctx;
	struct amqp_quorum_link *link = quorum_links_find(links, which);

	if (link->claims == 0)
		quorum_link_rest_later(link);
	links->events.up(links->events.ctx, link);
}

static void
quorum_links_on_down(void *ctx, enum broker_link which)
{
	struct amqp_quorum_links *links = ctx;
	struct amqp_quorum_link *link = quorum_links_find(links, which);

	timers_cancel(links->broker->timers, &link->idle);
	timers_cancel(links->broker->timers, &link->closes);
	link->stuck = false;
	if (links->events.down(links->events.ctx, link, amqp_reconnector_why(link->reconnector)))
		amqp_quorum_link_need(link);
}

/* ---- connections, claims ---- */

static bool
quorum_link_is_better(
    const struct amqp_quorum_link *link, const struct amqp_quorum_link *than, bool at_once)
{
	bool up = amqp_quorum_link_up(link) != NULL, than_up = amqp_quorum_link_up(than) != NULL;

	if (link->stuck != than->stuck)
		return than->stuck;
	return at_once && up != than_up ? up : link->claims < than->claims;
}

struct amqp_quorum_link *
amqp_quorum_links_take(struct amqp_quorum_links *links, bool at_once)
{
	struct amqp_quorum_link *best = &links->all[0];

	for (unsigned i = 1; i < links->wanted; i++)
		if (quorum_link_is_better(&links->all[i], best, at_once))
			best = &links->all[i];
	best->claims++;
	return best;
}

void
amqp_quorum_link_enter(struct amqp_quorum_link *link)
{
	link->claims++;
	timers_cancel(link->links->broker->timers, &link->idle);
}

void
amqp_quorum_link_leave(struct amqp_quorum_link *link)
{
	if (--link->claims == 0)
		quorum_link_rest_later(link);
	if (link->stuck || !timer_is_set(&link->closes))
		quorum_link_check_closes(link);
}

void
amqp_quorum_link_need(struct amqp_quorum_link *link)
{
	timers_cancel(link->links->broker->timers, &link->idle);
	amqp_reconnector_need(link->reconnector, amqp_reconnector_host(link->links->broker->locks));
}

struct amqp_channels *
amqp_quorum_link_channels(const struct amqp_quorum_link *link)
{
	return amqp_reconnector_channels(link->reconnector);
}

const struct amqp_link *
amqp_quorum_link_up(const struct amqp_quorum_link *link)
{
	return amqp_reconnector_link(link->reconnector);
}

unsigned
amqp_quorum_link_number(const struct amqp_quorum_link *link)
{
	return link->number;
}

/* The connections up to that number exist. */
static void
quorum_links_make(struct amqp_quorum_links *links, unsigned count)
{
	/* Each claim is told of its end, and these connections publish nothing. */
	const struct amqp_reconnector_events own = {
	    .vet = quorum_links_on_vet,
	    .up = quorum_links_on_up,
	    .down = quorum_links_on_down,
	    .ctx = links,
	};

	assert(count <= BROKER_QUORUM_MOST);
	for (; links->count < count; links->count++) {
		struct amqp_quorum_link *link = &links->all[links->count];

		link->links = links;
		link->number = links->count;
		link->reconnector =
		    amqp_reconnector_new(links->broker, BROKER_QUORUM + links->count, &own);
		timer_init(&link->idle, quorum_link_on_idle, link, 0);
		timer_init(&link->closes, quorum_link_on_closes, link, 0);
	}
}

/* ---- connections, the successor ---- */

bool
amqp_quorum_link_is_tls(const struct amqp_quorum_link *link)
{
	return amqp_reconnector_is_tls(link->reconnector);
}

bool
amqp_quorum_links_are_still(const struct amqp_quorum_links *links)
{
	for (unsigned i = 0; i < links->count; i++)
		if (amqp_quorum_link_up(&links->all[i]) != NULL &&
		    !amqp_quorum_link_is_tls(&links->all[i]) &&
		    !amqp_reconnector_is_still(links->all[i].reconnector))
			return false;
	return true;
}

bool
amqp_quorum_link_save(const struct amqp_quorum_link *link, struct state_writer *writer)
{
	return amqp_reconnector_save(link->reconnector, writer);
}

struct amqp_quorum_link *
amqp_quorum_links_resume(
    struct amqp_quorum_links *links, unsigned number, struct state_reader *reader)
{
	struct amqp_quorum_link *link = &links->all[number];

	quorum_links_make(links, number + 1);
	if (amqp_quorum_link_up(link) != NULL) {
		(void)state_spoil(reader, "a connection of holds by quorum is there twice");
		return NULL;
	}
	if (!amqp_reconnector_resume(link->reconnector, reader))
		return NULL;
	quorum_link_check_closes(link);
	return link;
}

/* ---- connections, life ---- */

struct amqp_quorum_link *
amqp_quorum_links_get(struct amqp_quorum_links *links, unsigned number)
{
	assert(number < links->count);
	return &links->all[number];
}

unsigned
amqp_quorum_links_count(const struct amqp_quorum_links *links)
{
	return links->count;
}

struct amqp_reconnector *
amqp_quorum_links_reconnector(const struct amqp_quorum_links *links, enum broker_link which)
{
	assert(which >= BROKER_QUORUM && which < BROKER_LINKS);
	return links->all[which - BROKER_QUORUM].reconnector;
}

struct amqp_quorum_links *
amqp_quorum_links_new(struct broker *broker, const struct amqp_quorum_links_events *events)
{
	struct amqp_quorum_links *links = mem_alloc(sizeof(*links));

	links->broker = broker;
	links->events = *events;
	links->wanted =
	    broker->settings.quorum_connections != 0 ? broker->settings.quorum_connections : 2;
	quorum_links_make(links, links->wanted);
	return links;
}

void
amqp_quorum_links_quit(struct amqp_quorum_links *links)
{
	for (unsigned i = 0; i < links->count; i++)
		amqp_reconnector_quit(links->all[i].reconnector);
}

void
amqp_quorum_links_free(struct amqp_quorum_links *links)
{
	for (unsigned i = 0; i < links->count; i++) {
		timers_cancel(links->broker->timers, &links->all[i].idle);
		timers_cancel(links->broker->timers, &links->all[i].closes);
		amqp_reconnector_free(links->all[i].reconnector);
	}
	free(links);
}

/* ---- reclaims ---- */

/* More reclaims are not kept. */
#define RECLAIM_MOST 8192
/* Attempts of a reclaim in which somebody else has the beads, or seems to. They take about 40 s. */
#define RECLAIM_BUSY_MOST 9
/* Attempts at once, of all. RabbitMQ performs one in about 2 ms. */
#define RECLAIM_AT_ONCE 64
/* The rest after a failure is doubled from the first to the last. */
#define RECLAIM_REST_FIRST (100 * NSEC_PER_MSEC)
#define RECLAIM_REST_MOST (16 * NSEC_PER_SEC)

enum reclaim_state {
	RECLAIM_WORKING, /* its holder has perhaps not stopped */
	RECLAIM_READY,   /* in `ready` */
	RECLAIM_TRYING,
	RECLAIM_RESTING /* the timer makes it READY */
};

struct reclaim {
	UT_hash_handle by_id, by_queue;
	struct amqp_reclaims *reclaims; /* borrowed */
	uint64_t id;
	char *queue; /* owned */
	struct beads_memory memory;
	enum reclaim_state state;
	bool looking; /* its look is not answered */
	TAILQ_ENTRY(reclaim) of_ready;
	unsigned failures, busy; /* attempts */
	int64_t until;           /* clock time at which it is forgotten */
	struct timer timer;
};

struct amqp_reclaims {
	struct broker *broker; /* borrowed */
	amqp_reclaims_try *try_one;
	void *ctx; /* borrowed */
	struct reclaim *by_id, *by_queue;
	TAILQ_HEAD(, reclaim) ready;
	size_t trying;
	size_t fresh; /* READY or TRYING, without a failure */
	struct timer due;
};

static struct reclaim *
reclaim_find(const struct amqp_reclaims *reclaims, uint64_t id)
{
	struct reclaim *reclaim;

	HASH_FIND(by_id, reclaims->by_id, &id, sizeof(id), reclaim);
	return reclaim;
}

static struct reclaim *
reclaim_find_queue(const struct amqp_reclaims *reclaims, const char *queue)
{
	struct reclaim *reclaim;

	HASH_FIND(by_queue, reclaims->by_queue, queue, strlen(queue), reclaim);
	return reclaim;
}

static bool
reclaim_is_fresh(const struct reclaim *reclaim)
{
	return reclaim->failures == 0 && reclaim->memory.proved_at == 0 &&
	       (reclaim->state == RECLAIM_READY || reclaim->state == RECLAIM_TRYING);
}

/* Attempts are made by the event loop alone: a claim may be ending just now. */
static void
reclaims_run_soon(struct amqp_reclaims *reclaims)
{
	if (!timer_is_set(&reclaims->due))
		timers_set(reclaims->broker->timers, &reclaims->due, broker_now(reclaims->broker));
}

static void
reclaim_set_state(struct reclaim *reclaim, enum reclaim_state state)
{
	struct amqp_reclaims *reclaims = reclaim->reclaims;

	timers_cancel(reclaims->broker->timers, &reclaim->timer);
	reclaims->fresh -= reclaim_is_fresh(reclaim);
	reclaims->trying -= reclaim->state == RECLAIM_TRYING;
	if (reclaim->state == RECLAIM_READY)
		TAILQ_REMOVE(&reclaims->ready, reclaim, of_ready);
	reclaim->state = state;
	reclaims->fresh += reclaim_is_fresh(reclaim);
	reclaims->trying += state == RECLAIM_TRYING;
	if (state == RECLAIM_READY)
		TAILQ_INSERT_TAIL(&reclaims->ready, reclaim, of_ready);
	reclaims_run_soon(reclaims);
}

static void
reclaim_free(struct reclaim *reclaim)
{
	struct amqp_reclaims *reclaims = reclaim->reclaims;

	reclaim_set_state(reclaim, RECLAIM_WORKING);
	HASH_DELETE(by_id, reclaims->by_id, reclaim);
	HASH_DELETE(by_queue, reclaims->by_queue, reclaim);
	free(reclaim->queue);
	free(reclaim);
}

static void
reclaim_on_looked(void *ctx, uint64_t id, enum broker_answer answer, int messages, int consumers)
{
	struct amqp_reclaims *reclaims = ctx;
	struct reclaim *reclaim = reclaim_find(reclaims, id);

	(void)consumers;
	if (reclaim == NULL)
		return;
	reclaim->looking = false;
	if (reclaim->state != RECLAIM_TRYING)
		return;
	if (reclaims->broker->frozen)
		reclaim_set_state(reclaim, RECLAIM_READY);
	else if (answer == BROKER_OK && messages >= BEADS)
		reclaims->try_one(reclaims->ctx, id, reclaim->queue, &reclaim->memory);
	else
		amqp_reclaims_tried(reclaims, id,
		    answer == BROKER_ABSENT ? AMQP_RECLAIM_OVER
		    : answer == BROKER_OK   ? AMQP_RECLAIM_BUSY
					    : AMQP_RECLAIM_UNREACHED);
}

static void
reclaims_on_due(void *ctx, uint64_t id)
{
	struct amqp_reclaims *reclaims = ctx;
	struct reclaim *reclaim;

	(void)id;
	while (!reclaims->broker->stopped && !reclaims->broker->frozen &&
	       reclaims->trying < RECLAIM_AT_ONCE &&
	       (reclaim = TAILQ_FIRST(&reclaims->ready)) != NULL) {
		reclaim_set_state(reclaim, RECLAIM_TRYING);
		if (reclaim->looking)
			continue;
		reclaim->looking = true;
		amqp_counters_check(reclaims->broker->counters, reclaim->queue,
		    (struct amqp_check_done){reclaim_on_looked, reclaims, reclaim->id});
		amqp_auxiliary_need(reclaims->broker);
	}
	/* Each change of this pass is served. */
	timers_cancel(reclaims->broker->timers, &reclaims->due);
}

/* WORKING: it is forgotten. RESTING: it is tried again. */
static void
reclaim_on_timer(void *ctx, uint64_t id)
{
	struct reclaim *reclaim = ctx;

	(void)id;
	if (reclaim->state == RECLAIM_RESTING)
		reclaim_set_state(reclaim, RECLAIM_READY);
	else
		reclaim_free(reclaim);
}

static struct reclaim *
reclaim_new(struct amqp_reclaims *reclaims, uint64_t id, const char *queue)
{
	struct reclaim *reclaim = mem_alloc(sizeof(*reclaim));

	reclaim->reclaims = reclaims;
	reclaim->id = id;
	reclaim->queue = mem_strdup(queue);
	timer_init(&reclaim->timer, reclaim_on_timer, reclaim, 0);
	HASH_ADD(by_id, reclaims->by_id, id, sizeof(reclaim->id), reclaim);
	HASH_ADD_KEYPTR(
	    by_queue, reclaims->by_queue, reclaim->queue, strlen(reclaim->queue), reclaim);
	return reclaim;
}

/* ---- reclaims, outside ---- */

void
amqp_reclaims_add(struct amqp_reclaims *reclaims, uint64_t id, const char *queue,
    const struct beads_memory *memory, bool stopped)
{
	struct reclaim *reclaim = reclaim_find_queue(reclaims, queue);

	if (reclaim != NULL && reclaim->id != id) {
		reclaim_free(reclaim);
		reclaim = NULL;
	}
	if (reclaim == NULL && HASH_CNT(by_id, reclaims->by_id) == RECLAIM_MOST)
		return;
	FAULT(RECLAIM_BEFORE_STOP, stopped = true);
	if (reclaim == NULL)
		reclaim = reclaim_new(reclaims, id, queue);
	reclaim_set_state(reclaim, RECLAIM_WORKING);
	reclaim->memory = *memory;
	FAULT(RECLAIM_BEFORE_STOP, reclaim->memory.proved_at = 0);
	reclaim->failures = reclaim->busy = 0;
	reclaim->until = broker_now(reclaims->broker) + AMQP_RECLAIM_KEPT;
	if (stopped || memory->proved_at != 0)
		reclaim_set_state(reclaim, RECLAIM_READY);
	else
		timers_set(reclaims->broker->timers, &reclaim->timer, reclaim->until);
}

const char *
amqp_reclaims_stopped(struct amqp_reclaims *reclaims, uint64_t id)
{
	struct reclaim *reclaim = reclaim_find(reclaims, id);

	if (reclaim == NULL)
		return NULL;
	if (reclaim->state == RECLAIM_WORKING)
		reclaim_set_state(reclaim, RECLAIM_READY);
	return reclaim->queue;
}

const struct beads_memory *
amqp_reclaims_find(const struct amqp_reclaims *reclaims, const char *queue)
{
	const struct reclaim *reclaim = reclaim_find_queue(reclaims, queue);

	return reclaim == NULL || reclaim->state == RECLAIM_WORKING ||
		       reclaim->memory.proved_at != 0
		   ? NULL
		   : &reclaim->memory;
}

void
amqp_reclaims_forget(struct amqp_reclaims *reclaims, const char *queue)
{
	struct reclaim *reclaim = reclaim_find_queue(reclaims, queue);

	if (reclaim != NULL)
		reclaim_free(reclaim);
}

void
amqp_reclaims_tried(struct amqp_reclaims *reclaims, uint64_t id, enum amqp_reclaim_result result)
{
	struct reclaim *reclaim = reclaim_find(reclaims, id);
	int64_t rest = RECLAIM_REST_FIRST, now = broker_now(reclaims->broker);

	if (reclaim == NULL)
		return;
	assert(reclaim->state == RECLAIM_TRYING);
	reclaim->busy += result == AMQP_RECLAIM_BUSY;
	if (result == AMQP_RECLAIM_OVER || reclaim->busy == RECLAIM_BUSY_MOST ||
	    now >= reclaim->until) {
		reclaim_free(reclaim);
		return;
	}
	reclaim_set_state(reclaim, RECLAIM_RESTING);
	for (unsigned i = 0; i < reclaim->failures && rest < RECLAIM_REST_MOST; i++)
		rest *= 2;
	reclaim->failures++;
	timers_set(reclaims->broker->timers, &reclaim->timer, now + rest);
}

void
amqp_reclaims_wake(struct amqp_reclaims *reclaims)
{
	struct reclaim *reclaim, *next;

	HASH_ITER (by_id, reclaims->by_id, reclaim, next) {
		if (reclaim->state == RECLAIM_RESTING)
			reclaim_set_state(reclaim, RECLAIM_READY);
	}
	reclaims_run_soon(reclaims);
}

size_t
amqp_reclaims_fresh(const struct amqp_reclaims *reclaims)
{
	return reclaims->fresh;
}

/* ---- reclaims, the successor ---- */

struct reclaim_record {
	uint64_t id;
	const char *queue;
	uint64_t epoch, publisher, sum;
	bool asked, stopped;
	int failures, busy;
	int64_t until;
};

static const struct state_field reclaim_fields[] = {
    STATE_FIELD(reclaim_record, id, STATE_NUMBER),
    STATE_FIELD(reclaim_record, queue, STATE_TEXT),
    STATE_FIELD(reclaim_record, epoch, STATE_NUMBER),
    STATE_FIELD(reclaim_record, publisher, STATE_NUMBER),
    STATE_FIELD(reclaim_record, sum, STATE_NUMBER),
    STATE_FIELD(reclaim_record, asked, STATE_BOOL),
    STATE_FIELD(reclaim_record, stopped, STATE_BOOL),
    STATE_RANGE(reclaim_record, failures, 0, INT32_MAX),
    STATE_RANGE(reclaim_record, busy, 0, RECLAIM_BUSY_MOST - 1),
    STATE_FIELD(reclaim_record, until, STATE_SIGNED),
    {0},
};

bool
amqp_reclaims_any(const struct amqp_reclaims *reclaims)
{
	return reclaims->by_id != NULL;
}

static struct reclaim_record
reclaim_record_of(uint64_t id, const char *queue, const struct beads_memory *memory, int64_t until)
{
	return (struct reclaim_record){.id = id,
	    .queue = queue,
	    .epoch = memory->epoch,
	    .publisher = memory->publisher,
	    .sum = memory->sum,
	    .asked = memory->asked,
	    .stopped = true,
	    .until = until};
}

void
amqp_reclaims_save(const struct amqp_reclaims *reclaims, struct state_writer *writer)
{
	const struct reclaim *reclaim;

	for (reclaim = reclaims->by_id; reclaim != NULL; reclaim = reclaim->by_id.next) {
		struct reclaim_record record = reclaim_record_of(
		    reclaim->id, reclaim->queue, &reclaim->memory, reclaim->until);

		if (reclaim->memory.proved_at != 0)
			continue;
		record.stopped = reclaim->state != RECLAIM_WORKING;
		record.failures = (int)reclaim->failures;
		record.busy = (int)reclaim->busy;
		state_put(writer, "reclaim", reclaim_fields, &record);
	}
}

void
amqp_reclaims_save_claim(const struct amqp_reclaims *reclaims, struct state_writer *writer,
    uint64_t id, const char *queue, const struct beads_memory *memory)
{
	const struct reclaim_record record =
	    reclaim_record_of(id, queue, memory, broker_now(reclaims->broker) + AMQP_RECLAIM_KEPT);

	state_put(writer, "reclaim", reclaim_fields, &record);
}

bool
amqp_reclaims_restore(struct amqp_reclaims *reclaims, struct state_reader *reader)
{
	int64_t most = broker_now(reclaims->broker) + AMQP_RECLAIM_KEPT;
	struct reclaim_record record;
	struct reclaim *reclaim;

	while (state_is(reader, "reclaim")) {
		if (!state_take(reader, "reclaim", reclaim_fields, &record))
			return false;
		if (record.queue == NULL || strlen(record.queue) > UINT8_MAX || record.until < 0 ||
		    record.until > most || reclaim_find(reclaims, record.id) != NULL)
			return state_spoil(reader, "invalid record of a reclaim");
		FAULT(RESTORED_RECLAIM_STOPPED, record.stopped = true);
		amqp_reclaims_add(reclaims, record.id, record.queue,
		    &(struct beads_memory){.epoch = record.epoch,
			.publisher = record.publisher,
			.sum = record.sum,
			.asked = record.asked},
		    record.stopped);
		reclaim = reclaim_find(reclaims, record.id);
		if (reclaim == NULL)
			continue; /* there are too many */
		reclaim->busy = (unsigned)record.busy;
		reclaim->until = record.until;
		if (reclaim->state == RECLAIM_WORKING)
			timers_set(reclaims->broker->timers, &reclaim->timer, reclaim->until);
	}
	return true;
}

/* ---- reclaims, life ---- */

struct amqp_reclaims *
amqp_reclaims_new(struct broker *broker, amqp_reclaims_try *try_one, void *ctx)
{
	struct amqp_reclaims *reclaims = mem_alloc(sizeof(*reclaims));

	reclaims->broker = broker;
	reclaims->try_one = try_one;
	reclaims->ctx = ctx;
	TAILQ_INIT(&reclaims->ready);
	timer_init(&reclaims->due, reclaims_on_due, reclaims, 0);
	return reclaims;
}

void
amqp_reclaims_free(struct amqp_reclaims *reclaims)
{
	if (reclaims == NULL)
		return;
	while (reclaims->by_id != NULL)
		reclaim_free(reclaims->by_id);
	timers_cancel(reclaims->broker->timers, &reclaims->due);
	free(reclaims);
}
