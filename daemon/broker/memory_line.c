#include "daemon/broker/memory_line.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "daemon/base/mem.h"
#include "daemon/broker/line_members.h"
#include "daemon/broker/memory_post.h"
#include "daemon/broker/owed_hints.h"

struct member {
	struct line_member base;
	struct memory_lines *lines; /* borrowed */
	uint64_t lane;              /* JOINING, ON; else 0 */
	UT_hash_handle hh_lane;
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
	struct line_members members;          /* owned */
	struct member *by_lane;               /* those of them that have a lane */
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
member_on_lane(const struct memory_lines *lines, uint64_t lane)
{
	struct member *member;

	HASH_FIND(hh_lane, lines->by_lane, &lane, sizeof(lane), member);
	return member;
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
	member_forget_lane(member);
	line_members_remove(&member->base);
	free(member);
}

static void
on_news(void *ctx, const struct broker_line_event *event)
{
	const struct memory_lines *lines = ctx;
	const struct broker_events *events = &lines->broker->base.events;

	if (events->line != NULL)
		events->line(events->ctx, event);
}

/* ---- joining ---- */

/* Its lane is not its own any more. In again after a while. */
static void
member_out(struct member *member, int64_t again)
{
	struct memory_lines *lines = member->lines;

	member_forget_lane(member);
	line_member_out(
	    &member->base, now_of(lines) + again + memory_world_delay(lines->broker->world));
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
	} else if (member->base.state == LINE_MEMBER_JOINING) {
		line_member_on(&member->base);
	}
}

static void
member_ask(struct member *member, enum memory_method method)
{
	const struct memory_call call = {.lane = member->lane,
	    .method = method,
	    .queue = member->base.queue,
	    .priority = member->base.priority,
	    .credit = member->base.credit};

	memory_broker_request(member->lines->broker, &call,
	    (struct broker_done){.fn = on_asked, .ctx = member->lines, .id = member->lane});
}

static void
on_join(void *ctx, struct line_member *base)
{
	struct memory_lines *lines = ctx;
	struct member *member = (struct member *)base;

	if (lines->connection == NULL)
		return;
	line_member_joining(base);
	member->lane = broker_lane_take((struct broker *)lines->broker, BROKER_SIDE);
	HASH_ADD(hh_lane, lines->by_lane, lane, sizeof(member->lane), member);
	memory_connection_lane_hear(lines->connection, member->lane, &lines->hearer);
	member_ask(member, MEMORY_LINE_JOIN);
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
		line_member_tell(&member->base, BROKER_LINE_HINT, broker_hint_slot(message->body));
}

/* The queue was deleted. Its lane is fit for use, but a new one is taken for each try. */
static void
on_cancelled(void *ctx, uint64_t lane)
{
	struct memory_lines *lines = ctx;
	struct member *member = member_on_lane(lines, lane);

	if (member == NULL)
		return;
	lane_leave(lines, lane, member->base.queue);
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
	struct memory_lines *lines = ctx;
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
		on_news(lines, &(struct broker_line_event){
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
	return line_members_count(&lines->members) > 0 || owed_hints_count(lines->owed) > 0;
}

size_t
memory_lines_count(const struct memory_lines *lines)
{
	return line_members_count(&lines->members);
}

void
memory_lines_join(struct memory_lines *lines, const char *queue, int priority, unsigned credit)
{
	struct member *member =
	    (struct member *)line_members_find(&lines->members, queue, priority);

	if (member != NULL) {
		bool differs = member->base.credit != credit;

		member->base.credit = credit;
		if (member->lane != 0 && differs)
			member_ask(member, MEMORY_LINE_CREDIT);
		return;
	}
	member = mem_alloc(sizeof(*member));
	member->lines = lines;
	line_members_add(&lines->members, &member->base, queue, priority, credit);
	on_join(lines, &member->base);
}

void
memory_lines_leave(struct memory_lines *lines, const char *queue, int priority)
{
	struct member *member =
	    (struct member *)line_members_find(&lines->members, queue, priority);
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
	lines->connection = connection;
	line_members_join(&lines->members);
	pay(lines);
}

void
memory_lines_down(struct memory_lines *lines)
{
	struct line_member *member;

	lines->connection = NULL;
	TAILQ_FOREACH (member, &lines->members.in_turn, entry)
		member_forget_lane((struct member *)member);
	line_members_lose(&lines->members);
}

void
memory_lines_tell(struct memory_lines *lines)
{
	line_members_tell_lost(&lines->members);
}

struct memory_lines *
memory_lines_new(struct memory_broker *broker)
{
	struct memory_lines *lines = mem_alloc(sizeof(*lines));
	const struct line_members_events events = {.join = on_join, .news = on_news, .ctx = lines};

	lines->broker = broker;
	lines->owed = owed_hints_new();
	lines->hearer = (struct memory_hearer){
	    .arrived = on_arrived, .cancelled = on_cancelled, .closed = on_closed, .ctx = lines};
	lines->alarm.over = on_alarm_over;
	memory_alarm_heed(broker->world, &lines->alarm);
	line_members_init(&lines->members, broker->timers, &events);
	return lines;
}

void
memory_lines_clear(struct memory_lines *lines)
{
	struct line_member *member;
	struct wake *wake, *next;

	lines->connection = NULL;
	HASH_ITER (hh, lines->wakes, wake, next) {
		wake_free(wake);
	}
	while ((member = TAILQ_FIRST(&lines->members.in_turn)) != NULL)
		member_free((struct member *)member);
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
