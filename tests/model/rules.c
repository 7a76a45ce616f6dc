/*
 * The protocol, rule by rule. The rules have the numbers of the description of the way `quorum`.
 * A mistake changes one of them.
 */
#include "tests/model/rules.h"
#include <string.h>
#include "tests/model/memory.h"
#include "tests/model/view.h"

const char *const client_name[CLIENTS_MAX] = {"A", "B", "C"};

static unsigned
epoch_of(unsigned set)
{
	return setup->epoch[set] != 0 ? setup->epoch[set] : set + 1;
}

/* Of the set, or of the one before. */
static unsigned
ticks_of(const uint8_t ticks[SETS_MAX], unsigned set)
{
	while (set > 0 && ticks[set] == 0)
		set--;
	return ticks[set] != 0 ? ticks[set] : 3;
}

static unsigned
t_of(unsigned set)
{
	return ticks_of(setup->grace, set);
}

static unsigned
l_of(unsigned set)
{
	return ticks_of(setup->lease, set);
}

/* Rejects a bead of the claimed set. False if it is out. */
static bool
reject(struct world *w, unsigned i, unsigned bead, enum why why, enum request request)
{
	struct client *k = &w->clients[i];
	unsigned message = message_of_bead(k->set - 1u, bead);
	for (unsigned at = 0; at < k->n_seen && k->n_out < OUT_MAX; at++) {
		if (k->seen[at].message != message)
			continue;
		struct seen delivery = view_take_seen(k, at);
		k->out[k->n_out++] =
		    (struct out){delivery, (uint8_t)why, (uint8_t)l_of(k->set - 1u)};
		server_send(w, channel_of(i), delivery, request);
		return true;
	}
	return false;
}

/* The bead whose reject makes an order clean, or leads to it: behind those that stand in order already. */
static unsigned
bead_to_flip(const uint8_t beads[BEADS])
{
	if (makes(TWO_BEADS))
		return beads[0];
	if (!setup->since_4_3)
		return beads[1];
	unsigned at = 0, bead = 0;
	while (at < BEADS)
		bead += beads[at++] == bead;
	return bead;
}

static unsigned
middle_of(const uint8_t beads[BEADS])
{
	return makes(TWO_BEADS) ? beads[0] : beads[1];
}

static unsigned
last_of(const uint8_t beads[BEADS])
{
	return beads[beads_of_a_set() - 1];
}

/* The server may deliver more then. */
static void
acknowledge(struct world *w, unsigned i, struct seen delivery)
{
	w->clients[i].freed = setup->fetches;
	server_send(w, channel_of(i), delivery, ACKNOWLEDGE);
}

/* ---- the end of a claim or a hold (rules 6 and 7) ---- */

static void
clear_claim(struct client *k)
{
	struct client kept = {.mode = k->mode,
	    .claims = k->claims,
	    .jobs = k->jobs,
	    .memory_set = k->memory_set,
	    .memory_behind = k->memory_behind,
	    .memory_out = k->memory_out,
	    .lingering = k->lingering,
	    .pausing = k->pausing,
	    .ahead = k->ahead};
	*k = kept;
}

/* The client has stopped. Its channel closes, which the server hears later. */
static void
stop(struct world *w, unsigned i)
{
	struct client *k = &w->clients[i];
	if (k->mode != CLOSING)
		memory_remember(w, k);
	clear_claim(k);
	k->mode = CLOSING;
	if (server_has_old_channel(w, i))
		return;
	server_close(w, i);
	k->mode = IDLE;
}

static void
step_stop(const struct world *before, unsigned i, const char *text)
{
	struct world w = *before;
	step_say("client %s: %s", client_name[i], text);
	stop(&w, i);
	step_add(&w);
}

/* In the course of a step that is told already. */
static void
end_step_by_stop(struct world *w, unsigned i, const char *text)
{
	step_say_also(": %s", text);
	stop(w, i);
	step_add(w);
}

/* ---- grants (rules 4 and 9) ---- */

static void
check_fence(struct world *w, const struct client *k)
{
	unsigned set = k->set - 1u, sum_behind = view_behind(k);
	if (w->fence_set != 0) {
		unsigned last = w->fence_set - 1u;
		bool grows =
		    epoch_of(set) > epoch_of(last) || (set == last && sum_behind < w->fence_behind);
		if (!grows)
			step_violates(property_fences);
	}
	w->fence_set = k->set;
	w->fence_behind = (uint8_t)(sum_behind < 250 ? sum_behind : 250);
}

