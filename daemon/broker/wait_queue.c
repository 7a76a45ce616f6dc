#include "daemon/broker/wait_queue.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/channel.h"
#include "daemon/broker/consumers.h"
#include "daemon/broker/internal.h"
#include "daemon/broker/reconnector.h"
#include "daemon/broker/setup.h"

/*
 * Contents:
 *	Members: a queue, a priority and a credit.
 *	Members, states: their lists. member_tell() tells the listener.
 *	Members, placing: member_join() declares and consumes. Another credit takes another consumer:
 *	   wait_queues_raise(). amqp_wait_queues_place() gives wait queues their turns.
 *	Members, events: a consumer was placed or cancelled, a hint came, or a channel went.
 *	Members, outside: broker_wait_queue_join() and broker_wait_queue_leave().
 *	Members, life: with the broker.
 *	Hints: what is owed.
 *	Hints, owed hints: each wait queue and slot once, the newest ones.
 *	Hints, sending: amqp_hints_pay() publishes them while the link takes messages.
 *	Hints, frames: hints_on_message() takes a returned hint: no daemon waits there.
 *	Hints, outside: broker_wait_queue_wake().
 *	Hints, life: with the broker.
 */

/* ---- members ---- */

#define LENGTH_MAX 64
/* First letter of the tags. */
#define MEMBER_TAG 'l'
/*
 * The waits before a member joins again. Each is random, from half of it to one and a half. After
 * 404, as the other members left and the wait queue ended:
 */
#define MEMBER_AT_ONCE (5 * NSEC_PER_MSEC)
/* After basic.cancel, or after the end of its channel: */
#define MEMBER_AGAIN (100 * NSEC_PER_MSEC)
/* After another refusal: */
#define MEMBER_RARELY (30 * NSEC_PER_SEC)
/*
 * The maximum of wait queues with a placed member, and of further placed members. So neither
 * clients that wait for many names, nor those with many priorities, make RabbitMQ too big. The
 * second limit never keeps a wait queue from its first member.
 */
#define WAIT_QUEUES_MAX 2048
#define MORE_MAX 2048
/* The wait after no channel was left, or a maximum was reached. */
#define MEMBER_NO_CHANNEL (1 * NSEC_PER_SEC)
/* Channels that are kept for other modules: at most, and at least. */
#define OTHERS_MOST 16
#define OTHERS_LEAST 2

enum queue_member_state {
	MEMBER_RESTING, /* waits for `again` */
	MEMBER_READY,   /* waits for the link, or for its turn; in the list of its wait queue */
	/* The next four have a channel. */
	MEMBER_JOINING, /* waits for the consume-ok of its first consumer */
	MEMBER_ON,      /* BROKER_WAIT_QUEUE_JOINED was reported, as in the next two states */
	MEMBER_RAISES,  /* needs another consumer, for another credit */
	MEMBER_RAISING, /* waits for the consume-ok of that consumer */
	MEMBER_LOST,    /* was ON; BROKER_WAIT_QUEUE_LEFT will be reported */
	MEMBER_STATES
};

struct queue_member {
	TAILQ_ENTRY(queue_member) in_state; /* in the list of its state */
	struct wait_queue *wait_queue;      /* borrowed */
	int priority;                       /* the key in the wait queue */
	unsigned credit;                    /* the wanted one */
	enum queue_member_state state;
	/* its last consume closed a channel: it joins on a channel of its own */
	bool suspect;
	struct timer again; /* RESTING */
	/* JOINING to RAISING: */
	struct amqp_consumers *channel; /* borrowed */
	unsigned asked;                 /* credit of the consumer that was placed last */
	uint64_t placing;  /* JOINING, RAISING: its consumer without consume-ok; else 0 */
	uint64_t consumer; /* ON to RAISING: the key; else 0 */
	UT_hash_handle by_priority, by_consumer;
};
TAILQ_HEAD(queue_members, queue_member);

