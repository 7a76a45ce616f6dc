#include "tests/sim/tap.h"

#include <stdlib.h>

#include "daemon/base/mem.h"
#include "tests/sim/check.h"
#include "tests/sim/messages.h"
#include "tests/sim/probes.h"

/*
 * The linker makes the engines call __wrap_broker_claim() where they say broker_claim(), which is
 * __real_broker_claim() here; and so on (Makefile.am, sim_wrap).
 */
void __real_broker_claim(struct broker *broker, uint64_t channel, enum broker_way way,
    const char *queue, struct broker_done done);
void __wrap_broker_claim(struct broker *broker, uint64_t channel, enum broker_way way,
    const char *queue, struct broker_done done);
void __real_broker_check_holder(struct broker *broker, uint64_t channel, enum broker_way way,
    const char *queue, struct broker_done done);
void __wrap_broker_check_holder(struct broker *broker, uint64_t channel, enum broker_way way,
    const char *queue, struct broker_done done);
void __real_broker_drop(struct broker *broker, uint64_t channel, enum broker_way way,
    const char *queue, bool stopped, struct broker_done done);
void __wrap_broker_drop(struct broker *broker, uint64_t channel, enum broker_way way,
    const char *queue, bool stopped, struct broker_done done);
bool __real_broker_restore_grace(struct broker *broker, uint64_t channel, const char *queue,
    struct broker_done claimed, int64_t *ret_until);
bool __wrap_broker_restore_grace(struct broker *broker, uint64_t channel, const char *queue,
    struct broker_done claimed, int64_t *ret_until);
void __real_broker_make_beads(struct broker *broker, const char *queue,
    const struct broker_beads *wanted, struct broker_done done);
void __wrap_broker_make_beads(struct broker *broker, const char *queue,
    const struct broker_beads *wanted, struct broker_done done);
void __real_broker_delete_removed(
    struct broker *broker, const char *queue, struct broker_done done);
void __wrap_broker_delete_removed(
    struct broker *broker, const char *queue, struct broker_done done);
void __real_broker_delete_beads(struct broker *broker, const char *queue, struct broker_done done);
void __wrap_broker_delete_beads(struct broker *broker, const char *queue, struct broker_done done);
void __real_broker_remove_beads(struct broker *broker, const char *queue, struct broker_done done);
void __wrap_broker_remove_beads(struct broker *broker, const char *queue, struct broker_done done);
void __real_broker_wait_queue_join(
    struct broker *broker, const char *queue, int priority, unsigned credit);
void __wrap_broker_wait_queue_join(
    struct broker *broker, const char *queue, int priority, unsigned credit);
void __real_broker_wait_queue_leave(struct broker *broker, const char *queue, int priority);
void __wrap_broker_wait_queue_leave(struct broker *broker, const char *queue, int priority);
void __real_broker_wait_queue_wake(struct broker *broker, const char *queue, int slot);
void __wrap_broker_wait_queue_wake(struct broker *broker, const char *queue, int slot);
void __real_broker_wait_queue_count(
    struct broker *broker, const char *queue, struct broker_count_done done);
void __wrap_broker_wait_queue_count(
    struct broker *broker, const char *queue, struct broker_count_done done);
void __real_broker_probe(struct broker *broker, const struct broker_question *questions,
    size_t count, struct broker_probe_done done);
void __wrap_broker_probe(struct broker *broker, const struct broker_question *questions,
    size_t count, struct broker_probe_done done);
void __real_broker_set_events(struct broker *broker, const struct broker_events *events);
void __wrap_broker_set_events(struct broker *broker, const struct broker_events *events);

/* The engines' callbacks for news of wait queues and links. */
static struct broker_events heard;
/* Whose daemons these are: one schedule runs at a time. */
static struct sim *running;

static struct sim_daemon *
daemon_of(const struct broker *broker)
{
	struct sim_daemon *daemon = running->daemons;

	while (daemon->broker != broker)
		daemon++;
	return daemon;
}

