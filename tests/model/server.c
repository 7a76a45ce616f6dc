#include "tests/model/server.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct setup *setup;
unsigned long quorum_dropped_steps;

static const char *const channel_name[CHANNELS_MAX] = {
    "A", "A's old channel", "B", "B's old channel", "C", "C's old channel"};

/* ---- steps ---- */

enum { STEPS_MAX = 256 };

static struct step steps[STEPS_MAX];
static size_t n_steps;
static bool telling;
/* The step that is being made. */
static struct step made;
/* It cannot be made: a queue of the model is full. */
static bool no_room;

void
steps_clear(bool tell)
{
	n_steps = 0;
	telling = tell;
}

size_t
steps_get(const struct step **ret_steps)
{
	*ret_steps = steps;
	return n_steps;
}

void
step_say(const char *format, ...)
{
	made.is_fault = made.is_grant = false;
	made.broken = NULL;
	no_room = false;
	if (!telling)
		return;
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(made.text, sizeof made.text, format, arguments);
	va_end(arguments);
}

void
step_say_also(const char *format, ...)
{
	if (!telling)
		return;
	size_t length = strlen(made.text);
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(made.text + length, sizeof made.text - length, format, arguments);
	va_end(arguments);
}

void
step_is_fault(void)
{
	made.is_fault = true;
}

void
step_is_grant(void)
{
	made.is_grant = true;
}

void
step_violates(const char *property)
{
	made.broken = property;
}

void
step_add(const struct world *world)
{
	if (no_room) {
		quorum_dropped_steps++;
		return;
	}
	assert(n_steps < STEPS_MAX);
	struct step *step = &steps[n_steps++];
	step->after = *world;
	step->is_fault = made.is_fault;
	step->is_grant = made.is_grant;
	step->broken = made.broken;
	if (telling)
		memcpy(step->text, made.text, sizeof step->text);
}

/* ---- messages ---- */

unsigned
n_clients(void)
{
	return setup->clients != 0 ? setup->clients : 2;
}

/* Two sets of one epoch, the set above them, and a mark. With fewer nobody can repair this. */
static unsigned
prefetch(void)
{
	return setup->prefetch != 0 ? setup->prefetch : 3 * BEADS + 1;
}

unsigned
beads_of_a_set(void)
{
	return setup->mistake == TWO_BEADS ? 2 : BEADS;
}

bool
order_is_clean(const uint8_t beads[BEADS])
{
	if (setup->mistake == TWO_BEADS)
		return beads[0] == 0;
	if (setup->since_4_3)
		return beads[0] == 0 && beads[1] == 1;
	return (beads[1] + 3 - beads[0]) % 3 == 1;
}

static void
remove_message(struct world *w, unsigned at)
{
	w->n_messages--;
	memmove(&w->queue[at], &w->queue[at + 1], (w->n_messages - at) * sizeof w->queue[0]);
	memset(&w->queue[w->n_messages], 0, sizeof w->queue[0]);
}

static void
insert_message(struct world *w, unsigned at, struct message message)
{
	assert(w->n_messages < MESSAGES_MAX);
	memmove(&w->queue[at + 1], &w->queue[at], (w->n_messages - at) * sizeof w->queue[0]);
	w->queue[at] = message;
	w->n_messages++;
}

/* The position of a message, or -1. channel: only if it was delivered there. */
static int
find_message(const struct world *w, unsigned id, int channel)
{
	for (unsigned at = 0; at < w->n_messages; at++)
		if (w->queue[at].id == id && (channel < 0 || w->queue[at].owner == channel + 1))
			return (int)at;
	return -1;
}

bool
server_has_set(const struct world *w, unsigned set)
{
	for (unsigned bead = 0; bead < beads_of_a_set(); bead++)
		if (find_message(w, message_of_bead(set, bead), -1) < 0)
			return false;
	return true;
}

bool
server_reads_order(const struct world *w, unsigned set, uint8_t ret_beads[BEADS])
{
	unsigned n = 0;
	memset(ret_beads, 0, BEADS);
	for (unsigned at = 0; at < w->n_messages; at++)
		if (!is_mark(w->queue[at].id) && set_of(w->queue[at].id) == set)
			ret_beads[n++] = (uint8_t)bead_of(w->queue[at].id);
	return n == beads_of_a_set();
}

/* ---- counts ---- */

static void
grow_old(struct seen *delivery, unsigned message)
{
	if (delivery->message == message) {
		assert(delivery->age < 63);
		delivery->age++;
	}
}

/* Requests that name an earlier delivery of a message have no effect. */
static void
forget_requests(struct world *w, unsigned message)
{
	for (unsigned c = 0; c < 2u * n_clients(); c++) {
		struct channel *channel = &w->channels[c];
		unsigned n = 0;
		for (unsigned at = 0; at < channel->n_sent; at++)
			if ((channel->sent[at] & 0x3f) != message)
				channel->sent[n++] = channel->sent[at];
		memset(&channel->sent[n], 0, SENT_MAX - n);
		channel->n_sent = (uint8_t)n;
	}
}

