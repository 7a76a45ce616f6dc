/*
 * Fuzz target: the state that a daemon leaves to its successor. The input is a state, or it edits
 * the state of a daemon with some holds and waiters, one edit in each line:
 *
 *	=R.M VALUE	member M of record R gets that value, as JSON
 *	-R  +R		record R is left out, or comes twice
 *
 * R and M count from 0, modulo their numbers. A successor of that daemon reads it, over the server in
 * memory, in virtual time. It must not crash. An accepted state is used for some time: its locks are
 * verified and released, its clients hang up, and it is stopped.
 *
 *	make fuzz FUZZ=state
 */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/broker/setup.h"
#include "daemon/lock/lock.h"
#include "tests/memory/controls.h"
#include "daemon/state/state.h"
#include "protocol/duration.h"
#include "tests/fuzz/daemon.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lock_settings.h"
#include "tests/virtual_time.h"

enum { RECORDS_MOST = 128, TEXT_MOST = 65536, CLIENTS = 4, NUMBERS = 60, STEPS_MOST = 20000 };

static struct timers *timers;
static struct memory_world *world;
static struct broker *broker;
static struct lock_engine *engine;

/* The records, without the last one. Edits change them. */
static char *records[RECORDS_MOST];
static size_t record_count;

static void
on_answer(void *ctx, uint64_t peer, uint64_t request, const struct lock_answer *answer)
{
	(void)ctx;
	(void)request;
	(void)answer;
	must(peer != 0, "an answer for a client");
}

static void
on_notice(void *ctx, uint64_t peer, const struct lock_notice *notice)
{
	(void)ctx;
	(void)peer;
	(void)notice;
}

static void
pass(int64_t ns)
{
	int64_t until = now + ns;

	for (int i = 0; i < STEPS_MOST && timers_next(timers) <= until; i++) {
		if (timers_next(timers) > now)
			now = timers_next(timers);
		timers_run(timers);
	}
	now = until;
}

/* ---- a daemon, and its successor ---- */

static void
begin(void)
{
	const struct lock_settings settings = {
	    TEST_LOCK_SETTINGS,
	    .max_locks_per_connection = 10,
	    .max_waits_per_connection = 10,
	    .slots_most = 64,
	    .channels_reserve = 4,
	};
	const struct lock_events events = {.answer = on_answer, .notice = on_notice};

	broker = memory_broker_new_at(world, timers, 10, 20, 1);
	engine = lock_engine_new(broker, timers, 1, &settings, &events);
}

static void
end(void)
{
	broker_stop(broker);
	lock_engine_free(engine);
	broker_free(broker);
}

static void
acquire(uint64_t peer, uint64_t request, const char *name, enum lock_kind kind, int priority)
{
	const struct lock_acquire acquire = {.name = name,
	    .kind = kind,
	    .timeout = request % 2 == 0 ? DURATION_FOREVER : 60 * NSEC_PER_SEC,
	    .priority = priority,
	    .lease = request % 2 == 0,
	    .progress = request % 3 == 0,
	    .uid = 1000 + (uid_t)peer % 2,
	    .exempt = request % 5 == 0,
	    .pid = 7,
	    .who = "who",
	    .command = "command"};

	lock_acquire(engine, peer, request, &acquire);
	pass(20 * NSEC_PER_MSEC);
}

static void
on_made(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	(void)ctx;
	(void)id;
	must(reply->answer == BROKER_OK, "a slot by quorum is made");
}

