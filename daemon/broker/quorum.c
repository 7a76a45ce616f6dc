#include "daemon/broker/quorum.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/broker/quorum_internal.h"
#include "daemon/broker/make.h"
#include "daemon/broker/reconnector.h"

/*
 * Contents:
 *	Answers: questions that outlived their claim are answered from the loop.
 *	The end of a claim: claim_end() closes the channel, answers, and leaves a reclaim if the end is not
 *	   clean.
 *	A hold goes on without its channel (rule 8): claim_suspend(), and claim_take_over() by its reclaim.
 *	The news of the beads: claim_act() performs what beads.h decides: grant, renewal, grace, rotation,
 *	   release.
 *	Frames: claim_on_message() gives deliveries to the beads.
 *	Attaching: claim_go() opens the channel and consumes from B.
 *	Connections: they come up and end, with their claims.
 *	Requests: amqp_quorum_take(), _put(), _claim(), _check() and _drop(), as in broker.h.
 *	Reclaims: quorum_try_reclaim() makes an attempt for reclaim.c.
 *	Life: with the broker.
 */

#define CLAIM_TAG 'q'
/*
 * The age at which a hold ends, before the consumer timeout of its queue (make.c). RabbitMQ 4.3 then
 * returns a part of the beads. If a reject is in flight, the order could read as clean while the slot is held.
 */
#define HOLD_MOST (29 * INT64_C(86400) * NSEC_PER_SEC)

/*
 * Before 4.3 RabbitMQ cannot shorten the log of a queue while its first bead stays in its place. So one in so many
 * renewals, and one in so many grants, is followed by a rotation (rule 5).
 */
#define CLAIM_ROTATE_RENEWALS 1000
#define ROTATE_GRANTS 500

/* How often a frozen daemon looks whether it goes on, while a grace is over. */
#define FROZEN_REST (100 * NSEC_PER_MSEC)

/*
 * A claim begins anew on a new channel so often, if the order of the beads is not certain. Each time, messages that
 * were the cause are acknowledged, or have been returned. Only endless publishing reaches this limit.
 */
#define ATTACHES_MOST 16

static void claim_go(struct claim *claim);
static void claim_end_reclaim(const struct claim *hold);

struct claim *
amqp_claim_find(const struct amqp_quorum *quorum, uint64_t id)
{
	struct claim *claim;

	HASH_FIND(hh, quorum->by_id, &id, sizeof(id), claim);
	return claim;
}

static int64_t
quorum_now(const struct claim *claim)
{
	return broker_now(claim->quorum->broker);
}

/* ---- answers ---- */

static void
question_answer(
    const struct amqp_quorum *quorum, struct broker_done done, const struct broker_reply *reply)
{
	if (!quorum->broker->stopped && done.fn != NULL)
		done.fn(done.ctx, done.id, reply);
}

static void
questions_answer(const struct amqp_quorum *quorum, struct claim_questions *questions,
    const struct broker_reply *reply)
{
	struct claim_question *question;

	while ((question = STAILQ_FIRST(questions)) != NULL) {
		struct broker_done done = question->done;

		STAILQ_REMOVE_HEAD(questions, entry);
		free(question);
		question_answer(quorum, done, reply);
	}
}

void
amqp_question_add(struct claim_questions *questions, struct broker_done done, int64_t at)
{
	struct claim_question *question = mem_alloc(sizeof(*question));

	question->done = done;
	question->at = at;
	STAILQ_INSERT_TAIL(questions, question, entry);
}

static void
quorum_on_gone(void *ctx, uint64_t id)
{
	struct amqp_quorum *quorum = ctx;
	struct claim_questions gone = STAILQ_HEAD_INITIALIZER(gone);
	const struct broker_reply reply = {.answer = BROKER_SKIPPED, .text = "", .elsewhere = true};

	(void)id;
	STAILQ_CONCAT(&gone, &quorum->gone);
	questions_answer(quorum, &gone, &reply);
}

/* An answer never comes from inside the request. */
static void
quorum_skip_later(struct amqp_quorum *quorum, struct broker_done done)
{
	int64_t at = broker_now(quorum->broker);

	amqp_question_add(&quorum->gone, done, at);
	if (!timer_is_set(&quorum->gone_timer))
		timers_set(quorum->broker->timers, &quorum->gone_timer, at);
}

/* ---- the end of a claim ---- */

