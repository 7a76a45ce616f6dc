/*
 * Who stands in wait lines: a member for each queue and priority, in the order in which they came, and
 * where each of them is. Its owner knows how one joins, and embeds struct line_member.
 *
 *	WAITING ---- link, and its time ----> JOINING ---- line_member_on: JOINED ----> ON
 *	   ^                                     |                                      |
 *	   +---- refused, put out, the link went: LEFT to who was ON (LOST) ------------+
 */
#ifndef BROKER_LINE_MEMBERS_H
#define BROKER_LINE_MEMBERS_H

#include <stdint.h>

#include <uthash.h>

#include "daemon/base/queue.h"
#include "daemon/base/timers.h"
#include "daemon/broker/broker.h"

enum line_member_state {
	LINE_MEMBER_WAITING, /* for the link, or for its time (again) */
	LINE_MEMBER_JOINING, /* its answer is to come */
	LINE_MEMBER_ON,      /* BROKER_LINE_JOINED was told */
	LINE_MEMBER_LOST     /* was ON, BROKER_LINE_LEFT is still to be told */
};

struct line_member {
	UT_hash_handle hh;
	TAILQ_ENTRY(line_member) entry;
	struct line_members *members; /* borrowed */
	char *key;                    /* owned; "PRIORITY QUEUE" */
	const char *queue;            /* in the key */
	int priority;
	unsigned credit; /* as wanted */
	enum line_member_state state;
	struct timer again;
};

struct line_members_events {
	/* It is its time: line_member_joining when there is a link, line_member_out to put it off. */
	void (*join)(void *ctx, struct line_member *member);
	/* Whoever hears it may add and remove members, this one too. */
	void (*news)(void *ctx, const struct broker_line_event *event);
	void *ctx; /* borrowed */
};

struct line_members {
	struct timers *timers; /* borrowed */
	struct line_members_events events;
	struct line_member *by_key;        /* their owner's to free */
	TAILQ_HEAD(, line_member) in_turn; /* the same */
};

void line_members_init(
    struct line_members *members, struct timers *timers, const struct line_members_events *events);
size_t line_members_count(const struct line_members *members);
/* NULL: there is none. */
struct line_member *line_members_find(
    const struct line_members *members, const char *queue, int priority);
/* WAITING. There must be none. */
void line_members_add(struct line_members *members, struct line_member *member, const char *queue,
    int priority, unsigned credit);
/* Takes it out: its owner frees it. */
void line_members_remove(struct line_member *member);

/* It tries. */
void line_member_joining(struct line_member *member);
void line_member_on(struct line_member *member);
/* Out of the line, if it was in; in again at that clock time. */
void line_member_out(struct line_member *member, int64_t again);
void line_member_tell(const struct line_member *member, enum broker_line_news news, int slot);

/* There is a link: who is WAITING joins. */
void line_members_join(struct line_members *members);
/* The link is gone: all are out of their lines, */
void line_members_lose(struct line_members *members);
/* and who was in is told so. */
void line_members_tell_lost(struct line_members *members);

#endif