static void
grant(struct world *w, unsigned i, unsigned lease)
{
	struct client *k = &w->clients[i];
	k->mode = HELD;
	k->lease = (uint8_t)lease;
	k->last_why = CLAIM_FLIP;
	step_say_also(": GRANTED");
	step_is_grant();
	check_fence(w, k);
	w->fence_of = setup->regains ? (uint8_t)(i + 1) : 0;
	step_add(w);
}

/* ---- claims (rules 4 and 12) ---- */

static void
begin(struct world *w, unsigned i, enum mode mode)
{
	struct client *k = &w->clients[i];
	clear_claim(k);
	k->pausing = 0;
	if (mode != WAITING || !setup->reclaims)
		memory_forget(k);
	k->mode = (uint8_t)mode;
	w->channels[channel_of(i)].attach_sent = 1;
}

static void
step_claim(const struct world *before, unsigned i)
{
	struct world w = *before;
	w.clients[i].claims--;
	begin(&w, i, WAITING);
	if (makes(GRACE_FROM_ATTACH))
		w.clients[i].grace = (uint8_t)t_of(0);
	step_say("client %s: claims", client_name[i]);
	step_add(&w);
}

/* The middle of a clean order. Held when exactly that bead is delivered again with count + 1. */
static void
claim_clean(struct world *w, unsigned i, const uint8_t beads[BEADS])
{
	struct client *k = &w->clients[i];
	k->grace = 0;
	memory_forget(k);
	if (makes(GRANT_ON_DELIVERY)) {
		reject(w, i, middle_of(beads), RENEW, REJECT);
		grant(w, i, l_of(k->set - 1u));
		return;
	}
	reject(w, i, middle_of(beads), CLAIM_FLIP, REJECT);
	k->mode = FLIPPING;
	step_say_also(": flips");
	step_add(w);
}

/* From the receipt of the third bead on. */
static void
begin_grace(struct client *k)
{
	unsigned t = t_of(k->set - 1u);
	/* A set is not better known than those before it: their holders have their own T. */
	if (t < k->largest_t && !makes(SMALLER_GRACE))
		t = k->largest_t;
	if (!makes(GRACE_FROM_ATTACH) && !(makes(GRACE_NOT_AGAIN) && k->grace != 0))
		k->grace = (uint8_t)t;
}

static void
claim_dirty(struct world *w, unsigned i)
{
	struct client *k = &w->clients[i];
	k->mode = IN_GRACE;
	if (makes(NO_GRACE))
		k->grace = 0;
	if (!memory_is_next(k))
		memory_forget(k);
	step_say_also(": dirty, a grace of %u", k->grace);
	step_add(w);
}

/* The flip of a release, of a scrub, of an administrator. Then the channel closes (rule 6). */
static void
flip_to_clean(struct world *w, unsigned i, const uint8_t beads[BEADS])
{
	struct client *k = &w->clients[i];
	reject(w, i, bead_to_flip(beads), RELEASE_FLIP, REJECT);
	k->mode = RELEASING;
	k->lease = k->grace = 0;
}

/* Rule 8, with a channel for that alone: a proof of the hold that goes on, or a flip after it. */
static void
reclaim(struct world *w, unsigned i, const uint8_t beads[BEADS])
{
	struct client *k = &w->clients[i];
	bool alone = memory_is_next(k) && !order_is_clean(beads), goes_on = memory_goes_on(k);
	if (goes_on && makes(REGAIN_ANY_SUM))
		alone = !order_is_clean(beads);
	if (goes_on && makes(REGAIN_OF_CLEAN))
		alone = alone || order_is_clean(beads);
	memory_forget(k);
	if (!alone) {
		k->pausing = 0;
		end_step_by_stop(w, i, "somebody was in between");
		return;
	}
	if (goes_on) {
		reject(w, i, last_of(beads), RENEW, REJECT);
		k->mode = REGAINING;
		step_say_also(": proves that its hold goes on");
		step_add(w);
		return;
	}
	flip_to_clean(w, i, beads);
	step_say_also(": reclaims to clean");
	step_add(w);
}

/* Rule 2. The wait for the record is over. Only beads that nobody has touched say that nobody held since then. */
static void
finish_creation(struct world *w, unsigned i, const uint8_t beads[BEADS], bool own)
{
	if (!own && order_is_clean(beads)) {
		end_step_by_stop(w, i, "a clean set is there");
		return;
	}
	if (!own || makes(WAIT_AFTER_PUBLISHING)) {
		claim_dirty(w, i);
		return;
	}
	flip_to_clean(w, i, beads);
	step_say_also(": flips its new set");
	step_add(w);
}

