/*
 * Conversion of a semaphore from slots with As to slots by quorum, and back. A part of fsck.c, which owns the
 * request, the mutex and the wait for busy slots. The two other ways differ in B alone: fsck.c.
 *
 *	to quorum		write the record; make all slots; declare the gate; claim each slot with an
 *				A, and delete A, from the highest down
 *	to As			claim and delete each slot, from the highest down; declare the As that the
 *				record counts; remove the record; delete the gate
 *
 * At each time clients find slots of one kind: As come first, and slots by quorum are behind the gate. A slot is
 * claimed before it goes, and those of the other kind are found when all are gone. So there are never more
 * holders than slots. A daemon of version 0.1 sees the As, or a gate. A slot in use stays, and with it those
 * below, so that there is no gap. Meanwhile the semaphore has fewer slots.
 *
 * The next fsck finds a conversion that was cut, and a repair completes it (fsck_quorum.h). As beside slots by
 * quorum go. Slots by quorum that the record counts are made again. A record beside As alone goes, after the As
 * that it counts have been declared.
 */
#ifndef LOCK_FSCK_CONVERT_H
#define LOCK_FSCK_CONVERT_H

#include "daemon/lock/admin/fsck_core.h"

/* One pass. `then` goes on. Nothing was done, unless fsck->changed is true. */
void fsck_convert_to_quorum(struct lock_engine *engine, struct fsck *fsck, fsck_step *then);
/* Whether the slots seen are converted by the next function. */
bool fsck_convert_is_from_quorum(const struct fsck *fsck);
void fsck_convert_from_quorum(struct lock_engine *engine, struct fsck *fsck, fsck_step *then);

/*
 * A record alone beside As: a conversion to As was cut, if its gate is there, too. Adds the requests that
 * complete it, in front of those of a repair of As.
 */
bool fsck_convert_is_record_left(const struct fsck *fsck);
void fsck_convert_add_record_left(struct fsck *fsck);

#endif
