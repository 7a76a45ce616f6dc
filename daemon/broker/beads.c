#include "daemon/broker/beads.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"

/*
 * Contents:
 *	The text of a bead: its parts as text, and back.
 *	Sets: beads_take_set() takes a complete one, and acknowledges older beads.
 *	The order: beads_are_clean() and beads_find_to_flip() read it (docs/QUORUM.md).
 *	Rejects: beads_flip_to_clean() and so on say which bead is rejected next.
 *	Reclaims: beads_remember() keeps what the next channel of a lost hold must see.
 *	Deliveries: beads_take() is the heart: gather, judge, and take the answer to a reject.
 *	Decisions: beads_prove(), beads_renew(), beads_rotate() and beads_release() are for the owner of the
 *	   channel.
 *	The successor: beads_resume() checks saved beads.
 *	Questions: the lease, the fence, and the words of an end.
 *	A look at all beads: beads_look() judges them for a repair.
 */

/* ---- the text of a bead ---- */

char *
bead_print(char text[BEAD_TEXT], const struct bead *bead)
{
	snprintf(text, BEAD_TEXT,
	    "bead %u epoch %" PRIu64 " set %016" PRIx64 " grace %" PRId64 " server %u",
	    bead->number, bead->epoch, bead->publisher, bead->grace / NSEC_PER_MSEC, bead->major);
	return text;
}

bool
bead_read(const char *text, size_t len, struct bead *ret)
{
	struct bead bead = {0};
	char again[BEAD_TEXT];

	if (len >= BEAD_TEXT ||
	    sscanf(text,
		"bead %1u epoch %10" SCNu64 " set %16" SCNx64 " grace %6" SCNd64 " server %3u",
		&bead.number, &bead.epoch, &bead.publisher, &bead.grace, &bead.major) != 5)
		return false;
	bead.grace *= NSEC_PER_MSEC;
	*ret = bead;
	/* Only the one text that bead_print() makes of it. */
	return strlen(text) == len && strcmp(bead_print(again, &bead), text) == 0 &&
	       bead.number >= 1 && bead.number <= BEADS && bead.epoch > 0 &&
	       bead.epoch <= BEAD_EPOCH_MOST && bead.grace >= BEAD_GRACE_LEAST &&
	       bead.grace <= BEAD_GRACE_MOST;
}

/* ---- sets ---- */

static bool
bead_same_set(const struct bead *a, const struct bead *b)
{
	return a->epoch == b->epoch && a->publisher == b->publisher;
}

/* Whether all beads of the set of `of` are among the others. */
static bool
beads_are_complete(const struct beads *beads, const struct bead *of)
{
	unsigned count = 0;

	for (unsigned i = 0; i < beads->other_count; i++)
		count += bead_same_set(&beads->others[i], of);
	return count == BEADS;
}

static struct bead
beads_take_other(struct beads *beads, unsigned at)
{
	struct bead bead = beads->others[at];

	beads->other_count--;
	memmove(&beads->others[at], &beads->others[at + 1],
	    (beads->other_count - at) * sizeof(beads->others[0]));
	return bead;
}

/* Takes a complete set out of the others, and acknowledges all lower ones. */
static void
beads_take_set(struct beads *beads, struct bead of, struct beads_acts *acts)
{
	unsigned count = 0, at = 0;

	beads->untouched = 0;
	while (at < beads->other_count) {
		if (bead_same_set(&beads->others[at], &of)) {
			beads->mine[count] = beads_take_other(beads, at);
			beads->untouched += beads->mine[count++].count == 0;
		} else if (beads->others[at].epoch < of.epoch) {
			acts->acks[acts->ack_count++] = beads_take_other(beads, at).tag;
		} else {
			at++;
		}
	}
	assert(count == BEADS);
}

/* ---- the order ---- */

/* One bit, which survives all returns: 1-2-3, or 1-3-2. */
static bool
beads_are_clean(const struct beads *beads)
{
	const struct bead *mine = beads->mine;

	if (FAULT_ELSE(BEADS_CYCLIC_SINCE_43, false, beads->strict))
		return mine[0].number == 1 && mine[1].number == 2;
	return mine[1].number == mine[0].number % BEADS + 1;
}

