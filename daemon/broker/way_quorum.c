/*
 * By quorum: B is a replicated queue with three messages, and its holder is the active consumer. The
 * next holder sees in their order whether the last hold ended cleanly, and waits if it did not. Their
 * counts give a fencing number. There is no A: B alone is the slot. See docs/QUORUM.md.
 */
#include "daemon/broker/request.h"
#include "daemon/broker/way.h"

/* B has a name that only this way uses: nothing is to be learned about others. */
static struct way_lesson
by_quorum_learn(const struct broker_reply *reply, bool unsure)
{
	(void)reply;
	(void)unsure;
	return (struct way_lesson){0};
}

const struct way way_quorum = {
    .claim_word = METHOD_CLAIM_BY_QUORUM,
    .by_what = "a quorum queue",
    .how = "by quorum queues",
    .of_mutex = BROKER_BY_QUORUM,
    .question = BROKER_ASK_BEADS,
    .by_beads = true,
    .learn = by_quorum_learn,
    .claim_is_cheap = true,
    .drop_is_cheap = true,
    .is_channel = true,
    .own_lease = true,
    .leaves_b = BROKER_QUORUM_MUTEX_EXPIRES,
};