/* ---- sent ---- */

/* A claim that is not answered yet. By quorum, also an end of a hold, or the work of an administrator. */
struct tap_claim {
	struct sim_daemon *daemon;
	struct queue_id id;
	/* By quorum: its kind, and the channel of a claim. */
	enum { TAP_CLAIM, TAP_CHECK, TAP_END, TAP_MAKE, TAP_DELETE } what;
	uint64_t channel;
	unsigned rivals;         /* by quorum: see quorum_asks() */
	struct broker_done done; /* the engine's */
	TAILQ_ENTRY(tap_claim) entry;
};

static struct wait_seen *
seen_by(const struct tap_claim *claim)
{
	return &running->waits.names[claim->id.name]
		    .slots[claim->id.slot]
		    .seen[claim->daemon->number];
}

static void
on_claimed(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct tap_claim *claim = ctx;
	struct sim_daemon *daemon = claim->daemon;
	struct broker_done done = claim->done;

	seen_by(claim)->claiming = false;
	if (!running->plan.quorum)
		check_claim_answered(running, daemon, seen_by(claim), reply->answer);
	TAILQ_REMOVE(&daemon->claims, claim, entry);
	free(claim);
	done.fn(done.ctx, id, reply);
}

static struct broker_done
listen_to_claim(struct sim_daemon *daemon, struct queue_id id, struct broker_done done)
{
	struct tap_claim *claim = mem_alloc(sizeof(*claim));
	struct wait_seen *seen = &running->waits.names[id.name].slots[id.slot].seen[daemon->number];

	seen->claiming = true;
	seen->claim_connection = truth_hold_connection(running, daemon->number);
	seen->claim_answer = BROKER_UNKNOWN;
	claim->daemon = daemon;
	claim->id = id;
	claim->done = done;
	TAILQ_INSERT_TAIL(&daemon->claims, claim, entry);
	return (struct broker_done){on_claimed, claim, done.id};
}

/* ---- by quorum ---- */

/* Whether it may make the order of the beads dirty. */
static bool
is_rival(const struct tap_claim *claim)
{
	return claim->what != TAP_CHECK && claim->what != TAP_END;
}

static const char *
tap_word(const struct tap_claim *claim)
{
	static const char *const words[] = {
	    [TAP_CLAIM] = "claims",
	    [TAP_CHECK] = "renews",
	    [TAP_END] = "ends",
	    [TAP_MAKE] = "makes",
	    [TAP_DELETE] = "deletes",
	};

	return words[claim->what];
}

static void
on_beads(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct tap_claim *claim = ctx;
	struct broker_done done = claim->done;

	NOTE(running, .text = "{d} hears of {n} that it {w} {q}: {m}",
	    .daemon = claim->daemon->number, .n = (int64_t)(claim->channel & INT32_MAX),
	    .word = tap_word(claim), .queue = queue_text(claim->id),
	    .m = reply->proved ? -1 : (int64_t)reply->answer);
	quorum_answered(running, claim->id, is_rival(claim));
	if (reply->answer == BROKER_OK && (claim->what == TAP_MAKE || reply->proved))
		quorum_proved(running, claim->id, claim->rivals);
	if (reply->answer == BROKER_OK && claim->what == TAP_MAKE)
		quorum_made(running, claim->id);
	if (claim->what == TAP_DELETE && reply->removed && reply->answer == BROKER_LOCKED)
		quorum_removed(running, claim->id);
	TAILQ_REMOVE(&claim->daemon->claims, claim, entry);
	free(claim);
	done.fn(done.ctx, id, reply);
}

static struct broker_done
listen_to_beads(const struct broker *broker, const char *queue, uint64_t channel, int what,
    struct broker_done done)
{
	struct tap_claim *claim = mem_alloc(sizeof(*claim));

