/*
 * The plan of an administrator: the steps for an order and a state.
 */
#include "daemon/lock/plan.h"
#include "tests/unit/test_lock.h"

#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define MOST 10000
#define U LOCK_UNLIMITED

/*
 * A plan in short: ?6-261 searches uncounted slots there, +1-5 declares, -5-3 deletes, G+ U- are
 * markers, in and out the directory. Or the reason of its refusal. *: no-such-lock when nothing was
 * removed.
 */
static const char *
in_short(const struct plan *plan)
{
	static const char *const words[] = {
	    [STEP_SWEEP] = "?",
	    [STEP_SWEEP_BEADS] = "?b",
	    [STEP_ENTER] = "in",
	    [STEP_LEAVE] = "out",
	    [STEP_DECLARE_GATE] = "G+",
	    [STEP_DELETE_GATE] = "G-",
	    [STEP_DECLARE_UNLIMITED] = "U+",
	    [STEP_DELETE_UNLIMITED] = "U-",
	    [STEP_DECLARE_SLOTS] = "+",
	    [STEP_DELETE_SLOTS] = "-",
	};
	static char text[256];
	size_t len = 0;

	text[0] = '\0';
	if (plan->refusal != REASON_NONE) {
		ck_assert_uint_eq(plan->count, 0);
		return reason_word(plan->refusal);
	}
	for (size_t i = 0; i < plan->count; i++) {
		const struct step *step = &plan->steps[i];

		len += (size_t)snprintf(
		    text + len, sizeof(text) - len, "%s%s", len > 0 ? " " : "", words[step->kind]);
		if (step->first != 0)
			len += (size_t)snprintf(
			    text + len, sizeof(text) - len, "%d-%d", step->first, step->last);
	}
	if (plan->vain)
		snprintf(text + len, sizeof(text) - len, " *");
	return text;
}

static void
expect(const struct plan_order *order, bool unlimited, bool gate, int slots, int target,
    const char *steps)
{
	struct plan_found found = {.unlimited = unlimited, .gate = gate, .slots = slots};
	struct plan plan = plan_make(order, &found);
	char words[64];

	plan_words(order, words, sizeof(words));
	ck_assert_msg(strcmp(in_short(&plan), steps) == 0, "%s (%d) of%s%s %d: %s, not %s", words,
	    order->slots, unlimited ? " U" : "", gate ? " G" : "", slots, in_short(&plan), steps);
	ck_assert_int_eq(plan.target, target);
}

/* One case of a table. */
struct plan_case {
	int asked;
	bool unlimited, gate;
	int slots, target;
	const char *steps;
};

static void
expect_all(struct plan_order order, const struct plan_case *cases, size_t count)
{
	order.most = MOST;
	for (size_t i = 0; i < count; i++) {
		order.slots = cases[i].asked;
		expect(&order, cases[i].unlimited, cases[i].gate, cases[i].slots, cases[i].target,
		    cases[i].steps);
	}
}

#define EXPECT_ALL(order, cases) expect_all(order, cases, sizeof(cases) / sizeof((cases)[0]))

START_TEST(create)
{
	static const struct plan_case cases[] = {
	    {5, 0, 0, 0, 5, "?6-261 in +2-5 +1-1 ?6-261"},
	    {1, 0, 0, 0, 1, "?2-257 in +1-1 ?2-257"},
	    {0, 0, 0, 0, 0, "?1-256 in G+"},
	    {U, 0, 0, 0, U, "?1-256 in U+"},
	    {MOST, 0, 0, 0, MOST, "in +2-10000 +1-1"},
	    {5, 0, 0, 5, 5, "already-exists"},
	    {5, 0, 0, 3, 5, "already-exists"},
	    {5, 0, 1, 3, 5, "already-exists"},
	    {0, 0, 1, 0, 0, "already-exists"},
	    {U, 1, 0, 0, U, "already-exists"},
	};

	EXPECT_ALL(((struct plan_order){.work = PLAN_CREATE}), cases);
}
END_TEST

START_TEST(create_unless_it_is_there)
{
	static const struct plan_case cases[] = {
	    {5, 0, 0, 0, 5, "?6-261 in +2-5 +1-1 ?6-261"},
	    {5, 0, 0, 5, 5, "in"},
	    {0, 0, 1, 0, 0, "in"},
	    {U, 1, 0, 0, U, "in"},
	    {U, 1, 0, 3, U, "in"},
	    /* A resize is half done: a scan finds the slots. */
	    {5, 0, 1, 5, 5, "?6-261 in G-"},
	    {U, 1, 1, 0, U, "?1-256 in G-"},
	    /* Another size. */
	    {5, 0, 0, 3, 5, "already-exists"},
	    {5, 0, 0, 6, 5, "already-exists"},
	    {5, 0, 1, 6, 5, "already-exists"},
	    {5, 0, 1, 0, 5, "already-exists"},
	    {1, 0, 1, 0, 1, "already-exists"},
	    {5, 1, 0, 5, 5, "already-exists"},
	    {0, 0, 0, 3, 0, "already-exists"},
	    {0, 0, 1, 3, 0, "already-exists"},
	    {U, 0, 0, 3, U, "already-exists"},
	    {U, 0, 1, 0, U, "already-exists"},
	};

	EXPECT_ALL(((struct plan_order){.work = PLAN_CREATE, .exist_ok = true}), cases);
}
END_TEST

