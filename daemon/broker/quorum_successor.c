/*
 * Claims and holds by quorum in the state for a successor (quorum.h).
 */
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/broker/quorum_internal.h"
#include "daemon/broker/setup.h"
#include "daemon/state/state.h"

/*
 * Contents:
 *	Stillness: which claims go on, and whether they can be saved now.
 *	Saving: amqp_quorum_save() writes the connections with their claims and beads, then suspects and
 *	   reclaims.
 *	Restoring: amqp_quorum_resume() reads these records, and checks each field against the others.
 *	The engine's part: broker_restore_hold(), broker_restore_grace() and broker_await_proof().
 */

struct quorum_record {
	uint64_t serial, reclaimed;
};

static const struct state_field quorum_fields[] = {
    STATE_FIELD(quorum_record, serial, STATE_NUMBER),
    STATE_FIELD(quorum_record, reclaimed, STATE_NUMBER),
    {0},
};

struct quorum_link_record {
	int number;
};

static const struct state_field quorum_link_fields[] = {
    STATE_RANGE(quorum_link_record, number, 0, BROKER_QUORUM_MOST - 1),
    {0},
};

/* A claim that is held, or in its grace. Its beads follow: first the claimed set, then others. */
struct claim_record {
	uint64_t id;
	int channel;
	const char *queue;
	bool held, awaited; /* awaited: the reject of the last bead of the set is unanswered */
	int64_t grace, until, asked_at, proved_at, granted_at;
	bool removed, stopped, rotates;
	int others;
};

static const struct state_field claim_fields[] = {
    STATE_FIELD(claim_record, id, STATE_NUMBER),
    STATE_RANGE(claim_record, channel, 1, UINT16_MAX),
    STATE_FIELD(claim_record, queue, STATE_TEXT),
    STATE_FIELD(claim_record, held, STATE_BOOL),
    STATE_FIELD(claim_record, awaited, STATE_BOOL),
    STATE_FIELD(claim_record, grace, STATE_SIGNED),
    STATE_FIELD(claim_record, until, STATE_SIGNED),
    STATE_FIELD(claim_record, asked_at, STATE_SIGNED),
    STATE_FIELD(claim_record, proved_at, STATE_SIGNED),
    STATE_FIELD(claim_record, granted_at, STATE_SIGNED),
    STATE_FIELD(claim_record, removed, STATE_BOOL),
    STATE_FIELD(claim_record, stopped, STATE_BOOL),
    STATE_FIELD(claim_record, rotates, STATE_BOOL),
    STATE_RANGE(claim_record, others, 0, BEADS_PREFETCH),
    {0},
};

struct bead_record {
	int number, major;
	uint64_t epoch, publisher, count, tag;
	int64_t grace;
};

static const struct state_field bead_fields[] = {
    STATE_RANGE(bead_record, number, 1, BEADS),
    STATE_RANGE(bead_record, major, 0, INT32_MAX),
    STATE_FIELD(bead_record, epoch, STATE_NUMBER),
    STATE_FIELD(bead_record, publisher, STATE_NUMBER),
    STATE_FIELD(bead_record, count, STATE_NUMBER),
    STATE_FIELD(bead_record, tag, STATE_NUMBER),
    STATE_FIELD(bead_record, grace, STATE_SIGNED),
    {0},
};

/* A hold without its channel. sum: as its next reclaim remembers it. */
struct suspect_record {
	uint64_t id;
	const char *queue;
	uint64_t epoch, publisher, count, sum; /* count: the sum of its newest proof */
	bool asked, rotates;
	int64_t grace, proved_at;
};