static void
check_order(const struct world *w, const struct client *k, const uint8_t beads[BEADS])
{
	uint8_t truth[BEADS];
	if (view_behind(k) == 0 && server_reads_order(w, k->set - 1u, truth) &&
	    memcmp(truth, beads, BEADS) != 0)
		step_violates(property_order);
}

/* The order of the claimed set, and how many of its beads were never returned or rejected. */
static unsigned
find_order(const struct client *k, uint8_t ret_beads[BEADS])
{
	uint8_t at[BEADS];
	unsigned untouched = 0;
	view_find_set(k, k->set - 1u, at);
	for (unsigned n = 0; n < beads_of_a_set(); n++) {
		ret_beads[n] = (uint8_t)bead_of(k->seen[at[n]].message);
		untouched += k->seen[at[n]].unused;
	}
	return untouched;
}

/* Its own new set was published bead by bead, in dirty order. Nobody has held by it. */
static bool
is_own(const struct client *k, unsigned untouched)
{
	return k->job && k->made == k->set &&
	       (untouched == beads_of_a_set() || makes(TOUCHED_SET_FLIPPED));
}

/* The order is certain. */
static void
judge_order(struct world *w, unsigned i)
{
	struct client *k = &w->clients[i];
	uint8_t beads[BEADS] = {0};
	bool own = is_own(k, find_order(k, beads));
	if (!k->reclaiming && !own && (!setup->fetches || setup->mistake == NO_MISTAKE))
		check_order(w, k, beads);
	if (k->reclaiming)
		reclaim(w, i, beads);
	else if (k->job)
		finish_creation(w, i, beads, own);
	else if (order_is_clean(beads) || makes(FLIP_BEFORE_ORDER))
		claim_clean(w, i, beads);
	else
		claim_dirty(w, i);
}

/* On a new channel. The messages that it had here return, and come first there, in one batch. */
static void
attach_anew(struct world *w, unsigned i, const char *text)
{
	struct client *k = &w->clients[i];
	if (server_has_old_channel(w, i) || k->attaches == ATTACHES_MAX) {
		end_step_by_stop(w, i, text);
		return;
	}
	struct client before = *k;
	clear_claim(k);
	k->mode = WAITING;
	k->attaches = before.attaches + 1;
	k->job = before.job;
	k->reclaiming = before.reclaiming;
	server_close(w, i);
	w->channels[channel_of(i)].attach_sent = 1;
	step_say_also(": %s, attaches anew", text);
	step_add(w);
}

/*
 * The beads of the claimed set are there. If they were lost before, a later message has brought them, in reversed
 * order, and is directly behind them. So the channel is asked for one more answer. The later message can also be
 * the third bead. Then that was published just now, or could be delivered only after an acknowledgement.
 */
static void
read_order(struct world *w, unsigned i, bool freed)
{
	struct client *k = &w->clients[i];
	uint8_t beads[BEADS] = {0};
	unsigned untouched = find_order(k, beads);
	begin_grace(k);
	/* If nobody was active since, a hold that goes on knows the order. */
	bool known = is_own(k, untouched) || (k->reclaiming && memory_goes_on(k));
	if (!setup->fetches || makes(ORDER_NOT_CHECKED) || known) {
		judge_order(w, i);
		return;
	}
	if (untouched != 0 && !makes(NEW_BEADS_TRUSTED)) {
		attach_anew(w, i, "new");
		return;
	}
	if (freed && !makes(DISTURBANCE_IGNORED)) {
		attach_anew(w, i, "acknowledged something before");
		return;
	}
	k->mode = CHECKING;
	step_say_also(": asks for an answer");
	step_add(w);
}

/* The answer comes behind all that came with the beads. */
static void
step_check(const struct world *before, unsigned i)
{
	struct world w = *before;
	step_say("client %s: has the answer, nothing came before", client_name[i]);
	judge_order(&w, i);
}

static void
acknowledge_below(struct world *w, unsigned i, unsigned epoch)
{
	struct client *k = &w->clients[i];
	for (unsigned at = k->n_seen; at-- > 0;)
		if (!is_mark(k->seen[at].message) && epoch_of(set_of(k->seen[at].message)) < epoch)
			acknowledge(w, i, view_take_seen(k, at));
}

static bool
has_whole_set(const struct client *k, unsigned set)
{
	uint8_t at[BEADS];
	return view_find_set(k, set, at) == beads_of_a_set();
}

