#include "daemon/lock/admin/fsck_findings.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"

/* ---- the scan's results ---- */

/*
 * A busy B with other arguments does not refuse probes, as an exclusive queue. Only the pass that
 * declared the queues can tell the two apart.
 */
static void
keep_odd(struct fsck_seen *seen, const struct fsck_seen *before)
{
	for (int i = 0; i < seen->full_scan.seen && i < before->full_scan.seen; i++) {
		seen->odd[i] = before->odd[i] && seen->b[i] == BROKER_OK;
		if (seen->odd[i])
			seen->ways[i] = BROKER_BY_CONSUMER;
	}
}

void
fsck_seen_take(struct fsck_seen *seen, const struct full_scan *found, bool keeps_odd)
{
	struct fsck_seen before = *seen;
	size_t slots = (size_t)found->seen, bytes = slots * sizeof(*found->a);
	enum broker_answer *a = mem_alloc(bytes + 1);

	seen->b = mem_alloc(bytes + 1);
	seen->ways = mem_alloc((slots + 1) * sizeof(*seen->ways));
	if (slots > 0) {
		memcpy(a, found->a, bytes);
		memcpy(seen->b, found->b, bytes);
		memcpy(seen->ways, found->ways, slots * sizeof(*seen->ways));
	}
	seen->full_scan = *found;
	seen->full_scan.a = a;
	seen->full_scan.b = seen->b;
	seen->full_scan.ways = seen->ways;
	seen->make = mem_alloc((slots + 1) * sizeof(*seen->make));
	seen->odd = mem_alloc((slots + 1) * sizeof(*seen->odd));
	seen->listed = false;
	if (keeps_odd)
		keep_odd(seen, &before);
	fsck_seen_done(&before);
}

void
fsck_seen_put_quorum(struct fsck_seen *seen, int slots)
{
	size_t room = (size_t)slots + 1;

	seen->b = mem_grow(seen->b, room, sizeof(*seen->b));
	seen->ways = mem_grow(seen->ways, room, sizeof(*seen->ways));
	for (int i = 0; i < slots; i++) {
		seen->b[i] = BROKER_OK;
		seen->ways[i] = BROKER_BY_QUORUM;
	}
	seen->full_scan.b = seen->b;
	seen->full_scan.ways = seen->ways;
	seen->full_scan.slots = slots;
}

void
fsck_seen_done(struct fsck_seen *seen)
{
	free((enum broker_answer *)seen->full_scan.a);
	free(seen->b);
	free(seen->ways);
	free(seen->make);
	free(seen->odd);
	*seen = (struct fsck_seen){.listed = false};
}

int
fsck_seen_highest(const struct fsck_seen *seen)
{
	int slot = seen->full_scan.seen;

	while (slot > 0 && !fsck_seen_slot(seen, slot))
		slot--;
	return slot;
}

/* ---- the findings ---- */

const char *
lock_problem_word(enum lock_problem problem)
{
	static const char *const words[] = {
	    [LOCK_PROBLEM_GAP] = "gap",
	    [LOCK_PROBLEM_UNCOUNTED] = "uncounted",
	    [LOCK_PROBLEM_ORPHAN] = "orphan",
	    [LOCK_PROBLEM_ARGUMENTS] = "arguments",
	    [LOCK_PROBLEM_TRANSIENT] = "transient",
	    [LOCK_PROBLEM_MARKERS] = "markers",
	    [LOCK_PROBLEM_NOT_LISTED] = "not-listed",
	    [LOCK_PROBLEM_LISTED_MISSING] = "listed-missing",
	    [LOCK_PROBLEM_LEFTOVER] = "leftover",
	    [LOCK_PROBLEM_CLAIM] = "claim",
	    [LOCK_PROBLEM_UNREACHABLE] = "unreachable",
	    [LOCK_PROBLEM_NO_BEADS] = "no-beads",
	    [LOCK_PROBLEM_ODD_BEADS] = "odd-beads",
	    [LOCK_PROBLEM_TWO_SETS] = "two-sets",
	    [LOCK_PROBLEM_VERSION] = "version",
	    [LOCK_PROBLEM_FOREIGN] = "foreign",
	    [LOCK_PROBLEM_QUEUE_TYPE] = "queue-type",
	    [LOCK_PROBLEM_QUEUE_ARGUMENTS] = "queue-arguments",
	    [LOCK_PROBLEM_RECORD] = "record",
	    [LOCK_PROBLEM_NO_RECORD] = "no-record",
	    [LOCK_PROBLEM_STALE_RECORD] = "stale-record",
	};

	return words[problem];
}

void
fsck_findings_add(struct fsck_findings *findings, enum lock_problem problem, int slot, char *text)
{
	if (findings->count == findings->room) {
		findings->room = findings->room == 0 ? 8 : 2 * findings->room;
		findings->list = mem_grow(findings->list, findings->room, sizeof(*findings->list));
	}
	findings->list[findings->count++] =
	    (struct lock_finding){.problem = problem, .slot = slot, .text = text};
}