/* Exists while it has members here. */
struct wait_queue {
	char *queue;                          /* owned; the key */
	struct amqp_wait_queues *wait_queues; /* borrowed */
	struct queue_member *members;         /* owned; by priority */
	struct queue_members ready;           /* the same */
	size_t placed;                        /* members that have a channel */
	TAILQ_ENTRY(wait_queue) in_turns;     /* while there are READY members */
	UT_hash_handle by_queue;
};

struct amqp_wait_queues {
	struct broker *broker;            /* borrowed */
	struct wait_queue *by_queue;      /* owned */
	struct queue_member *by_consumer; /* owned by the wait queues, as all members */
	TAILQ_HEAD(, wait_queue) turns;   /* wait queues with READY members, the next one first */
	struct queue_members by_state[MEMBER_STATES];
	struct amqp_consumers_set channels;
	size_t count, placed,
	    lines_placed;   /* members; placed members; wait queues with placed members */
	struct timer retry; /* set: no channel was left */
	bool complained;    /* of being refused, on this link */
};

/* ---- members, states ---- */

static struct queue_members *
member_list_of(const struct queue_member *member)
{
	struct wait_queue *wait_queue = member->wait_queue;

	return member->state == MEMBER_READY ? &wait_queue->ready
					     : &wait_queue->wait_queues->by_state[member->state];
}

/* Removes a member from its list. Its wait queue leaves the turns with its last READY member. */
static void
member_unlist(struct queue_member *member)
{
	struct wait_queue *wait_queue = member->wait_queue;

	TAILQ_REMOVE(member_list_of(member), member, in_state);
	if (member->state == MEMBER_READY && TAILQ_EMPTY(&wait_queue->ready))
		TAILQ_REMOVE(&wait_queue->wait_queues->turns, wait_queue, in_turns);
}

static void
member_enlist(struct queue_member *member, enum queue_member_state state)
{
	struct wait_queue *wait_queue = member->wait_queue;

	member->state = state;
	if (state == MEMBER_READY && TAILQ_EMPTY(&wait_queue->ready))
		TAILQ_INSERT_TAIL(&wait_queue->wait_queues->turns, wait_queue, in_turns);
	TAILQ_INSERT_TAIL(member_list_of(member), member, in_state);
}

/* The states that may follow each state. */
static const unsigned member_changes[MEMBER_STATES] = {
    [MEMBER_RESTING] = 1U << MEMBER_READY,
    [MEMBER_READY] = 1U << MEMBER_RESTING | 1U << MEMBER_JOINING,
    [MEMBER_JOINING] = 1U << MEMBER_RESTING | 1U << MEMBER_ON,
    [MEMBER_ON] = 1U << MEMBER_RAISES | 1U << MEMBER_LOST,
    [MEMBER_RAISES] = 1U << MEMBER_RAISING | 1U << MEMBER_LOST,
    [MEMBER_RAISING] = 1U << MEMBER_ON | 1U << MEMBER_LOST,
    [MEMBER_LOST] = 1U << MEMBER_RESTING | 1U << MEMBER_READY,
};

static void
member_set_state(struct queue_member *member, enum queue_member_state state)
{
	assert((member_changes[member->state] & 1U << state) != 0);
	member_unlist(member);
	member_enlist(member, state);
}

/* The callback may add and remove members, and so open and close channels. */
static void
member_tell(const struct queue_member *member, enum broker_wait_queue_news news, int slot)
{
	const struct broker_events *events = &member->wait_queue->wait_queues->broker->events;
	char *queue = mem_strdup(member->wait_queue->queue);

	if (events->wait_queue != NULL)
		events->wait_queue(events->ctx,
		    &(struct broker_wait_queue_event){
			.queue = queue, .priority = member->priority, .news = news, .slot = slot});
	free(queue);
}

static void
member_cancel(const struct queue_member *member, uint64_t consumer)
{
	amqp_consumers_cancel(member->channel, consumer, member->wait_queue->queue);
}