/* The number + 1 of the complete set with the highest epoch, or 0. Of two sets of one epoch the first one. */
static unsigned
best_set(const struct client *k)
{
	unsigned best = 0;
	for (unsigned set = 0; set < SETS_MAX; set++)
		if (has_whole_set(k, set) && (best == 0 || epoch_of(set) > epoch_of(best - 1)))
			best = set + 1;
	return best;
}

static bool
has_equal_epochs(const struct client *k)
{
	unsigned best = best_set(k);
	for (unsigned set = 0; best != 0 && set < SETS_MAX; set++)
		if (set != best - 1 && has_whole_set(k, set) && epoch_of(set) == epoch_of(best - 1))
			return true;
	return false;
}

/* Rule 12: the set of the highest complete epoch. Lower beads go when that is complete. */
static void
choose_set(struct world *w, unsigned i)
{
	struct client *k = &w->clients[i];
	unsigned best = best_set(k);
	bool freed = k->freed;
	for (unsigned set = 0; set < SETS_MAX; set++)
		if (has_whole_set(k, set) && t_of(set) > k->largest_t)
			k->largest_t = (uint8_t)t_of(set);
	if (makes(ACKNOWLEDGE_EARLY))
		for (unsigned at = 0; at < k->n_seen; at++)
			acknowledge_below(w, i, epoch_of(set_of(k->seen[at].message)));
	if (best == 0) {
		step_add(w);
		return;
	}
	/* The administrator that repairs this waits for its own set. */
	if (has_equal_epochs(k) && k->made != 0) {
		step_add(w);
		return;
	}
	if (has_equal_epochs(k) && !makes(EQUAL_EPOCHS_ACCEPTED)) {
		end_step_by_stop(w, i, "two sets of one epoch, refused");
		return;
	}
	acknowledge_below(w, i, epoch_of(best - 1));
	k->set = (uint8_t)best;
	read_order(w, i, freed);
}

/* ---- deliveries ---- */

/* It was delivered already. So the consumer is active for the second time. */
static bool
is_odd(const struct client *k, struct seen delivery)
{
	for (unsigned at = 0; at < k->n_seen; at++)
		if (k->seen[at].message == delivery.message)
			return true;
	return k->n_seen == sizeof k->seen / sizeof k->seen[0];
}

static void
see(struct client *k, struct seen delivery)
{
	delivery.more = 0;
	k->seen[k->n_seen++] = delivery;
}

/* A claimant has not chosen its set, or has chosen one and waits for its grace. */
static void
receive_while_claiming(struct world *w, unsigned i, struct seen delivery)
{
	struct client *k = &w->clients[i];
	if (is_odd(k, delivery)) {
		end_step_by_stop(w, i, "odd");
		return;
	}
	see(k, delivery);
	if (k->mode == CHECKING && delivery.unused && !makes(DISTURBANCE_IGNORED)) {
		attach_anew(w, i, "new");
		return;
	}
	if (k->mode == IN_GRACE || k->mode == CHECKING) {
		/* Only a set that becomes complete matters. */
		if (!has_whole_set(k, set_of(delivery.message)) ||
		    epoch_of(set_of(delivery.message)) < epoch_of(k->set - 1u)) {
			step_add(w);
			return;
		}
		k->mode = WAITING;
	}
	choose_set(w, i);
}

static bool
is_answer(const struct client *k, struct seen delivery)
{
	if (k->n_out == 0 || k->out[0].bead.message != delivery.message)
		return false;
	return makes(COUNTS_NOT_COMPARED) || delivery.age + 1u == k->out[0].bead.age;
}

static void
finish_release(struct world *w, unsigned i)
{
	struct client *k = &w->clients[i];
	uint8_t beads[BEADS];
	view_order_after(k, beads);
	if (k->n_out != 0) {
		step_add(w);
		return;
	}
	if (!order_is_clean(beads)) {
		flip_to_clean(w, i, beads);
		step_say_also(": one more reject");
		step_add(w);
		return;
	}
	/* It is proved: nothing is left to reclaim. */
	uint8_t truth[BEADS];
	if (view_behind(k) == 0 && server_reads_order(w, k->set - 1u, truth) &&
	    !order_is_clean(truth))
		step_violates(property_release);
	k->set = 0;
	end_step_by_stop(w, i, "released, proved");
}

/* The proof is there. The hold goes on with its fence, so nobody may have a larger one. */
static void
regain(struct world *w, unsigned i, unsigned lease)
{
	struct client *k = &w->clients[i];
	if (lease == 0 || (k->lingering == 0 && !k->pausing)) {
		end_step_by_stop(w, i, "the hold is over");
		return;
	}
	k->mode = HELD;
	k->lease = (uint8_t)lease;
	k->lingering = k->pausing = k->reclaiming = 0;
	step_say_also(": the hold goes on");
	if (w->fence_of != i + 1)
		step_violates(property_fences);
	step_add(w);
}

