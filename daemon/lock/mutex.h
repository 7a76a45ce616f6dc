/*
 * The administration mutex (mutex_*), and three small works of the daemon that belong to mutexes. The daemon
 * raises the floor of the fences (fence_floor_*), and deletes the Bs of removed slots (removed_*). It declares
 * the posts of held mutexes by quorum (mutex_post_*). The module must not know which change an administrator
 * makes.
 */
#ifndef LOCK_MUTEX_H
#define LOCK_MUTEX_H

#include "daemon/lock/engine.h"

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

/*
 * The floor of all epochs, in the records (broker_records_floor()). A set that is made anew is above the
 * floor. A removed slot takes its counts with it. So does a mutex, which RabbitMQ deletes after an hour
 * without use. Before that, the floor must be above its fencing numbers. This module raises the floor in the
 * background, until it has succeeded.
 */

/* A maker of a mutex raises the floor by so much above its set. Each stands for 4,096 returns of a bead. */
#define FENCE_EPOCHS 4
/* This daemon has raised it to that. */
void fence_floor_rose(struct lock_engine *engine, uint64_t epoch);
/* The hold was granted. If it is a mutex that nears the floor, the floor rises. */
void fence_floor_granted(struct lock_engine *engine, const struct hold *hold);

/*
 * Removed slots that nobody holds any more: their Bs are deleted; durable ones under the administration
 * mutex of the name. An administrator that adds the slot again declares B before A. Without the mutex,
 * the delete could come between the two, and the slot would have no B.
 */

/* Deletes the B, unless A is there again, or B is held. fsck finds a B that stays. */
void removed_delete_holder(struct lock_engine *engine, const char *name, int slot);
/*
 * An administrator of this daemon removed the slot while B was in use. A holder that hears of that
 * before its release deletes B. B is also deleted here, after a moment, unless it is still held
 * then. A holder whose auxiliary connection is down hears of it late: fsck finds a B that it leaves.
 */
void removed_holder_in_use(struct lock_engine *engine, const char *name, int slot);
/*
 * The same of a slot by quorum with a removal in it: claims it, and deletes it with its B. Without a mutex: an
 * administrator that makes the slot again takes the removal out, as its only active consumer.
 */
void removed_delete_beads(struct lock_engine *engine, const char *name, int slot);
/* Nothing is in work. */
bool removed_is_quiet(const struct lock_engine *engine);

/*
 * The posts of held mutexes by quorum (broker_declare_post()). RabbitMQ deletes a post some time after its last
 * use. So posts are declared again while their mutexes are held.
 */

/* The hold was granted, or taken over. */
void mutex_post_granted(struct lock_engine *engine, const struct hold *hold);

void mutex_init(struct lock_engine *engine);
/* Frees all that is left at the engine's end. */
void mutex_done(struct lock_engine *engine);

#endif