/* Its channel is closed, or gone. Its questions are answered by the caller, or moved out. */
static void
claim_free(struct claim *claim)
{
	struct amqp_quorum *quorum = claim->quorum;

	assert(STAILQ_EMPTY(&claim->asked) && STAILQ_EMPTY(&claim->later));
	timers_cancel(quorum->broker->timers, &claim->timer);
	HASH_DEL(quorum->by_id, claim);
	TAILQ_REMOVE(&quorum->claims, claim, entry);
	if (claim->link != NULL)
		amqp_quorum_link_leave(claim->link);
	free(claim->queue);
	free(claim);
}

static enum amqp_reclaim_result
claim_reclaim_result(const struct claim *claim, enum broker_answer ended)
{
	if (ended == BROKER_ABSENT || ended == BROKER_REFUSED)
		return AMQP_RECLAIM_OVER;
	if (claim->state != CLAIM_ATTACHED || ended == BROKER_SKIPPED)
		return AMQP_RECLAIM_UNREACHED;
	return claim->beads.state <= BEADS_CHECKING ? AMQP_RECLAIM_BUSY : AMQP_RECLAIM_OVER;
}

/* The facts about its beads, for a reclaim. */
static bool
claim_remember(const struct claim *claim, struct beads_memory *ret)
{
	if (claim->state < CLAIM_ATTACHED || claim->uncertain)
		return false;
	if (!claim->suspect)
		return beads_remember(&claim->beads, ret);
	*ret = claim->memory;
	ret->proved_at = 0;
	return true;
}

/* NULL: its claim does not reclaim a hold that goes on. */
static struct claim *
claim_find_suspect(const struct claim *claim)
{
	struct claim *hold =
	    claim->reclaims == 0 ? NULL : amqp_claim_find(claim->quorum, claim->reclaims);

	return hold != NULL && hold->suspect ? hold : NULL;
}

/* The same beads, as another channel has left them. */
static void
claim_suspect_again(struct claim *hold, const struct beads_memory *memory)
{
	hold->memory = *memory;
	hold->memory.proved_at = hold->beads.proved_at;
	amqp_reclaims_add(hold->quorum->reclaims, hold->id, hold->queue, &hold->memory, false);
}

/*
 * The end of a claim, of a hold, or of a reclaim. If it was not clean, a reclaim can make the slot clean when the
 * holder has stopped.
 */
static void
claim_reclaim_later(struct claim *claim, enum broker_answer ended)
{
	struct amqp_quorum *quorum = claim->quorum;
	const struct broker_events *events = &quorum->broker->events;
	struct claim *hold = claim_find_suspect(claim);
	struct beads_memory memory;
	bool known;

	if (quorum->broker->stopped)
		return;
	known = claim_remember(claim, &memory);
	/* A claim that was not answered has no holder. */
	if (known && hold != NULL)
		claim_suspect_again(hold, &memory);
	else if (known)
		amqp_reclaims_add(quorum->reclaims, claim->id, claim->queue, &memory,
		    claim->stopped || claim->state == CLAIM_ATTACHED);
	else if (claim->reclaims != 0)
		amqp_reclaims_tried(
		    quorum->reclaims, claim->reclaims, claim_reclaim_result(claim, ended));
	if (claim->reclaims == 0 || !claim->proved)
		return;
	quorum->reclaimed++;
	if (events->reclaimed != NULL)
		events->reclaimed(events->ctx, claim->queue);
}

/*
 * The claim is over, and the channel is closed. Tells it in answers, and of a hold in an event. The
 * order of the messages in the queue says by itself whether the next holder must wait.
 */
static void
claim_end(struct claim *claim, enum broker_answer ended, int code, const char *text)
{
	struct amqp_quorum *quorum = claim->quorum;
	const struct broker_events *events = &quorum->broker->events;
	const struct broker_reply skipped = {
	    .answer = BROKER_SKIPPED, .text = "", .elsewhere = true};
	const struct broker_reply dropped = {
	    .answer = BROKER_OK,
	    .sent_at = claim->beads.asked_at,
	    .text = "",
	    .elsewhere = true,
	    .proved = claim->proved,
	};
	const struct broker_reply reply = {.answer = ended,
	    .code = code,
	    .text = text,
	    .elsewhere = true,
	    .removed = claim->removed};
	struct claim_questions asked = STAILQ_HEAD_INITIALIZER(asked);
	struct broker_done claimed = claim->claimed, done = claim->dropped;
	enum claim_state state = claim->state;
	bool drops = claim->drops, asks;
	uint64_t id = claim->id;

	amqp_raw_channel_close(&claim->raw);
	claim_end_reclaim(claim);
	claim_reclaim_later(claim, ended);
	STAILQ_CONCAT(&asked, &claim->asked);
	STAILQ_CONCAT(&asked, &claim->later);
	asks = !STAILQ_EMPTY(&asked);
	claim_free(claim);
	questions_answer(quorum, &asked, &skipped);
	if (state == CLAIM_WAITING || state == CLAIM_ATTACHED)
		question_answer(quorum, claimed, &reply);
	else if (drops)
		question_answer(quorum, done, &dropped);
	/* The callers wait for this event before they ask again. */
	if (state == CLAIM_GRANTED && (!drops || asks) && events->channel_closed != NULL)
		events->channel_closed(events->ctx, id, code, text);
}

