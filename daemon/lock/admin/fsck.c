#include "daemon/lock/admin/fsck.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/admin/directory.h"
#include "daemon/lock/admin/fsck_findings.h"
#include "daemon/lock/admin/mutex.h"
#include "daemon/lock/admin/peer_order.h"
#include "daemon/lock/core/probe.h"
#include "daemon/lock/core/registry.h"

enum fsck_state {
	FSCK_QUEUED,    /* behind an older request of its peer on the name (peer_order.h) */
	FSCK_LOCKING,   /* waits for the mutex */
	FSCK_SCANNING,  /* owns the mutex; all slots are being probed */
	FSCK_READING,   /* the directory is being read */
	FSCK_DECLARING, /* slots below `slot` are declared or missing; `unanswered` are sent */
	FSCK_DELETING,  /* uncounted slots: `slot` is being deleted, all above it are gone */
	FSCK_ASKING,    /* a probe asks whether transient `slot` is held */
	FSCK_RENEWING,  /* it is being deleted and declared: `unanswered` of these two */
	FSCK_OPENING,   /* the gate is being deleted */
	FSCK_LISTING,   /* the directory is being changed */
	FSCK_UNLOCKING  /* the mutex is being dropped, then the outcome is answered */
};

struct fsck {
	uint64_t op; /* the request; the key. The fsck goes when its deadline answers it */
	struct peer_order peer_order;
	enum fsck_state state;
	char *name; /* owned */
	bool repair;
	unsigned scans; /* scans begun: 2 = the one after the repair */
	struct fsck_seen seen;
	struct fsck_findings findings;
	int slot;
	int unanswered;
	int window;        /* DECLARING: maximum of `unanswered` */
	bool deleted;      /* RENEWING: the slot is gone, and its declare is owed */
	bool channel_gone; /* an answer said so */
	enum reason outcome;
	char text[256]; /* of the outcome; "" = the reason's own */
	UT_hash_handle by_op;
};

ENGINE_FIND(fsck_find, struct fsck, fscks, by_op)

#define REPAIRING                                                                                  \
	(1U << FSCK_ASKING | 1U << FSCK_RENEWING | 1U << FSCK_OPENING | 1U << FSCK_LISTING |       \
	    1U << FSCK_SCANNING | 1U << FSCK_UNLOCKING)

/* From each state, those that may be next. */
static const unsigned changes[] = {
    [FSCK_QUEUED] = 1U << FSCK_LOCKING,
    [FSCK_LOCKING] = 1U << FSCK_SCANNING,
    [FSCK_SCANNING] = 1U << FSCK_READING | 1U << FSCK_UNLOCKING,
    [FSCK_READING] = 1U << FSCK_DECLARING | 1U << FSCK_UNLOCKING,
    [FSCK_DECLARING] = 1U << FSCK_DELETING | 1U << FSCK_UNLOCKING,
    [FSCK_DELETING] = REPAIRING,
    [FSCK_ASKING] = REPAIRING,
    [FSCK_RENEWING] = REPAIRING,
    [FSCK_OPENING] = 1U << FSCK_LISTING | 1U << FSCK_SCANNING | 1U << FSCK_UNLOCKING,
    [FSCK_LISTING] = 1U << FSCK_SCANNING | 1U << FSCK_UNLOCKING,
    [FSCK_UNLOCKING] = 0,
};

static void
fsck_set_state(struct fsck *fsck, enum fsck_state state)
{
	assert((changes[fsck->state] & 1U << state) != 0 && fsck->unanswered == 0);
	fsck->state = state;
}

static void
fsck_free(struct lock_engine *engine, struct fsck *fsck)
{
	HASH_DELETE(by_op, engine->fscks, fsck);
	fsck_seen_done(&fsck->seen);
	fsck_findings_done(&fsck->findings);
	free(fsck->name);
	free(fsck);
}

/* ---- the end ---- */

static void
set_outcome(struct fsck *fsck, enum reason reason, const char *text)
{
	fsck->outcome = reason;
	snprintf(fsck->text, sizeof(fsck->text), "%s", text != NULL ? text : "");
}

