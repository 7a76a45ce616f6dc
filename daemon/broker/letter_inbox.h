/*
 * Where a daemon's inbox is: whether it is wanted, by who answers or for a time by who asks, and its way
 * from closed to open and back. Its owner knows how one is opened.
 *
 *	CLOSED ---- wanted ----> WAITING ---- link, and its time ----> OPENING ----> OPEN
 *	   ^                      ^    |                                  |            |
 *	   |                      +----)---- lost, refused, the link went +------------+
 *	   +---- not wanted any more --+----------------------------------+------------+
 */
#ifndef BROKER_LETTER_INBOX_H
#define BROKER_LETTER_INBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/timers.h"

enum letter_inbox_state {
	LETTER_INBOX_CLOSED,
	LETTER_INBOX_WAITING, /* for the link, or for its time to be opened again */
	LETTER_INBOX_OPENING, /* the answer is to come */
	LETTER_INBOX_OPEN
};

struct letter_inbox_events {
	/* It is its time: letter_inbox_opening when there is a link, letter_inbox_later to put it off. */
	void (*open)(void *ctx);
	/* It is not wanted any more; nobody may have opened it. */
	void (*close)(void *ctx);
	void *ctx; /* borrowed */
};

struct letter_inbox {
	struct timers *timers; /* borrowed */
	struct letter_inbox_events events;
	enum letter_inbox_state state;
	bool wanted;         /* by letter_inbox_want() */
	struct timer asking; /* wanted by one who asks, until then */
	struct timer again;
};

void letter_inbox_init(
    struct letter_inbox *inbox, struct timers *timers, const struct letter_inbox_events *events);
/* CLOSED, without a word to anybody. */
void letter_inbox_clear(struct letter_inbox *inbox);

void letter_inbox_want(struct letter_inbox *inbox, bool wanted);
/* By one who asks, until that clock time. */
void letter_inbox_want_until(struct letter_inbox *inbox, int64_t until);

void letter_inbox_opening(struct letter_inbox *inbox);
void letter_inbox_opened(struct letter_inbox *inbox);
/* It is lost, or could not be opened: again at that clock time. */
void letter_inbox_later(struct letter_inbox *inbox, int64_t again);

void letter_inbox_link_up(struct letter_inbox *inbox);
void letter_inbox_link_down(struct letter_inbox *inbox);

#endif