static void
claim_set_timer(struct claim *claim, int64_t when)
{
	timers_set(claim->quorum->broker->timers, &claim->timer, when);
}

/* ---- a hold goes on without its channel (rule 8) ---- */

/*
 * The channel is gone, and no rival can hold the slot before the lease ends. False: the hold must end, as its
 * beads are not certain, or nobody needs it.
 */
static bool
claim_suspend(struct claim *claim)
{
	const struct broker *broker = claim->quorum->broker;
	struct beads_memory memory;

	if (claim->state != CLAIM_GRANTED || claim->drops || claim->stopped || broker->stopped ||
	    quorum_now(claim) >= beads_held_until(&claim->beads) || !claim_remember(claim, &memory))
		return false;
	amqp_quorum_link_leave(claim->link);
	claim->link = NULL;
	STAILQ_CONCAT(&claim->asked, &claim->later);
	STAILQ_CONCAT(&claim->later, &claim->asked);
	amqp_claim_suspect(claim, &memory);
	if (broker->events.suspended != NULL)
		broker->events.suspended(broker->events.ctx, claim->id);
	return true;
}

void
amqp_claim_suspect(struct claim *claim, const struct beads_memory *memory)
{
	claim->suspect = true;
	claim_set_timer(claim, beads_held_until(&claim->beads));
	claim_suspect_again(claim, memory);
}

/* Nobody needs it any more. */
static void
claim_end_reclaim(const struct claim *hold)
{
	struct claim *claim;

	if (!hold->suspect)
		return;
	TAILQ_FOREACH (claim, &hold->quorum->claims, entry) {
		if (claim->reclaims == hold->id) {
			claim_end(claim, BROKER_SKIPPED, 0, "");
			return;
		}
	}
}

/*
 * The reclaim is proved, and becomes the hold. Questions were perhaps asked after its proof was sent, so another
 * proof answers them.
 */
static void
claim_take_over(struct claim *claim, struct claim *hold)
{
	struct amqp_quorum *quorum = claim->quorum;

	log_debug("%s: the hold goes on, on another channel", claim->queue);
	HASH_DEL(quorum->by_id, claim);
	claim->id = hold->id;
	claim->reclaims = 0;
	claim->state = CLAIM_GRANTED;
	claim->granted_at = quorum_now(claim);
	claim->rotates = hold->rotates;
	STAILQ_CONCAT(&claim->later, &hold->later);
	claim_free(hold);
	HASH_ADD(hh, quorum->by_id, id, sizeof(claim->id), claim);
	amqp_reclaims_forget(quorum->reclaims, claim->queue);
}

/* ---- the news of the beads ---- */

/* The answer that the newest proof gives. */
struct broker_reply
amqp_claim_proof(const struct claim *claim)
{
	return (struct broker_reply){
	    .answer = BROKER_OK,
	    .channel_open = !claim->suspect,
	    .sent_at = claim->beads.proved_at,
	    .text = "",
	    .elsewhere = true,
	    .fence = beads_fence(&claim->beads, 0),
	    .grace = claim->beads.mine[0].grace,
	};
}

/* Whether a rotation is due, of one in so many. A frozen daemon begins none, so that it is soon still. */
static bool
claim_rotates(const struct claim *claim, int64_t of)
{
	return !claim->beads.strict && !claim->quorum->broker->frozen &&
	       jitter_below(&claim->quorum->broker->jitter, of) == 0;
}

static void claim_act(struct claim *claim, struct beads_acts acts);

static void
claim_grant(struct claim *claim)
{
	const struct broker_reply reply = amqp_claim_proof(claim);

	claim->state = CLAIM_GRANTED;
	claim->granted_at = quorum_now(claim);
	amqp_reclaims_forget(claim->quorum->reclaims, claim->queue);
	claim_set_timer(claim, beads_held_until(&claim->beads));
	claim->rotates = claim_rotates(claim, ROTATE_GRANTS);
	if (claim->rotates)
		claim_act(claim, beads_renew(&claim->beads, quorum_now(claim)));
	/* Last, as it may end the claim. */
	question_answer(claim->quorum, claim->claimed, &reply);
}