static void
tell_outcome(struct lock_engine *engine, const struct fsck *fsck)
{
	struct lock_answer answer = engine_refusal(fsck->outcome, NULL);
	const struct fsck_findings *findings = &fsck->findings;

	if (fsck->text[0] != '\0')
		answer.text = fsck->text;
	answer.name = fsck->name;
	if (fsck->outcome == REASON_NONE) {
		answer.slots = full_scan_size(&fsck->seen.full_scan);
		answer.findings = findings->list;
		answer.finding_count = findings->count;
	}
	engine_op_end(engine, fsck->op, &answer);
}

static void
fsck_unlock(struct lock_engine *engine, struct fsck *fsck, enum reason reason, const char *text)
{
	set_outcome(fsck, reason, text);
	fsck->unanswered = 0; /* later answers have no effect */
	fsck_set_state(fsck, FSCK_UNLOCKING);
	/*
	 * RabbitMQ does not read the delete before the alarm is over. The client need not wait for
	 * that.
	 */
	if (reason == REASON_BROKER_BLOCKED)
		tell_outcome(engine, fsck);
	mutex_drop(engine, fsck->op);
}

static void scan(struct lock_engine *engine, struct fsck *fsck);
static void declare_more(struct lock_engine *engine, struct fsck *fsck);
static void delete_next(struct lock_engine *engine, struct fsck *fsck);
static void renew_next(struct lock_engine *engine, struct fsck *fsck);

static struct queue_name
queue_of(const struct lock_engine *engine, const struct fsck *fsck)
{
	return queue_name_a(engine->settings.naming, fsck->name, fsck->slot);
}

/* The answers are unknown for that reason: MUTEX_LOST follows, and ends the fsck. */
static bool
link_has_died(const struct lock_engine *engine, enum broker_answer answer)
{
	struct broker_info info;

	broker_get_info(engine->broker, &info);
	return answer == BROKER_UNKNOWN && info.auxiliary != BROKER_UP;
}

/*
 * Handles the part of an answer that concerns the channel. False: the fsck has left that state, or
 * ends with the connection.
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
	fsck->channel_gone |= !reply->channel_open;
	if (fsck->unanswered == 0 && fsck->channel_gone) {
		mutex_channel_gone(engine, fsck->op);
		fsck->channel_gone = false;
	}
	return true;
}

static void
progress(struct lock_engine *engine, const struct fsck *fsck)
{
	engine_op_progress(engine, engine_op_find(engine, fsck->op));
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
	scan(engine, fsck);
}

static void
repaired(struct lock_engine *engine, struct fsck *fsck)
{
	bool exists = full_scan_exists(&fsck->seen.full_scan); /* uncounted slots never counted */

	if (exists == fsck->seen.listed) {
		scan(engine, fsck);
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

/* ---- repairing: the gate ---- */

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

/* ---- repairing: transient slots ---- */

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

	if (!take_reply(engine, fsck, FSCK_RENEWING, reply))
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
	progress(engine, fsck);
	fsck->slot++;
	renew_next(engine, fsck);
}

