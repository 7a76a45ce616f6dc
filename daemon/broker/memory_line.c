#include "daemon/broker/memory_line.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/memory_post.h"
#include "daemon/broker/owed_hints.h"

enum member_state {
	MEMBER_WAITING, /* for the link, or for its time to join again */
	MEMBER_SENT,    /* it joins */
	MEMBER_ON,      /* BROKER_LINE_JOINED was told */
	MEMBER_LOST     /* was ON: BROKER_LINE_LEFT is still to be told */
};

struct member {
	struct memory_lines *lines; /* borrowed */
	char *key;                  /* owned; "PRIORITY QUEUE" */
	const char *queue;          /* in the key */
	int priority;
	unsigned credit;
	enum member_state state;
	uint64_t lane;      /* SENT, ON; else 0 */
	struct timer again; /* WAITING though the link is up */
	TAILQ_ENTRY(member) entry;
	UT_hash_handle hh, hh_lane;
};

/* A hint on its way. */
struct wake {
	struct memory_lines *lines; /* borrowed */
	uint64_t lane;
	char *queue; /* owned */
	int slot;
	UT_hash_handle hh;
};

struct memory_lines {
	struct memory_broker *broker;         /* borrowed */
	struct memory_connection *connection; /* borrowed; NULL: the link is not up */
	struct member *by_key;                /* owned */
	struct member *by_lane;               /* those of them that have one */
	TAILQ_HEAD(, member) in_turn;         /* the same, in the order in which they came */
	struct owed_hints *owed;              /* owned */
	struct wake *wakes;                   /* owned; by lane */
	struct memory_alarm alarm;
	struct memory_hearer hearer;
};

static int64_t
now_of(const struct memory_lines *lines)
{
	return clock_now(timers_clock(lines->broker->timers));
}

static struct member *
member_find(const struct memory_lines *lines, const char *queue, int priority)
{
	char *key = mem_printf("%d %s", priority, queue);
	struct member *member;

	HASH_FIND_STR(lines->by_key, key, member);
	free(key);
	return member;
}

static struct member *
member_on_lane(const struct memory_lines *lines, uint64_t lane)
{
	struct member *member;

	HASH_FIND(hh_lane, lines->by_lane, &lane, sizeof(lane), member);
	return member;
}

static void
member_set_state(struct member *member, enum member_state state)
{
	switch (state) {
	case MEMBER_WAITING:
		assert(member->state != MEMBER_ON);
		break;
	case MEMBER_SENT:
		assert(member->state == MEMBER_WAITING);
		break;
	case MEMBER_ON:
		assert(member->state == MEMBER_SENT);
		break;
	case MEMBER_LOST:
		assert(member->state == MEMBER_ON);
		break;
	}
	member->state = state;
}

static void
member_forget_lane(struct member *member)
{
	if (member->lane == 0)
		return;
	HASH_DELETE(hh_lane, member->lines->by_lane, member);
	member->lane = 0;
}

static void
member_free(struct member *member)
{
	struct memory_lines *lines = member->lines;

	timers_cancel(lines->broker->timers, &member->again);
	member_forget_lane(member);
	HASH_DEL(lines->by_key, member);
	TAILQ_REMOVE(&lines->in_turn, member, entry);
	free(member->key);
	free(member);
}

/* Whoever hears it may remove any member, or all. */
static void
tell(const struct memory_lines *lines, const struct broker_line_event *event)
{
	const struct broker_events *events = &lines->broker->base.events;

	if (events->line != NULL)
		events->line(events->ctx, event);
}

static void
member_tell(const struct member *member, enum broker_line_news news, int slot)
{
	char *queue = mem_strdup(member->queue);

	tell(member->lines,
	    &(struct broker_line_event){
		.queue = queue, .priority = member->priority, .news = news, .slot = slot});
	free(queue);
}

/* ---- joining ---- */

/* Its lane is not its own any more: out of the line, and in again after a while. The listener is told. */
static void
member_out(struct member *member, int64_t again)
{
	struct memory_lines *lines = member->lines;
	bool was_on = member->state == MEMBER_ON;

	member_forget_lane(member);
	if (was_on)
		member_set_state(member, MEMBER_LOST);
	member_set_state(member, MEMBER_WAITING);
	timers_set(lines->broker->timers, &member->again,
	    now_of(lines) + again + memory_world_delay(lines->broker->world));
	if (was_on)
		member_tell(member, BROKER_LINE_LEFT, 0);
}