static int64_t
claim_proof_timeout(const struct claim *claim)
{
	int64_t timeout = claim->quorum->broker->settings.proof_timeout;

	return timeout != 0 ? timeout : AMQP_QUORUM_PROOF;
}

/* The next thing that was asked for, while nothing is in flight. */
static void
claim_go_on(struct claim *claim)
{
	assert(claim->beads.state == BEADS_HELD);
	if (claim->drops) {
		claim_set_timer(claim, quorum_now(claim) + claim_proof_timeout(claim));
		claim_act(claim, beads_release(&claim->beads, quorum_now(claim)));
	} else if (!STAILQ_EMPTY(&claim->later)) {
		STAILQ_CONCAT(&claim->asked, &claim->later);
		claim_act(claim, beads_renew(&claim->beads, quorum_now(claim)));
	}
}

static void
claim_renewed(struct claim *claim)
{
	struct amqp_quorum *quorum = claim->quorum;
	const struct broker_events *events = &quorum->broker->events;
	struct claim_questions asked = STAILQ_HEAD_INITIALIZER(asked);
	const struct broker_reply reply = amqp_claim_proof(claim);
	uint64_t removed = 0;

	if (claim->reclaims != 0) {
		struct claim *hold = claim_find_suspect(claim);

		assert(hold != NULL);
		if (hold->drops) {
			claim_end(claim, BROKER_SKIPPED, 0, "");
			return;
		}
		claim_take_over(claim, hold);
		removed = claim->removed ? claim->id : 0;
	}
	if (quorum_now(claim) - claim->granted_at >= HOLD_MOST) {
		claim_end(claim, BROKER_LOCKED, 0, "the hold is as old as its queue allows");
		return;
	}
	STAILQ_CONCAT(&asked, &claim->asked);
	claim_set_timer(claim, beads_held_until(&claim->beads));
	if (!claim->drops && ((claim->rotates && !quorum->broker->frozen) ||
				 claim_rotates(claim, CLAIM_ROTATE_RENEWALS))) {
		claim->rotates = false;
		claim_act(claim, beads_rotate(&claim->beads, quorum_now(claim)));
	} else {
		claim_go_on(claim);
	}
	/* Last, as they may end the claim. */
	questions_answer(quorum, &asked, &reply);
	if (removed != 0 && events->removed != NULL)
		events->removed(events->ctx, removed);
}

/*
 * Rule 8: a grace that no holder needs. The last hold was one of this daemon, its holder has stopped, and nobody
 * was active since.
 */
static bool
claim_skip_grace(struct claim *claim)
{
	const struct beads_memory *memory =
	    amqp_reclaims_find(claim->quorum->reclaims, claim->queue);

	if (memory == NULL || !beads_follows(&claim->beads, memory))
		return false;
	log_debug("%s: no grace, as the last holder was here, and has stopped", claim->queue);
	claim->quorum->reclaimed++;
	claim_act(claim, beads_prove_after(&claim->beads, memory, quorum_now(claim)));
	return true;
}

static void
claim_over(struct claim *claim)
{
	enum beads_end end = claim->beads.end;
	bool refused = end == BEADS_END_TWO_SETS || end == BEADS_END_VERSION;
	struct claim *hold = claim_find_suspect(claim);

	if (end == BEADS_END_UNSURE && ++claim->attaches < ATTACHES_MOST) {
		log_debug("%s: %s", claim->queue, beads_end_words(end));
		amqp_raw_channel_close(&claim->raw);
		claim->state = CLAIM_WAITING;
		claim_go(claim);
		return;
	}
	if (claim->state == CLAIM_GRANTED || hold != NULL || refused)
		log_warning("%s: %s", claim->queue, beads_end_words(end));
	if (hold != NULL)
		claim = hold; /* the reclaim ends with it */
	claim_end(claim, refused ? BROKER_REFUSED : BROKER_LOCKED, 0, beads_end_words(end));
}

/* Its answer comes behind all that was delivered before. */
static void
claim_send_qos(const struct claim *claim)
{
	amqp_basic_qos_t qos = {.prefetch_count = BEADS_PREFETCH};

	amqp_raw_channel_send(&claim->raw, AMQP_BASIC_QOS_METHOD, &qos);
}

