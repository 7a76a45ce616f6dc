/*
 * The requests of a daemon about the beads of a slot (docs/QUORUM.md), and no more. A claim is one
 * flight, three deliveries, and a flip that is answered. A release is a flip that is answered. Then the
 * channel is closed, and the next claim has another one.
 */
#include "tests/bench/bench.h"

#include <err.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BEADS 3
/* A channel is used again when so many others of its slot were. By then it is closed. */
#define CHANNELS_EACH 4
#define RENEWING_LINKS 2
#define CHANNELS_OF_LINK 2000

struct slot {
	struct link *link;
	char queue[128];
	unsigned first, turn; /* its channels begin at `first` */
	uint64_t tags[BEADS], counts[BEADS];
	unsigned beads;
	uint64_t asked; /* the count that the answer to a reject must have; 0: none is asked */
	double due;     /* of its renewal */
};

static void
slot_init(
    struct slot *slot, struct link *link, unsigned first, const char *semaphore, size_t number)
{
	*slot = (struct slot){.link = link, .first = first};
	snprintf(slot->queue, sizeof(slot->queue), "lockbroker=q=%s=%zu", semaphore, number);
}

static unsigned
channel_of(const struct slot *slot)
{
	return slot->first + slot->turn % CHANNELS_EACH;
}

static void
ask_beads(struct slot *slot)
{
	slot->turn++;
	slot->beads = 0;
	put_attach(slot->link, channel_of(slot), slot->queue);
}

/* Rejects the bead at a place, which then comes again behind the others. */
static void
ask_reject(struct slot *slot, unsigned place)
{
	put_reject(slot->link, channel_of(slot), slot->tags[place]);
	slot->asked = slot->counts[place] + 1;
	for (unsigned i = place; i + 1 < BEADS; i++) {
		slot->tags[i] = slot->tags[i + 1];
		slot->counts[i] = slot->counts[i + 1];
	}
	slot->beads--;
}

static void
ask_flip(struct slot *slot)
{
	ask_reject(slot, 1);
}

static void
slot_close(struct slot *slot)
{
	put_close(slot->link, channel_of(slot));
}

/* Whether all beads are here. */
static bool
take(struct slot *slot, const struct delivery *delivery)
{
	if (slot->beads == BEADS || delivery->channel != channel_of(slot) ||
	    (slot->asked != 0 && delivery->count != slot->asked))
		errx(1, "%s: another delivery than the one that was asked for", slot->queue);
	slot->asked = 0;
	slot->tags[slot->beads] = delivery->tag;
	slot->counts[slot->beads++] = delivery->count;
	return slot->beads == BEADS;
}

static void
await_beads(struct slot *slot)
{
	struct delivery delivery;

	do
		delivery = link_deliver(slot->link);
	while (!take(slot, &delivery));
}

static void
claim(struct slot *slot)
{
	ask_beads(slot);
	await_beads(slot);
	ask_flip(slot);
	await_beads(slot);
}

static void
drop(struct slot *slot)
{
	ask_flip(slot);
	await_beads(slot);
	slot_close(slot);
	link_send(slot->link);
}

/* ---- locks ---- */

static struct peer *
open_maker(const struct service *service)
{
	struct peer *peer = checked_alloc(1, sizeof(*peer));

	if (service->second == NULL)
		errx(64, "%s: the socket of a daemon is needed", service->title);
	peer_open(peer, service->second);
	return peer;
}

static void
beads_lock(struct service *service)
{
	claim(service->other);
}

static void
beads_unlock(struct service *service)
{
	drop(service->other);
}

static struct slot *
open_one(struct service *service, size_t links)
{
	struct slot *slots = checked_alloc(links, sizeof(*slots));

	peer_create(open_maker(service), service->semaphore, 1, BY_QUORUM);
	for (size_t i = 0; i < links; i++) {
		service->links[i] = link_open(service->where, 0);
		slot_init(&slots[i], service->links[i], 1, service->semaphore, 1);
	}
	return slots;
}

void
beads_locks_open(struct service *service)
{
	service->other = open_one(service, 1);
	service->lock = beads_lock;
	service->unlock = beads_unlock;
}

/* ---- hand-off ---- */

void
beads_handoff_open(struct service *service)
{
	service->other = open_one(service, 2);
	for (size_t i = 2; i < 4; i++)
		service->links[i] = link_open(service->where, 1);
	link_consume(service->links[3], service->semaphore, false, false);
}

void
beads_handoff_round(struct service *service)
{
	struct slot *holder = service->other, *waiter = holder + 1;
	struct side *side = side_of("%s", service->title);

	for (size_t i = 0; i < service->count; i++) {
		double began;

		claim(holder);
		rest(service->rest);
		began = now();
		drop(holder);
		put_text(service->links[2], 1, service->semaphore, "2000", "1");
		link_send(service->links[2]);
		link_delivery(service->links[3]);
		claim(waiter);
		side_add(side, now() - began);
		drop(waiter);
	}
}

/* ---- clients ---- */

