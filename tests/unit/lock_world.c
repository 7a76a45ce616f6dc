#include "tests/unit/lock_world.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/broker/setup.h"
#include "daemon/state/state.h"
#include "tests/lock_settings.h"

const struct lock_settings world_settings = {
    TEST_LOCK_SETTINGS,
    .max_locks_per_connection = 1024,
    .max_waits_per_connection = 1024,
};

static int64_t
now_of(void *ctx)
{
	struct lock_world *world = ctx;

	world->now += world->tick;
	return world->now;
}

static int64_t
wall_of(void *ctx)
{
	const struct lock_world *world = ctx;

	return INT64_C(1700000000) * NSEC_PER_SEC + world->now + world->wall_ahead;
}

static int64_t
delay_of(void *ctx)
{
	struct lock_world *world = ctx;

	world->asked++;
	if (world->slow > 0 && --world->slow == 0)
		return 30 * NSEC_PER_SEC;
	return world->delay;
}

static bool
silent_of(void *ctx)
{
	struct lock_world *world = ctx;

	return world->silent || (world->stuck > 0 && --world->stuck == 0);
}

static bool
refuses_of(void *ctx)
{
	return ((struct lock_world *)ctx)->refuses;
}

static bool
nacks_of(void *ctx)
{
	struct lock_world *world = ctx;

	if (world->on_probe != NULL)
		world->on_probe(world);
	if (world->nacks == 0)
		return false;
	return --world->nacks == 0;
}

static bool
unheard_of(void *ctx, const struct broker *broker, const char *queue)
{
	struct lock_world *world = ctx;

	(void)broker;
	(void)queue;
	if (world->deaf == 0)
		return false;
	world->deaf--;
	return true;
}

/*
 * ---- events of the engines ----
 */

static struct said *
record(struct world_daemon *daemon, uint64_t peer, const char *text)
{
	struct lock_world *world = daemon->world;
	struct said *said;

	ck_assert_uint_lt(world->said_count, RECORDS);
	said = &world->said[world->said_count++];
	memset(said, 0, sizeof(*said));
	said->daemon = daemon->number;
	said->peer = peer;
	said->at = world->now;
	snprintf(said->text, sizeof(said->text), "%s", text != NULL ? text : "");
	return said;
}

