#include "daemon/lock/fsck_work.h"

#include <assert.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/lock/mutex.h"
#include "daemon/lock/registry.h"

static void declare_more(struct lock_engine *engine, struct fsck *fsck);
static void delete_next(struct lock_engine *engine, struct fsck *fsck);
static void renew_next(struct lock_engine *engine, struct fsck *fsck);

static struct queue_name
queue_of(const struct lock_engine *engine, const struct fsck *fsck)
{
	return queue_name_a(engine->settings.naming, fsck->name, fsck->slot);
}

/* Unknown for that: MUTEX_LOST follows, and ends it all. */
static bool
link_has_died(const struct lock_engine *engine, enum broker_answer answer)
{
	struct broker_info info;

	broker_get_info(engine->broker, &info);
	return answer == BROKER_UNKNOWN && info.side != BROKER_UP;
}

/*
 * What every answer means to the lane. False: the fsck is not in that state any more, or is about to go
 * with the link.
 */
static bool
take_reply(struct lock_engine *engine, struct fsck *fsck, enum fsck_state state,
    const struct broker_reply *reply)
{
	if (fsck == NULL || fsck->state != state)
		return false;
	fsck->unanswered--;
	if (link_has_died(engine, reply->answer))
		return false;
	fsck->lane_gone |= !reply->lane_open;
	if (fsck->unanswered == 0 && fsck->lane_gone) {
		mutex_lane_gone(engine, fsck->op);
		fsck->lane_gone = false;
	}
	return true;
}

static void
progress(struct lock_engine *engine, const struct fsck *fsck)
{
	engine_op_progress(engine, engine_op_find(engine, fsck->op));
}

/* ---- how each slot was declared ---- */

/* The first slot from `slot` that is there; behind the last: one that cannot be. */
static int
next_there(const struct fsck *fsck, int slot)
{
	while (slot <= fsck->seen.survey.seen && !fsck_seen_slot(&fsck->seen, slot))
		slot++;
	return slot;
}

static enum fsck_make
make_of(const struct broker_reply *reply)
{
	if (reply->answer == BROKER_LOCKED)
		return FSCK_MAKE_EXCLUSIVE;
	if (reply->code == 0)
		return FSCK_MAKE_OURS;
	/* RabbitMQ: "inequivalent arg 'durable' for queue", and that before any other argument. */
	return strstr(reply->text, "'durable'") != NULL ? FSCK_MAKE_TRANSIENT : FSCK_MAKE_OTHERWISE;
}

static void
on_declared(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct fsck *fsck = fsck_find(engine, id);

	if (!take_reply(engine, fsck, FSCK_DECLARING, reply))
		return;
	switch (reply->answer) {
	case BROKER_OK:
	case BROKER_LOCKED:
		/* In the order of their sending: behind one that closes the lane nothing is performed. */
		fsck->slot = next_there(fsck, fsck->slot);
		fsck->seen.make[fsck->slot - 1] = make_of(reply);
		fsck->slot++;
		/* Each such slot costs the lane, and all that was sent behind it. */
		fsck->window = !reply->lane_open                    ? 1
			       : fsck->window < MUTEX_DECLARES_MOST ? 2 * fsck->window
								    : fsck->window;
		progress(engine, fsck);
		break;
	case BROKER_SKIPPED:
	case BROKER_UNKNOWN:
		break; /* sent again */
	case BROKER_ABSENT:
	case BROKER_REFUSED:
		fsck_unlock(engine, fsck, REASON_BROKER_DENIED, reply->text);
		return;
	}
	declare_more(engine, fsck);
}

static void
declare_more(struct lock_engine *engine, struct fsck *fsck)
{
	int slot = next_there(fsck, fsck->slot), last = fsck->seen.survey.seen;

	if (fsck->lane_gone)
		return; /* what was asked on it is answered first */
	for (int skip = fsck->unanswered; skip > 0; skip--)
		slot = next_there(fsck, slot + 1);
	while (fsck->unanswered < fsck->window && slot <= last) {
		fsck->unanswered++;
		broker_declare_slot(engine->broker, mutex_lane(engine, fsck->op),
		    queue_name_a(engine->settings.naming, fsck->name, slot).text,
		    (struct broker_done){on_declared, engine, fsck->op});
		slot = next_there(fsck, slot + 1);
	}
	if (fsck->unanswered == 0)
		fsck_looked(engine, fsck);
}

void
fsck_work_declare(struct lock_engine *engine, struct fsck *fsck)
{
	fsck_set_state(fsck, FSCK_DECLARING);
	fsck->slot = 1;
	fsck->window = MUTEX_DECLARES_MOST;
	declare_more(engine, fsck);
}

/* ---- mending: the gate ---- */

static void open_gate(struct lock_engine *engine, struct fsck *fsck);

static void
on_opened(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct fsck *fsck = fsck_find(engine, id);

	if (!take_reply(engine, fsck, FSCK_OPENING, reply))
		return;
	switch (reply->answer) {
	case BROKER_OK:
	case BROKER_ABSENT:
	case BROKER_LOCKED: /* it stays, and is found again */
		fsck_mended(engine, fsck);
		break;
	case BROKER_SKIPPED:
	case BROKER_UNKNOWN:
		open_gate(engine, fsck);
		break;
	case BROKER_REFUSED:
		fsck_unlock(engine, fsck, REASON_BROKER_DENIED, reply->text);
		break;
	}
}

static void
open_gate(struct lock_engine *engine, struct fsck *fsck)
{
	fsck->unanswered++;
	broker_delete_slot(engine->broker, mutex_lane(engine, fsck->op),
	    queue_name_gate(engine->settings.naming, fsck->name).text,
	    (struct broker_done){on_opened, engine, fsck->op});
}