/*
 * The bead whose reject makes a dirty order clean. If only 1-2-3 is clean, more than one reject can be
 * needed: each puts the next bead behind those that are in their places.
 */
static unsigned
beads_find_to_flip(const struct beads *beads)
{
	unsigned next = 1;

	if (!beads->strict)
		return 1;
	for (unsigned i = 0; i < BEADS; i++)
		next += beads->mine[i].number == next;
	for (unsigned i = 0; i < BEADS; i++)
		if (beads->mine[i].number == next)
			return i;
	abort(); /* it is clean */
}

/* ---- rejects ---- */

static void
beads_set_state(struct beads *beads, enum beads_state state)
{
	assert(beads->state != BEADS_OVER && beads->state != BEADS_RELEASED);
	beads->state = state;
}

static struct beads_acts
beads_end(struct beads *beads, struct beads_acts acts, enum beads_end why)
{
	beads_set_state(beads, BEADS_OVER);
	beads->end = why;
	acts.news = BEADS_NOW_OVER;
	acts.reject = 0;
	return acts;
}

/* Rejects the bead at a place. It comes again, behind the two others. */
static void
beads_reject(struct beads *beads, unsigned place, int64_t now, struct beads_acts *acts)
{
	assert(beads->asked.number == 0 && place < BEADS);
	beads->asked = beads->mine[place];
	beads->asked_at = now;
	memmove(&beads->mine[place], &beads->mine[place + 1],
	    (BEADS - 1 - place) * sizeof(beads->mine[0]));
	beads->mine[BEADS - 1] = beads->asked;
	acts->reject = beads->asked.tag;
}

static void
beads_flip_to_clean(struct beads *beads, int64_t now, struct beads_acts *acts)
{
	beads_set_state(beads, BEADS_RELEASING);
	beads_reject(beads, beads_find_to_flip(beads), now, acts);
}

/* ---- reclaims ---- */

bool
beads_remember(const struct beads *beads, struct beads_memory *ret)
{
	if (beads->state < BEADS_CLAIMING || beads->state > BEADS_RELEASING)
		return false;
	*ret = (struct beads_memory){
	    .epoch = beads->mine[0].epoch,
	    .publisher = beads->mine[0].publisher,
	    .sum = beads_sum(beads),
	    .asked = beads->asked.number != 0,
	};
	return true;
}

/* Whether that hold was the last one. Each of its beads has returned, and perhaps its reject was performed. */
static bool
beads_are_next(const struct beads *beads, const struct beads_memory *memory)
{
	uint64_t more = beads_sum(beads) - memory->sum;

	if (beads->mine[0].epoch != memory->epoch || beads->mine[0].publisher != memory->publisher)
		return false;
	FAULT(RECLAIM_ANY_SUM, return true);
	FAULT_IF(REGAIN_ANY_SUM, memory->proved_at != 0, return true);
	return more == BEADS || (memory->asked && more == BEADS + 1);
}

bool
beads_follows(const struct beads *beads, const struct beads_memory *memory)
{
	return beads->state == BEADS_IN_GRACE && beads_are_next(beads, memory);
}

void
beads_reclaim(struct beads *beads, const struct beads_memory *memory)
{
	assert(beads->state == BEADS_GATHERING && beads->other_count == 0);
	beads->reclaims = true;
	beads->memory = *memory;
}

/* The hold goes on, if this is answered before the end of its lease. */
static struct beads_acts
beads_regain(struct beads *beads, int64_t now, struct beads_acts acts)
{
	beads->proved_at = beads->memory.proved_at;
	FAULT(REGAIN_LATE, beads->proved_at = now);
	if (now >= beads_held_until(beads))
		return beads_end(beads, acts, BEADS_END_LATE);
	beads_set_state(beads, BEADS_RENEWING);
	beads_reject(beads, BEADS - 1, now, &acts);
	return acts;
}

/* ---- deliveries ---- */