static void
on_asked(void *ctx, uint64_t lane, const struct broker_reply *reply)
{
	struct member *member = member_on_lane(ctx, lane);

	/* It left (whoever did that puts the lane back), or lost its link. */
	if (member == NULL)
		return;
	if (!reply->lane_open) {
		broker_lane_put((struct broker *)member->lines->broker, lane);
		member_out(member,
		    reply->answer == BROKER_SKIPPED ? MEMORY_LINE_AGAIN : MEMORY_LINE_RARELY);
	} else if (member->state == MEMBER_SENT) {
		member_set_state(member, MEMBER_ON);
		member_tell(member, BROKER_LINE_JOINED, 0);
	}
}

static void
member_ask(struct member *member, enum memory_method method)
{
	const struct memory_call call = {.lane = member->lane,
	    .method = method,
	    .queue = member->queue,
	    .priority = member->priority,
	    .credit = member->credit};

	memory_broker_request(member->lines->broker, &call,
	    (struct broker_done){.fn = on_asked, .ctx = member->lines, .id = member->lane});
}

static void
member_send(struct member *member)
{
	struct memory_lines *lines = member->lines;

	member_set_state(member, MEMBER_SENT);
	member->lane = broker_lane_take((struct broker *)lines->broker, BROKER_SIDE);
	HASH_ADD(hh_lane, lines->by_lane, lane, sizeof(member->lane), member);
	memory_connection_lane_hear(lines->connection, member->lane, &lines->hearer);
	member_ask(member, MEMORY_LINE_JOIN);
}

static void
on_again(void *ctx, uint64_t id)
{
	(void)id;
	member_send(ctx);
}

/* ---- leaving ---- */

static void
on_left(void *ctx, uint64_t lane, const struct broker_reply *reply)
{
	const struct memory_lines *lines = ctx;

	(void)reply;
	broker_lane_put((struct broker *)lines->broker, lane);
}

static void
lane_leave(struct memory_lines *lines, uint64_t lane, const char *queue)
{
	const struct memory_call call = {.lane = lane, .method = MEMORY_LINE_LEAVE, .queue = queue};

	memory_connection_lane_hear(lines->connection, lane, NULL);
	memory_broker_request(
	    lines->broker, &call, (struct broker_done){.fn = on_left, .ctx = lines, .id = lane});
}

/* ---- what comes on its lane ---- */

/* A body that is no number is somebody else's, and means as much: look. */
static void
on_arrived(void *ctx, uint64_t lane, const struct memory_message *message)
{
	const struct member *member = member_on_lane(ctx, lane);

	if (member != NULL)
		member_tell(member, BROKER_LINE_HINT, broker_hint_slot(message->body));
}

/* The queue was deleted. Its lane is fit for use, but a new one is taken for each try. */
static void
on_cancelled(void *ctx, uint64_t lane)
{
	struct memory_lines *lines = ctx;
	struct member *member = member_on_lane(lines, lane);

	if (member == NULL)
		return;
	lane_leave(lines, lane, member->queue);
	member_out(member, MEMORY_LINE_AGAIN);
}

static void
on_closed(void *ctx, uint64_t lane)
{
	struct member *member = member_on_lane(ctx, lane);

	if (member == NULL)
		return;
	broker_lane_put((struct broker *)member->lines->broker, lane);
	member_out(member, MEMORY_LINE_AGAIN);
}

/* ---- hints ---- */

static void
wake_free(struct wake *wake)
{
	HASH_DEL(wake->lines->wakes, wake);
	free(wake->queue);
	free(wake);
}

/* Nobody is told of one that was lost with the link: it may have been delivered. */
static void
on_sent(void *ctx, uint64_t lane, const struct broker_reply *reply)
{
	const struct memory_lines *lines = ctx;
	struct wake *wake;
	char *queue;
	int slot;

	broker_lane_put((struct broker *)lines->broker, lane);
	HASH_FIND(hh, lines->wakes, &lane, sizeof(lane), wake);
	queue = wake->queue;
	slot = wake->slot;
	wake->queue = NULL;
	wake_free(wake);
	if (reply->answer == BROKER_ABSENT)
		tell(lines, &(struct broker_line_event){
				.queue = queue, .news = BROKER_LINE_NOBODY, .slot = slot});
	free(queue);
}

static void
send_hint(struct memory_lines *lines, const char *queue, int slot)
{
	struct memory_call call = {.method = MEMORY_LINE_WAKE, .queue = queue, .slot = slot};
	struct wake *wake = mem_alloc(sizeof(*wake));

	call.lane = broker_lane_take((struct broker *)lines->broker, BROKER_SIDE);
	wake->lines = lines;
	wake->lane = call.lane;
	wake->queue = mem_strdup(queue);
	wake->slot = slot;
	HASH_ADD(hh, lines->wakes, lane, sizeof(wake->lane), wake);
	memory_broker_request(lines->broker, &call,
	    (struct broker_done){.fn = on_sent, .ctx = lines, .id = call.lane});
}