static void
receive_answer(struct world *w, unsigned i, struct seen delivery)
{
	struct client *k = &w->clients[i];
	struct out answered = view_take_out(k);
	see(k, delivery);
	if (makes(LEASE_FROM_ANSWER))
		answered.left = (uint8_t)l_of(k->set - 1u);
	k->last_why = answered.why;
	if (k->mode == FLIPPING || k->mode == CONFIRMING) {
		if (answered.left == 0)
			end_step_by_stop(w, i, "too late");
		else
			grant(w, i, answered.left);
	} else if (k->mode == REGAINING) {
		regain(w, i, answered.left);
	} else if (k->mode == RELEASING) {
		finish_release(w, i);
	} else if (k->mode == HELD && k->lease == 0 && !makes(LEASE_FROM_ANSWER)) {
		end_step_by_stop(w, i, "the lease is over");
	} else {
		/* A rotation never extends a lease. */
		if (k->mode == HELD && (answered.why != ROTATE || makes(ROTATE_AND_EXTEND)))
			k->lease = answered.left;
		step_say_also(": answered");
		step_add(w);
	}
}

/* A mistake: the hold goes on as if the bead had been asked for. */
static bool
absorb(struct client *k, struct seen delivery)
{
	for (unsigned at = 0; at < k->n_seen; at++)
		if (k->seen[at].message == delivery.message) {
			view_take_seen(k, at);
			see(k, delivery);
			return true;
		}
	return false;
}

/* Rule 8a on its channel: the consumer was suspended, and is active again. It gathers its beads anew. */
static void
regather(struct world *w, unsigned i, struct seen delivery)
{
	struct client *k = &w->clients[i];
	uint8_t lease = k->lease;
	memory_remember(w, k);
	clear_claim(k);
	k->mode = WAITING;
	k->reclaiming = 1;
	k->lingering = lease;
	step_say_also(": gathers its beads anew");
	receive_while_claiming(w, i, delivery);
}

static void decide_to_publish(struct world *w, unsigned i);

static void
receive(struct world *w, unsigned i, struct seen delivery)
{
	struct client *k = &w->clients[i];
	k->more = delivery.more;
	if (is_mark(delivery.message)) {
		acknowledge(w, i, delivery);
		if (k->mode == CHECKING && !makes(DISTURBANCE_IGNORED))
			attach_anew(w, i, "foreign");
		else if (k->mode != MARKING || delivery.message != mark_of(i))
			step_add(w);
		else if (!delivery.unused && !makes(RETURNED_MARK_TRUSTED))
			end_step_by_stop(w, i, "somebody had it before");
		else
			decide_to_publish(w, i);
		return;
	}
	unsigned set = set_of(delivery.message);
	if (k->mode == MARKING && is_odd(k, delivery)) {
		end_step_by_stop(w, i, "odd");
	} else if (k->mode == MARKING) {
		see(k, delivery);
		step_add(w);
	} else if (k->mode == PREPARING) {
		end_step_by_stop(w, i, "somebody else publishes");
	} else if (k->mode == WAITING) {
		receive_while_claiming(w, i, delivery);
	} else if (k->set != 0 && epoch_of(set) < epoch_of(k->set - 1u)) {
		acknowledge(w, i, delivery);
		if (k->mode == CHECKING && !makes(DISTURBANCE_IGNORED))
			attach_anew(w, i, "older");
		else
			step_add(w);
	} else if ((k->mode == IN_GRACE || k->mode == CHECKING) && set != k->set - 1u) {
		receive_while_claiming(w, i, delivery);
	} else if (is_answer(k, delivery)) {
		receive_answer(w, i, delivery);
	} else if (setup->regains && k->mode == HELD && k->lease != 0 && k->lingering == 0 &&
		   set == k->set - 1u) {
		regather(w, i, delivery);
	} else if (makes(ABSORB_ODD) && k->mode == HELD) {
		if (absorb(k, delivery))
			step_add(w);
	} else {
		end_step_by_stop(w, i, "odd");
	}
}

static void
step_receive(const struct world *before, unsigned i)
{
	struct world w = *before;
	struct client *k = &w.clients[i];
	struct seen delivery = k->transit[0];
	k->n_transit--;
	memmove(&k->transit[0], &k->transit[1], k->n_transit * sizeof k->transit[0]);
	memset(&k->transit[k->n_transit], 0, sizeof k->transit[0]);
	if (is_mark(delivery.message))
		step_say("client %s: receives a mark", client_name[i]);
	else
		step_say("client %s: receives bead %u of set %u%s", client_name[i],
		    bead_of(delivery.message) + 1, set_of(delivery.message) + 1,
		    delivery.age != 0 ? ", late" : "");
	receive(&w, i, delivery);
}