/* The member has no consumers any more. */
static void
member_forget_consumers(struct queue_member *member)
{
	struct wait_queue *wait_queue = member->wait_queue;
	struct amqp_wait_queues *wait_queues = wait_queue->wait_queues;

	if (member->channel != NULL) {
		wait_queues->placed--;
		wait_queues->lines_placed -= --wait_queue->placed == 0;
	}
	if (member->consumer != 0)
		HASH_DELETE(by_consumer, wait_queues->by_consumer, member);
	member->consumer = member->placing = 0;
	member->channel = NULL;
}

/*
 * Takes a member out. It joins again after about `again` ns. BROKER_WAIT_QUEUE_LEFT of a LOST
 * member comes later.
 */
static void
member_out(struct queue_member *member, int64_t again)
{
	struct amqp_wait_queues *wait_queues = member->wait_queue->wait_queues;

	member_set_state(member, member->consumer != 0 ? MEMBER_LOST : MEMBER_RESTING);
	member_forget_consumers(member);
	timers_set(wait_queues->broker->timers, &member->again,
	    broker_now(wait_queues->broker) + again / 2 +
		jitter_below(&wait_queues->broker->jitter, again));
}

static void
wait_queues_tell_lost(struct amqp_wait_queues *wait_queues)
{
	struct queue_member *member;

	while ((member = TAILQ_FIRST(&wait_queues->by_state[MEMBER_LOST])) != NULL) {
		member_set_state(
		    member, timer_is_set(&member->again) ? MEMBER_RESTING : MEMBER_READY);
		member_tell(member, BROKER_WAIT_QUEUE_LEFT, 0);
	}
}

/* ---- members, placing ---- */

/*
 * Without a wait queue, waiters are still served by rescans. Without a channel for probes they are
 * not.
 */
static bool
wait_queues_have_room(const struct amqp_channels *channels)
{
	unsigned max = amqp_channels_max(channels), others = max / 2;

	if (others > OTHERS_MOST)
		others = OTHERS_MOST;
	if (others < OTHERS_LEAST)
		others = OTHERS_LEAST;
	return amqp_channels_busy(channels) + others < max;
}

static void
member_place(struct queue_member *member, struct amqp_consumers *channel)
{
	member->channel = channel;
	member->asked = member->credit;
	member->placing = amqp_consumers_consume(
	    channel, member->wait_queue->queue, member->credit, member->priority);
}

static void
member_join(struct queue_member *member, struct amqp_consumers *channel)
{
	struct wait_queue *wait_queue = member->wait_queue;
	amqp_table_entry_t arguments[] = {
	    amqp_entry_number("x-max-length", LENGTH_MAX),
	    amqp_entry_text("x-queue-type", "classic"),
	};
	amqp_queue_declare_t declare = {
	    .queue = amqp_cstring_bytes(wait_queue->queue),
	    .durable = 1,
	    .auto_delete = 1,
	    .arguments = {.num_entries = 2, .entries = arguments},
	};

	member_set_state(member, MEMBER_JOINING);
	wait_queue->wait_queues->placed++;
	wait_queue->wait_queues->lines_placed += wait_queue->placed++ == 0;
	amqp_consumers_declare(channel, &declare);
	member_place(member, channel);
}

/* If its credit is not the wanted one, the member needs another consumer. */
static void
member_want_credit(struct queue_member *member)
{
	if (member->state == MEMBER_ON && member->asked != member->credit)
		member_set_state(member, MEMBER_RAISES);
}

/* Uses the channel of its present consumer, if no consume is unanswered there. */
static void
wait_queues_raise(struct amqp_wait_queues *wait_queues)
{
	struct queue_member *member, *next;

	TAILQ_FOREACH_SAFE (member, &wait_queues->by_state[MEMBER_RAISES], in_state, next) {
		if (member->channel->unanswered != 0)
			continue;
		member_set_state(member, MEMBER_RAISING);
		member_place(member, member->channel);
	}
}

static bool
wait_queue_may_join(const struct wait_queue *wait_queue)
{
	const struct amqp_wait_queues *wait_queues = wait_queue->wait_queues;

	if (wait_queue->placed == 0)
		return wait_queues->lines_placed < WAIT_QUEUES_MAX;
	return wait_queues->placed - wait_queues->lines_placed < MORE_MAX;
}