/* Last, as the claim may end. */
static void
claim_act(struct claim *claim, struct beads_acts acts)
{
	const struct broker_events *events = &claim->quorum->broker->events;

	for (unsigned i = 0; i < acts.ack_count; i++)
		amqp_raw_channel_ack(&claim->raw, acts.acks[i]);
	if (acts.reject != 0)
		amqp_raw_channel_reject(&claim->raw, acts.reject);
	if (acts.barrier)
		claim_send_qos(claim);
	if (acts.reject != 0 && (claim->beads.state == BEADS_CLAIMING || claim->reclaims != 0))
		claim_set_timer(
		    claim, quorum_now(claim) + claim->quorum->broker->settings.probe_timeout);
	FAULT_IF(BEADS_GRANTED_ON_DELIVERY, claim->beads.state == BEADS_CLAIMING,
		 claim->beads.proved_at = quorum_now(claim);
		 claim->beads.state = BEADS_RENEWING; acts.news = BEADS_NOW_HELD);
	switch (acts.news) {
	case BEADS_NO_NEWS:
		break;
	case BEADS_UNCLEAN:
		/* The timer is the deadline of the consume. */
		FAULT(BEADS_GRACE_FROM_ATTACH,
		    claim->beads.until += claim->timer.when - quorum_now(claim) -
					  claim->quorum->broker->settings.probe_timeout);
		FAULT(BEADS_GRACE_ABANDONED, claim_end(claim, BROKER_LOCKED, 0, ""); return );
		FAULT(BEADS_ABANDONED_FLIPS, claim->beads.until = quorum_now(claim);
		      claim_act(claim, beads_release(&claim->beads, quorum_now(claim))); return );
		if (claim_skip_grace(claim))
			break;
		claim_set_timer(claim, claim->beads.until);
		/* Nobody wants to wait so long. */
		if (events->unclean != NULL &&
		    !events->unclean(events->ctx, claim->id, claim->beads.until))
			claim_end(claim, BROKER_LOCKED, 0, "");
		break;
	case BEADS_NOW_HELD:
		claim_grant(claim);
		break;
	case BEADS_RENEWED:
		claim_renewed(claim);
		break;
	case BEADS_NOW_RELEASED:
		claim->proved = true;
		claim_end(claim, BROKER_OK, 0, "");
		break;
	case BEADS_NOW_OVER:
		claim_over(claim);
		break;
	}
}

/*
 * The deadline of the state. A reject that is not answered is never sent again: two of them could make
 * the order clean while the slot is held.
 */
static void
claim_on_timer(void *ctx, uint64_t id)
{
	struct claim *claim = ctx;

	(void)id;
	if (claim->state == CLAIM_WAITING)
		claim_end(claim, BROKER_SKIPPED, 0, "");
	else if (claim->beads.state == BEADS_IN_GRACE && claim->quorum->broker->frozen)
		claim_set_timer(
		    claim, quorum_now(claim) + FROZEN_REST); /* or the successor proves it */
	else if (claim->beads.state == BEADS_IN_GRACE)
		claim_act(claim, beads_prove(&claim->beads, quorum_now(claim)));
	else if (claim->state == CLAIM_ATTACHED && claim->beads.state == BEADS_GATHERING &&
		 claim->beads.other_count > 0)
		claim_end(claim, BROKER_UNREACHABLE, 0, "the slot has no complete set of messages");
	else
		claim_end(claim, BROKER_LOCKED, 0,
		    claim->suspect ? "the lease ran out: the connection of the hold ended"
				   : "the broker did not answer in time");
}

/* ---- frames ---- */

static bool
claim_on_method(void *ctx, const struct amqp_frame *frame)
{
	struct claim *claim = ctx;

	switch (frame->method) {
	case AMQP_BASIC_QOS_OK_METHOD:
		/*
		 * The order of the beads is certain, or that after a rotation. Then the hold is
		 * renewed, which answers those that asked meanwhile.
		 */
		if (claim->beads.state == BEADS_BARRIER)
			STAILQ_CONCAT(&claim->asked, &claim->later);
		claim_act(claim, beads_barrier(&claim->beads, quorum_now(claim)));
		return true;
	case AMQP_BASIC_CONSUME_OK_METHOD: /* it comes before the consumer is registered */
		return true;
	case AMQP_BASIC_DELIVER_METHOD: {
		const amqp_basic_deliver_t *deliver = frame->fields;

		return amqp_raw_channel_announce(&claim->raw, deliver->delivery_tag);
	}
	case AMQP_BASIC_CANCEL_METHOD:
		/* Deleted, or some beads went back (a consumer timeout of 4.3). */
		claim->uncertain = true;
		claim_end(claim, BROKER_LOCKED, 0, "the broker ended the consumer");
		return true;
	default:
		return false;
	}
}

