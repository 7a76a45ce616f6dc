#include "daemon/lock/admin/fsck_repair.h"

#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/admin/directory.h"
#include "daemon/lock/core/mutex.h"
#include "daemon/lock/core/probe.h"
#include "daemon/lock/core/registry.h"

ENGINE_FIND(fsck_find, struct fsck, fscks, by_op)

static void delete_next(struct lock_engine *engine, struct fsck *fsck);
static void clear_next(struct lock_engine *engine, struct fsck *fsck);
static void renew_next(struct lock_engine *engine, struct fsck *fsck);
static void convert_next(struct lock_engine *engine, struct fsck *fsck);

static struct queue_name
queue_of(const struct lock_engine *engine, const struct fsck *fsck)
{
	return queue_name_a(engine->settings.naming, fsck->name, fsck->slot);
}

static struct queue_name
holder_of(const struct lock_engine *engine, const struct fsck *fsck)
{
	return queue_name_b(engine->settings.naming, fsck->name, fsck->slot);
}

/* ---- the directory ---- */

static void
on_listed(struct lock_engine *engine, uint64_t id, enum reason reason, const char *text,
    const char *const *names, size_t count)
{
	struct fsck *fsck = fsck_find(engine, id);

	(void)names;
	(void)count;
	if (fsck == NULL || fsck->state != FSCK_LISTING)
		return;
	if (reason != REASON_NONE) {
		fsck_unlock(engine, fsck, reason, text);
		return;
	}
	engine_op_progress(engine, engine_op_find(engine, id));
	fsck->next(engine, fsck);
}

static void
repaired(struct lock_engine *engine, struct fsck *fsck)
{
	bool exists = full_scan_exists(&fsck->seen.full_scan); /* uncounted slots never counted */

	FAULT(REPAIRED_NOT_LISTED, exists = fsck->seen.listed);
	if (exists == fsck->seen.listed) {
		fsck->next(engine, fsck);
		return;
	}
	fsck_set_state(fsck, FSCK_LISTING);
	if (exists)
		directory_enter(engine, fsck->name, on_listed, fsck->op);
	else
		directory_leave(engine, fsck->name, on_listed, fsck->op);
	engine_op_progress(
	    engine, engine_op_find(engine, fsck->op)); /* after that one's deadline */
}

/* ---- the gate ---- */

static void open_gate(struct lock_engine *engine, struct fsck *fsck);

static void
on_opened(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct fsck *fsck = fsck_find(engine, id);

	if (!fsck_take_reply(engine, fsck, FSCK_OPENING, reply))
		return;
	switch (reply->answer) {
	case BROKER_OK:
	case BROKER_ABSENT:
	case BROKER_LOCKED: /* it stays, and is found again */
		repaired(engine, fsck);
		break;
	case BROKER_SKIPPED:
	case BROKER_UNKNOWN:
		open_gate(engine, fsck);
		break;
	case BROKER_UNREACHABLE:
	case BROKER_REFUSED:
		fsck_unlock(engine, fsck, REASON_BROKER_REFUSED, reply->text);
		break;
	}
}

static void
open_gate(struct lock_engine *engine, struct fsck *fsck)
{
	fsck->unanswered++;
	broker_delete_slot(engine->broker, mutex_channel(engine, fsck->op),
	    queue_name_gate(engine->settings.naming, fsck->name).text,
	    (struct broker_done){on_opened, engine, fsck->op});
}

/* ---- transient slots ---- */

static void on_renewed(void *ctx, uint64_t id, const struct broker_reply *reply);

static void
send_declare(struct lock_engine *engine, struct fsck *fsck)
{
	fsck->unanswered++;
	broker_declare_slot(engine->broker, mutex_channel(engine, fsck->op),
	    queue_of(engine, fsck).text, (struct broker_done){on_renewed, engine, fsck->op});
}