/* Wait queues take turns, so that many priorities of one name do not delay other names. */
void
amqp_wait_queues_place(struct amqp_wait_queues *wait_queues)
{
	struct amqp_consumers *channel;
	struct queue_member *member;
	struct wait_queue *wait_queue;
	unsigned placing;
	const struct broker *broker = wait_queues->broker;

	if (broker->stopped || amqp_channels_link(broker->channels) == NULL)
		return;
	wait_queues_raise(wait_queues);
	while ((wait_queue = TAILQ_FIRST(&wait_queues->turns)) != NULL &&
	       !timer_is_set(&wait_queues->retry)) {
		member = TAILQ_FIRST(&wait_queue->ready);
		if (!wait_queue_may_join(wait_queue)) {
			member_out(member, MEMBER_NO_CHANNEL);
			continue;
		}
		channel = amqp_consumers_find(&wait_queues->channels, wait_queue->queue,
		    member->suspect, wait_queues_have_room(broker->channels), &placing);
		if (channel != NULL) {
			TAILQ_REMOVE(&wait_queues->turns, wait_queue, in_turns);
			TAILQ_INSERT_TAIL(&wait_queues->turns, wait_queue, in_turns);
			member_join(member, channel);
		} else if (placing > 0) {
			break;
		} else if (member->suspect) {
			member_out(member, MEMBER_NO_CHANNEL);
		} else {
			timers_set(wait_queues->broker->timers, &wait_queues->retry,
			    broker_now(wait_queues->broker) + MEMBER_NO_CHANNEL);
		}
	}
	amqp_consumers_close_idle(&wait_queues->channels);
}

static void
member_on_again(void *ctx, uint64_t id)
{
	struct queue_member *member = ctx;

	(void)id;
	member_set_state(member, MEMBER_READY);
	amqp_wait_queues_place(member->wait_queue->wait_queues);
}

static void
wait_queues_on_retry(void *ctx, uint64_t id)
{
	(void)id;
	amqp_wait_queues_place(ctx);
}

/* ---- members, events ---- */

/* NULL: of no member any more. */
static struct queue_member *
wait_queues_find_consumer(const struct amqp_wait_queues *wait_queues, uint64_t consumer)
{
	struct queue_member *member;

	HASH_FIND(by_consumer, wait_queues->by_consumer, &consumer, sizeof(consumer), member);
	return member;
}

static struct queue_member *
wait_queues_find_placing(const struct amqp_wait_queues *wait_queues, uint64_t consumer)
{
	static const enum queue_member_state placing[] = {MEMBER_JOINING, MEMBER_RAISING};
	struct queue_member *member;

	for (size_t i = 0; i < 2; i++)
		TAILQ_FOREACH (member, &wait_queues->by_state[placing[i]], in_state)
			if (member->placing == consumer)
				return member;
	return NULL;
}

static void
member_placed(struct queue_member *member)
{
	struct amqp_wait_queues *wait_queues = member->wait_queue->wait_queues;
	bool joining = member->state == MEMBER_JOINING;

	/* The old consumer ends after the new one exists, so that the wait queue does not end. */
	FAULT_IF(NEW_CONSUMER_CANCELLED, !joining,
	    amqp_consumers_cancel(member->channel, member->placing, NULL));
	if (!joining) {
		amqp_consumers_cancel(member->channel, member->consumer, NULL);
		HASH_DELETE(by_consumer, wait_queues->by_consumer, member);
	}
	member->consumer = member->placing;
	HASH_ADD(by_consumer, wait_queues->by_consumer, consumer, sizeof(member->consumer), member);
	member->placing = 0;
	member->suspect = false;
	member_set_state(member, MEMBER_ON);
	member_want_credit(member);
	if (joining)
		member_tell(member, BROKER_WAIT_QUEUE_JOINED, 0);
}

static void
wait_queues_on_placed(void *ctx, uint64_t consumer)
{
	struct amqp_wait_queues *wait_queues = ctx;
	struct queue_member *member = wait_queues_find_placing(wait_queues, consumer);

	if (member != NULL)
		member_placed(member);
	amqp_wait_queues_place(wait_queues);
}