/* ---- publishers (rules 1, 2 and 12) ---- */

/* It declares the queue, attaches, and then publishes a mark. */
static void
step_administer(const struct world *before, unsigned i)
{
	struct world w = *before;
	w.clients[i].jobs--;
	begin(&w, i, MARKING);
	w.clients[i].job = 1;
	w.marks |= (uint8_t)(1u << i);
	w.idle = 0;
	step_say("client %s: looks for a set, publishes a mark", client_name[i]);
	step_add(&w);
}

/* A set was whole when the mark arrived, or is whole now and no mark has arrived. */
static void
check_sets(const struct world *w, unsigned i)
{
	bool arrived = !(w->marks & (1u << i));
	for (unsigned set = 0; set < SETS_MAX; set++)
		if (server_has_set(w, set) && (!arrived || (w->whole_at_mark[i] >> set & 1)))
			step_violates(property_sets);
}

/* The record of the name says it: the largest T of the sets so far. */
static unsigned
longest_t(const struct world *w)
{
	unsigned longest = 0;
	for (unsigned set = 0; set < w->sets; set++)
		if (t_of(set) > longest)
			longest = t_of(set);
	return longest;
}

static void
publish_set(struct world *w, unsigned i)
{
	struct client *k = &w->clients[i];
	k->mode = WAITING;
	w->sets++;
	k->made = w->sets;
	step_say_also(": publishes set %u", k->made);
	step_add(w);
}

/*
 * The mark was delivered here first. So the administrator is the active consumer, and has seen
 * all that there is. A mark that somebody else had before may stand between the beads.
 */
static void
decide_to_publish(struct world *w, unsigned i)
{
	struct client *k = &w->clients[i];
	bool whole = false;
	for (unsigned set = 0; set < SETS_MAX; set++)
		whole = whole || has_whole_set(k, set);
	k->mode = WAITING;
	if (whole && !has_equal_epochs(k) && !makes(BEADS_BEFORE_MARK_IGNORED)) {
		if (makes(ORDER_NOT_CHECKED) || makes(DISTURBANCE_IGNORED))
			choose_set(w, i);
		else
			attach_anew(w, i, "a set is there");
		return;
	}
	if (w->sets == SETS_MAX) {
		end_step_by_stop(w, i, "(the model has no more sets)");
		return;
	}
	if (!has_equal_epochs(k))
		check_sets(w, i);
	unsigned t = longest_t(w);
	if (setup->no_record || t == 0 || makes(NO_WAIT_FOR_RECORD) ||
	    makes(WAIT_AFTER_PUBLISHING)) {
		publish_set(w, i);
		return;
	}
	k->mode = PREPARING;
	k->grace = (uint8_t)t;
	step_say_also(": nothing is there, waits %u", t);
	step_add(w);
}

/* ---- decisions (rules 4 to 8) ---- */

static void
step_reject(const struct world *before, unsigned i, unsigned bead, enum why why, enum mode mode,
    const char *text)
{
	struct world w = *before;
	if (!reject(&w, i, bead, why, REJECT))
		return;
	w.clients[i].mode = (uint8_t)mode;
	step_say("client %s: %s by bead %u", client_name[i], text, bead + 1);
	if (why == RENEW)
		w.renewals--;
	if (why == ROTATE)
		w.rotations--;
	if (why == REFRESH)
		w.refreshes--;
	step_add(&w);
}

static void
steps_in_grace(const struct world *before, unsigned i, const uint8_t beads[BEADS])
{
	const struct client *k = &before->clients[i];
	if (k->n_out != 0)
		return;
	if (k->grace != 0 && k->memory_set != 0 && memory_has_stopped(k)) {
		struct world w = *before;
		w.clients[i].grace = 0;
		memory_forget(&w.clients[i]);
		step_say("client %s: ends its grace, as the last holder was here", client_name[i]);
		step_add(&w);
	}
	if (k->grace != 0) {
		if (before->refreshes != 0)
			step_reject(before, i, last_of(beads), REFRESH, IN_GRACE, "refreshes");
		if (before->refreshes != 0 && makes(REFRESH_HEAD_AND_LAST))
			step_reject(before, i, beads[0], REFRESH, IN_GRACE, "refreshes");
		return;
	}
	if (!k->job) {
		step_reject(before, i, last_of(beads), CONFIRM, CONFIRMING, "confirms");
		return;
	}
	struct world w = *before;
	flip_to_clean(&w, i, beads);
	step_say("client %s: ends its grace, flips", client_name[i]);
	step_add(&w);
}