static const struct state_field suspect_fields[] = {
    STATE_FIELD(suspect_record, id, STATE_NUMBER),
    STATE_FIELD(suspect_record, queue, STATE_TEXT),
    STATE_FIELD(suspect_record, epoch, STATE_NUMBER),
    STATE_FIELD(suspect_record, publisher, STATE_NUMBER),
    STATE_FIELD(suspect_record, count, STATE_NUMBER),
    STATE_FIELD(suspect_record, sum, STATE_NUMBER),
    STATE_FIELD(suspect_record, asked, STATE_BOOL),
    STATE_FIELD(suspect_record, rotates, STATE_BOOL),
    STATE_FIELD(suspect_record, grace, STATE_SIGNED),
    STATE_FIELD(suspect_record, proved_at, STATE_SIGNED),
    {0},
};

/* ---- stillness ---- */

static bool
claim_is_in_grace(const struct claim *claim)
{
	return claim->state == CLAIM_ATTACHED && claim->beads.state == BEADS_IN_GRACE;
}

/* Whether the successor goes on with it, and with its channel. Over TLS there is none. */
static bool
claim_goes_on(const struct claim *claim)
{
	return ((claim->state == CLAIM_GRANTED && !claim->suspect) || claim_is_in_grace(claim)) &&
	       !amqp_quorum_link_is_tls(claim->link);
}

/* The end of this program is that of its channel. */
static bool
claim_becomes_suspect(const struct claim *claim)
{
	return claim->state == CLAIM_GRANTED && !claim->suspect && !claim->drops &&
	       amqp_quorum_link_is_tls(claim->link);
}

/* Its end would add to the counts of a hold that goes on. */
static bool
claim_is_proving(const struct claim *claim)
{
	return claim->state == CLAIM_ATTACHED && claim->reclaims != 0 &&
	       claim->memory.proved_at != 0;
}

bool
amqp_quorum_has_state(const struct amqp_quorum *quorum)
{
	return !TAILQ_EMPTY(&quorum->claims) || amqp_reclaims_any(quorum->reclaims);
}

bool
broker_quorum_is_still(const struct broker *broker)
{
	const struct claim *claim;

	TAILQ_FOREACH (claim, &broker->quorum->claims, entry) {
		enum beads_state state = claim->beads.state;

		if (claim_is_proving(claim) ||
		    (claim_becomes_suspect(claim) && state == BEADS_GATHERING))
			return false;
		if (!claim_goes_on(claim))
			continue;
		if ((!claim_is_in_grace(claim) && state != BEADS_HELD && state != BEADS_RENEWING) ||
		    !amqp_raw_channel_is_still(&claim->raw))
			return false;
	}
	return amqp_quorum_links_are_still(broker->quorum->links);
}

bool
broker_quorum_is_idle(const struct broker *broker)
{
	const struct claim *claim;

	TAILQ_FOREACH (claim, &broker->quorum->claims, entry) {
		bool ends = !claim_goes_on(claim) && !claim_becomes_suspect(claim);

		if (!claim->suspect && (ends || claim->beads.state == BEADS_RENEWING))
			return false;
	}
	return true;
}

size_t
amqp_quorum_taken(const struct amqp_quorum *quorum)
{
	return HASH_COUNT(quorum->by_id);
}

bool
broker_in_grace(const struct broker *broker, uint64_t channel)
{
	const struct claim *claim = amqp_claim_find(broker->quorum, channel);

	return claim != NULL && claim_is_in_grace(claim) && claim_goes_on(claim);
}

/* ---- saving ---- */

static void
save_bead(struct state_writer *writer, const struct bead *bead)
{
	const struct bead_record record = {
	    .number = (int)bead->number,
	    .major = (int)bead->major,
	    .epoch = bead->epoch,
	    .publisher = bead->publisher,
	    .count = bead->count,
	    .tag = bead->tag,
	    .grace = bead->grace,
	};

	state_put(writer, "bead", bead_fields, &record);
}

