#include "daemon/broker/line_members.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"

static void
member_set_state(struct line_member *member, enum line_member_state state)
{
	switch (state) {
	case LINE_MEMBER_WAITING:
		assert(member->state != LINE_MEMBER_ON);
		break;
	case LINE_MEMBER_JOINING:
		assert(member->state == LINE_MEMBER_WAITING);
		break;
	case LINE_MEMBER_ON:
		assert(member->state == LINE_MEMBER_JOINING);
		break;
	case LINE_MEMBER_LOST:
		assert(member->state == LINE_MEMBER_ON);
		break;
	}
	member->state = state;
}

static char *
key_of(const char *queue, int priority)
{
	return mem_printf("%d %s", priority, queue);
}

void
line_member_tell(const struct line_member *member, enum broker_line_news news, int slot)
{
	const struct line_members_events *events = &member->members->events;
	char *queue = mem_strdup(member->queue);

	events->news(events->ctx,
	    &(struct broker_line_event){
		.queue = queue, .priority = member->priority, .news = news, .slot = slot});
	free(queue);
}

/* ---- one member's way ---- */

static void
on_again(void *ctx, uint64_t id)
{
	struct line_member *member = ctx;

	(void)id;
	member->members->events.join(member->members->events.ctx, member);
}

void
line_member_joining(struct line_member *member)
{
	timers_cancel(member->members->timers, &member->again);
	member_set_state(member, LINE_MEMBER_JOINING);
}

void
line_member_on(struct line_member *member)
{
	member_set_state(member, LINE_MEMBER_ON);
	line_member_tell(member, BROKER_LINE_JOINED, 0);
}

void
line_member_out(struct line_member *member, int64_t again)
{
	bool was_on = member->state == LINE_MEMBER_ON;

	if (was_on)
		member_set_state(member, LINE_MEMBER_LOST);
	member_set_state(member, LINE_MEMBER_WAITING);
	timers_set(member->members->timers, &member->again, again);
	if (was_on)
		line_member_tell(member, BROKER_LINE_LEFT, 0);
}

/* ---- all of them ---- */

void
line_members_init(
    struct line_members *members, struct timers *timers, const struct line_members_events *events)
{
	*members = (struct line_members){.timers = timers, .events = *events};
	TAILQ_INIT(&members->in_turn);
}

size_t
line_members_count(const struct line_members *members)
{
	return HASH_COUNT(members->by_key);
}

struct line_member *
line_members_find(const struct line_members *members, const char *queue, int priority)
{
	char *key = key_of(queue, priority);
	struct line_member *member;

	HASH_FIND_STR(members->by_key, key, member);
	free(key);
	return member;
}

void
line_members_add(struct line_members *members, struct line_member *member, const char *queue,
    int priority, unsigned credit)
{
	member->members = members;
	member->key = key_of(queue, priority);
	member->queue = strchr(member->key, ' ') + 1;
	member->priority = priority;
	member->credit = credit;
	member->state = LINE_MEMBER_WAITING;
	timer_init(&member->again, on_again, member, 0);
	HASH_ADD_KEYPTR(hh, members->by_key, member->key, strlen(member->key), member);
	TAILQ_INSERT_TAIL(&members->in_turn, member, entry);
}

void
line_members_remove(struct line_member *member)
{
	struct line_members *members = member->members;

	timers_cancel(members->timers, &member->again);
	HASH_DEL(members->by_key, member);
	TAILQ_REMOVE(&members->in_turn, member, entry);
	free(member->key);
}

void
line_members_join(struct line_members *members)
{
	struct line_member *member;

	/* Nothing of this is told to anybody now. */
	TAILQ_FOREACH (member, &members->in_turn, entry) {
		if (member->state == LINE_MEMBER_WAITING)
			members->events.join(members->events.ctx, member);
	}
}

void
line_members_lose(struct line_members *members)
{
	struct line_member *member;

	TAILQ_FOREACH (member, &members->in_turn, entry) {
		timers_cancel(members->timers, &member->again);
		member_set_state(member,
		    member->state == LINE_MEMBER_ON ? LINE_MEMBER_LOST : LINE_MEMBER_WAITING);
	}
}

static struct line_member *
first_lost(const struct line_members *members)
{
	struct line_member *member;

	TAILQ_FOREACH (member, &members->in_turn, entry) {
		if (member->state == LINE_MEMBER_LOST)
			break;
	}
	return member;
}

void
line_members_tell_lost(struct line_members *members)
{
	struct line_member *member;

	while ((member = first_lost(members)) != NULL) {
		member_set_state(member, LINE_MEMBER_WAITING);
		line_member_tell(member, BROKER_LINE_LEFT, 0);
	}
}
