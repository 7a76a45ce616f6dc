/*
 * The administration mutex of a semaphore (seeds/000), and that of the directory: an exclusive queue,
 * claimed on the auxiliary connection, as what it guards is done there. Between connections RabbitMQ arbitrates.
 * The administrators of one daemon share the auxiliary connection, on which each could declare the queue again:
 * of a queue that one of them has or claims, the others stand in the queue here, in the order in which they
 * came.
 *
 *	             405: another daemon has it
 *	        +------------------------------> BUSY ---+
 *	        |                                        | after a while
 *	   CLAIMING <------------------------------------+
 *	        |  declare-ok          mutex_drop()          delete-ok
 *	        +------------> OWNED --------------> DROPPING ---------> the next in the queue, or gone
 *
 * The auxiliary connection's death ends it from OWNED, and its owner is told so: somebody else may have it now.
 */
#ifndef LOCK_MUTEX_H
#define LOCK_MUTEX_H

#include "daemon/lock/core/engine.h"

/*
 * Declares in flight at once of whoever has it: enough to keep the broker busy, few enough to stop soon
 * after an error.
 */
#define MUTEX_DECLARES_MOST 64

enum mutex_news {
	MUTEX_HELD, /* it is the taker's, until mutex_drop() or MUTEX_LOST */
	MUTEX_FREE, /* dropped, or gone with its link; the last that is told */
	/* The last that is told, too: nothing is held */
	MUTEX_LOST, /* it was held, and the auxiliary connection died */
	MUTEX_REFUSED /* never held: the broker will not have it, or cannot be reached; see the reason */
};

/* reason, text: of REFUSED and LOST; text is borrowed. */
typedef void mutex_news_fn(struct lock_engine *engine, uint64_t id, enum mutex_news news,
    enum reason reason, const char *text);

/* Who wants a mutex. */
struct mutex_order {
	/*
	 * A number of the engine's that is the taker's alone. When it is an op's, a deadline that passes
	 * while another administrator is at work says so.
	 */
	uint64_t id;
	/* Borrowed until the last news: what goes on, for those who wait: "a resize to 5" */
	const char *what;
	mutex_news_fn *told;
};

/* It is `told` later how that went, never from inside. It waits for ever: deadlines are the taker's. */
void mutex_take(struct lock_engine *engine, const char *queue, const struct mutex_order *order);
/* Lets go of what is HELD; MUTEX_FREE comes when that is done. What else is asked is sent before. */
void mutex_drop(struct lock_engine *engine, uint64_t id);
/* The taker goes, from any state; it is told nothing more. What it had is dropped. */
void mutex_leave(struct lock_engine *engine, uint64_t id);
/*
 * HELD: what was asked on its channel is not answered in time. It ends with the auxiliary connection, as a
 * claim and a drop do that are not answered, or nobody here could have it as long as the link lives.
 */
void mutex_overdue(struct lock_engine *engine, uint64_t id);
/*
 * HELD: the channel of the auxiliary connection on which it is held, for the work that it guards; made anew when it
 * was closed. Not to be put back.
 */
uint64_t mutex_channel(struct lock_engine *engine, uint64_t id);
/* HELD: an answer said that the channel is closed, and nothing is unanswered on it. */
void mutex_channel_gone(struct lock_engine *engine, uint64_t id);

void mutex_channel_closed(struct lock_engine *engine, uint64_t channel);
/* The auxiliary connection died; what was asked on it has been answered. */
void mutex_link_died(struct lock_engine *engine, const char *why);
/* Frees what is left; the engine goes. */
void mutex_free_all(struct lock_engine *engine);

#endif
