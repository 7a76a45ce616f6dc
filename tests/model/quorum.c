#include "tests/model/quorum.h"
#include <stdio.h>
#include <string.h>
#include "tests/model/rules.h"

const char property_exclusion[] = "no two believers";
const char property_fences[] = "fences strictly increase";
const char property_release[] = "no grace after a proved release";
const char property_order[] = "the order can be read";
const char property_sets[] = "no set is published while one exists";
const char property_live[] = "a grant can be reached";

/* ---- publishers ---- */

enum { PUBLISHER_DIED = 4 };

/* Beads are published in dirty order. */
static void
step_publish(const struct world *before, unsigned set)
{
	static const uint8_t dirty[BEADS] = {0, 2, 1}, clean[BEADS] = {0, 1, 2};
	const uint8_t *order = setup->mistake == PUBLISH_CLEAN ? clean : dirty;
	struct world w = *before;
	unsigned bead = order[w.published[set]++];
	step_say("publisher: bead %u of set %u arrives", bead + 1, set + 1);
	server_publish(&w, message_of_bead(set, bead));
	server_go_on(&w);
}

static void
steps_of_publishers(const struct world *before)
{
	for (unsigned set = 0; set < before->sets; set++) {
		if (before->published[set] >= BEADS)
			continue;
		step_publish(before, set);
		if (before->faults != 0) {
			struct world w = *before;
			w.faults--;
			w.published[set] = PUBLISHER_DIED;
			step_say("fault: the publisher of set %u dies", set + 1);
			step_is_fault();
			step_add(&w);
		}
	}
	if (before->stranger) {
		struct world w = *before;
		w.stranger = 0;
		step_say("server: a foreign message arrives");
		server_publish(&w, message_of_stranger);
		server_go_on(&w);
	}
	for (unsigned i = 0; i < n_clients(); i++) {
		if (!(before->marks & (1u << i)))
			continue;
		struct world w = *before;
		w.marks &= (uint8_t) ~(1u << i);
		step_say("server: the mark of %s arrives", client_name[i]);
		for (unsigned set = 0; set < SETS_MAX; set++)
			w.whole_at_mark[i] |= (uint8_t)(server_has_set(&w, set) << set);
		server_publish(&w, mark_of(i));
		server_go_on(&w);
	}
}

/* ---- time and administration ---- */

static void
count_down(uint8_t *ticks, unsigned by)
{
	*ticks = (uint8_t)(*ticks > by ? *ticks - by : 0);
}

/* A clock is at most one tick ahead of another one. */
static void
tick_client(struct client *k, bool jumps)
{
	unsigned by = 1;
	if (jumps) {
		by = k->ahead ? 0 : 2;
		k->ahead = !k->ahead;
	}
	count_down(&k->lease, by);
	count_down(&k->grace, by);
	if (!makes(REGAIN_LATE) || k->mode != REGAINING)
		count_down(&k->lingering, by);
	for (unsigned at = 0; at < k->n_out; at++)
		count_down(&k->out[at].left, by);
}

static void
steps_of_time(const struct world *before)
{
	bool expiring =
	    setup->expires != 0 && !server_has_consumer(before) && before->n_messages != 0;
	bool runs = expiring && before->idle < setup->expires;
	for (unsigned i = 0; i < n_clients(); i++) {
		const struct client *k = &before->clients[i];
		runs = runs || k->lease || k->grace || k->lingering ||
		       (k->n_out && k->out[0].left) || (k->n_out > 1 && k->out[1].left);
	}
	for (unsigned jumps = 0; runs && jumps < (setup->drift ? 1u << n_clients() : 1u); jumps++) {
		struct world w = *before;
		step_say("a tick");
		for (unsigned i = 0; i < n_clients(); i++)
			tick_client(&w.clients[i], jumps >> i & 1);
		if (expiring && w.idle < setup->expires)
			w.idle++;
		step_add(&w);
	}
	if (expiring && before->idle == setup->expires) {
		struct world w = *before;
		step_say("server: the queue expires");
		server_delete_queue(&w);
		step_add(&w);
	}
}