static void
on_asked(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	struct lock_engine *engine = ctx;
	struct fsck *fsck = fsck_find(engine, id);

	if (fsck == NULL || fsck->state != FSCK_ASKING || link_has_died(engine, seen->answers[0]))
		return;
	if (seen->answers[0] == BROKER_ABSENT &&
	    !registry_is_reserved(engine, fsck->name, LOCK_KIND_SEMAPHORE, fsck->slot)) {
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
	fsck->slot++; /* held, or unknown: it stays as it is */
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

/* ---- repairing: uncounted slots ---- */

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
	case BROKER_LOCKED: /* exclusive to a connection: it stays, and is found again */
		fsck->slot--;
		progress(engine, fsck);
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
		renew_next(engine, fsck);
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

/* ---- a scan ---- */

/* Before the repair nothing was changed, after it all was. */
static void
unlock_unknown(struct lock_engine *engine, struct fsck *fsck, const char *of_what)
{
	char text[sizeof(fsck->text)];
	struct lock_answer unknown;

	if (fsck->scans == 1)
		snprintf(text, sizeof(text),
		    "the broker did not say whether %s; nothing was changed", of_what);
	else
		snprintf(text, sizeof(text),
		    "it was repaired; after that the broker did not say whether %s", of_what);
	unknown = engine_refusal_unknown(engine, text);
	fsck_unlock(engine, fsck, unknown.reason, unknown.text);
}

/* The answer now: the findings, repaired or not. */
static void
report(struct lock_engine *engine, struct fsck *fsck)
{
	bool exists = full_scan_exists(&fsck->seen.full_scan);

	fsck_unlock(engine, fsck,
	    exists || fsck->findings.count > 0 ? REASON_NONE : REASON_NO_SUCH_LOCK, NULL);
}

static void
scanned(struct lock_engine *engine, struct fsck *fsck)
{
	struct fsck_findings now = {.count = 0};

	fsck_findings_make(&now, &fsck->seen);
	if (fsck->scans == 2) {
		fsck_findings_compare(&fsck->findings, &now);
		fsck_findings_done(&now);
		report(engine, fsck);
		return;
	}
	fsck->findings = now;
	if (!fsck->repair || !fsck_findings_repairable(&fsck->findings)) {
		report(engine, fsck);
		return;
	}
	fsck_set_state(fsck, FSCK_DELETING);
	fsck->slot = fsck_seen_highest(&fsck->seen);
	delete_next(engine, fsck);
}

/* ---- how each slot was declared ---- */

/* The first slot from `slot` that exists; behind the last one: a slot that cannot exist. */
static int
next_there(const struct fsck *fsck, int slot)
{
	while (slot <= fsck->seen.full_scan.seen && !fsck_seen_slot(&fsck->seen, slot))
		slot++;
	return slot;
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
		/* In the order of sending: after one that closes the channel, none is performed. */
		fsck->slot = next_there(fsck, fsck->slot);
		/*
		 * RabbitMQ: "inequivalent arg 'durable' for queue". It checks this before other
		 * arguments.
		 */
		fsck->seen.make[fsck->slot - 1] =
		    reply->answer == BROKER_LOCKED             ? FSCK_MAKE_EXCLUSIVE
		    : reply->code == 0                         ? FSCK_MAKE_OURS
		    : strstr(reply->text, "'durable'") != NULL ? FSCK_MAKE_TRANSIENT
							       : FSCK_MAKE_OTHERWISE;
		fsck->slot++;
		/* Each such slot closes the channel, and the requests behind it are skipped. */
		fsck->window = !reply->channel_open                 ? 1
			       : fsck->window < MUTEX_DECLARES_MOST ? 2 * fsck->window
								    : fsck->window;
		progress(engine, fsck);
		break;
	case BROKER_SKIPPED:
	case BROKER_UNKNOWN:
		break; /* sent again */
	case BROKER_ABSENT:
	case BROKER_UNREACHABLE:
	case BROKER_REFUSED:
		fsck_unlock(engine, fsck, REASON_BROKER_REFUSED, reply->text);
		return;
	}
	declare_more(engine, fsck);
}

static void
declare_more(struct lock_engine *engine, struct fsck *fsck)
{
	int slot = next_there(fsck, fsck->slot), last = fsck->seen.full_scan.seen;

	if (fsck->channel_gone)
		return; /* requests on it are answered first */
	for (int skip = fsck->unanswered; skip > 0; skip--)
		slot = next_there(fsck, slot + 1);
	while (fsck->unanswered < fsck->window && slot <= last) {
		fsck->unanswered++;
		broker_declare_slot(engine->broker, mutex_channel(engine, fsck->op),
		    queue_name_a(engine->settings.naming, fsck->name, slot).text,
		    (struct broker_done){on_declared, engine, fsck->op});
		slot = next_there(fsck, slot + 1);
	}
	if (fsck->unanswered == 0)
		scanned(engine, fsck);
}

/* ---- a scan, from the beginning ---- */

static void
on_read(struct lock_engine *engine, uint64_t id, enum reason reason, const char *text,
    const char *const *names, size_t count)
{
	struct fsck *fsck = fsck_find(engine, id);

	if (fsck == NULL || fsck->state != FSCK_READING)
		return;
	if (reason != REASON_NONE) {
		fsck_unlock(engine, fsck, reason, text);
		return;
	}
	for (size_t i = 0; i < count && !fsck->seen.listed; i++)
		fsck->seen.listed = strcmp(names[i], fsck->name) == 0;
	engine_op_progress(engine, engine_op_find(engine, id));
	fsck_set_state(fsck, FSCK_DECLARING);
	fsck->slot = 1;
	fsck->window = MUTEX_DECLARES_MOST;
	declare_more(engine, fsck);
}

static void
on_scanned(struct lock_engine *engine, uint64_t id, const struct full_scan *found)
{
	struct fsck *fsck = fsck_find(engine, id);
	char what[64];

	if (fsck == NULL || fsck->state != FSCK_SCANNING)
		return;
	if (found->unknown > 0) {
		snprintf(what, sizeof(what), "slot %d exists, or is held", found->unknown);
		unlock_unknown(engine, fsck, what);
		return;
	}
	if (found->unknown == 0) {
		unlock_unknown(engine, fsck, "its markers exist");
		return;
	}
	fsck_seen_take(&fsck->seen, found);
	fsck_set_state(fsck, FSCK_READING);
	directory_read(engine, on_read, id);
	engine_op_progress(engine, engine_op_find(engine, id)); /* after that one's deadline */
}

static void
scan(struct lock_engine *engine, struct fsck *fsck)
{
	fsck->scans++;
	fsck_set_state(fsck, FSCK_SCANNING);
	full_scan_start(engine, fsck->name, FULL_SCAN_ALL_SLOTS, on_scanned, fsck->op);
}

/*
 * The fsck is over and answered. Acquires behind it are scanned for. Its requests to the directory
 * that have not begun are dropped, as they need the mutex.
 */
static void
end(struct lock_engine *engine, struct fsck *fsck)
{
	directory_forget(engine, fsck->op);
	registry_admin_done(engine, fsck->name, fsck->op, REASON_NONE, NULL);
	peer_order_end(engine, &fsck->peer_order);
	fsck_free(engine, fsck);
}

/* ---- the mutex, and the door ---- */

static void
on_mutex(struct lock_engine *engine, uint64_t id, enum mutex_news news, enum reason reason,
    const char *text)
{
	struct fsck *fsck = fsck_find(engine, id);

	switch (news) {
	case MUTEX_HELD:
		scan(engine, fsck);
		return;
	case MUTEX_FREE:
		break;
	case MUTEX_LOST:
		set_outcome(
		    fsck, reason, "the connection to the broker was lost before all was done");
		break;
	case MUTEX_REFUSED:
		set_outcome(fsck, reason, text);
		break;
	}
	tell_outcome(engine, fsck);
	end(engine, fsck);
}

/* Its deadline has answered it: no further step is begun. */
static void
on_expired(struct lock_engine *engine, uint64_t op)
{
	mutex_leave(engine, op);
	end(engine, fsck_find(engine, op));
}

static void
begin(struct lock_engine *engine, uint64_t op)
{
	struct fsck *fsck = fsck_find(engine, op);

	fsck_set_state(fsck, FSCK_LOCKING);
	mutex_take(engine, queue_name_admin(engine->settings.naming, fsck->name).text,
	    &(struct mutex_order){
		.id = op, .what = fsck->repair ? "a repair" : "an fsck", .told = on_mutex});
}

void
lock_fsck(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const char *name, bool repair)
{
	struct lock_answer refusal;
	struct fsck *fsck;
	struct op *op;

	assert(!engine->telling);
	if (engine_refusal_for_link(engine, &refusal)) {
		engine_tell(engine, peer, request, &refusal);
		return;
	}
	op = engine_op_new(engine, peer, request);
	op->expired = on_expired;
	fsck = mem_alloc(sizeof(*fsck));
	fsck->op = op->id;
	fsck->state = FSCK_QUEUED;
	fsck->name = mem_strdup(name);
	fsck->repair = repair;
	fsck->peer_order =
	    (struct peer_order){.op = op->id, .work = PEER_ORDER_CHANGES, .begin = begin};
	HASH_ADD(by_op, engine->fscks, op, sizeof(fsck->op), fsck);
	if (peer_order_take(engine, &fsck->peer_order, peer, name))
		begin(engine, op->id);
}

void
fsck_free_all(struct lock_engine *engine)
{
	struct fsck *fsck, *next;

	HASH_ITER (by_op, engine->fscks, fsck, next)
		fsck_free(engine, fsck);
}