/* The wait queue was deleted. A member that changes its credit gets this for both consumers. */
static void
wait_queues_on_cancelled(void *ctx, uint64_t consumer)
{
	struct amqp_wait_queues *wait_queues = ctx;
	struct queue_member *member = wait_queues_find_consumer(wait_queues, consumer);

	if (member == NULL)
		return;
	member->channel->consumers--;
	if (member->placing != 0)
		member_cancel(member, member->placing);
	member_out(member, MEMBER_AGAIN);
	wait_queues_tell_lost(wait_queues);
	amqp_wait_queues_place(wait_queues);
}

/* A hint for a member that left goes to other consumers. */
static void
wait_queues_on_message(void *ctx, struct amqp_consumers *channel, uint64_t consumer)
{
	struct amqp_wait_queues *wait_queues = ctx;
	struct amqp_raw_channel *raw = &channel->raw;
	const struct queue_member *member = wait_queues_find_consumer(wait_queues, consumer);
	int slot = broker_hint_slot(raw->content.correlation_id);

	if (member == NULL) {
		amqp_raw_channel_reject(raw, raw->delivery);
		return;
	}
	FAULT(HINT_NOT_ACKED, member_tell(member, BROKER_WAIT_QUEUE_HINT, slot); return;);
	FAULT(FIRST_IS_ACKED, raw->delivery = 1);
	amqp_raw_channel_ack(raw, raw->delivery);
	member_tell(member, BROKER_WAIT_QUEUE_HINT, slot);
}

/* Takes all members of a closed channel out. */
static void
wait_queues_bury_channel(
    struct amqp_wait_queues *wait_queues, struct amqp_consumers *channel, int64_t again)
{
	struct queue_member *member, *next;

	for (enum queue_member_state state = MEMBER_JOINING; state <= MEMBER_RAISING; state++)
		TAILQ_FOREACH_SAFE (member, &wait_queues->by_state[state], in_state, next)
			if (member->channel == channel)
				member_out(member, again);
	amqp_consumers_free(channel);
}

/*
 * A refused member may lack the permission to consume. Or its wait queue ended between declare and
 * consume.
 */
static void
wait_queues_on_closed(
    void *ctx, struct amqp_consumers *channel, uint64_t unanswered, int code, const char *text)
{
	struct amqp_wait_queues *wait_queues = ctx;
	struct queue_member *member =
	    unanswered != 0 ? wait_queues_find_placing(wait_queues, unanswered) : NULL;
	bool joining = member != NULL && member->state == MEMBER_JOINING,
	     refused = joining && code != AMQP_NOT_FOUND;

	if (refused && !wait_queues->complained) {
		log_warning("the broker refused this daemon the wait queue: %s (%d)", text, code);
		wait_queues->complained = true;
	}
	if (member != NULL) {
		member->suspect = true;
		member_out(member, refused   ? MEMBER_RARELY
				   : joining ? MEMBER_AT_ONCE
					     : MEMBER_AGAIN);
	}
	/* First of all, so that no callback uses the channel. */
	wait_queues_bury_channel(
	    wait_queues, channel, unanswered != 0 ? MEMBER_AT_ONCE : MEMBER_AGAIN);
	wait_queues_tell_lost(wait_queues);
	amqp_wait_queues_place(wait_queues);
}

/* ---- members, outside ---- */

static struct wait_queue *
wait_queues_find(const struct amqp_wait_queues *wait_queues, const char *queue)
{
	struct wait_queue *wait_queue;

	HASH_FIND(by_queue, wait_queues->by_queue, queue, strlen(queue), wait_queue);
	return wait_queue;
}

static struct queue_member *
wait_queue_find_member(const struct wait_queue *wait_queue, int priority)
{
	struct queue_member *member;

	if (wait_queue == NULL)
		return NULL;
	HASH_FIND(by_priority, wait_queue->members, &priority, sizeof(priority), member);
	return member;
}