void
fsck_findings_add_listing(struct fsck_findings *findings, bool exists, bool listed)
{
	if (exists && !listed)
		fsck_findings_add(findings, LOCK_PROBLEM_NOT_LISTED, 0,
		    mem_strdup("it exists, but is not in the directory"));
	else if (!exists && listed)
		fsck_findings_add(findings, LOCK_PROBLEM_LISTED_MISSING, 0,
		    mem_strdup("it is in the directory, but does not exist"));
}

static void
add_whole(struct fsck_findings *findings, const struct fsck_seen *seen)
{
	const struct full_scan *full_scan = &seen->full_scan;

	if (full_scan->gate && full_scan->unlimited)
		fsck_findings_add(findings, LOCK_PROBLEM_MARKERS, 0,
		    mem_strdup("marked as unlimited and as a gate; it counts as unlimited"));
	else if (full_scan->gate && full_scan->slots > 0)
		fsck_findings_add(findings, LOCK_PROBLEM_MARKERS, 0,
		    mem_strdup("marked as a gate, but it has slots, which count"));
	fsck_findings_add_listing(findings, full_scan_exists(full_scan), seen->listed);
}

/* A run of missing slots below one that exists is one gap. */
static void
add_gap(struct fsck_findings *findings, const struct fsck_seen *seen, int slot)
{
	int last = slot;

	if (slot > 1 && !fsck_seen_slot(seen, slot - 1))
		return; /* reported with the first of them */
	while (!fsck_seen_slot(seen, last + 1))
		last++;
	fsck_findings_add(findings, LOCK_PROBLEM_GAP, slot,
	    last == slot ? mem_printf("slot %d is missing", slot)
			 : mem_printf("slots %d to %d are missing", slot, last));
}

static void
add_make(struct fsck_findings *findings, const struct fsck_seen *seen, int slot)
{
	switch (seen->make[slot - 1]) {
	case FSCK_MAKE_OURS:
		break;
	case FSCK_MAKE_OTHERWISE:
		fsck_findings_add(findings, LOCK_PROBLEM_ARGUMENTS, slot,
		    mem_strdup("declared with other arguments; it works"));
		break;
	case FSCK_MAKE_EXCLUSIVE:
		fsck_findings_add(findings, LOCK_PROBLEM_ARGUMENTS, slot,
		    mem_strdup("an exclusive queue, which ends with its connection"));
		break;
	case FSCK_MAKE_TRANSIENT:
		fsck_findings_add(findings, LOCK_PROBLEM_TRANSIENT, slot,
		    mem_strdup(seen->full_scan.b[slot - 1] == BROKER_OK
				   ? "not durable, so it is gone when the broker restarts; it is "
				     "busy, so it is not repaired now"
				   : "not durable, so it is gone when the broker restarts"));
		break;
	}
}

static void
add_claim(
    struct fsck_findings *findings, const struct fsck_seen *seen, int slot, enum lock_claim wanted)
{
	enum broker_answer b = seen->b[slot - 1];

	fsck_findings_add(findings, LOCK_PROBLEM_CLAIM, slot,
	    mem_printf("held by %s, and not by %s%s", way_row(seen->ways[slot - 1])->by_what,
		full_scan_way(wanted)->by_what,
		b == BROKER_OK            ? "; it is busy"
		: b == BROKER_UNREACHABLE ? "; the node of its holder queue cannot be reached"
					  : ""));
}

/* The holder queue of a slot. */
static void
add_holder(
    struct fsck_findings *findings, const struct fsck_seen *seen, int slot, enum lock_claim wanted)
{
	bool there = fsck_seen_slot(seen, slot);
	enum broker_answer b = seen->b[slot - 1];

	if (seen->odd[slot - 1])
		fsck_findings_add(findings, LOCK_PROBLEM_ARGUMENTS, slot,
		    mem_strdup("its holder queue was declared with other arguments"));
	if (!there && fsck_seen_leftover(seen, slot))
		fsck_findings_add(findings, LOCK_PROBLEM_LEFTOVER, slot,
		    mem_strdup("the slot does not exist, but its holder queue is left"));
	if (there && slot <= seen->full_scan.slots && wanted != LOCK_CLAIM_UNKNOWN &&
	    fsck_seen_claim(seen, slot) != wanted)
		add_claim(findings, seen, slot, wanted);
	if (b == BROKER_UNREACHABLE)
		fsck_findings_add(findings, LOCK_PROBLEM_UNREACHABLE, slot,
		    mem_strdup("the node of its holder queue cannot be reached, so it is not known "
			       "whether it is busy"));
}