/* A reject and a return add 1 to the count of a bead. All that was delivered before is a count older. */
static void
count_message(struct world *w, unsigned message)
{
	for (unsigned i = 0; i < n_clients(); i++) {
		struct client *k = &w->clients[i];
		for (unsigned at = 0; at < k->n_seen; at++)
			grow_old(&k->seen[at], message);
		for (unsigned at = 0; at < k->n_out; at++)
			grow_old(&k->out[at].bead, message);
		for (unsigned at = 0; at < k->n_transit; at++)
			grow_old(&k->transit[at], message);
		if (k->memory_set == set_of(message) + 1 && !is_mark(message) &&
		    k->memory_behind < 250)
			k->memory_behind++;
	}
	if (!is_mark(message) && w->fence_set == set_of(message) + 1 && w->fence_behind < 250)
		w->fence_behind++;
	forget_requests(w, message);
}

/* ---- deliveries ---- */

static unsigned
first_ready(const struct world *w)
{
	unsigned at = 0;
	while (at < w->n_messages && w->queue[at].owner != 0)
		at++;
	return at;
}

/* To the end of those that were returned, which come before all others that are ready. */
static void
put_back(struct world *w, unsigned at)
{
	struct message message = {w->queue[at].id, 0, 0};
	remove_message(w, at);
	unsigned to = first_ready(w);
	while (to < w->n_messages && !w->queue[to].unused)
		to++;
	insert_message(w, to, message);
	count_message(w, message.id);
}

static void
return_all(struct world *w, unsigned channel)
{
	uint8_t ids[MESSAGES_MAX];
	unsigned n = 0;
	for (unsigned at = 0; at < w->n_messages; at++)
		if (w->queue[at].owner == channel + 1)
			ids[n++] = w->queue[at].id;
	for (unsigned at = 0; at < n; at++)
		put_back(w, (unsigned)find_message(w, ids[at], (int)channel));
	if (w->active == channel + 1)
		w->active = w->paused = 0;
}

/* A client that has closed its channel hears nothing of it. */
static void
send_delivery(struct world *w, unsigned channel, struct seen delivery)
{
	struct client *k = &w->clients[channel / 2];
	if (channel % 2 != 0 || k->mode == CLOSING)
		return;
	if (k->n_transit == TRANSIT_MAX) {
		no_room = true;
		return;
	}
	k->transit[k->n_transit++] = delivery;
}

/* Whether it matters which deliveries come together. */
static bool
has_batches(void)
{
	return setup->rotations != 0 || setup->fetches;
}

static void
deliver(struct world *w)
{
	if (w->active == 0 || w->paused)
		return;
	unsigned has = 0;
	for (unsigned at = 0; at < w->n_messages; at++)
		has += w->queue[at].owner == w->active;
	for (unsigned at = first_ready(w); at < w->n_messages && has < prefetch(); at++, has++) {
		struct message *message = &w->queue[at];
		message->owner = w->active;
		bool more = at + 1 < w->n_messages && has + 1 < prefetch();
		send_delivery(w, w->active - 1u,
		    (struct seen){message->id, 0, more && has_batches(), message->unused});
	}
}

void
server_go_on(struct world *w)
{
	bool chosen = false;
	for (unsigned c = 0; w->active == 0 && c < 2u * n_clients(); c++) {
		if (w->channels[c].life != ATTACHED)
			continue;
		struct world next = *w;
		struct step before = made;
		next.active = (uint8_t)(c + 1);
		deliver(&next);
		step_say_also("; %s is active", channel_name[c]);
		step_add(&next);
		made = before;
		no_room = false;
		chosen = true;
	}
	if (chosen)
		return;
	deliver(w);
	step_add(w);
}

void
server_publish(struct world *w, unsigned message)
{
	insert_message(w, w->n_messages, (struct message){(uint8_t)message, 0, 1});
}

/* Consumers that are cut off do not hear it. The queue that is declared then has none of them. */
void
server_delete_queue(struct world *w)
{
	while (w->n_messages != 0) {
		forget_requests(w, w->queue[0].id);
		remove_message(w, 0);
	}
	for (unsigned c = 0; c < CHANNELS_MAX; c++) {
		w->channels[c].life = NO_CHANNEL;
		w->channels[c].n_sent = 0;
		memset(w->channels[c].sent, 0, SENT_MAX);
	}
	w->active = w->paused = w->idle = 0;
}

bool
server_has_consumer(const struct world *w)
{
	for (unsigned c = 0; c < 2u * n_clients(); c++)
		if (w->channels[c].life != NO_CHANNEL)
			return true;
	return false;
}