/* No bead. The first removal stays here, and returns with the beads. */
static void
claim_take_foreign(struct claim *claim, const char *text, uint64_t returned)
{
	const struct broker_events *events = &claim->quorum->broker->events;
	bool is_removal = strcmp(text, AMQP_REMOVAL_TEXT) == 0;
	/* Beads that came anew were returned with it. */
	bool again = is_removal && claim->removed && claim->beads.reclaims && returned > 0;
	bool kept = again || (is_removal && !claim->removed);

	beads_foreign(&claim->beads, returned, kept);
	if (again)
		return;
	if (!kept) {
		amqp_raw_channel_ack(&claim->raw, claim->raw.delivery);
		return;
	}
	FAULT(REMOVAL_REMOVED, amqp_raw_channel_ack(&claim->raw, claim->raw.delivery); return );
	claim->removed = true;
	if (claim->reclaims != 0)
		return; /* the order is made clean all the same */
	if (claim->state == CLAIM_ATTACHED)
		claim_end(claim, BROKER_LOCKED, 0, "the slot is removed");
	else if (events->removed != NULL)
		events->removed(events->ctx, claim->id);
}

static bool
claim_on_message(void *ctx)
{
	struct claim *claim = ctx;
	const struct amqp_content *content = &claim->raw.content;
	struct bead bead;

	if (content->size >= BEAD_TEXT || content->returned > BEAD_COUNT_MOST ||
	    !bead_read(content->body, (size_t)content->size, &bead)) {
		claim_take_foreign(claim, content->body, content->returned);
		return true;
	}
	bead.count = content->returned;
	bead.tag = claim->raw.delivery;
	claim_act(claim, beads_take(&claim->beads, &bead, quorum_now(claim)));
	return true;
}

static void
claim_on_closed(void *ctx, int code, const char *text)
{
	struct claim *claim = ctx;
	enum broker_answer ended = BROKER_SKIPPED;

	char *words = mem_printf("the broker closed the channel of the hold: %s", text);

	if (claim->raw.blames)
		ended = amqp_request_refusal(&(struct amqp_request){0}, code, text);
	if (claim_suspend(claim))
		log_warning("%s: %s", claim->queue, words);
	else
		claim_end(claim, ended, code, claim->state == CLAIM_GRANTED ? words : text);
	free(words);
}

/* ---- attaching ---- */

void
amqp_claim_begin_beads(struct claim *claim, const struct amqp_link *link)
{
	unsigned major = 0, minor = 0;

	(void)sscanf(link->server.version, "%u.%u", &major, &minor);
	beads_init(&claim->beads, major, minor);
}

/* Opens the channel, and becomes a consumer. All goes out in one flight. */
static void
claim_attach(struct claim *claim)
{
	const struct amqp_link *link = amqp_quorum_link_up(claim->link);
	struct amqp_raw_channel_tag tag =
	    amqp_raw_channel_tag(CLAIM_TAG, claim->id & ~AMQP_CLAIM_BIT);
	amqp_basic_consume_t consume = {
	    .queue = amqp_cstring_bytes(claim->queue),
	    .consumer_tag = amqp_cstring_bytes(tag.text),
	};

	amqp_claim_begin_beads(claim, link);
	if (claim->reclaims != 0)
		beads_reclaim(&claim->beads, &claim->memory);
	claim->state = CLAIM_ATTACHED;
	claim->removed = false;
	claim_set_timer(claim, quorum_now(claim) + claim->quorum->broker->settings.probe_timeout);
	claim_send_qos(claim);
	amqp_raw_channel_send(&claim->raw, AMQP_BASIC_CONSUME_METHOD, &consume);
}

/* WAITING, and its connection is perhaps up. */
static void
claim_go(struct claim *claim)
{
	if (amqp_quorum_link_up(claim->link) != NULL &&
	    amqp_raw_channel_open(&claim->raw, BEAD_TEXT))
		claim_attach(claim);
}

/* ---- connections ---- */

static void
quorum_on_up(void *ctx, const struct amqp_quorum_link *link)
{
	struct amqp_quorum *quorum = ctx;
	struct claim *claim, *next;

	TAILQ_FOREACH_SAFE (claim, &quorum->claims, entry, next)
		if (claim->link == link && claim->state == CLAIM_WAITING)
			claim_go(claim);
	amqp_reclaims_wake(quorum->reclaims);
}

/*
 * All its channels are gone. Claims that wait for it go on waiting, up to their deadlines. Holds go on up to their
 * leases.
 */
static bool
quorum_on_down(void *ctx, const struct amqp_quorum_link *link, const char *why)
{
	struct amqp_quorum *quorum = ctx;
	char *words = mem_printf("the connection of the hold ended: %s", why);
	bool wanted = false;
	struct claim *claim;

	/* From the start each time, as the callbacks may end other claims. */
again:
	TAILQ_FOREACH (claim, &quorum->claims, entry) {
		if (claim->link != link)
			continue;
		wanted |= claim->state == CLAIM_WAITING;
		if (claim->state < CLAIM_ATTACHED)
			continue;
		amqp_raw_channel_forget(&claim->raw);
		if (claim_suspend(claim))
			wanted = true;
		else
			claim_end(claim, BROKER_SKIPPED, 0, words);
		goto again;
	}
	free(words);
	return wanted;
}