void
fsck_findings_make(struct fsck_findings *findings, const struct fsck_seen *seen,
    enum lock_claim wanted, bool has_record)
{
	const struct full_scan *full_scan = &seen->full_scan;
	int highest = fsck_seen_highest(seen);

	add_whole(findings, seen);
	if (has_record)
		fsck_findings_add(findings, LOCK_PROBLEM_STALE_RECORD, 0,
		    mem_strdup("there is a record of slots by quorum, but none is there"));
	for (int slot = 1; slot <= full_scan->seen; slot++) {
		bool there = fsck_seen_slot(seen, slot);

		if (!there && slot < highest)
			add_gap(findings, seen, slot);
		if (there && slot > full_scan->slots)
			fsck_findings_add(findings, LOCK_PROBLEM_UNCOUNTED, slot,
			    mem_strdup("above a missing slot, so it does not count"));
		if (!there && full_scan->b[slot - 1] == BROKER_OK)
			fsck_findings_add(findings, LOCK_PROBLEM_ORPHAN, slot,
			    mem_strdup(
				"busy, but the slot does not exist; its holder must release it"));
		if (there)
			add_make(findings, seen, slot);
		add_holder(findings, seen, slot, wanted);
	}
}

void
fsck_findings_done(struct fsck_findings *findings)
{
	for (size_t i = 0; i < findings->count; i++)
		free((char *)findings->list[i].text);
	free(findings->list);
	*findings = (struct fsck_findings){.count = 0};
}

bool
fsck_findings_repairable(const struct fsck_findings *findings, const struct fsck_seen *seen)
{
	for (size_t i = 0; i < findings->count; i++) {
		switch (findings->list[i].problem) {
		case LOCK_PROBLEM_ARGUMENTS: /* those of A stay */
			if (seen->odd[findings->list[i].slot - 1])
				return true;
			break;
		case LOCK_PROBLEM_ORPHAN:
		case LOCK_PROBLEM_CLAIM: /* converted on request */
		case LOCK_PROBLEM_UNREACHABLE:
			break;
		case LOCK_PROBLEM_LEFTOVER:
		case LOCK_PROBLEM_GAP:
		case LOCK_PROBLEM_UNCOUNTED:
		case LOCK_PROBLEM_TRANSIENT:
		case LOCK_PROBLEM_MARKERS:
		case LOCK_PROBLEM_NOT_LISTED:
		case LOCK_PROBLEM_LISTED_MISSING:
		case LOCK_PROBLEM_STALE_RECORD:
			return true;
		default: /* of slots by quorum (fsck_quorum.h) */
			break;
		}
	}
	return false;
}

/* Below 0: `one` comes before `other`. */
static int
compare(const struct lock_finding *one, const struct lock_finding *other)
{
	return one->slot != other->slot ? one->slot - other->slot
					: (int)one->problem - (int)other->problem;
}

void
fsck_findings_compare(struct fsck_findings *before, struct fsck_findings *after)
{
	struct fsck_findings all = {.count = 0};
	size_t i = 0, j = 0;

	while (i < before->count || j < after->count) {
		int order = i == before->count  ? 1
			    : j == after->count ? -1
						: compare(&before->list[i], &after->list[j]);
		struct lock_finding *from = order < 0 ? &before->list[i] : &after->list[j];

		/* A problem that is still there gets the newer words. */
		fsck_findings_add(&all, from->problem, from->slot, (char *)from->text);
		all.list[all.count - 1].repaired = order < 0;
		from->text = NULL;
		i += order <= 0;
		j += order >= 0;
	}
	fsck_findings_done(before);
	*before = all;
}

void
fsck_findings_converted(struct fsck_findings *findings, const struct fsck_seen *seen,
    enum lock_claim wanted, const int *left, size_t left_count)
{
	struct fsck_findings now = {.count = 0}, all = {.count = 0};
	size_t j = 0;

	for (size_t i = 0; i < left_count; i++)
		add_claim(&now, seen, left[i], wanted);
	for (size_t i = 0; i < findings->count; i++) {
		struct lock_finding *from = &findings->list[i];

		while (j < now.count && compare(&now.list[j], from) < 0) {
			fsck_findings_add(
			    &all, LOCK_PROBLEM_CLAIM, now.list[j].slot, (char *)now.list[j].text);
			now.list[j++].text = NULL;
		}
		fsck_findings_add(&all, from->problem, from->slot, (char *)from->text);
		all.list[all.count - 1].repaired = from->repaired;
		from->text = NULL;
	}
	for (; j < now.count; j++) {
		fsck_findings_add(
		    &all, LOCK_PROBLEM_CLAIM, now.list[j].slot, (char *)now.list[j].text);
		now.list[j].text = NULL;
	}
	fsck_findings_done(&now);
	fsck_findings_done(findings);
	*findings = all;
}