/* ---- requests of clients ---- */

void
server_send(struct world *w, unsigned channel, struct seen delivery, enum request request)
{
	struct channel *c = &w->channels[channel];
	bool open = c->life == ATTACHED || c->life == TIMED_OUT;
	if (!open || delivery.age != 0 || find_message(w, delivery.message, (int)channel) < 0)
		return;
	if (c->n_sent == SENT_MAX) {
		no_room = true;
		return;
	}
	c->sent[c->n_sent++] = (uint8_t)(delivery.message | request);
}

bool
server_has_old_channel(const struct world *w, unsigned client)
{
	const struct channel *old = &w->channels[old_channel_of(client)];
	return old->life != NO_CHANNEL || old->attach_sent;
}

void
server_close(struct world *w, unsigned client)
{
	unsigned now = channel_of(client), old = old_channel_of(client);
	w->channels[old] = w->channels[now];
	memset(&w->channels[now], 0, sizeof w->channels[now]);
	if (w->active == now + 1)
		w->active = (uint8_t)(old + 1);
	for (unsigned at = 0; at < w->n_messages; at++)
		if (w->queue[at].owner == now + 1)
			w->queue[at].owner = (uint8_t)(old + 1);
}

/* ---- the server's steps ---- */

static void
step_attach(const struct world *before, unsigned c)
{
	struct world w = *before;
	w.channels[c].attach_sent = 0;
	w.channels[c].life = ATTACHED;
	w.idle = 0;
	step_say("server: %s is attached", channel_name[c]);
	server_go_on(&w);
	if (c % 2 == 1) {
		w = *before;
		memset(&w.channels[c], 0, sizeof w.channels[c]);
		step_say("server: %s ends before it is attached", channel_name[c]);
		step_add(&w);
	}
}

static const char *
word_of_order(const struct world *w, unsigned set)
{
	uint8_t beads[BEADS];
	if (!server_reads_order(w, set, beads))
		return "incomplete";
	return order_is_clean(beads) ? "clean" : "dirty";
}

static void
step_take_request(const struct world *before, unsigned c, unsigned sent)
{
	struct world w = *before;
	struct channel *channel = &w.channels[c];
	unsigned message = channel->sent[sent] & 0x3f, flags = channel->sent[sent] & 0xc0;
	channel->n_sent--;
	memmove(&channel->sent[sent], &channel->sent[sent + 1], channel->n_sent - sent);
	channel->sent[channel->n_sent] = 0;
	int at = find_message(&w, message, (int)c);
	assert(at >= 0);
	if (flags == ACKNOWLEDGE) {
		remove_message(&w, (unsigned)at);
		forget_requests(&w, message);
		step_say("server: takes the acknowledgement of message %u from %s", message,
		    channel_name[c]);
		server_go_on(&w);
		return;
	}
	put_back(&w, (unsigned)at);
	step_say("server: takes the reject of bead %u of set %u from %s: %s", bead_of(message) + 1,
	    set_of(message) + 1, channel_name[c], word_of_order(&w, set_of(message)));
	server_go_on(&w);
}

static void
step_lose_request(const struct world *before, unsigned c, unsigned sent)
{
	struct world w = *before;
	struct channel *channel = &w.channels[c];
	w.faults--;
	channel->n_sent--;
	memmove(&channel->sent[sent], &channel->sent[sent + 1], channel->n_sent - sent);
	channel->sent[channel->n_sent] = 0;
	step_say("fault: a reject from %s is lost", channel_name[c]);
	step_is_fault();
	step_add(&w);
}

static void
step_detach(const struct world *before, unsigned c, bool is_fault)
{
	struct world w = *before;
	return_all(&w, c);
	memset(&w.channels[c], 0, sizeof w.channels[c]);
	step_say("%s: %s ends, and returns its messages", is_fault ? "fault" : "server",
	    channel_name[c]);
	if (is_fault) {
		w.faults--;
		step_is_fault();
	}
	server_go_on(&w);
}

static void
step_suspend(const struct world *before, unsigned c, bool is_fault)
{
	struct world w = *before;
	return_all(&w, c);
	w.channels[c].life = SUSPENDED;
	w.channels[c].n_sent = 0;
	memset(w.channels[c].sent, 0, SENT_MAX);
	step_say("fault: the node of %s is down, its messages return", channel_name[c]);
	step_is_fault();
	if (is_fault)
		w.faults--;
	server_go_on(&w);
}