/* For the declare, and for the delete before it: the last answer of the two goes on. */
static void
on_renewed(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct fsck *fsck = fsck_find(engine, id);

	if (!fsck_take_reply(engine, fsck, FSCK_RENEWING, reply))
		return;
	if (reply->answer == BROKER_REFUSED) {
		fsck_unlock(engine, fsck, REASON_BROKER_REFUSED, reply->text);
		return;
	}
	if (fsck->unanswered > 0) {
		/* The delete. Unknown: perhaps deleted, so it is declared in any case. */
		fsck->deleted = reply->answer != BROKER_SKIPPED && reply->answer != BROKER_LOCKED;
		return;
	}
	if (fsck->deleted && (reply->answer == BROKER_SKIPPED || reply->answer == BROKER_UNKNOWN)) {
		send_declare(engine, fsck); /* owed */
		return;
	}
	fsck_progress(engine, fsck);
	fsck->slot++;
	renew_next(engine, fsck);
}

static void
on_asked(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	struct lock_engine *engine = ctx;
	struct fsck *fsck = fsck_find(engine, id);
	bool busy;

	if (fsck == NULL || fsck->state != FSCK_ASKING ||
	    fsck_link_has_died(engine, seen->answers[0]))
		return;
	busy = seen->answers[0] != BROKER_ABSENT ||
	       registry_is_reserved(engine, fsck->name, LOCK_KIND_SEMAPHORE, fsck->slot);
	FAULT(BUSY_SLOT_RENEWED, busy = false);
	if (!busy) {
		/*
		 * A scan meanwhile sees a gap. Both requests therefore go out together, and the gap
		 * lasts only from one method to the next on one channel.
		 */
		fsck_set_state(fsck, FSCK_RENEWING);
		fsck->deleted = false;
		fsck->unanswered++;
		broker_delete_slot(engine->broker, mutex_channel(engine, fsck->op),
		    queue_of(engine, fsck).text,
		    (struct broker_done){on_renewed, engine, fsck->op});
		send_declare(engine, fsck);
		return;
	}
	fsck->slot++; /* busy, or unknown: it stays as it is */
	renew_next(engine, fsck);
}

static void
renew_next(struct lock_engine *engine, struct fsck *fsck)
{
	const struct full_scan *full_scan = &fsck->seen.full_scan;

	while (fsck->slot <= full_scan->slots &&
	       fsck->seen.make[fsck->slot - 1] != FSCK_MAKE_TRANSIENT)
		fsck->slot++;
	if (fsck->slot > full_scan->slots) {
		FAULT(GATE_LEFT, repaired(engine, fsck); return;);
		/* A gate has no effect beside slots, or beside N-U. */
		if (!full_scan->gate || (!full_scan->unlimited && full_scan->slots == 0)) {
			repaired(engine, fsck);
			return;
		}
		fsck_set_state(fsck, FSCK_OPENING);
		open_gate(engine, fsck);
		return;
	}
	fsck_set_state(fsck, FSCK_ASKING);
	probe_one(engine, queue_name_b(engine->settings.naming, fsck->name, fsck->slot),
	    BROKER_ASK_HOLDER, on_asked, fsck->op);
}

/* ---- uncounted slots ---- */

static void
on_deleted(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct fsck *fsck = fsck_find(engine, id);

	if (!fsck_take_reply(engine, fsck, FSCK_DELETING, reply))
		return;
	switch (reply->answer) {
	case BROKER_OK:
	case BROKER_ABSENT:
	case BROKER_LOCKED: /* exclusive to a connection: it stays, and is found again */
		fsck->slot--;
		fsck_progress(engine, fsck);
		break;
	case BROKER_SKIPPED:
	case BROKER_UNKNOWN:
		break; /* sent again */
	case BROKER_UNREACHABLE:
	case BROKER_REFUSED:
		fsck_unlock(engine, fsck, REASON_BROKER_REFUSED, reply->text);
		return;
	}
	delete_next(engine, fsck);
}