/*
 * Rule 5: a rotation has an answered renewal before it and another one after it. Between the answer and the next
 * reject comes one more answer of the channel: no batch is split by it.
 */
static bool
may_reject(const struct client *k)
{
	if (k->n_out != 0 && !makes(TWO_IN_FLIGHT))
		return false;
	return makes(ROTATE_WITHOUT_BARRIER) || k->last_why != ROTATE || !k->more;
}

static void
steps_of_renewals(const struct world *before, unsigned i, const uint8_t beads[BEADS])
{
	const struct client *k = &before->clients[i];
	if (k->lease == 0 || !may_reject(k))
		return;
	if (before->renewals != 0)
		step_reject(before, i, makes(RENEW_BY_HEAD) ? beads[0] : last_of(beads), RENEW,
		    HELD, "renews");
	bool in_turn = k->last_why == RENEW || makes(ROTATE_WITHOUT_BARRIER) ||
		       makes(ROTATE_AND_EXTEND) || makes(TWO_IN_FLIGHT);
	if (before->rotations != 0 && in_turn)
		step_reject(before, i, beads[0], ROTATE, HELD, "rotates");
}

/* A reject that was not answered is sent again: two may have an effect. */
static void
step_reject_again(const struct world *before, unsigned i)
{
	struct world w = *before;
	struct client *k = &w.clients[i];
	if (before->renewals == 0 || k->n_out != 1)
		return;
	uint8_t beads[BEADS];
	view_order_after(k, beads);
	w.renewals--;
	/* The silent one counts as not sent. */
	struct out silent = view_take_out(k);
	see(k, silent.bead);
	if (!reject(&w, i, last_of(beads), RENEW, REJECT))
		return;
	step_say("client %s: renews again after silence", client_name[i]);
	step_add(&w);
}

/* Rule 6. The client has stopped. */
static void
step_release(const struct world *before, unsigned i)
{
	struct world w = *before;
	struct client *k = &w.clients[i];
	uint8_t beads[BEADS];
	if (view_order_after(k, beads) != beads_of_a_set() || k->n_out == OUT_MAX)
		return;
	/* With a rotation out, or its barrier, the order is not certain. */
	bool rotates = k->n_out != 0 && k->out[0].why == ROTATE;
	if (rotates || (k->last_why == ROTATE && !makes(ROTATE_WITHOUT_BARRIER)))
		return;
	unsigned bead = bead_to_flip(beads);
	if (k->n_out != 0 && k->out[0].bead.message == message_of_bead(k->set - 1u, bead))
		return;
	flip_to_clean(&w, i, beads);
	w.clients[i].still_uses = makes(FLIP_BEFORE_STOP);
	if (makes(FLIP_BEFORE_STOP)) {
		w.clients[i].mode = HELD;
		w.clients[i].lease = before->clients[i].lease;
	}
	step_say("client %s: %s", client_name[i],
	    makes(FLIP_BEFORE_STOP) ? "flips, and then stops" : "stops, flips");
	step_add(&w);
}

static void
step_crash(const struct world *before, unsigned i)
{
	struct world w = *before;
	w.faults--;
	step_say("fault: client %s dies", client_name[i]);
	step_is_fault();
	stop(&w, i);
	memory_forget(&w.clients[i]);
	step_add(&w);
}

/* A mistake: a claim that is given up leaves a clean order. */
static void
step_abandon_with_flip(const struct world *before, unsigned i, const uint8_t beads[BEADS])
{
	struct world w = *before;
	if (!reject(&w, i, bead_to_flip(beads), RELEASE_FLIP, REJECT))
		return;
	w.faults--;
	step_say("client %s: gives its claim up, flips", client_name[i]);
	step_is_fault();
	stop(&w, i);
	step_add(&w);
}

static void
step_reclaim(const struct world *before, unsigned i)
{
	struct world w = *before;
	struct client *k = &w.clients[i];
	k->mode = WAITING;
	k->reclaiming = 1;
	w.channels[channel_of(i)].attach_sent = 1;
	step_say("client %s: attaches again, to %s", client_name[i],
	    memory_goes_on(k) ? "go on" : "reclaim");
	step_add(&w);
}