static void add_detail(struct said *said, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void
add_detail(struct said *said, const char *format, ...)
{
	size_t len = strlen(said->detail);
	va_list args;

	if (len > 0 && len + 1 < sizeof(said->detail))
		said->detail[len++] = ' ';
	va_start(args, format);
	vsnprintf(said->detail + len, sizeof(said->detail) - len, format, args);
	va_end(args);
}

/* "1 2 3" */
static void
add_held(struct said *said, const int *held, size_t count)
{
	for (size_t i = 0; i < count; i++)
		add_detail(said, "%d", held[i]);
}

/* An exclusive queue, as without consumers, goes without saying. */
static void
add_claim(struct said *said, enum lock_claim claim)
{
	if (claim != LOCK_CLAIM_UNKNOWN && claim != LOCK_CLAIM_BY_QUEUE)
		add_detail(said, "%s", lock_claim_word(claim));
}

/*
 * Findings: "gap:3 markers:0!", repaired ones with a mark. Rows: "db=3/1 (+1)", slots, busy, extra.
 * Explanation: "full 3/3 here 1 waiting 0 uncounted 0".
 */
static void
add_shown(struct said *said, const struct lock_answer *answer)
{
	const struct lock_explanation *why = answer->explanation;

	for (size_t i = 0; i < answer->finding_count; i++)
		add_detail(said, "%s:%d%s", lock_problem_word(answer->findings[i].problem),
		    answer->findings[i].slot, answer->findings[i].repaired ? "!" : "");
	for (size_t i = 0; i < answer->row_count; i++) {
		add_detail(said, "%s=%d/%d%s", answer->rows[i].name, answer->rows[i].slots,
		    answer->rows[i].busy, answer->rows[i].exists ? "" : "-");
		if (answer->rows[i].extra > 0)
			add_detail(said, "(+%d)", answer->rows[i].extra);
		add_claim(said, answer->rows[i].claim);
	}
	if (why != NULL) {
		add_detail(said, "%s %d/%d here %d waiting %d uncounted %d",
		    lock_verdict_word(why->verdict), why->slots, why->busy, why->here, why->waiting,
		    why->uncounted);
		if (why->extra > 0)
			add_detail(said, "extra %d", why->extra);
		if (why->unreachable > 0)
			add_detail(said, "unreachable %d", why->unreachable);
		add_claim(said, why->claim);
	}
}

static void
on_answer(void *ctx, uint64_t peer, uint64_t request, const struct lock_answer *answer)
{
	const struct world_daemon *daemon = ctx;
	struct said *said = record(ctx, peer, answer->text);

	if (daemon->also.answer != NULL)
		daemon->also.answer(daemon->also.ctx, peer, request, answer);
	said->request = request;
	said->reason = answer->reason;
	said->lock = answer->lock;
	said->slot = answer->slot;
	said->slots = answer->slots;
	said->target = answer->target;
	said->denied = answer->denied;
	said->unchanged = answer->unchanged;
	said->warned = answer->warning != NULL;
	said->busy = answer->busy;
	said->waiting = answer->waiting;
	add_held(said, answer->held, answer->held_count);
	add_shown(said, answer);
	said->findings = answer->finding_count;
	said->rows = answer->row_count;
	said->converted = answer->converted;
	said->claim = answer->claim;
	said->parameter = answer->parameter;
	said->safe_until = answer->safe_until;
	said->fence = answer->fence;
	said->free_in = answer->free_in;
}

static void
on_notice(void *ctx, uint64_t peer, const struct lock_notice *notice)
{
	struct said *said = record(ctx, peer, notice->text);

	said->notice = true;
	said->kind = notice->kind;
	said->safe_until = notice->safe_until;
	said->reason = notice->reason;
	said->lock = notice->lock;
	said->slot = notice->slot;
	said->position = notice->position;
	said->busy = notice->busy;
	said->extra = notice->extra;
	said->request = notice->request;
	add_held(said, notice->held, notice->held_count);
}

static void
on_changed(void *ctx, const struct lock_row *row)
{
	const struct world_daemon *daemon = ctx;
	struct lock_world *world = daemon->world;
	size_t len = strlen(world->changes);

	if (daemon->also.changed != NULL)
		daemon->also.changed(daemon->also.ctx, row);
	if (row->who == NULL || daemon->also.changed != NULL)
		return;
	ck_assert_uint_lt(len + 64, sizeof(world->changes));
	snprintf(world->changes + len, 64, "%s%s:%s", len > 0 ? " " : "", row->who,
	    lock_row_word(row->state));
}

static void
on_asked(void *ctx, const struct broker_message *message)
{
	const struct world_daemon *daemon = ctx;

	if (daemon->also.asked != NULL)
		daemon->also.asked(daemon->also.ctx, message);
}

static void
on_replied(void *ctx, const struct broker_message *message)
{
	const struct world_daemon *daemon = ctx;

	if (daemon->also.replied != NULL)
		daemon->also.replied(daemon->also.ctx, message);
}

static void
on_unheard(void *ctx)
{
	const struct world_daemon *daemon = ctx;

	if (daemon->also.unheard != NULL)
		daemon->also.unheard(daemon->also.ctx);
}

static void
performed(void *ctx, const struct memory_performed *what)
{
	struct lock_world *world = ctx;

	world->rejects += what->method == AMQP_BASIC_REJECT_METHOD;
	if (world->on_performed != NULL)
		world->on_performed(what);
}

/* ---- the world ---- */

static void
daemon_make(struct lock_world *world, int number)
{
	struct world_daemon *daemon = &world->daemon[number];
	struct lock_events events = {.answer = on_answer,
	    .notice = on_notice,
	    .ctx = daemon,
	    .changed = on_changed,
	    .asked = on_asked,
	    .replied = on_replied,
	    .unheard = on_unheard};
	struct lock_settings settings = world_settings;

	settings.naming = world->naming;
	settings.wall_clock = &world->wall;
	daemon->world = world;
	daemon->number = number;
	daemon->broker = memory_broker_new(world->memory, 10, 100);
	daemon->engine = lock_engine_new(
	    daemon->broker, world->timers, 1 + (uint64_t)number, &settings, &events);
}

static void
daemon_start(struct lock_world *world, int number)
{
	daemon_make(world, number);
	broker_start(world->daemon[number].broker);
}

static void
daemon_stop(struct world_daemon *daemon)
{
	broker_stop(daemon->broker);
	lock_engine_free(daemon->engine);
	broker_free(daemon->broker);
}

struct lock_world *
world_new(void)
{
	return world_new_named(world_settings.naming);
}

static struct lock_world *
make_world(const struct queue_naming *naming, bool tls)
{
	static struct said said[RECORDS];
	struct lock_world *world = calloc(1, sizeof(*world));

	world->said = said;
	world->naming = naming;
	world->now = 1000 * NSEC_PER_SEC;
	world->delay = NSEC_PER_MSEC;
	world->clock = (struct clock){now_of, world};
	world->wall = (struct clock){wall_of, world};
	world->timers = timers_new(&world->clock);
	world->behaviour = (struct memory_behaviour){.delay = delay_of,
	    .performed = performed,
	    .silent = silent_of,
	    .nacks = nacks_of,
	    .refuses = refuses_of,
	    .unheard = unheard_of,
	    .tls = tls,
	    .ctx = world};
	world->memory = memory_world_new(world->timers, &world->behaviour);
	for (int i = 0; i < DAEMONS; i++)
		daemon_start(world, i);
	world_pass(world, NSEC_PER_MSEC);
	return world;
}

struct lock_world *
world_new_named(const struct queue_naming *naming)
{
	return make_world(naming, false);
}

struct lock_world *
world_new_over_tls(void)
{
	return make_world(world_settings.naming, true);
}

void
world_kill(struct lock_world *world, int daemon)
{
	daemon_stop(&world->daemon[daemon]);
	daemon_start(world, daemon);
	world_pass(world, NSEC_PER_MSEC);
}

bool
world_stills(struct lock_world *world, int daemon)
{
	int64_t end = world->now + NSEC_PER_SEC;

	while (!lock_is_still(world->daemon[daemon].engine)) {
		if (!world_step(world, end - world->now))
			return false;
	}
	return true;
}

char *
world_save(struct lock_world *world, int daemon)
{
	struct state_writer *writer =
	    state_writer_new(lock_state_version(world->daemon[daemon].engine));

	ck_assert(lock_is_still(world->daemon[daemon].engine));
	ck_assert(broker_save(world->daemon[daemon].broker, writer));
	lock_save_holds(world->daemon[daemon].engine, writer);
	lock_save_waits(world->daemon[daemon].engine, writer);
	return state_finish(writer).text;
}

bool
world_succeed(struct lock_world *world, int daemon, const char *text, char ret_why[128])
{
	struct world_daemon *of = &world->daemon[daemon];
	struct state_reader *reader = state_reader_new(text, strlen(text), NULL, 0);
	bool right;

	memory_broker_detach(of->broker, 0);
	daemon_stop(of);
	daemon_make(world, daemon);
	right = broker_resume(of->broker, reader) && lock_restore_holds(of->engine, reader);
	if (right && world->repeat != NULL)
		world->repeat(world);
	right = right && lock_restore_waits(of->engine, reader) && state_end(reader);
	snprintf(ret_why, 128, "%s", right ? "" : state_error(reader));
	state_reader_free(reader);
	return right;
}

void
world_free(struct lock_world *world)
{
	for (int i = 0; i < DAEMONS; i++)
		daemon_stop(&world->daemon[i]);
	memory_world_free(world->memory);
	timers_free(world->timers);
	free(world);
}

bool
world_step(struct lock_world *world, int64_t ns)
{
	int64_t next = timers_next(world->timers);

	if (next == INT64_MAX || next > world->now + ns)
		return false;
	if (next > world->now)
		world->now = next;
	timers_run(world->timers);
	return true;
}

void
world_pass(struct lock_world *world, int64_t ns)
{
	int64_t end = world->now + ns;

	while (world_step(world, end - world->now))
		continue;
	world->now = end;
}

static void
on_probed(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	(void)seen;
	(void)ctx;
	(void)id;
}

void
world_alarm(struct lock_world *world)
{
	const struct broker_question question = {"nothing", BROKER_ASK_EXISTENCE};

	for (int i = 0; i < DAEMONS; i++)
		broker_probe(world->daemon[i].broker, &question, 1,
		    (struct broker_probe_done){.fn = on_probed});
	world_pass(world, 2 * world->delay);
	memory_world_block(world->memory, true);
	world_pass(world, world->delay);
}

struct channels {
	uint64_t ids[64];
	size_t count;
};

static void
add_channel(void *ctx, uint64_t channel, bool silent)
{
	struct channels *channels = ctx;

	(void)silent;
	ck_assert_uint_lt(channels->count, sizeof(channels->ids) / sizeof(channels->ids[0]));
	channels->ids[channels->count++] = channel;
}

void
world_close_channels(struct lock_world *world, int daemon, enum broker_link link)
{
	struct channels channels = {.count = 0};

	memory_broker_each_channel(world->daemon[daemon].broker, link, add_channel, &channels);
	for (size_t i = 0; i < channels.count; i++)
		memory_broker_close_channel(
		    world->daemon[daemon].broker, channels.ids[i], 406, "PRECONDITION_FAILED");
}

void
world_make(struct lock_world *world, const char *name, int slots)
{
	char queue[256];

	for (int i = 1; i <= slots; i++) {
		snprintf(queue, sizeof(queue), "%s-%d-A", name, i);
		ck_assert(memory_world_put(world->memory, queue, false));
	}
}

bool
world_b(const struct lock_world *world, const char *name, int slot, int daemon)
{
	const struct broker *owner;
	char queue[256];

	snprintf(queue, sizeof(queue), "%s-%d-B", name, slot);
	if (!memory_world_has(world->memory, queue, &owner))
		return false;
	return daemon < 0 || owner == world->daemon[daemon].broker;
}

static void
count_b(void *ctx, const char *queue, const struct broker *owner)
{
	size_t len = strlen(queue);

	(void)owner;
	*(int *)ctx += len > 2 && strcmp(queue + len - 2, "-B") == 0;
}

int
world_b_count(const struct lock_world *world)
{
	int count = 0;

	memory_world_each(world->memory, count_b, &count);
	return count;
}

/* ---- requests and answers ---- */

void
world_acquire(struct lock_world *world, int daemon, uint64_t peer, uint64_t request,
    const char *name, int64_t timeout)
{
	struct lock_acquire acquire = {
	    .name = name, .kind = LOCK_KIND_SEMAPHORE, .timeout = timeout, .uid = 1000};

	lock_acquire(world->daemon[daemon].engine, peer, request, &acquire);
}

const struct said *
world_answer(const struct lock_world *world, int daemon, uint64_t peer, uint64_t request)
{
	const struct said *found = NULL;

	for (size_t i = 0; i < world->said_count; i++) {
		const struct said *said = &world->said[i];

		if (said->notice || said->daemon != daemon || said->peer != peer ||
		    said->request != request)
			continue;
		ck_assert_msg(found == NULL, "request %d was answered twice", (int)request);
		found = said;
	}
	return found;
}

const struct said *
world_await(struct lock_world *world, int daemon, uint64_t peer, uint64_t request)
{
	int64_t end = world->now + 60 * NSEC_PER_SEC;
	const struct said *answer;

	while ((answer = world_answer(world, daemon, peer, request)) == NULL)
		ck_assert_msg(world_step(world, end - world->now), "request %d was not answered",
		    (int)request);
	return answer;
}

int
world_notices(const struct lock_world *world, int daemon, uint64_t peer, enum lock_notice_kind kind)
{
	int count = 0;

	for (size_t i = 0; i < world->said_count; i++) {
		const struct said *said = &world->said[i];

		count += said->notice && said->daemon == daemon && said->peer == peer &&
			 said->kind == kind;
	}
	return count;
}
