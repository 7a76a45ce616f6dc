/*
 * The true mutexes that each user has at the broker, if they are held by consumer or by quorum. Their Bs
 * are durable queues, which the broker must keep for some time after their last use (way.h, leaves_b). So
 * a user may use only `max_mutexes_per_uid` of them.
 *
 * A mutex counts for each user that holds it here, from its claim until its B has ended at the latest.
 * A user can acquire it again in that time, and it then counts on. It makes no difference who has made
 * the B: otherwise two users could keep the Bs of each other. Exempt clients are not counted.
 */
#ifndef LOCK_USED_MUTEXES_H
#define LOCK_USED_MUTEXES_H

#include "daemon/lock/core/engine.h"

/*
 * Why the user may not use that mutex now, in words; NULL: it may. share: NULL is an exempt client's.
 */
const char *used_mutexes_lacking(const struct lock_engine *engine, const struct share *share,
    const char *name, char text[LOCK_LACKING_MAX]);
/* The hold is charged to the user, or not any more. Holds of another way do not count. */
void used_mutexes_begin(struct lock_engine *engine, const struct hold *hold, uid_t uid);
void used_mutexes_end(struct lock_engine *engine, const struct hold *hold, uid_t uid);
void used_mutexes_done(struct lock_engine *engine);

#endif