static void
save_claim(struct state_writer *writer, const struct claim *claim)
{
	const struct beads *beads = &claim->beads;
	const struct claim_record record = {
	    .id = claim->id,
	    .channel = claim->raw.number,
	    .queue = claim->queue,
	    .held = claim->state == CLAIM_GRANTED,
	    .awaited = beads->state == BEADS_RENEWING,
	    .grace = beads->grace,
	    .until = beads->until,
	    .asked_at = beads->asked_at,
	    .proved_at = beads->proved_at,
	    .granted_at = claim->granted_at,
	    .removed = claim->removed,
	    .stopped = claim->stopped,
	    .rotates = claim->rotates,
	    .others = (int)beads->other_count,
	};

	state_put(writer, "claim", claim_fields, &record);
	for (unsigned i = 0; i < BEADS; i++)
		save_bead(writer, &beads->mine[i]);
	for (unsigned i = 0; i < beads->other_count; i++)
		save_bead(writer, &beads->others[i]);
}

static void
save_suspect(struct state_writer *writer, const struct claim *claim)
{
	struct beads_memory memory = claim->memory;

	if (!claim->suspect && !beads_remember(&claim->beads, &memory))
		return; /* GRANTED: it can be remembered */

	const struct suspect_record record = {
	    .id = claim->id,
	    .queue = claim->queue,
	    .epoch = memory.epoch,
	    .publisher = memory.publisher,
	    .count = beads_sum(&claim->beads),
	    .sum = memory.sum,
	    .asked = memory.asked,
	    .rotates = claim->rotates,
	    .grace = claim->beads.mine[0].grace,
	    .proved_at = claim->beads.proved_at,
	};

	state_put(writer, "suspect", suspect_fields, &record);
}

static bool
save_link(struct amqp_quorum *quorum, struct amqp_quorum_link *link, struct state_writer *writer)
{
	const struct claim *claim;

	state_put(writer, "quorum-link", quorum_link_fields,
	    &(struct quorum_link_record){.number = (int)amqp_quorum_link_number(link)});
	if (!amqp_quorum_link_save(link, writer))
		return false;
	TAILQ_FOREACH (claim, &quorum->claims, entry)
		if (claim->link == link && claim_goes_on(claim))
			save_claim(writer, claim);
	return true;
}

bool
amqp_quorum_save(struct amqp_quorum *quorum, struct state_writer *writer)
{
	const struct claim *claim;
	struct beads_memory memory;

	if (!amqp_quorum_has_state(quorum))
		return true;
	state_put(writer, "quorum", quorum_fields,
	    &(struct quorum_record){.serial = quorum->serial, .reclaimed = quorum->reclaimed});
	for (unsigned i = 0; i < amqp_quorum_links_count(quorum->links); i++) {
		struct amqp_quorum_link *link = amqp_quorum_links_get(quorum->links, i);

		if (amqp_quorum_link_up(link) != NULL && !amqp_quorum_link_is_tls(link) &&
		    !save_link(quorum, link, writer))
			return false;
	}
	amqp_reclaims_save(quorum->reclaims, writer);
	/* The newest of a queue comes last. */
	TAILQ_FOREACH (claim, &quorum->claims, entry)
		if (claim->state == CLAIM_ATTACHED && !claim_goes_on(claim) &&
		    beads_remember(&claim->beads, &memory))
			amqp_reclaims_save_claim(
			    quorum->reclaims, writer, claim->id, claim->queue, &memory);
	TAILQ_FOREACH (claim, &quorum->claims, entry)
		if ((claim->suspect && !claim->drops) || claim_becomes_suspect(claim))
			save_suspect(writer, claim);
	return true;
}

/* ---- restoring ---- */

static bool
claim_is_id(uint64_t id, uint64_t serial)
{
	return (id & AMQP_CLAIM_BIT) != 0 && id != AMQP_CLAIM_BIT &&
	       (id & ~AMQP_CLAIM_BIT) <= serial;
}