	*claim = (struct tap_claim){.daemon = daemon_of(broker),
	    .id = queue_find(queue),
	    .channel = channel,
	    .what = what,
	    .done = done};
	claim->rivals = quorum_asks(running, claim->id, is_rival(claim));
	NOTE(running, .text = "{d}, {n}, {w} {q}", .daemon = claim->daemon->number,
	    .n = (int64_t)(channel & INT32_MAX), .word = tap_word(claim),
	    .queue = queue_text(claim->id));
	TAILQ_INSERT_TAIL(&claim->daemon->claims, claim, entry);
	return (struct broker_done){on_beads, claim, done.id};
}

void
__wrap_broker_drop(struct broker *broker, uint64_t channel, enum broker_way way, const char *queue,
    bool stopped, struct broker_done done)
{
	if (way == BROKER_BY_QUORUM)
		done = listen_to_beads(broker, queue, channel, TAP_END, done);
	__real_broker_drop(broker, channel, way, queue, stopped, done);
}

void
__wrap_broker_check_holder(struct broker *broker, uint64_t channel, enum broker_way way,
    const char *queue, struct broker_done done)
{
	if (way == BROKER_BY_QUORUM)
		done = listen_to_beads(broker, queue, channel, TAP_CHECK, done);
	__real_broker_check_holder(broker, channel, way, queue, done);
}

/* The claim of a daemon that was replaced is answered to its successor. */
bool
__wrap_broker_restore_grace(struct broker *broker, uint64_t channel, const char *queue,
    struct broker_done claimed, int64_t *ret_until)
{
	NOTE(running, .text = "{d} goes on with the claim of {q}",
	    .daemon = daemon_of(broker)->number, .queue = queue_text(queue_find(queue)));
	return __real_broker_restore_grace(broker, channel, queue,
	    listen_to_beads(broker, queue, channel, TAP_CLAIM, claimed), ret_until);
}

void
__wrap_broker_make_beads(struct broker *broker, const char *queue,
    const struct broker_beads *wanted, struct broker_done done)
{
	__real_broker_make_beads(
	    broker, queue, wanted, listen_to_beads(broker, queue, 0, TAP_MAKE, done));
}

void
__wrap_broker_remove_beads(struct broker *broker, const char *queue, struct broker_done done)
{
	__real_broker_remove_beads(
	    broker, queue, listen_to_beads(broker, queue, 0, TAP_DELETE, done));
}

void
__wrap_broker_delete_beads(struct broker *broker, const char *queue, struct broker_done done)
{
	__real_broker_delete_beads(
	    broker, queue, listen_to_beads(broker, queue, 0, TAP_DELETE, done));
}

void
__wrap_broker_delete_removed(struct broker *broker, const char *queue, struct broker_done done)
{
	__real_broker_delete_removed(
	    broker, queue, listen_to_beads(broker, queue, 0, TAP_DELETE, done));
}

/* ---- claims and hints ---- */

void
__wrap_broker_claim(struct broker *broker, uint64_t channel, enum broker_way way, const char *queue,
    struct broker_done done)
{
	struct queue_id id = queue_find(queue);
	struct sim_daemon *daemon = daemon_of(broker);

	if (way == BROKER_BY_QUORUM)
		done = listen_to_beads(broker, queue, channel, TAP_CLAIM, done);
	if (id.part == QUEUE_B && !running->plan.quorum) {
		running->waits.names[id.name].slots[id.slot].seen[daemon->number].claim_sent =
		    ++running->truth.moment;
		check_claim_sent(running, daemon, id);
		running->stuck = running->stuck_claim;
		running->stuck_claim = 0;
		done = listen_to_claim(daemon, id, done);
	}
	__real_broker_claim(broker, channel, way, queue, done);
}

/* The slot of a hint; 0 for every hint of a true mutex; -1: none, or an unknown slot. */
static int
hinted_slot(struct queue_id line, int slot)
{
	if (line.slot == 1)
		return 0;
	return slot >= 1 && slot <= SLOTS_KNOWN ? slot : -1;
}