static void
delete_next(struct lock_engine *engine, struct fsck *fsck)
{
	while (fsck->slot > fsck->seen.full_scan.slots && !fsck_seen_slot(&fsck->seen, fsck->slot))
		fsck->slot--;
	if (fsck->slot <= fsck->seen.full_scan.slots) {
		fsck->slot = 1;
		clear_next(engine, fsck);
		return;
	}
	fsck->unanswered++;
	FAULT(FSCK_FILLS_GAP,
	      broker_declare_slot(engine->broker, mutex_channel(engine, fsck->op),
		  queue_name_a(engine->settings.naming, fsck->name, fsck->seen.full_scan.slots + 1)
		      .text,
		  (struct broker_done){on_deleted, engine, fsck->op});
	      return;);
	broker_delete_slot(engine->broker, mutex_channel(engine, fsck->op),
	    queue_of(engine, fsck).text, (struct broker_done){on_deleted, engine, fsck->op});
}

void
fsck_repair_start(struct lock_engine *engine, struct fsck *fsck, fsck_next_fn *next)
{
	fsck->next = next;
	fsck_set_state(fsck, FSCK_DELETING);
	fsck->slot = fsck_seen_highest(&fsck->seen);
	delete_next(engine, fsck);
}

/* ---- durable Bs without slots, and those with other arguments ---- */

/* It can look busy for ever. A scan sees it as a slot that is held by queue until it is declared. */
static bool
is_remade(const struct fsck *fsck)
{
	return fsck->seen.odd[fsck->slot - 1] && fsck->slot <= fsck->seen.full_scan.slots;
}

static void
on_cleared(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct fsck *fsck = fsck_find(engine, id);

	if (!fsck_take_reply(engine, fsck, FSCK_CLEARING, reply))
		return;
	if (reply->answer == BROKER_REFUSED) {
		fsck_unlock(engine, fsck, REASON_BROKER_REFUSED, reply->text);
		return;
	}
	/* A B that stays is found again. So is one that is not declared again. */
	if (reply->answer != BROKER_SKIPPED && reply->answer != BROKER_UNKNOWN) {
		fsck_progress(engine, fsck);
		fsck->deleted = !fsck->deleted && is_remade(fsck) &&
				(reply->answer == BROKER_OK || reply->answer == BROKER_ABSENT);
		FAULT(HOLDER_NOT_REMADE, fsck->deleted = false);
		fsck->slot += !fsck->deleted;
	}
	clear_next(engine, fsck);
}

static void
clear_next(struct lock_engine *engine, struct fsck *fsck)
{
	int last = fsck->seen.full_scan.seen;

	while (fsck->slot <= last && !fsck_seen_leftover(&fsck->seen, fsck->slot) &&
	       !fsck->seen.odd[fsck->slot - 1])
		fsck->slot++;
	if (fsck->slot > last) {
		fsck->slot = 1;
		renew_next(engine, fsck);
		return;
	}
	if (fsck->state != FSCK_CLEARING)
		fsck_set_state(fsck, FSCK_CLEARING);
	fsck->unanswered++;
	(fsck->deleted ? broker_declare_holder : broker_delete_holder)(engine->broker,
	    mutex_channel(engine, fsck->op), holder_of(engine, fsck).text,
	    (struct broker_done){on_cleared, engine, fsck->op});
}

/*
 * ---- conversion ---- Claims of both ways go on meanwhile, and no slot gets two holders. At each
 * time the B of a slot is one of three, and the broker serves all requests about it in some order:
 *
 * - An exclusive queue, which one connection holds. Our declare and a consume get 405.
 * - A durable queue with an exclusive consumer, which holds the slot. A claim of either way gets
 *   405 or 403. Our delete is refused: it has if-unused, and B's own node performs it
 *   (broker_delete_holder()). So a partition cannot hide a consumer.
 * - Nothing, or a durable queue without a consumer. Nobody holds the slot. If a claim and our
 *   request come together, the broker performs one of them first. The other one then finds one of
 *   the cases above. A claim by consumer that finds no B gets 404, and claims by queue.
 *
 * A stays as it is. A conversion that is cut leaves slots of both ways, which work, and which the
 * next fsck finds.
 */

