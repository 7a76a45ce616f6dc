/*
 * Interrupted administration. At every moment of a command the auxiliary connection ends, or the
 * daemon. The same command is given again, and the result is as if it had not been interrupted. For
 * the relative +N and -N, the first answer names the target size, which is used then.
 */
#include "tests/unit/admin_state.h"
#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define U LOCK_UNLIMITED

enum work { CREATE, RESIZE, ADD, REMOVE, DESTROY };

struct command {
	enum work work;
	int slots;
	const char *before, *after; /* admin_state() */
};

static const struct command commands[] = {
    {CREATE, 1, "0", "1 listed"},
    {CREATE, 4, "0", "4 listed"},
    {CREATE, 4, "0 3 5 6 9 250", "4 listed"},
    {CREATE, 70, "0", "70 listed"},
    {CREATE, 0, "0", "0 G listed"},
    {CREATE, U, "0", "0 U listed"},
    {RESIZE, 5, "2 listed", "5 listed"},
    {RESIZE, 5, "2 6 8 listed", "5 listed"},
    {RESIZE, 2, "5 listed", "2 listed"},
    {RESIZE, 2, "5 7 100 listed", "2 listed"},
    {RESIZE, 2, "2 4 listed", "2 listed"},
    {RESIZE, 0, "3 listed", "0 G listed"},
    {RESIZE, 3, "0 G listed", "3 listed"},
    {RESIZE, U, "3 listed", "3 U listed"},
    {RESIZE, U, "0 G listed", "0 U listed"},
    {RESIZE, 2, "4 U listed", "2 listed"},
    {RESIZE, 4, "2 U listed", "4 listed"},
    {RESIZE, 4, "0 U listed", "4 listed"},
    {RESIZE, 0, "3 U listed", "0 G listed"},
    {ADD, 3, "2 listed", "5 listed"},
    {ADD, 2, "0 G listed", "2 listed"},
    {REMOVE, 3, "5 listed", "2 listed"},
    {REMOVE, 9, "3 listed", "0 G listed"},
    {DESTROY, 0, "4 listed", "0"},
    {DESTROY, 0, "3 5 6 listed", "0"},
    {DESTROY, 0, "0 G listed", "0"},
    {DESTROY, 0, "3 U listed", "0"},
};

enum cut {
	CUT_LINK,      /* the auxiliary connection; the broker notices at once */
	CUT_LINK_LATE, /* and 20 ms later, until when it does what was sent */
	CUT_ELSEWHERE, /* and it is another daemon that is asked again */
	CUT_DAEMON,    /* the daemon is killed, and started again */
	CUTS
};

/* to: instead of what is relative; -1: as it is. */
static void
give(int daemon, uint64_t request, const struct command *command, int to)
{
	struct lock_engine *of = engine(daemon);
	struct lock_change change = {.name = "db", .slots = command->slots, .exist_ok = true};

	switch (command->work) {
	case CREATE:
		lock_create(of, 1, request, &change);
		return;
	case DESTROY:
		lock_destroy(of, 1, request, &change);
		return;
	case RESIZE:
		break;
	case ADD:
	case REMOVE:
		change.by = command->work == ADD ? LOCK_SLOTS_ADD : LOCK_SLOTS_REMOVE;
		if (to >= 0) {
			change.by = LOCK_SLOTS_TO;
			change.slots = to;
		}
		break;
	}
	lock_resize(of, 1, request, &change);
}

static void
cut(enum cut how)
{
	switch (how) {
	case CUT_LINK:
	case CUT_ELSEWHERE:
		memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, 0, "cut");
		break;
	case CUT_LINK_LATE:
		memory_broker_cut(
		    world->daemon[0].broker, BROKER_AUXILIARY, 20 * NSEC_PER_MSEC, 0, "cut");
		break;
	case CUT_DAEMON:
		world_kill(world, 0);
		break;
	case CUTS:
		ck_abort();
	}
}

/*
 * The size that the relative command was to make, as its answer said; -1: it did not come so far.
 */
static int
target_told(const struct command *command)
{
	const struct said *first = world_answer(world, 0, 1, 1);
	bool relative = command->work == ADD || command->work == REMOVE;

	return relative && first != NULL ? first->target : -1;
}

/* The order is complete, and no administrator is at work. */
static void
expect_done(const struct command *command, enum cut how, int step)
{
	world_pass(world, 20 * SECOND);
	ck_assert_msg(strcmp(admin_state(world, "db"), command->after) == 0,
	    "%d of %s, cut (%d) after %d: %s, not %s", command->slots, command->before, how, step,
	    admin_state(world, "db"), command->after);
	ck_assert_msg(!memory_world_has(world->memory, "db", NULL), "the mutex is left");
	ck_assert(lock_quiet(engine(0)));
	ck_assert(lock_quiet(engine(1)));
}

static void
give_again(const struct command *command, enum cut how, int step)
{
	int daemon = how == CUT_ELSEWHERE ? 1 : 0, to = target_told(command);
	bool relative = command->work == ADD || command->work == REMOVE;
	bool was_done = strncmp(admin_state(world, "db"), "0", 1) == 0;
	enum reason reason;

	/*
	 * The client does not know the target of the relative command. Only the size shows how far
	 * it came.
	 */
	if (relative && to < 0)
		to = command->after[0] - '0';
	give(daemon, 2, command, to);
	reason = world_await(world, daemon, 1, 2)->reason;
	/* Even its entry may be gone: requests sent before the cut are still performed. */
	if (reason == REASON_NO_SUCH_LOCK && command->work == DESTROY && was_done)
		reason = REASON_NONE;
	ck_assert_msg(reason == REASON_NONE, "%d of %s, cut (%d) after %d: %s, %s", command->slots,
	    command->before, how, step, reason_word(reason),
	    world_await(world, daemon, 1, 2)->text);
}

/* False: it was answered before it could be cut. */
static bool
cut_after(const struct command *command, enum cut how, int steps)
{
	bool answered;

	admin_make(world, "db", command->before);
	give(0, 1, command, -1);
	for (int i = 0; i < steps; i++)
		world_step(world, SECOND);
	answered = world_answer(world, 0, 1, 1) != NULL;
	if (!answered) {
		cut(how);
		if (how != CUT_DAEMON)
			world_await(world, 0, 1, 1);
		give_again(command, how, steps);
	}
	expect_done(command, how, steps);
	return !answered;
}

START_TEST(the_same_command_completes_what_was_cut)
{
	const struct command *command = &commands[_i / CUTS];
	int steps = 0;

	while (cut_after(command, (enum cut)(_i % CUTS), steps)) {
		steps++;
		world_free(world);
		world_begin();
	}
	ck_assert_int_gt(steps, 4);
}
END_TEST

Suite *
suite_lock_cut(void)
{
	Suite *suite = suite_create("lock: administration that is cut");
	TCase *tc = tcase_create("cut");
	int count = (int)(sizeof(commands) / sizeof(commands[0]));

	tcase_add_checked_fixture(tc, world_begin, world_end);
	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, the_same_command_completes_what_was_cut, 0, count * (int)CUTS);
	suite_add_tcase(suite, tc);
	return suite;
}