/* A clean order says that the last hold has ended. */
static struct beads_acts
beads_judge(struct beads *beads, int64_t now, struct beads_acts acts)
{
	FAULT_IF(REGAIN_OF_CLEAN, beads->reclaims && beads->memory.proved_at != 0,
	    return beads_regain(beads, now, acts));
	if (beads->reclaims && FAULT_ELSE(RECLAIM_OF_CLEAN, !beads_are_clean(beads), true)) {
		if (beads_are_clean(beads) || !beads_are_next(beads, &beads->memory))
			return beads_end(beads, acts, BEADS_END_FOLLOWED);
		if (beads->memory.proved_at != 0)
			return beads_regain(beads, now, acts);
		beads_flip_to_clean(beads, now, &acts);
		return acts;
	}
	if (beads_are_clean(beads)) {
		beads_set_state(beads, BEADS_CLAIMING);
		beads_reject(beads, 1, now, &acts);
		return acts;
	}
	beads_set_state(beads, BEADS_IN_GRACE);
	FAULT(BEADS_NO_GRACE, beads->until = now);
	acts.news = BEADS_UNCLEAN;
	return acts;
}

static void
beads_ask_barrier(struct beads *beads, struct beads_acts *acts)
{
	beads->barriers++;
	acts->barrier = true;
}

/*
 * The claimed set is complete. The last holder may believe in its hold for up to T from now: its last proof was
 * committed before this consumer was active.
 */
static struct beads_acts
beads_begin(struct beads *beads, int64_t now, struct beads_acts acts)
{
	if (beads->mine[0].major != beads->major)
		return beads_end(beads, acts, BEADS_END_VERSION);
	beads->until = now + beads->grace;
	beads->disturbed = beads->freed || beads->untouched > 0;
	beads->freed |= acts.ack_count > 0;
	FAULT(BEADS_ORDER_UNCHECKED, return beads_judge(beads, now, acts));
	/* If nobody was active since, a hold that goes on knows the order. */
	if (beads_are_new(beads) || (beads->reclaims && beads->memory.proved_at != 0))
		return beads_judge(beads, now, acts);
	beads_set_state(beads, BEADS_CHECKING);
	beads_ask_barrier(beads, &acts);
	return acts;
}

/* A claimant: a bead of a set that it has not chosen. */
static struct beads_acts
beads_gather(struct beads *beads, const struct bead *bead, int64_t now, struct beads_acts acts)
{
	for (unsigned i = 0; i < beads->other_count; i++)
		if (bead_same_set(&beads->others[i], bead) &&
		    beads->others[i].number == bead->number)
			return beads_end(beads, acts, BEADS_END_ODD);
	if (beads->other_count == BEADS_PREFETCH)
		return beads_end(beads, acts, BEADS_END_ODD);
	beads->others[beads->other_count++] = *bead;
	if (!beads_are_complete(beads, bead))
		return acts;
	if (beads->state != BEADS_GATHERING && bead->epoch == beads->mine[0].epoch)
		return beads_end(beads, acts, BEADS_END_TWO_SETS);
	if (bead->grace > beads->grace)
		beads->grace = bead->grace;
	/* The newer set takes the place of the claimed one. */
	for (unsigned i = 0; beads->state != BEADS_GATHERING && i < BEADS; i++)
		acts.acks[acts.ack_count++] = beads->mine[i].tag;
	beads_take_set(beads, *bead, &acts);
	return beads_begin(beads, now, acts);
}

/* The bead that was rejected came again: the reject was committed while this consumer was active. */
static struct beads_acts
beads_answered(struct beads *beads, const struct bead *bead, int64_t now, struct beads_acts acts)
{
	enum beads_state was = beads->state;

	beads->mine[BEADS - 1] = *bead;
	beads->asked.number = 0;
	if (was == BEADS_RELEASING) {
		if (!beads_are_clean(beads)) {
			beads_reject(beads, beads_find_to_flip(beads), now, &acts);
			return acts;
		}
		beads_set_state(beads, BEADS_RELEASED);
		acts.news = BEADS_NOW_RELEASED;
		return acts;
	}
	assert(was == BEADS_CLAIMING || was == BEADS_RENEWING || was == BEADS_ROTATING);
	/* The lease of a hold is judged by the answer before this one. */
	if (was == BEADS_CLAIMING)
		beads->proved_at = beads->asked_at;
	if (now >= beads_held_until(beads))
		return beads_end(beads, acts, BEADS_END_LATE);
	if (was == BEADS_ROTATING) {
		beads_set_state(beads, BEADS_BARRIER);
		beads_ask_barrier(beads, &acts);
		FAULT(BEADS_NO_BARRIER, acts.barrier = false; return beads_barrier(beads, now));
		return acts;
	}
	beads->proved_at = beads->asked_at;
	FAULT(BEADS_LEASE_FROM_ANSWER, beads->proved_at = now);
	beads_set_state(beads, BEADS_HELD);
	acts.news = was == BEADS_CLAIMING ? BEADS_NOW_HELD : BEADS_RENEWED;
	return acts;
}