static void
step_delete(const struct world *before)
{
	struct world w = *before;
	if (!setup->deletes || w.faults == 0)
		return;
	w.faults--;
	step_say("fault: somebody deletes the queue");
	step_is_fault();
	server_delete_queue(&w);
	step_add(&w);
}

/* ---- worlds ---- */

static void
start_set(struct world *w, unsigned set, bool is_dirty)
{
	static const uint8_t dirty[BEADS] = {0, 2, 1};
	for (unsigned at = 0; at < beads_of_a_set(); at++) {
		server_publish(w, message_of_bead(set, is_dirty ? dirty[at] : at));
		w->queue[w->n_messages - 1].unused = 0;
	}
	w->published[set] = BEADS;
	w->sets = (uint8_t)(set + 1);
}

void
quorum_start(const struct setup *of, struct world *ret_world)
{
	setup = of;
	struct world *w = ret_world;
	memset(w, 0, sizeof *w);
	w->faults = of->faults;
	w->renewals = of->renewals;
	w->rotations = of->rotations;
	w->refreshes = of->refreshes;
	w->retries = of->retries;
	w->stranger = of->stranger;
	for (unsigned i = 0; i < n_clients(); i++) {
		w->clients[i].claims = of->claims;
		w->clients[i].jobs = i < of->admins;
	}
	if (!of->empty)
		start_set(w, 0, of->dirty);
	if (of->second)
		start_set(w, 1, true);
	w->sets = (uint8_t)(w->sets + of->unasked);
}

static bool
uses(const struct client *k)
{
	return k->mode == HELD && k->lease != 0;
}

size_t
quorum_steps(
    const struct setup *of, const struct world *world, bool tell, const struct step **ret_steps)
{
	setup = of;
	steps_clear(tell);
	server_steps(world);
	steps_of_publishers(world);
	for (unsigned i = 0; i < n_clients(); i++)
		rules_client_steps(world, i);
	steps_of_time(world);
	step_delete(world);
	return steps_get(ret_steps);
}

const char *
quorum_judge(const struct world *world)
{
	unsigned believers = 0;
	for (unsigned i = 0; i < CLIENTS_MAX; i++)
		believers += uses(&world->clients[i]) + (world->clients[i].lingering != 0);
	return believers > 1 ? property_exclusion : NULL;
}

unsigned
quorum_claims_left(const struct world *world)
{
	unsigned left = 0;
	for (unsigned i = 0; i < CLIENTS_MAX; i++)
		left += world->clients[i].claims;
	return left;
}

void
quorum_print(const struct setup *of, const struct world *world)
{
	static const char *const mode_name[] = {"idle", "waiting", "checking", "flipping",
	    "in grace", "confirming", "HELD", "regaining", "releasing", "marking", "preparing",
	    "closing"};
	setup = of;
	printf("#        beads");
	for (unsigned at = 0; at < world->n_messages; at++) {
		unsigned id = world->queue[at].id, owner = world->queue[at].owner;
		printf(is_mark(id) ? " mark" : " %u.%u", set_of(id) + 1, bead_of(id) + 1);
		printf(owner == 0  ? ""
		       : owner % 2 ? ":%s"
				   : ":%s-old",
		    client_name[(owner - 1) / 2 % CLIENTS_MAX]);
	}
	for (unsigned i = 0; i < n_clients(); i++) {
		const struct client *k = &world->clients[i];
		printf("; %s %s", client_name[i], mode_name[k->mode]);
		if (k->lease != 0)
			printf(", lease %u", k->lease);
		if (k->grace != 0)
			printf(", grace %u", k->grace);
		if (k->lingering != 0)
			printf(", its client goes on for %u", k->lingering);
		if (k->n_out != 0)
			printf(", %u out", k->n_out);
		if (k->n_transit != 0)
			printf(", %u on the way", k->n_transit);
	}
	printf("\n");
}