void
__wrap_broker_wait_queue_wake(struct broker *broker, const char *queue, int slot)
{
	struct queue_id line = queue_find(queue);
	struct sim_daemon *daemon = daemon_of(broker);
	struct sim *sim = running;

	sim->waits.published[daemon->number]++;
	if (daemon->hearing)
		sim->waits.names[line.name].passed_on_at[daemon->number] = sim->now;
	sim->truth.moment++;
	if (hinted_slot(line, slot) >= 0)
		check_hint_sent(sim, daemon, line.name, hinted_slot(line, slot));
	if (sim_has(sim, TROUBLE_HINTS) && dice_percent(&sim->dice, 20)) {
		NOTE(sim, .text = "a hint of {d} to {q}, slot {n}, is lost",
		    .daemon = daemon->number, .queue = queue_text(line), .n = slot);
		return;
	}
	NOTE(sim, .text = "{d} has a hint for {q}, slot {n}", .daemon = daemon->number,
	    .queue = queue_text(line), .n = slot);
	__real_broker_wait_queue_wake(broker, queue, slot);
}

static unsigned *
places_of(const struct broker *broker, const char *queue)
{
	struct queue_id line = queue_find(queue);

	return &running->waits.names[line.name].places[daemon_of(broker)->number][line.slot == 1];
}

/* Of priorities -1 to 1. */
void
__wrap_broker_wait_queue_join(
    struct broker *broker, const char *queue, int priority, unsigned credit)
{
	*places_of(broker, queue) |= 1U << (priority + 1);
	__real_broker_wait_queue_join(broker, queue, priority, credit);
}

void
__wrap_broker_wait_queue_leave(struct broker *broker, const char *queue, int priority)
{
	*places_of(broker, queue) &= ~(1U << (priority + 1));
	__real_broker_wait_queue_leave(broker, queue, priority);
}

/* A count that is not answered yet. */
struct tap_count {
	struct sim_daemon *daemon;
	struct broker_count_done done; /* the engine's */
	TAILQ_ENTRY(tap_count) entry;
};

static void
on_counted(void *ctx, uint64_t id, int consumers)
{
	struct tap_count *count = ctx;
	struct sim_daemon *daemon = count->daemon;
	struct broker_count_done done = count->done;

	(void)id;
	TAILQ_REMOVE(&daemon->counts, count, entry);
	free(count);
	daemon->counting = true;
	done.fn(done.ctx, done.id, consumers);
	daemon->counting = false;
}

void
__wrap_broker_wait_queue_count(
    struct broker *broker, const char *queue, struct broker_count_done done)
{
	struct tap_count *count = mem_alloc(sizeof(*count));

	count->daemon = daemon_of(broker);
	count->done = done;
	TAILQ_INSERT_TAIL(&count->daemon->counts, count, entry);
	__real_broker_wait_queue_count(
	    broker, queue, (struct broker_count_done){on_counted, count, done.id});
}

void
__wrap_broker_probe(struct broker *broker, const struct broker_question *questions, size_t count,
    struct broker_probe_done done)
{
	running->waits.published[daemon_of(broker)->number] += count;
	if (!running->plan.quorum)
		check_method(running, daemon_of(broker)->number);
	NOTE(running, .text = "{d} probes {n} queues, {q} first",
	    .daemon = daemon_of(broker)->number, .n = (int64_t)count,
	    .queue = queue_text(queue_find(questions[0].queue)));
	__real_broker_probe(
	    broker, questions, count, probes_ask(daemon_of(broker), questions, count, done));
}

void
tap_init(struct sim_daemon *daemon)
{
	running = daemon->sim;
	TAILQ_INIT(&daemon->counts);
	TAILQ_INIT(&daemon->claims);
}