/* ---- requests ---- */

bool
amqp_quorum_has(uint64_t id)
{
	return (id & AMQP_CLAIM_BIT) != 0;
}

struct amqp_reconnector *
amqp_quorum_reconnector(const struct amqp_quorum *quorum, enum broker_link which)
{
	return amqp_quorum_links_reconnector(quorum->links, which);
}

void
broker_get_quorum(const struct broker *broker, struct broker_quorum_info *ret)
{
	const struct claim *claim;

	*ret = (struct broker_quorum_info){
	    .connections = amqp_quorum_links_count(broker->quorum->links),
	    .reclaimed = broker->quorum->reclaimed,
	};
	for (unsigned i = 0; i < ret->connections; i++) {
		const struct amqp_reconnector *reconnector =
		    amqp_quorum_links_reconnector(broker->quorum->links, BROKER_QUORUM + i);
		const struct amqp_link *up = amqp_reconnector_link(reconnector);

		ret->connection[i].state = amqp_reconnector_state(reconnector);
		ret->connection[i].reconnects = amqp_reconnector_count(reconnector);
		ret->connection[i].host_number = amqp_reconnector_host(reconnector);
		ret->connection[i].version =
		    ret->connection[i].state == BROKER_UP ? up->server.version : "";
	}
	TAILQ_FOREACH (claim, &broker->quorum->claims, entry) {
		if (claim->suspect)
			continue;
		ret->connection[amqp_quorum_link_number(claim->link)].holds +=
		    claim->state == CLAIM_GRANTED && !claim->drops;
		ret->graces +=
		    claim->state == CLAIM_ATTACHED && claim->beads.state == BEADS_IN_GRACE;
	}
}

struct claim *
amqp_claim_new(struct amqp_quorum *quorum, uint64_t id, struct amqp_quorum_link *link)
{
	static const struct amqp_raw_channel_events raw_events = {
	    .method = claim_on_method, .message = claim_on_message, .closed = claim_on_closed};
	struct claim *claim = mem_alloc(sizeof(*claim));

	claim->id = id;
	claim->quorum = quorum;
	claim->link = link;
	amqp_raw_channel_init(
	    &claim->raw, amqp_quorum_link_channels(claim->link), &raw_events, claim);
	timer_init(&claim->timer, claim_on_timer, claim, 0);
	STAILQ_INIT(&claim->asked);
	STAILQ_INIT(&claim->later);
	HASH_ADD(hh, quorum->by_id, id, sizeof(claim->id), claim);
	TAILQ_INSERT_TAIL(&quorum->claims, claim, entry);
	return claim;
}

uint64_t
amqp_quorum_take(struct amqp_quorum *quorum)
{
	uint64_t id = ++quorum->serial | AMQP_CLAIM_BIT;

	return amqp_claim_new(quorum, id, amqp_quorum_links_take(quorum->links, false))->id;
}

void
amqp_quorum_put(struct amqp_quorum *quorum, uint64_t id)
{
	struct claim *claim = amqp_claim_find(quorum, id);

	if (claim == NULL)
		return;
	assert(claim->state == CLAIM_TAKEN || (claim->state == CLAIM_GRANTED && !claim->drops));
	assert(STAILQ_EMPTY(&claim->asked) && STAILQ_EMPTY(&claim->later));
	amqp_raw_channel_close(&claim->raw);
	claim_end_reclaim(claim);
	claim_reclaim_later(claim, BROKER_OK);
	claim_free(claim);
}

static void
claim_begin(struct claim *claim, const char *queue, struct broker_done done)
{
	struct amqp_quorum *quorum = claim->quorum;

	assert(claim->state == CLAIM_TAKEN);
	claim->queue = mem_strdup(queue);
	claim->claimed = done;
	claim->state = CLAIM_WAITING;
	claim_set_timer(claim, quorum_now(claim) + quorum->broker->settings.connect_timeout);
	amqp_quorum_link_need(claim->link);
	claim_go(claim);
}

void
amqp_quorum_claim(
    struct amqp_quorum *quorum, uint64_t id, const char *queue, struct broker_done done)
{
	claim_begin(amqp_claim_find(quorum, id), queue, done);
}