static struct queue_member *
member_new(struct amqp_wait_queues *wait_queues, const char *queue, int priority)
{
	struct queue_member *member = mem_alloc(sizeof(*member));
	struct wait_queue *wait_queue = wait_queues_find(wait_queues, queue);

	if (wait_queue == NULL) {
		wait_queue = mem_alloc(sizeof(*wait_queue));
		wait_queue->queue = mem_strdup(queue);
		wait_queue->wait_queues = wait_queues;
		TAILQ_INIT(&wait_queue->ready);
		HASH_ADD_KEYPTR(
		    by_queue, wait_queues->by_queue, wait_queue->queue, strlen(queue), wait_queue);
	}
	member->wait_queue = wait_queue;
	member->priority = priority;
	timer_init(&member->again, member_on_again, member, 0);
	HASH_ADD(by_priority, wait_queue->members, priority, sizeof(priority), member);
	wait_queues->count++;
	member_enlist(member, MEMBER_READY);
	return member;
}

static void
member_free(struct queue_member *member)
{
	struct wait_queue *wait_queue = member->wait_queue;
	struct amqp_wait_queues *wait_queues = wait_queue->wait_queues;

	if (member->consumer != 0)
		member_cancel(member, member->consumer);
	if (member->placing != 0)
		member_cancel(member, member->placing);
	member_forget_consumers(member);
	timers_cancel(wait_queues->broker->timers, &member->again);
	member_unlist(member);
	HASH_DELETE(by_priority, wait_queue->members, member);
	free(member);
	wait_queues->count--;
	if (wait_queue->members != NULL)
		return;
	HASH_DELETE(by_queue, wait_queues->by_queue, wait_queue);
	free(wait_queue->queue);
	free(wait_queue);
}

void
broker_wait_queue_join(struct broker *broker, const char *queue, int priority, unsigned credit)
{
	struct amqp_wait_queues *wait_queues = broker->wait_queues;
	struct queue_member *member =
	    wait_queue_find_member(wait_queues_find(wait_queues, queue), priority);

	if (broker->stopped)
		return;
	assert(credit > 0 && credit <= UINT16_MAX && strlen(queue) <= UINT8_MAX);
	if (member == NULL)
		member = member_new(wait_queues, queue, priority);
	member->credit = credit;
	member_want_credit(member);
	amqp_wait_queues_place(wait_queues);
	amqp_auxiliary_need(broker);
}

void
broker_wait_queue_leave(struct broker *broker, const char *queue, int priority)
{
	struct amqp_wait_queues *wait_queues = broker->wait_queues;
	struct queue_member *member =
	    wait_queue_find_member(wait_queues_find(wait_queues, queue), priority);

	amqp_auxiliary_use(broker);
	if (member == NULL)
		return;
	member_free(member);
	amqp_wait_queues_place(wait_queues);
}

bool
amqp_wait_queues_any(const struct amqp_wait_queues *wait_queues)
{
	return wait_queues->count > 0;
}

void
amqp_wait_queues_fail(struct amqp_wait_queues *wait_queues)
{
	struct amqp_consumers *channel;
	struct queue_member *member;

	wait_queues->complained = false;
	timers_cancel(wait_queues->broker->timers, &wait_queues->retry);
	while ((channel = TAILQ_FIRST(&wait_queues->channels.all)) != NULL)
		wait_queues_bury_channel(wait_queues, channel, MEMBER_AT_ONCE);
	/* These members join at once when the link is back. */
	TAILQ_FOREACH (member, &wait_queues->by_state[MEMBER_LOST], in_state)
		timers_cancel(wait_queues->broker->timers, &member->again);
	while ((member = TAILQ_FIRST(&wait_queues->by_state[MEMBER_RESTING])) != NULL) {
		timers_cancel(wait_queues->broker->timers, &member->again);
		member_set_state(member, MEMBER_READY);
	}
	wait_queues_tell_lost(wait_queues);
}

/* ---- members, life ---- */