void
tap_done(struct sim_daemon *daemon)
{
	struct tap_claim *claim;
	struct tap_count *count;

	while ((claim = TAILQ_FIRST(&daemon->claims)) != NULL) {
		TAILQ_REMOVE(&daemon->claims, claim, entry);
		seen_by(claim)->claiming = false;
		if (claim->id.part == QUEUE_BEADS)
			quorum_answered(running, claim->id, is_rival(claim));
		free(claim);
	}
	while ((count = TAILQ_FIRST(&daemon->counts)) != NULL) {
		TAILQ_REMOVE(&daemon->counts, count, entry);
		free(count);
	}
}

/* ---- received ---- */

static struct sim_daemon *
daemon_of_engine(const struct lock_engine *engine)
{
	struct sim_daemon *daemon = running->daemons;

	while (daemon->engine != engine)
		daemon++;
	return daemon;
}

static const char *
news_word(enum broker_wait_queue_news news)
{
	switch (news) {
	case BROKER_WAIT_QUEUE_JOINED:
		return "it has joined";
	case BROKER_WAIT_QUEUE_HINT:
		return "a hint";
	case BROKER_WAIT_QUEUE_LEFT:
		return "it is out";
	case BROKER_WAIT_QUEUE_NOBODY:
		return "nobody waits";
	}
	return "?";
}

/* ctx: the engine. */
static void
on_line(void *ctx, const struct broker_wait_queue_event *event)
{
	struct sim *sim = running;
	struct sim_daemon *daemon = daemon_of_engine(ctx);
	struct queue_id line = queue_find(event->queue);
	int slot = hinted_slot(line, event->slot);
	uint64_t moment;

	sim->truth.moment++;
	NOTE(sim, .text = "{d} hears of {q}, priority {m}: {w}, slot {n}", .daemon = daemon->number,
	    .queue = queue_text(line), .m = event->priority, .word = news_word(event->news),
	    .n = event->slot);
	if (slot >= 0 &&
	    (event->news == BROKER_WAIT_QUEUE_HINT || event->news == BROKER_WAIT_QUEUE_NOBODY))
		sim->waits.names[line.name].slots[slot].seen[daemon->number].hinted_at = 0;
	moment = sim->truth.moment;
	daemon->hearing = true;
	heard.wait_queue(ctx, event);
	daemon->hearing = false;
	/* Nothing was said. */
	if (event->news == BROKER_WAIT_QUEUE_HINT && moment == sim->truth.moment &&
	    *places_of(daemon->broker, event->queue) != 0)
		check_hint_ignored(sim, daemon, line.name);
}

static void
on_link(void *ctx, enum broker_link link, enum broker_state state, const char *why)
{
	struct sim_daemon *daemon = daemon_of_engine(ctx);

	heard.link(ctx, link, state, why);
	if (link == BROKER_LOCKS)
		daemon->told_connection = memory_broker_connection(daemon->broker, BROKER_LOCKS);
	check_step(running);
}

static bool
on_unclean(void *ctx, uint64_t channel, int64_t until)
{
	const struct sim_daemon *daemon = daemon_of_engine(ctx);
	const struct tap_claim *claim;

	TAILQ_FOREACH (claim, &daemon->claims, entry) {
		if (claim->channel == channel && claim->what == TAP_CLAIM)
			check_unclean(running, claim->id);
	}
	return heard.unclean(ctx, channel, until);
}

static void
on_reclaimed(void *ctx, const char *queue)
{
	quorum_reclaimed(running, queue_find(queue));
	heard.reclaimed(ctx, queue);
}

static void
on_asked(void *ctx, const struct broker_message *message)
{
	messages_asked(daemon_of_engine(ctx), message);
}

static void
on_replied(void *ctx, const struct broker_message *message)
{
	messages_replied(daemon_of_engine(ctx), message);
}

void
__wrap_broker_set_events(struct broker *broker, const struct broker_events *events)
{
	struct broker_events observed = *events;

	heard = *events;
	observed.wait_queue = on_line;
	observed.link = on_link;
	observed.unclean = on_unclean;
	observed.reclaimed = on_reclaimed;
	observed.asked = on_asked;
	observed.replied = on_replied;
	__real_broker_set_events(broker, &observed);
}