/* A hold, a grace, and a hold that is lost. Two connections carry them. */
static void
live_by_quorum(void)
{
	const struct broker_beads wanted = {.epoch = 100, .grace = 20 * NSEC_PER_SEC};
	const struct broker_done made = {.fn = on_made};

	memory_world_put(world, "by-quorum-G", false);
	broker_make_beads(broker, "lockbroker=q=by-quorum=1", &wanted, made);
	broker_make_beads(broker, "lockbroker=q=by-quorum=2", &wanted, made);
	broker_make_beads(broker, "lockbroker=q=by-quorum=3", &wanted, made);
	pass(4 * NSEC_PER_SEC);
	for (uint64_t i = 0; i < 3; i++)
		acquire(2 + i, 20 + i, "by-quorum", LOCK_KIND_SEMAPHORE, 0);
	pass(NSEC_PER_SEC);
	broker_reset(broker, BROKER_QUORUM, "cut");
	pass(NSEC_PER_SEC);
	lock_peer_gone(engine, 4);
	acquire(1, 23, "by-quorum", LOCK_KIND_SEMAPHORE, 0);
	pass(NSEC_PER_SEC);
}

/* Holds of each kind, in all ways, with a slot and without; waiters, an await, a wait. */
static void
live(void)
{
	memory_world_put(world, "sem-1-A", false);
	memory_world_put(world, "sem-2-A", false);
	memory_world_put(world, "sem-3-A", false);
	memory_world_put_holder(world, "dur-1-B");
	memory_world_put(world, "dur-1-A", false);
	memory_world_put(world, "free-U", false);
	broker_start(broker);
	pass(NSEC_PER_SEC);
	for (uint64_t i = 1; i <= 5; i++)
		acquire(1 + i % 3, i, "sem", LOCK_KIND_SEMAPHORE, (int)i % 2);
	acquire(1, 6, "dur", LOCK_KIND_PERSISTENT_MUTEX, 0);
	acquire(2, 7, "mut", LOCK_KIND_MUTEX, 0);
	acquire(3, 8, "free", LOCK_KIND_SEMAPHORE, 0);
	lock_await(engine, 3, 9,
	    &(struct lock_await){.name = "sem", .slot = 1, .timeout = DURATION_FOREVER});
	lock_resize(engine, 3, 10,
	    &(struct lock_change){
		.name = "sem", .kind = LOCK_KIND_SEMAPHORE, .slots = 2, .wait = 60 * NSEC_PER_SEC});
	pass(2 * NSEC_PER_SEC);
	live_by_quorum();
}

static char *
save(size_t *ret_len)
{
	struct state_writer *writer = state_writer_new(lock_state_version(engine));
	struct state_text text;

	lock_freeze(engine, true);
	for (int i = 0; i < 100 && !lock_is_still(engine); i++)
		pass(NSEC_PER_MSEC);
	must(lock_is_still(engine) && broker_save(broker, writer), "the daemon is still");
	lock_save_holds(engine, writer);
	lock_save_waits(engine, writer);
	memory_broker_detach(broker, 0);
	text = state_finish(writer);
	*ret_len = text.len;
	return text.text;
}

static void
use(void)
{
	pass(NSEC_PER_SEC);
	for (uint64_t lock = 1; lock <= NUMBERS; lock++)
		lock_verify(engine, 1, 100 + lock, lock, 0);
	pass(20 * NSEC_PER_SEC);
	for (uint64_t lock = 1; lock <= NUMBERS; lock += 3)
		lock_release(engine, 1 + lock % CLIENTS, 200 + lock, lock);
	pass(20 * NSEC_PER_MSEC);
	for (uint64_t request = 1; request < 10; request += 4)
		lock_cancel(engine, 1 + request % CLIENTS, request);
	for (uint64_t peer = 1; peer <= CLIENTS; peer++) {
		lock_peer_gone(engine, peer);
		pass(peer % 2 * NSEC_PER_SEC);
	}
	acquire(9, 300, "sem", LOCK_KIND_SEMAPHORE, 0);
	lock_drain(engine);
	pass(NSEC_PER_SEC);
	lock_abandon(engine);
	pass(2 * NSEC_PER_SEC);
}