void
amqp_quorum_check(struct amqp_quorum *quorum, uint64_t id, struct broker_done done)
{
	struct claim *claim = amqp_claim_find(quorum, id);

	if (claim == NULL) {
		quorum_skip_later(quorum, done);
		return;
	}
	assert(claim->state == CLAIM_GRANTED && !claim->drops);
	amqp_question_add(&claim->later, done, quorum_now(claim));
	FAULT(BEADS_TWO_IN_FLIGHT, claim->beads.asked.number = 0; claim->beads.state = BEADS_HELD);
	if (claim->beads.state == BEADS_HELD && !claim->suspect)
		claim_go_on(claim);
}

void
amqp_quorum_drop(struct amqp_quorum *quorum, uint64_t id, bool stopped, struct broker_done done)
{
	struct claim *claim = amqp_claim_find(quorum, id);

	if (claim == NULL) {
		quorum_skip_later(quorum, done);
		return;
	}
	assert(claim->state == CLAIM_GRANTED && !claim->drops);
	claim->drops = true;
	claim->dropped = done;
	claim->stopped |= stopped;
	FAULT(BEADS_FLIPPED_UNSTOPPED, claim->stopped = true);
	if (!claim->stopped || claim->suspect) {
		/* The loop answers. Nothing is proved. */
		amqp_raw_channel_close(&claim->raw);
		claim_set_timer(claim, quorum_now(claim));
	} else if (claim->beads.state == BEADS_HELD) {
		claim_go_on(claim);
	} else {
		/* The renewal in flight is answered first. */
		claim_set_timer(claim, quorum_now(claim) + claim_proof_timeout(claim));
	}
}

/* ---- reclaims ---- */

static void
quorum_try_reclaim(void *ctx, uint64_t id, const char *queue, const struct beads_memory *memory)
{
	struct amqp_quorum *quorum = ctx;
	struct claim *claim = amqp_claim_new(
	    quorum, ++quorum->serial | AMQP_CLAIM_BIT, amqp_quorum_links_take(quorum->links, true));

	claim->reclaims = id;
	claim->memory = *memory;
	claim_begin(claim, queue, (struct broker_done){0});
}

void
broker_holder_stopped(struct broker *broker, uint64_t channel)
{
	struct claim *claim = amqp_claim_find(broker->quorum, channel), *next;
	const char *queue;

	if (claim != NULL) {
		claim->stopped = true;
		return;
	}
	queue = amqp_reclaims_stopped(broker->quorum->reclaims, channel);
	if (queue == NULL)
		return;
	/* A waiter of this daemon may have the beads, and would have to wait. */
	TAILQ_FOREACH_SAFE (claim, &broker->quorum->claims, entry, next)
		if (claim->state == CLAIM_ATTACHED && claim->beads.state == BEADS_IN_GRACE &&
		    strcmp(claim->queue, queue) == 0 && claim_skip_grace(claim))
			return;
}

void
amqp_quorum_wake(struct amqp_quorum *quorum)
{
	amqp_reclaims_wake(quorum->reclaims);
}

size_t
broker_reclaims(const struct broker *broker)
{
	return amqp_reclaims_fresh(broker->quorum->reclaims);
}

/* ---- life ---- */

struct amqp_quorum *
amqp_quorum_new(struct broker *broker, char *(*vet)(void *ctx, const struct amqp_server *server))
{
	struct amqp_quorum *quorum = mem_alloc(sizeof(*quorum));
	const struct amqp_quorum_links_events events = {
	    .vet = vet,
	    .up = quorum_on_up,
	    .down = quorum_on_down,
	    .ctx = quorum,
	};

	quorum->broker = broker;
	quorum->links = amqp_quorum_links_new(broker, &events);
	quorum->reclaims = amqp_reclaims_new(broker, quorum_try_reclaim, quorum);
	TAILQ_INIT(&quorum->claims);
	STAILQ_INIT(&quorum->gone);
	timer_init(&quorum->gone_timer, quorum_on_gone, quorum, 0);
	return quorum;
}

void
amqp_quorum_quit(struct amqp_quorum *quorum)
{
	amqp_quorum_links_quit(quorum->links);
}

void
amqp_quorum_free(struct amqp_quorum *quorum)
{
	struct claim *claim;

	if (quorum == NULL)
		return;
	while ((claim = TAILQ_FIRST(&quorum->claims)) != NULL)
		claim_end(claim, BROKER_SKIPPED, 0, "");
	amqp_reclaims_free(quorum->reclaims);
	timers_cancel(quorum->broker->timers, &quorum->gone_timer);
	quorum_on_gone(quorum, 0);
	amqp_quorum_links_free(quorum->links);
	free(quorum);
}