static bool
claim_take_beads(struct state_reader *reader, struct bead *ret, int count)
{
	struct bead_record record;

	for (int i = 0; i < count; i++) {
		if (!state_take(reader, "bead", bead_fields, &record))
			return false;
		ret[i] = (struct bead){
		    .number = (unsigned)record.number,
		    .epoch = record.epoch,
		    .publisher = record.publisher,
		    .grace = record.grace,
		    .major = (unsigned)record.major,
		    .count = record.count,
		    .tag = record.tag,
		};
	}
	return true;
}

/* The claim has its channel, and no beads. False: it can only be freed. */
static bool
restore_beads(struct claim *claim, const struct claim_record *record, struct state_reader *reader)
{
	int64_t now = broker_now(claim->quorum->broker);
	struct beads saved = {
	    .state = !record->held     ? BEADS_IN_GRACE
		     : record->awaited ? BEADS_RENEWING
				       : BEADS_HELD,
	    .grace = record->grace,
	    .until = record->until,
	    .asked_at = record->asked_at,
	    .proved_at = record->proved_at,
	    .other_count = (unsigned)record->others,
	};

	if (!claim_take_beads(reader, saved.mine, BEADS) ||
	    !claim_take_beads(reader, saved.others, record->others))
		return false;
	FAULT(RESTORED_COUNT_FORGOTTEN, saved.mine[0].count = 0);
	FAULT_IF(RESTORED_REJECT_FORGOTTEN, record->awaited, saved.state = BEADS_HELD);
	FAULT_IF(RESTORED_GRACE_IS_OVER, !record->held, saved.until = now);
	amqp_claim_begin_beads(claim, amqp_quorum_link_up(claim->link));
	if (!beads_resume(&claim->beads, &saved, now))
		return state_spoil(reader, "a claim has beads that cannot be");
	FAULT_IF(RESTORED_PROOF_IS_NEW, record->held,
	    claim->beads.proved_at = claim->beads.asked_at = now);
	timers_set(claim->quorum->broker->timers, &claim->timer,
	    record->held ? beads_held_until(&claim->beads) : claim->beads.until);
	FAULT_IF(RESTORED_REJECT_SENT_AGAIN, record->awaited,
	    amqp_raw_channel_reject(&claim->raw, saved.mine[BEADS - 1].tag));
	return true;
}

static bool
restore_claim(
    struct amqp_quorum *quorum, struct amqp_quorum_link *link, struct state_reader *reader)
{
	int64_t now = broker_now(quorum->broker);
	struct claim_record record;
	struct claim *claim;

	if (!state_take(reader, "claim", claim_fields, &record))
		return false;
	if (!claim_is_id(record.id, quorum->serial) || amqp_claim_find(quorum, record.id) != NULL ||
	    record.queue == NULL || strlen(record.queue) > UINT8_MAX || record.granted_at < 0 ||
	    record.granted_at > now || (record.held && record.others != 0))
		return state_spoil(reader, "invalid record of a claim");
	amqp_quorum_link_enter(link);
	claim = amqp_claim_new(quorum, record.id, link);
	claim->state = record.held ? CLAIM_GRANTED : CLAIM_ATTACHED;
	claim->queue = mem_strdup(record.queue);
	claim->granted_at = record.granted_at;
	claim->removed = record.removed;
	claim->stopped = record.stopped;
	claim->rotates = record.rotates;
	if (!amqp_raw_channel_resume(&claim->raw, (uint16_t)record.channel, BEAD_TEXT))
		return state_spoil(reader, "a claim has no channel");
	return restore_beads(claim, &record, reader);
}

