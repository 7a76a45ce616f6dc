/*
 * The posts of held mutexes by quorum (broker_declare_post()). RabbitMQ deletes a post some time after its last
 * use. So posts are declared again while their mutexes are held.
 */
#ifndef LOCK_MUTEX_POST_H
#define LOCK_MUTEX_POST_H

#include "daemon/lock/core/engine.h"

/* The hold was granted, or taken over. */
void mutex_post_granted(struct lock_engine *engine, const struct hold *hold);
void mutex_post_init(struct lock_engine *engine);
void mutex_post_done(struct lock_engine *engine);

#endif