/*
 * Rule 8 on the same channel: this consumer was suspended, and is active again. All beads come anew. Rejects of
 * earlier deliveries have no effect any more. As for another channel, the sum says whether a rival was active.
 */
static struct beads_acts
beads_regather(struct beads *beads, const struct bead *bead, int64_t now, struct beads_acts acts)
{
	struct beads_memory memory;

	if (now >= beads_held_until(beads) || !beads_remember(beads, &memory))
		return beads_end(beads, acts, BEADS_END_LATE);
	memory.proved_at = beads->proved_at;
	beads->memory = memory;
	beads->reclaims = true;
	beads->asked.number = 0;
	beads_set_state(beads, BEADS_GATHERING);
	return beads_gather(beads, bead, now, acts);
}

static bool
bead_is_answer(const struct beads *beads, const struct bead *bead)
{
	FAULT_IF(BEADS_COUNT_NOT_COMPARED, beads->asked.number == bead->number, return true);
	return beads->asked.number == bead->number && bead_same_set(&beads->asked, bead) &&
	       bead->count == beads->asked.count + 1;
}

struct beads_acts
beads_take(struct beads *beads, const struct bead *bead, int64_t now)
{
	struct beads_acts acts = {0};

	switch (beads->state) {
	case BEADS_GATHERING:
		return beads_gather(beads, bead, now, acts);
	case BEADS_RELEASED:
	case BEADS_OVER:
		return acts; /* the channel is closing */
	default:
		break;
	}
	if (bead->epoch < beads->mine[0].epoch) {
		acts.acks[acts.ack_count++] = bead->tag;
		beads_foreign(beads, bead->count, false);
	} else if ((beads->state == BEADS_CHECKING || beads->state == BEADS_IN_GRACE) &&
		   !bead_same_set(bead, &beads->mine[0])) {
		beads_foreign(beads, bead->count, true);
		return beads_gather(beads, bead, now, acts);
	} else if (bead_is_answer(beads, bead)) {
		return beads_answered(beads, bead, now, acts);
	} else if ((beads->state == BEADS_HELD || beads->state == BEADS_RENEWING) &&
		   bead_same_set(bead, &beads->mine[0])) {
		return beads_regather(beads, bead, now, acts);
	} else {
		return beads_end(beads, acts,
		    bead->epoch == beads->mine[0].epoch && !bead_same_set(bead, &beads->mine[0])
			? BEADS_END_TWO_SETS
			: BEADS_END_ODD);
	}
	return acts;
}

void
beads_foreign(struct beads *beads, uint64_t count, bool kept)
{
	beads->freed |= !kept;
	beads->disturbed |= !kept || count == 0;
	FAULT(BEADS_DISTURBANCE_IGNORED, beads->disturbed = false);
}

void
beads_own(struct beads *beads, uint64_t publisher)
{
	beads->own = publisher;
}

/* ---- decisions ---- */

struct beads_acts
beads_prove(struct beads *beads, int64_t now)
{
	struct beads_acts acts = {0};

	assert(beads->state == BEADS_IN_GRACE && now >= beads->until);
	beads_set_state(beads, BEADS_CLAIMING);
	beads_reject(beads, BEADS - 1, now, &acts);
	return acts;
}

struct beads_acts
beads_prove_after(struct beads *beads, const struct beads_memory *memory, int64_t now)
{
	assert(beads_follows(beads, memory));
	beads->until = now;
	return beads_prove(beads, now);
}

/*
 * The last bead keeps the order, and comes again only for this reject. After its consumer was suspended,
 * all beads come again, the first one first.
 */