/* Only the bead that was delivered first returns. The consumer gets nothing more, and keeps the others. */
static void
step_time_out(const struct world *before, unsigned c)
{
	struct world w = *before;
	for (unsigned at = 0; at < w.n_messages; at++) {
		if (w.queue[at].owner != c + 1)
			continue;
		w.faults--;
		w.channels[c].life = TIMED_OUT;
		step_say("fault: bead %u exceeds the consumer timeout of %s, and alone returns",
		    bead_of(w.queue[at].id) + 1, channel_name[c]);
		step_is_fault();
		put_back(&w, at);
		if (w.active == c + 1)
			w.active = 0;
		server_go_on(&w);
		return;
	}
}

/* Where the batch begins that ends before this place. */
static unsigned
batch_before(const struct client *k, unsigned end)
{
	unsigned at = end - 1;
	while (at > 0 && k->transit[at - 1].more)
		at--;
	return at;
}

/*
 * Batches were lost, and the server notices when the next one comes. It fetches what the consumer still has of
 * them, and puts that before the new one. All come together.
 */
static void
step_fetch(const struct world *before, unsigned c, unsigned from, unsigned next)
{
	struct world w = *before;
	struct client *k = &w.clients[c / 2];
	struct seen fetched[TRANSIT_MAX];
	unsigned n = 0, to = from;
	for (unsigned at = next; at-- > from;)
		if (k->transit[at].age == 0 &&
		    find_message(&w, k->transit[at].message, (int)c) >= 0)
			fetched[n++] = k->transit[at];
	if (n == 0)
		return;
	for (unsigned at = 0; at < n; at++, to++) {
		k->transit[to] = fetched[at];
		k->transit[to].more = 1;
	}
	memmove(&k->transit[to], &before->clients[c / 2].transit[next],
	    (k->n_transit - next) * sizeof k->transit[0]);
	k->n_transit = (uint8_t)(k->n_transit - (next - to));
	memset(&k->transit[k->n_transit], 0, (TRANSIT_MAX - k->n_transit) * sizeof k->transit[0]);
	w.faults--;
	step_say(
	    "fault: %u deliveries to %s were lost, and come in reversed order", n, channel_name[c]);
	step_is_fault();
	step_add(&w);
}

/* The last batch on the way is the one that comes. Those before it are lost, from any one on. */
static void
steps_of_fetches(const struct world *w, unsigned c)
{
	const struct client *k = &w->clients[c / 2];
	if (k->n_transit < 2)
		return;
	unsigned next = batch_before(k, k->n_transit);
	for (unsigned from = next; from > 0;) {
		from = batch_before(k, from);
		/* The rest of a batch that has come in part is not lost. */
		if (from > 0 || !k->more)
			step_fetch(w, c, from, next);
	}
}

static void
step_pause(const struct world *before, unsigned c)
{
	struct world w = *before;
	w.faults--;
	w.paused = 1;
	step_say("fault: the node of %s is down, it keeps its beads", channel_name[c]);
	step_is_fault();
	step_add(&w);
}

static void
steps_of_faults(const struct world *w, unsigned c)
{
	const struct channel *channel = &w->channels[c];
	const struct client *k = &w->clients[c / 2];
	if (channel->life == NO_CHANNEL)
		return;
	bool closed = c % 2 == 1 || k->mode == CLOSING || k->still_uses;
	if (closed || w->faults != 0)
		step_detach(w, c, !closed);
	if (w->faults == 0)
		return;
	if (channel->life == ATTACHED && !(w->paused && w->active == c + 1))
		step_suspend(w, c, true);
	if (setup->mistake == CONSUMER_TIMEOUT &&
	    (channel->life == ATTACHED || channel->life == TIMED_OUT))
		step_time_out(w, c);
	if (setup->since_4_3 && w->active == c + 1 && !w->paused)
		step_pause(w, c);
	if (setup->fetches && c % 2 == 0)
		steps_of_fetches(w, c);
	for (unsigned sent = 0; setup->losses && c % 2 == 0 && sent < channel->n_sent; sent++)
		step_lose_request(w, c, sent);
}

static void
steps_of_recovery(const struct world *before, unsigned c)
{
	struct world w = *before;
	if (w.channels[c].life == SUSPENDED) {
		w.channels[c].life = ATTACHED;
		step_say("server: the node of %s is up again", channel_name[c]);
		server_go_on(&w);
	}
	if (before->paused && before->active == c + 1) {
		w = *before;
		w.paused = 0;
		step_say("server: the node of %s is up in time", channel_name[c]);
		server_go_on(&w);
		step_suspend(before, c, false);
	}
}

void
server_steps(const struct world *w)
{
	for (unsigned c = 0; c < 2u * n_clients(); c++) {
		const struct channel *channel = &w->channels[c];
		if (channel->attach_sent)
			step_attach(w, c);
		for (unsigned sent = 0;
		     sent < channel->n_sent && (sent == 0 || (setup->reversed && sent == 1));
		     sent++)
			step_take_request(w, c, sent);
		steps_of_faults(w, c);
		steps_of_recovery(w, c);
	}
}