struct amqp_wait_queues *
amqp_wait_queues_new(struct broker *broker)
{
	struct amqp_wait_queues *wait_queues = mem_alloc(sizeof(*wait_queues));

	wait_queues->broker = broker;
	TAILQ_INIT(&wait_queues->turns);
	wait_queues->channels = (struct amqp_consumers_set){
	    .broker = broker,
	    .letter = MEMBER_TAG,
	    .events = {.placed = wait_queues_on_placed,
		.cancelled = wait_queues_on_cancelled,
		.message = wait_queues_on_message,
		.closed = wait_queues_on_closed,
		.ctx = wait_queues},
	};
	TAILQ_INIT(&wait_queues->channels.all);
	for (enum queue_member_state state = 0; state < MEMBER_STATES; state++)
		TAILQ_INIT(&wait_queues->by_state[state]);
	timer_init(&wait_queues->retry, wait_queues_on_retry, wait_queues, 0);
	return wait_queues;
}

void
amqp_wait_queues_free(struct amqp_wait_queues *wait_queues)
{
	struct wait_queue *wait_queue, *next_line;
	struct queue_member *member, *next;

	amqp_wait_queues_fail(wait_queues);
	HASH_ITER (by_queue, wait_queues->by_queue, wait_queue, next_line)
		HASH_ITER (by_priority, wait_queue->members, member, next)
			member_free(member);
	free(wait_queues);
}

/* ---- hints ---- */

/* BROKER_HINT_TTL, in ms */
#define HINT_EXPIRATION "2000"
_Static_assert(BROKER_HINT_TTL == 2000 * INT64_C(1000000), "as HINT_EXPIRATION says");
/* The pause after a refusal, because each refusal closes the channel. */
#define HINT_MUTE (30 * NSEC_PER_SEC)

/*
 * A hint that is not sent yet: each queue and slot once, in the order in which they were first
 * owed.
 */
struct owed_hint {
	char *key; /* owned; "SLOT QUEUE" */
	int slot;
	TAILQ_ENTRY(owed_hint) entry;
	UT_hash_handle hh;
};

struct amqp_hints {
	struct broker *broker;           /* borrowed */
	struct owed_hint *owed;          /* owned; by key */
	TAILQ_HEAD(, owed_hint) in_turn; /* the same */
	struct amqp_raw_channel channel;
	char returned_from[UINT8_MAX + 1]; /* wait queue of the returned hint */
	int64_t mute_until;                /* clock time; no hint is sent before */
	bool complained;                   /* of being refused, on this link */
};

/* ---- hints, owed hints ---- */

static void
hint_free(struct amqp_hints *hints, struct owed_hint *hint)
{
	HASH_DEL(hints->owed, hint);
	TAILQ_REMOVE(&hints->in_turn, hint, entry);
	free(hint->key);
	free(hint);
}

static void
hint_add(struct amqp_hints *hints, const char *queue, int slot)
{
	char *key = mem_printf("%d %s", slot, queue);
	struct owed_hint *hint;

	HASH_FIND_STR(hints->owed, key, hint);
	if (hint != NULL) {
		free(key);
		return;
	}
	if (HASH_COUNT(hints->owed) >= BROKER_OWED_MAX)
		hint_free(hints, TAILQ_FIRST(&hints->in_turn));
	hint = mem_alloc(sizeof(*hint));
	hint->key = key;
	hint->slot = slot;
	HASH_ADD_KEYPTR(hh, hints->owed, hint->key, strlen(hint->key), hint);
	TAILQ_INSERT_TAIL(&hints->in_turn, hint, entry);
}

static void
hints_forget_all(struct amqp_hints *hints)
{
	while (!TAILQ_EMPTY(&hints->in_turn))
		hint_free(hints, TAILQ_FIRST(&hints->in_turn));
}

/* ---- hints, sending ---- */

static void
hint_publish(struct amqp_hints *hints, const char *queue, int slot)
{
	char digits[16];
	amqp_basic_publish_t fields = {.routing_key = amqp_cstring_bytes(queue), .mandatory = 1};
	amqp_basic_properties_t properties = {
	    ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_EXPIRATION_FLAG |
		      AMQP_BASIC_CORRELATION_ID_FLAG,
	    .delivery_mode = AMQP_DELIVERY_NONPERSISTENT,
	    .expiration = amqp_cstring_bytes(HINT_EXPIRATION),
	};

	snprintf(digits, sizeof(digits), "%d", slot);
	properties.correlation_id = amqp_cstring_bytes(digits);
	amqp_raw_channel_publish(&hints->channel, &fields, &properties, amqp_empty_bytes);
}