/*
 * Where clients wait for the slots, a slot is free only for a moment. Therefore a wait also tries
 * some of the slots that were busy just now, in turns.
 */
static bool
may_try(struct fsck *fsck)
{
	if (!fsck->waiting || fsck->tries == 0 || fsck->slot <= fsck->tried)
		return false;
	fsck->tried = --fsck->tries > 0 ? fsck->tried : fsck->slot;
	return true;
}

static void
leave(struct fsck *fsck)
{
	fsck->left[fsck->left_count++] = fsck->slot;
}

static void
on_converted(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct fsck *fsck = fsck_find(engine, id);
	enum broker_answer answer = reply->answer;
	struct semaphore *semaphore;

	if (!fsck_take_reply(engine, fsck, FSCK_CONVERTING, reply))
		return;
	FAULT_IF(REFUSED_IS_CONVERTED, answer == BROKER_LOCKED, answer = BROKER_OK);
	FAULT_IF(SKIPPED_IS_CONVERTED, answer == BROKER_SKIPPED || answer == BROKER_UNKNOWN,
	    answer = BROKER_OK);
	switch (answer) {
	case BROKER_OK:
	case BROKER_ABSENT:
		fsck->converted++;
		fsck->rest = 0;
		fsck->seen.odd[fsck->slot - 1] = false;
		fsck->seen.ways[fsck->slot - 1] =
		    way_of_word((enum method_claim)(fsck->convert - 1));
		semaphore = engine_semaphore_find(engine, fsck->name, false);
		if (semaphore != NULL)
			semaphore_saw_way(semaphore, fsck->slot, fsck->seen.ways[fsck->slot - 1]);
		break;
	case BROKER_LOCKED:
	case BROKER_UNREACHABLE:
		fsck->seen.b[fsck->slot - 1] =
		    answer == BROKER_LOCKED ? BROKER_OK : BROKER_UNREACHABLE;
		leave(fsck);
		break;
	case BROKER_SKIPPED:
	case BROKER_UNKNOWN:
		convert_next(engine, fsck); /* the same slot again */
		return;
	case BROKER_REFUSED:
		fsck_unlock(engine, fsck, REASON_BROKER_REFUSED, reply->text);
		return;
	}
	fsck_progress(engine, fsck);
	fsck->slot++;
	convert_next(engine, fsck);
}

static void
convert_next(struct lock_engine *engine, struct fsck *fsck)
{
	for (; fsck->slot <= fsck->seen.full_scan.slots; fsck->slot++) {
		enum broker_answer b = fsck->seen.b[fsck->slot - 1];

		if (fsck_seen_claim(&fsck->seen, fsck->slot) == fsck->convert)
			continue;
		if (b == BROKER_ABSENT || (b == BROKER_OK && may_try(fsck)))
			break;
		leave(fsck); /* busy, or its node cannot be reached */
	}
	if (fsck->slot > fsck->seen.full_scan.slots) {
		fsck->next(engine, fsck);
		return;
	}
	fsck->unanswered++;
	(full_scan_way(fsck->convert)->make != NULL ? broker_declare_holder : broker_delete_holder)(
	    engine->broker, mutex_channel(engine, fsck->op), holder_of(engine, fsck).text,
	    (struct broker_done){on_converted, engine, fsck->op});
}

void
fsck_convert_start(struct lock_engine *engine, struct fsck *fsck, fsck_next_fn *next)
{
	fsck->next = next;
	fsck_set_state(fsck, FSCK_CONVERTING);
	free(fsck->left);
	fsck->left = mem_grow(NULL, (size_t)fsck->seen.full_scan.slots + 1, sizeof(*fsck->left));
	fsck->left_count = 0;
	if (fsck->tries > 0)
		fsck->tried = 0; /* the last pass came to the end */
	fsck->tries = fsck->tries_most;
	fsck->slot = 1;
	convert_next(engine, fsck);
}