struct beads_acts
beads_renew(struct beads *beads, int64_t now)
{
	struct beads_acts acts = {0};
	unsigned place = BEADS - 1;

	assert(beads->state == BEADS_HELD);
	beads_set_state(beads, BEADS_RENEWING);
	FAULT(BEADS_RENEWED_BY_HEAD, place = 0);
	beads_reject(beads, place, now, &acts);
	return acts;
}

struct beads_acts
beads_rotate(struct beads *beads, int64_t now)
{
	struct beads_acts acts = {0};

	assert(beads->state == BEADS_HELD && !beads->strict);
	beads_set_state(beads, BEADS_ROTATING);
	beads_reject(beads, 0, now, &acts);
	return acts;
}

struct beads_acts
beads_barrier(struct beads *beads, int64_t now)
{
	struct beads_acts acts = {0};

	/* Only the answer to the last one comes behind all that is known. */
	if (beads->barriers == 0 || --beads->barriers > 0)
		return acts;
	if (beads->state == BEADS_CHECKING)
		return beads->disturbed ? beads_end(beads, acts, BEADS_END_UNSURE)
					: beads_judge(beads, now, acts);
	if (beads->state != BEADS_BARRIER)
		return acts;
	beads_set_state(beads, BEADS_HELD);
	return beads_renew(beads, now);
}

struct beads_acts
beads_release(struct beads *beads, int64_t now)
{
	struct beads_acts acts = {0};

	assert(
	    beads->state == BEADS_HELD || (beads->state == BEADS_IN_GRACE && now >= beads->until));
	beads_flip_to_clean(beads, now, &acts);
	return acts;
}

bool
beads_are_new(const struct beads *beads)
{
	return beads->own != 0 && beads->untouched == BEADS &&
	       beads->mine[0].publisher == beads->own;
}

struct beads_acts
beads_release_new(struct beads *beads, int64_t now)
{
	struct beads_acts acts = {0};

	assert(beads->state == BEADS_IN_GRACE && beads_are_new(beads));
	beads_flip_to_clean(beads, now, &acts);
	return acts;
}

/* ---- the successor ---- */

static bool
bead_is_ours(const struct bead *bead)
{
	return bead->number >= 1 && bead->number <= BEADS && bead->epoch > 0 &&
	       bead->epoch <= BEAD_EPOCH_MOST && bead->grace >= BEAD_GRACE_LEAST &&
	       bead->grace <= BEAD_GRACE_MOST && bead->count <= BEAD_COUNT_MOST && bead->tag > 0;
}

static bool
beads_are_past(int64_t time, int64_t now)
{
	return time > 0 && time <= now;
}

bool
beads_resume(struct beads *beads, const struct beads *saved, int64_t now)
{
	unsigned numbers = 0;

	assert(beads->state == BEADS_GATHERING && saved->other_count <= BEADS_PREFETCH);
	for (unsigned i = 0; i < BEADS; i++) {
		if (!bead_is_ours(&saved->mine[i]) ||
		    !bead_same_set(&saved->mine[i], &saved->mine[0]) ||
		    saved->mine[i].major != beads->major)
			return false;
		numbers |= 1U << saved->mine[i].number;
	}
	for (unsigned i = 0; i < saved->other_count; i++)
		if (!bead_is_ours(&saved->others[i]))
			return false;
	beads->state = saved->state;
	memcpy(beads->mine, saved->mine, sizeof(beads->mine));
	memcpy(beads->others, saved->others, sizeof(beads->others));
	beads->other_count = saved->other_count;
	beads->grace = saved->grace;
	beads->until = saved->until;
	beads->asked_at = saved->asked_at;
	beads->proved_at = saved->proved_at;
	if (saved->state == BEADS_RENEWING)
		beads->asked = beads->mine[BEADS - 1];
	if (numbers != (1U << (BEADS + 1)) - 2 || beads_are_clean(beads) ||
	    saved->grace < saved->mine[0].grace || saved->grace > BEAD_GRACE_MOST)
		return false;
	if (saved->state == BEADS_IN_GRACE)
		return saved->until > 0 && saved->until <= now + saved->grace;
	return beads_are_past(saved->proved_at, now) && beads_are_past(saved->asked_at, now) &&
	       saved->asked_at >= saved->proved_at;
}