static void
pay(struct memory_lines *lines)
{
	char *queue;
	int slot;

	if (lines->connection == NULL || memory_world_blocked(lines->broker->world))
		return;
	while ((queue = owed_hints_take(lines->owed, &slot)) != NULL) {
		send_hint(lines, queue, slot);
		free(queue);
	}
}

static void
on_alarm_over(struct memory_alarm *alarm)
{
	pay((struct memory_lines *)(void *)((char *)alarm - offsetof(struct memory_lines, alarm)));
}

void
memory_lines_wake(struct memory_lines *lines, const char *queue, int slot)
{
	owed_hints_add(lines->owed, queue, slot);
	pay(lines);
}

/* ---- outside ---- */

bool
memory_lines_want_link(const struct memory_lines *lines)
{
	return lines->by_key != NULL || owed_hints_count(lines->owed) > 0;
}

size_t
memory_lines_count(const struct memory_lines *lines)
{
	return HASH_COUNT(lines->by_key);
}

void
memory_lines_join(struct memory_lines *lines, const char *queue, int priority, unsigned credit)
{
	struct member *member = member_find(lines, queue, priority);

	if (member != NULL) {
		if (member->lane != 0 && member->credit != credit) {
			member->credit = credit;
			member_ask(member, MEMORY_LINE_CREDIT);
		}
		member->credit = credit;
		return;
	}
	member = mem_alloc(sizeof(*member));
	member->lines = lines;
	member->key = mem_printf("%d %s", priority, queue);
	member->queue = strchr(member->key, ' ') + 1;
	member->priority = priority;
	member->credit = credit;
	timer_init(&member->again, on_again, member, 0);
	HASH_ADD_KEYPTR(hh, lines->by_key, member->key, strlen(member->key), member);
	TAILQ_INSERT_TAIL(&lines->in_turn, member, entry);
	if (lines->connection != NULL)
		member_send(member);
}

void
memory_lines_leave(struct memory_lines *lines, const char *queue, int priority)
{
	struct member *member = member_find(lines, queue, priority);
	uint64_t lane;

	if (member == NULL)
		return;
	lane = member->lane;
	member_free(member);
	if (lane != 0)
		lane_leave(lines, lane, queue);
}

void
memory_lines_up(struct memory_lines *lines, struct memory_connection *connection)
{
	struct member *member;

	lines->connection = connection;
	TAILQ_FOREACH (member, &lines->in_turn, entry)
		member_send(member);
	pay(lines);
}

void
memory_lines_down(struct memory_lines *lines)
{
	struct member *member;

	lines->connection = NULL;
	TAILQ_FOREACH (member, &lines->in_turn, entry) {
		timers_cancel(lines->broker->timers, &member->again);
		member_forget_lane(member);
		member_set_state(member, member->state == MEMBER_ON ? MEMBER_LOST : MEMBER_WAITING);
	}
}

static struct member *
first_lost(const struct memory_lines *lines)
{
	struct member *member;

	TAILQ_FOREACH (member, &lines->in_turn, entry) {
		if (member->state == MEMBER_LOST)
			break;
	}
	return member;
}

void
memory_lines_tell(struct memory_lines *lines)
{
	struct member *member;

	while ((member = first_lost(lines)) != NULL) {
		member_set_state(member, MEMBER_WAITING);
		member_tell(member, BROKER_LINE_LEFT, 0);
	}
}

struct memory_lines *
memory_lines_new(struct memory_broker *broker)
{
	struct memory_lines *lines = mem_alloc(sizeof(*lines));

	lines->broker = broker;
	lines->owed = owed_hints_new();
	lines->hearer = (struct memory_hearer){
	    .arrived = on_arrived, .cancelled = on_cancelled, .closed = on_closed, .ctx = lines};
	lines->alarm.over = on_alarm_over;
	memory_alarm_heed(broker->world, &lines->alarm);
	TAILQ_INIT(&lines->in_turn);
	return lines;
}

void
memory_lines_clear(struct memory_lines *lines)
{
	struct member *member;
	struct wake *wake, *next;

	lines->connection = NULL;
	HASH_ITER (hh, lines->wakes, wake, next) {
		wake_free(wake);
	}
	while ((member = TAILQ_FIRST(&lines->in_turn)) != NULL)
		member_free(member);
	owed_hints_clear(lines->owed);
}

void
memory_lines_free(struct memory_lines *lines)
{
	memory_lines_clear(lines);
	memory_alarm_ignore(lines->broker->world, &lines->alarm);
	owed_hints_free(lines->owed);
	free(lines);
}