/* A gate counts for nothing beside slots, or where there are slots without end. */
static void
begin_opening(struct lock_engine *engine, struct fsck *fsck)
{
	const struct survey *survey = &fsck->seen.survey;

	if (!survey->gate || (!survey->unlimited && survey->slots == 0)) {
		fsck_mended(engine, fsck);
		return;
	}
	fsck_set_state(fsck, FSCK_OPENING);
	open_gate(engine, fsck);
}

/* ---- mending: transient slots ---- */

static void on_renewed(void *ctx, uint64_t id, const struct broker_reply *reply);

static void
send_declare(struct lock_engine *engine, struct fsck *fsck)
{
	fsck->unanswered++;
	broker_declare_slot(engine->broker, mutex_lane(engine, fsck->op),
	    queue_of(engine, fsck).text, (struct broker_done){on_renewed, engine, fsck->op});
}

/* Of the declare, and of the delete before it: whichever is answered last goes on. */
static void
on_renewed(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct fsck *fsck = fsck_find(engine, id);

	if (!take_reply(engine, fsck, FSCK_RENEWING, reply))
		return;
	if (reply->answer == BROKER_REFUSED) {
		fsck_unlock(engine, fsck, REASON_BROKER_DENIED, reply->text);
		return;
	}
	if (fsck->unanswered > 0) {
		/* The delete. Unknown: perhaps deleted, and so to be declared in any case. */
		fsck->deleted = reply->answer != BROKER_SKIPPED && reply->answer != BROKER_LOCKED;
		return;
	}
	if (fsck->deleted && (reply->answer == BROKER_SKIPPED || reply->answer == BROKER_UNKNOWN)) {
		send_declare(engine, fsck); /* owed */
		return;
	}
	progress(engine, fsck);
	fsck->slot++;
	renew_next(engine, fsck);
}

/*
 * Whoever looks meanwhile sees a gap: so both go out together, and the time is that between two methods
 * on one channel.
 */
static void
renew(struct lock_engine *engine, struct fsck *fsck)
{
	fsck_set_state(fsck, FSCK_RENEWING);
	fsck->deleted = false;
	fsck->unanswered++;
	broker_delete_slot(engine->broker, mutex_lane(engine, fsck->op),
	    queue_of(engine, fsck).text, (struct broker_done){on_renewed, engine, fsck->op});
	send_declare(engine, fsck);
}

static void
on_asked(void *ctx, uint64_t id, const enum broker_answer *answers, size_t count)
{
	struct lock_engine *engine = ctx;
	struct fsck *fsck = fsck_find(engine, id);

	(void)count;
	if (fsck == NULL || fsck->state != FSCK_ASKING || link_has_died(engine, answers[0]))
		return;
	if (answers[0] == BROKER_ABSENT &&
	    !registry_is_reserved(engine, fsck->name, LOCK_KIND_SEMAPHORE, fsck->slot)) {
		renew(engine, fsck);
		return;
	}
	fsck->slot++; /* held, or nobody knows: left as it is */
	renew_next(engine, fsck);
}

static void
renew_next(struct lock_engine *engine, struct fsck *fsck)
{
	struct queue_name b;
	const char *text = b.text;

	while (fsck->slot <= fsck->seen.survey.slots &&
	       fsck->seen.make[fsck->slot - 1] != FSCK_MAKE_TRANSIENT)
		fsck->slot++;
	if (fsck->slot > fsck->seen.survey.slots) {
		begin_opening(engine, fsck);
		return;
	}
	fsck_set_state(fsck, FSCK_ASKING);
	b = queue_name_b(engine->settings.naming, fsck->name, fsck->slot);
	broker_probe(
	    engine->broker, &text, 1, (struct broker_probe_done){on_asked, engine, fsck->op});
}

/* ---- mending: strays ---- */

static void
on_deleted(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct fsck *fsck = fsck_find(engine, id);

	if (!take_reply(engine, fsck, FSCK_DELETING, reply))
		return;
	switch (reply->answer) {
	case BROKER_OK:
	case BROKER_ABSENT:
	case BROKER_LOCKED: /* some connection's own: it stays, and is found again */
		fsck->slot--;
		progress(engine, fsck);
		break;
	case BROKER_SKIPPED:
	case BROKER_UNKNOWN:
		break; /* sent again */
	case BROKER_REFUSED:
		fsck_unlock(engine, fsck, REASON_BROKER_DENIED, reply->text);
		return;
	}
	delete_next(engine, fsck);
}

static void
delete_next(struct lock_engine *engine, struct fsck *fsck)
{
	while (fsck->slot > fsck->seen.survey.slots && !fsck_seen_slot(&fsck->seen, fsck->slot))
		fsck->slot--;
	if (fsck->slot <= fsck->seen.survey.slots) {
		fsck->slot = 1;
		renew_next(engine, fsck);
		return;
	}
	fsck->unanswered++;
	if (FAULT(FSCK_FILLS_GAP))
		broker_declare_slot(engine->broker, mutex_lane(engine, fsck->op),
		    queue_name_a(engine->settings.naming, fsck->name, fsck->seen.survey.slots + 1)
			.text,
		    (struct broker_done){on_deleted, engine, fsck->op});
	else
		broker_delete_slot(engine->broker, mutex_lane(engine, fsck->op),
		    queue_of(engine, fsck).text,
		    (struct broker_done){on_deleted, engine, fsck->op});
}

void
fsck_work_mend(struct lock_engine *engine, struct fsck *fsck)
{
	fsck_set_state(fsck, FSCK_DELETING);
	fsck->slot = fsck_seen_highest(&fsck->seen);
	delete_next(engine, fsck);
}