static void
succeed(const char *text, size_t len)
{
	struct state_reader *reader = state_reader_new(text, len, NULL, 0);

	if (broker_resume(broker, reader) && lock_restore_holds(engine, reader) &&
	    lock_restore_waits(engine, reader) && state_end(reader))
		use();
	else
		must(state_error(reader) != NULL, "a refusal has a reason");
	state_reader_free(reader);
}

/* ---- edits ---- */

static void
split(const char *text, size_t len)
{
	for (size_t at = 0, size; at < len; at += size + 1) {
		size = (size_t)((const char *)memchr(text + at, '\n', len - at) - (text + at));
		must(record_count < RECORDS_MOST, "the state is small");
		if (at + size + 1 < len)
			records[record_count++] = strndup(text + at, size);
	}
}

/* The value of that member, and its length: up to the next member, as no text has a comma. */
static char *
member_of(char *record, unsigned long member, size_t *ret_len)
{
	unsigned long count = 0;
	char *at = record;

	while ((at = strstr(at, "\":")) != NULL) {
		count++;
		at += 2;
	}
	if (count == 0)
		return NULL;
	at = strstr(record, "\":") + 2;
	for (member %= count; member > 0; member--)
		at = strstr(at, "\":") + 2;
	*ret_len = strcspn(at, ",}");
	return at;
}

static void
set_member(char **record, unsigned long member, const char *value)
{
	size_t len, size = strlen(*record) + strlen(value) + 1;
	char *at = member_of(*record, member, &len), *edited;

	if (at == NULL)
		return;
	edited = malloc(size);
	must(edited != NULL, "memory");
	snprintf(edited, size, "%.*s%s%s", (int)(at - *record), *record, value, at + len);
	free(*record);
	*record = edited;
}

static void
edit(char *text, size_t len, bool whole)
{
	char *rest;
	unsigned long record, member = 0;

	(void)whole;
	text[len] = '\0';
	if (record_count < 2 || len < 2 || !isdigit((unsigned char)text[1]))
		return;
	/* The first record cannot go. */
	record = 1 + strtoul(text + 1, &rest, 10) % (record_count - 1);
	if (*rest == '.')
		member = strtoul(rest + 1, &rest, 10);
	if (text[0] == '=' && *rest == ' ') {
		set_member(&records[record], member, rest + 1);
	} else if (text[0] == '-') {
		free(records[record]);
		memmove(&records[record], &records[record + 1],
		    (--record_count - record) * sizeof(*records));
	} else if (text[0] == '+' && record_count < RECORDS_MOST) {
		memmove(&records[record + 1], &records[record],
		    (record_count++ - record) * sizeof(*records));
		records[record + 1] = strdup(records[record]);
	}
}

static void
succeed_edited(const uint8_t *data, size_t size, const char *text, size_t len)
{
	char *edited = malloc(TEXT_MOST);
	size_t used = 0;

	must(edited != NULL, "memory");
	split(text, len);
	fuzz_each_line(data, size, edit);
	for (size_t i = 0; i < record_count; i++) {
		if (used + strlen(records[i]) + 64 < TEXT_MOST)
			used +=
			    (size_t)snprintf(edited + used, TEXT_MOST - used, "%s\n", records[i]);
		free(records[i]);
	}
	used += (size_t)snprintf(edited + used, TEXT_MOST - used,
	    "{\"record\":\"end\",\"records\":%zu}\n", record_count - 1);
	record_count = 0;
	succeed(edited, used);
	free(edited);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t len;
	char *text;

	silence_log();
	now = 1000 * NSEC_PER_SEC;
	timers = timers_new(&virtual_clock);
	world = memory_world_new(timers, NULL);
	begin();
	live();
	text = save(&len);
	end();
	begin();
	if (getenv("FUZZ_STATE_PRINT") != NULL)
		fwrite(text, 1, len, stderr);
	if (size > 0 && data[0] == '{')
		succeed((const char *)data, size);
	else
		succeed_edited(data, size, text, len);
	free(text);
	end();
	memory_world_free(world);
	timers_free(timers);
	return 0;
}