/* ---- questions ---- */

int64_t
beads_held_until(const struct beads *beads)
{
	return beads->proved_at + bead_lease(beads->mine[0].grace);
}

uint64_t
beads_sum(const struct beads *beads)
{
	return beads->mine[0].count + beads->mine[1].count + beads->mine[2].count;
}

uint64_t
beads_fence(const struct beads *beads, unsigned hand_offs)
{
	assert(hand_offs <= UINT8_MAX);
	return (beads->mine[0].epoch << BEAD_FENCE_BITS) + (beads_sum(beads) << 8) + hand_offs;
}

void
beads_init(struct beads *beads, unsigned major, unsigned minor)
{
	*beads = (struct beads){.major = major, .strict = major > 4 || (major == 4 && minor >= 3)};
}

const char *
beads_end_words(enum beads_end end)
{
	static const char *const words[] = {
	    [BEADS_END_NONE] = "",
	    [BEADS_END_UNSURE] = "the order of the slot's messages is not certain",
	    [BEADS_END_ODD] =
		"the slot's messages came in an order that another holder could have made",
	    [BEADS_END_LATE] = "the broker confirmed the hold after its lease",
	    [BEADS_END_TWO_SETS] = "the slot has two sets of messages of one epoch; see "
				   "lockbroker fsck",
	    [BEADS_END_VERSION] = "the slot's messages are of another major version of RabbitMQ; "
				  "see lockbroker fsck",
	    [BEADS_END_FOLLOWED] = "the slot was used since",
	};

	return words[end];
}

/* ---- a look at all beads ---- */

static bool
look_is_complete(const struct bead *beads, size_t count, const struct bead *of)
{
	unsigned numbers = 0;

	for (size_t i = 0; i < count; i++)
		if (bead_same_set(&beads[i], of))
			numbers |= 1U << beads[i].number;
	return numbers == (1U << (BEADS + 1)) - 2;
}

/* How often this very bead is there. */
static unsigned
look_copies(const struct bead *beads, size_t count, const struct bead *of)
{
	unsigned found = 0;

	for (size_t i = 0; i < count; i++)
		found += bead_same_set(&beads[i], of) && beads[i].number == of->number;
	return found;
}

/* Beside the newest complete set, a claimant can only use single beads of older sets. */
static bool
look_confuses(
    const struct bead *beads, size_t count, const struct bead *bead, const struct bead *newest)
{
	if (look_copies(beads, count, bead) > 1)
		return true;
	if (bead_same_set(bead, newest))
		return false;
	return bead->epoch >= newest->epoch || look_is_complete(beads, count, bead);
}

void
beads_look(const struct bead *beads, size_t count, unsigned major, struct broker_beads_seen *ret)
{
	const struct bead *newest = NULL;
	bool two = false, odd = false;

	*ret = (struct broker_beads_seen){.beads = (unsigned)count};
	for (size_t i = 0; i < count; i++) {
		const struct bead *bead = &beads[i];

		if (bead->epoch > ret->epoch)
			ret->epoch = bead->epoch;
		if (bead->grace > ret->grace)
			ret->grace = bead->grace;
		if (!look_is_complete(beads, count, bead))
			continue;
		if (newest == NULL || bead->epoch > newest->epoch) {
			newest = bead;
			two = false;
		} else if (bead->epoch == newest->epoch) {
			two |= !bead_same_set(bead, newest);
		}
	}
	for (size_t i = 0; newest != NULL && i < count; i++)
		odd |= look_confuses(beads, count, &beads[i], newest);
	ret->major = newest != NULL ? newest->major : 0;
	ret->found = count == 0               ? BROKER_BEADS_NONE
		     : newest == NULL         ? BROKER_BEADS_PART
		     : two                    ? BROKER_BEADS_TWO_SETS
		     : odd                    ? BROKER_BEADS_ODD
		     : newest->major != major ? BROKER_BEADS_VERSION
		     : count > BEADS          ? BROKER_BEADS_BESIDE
					      : BROKER_BEADS_SOUND;
}

bool
beads_look_claimable(const struct broker_beads_seen *seen)
{
	return seen->found == BROKER_BEADS_SOUND || seen->found == BROKER_BEADS_BESIDE;
}
