/*
 * The administration mutex of a semaphore (seeds/000), and that of the directory. It is an
 * exclusive queue that is claimed on the auxiliary connection, where the guarded work is done.
 * RabbitMQ arbitrates between connections. The administrators of one daemon share one connection,
 * which can declare its own queue again. They therefore wait here, in the order of their arrival,
 * while one of them has or claims the queue.
 *
 *	             405: another daemon has it
 *	        +------------------------------> BUSY ---+
 *	        |                                        | after a while
 *	   CLAIMING <------------------------------------+
 *	        |  declare-ok          mutex_drop()          delete-ok
 *	        +------------> OWNED --------------> DROPPING ---------> the next taker, or gone
 *
 * The end of the auxiliary connection ends OWNED. The owner is told, because another daemon may
 * have the mutex now.
 */
#ifndef LOCK_MUTEX_H
#define LOCK_MUTEX_H

#include "daemon/lock/core/engine.h"

/*
 * Maximum declares of the owner in flight: enough to keep the broker busy, few enough to stop soon
 * after an error.
 */
#define MUTEX_DECLARES_MOST 64

enum mutex_news {
	MUTEX_HELD,   /* the taker owns it, until mutex_drop() or MUTEX_LOST */
	MUTEX_FREE,   /* the last news: it is dropped, or gone with the connection */
	MUTEX_LOST,   /* the last news: it was owned, and the auxiliary connection died */
	MUTEX_REFUSED /* the last news: never owned; reason says why */
};

/* reason, text: only of REFUSED and LOST; text is borrowed. */
typedef void mutex_news_fn(struct lock_engine *engine, uint64_t id, enum mutex_news news,
    enum reason reason, const char *text);

/* A taker of a mutex. */
struct mutex_order {
	/*
	 * A number of the engine, of this taker alone. If it is an op's, and its deadline passes
	 * while another administrator has the mutex, the refusal says so.
	 */
	uint64_t id;
	/*
	 * Its work, for refusals of takers behind it: "a resize to 5". Borrowed until the last
	 * news.
	 */
	const char *what;
	mutex_news_fn *told;
};

/* Calls `told` later, never from inside. Has no deadline: the taker keeps one. */
void mutex_take(struct lock_engine *engine, const char *queue, const struct mutex_order *order);
/*
 * HELD: drops the mutex, after requests that were sent before. MUTEX_FREE comes when this is done.
 */
void mutex_drop(struct lock_engine *engine, uint64_t id);
/* Ends the taker in any state, without further news. A mutex that it owned is dropped. */
void mutex_leave(struct lock_engine *engine, uint64_t id);
/*
 * HELD: resets the auxiliary connection if the mutex is not dropped by that clock time, as after a
 * claim or a drop without an answer. Else no client of this daemon could have the mutex as long as
 * that connection lives. A later call replaces an earlier one.
 */
void mutex_drop_by(struct lock_engine *engine, uint64_t id, int64_t time);
/*
 * HELD: its channel of the auxiliary connection, for the guarded work; replaced if it was closed.
 * The mutex owns it.
 */
uint64_t mutex_channel(struct lock_engine *engine, uint64_t id);
/* HELD: an answer said that the channel is closed, and no request on it is unanswered. */
void mutex_channel_gone(struct lock_engine *engine, uint64_t id);

/*
 * Whether the taker owns its mutex. It does not if the auxiliary connection is dead: MUTEX_LOST came, or
 * comes.
 */
bool mutex_is_held(const struct lock_engine *engine, uint64_t id);

void mutex_channel_closed(struct lock_engine *engine, uint64_t channel);
/* The auxiliary connection died, after the answers to its requests. */
void mutex_link_died(struct lock_engine *engine, const char *why);
/* Frees all that is left at the engine's end. */
void mutex_free_all(struct lock_engine *engine);

#endif