START_TEST(create_missing_for_an_acquire)
{
	static const struct plan_case cases[] = {
	    {1, 0, 0, 0, 1, "?2-257 in +1-1 ?2-257"},
	    {5, 0, 0, 0, 5, "?6-261 in +2-5 +1-1 ?6-261"},
	    {5, 0, 0, 3, 5, ""},
	    {5, 0, 1, 0, 5, ""},
	    {5, 0, 1, 3, 5, ""},
	    {5, 1, 0, 0, 5, ""},
	};

	EXPECT_ALL(((struct plan_order){.work = PLAN_CREATE_MISSING}), cases);
}
END_TEST

START_TEST(resize_to_a_number)
{
	static const struct plan_case cases[] = {
	    {5, 0, 0, 3, 5, "?6-261 +4-5 ?6-261"},
	    {3, 0, 0, 5, 3, "?6-261 -5-4 ?4-259"},
	    {5, 0, 0, 5, 5, "?6-261"},
	    {5, 0, 0, 0, 5, "no-such-lock"},
	    /* To the gate, and open again. */
	    {0, 0, 0, 3, 0, "G+ ?4-259 -3-1 ?1-256"},
	    {0, 0, 1, 3, 0, "?4-259 -3-1 ?1-256"},
	    {0, 0, 1, 0, 0, "?1-256"},
	    {3, 0, 1, 0, 3, "?4-259 +1-3 ?4-259 G-"},
	    {3, 0, 1, 2, 3, "?4-259 +3-3 ?4-259 G-"},
	    {3, 0, 1, 3, 3, "?4-259 G-"},
	    /* Lowered from unlimited. */
	    {3, 1, 0, 0, 3, "?4-259 +1-3 ?4-259 U-"},
	    {3, 1, 0, 5, 3, "?6-261 -5-4 ?4-259 U-"},
	    {3, 1, 1, 3, 3, "?4-259 G- U-"},
	    {0, 1, 0, 3, 0, "G+ ?4-259 -3-1 ?1-256 U-"},
	    {0, 1, 1, 0, 0, "?1-256 U-"},
	    /* There is no window above the most there may be. */
	    {MOST, 0, 0, MOST, MOST, ""},
	    {MOST, 0, 0, MOST - 1, MOST, "+10000-10000"},
	    {MOST - 1, 0, 0, MOST, MOST - 1, "-10000-10000 ?10000-10000"},
	};

	EXPECT_ALL(((struct plan_order){.work = PLAN_RESIZE}), cases);
}
END_TEST

START_TEST(resize_to_unlimited)
{
	static const struct plan_case cases[] = {
	    {U, 0, 0, 3, U, "U+"},
	    {U, 0, 1, 0, U, "U+ G-"},
	    {U, 0, 1, 3, U, "U+ G-"},
	    {U, 1, 1, 3, U, "G-"},
	    {U, 1, 0, 3, U, ""},
	    {U, 0, 0, 0, U, "no-such-lock"},
	};

	EXPECT_ALL(((struct plan_order){.work = PLAN_RESIZE}), cases);
}
END_TEST

START_TEST(resize_by_a_number)
{
	static const struct plan_case add[] = {
	    {2, 0, 0, 3, 5, "?6-261 +4-5 ?6-261"},
	    {2, 0, 1, 0, 2, "?3-258 +1-2 ?3-258 G-"},
	    {0, 0, 0, 3, 3, "?4-259"},
	    {MOST - 2, 0, 0, 3, MOST + 1, "invalid-params"},
	    {INT_MAX, 0, 0, 3, INT_MAX, "invalid-params"},
	    {2, 1, 0, 3, -1, "invalid-params"},
	    {2, 0, 0, 0, -1, "no-such-lock"},
	};
	static const struct plan_case less[] = {
	    {2, 0, 0, 3, 1, "?4-259 -3-2 ?2-257"},
	    {3, 0, 0, 3, 0, "G+ ?4-259 -3-1 ?1-256"},
	    {7, 0, 0, 3, 0, "G+ ?4-259 -3-1 ?1-256"},
	    {1, 0, 1, 0, 0, "?1-256"},
	    {INT_MAX, 0, 0, 3, 0, "G+ ?4-259 -3-1 ?1-256"},
	    {2, 1, 0, 3, -1, "invalid-params"},
	    {2, 0, 0, 0, -1, "no-such-lock"},
	};

	EXPECT_ALL(((struct plan_order){.work = PLAN_RESIZE, .by = PLAN_ADD}), add);
	EXPECT_ALL(((struct plan_order){.work = PLAN_RESIZE, .by = PLAN_REMOVE}), less);
}
END_TEST