static bool
restore_suspect(struct amqp_quorum *quorum, struct state_reader *reader)
{
	int64_t now = broker_now(quorum->broker);
	struct suspect_record record;
	struct claim *claim;

	if (!state_take(reader, "suspect", suspect_fields, &record))
		return false;
	if (!claim_is_id(record.id, quorum->serial) || amqp_claim_find(quorum, record.id) != NULL ||
	    record.queue == NULL || strlen(record.queue) > UINT8_MAX || record.epoch == 0 ||
	    record.epoch > BEAD_EPOCH_MOST || record.count > BEADS * BEAD_COUNT_MOST ||
	    record.sum < record.count || record.grace < BEAD_GRACE_LEAST ||
	    record.grace > BEAD_GRACE_MOST || record.proved_at <= 0 || record.proved_at > now)
		return state_spoil(reader, "invalid record of a suspect hold");
	claim = amqp_claim_new(quorum, record.id, amqp_quorum_links_get(quorum->links, 0));
	claim->link = NULL;
	claim->state = CLAIM_GRANTED;
	claim->queue = mem_strdup(record.queue);
	claim->rotates = record.rotates;
	beads_init(&claim->beads, 0, 0);
	claim->beads.state = BEADS_HELD;
	claim->beads.mine[0] = (struct bead){.number = 1,
	    .epoch = record.epoch,
	    .publisher = record.publisher,
	    .grace = record.grace,
	    .count = record.count};
	claim->beads.proved_at = record.proved_at;
	amqp_claim_suspect(claim, &(struct beads_memory){.epoch = record.epoch,
				      .publisher = record.publisher,
				      .sum = record.sum,
				      .asked = record.asked});
	return true;
}

bool
amqp_quorum_resume(struct amqp_quorum *quorum, struct state_reader *reader)
{
	struct quorum_record all;
	struct quorum_link_record record;
	struct amqp_quorum_link *link;

	if (!state_is(reader, "quorum"))
		return true;
	if (!state_take(reader, "quorum", quorum_fields, &all))
		return false;
	if (all.serial > UINT64_MAX >> 2)
		return state_spoil(reader, "the serial number is too large");
	quorum->serial = all.serial;
	quorum->reclaimed = all.reclaimed;
	while (state_is(reader, "quorum-link")) {
		if (!state_take(reader, "quorum-link", quorum_link_fields, &record))
			return false;
		link = amqp_quorum_links_resume(quorum->links, (unsigned)record.number, reader);
		if (link == NULL)
			return false;
		while (state_is(reader, "claim"))
			if (!restore_claim(quorum, link, reader))
				return false;
		amqp_channels_drop_unused(amqp_quorum_link_channels(link));
	}
	if (!amqp_reclaims_restore(quorum->reclaims, reader))
		return false;
	while (state_is(reader, "suspect"))
		if (!restore_suspect(quorum, reader))
			return false;
	return true;
}

/* ---- the engine's part ---- */

/* NULL: it is not there, is of another queue, or has a hold. */
static struct claim *
claim_find_for_hold(struct amqp_quorum *quorum, uint64_t id, const char *queue)
{
	struct claim *claim = amqp_claim_find(quorum, id);

	if (claim == NULL || claim->restored || queue == NULL || strcmp(claim->queue, queue) != 0)
		return NULL;
	return claim;
}

bool
broker_restore_hold(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_reply *ret_proof)
{
	struct claim *claim = claim_find_for_hold(broker->quorum, channel, queue);

	if (claim == NULL || claim->state != CLAIM_GRANTED)
		return false;
	claim->restored = true;
	*ret_proof = amqp_claim_proof(claim);
	return true;
}

bool
broker_restore_grace(struct broker *broker, uint64_t channel, const char *queue,
    struct broker_done claimed, int64_t *ret_until)
{
	struct claim *claim = claim_find_for_hold(broker->quorum, channel, queue);

	if (claim == NULL || !claim_is_in_grace(claim))
		return false;
	claim->restored = true;
	claim->claimed = claimed;
	*ret_until = claim->beads.until;
	return true;
}

bool
broker_await_proof(struct broker *broker, uint64_t channel, struct broker_done done)
{
	struct claim *claim = amqp_claim_find(broker->quorum, channel);

	if (claim == NULL || claim->beads.state != BEADS_RENEWING)
		return false;
	amqp_question_add(&claim->asked, done, claim->beads.asked_at);
	return true;
}