static void
steps_while_idle(const struct world *w, unsigned i)
{
	const struct client *k = &w->clients[i];
	if (k->claims != 0 && !memory_goes_on(k))
		step_claim(w, i);
	if (k->jobs != 0)
		step_administer(w, i);
	if (k->memory_set != 0 && (memory_has_stopped(k) || memory_goes_on(k)))
		step_reclaim(w, i);
}

static void
step_stop_lingering(const struct world *before, unsigned i)
{
	struct world w = *before;
	w.clients[i].lingering = w.clients[i].pausing = 0;
	step_say("client %s: its last client stops", client_name[i]);
	step_add(&w);
}

/* The daemon hears of the loss, and its client goes on. It can be a channel that the server still has. */
static void
step_linger(const struct world *before, unsigned i, bool is_fault)
{
	struct world w = *before;
	w.clients[i].lingering = w.clients[i].lease;
	w.clients[i].pausing = setup->pauses;
	step_say("%sclient %s: learns that its channel is gone, and goes on",
	    is_fault ? "fault: " : "", client_name[i]);
	if (is_fault) {
		w.faults--;
		step_is_fault();
	}
	stop(&w, i);
	step_add(&w);
}

static void
steps_while_held(const struct world *w, unsigned i, const uint8_t beads[BEADS])
{
	const struct client *k = &w->clients[i];
	if (k->still_uses) {
		step_stop(w, i, "stops after its flip");
		return;
	}
	steps_of_renewals(w, i, beads);
	if (makes(REJECT_AGAIN))
		step_reject_again(w, i);
	step_release(w, i);
	if (k->lease == 0)
		step_stop(w, i, "the lease is over");
}

/* Rule 13: a dead channel is noticed. An unanswered reject ends in a loss. A waiter gives up. */
static void
steps_of_ends(const struct world *w, unsigned i)
{
	const struct client *k = &w->clients[i];
	const struct channel *channel = &w->channels[channel_of(i)];
	bool asked =
	    k->mode == FLIPPING || k->mode == CONFIRMING || (k->mode == IN_GRACE && k->n_out != 0);
	bool gone = channel->life == NO_CHANNEL && !channel->attach_sent;
	if (asked && k->out[0].left == 0)
		step_stop(w, i, "has no answer");
	if (k->mode == REGAINING && k->lingering == 0 && !k->pausing)
		step_stop(w, i, "its hold is over");
	if (k->mode == RELEASING)
		step_stop(w, i, "releases without a proof");
	bool bored = k->mode == MARKING ||
		     (k->mode == WAITING && (setup->admins || setup->unasked || k->reclaiming));
	if (bored && channel->attach_sent == 0)
		step_stop(w, i, "gives up");
	if (gone)
		step_stop(w, i, "learns that its channel is gone");
	if (setup->lingers && k->mode == HELD && k->lease != 0 && k->lingering == 0 &&
	    (gone || (setup->regains && w->faults != 0)))
		step_linger(w, i, !gone);
	if (w->faults != 0)
		step_crash(w, i);
}

void
rules_client_steps(const struct world *w, unsigned i)
{
	const struct client *k = &w->clients[i];
	uint8_t beads[BEADS] = {0};
	bool old = server_has_old_channel(w, i);
	if (k->lingering != 0 || k->pausing)
		step_stop_lingering(w, i);
	if (k->mode == IDLE) {
		steps_while_idle(w, i);
		return;
	}
	if (k->mode == CLOSING) {
		if (!old)
			step_stop(w, i, "closes its channel");
		return;
	}
	if (k->n_transit != 0)
		step_receive(w, i);
	if (k->mode == MARKING && makes(TRUST_CONSUME_OK) &&
	    !w->channels[channel_of(i)].attach_sent && k->n_seen == 0) {
		struct world next = *w;
		step_say("client %s: hears consume-ok", client_name[i]);
		decide_to_publish(&next, i);
	}
	if (k->mode == PREPARING && k->grace == 0) {
		struct world next = *w;
		step_say("client %s: ends its wait", client_name[i]);
		publish_set(&next, i);
	}
	if (k->mode == CHECKING && !k->more)
		step_check(w, i);
	bool whole = k->set != 0 && view_order_after(k, beads) == beads_of_a_set();
	if (k->mode == IN_GRACE && whole)
		steps_in_grace(w, i, beads);
	if (k->mode == HELD && whole)
		steps_while_held(w, i, beads);
	if (makes(ABANDON_WITH_FLIP) && w->faults != 0 && !old && whole && k->n_out == 0 &&
	    k->mode == IN_GRACE)
		step_abandon_with_flip(w, i, beads);
	if (!old)
		steps_of_ends(w, i);
}