void
beads_clients_open(struct service *service)
{
	struct slot *slots = checked_alloc(service->size, sizeof(*slots));

	service->way = BY_QUORUM;
	names_make(open_maker(service), service);
	service->links[0] = link_open(service->where, 0);
	service->other = slots;
	for (size_t i = 0; i < service->size; i++) {
		slot_init(&slots[i], service->links[0], 1 + (unsigned)i * CHANNELS_EACH,
		    nth_name(service, i), 1);
	}
}

/* All beads of a client are here: it claims, has claimed, or has released. */
static void
client_goes_on(struct slot *slot, struct cycles *cycles, size_t client, bool *flipped)
{
	if (!cycles->cycles[client].held && !*flipped) {
		*flipped = true;
		ask_flip(slot);
		return;
	}
	*flipped = false;
	if (cycles->cycles[client].held)
		slot_close(slot);
	if (!cycle_goes_on(cycles, client))
		return;
	if (cycles->cycles[client].held)
		ask_flip(slot);
	else
		ask_beads(slot);
}

void
beads_clients_round(struct service *service)
{
	struct cycles cycles = cycles_begin(service);
	struct link *link = service->links[0];
	struct slot *slots = service->other;
	bool *flipped = checked_alloc(service->size, sizeof(*flipped));

	for (size_t i = 0; i < service->size; i++) {
		cycles.cycles[i].began = now();
		ask_beads(&slots[i]);
	}
	while (cycles.running > 0) {
		struct delivery delivery;
		size_t client;

		delivery = link_deliver(link);
		client = (delivery.channel - 1) / CHANNELS_EACH;
		if (take(&slots[client], &delivery))
			client_goes_on(&slots[client], &cycles, client, &flipped[client]);
	}
	link_send(link);
	cycles_end(&cycles);
	free(flipped);
}

/* ---- renewals ---- */

static void
renew_due(struct slot *slots, size_t holds, double period)
{
	double time = now();

	for (size_t i = 0; i < holds; i++) {
		struct slot *slot = &slots[i];

		if (slot->due > time)
			continue;
		if (slot->asked != 0)
			errx(1, "%s: a renewal is not answered", slot->queue);
		slot->due += period;
		ask_reject(slot, BEADS - 1);
		link_send(slot->link);
	}
}

/* Slots go round the links. */
static void
take_renewal(struct slot *slots, struct link *link, size_t number)
{
	struct delivery delivery = link_deliver(link);
	size_t on_link = (delivery.channel - 1) / CHANNELS_EACH;

	take(&slots[on_link * RENEWING_LINKS + number], &delivery);
}

static bool
is_asked(const struct slot *slots, size_t holds, const struct link *link)
{
	for (size_t i = 0; i < holds; i++)
		if (slots[i].link == link && slots[i].asked != 0)
			return true;
	return false;
}

static double
next_due(const struct slot *slots, size_t holds)
{
	double next = slots[0].due;

	for (size_t i = 1; i < holds; i++)
		if (slots[i].due < next)
			next = slots[i].due;
	return next;
}

void
beads_renew(const char *url, const char *semaphore, size_t holds, unsigned ms)
{
	struct slot *slots = checked_alloc(holds, sizeof(*slots));
	struct link *links[RENEWING_LINKS];
	struct pollfd ready[RENEWING_LINKS + 1] = {{.fd = STDIN_FILENO, .events = POLLIN}};
	double period = ms / 1e3;

	if (holds == 0 || holds > CHANNELS_OF_LINK / CHANNELS_EACH * RENEWING_LINKS)
		errx(64, "so many holds are not possible");
	for (size_t i = 0; i < RENEWING_LINKS; i++) {
		links[i] = link_open(url, 0);
		ready[i + 1] = (struct pollfd){.fd = link_fd(links[i]), .events = POLLIN};
	}
	for (size_t i = 0; i < holds; i++) {
		unsigned first = 1 + (unsigned)(i / RENEWING_LINKS) * CHANNELS_EACH;

		slot_init(&slots[i], links[i % RENEWING_LINKS], first, semaphore, i + 1);
		claim(&slots[i]);
		slots[i].due = now() + period * (double)i / (double)holds;
	}
	puts("ready");
	fflush(stdout);
	while ((ready[0].revents & (POLLIN | POLLHUP)) == 0) {
		double wait = next_due(slots, holds) - now();

		if (poll(ready, RENEWING_LINKS + 1, wait > 0 ? (int)(wait * 1e3) + 1 : 0) < 0)
			err(1, "poll");
		for (size_t i = 0; i < RENEWING_LINKS; i++) {
			if (ready[i + 1].revents == 0)
				continue;
			do
				take_renewal(slots, links[i], i);
			while (!link_is_dry(links[i]));
		}
		renew_due(slots, holds, period);
	}
	/* In order, so that the next holders need not wait. */
	for (size_t i = 0; i < RENEWING_LINKS; i++)
		while (is_asked(slots, holds, links[i]))
			take_renewal(slots, links[i], i);
	for (size_t i = 0; i < holds; i++)
		drop(&slots[i]);
}