START_TEST(destroy)
{
	static const struct plan_case cases[] = {
	    {0, 0, 0, 3, -1, "?4-259 -3-1 ?1-256 out"},
	    {0, 0, 1, 0, -1, "?1-256 G- out"},
	    {0, 0, 1, 3, -1, "?4-259 -3-1 ?1-256 G- out"},
	    {0, 1, 0, 0, -1, "?1-256 U- out"},
	    {0, 1, 1, 3, -1, "?4-259 -3-1 ?1-256 G- U- out"},
	    {0, 0, 0, 0, -1, "?1-256 out *"},
	};

	EXPECT_ALL(((struct plan_order){.work = PLAN_DESTROY}), cases);
}
END_TEST

START_TEST(ascending_and_overshoot)
{
	static const struct plan_case resized[] = {{3, 0, 0, 5, 3, "?6-1005 -4-5 ?4-1003"}};
	static const struct plan_case destroyed[] = {{0, 0, 0, 5, -1, "?6-305 -1-5 ?1-300 out"}};
	static const struct plan_case highest[] = {
	    {MOST - 2, 0, 0, MOST - 1, MOST - 2, "?10000-10000 -9999-9999 ?9999-10000"}};

	EXPECT_ALL(((struct plan_order){.work = PLAN_RESIZE, .ascending = true, .overshoot = 1000}),
	    resized);
	EXPECT_ALL(((struct plan_order){.work = PLAN_DESTROY, .ascending = true, .overshoot = 300}),
	    destroyed);
	EXPECT_ALL(((struct plan_order){.work = PLAN_RESIZE, .overshoot = INT_MAX}), highest);
}
END_TEST

/* The problem, and its parameter. */
static const char *
wrong(enum plan_work work, struct lock_change change)
{
	struct plan_order order = plan_order(work, &change, LOCK_CLAIM_BY_QUEUE, MOST);
	const char *parameter;

	return plan_nonsense(&order, change.kind, &parameter) == NULL ? "nothing" : parameter;
}

START_TEST(nonsense)
{
	const struct lock_change mutex = {.kind = LOCK_KIND_MUTEX, .slots = 1};
	const struct lock_change wide = {.kind = LOCK_KIND_PERSISTENT_MUTEX, .slots = 2};

	ck_assert_str_eq(wrong(PLAN_CREATE, mutex), "kind");
	ck_assert_str_eq(wrong(PLAN_CREATE, wide), "slots");
	ck_assert_str_eq(wrong(PLAN_CREATE, (struct lock_change){.slots = -1}), "slots");
	ck_assert_str_eq(wrong(PLAN_CREATE, (struct lock_change){.slots = MOST + 1}), "slots");
	ck_assert_str_eq(wrong(PLAN_CREATE, (struct lock_change){.overshoot = -1}), "overshoot");
	ck_assert_str_eq(wrong(PLAN_CREATE, (struct lock_change){.slots = MOST}), "nothing");
	ck_assert_str_eq(wrong(PLAN_CREATE, (struct lock_change){.slots = U}), "nothing");
	ck_assert_str_eq(wrong(PLAN_RESIZE, (struct lock_change){.slots = INT_MIN}), "slots");
	ck_assert_str_eq(wrong(PLAN_RESIZE, (struct lock_change){.slots = INT_MAX}), "slots");
	ck_assert_str_eq(
	    wrong(PLAN_RESIZE, (struct lock_change){.by = LOCK_SLOTS_ADD, .slots = U}), "add");
	ck_assert_str_eq(
	    wrong(PLAN_RESIZE, (struct lock_change){.by = LOCK_SLOTS_REMOVE, .slots = -1}),
	    "remove");
	ck_assert_str_eq(
	    wrong(PLAN_RESIZE, (struct lock_change){.by = LOCK_SLOTS_REMOVE, .slots = INT_MAX}),
	    "nothing");
	ck_assert_str_eq(wrong(PLAN_DESTROY, (struct lock_change){.overshoot = -1}), "overshoot");
}
END_TEST

Suite *
suite_lock_plan(void)
{
	Suite *suite = suite_create("lock: plans of administration");
	TCase *tc = tcase_create("plan");

	tcase_add_test(tc, create);
	tcase_add_test(tc, create_unless_it_is_there);
	tcase_add_test(tc, create_missing_for_an_acquire);
	tcase_add_test(tc, resize_to_a_number);
	tcase_add_test(tc, resize_to_unlimited);
	tcase_add_test(tc, resize_by_a_number);
	tcase_add_test(tc, destroy);
	tcase_add_test(tc, ascending_and_overshoot);
	tcase_add_test(tc, nonsense);
	suite_add_tcase(suite, tc);
	return suite;
}