/* Hints on a dead link, whose end is not reported yet, would be lost. */
static bool
hints_can_send(const struct amqp_hints *hints)
{
	const struct broker *broker = hints->broker;
	const struct amqp_link *link = amqp_channels_link(broker->channels);

	return !broker->stopped && !broker->blocked && link != NULL && link->state == AMQP_LINK_UP;
}

void
amqp_hints_pay(struct amqp_hints *hints)
{
	struct owed_hint *hint;

	if (broker_now(hints->broker) < hints->mute_until)
		hints_forget_all(hints);
	while ((hint = TAILQ_FIRST(&hints->in_turn)) != NULL && hints_can_send(hints) &&
	       (hints->channel.number != 0 || amqp_raw_channel_open(&hints->channel, 0))) {
		hint_publish(hints, strchr(hint->key, ' ') + 1, hint->slot);
		hint_free(hints, hint);
	}
}

/* ---- hints, frames ---- */

static bool
hints_on_message(void *ctx)
{
	const struct amqp_hints *hints = ctx;
	const struct broker_events *events = &hints->broker->events;
	char *queue = mem_strdup(hints->returned_from);
	const struct broker_wait_queue_event event = {
	    .queue = queue,
	    .news = BROKER_WAIT_QUEUE_NOBODY,
	    .slot = broker_hint_slot(hints->channel.content.correlation_id),
	};

	if (events->wait_queue != NULL)
		events->wait_queue(events->ctx, &event);
	free(queue);
	return true;
}

static bool
hints_on_method(void *ctx, const struct amqp_frame *frame)
{
	struct amqp_hints *hints = ctx;
	const amqp_basic_return_t *back = frame->fields;

	if (frame->method != AMQP_BASIC_RETURN_METHOD || back->routing_key.len > UINT8_MAX)
		return false;
	snprintf(hints->returned_from, sizeof(hints->returned_from), "%.*s",
	    (int)back->routing_key.len, (const char *)back->routing_key.bytes);
	return amqp_raw_channel_announce(&hints->channel, 0);
}

static void
hints_on_closed(void *ctx, int code, const char *text)
{
	struct amqp_hints *hints = ctx;

	if (!hints->channel.blames)
		return; /* the next hint opens another channel */
	hints->mute_until = broker_now(hints->broker) + HINT_MUTE;
	if (!hints->complained)
		log_warning("the broker refused a hint to other daemons: %s (%d)", text, code);
	hints->complained = true;
}

/* ---- hints, outside ---- */

void
broker_wait_queue_wake(struct broker *broker, const char *queue, int slot)
{
	if (broker->stopped)
		return;
	hint_add(broker->hints, queue, slot);
	amqp_hints_pay(broker->hints);
	amqp_auxiliary_need(broker);
}

bool
broker_owes_hints(const struct broker *broker)
{
	return broker->hints->owed != NULL;
}

void
amqp_hints_fail(struct amqp_hints *hints)
{
	amqp_raw_channel_forget(&hints->channel);
	hints->complained = false;
	hints->mute_until = 0;
}

/* ---- hints, life ---- */

struct amqp_hints *
amqp_hints_new(struct broker *broker)
{
	static const struct amqp_raw_channel_events events = {
	    .method = hints_on_method, .message = hints_on_message, .closed = hints_on_closed};
	struct amqp_hints *hints = mem_alloc(sizeof(*hints));

	hints->broker = broker;
	TAILQ_INIT(&hints->in_turn);
	amqp_raw_channel_init(&hints->channel, broker->channels, &events, hints);
	return hints;
}

void
amqp_hints_free(struct amqp_hints *hints)
{
	amqp_hints_fail(hints);
	hints_forget_all(hints);
	free(hints);
}
