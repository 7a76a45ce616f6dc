/*
 * The rules of a slot that is held by quorum. A row is a course of events of one consumer, with its
 * reactions. The events, with the time in ms at which each happens:
 *
 *	1+0		bead 1 is delivered, with the count 0. 1+0' is of the set with epoch 2, 1+0" with epoch 3,
 *			1+0* of another set with epoch 1
 *	prove, renew, rotate, barrier, release
 *	reclaim 60	instead of a claim, after a hold whose counts were 60 in all; "?": a reject was unanswered
 *	regain 60	the same, for a hold that goes on, and was proved at that time
 *	after 60	the holder of such a hold has stopped
 *	foreign 0	another message with that count is acknowledged; "kept 0": it stays
 *	own		the set of epoch 1 is published here
 *
 * Unless a course begins with `checks`, basic.qos is answered at once after a set is complete.
 * A reaction is nothing, "reject 2", "ack 1", "qos", "unclean", "held", "renewed", "released", "over" and
 * the reason. A bead here is the last delivery of that number. T is 5 s, so the lease is 4.5 s.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/broker/beads.h"
#include "tests/unit/unit.h"

#define T BEAD_GRACE_LEAST
#define EVENTS_MOST 16

struct event {
	int at; /* ms */
	const char *what, *follows;
};

struct course {
	const char *name;
	unsigned minor; /* of RabbitMQ 4 */
	struct event events[EVENTS_MOST];
};

static const char odd[] = "over odd";

static const struct course courses[] = {
    {"a clean slot is held when its flip is answered", 0,
	{{0, "1+1", ""}, {0, "2+1", ""}, {0, "3+1", "reject 2"}, {5, "2+2", "held"}}},
    {"each turn of a clean order is clean", 0,
	{{0, "3+5", ""}, {0, "1+8", ""}, {0, "2+6", "reject 1"}, {5, "1+9", "held"}}},
    {"since 4.3 only 1-2-3 is clean", 3, {{0, "3+5", ""}, {0, "1+8", ""}, {0, "2+6", "unclean"}}},
    {"since 4.3 1-2-3 is clean", 3, {{0, "1+5", ""}, {0, "2+8", ""}, {0, "3+6", "reject 2"}}},
    {"a dirty slot is held after its grace", 0,
	{{100, "1+2", ""}, {200, "3+2", ""}, {300, "2+3", "unclean"}, {5300, "prove", "reject 2"},
	    {5301, "2+4", "held"}}},
    {"the answer to the flip has another count", 0,
	{{0, "1+1", ""}, {0, "2+1", ""}, {0, "3+1", "reject 2"}, {5, "2+3", odd}}},
    {"the answer to the flip has the same count", 0,
	{{0, "1+1", ""}, {0, "2+1", ""}, {0, "3+1", "reject 2"}, {5, "2+1", odd}}},
    {"another bead comes in place of the answer", 0,
	{{0, "1+1", ""}, {0, "2+1", ""}, {0, "3+1", "reject 2"}, {5, "1+2", odd}}},
    {"the answer to the flip comes after the lease", 0,
	{{0, "1+1", ""}, {0, "2+1", ""}, {0, "3+1", "reject 2"}, {4500, "2+2", "over late"}}},
    {"a bead comes twice before the set is complete", 0,
	{{0, "1+1", ""}, {0, "2+1", ""}, {0, "1+2", odd}}},
    {"a bead comes again in the grace", 0,
	{{0, "1+2", ""}, {0, "3+2", ""}, {0, "2+3", "unclean"}, {9, "1+3", odd}}},
    {"the last bead comes again in the grace", 0,
	{{0, "1+2", ""}, {0, "3+2", ""}, {0, "2+3", "unclean"}, {9, "2+4", odd}}},
    {"a hold is renewed by its last bead", 0,
	{{0, "1+1", ""}, {0, "2+1", ""}, {0, "3+1", "reject 2"}, {1, "2+2", "held"},
	    {1000, "renew", "reject 2"}, {1001, "2+3", "renewed"}, {5000, "renew", "reject 2"},
	    {5001, "2+4", "renewed"}}},
    {"a renewal is answered after the lease", 0,
	{{0, "1+1", ""}, {0, "2+1", ""}, {0, "3+1", "reject 2"}, {1, "2+2", "held"},
	    {4000, "renew", "reject 2"}, {4500, "2+3", "over late"}}},
    {"the consumer is active for the second time", 0,
	{{0, "1+1", ""}, {0, "2+1", ""}, {10, "3+1", "reject 2"}, {11, "2+2", "held"},
	    {1000, "renew", "reject 2"}, {1001, "1+2", ""}, {1001, "3+2", ""},
	    {1001, "2+3", "reject 2"}, {1002, "2+4", "renewed"}}},
    {"it is active for the second time, and nothing was asked", 0,
	{{0, "1+1", ""}, {0, "2+1", ""}, {10, "3+1", "reject 2"}, {11, "2+2", "held"},
	    {1001, "1+2", ""}, {1001, "3+2", ""}, {1001, "2+3", "reject 2"},
	    {1002, "2+4", "renewed"}, {1003, "release", "reject 3"}, {1004, "3+3", "released"}}},
    {"it is so, and a rival was active meanwhile", 0,
	{{0, "1+1", ""}, {0, "2+1", ""}, {10, "3+1", "reject 2"}, {11, "2+2", "held"},
	    {1001, "1+3", ""}, {1001, "3+3", ""}, {1001, "2+4", "over followed"}}},
    {"it is so, and the rival has released the slot", 0,
	{{0, "1+1", ""}, {0, "2+1", ""}, {10, "3+1", "reject 2"}, {11, "2+2", "held"},
	    {1001, "1+2", ""}, {1001, "2+3", ""}, {1001, "3+2", "over followed"}}},
    {"it is so, after the lease", 0,
	{{0, "1+1", ""}, {0, "2+1", ""}, {10, "3+1", "reject 2"}, {11, "2+2", "held"},
	    {4510, "1+2", "over late"}}},
    {"it is so, and the proof is answered after the lease", 0,
	{{0, "1+1", ""}, {0, "2+1", ""}, {10, "3+1", "reject 2"}, {11, "2+2", "held"},
	    {4000, "1+2", ""}, {4000, "3+2", ""}, {4000, "2+3", "reject 2"},
	    {4510, "2+4", "over late"}}},
    {"a release flips, and is proved", 0,
	{{0, "1+1", ""}, {0, "2+1", ""}, {0, "3+1", "reject 2"}, {1, "2+2", "held"},
	    {2, "release", "reject 3"}, {3, "3+2", "released"}}},
    {"a turned order is released by one reject", 0,
	{{0, "2+1", ""}, {0, "3+1", ""}, {0, "1+1", "reject 3"}, {1, "3+2", "held"},
	    {2, "release", "reject 1"}, {3, "1+2", "released"}}},
    {"since 4.3 a turned order is released by two rejects", 3,
	{{0, "3+1", ""}, {0, "2+1", ""}, {0, "1+1", "unclean"}, {5000, "prove", "reject 1"},
	    {5001, "1+2", "held"}, {5002, "release", "reject 2"}, {5003, "2+2", "reject 3"},
	    {5004, "3+2", "released"}}},
    {"the grace of a slot that nobody wants ends clean", 0,
	{{0, "1+2", ""}, {0, "3+2", ""}, {0, "2+3", "unclean"}, {5000, "release", "reject 3"},
	    {5001, "3+3", "released"}}},
    {"of two sets the newer one is taken", 0,
	{{0, "1+1", ""}, {0, "1+1'", ""}, {0, "2+1'", ""}, {0, "3+1'", "ack 1 reject 2'"},
	    {1, "2+1", "ack 2"}, {2, "2+2'", "held"}, {3, "3+1", "ack 3"}}},
    {"a newer set that is not complete is not taken", 0,
	{{0, "1+1'", ""}, {0, "1+1", ""}, {0, "2+1", ""}, {0, "3+1", "reject 2"},
	    {1, "2+2", "held"}}},
    {"a newer set begins the grace again", 0,
	{{0, "1+2", ""}, {0, "3+2", ""}, {0, "2+3", "unclean"}, {1000, "1+1'", ""},
	    {1000, "3+1'", ""}, {1000, "2+1'", "ack 1 ack 3 ack 2 unclean"},
	    {6000, "prove", "reject 2'"}}},
    {"a bead of a newer set ends a hold", 0,
	{{0, "1+1", ""}, {0, "2+1", ""}, {0, "3+1", "reject 2"}, {1, "2+2", "held"},
	    {2, "3+1'", odd}}},
    {"a second set of one epoch ends the claim of the first", 0,
	{{0, "1+1", ""}, {0, "1+1*", ""}, {0, "2+1*", ""}, {0, "3+1*", "reject 2*"},
	    {1, "2+1", "over two"}}},
    {"two sets of one epoch in the grace are refused", 0,
	{{0, "1+1", ""}, {0, "3+1", ""}, {0, "2+1", "unclean"}, {0, "1+1*", ""}, {0, "2+1*", ""},
	    {0, "3+1*", "over two"}}},
    {"a rotation comes between two renewals", 0,
	{{0, "1+1", ""}, {0, "2+1", ""}, {0, "3+1", "reject 2"}, {1, "2+2", "held"},
	    {1000, "renew", "reject 2"}, {1001, "2+3", "renewed"}, {1002, "rotate", "reject 1"},
	    {1003, "1+2", "qos"}, {1004, "barrier", "reject 1"}, {1005, "1+3", "renewed"},
	    {1006, "release", "reject 2"}, {1007, "2+4", "released"}}},
    {"a delivery before the barrier of a rotation is odd", 0,
	{{0, "1+1", ""}, {0, "2+1", ""}, {0, "3+1", "reject 2"}, {1, "2+2", "held"},
	    {1000, "renew", "reject 2"}, {1001, "2+3", "renewed"}, {1002, "rotate", "reject 1"},
	    {1003, "1+2", "qos"}, {1004, "3+2", odd}}},
    {"beads that come again unasked are not taken for the answer of a rotation", 0,
	{{0, "1+1", ""}, {0, "2+1", ""}, {0, "3+1", "reject 2"}, {1, "2+2", "held"},
	    {1002, "rotate", "reject 1"}, {1003, "3+2", odd}}},
    {"a rotation extends no lease", 0,
	{{0, "1+1", ""}, {0, "2+1", ""}, {0, "3+1", "reject 2"}, {1, "2+2", "held"},
	    {4000, "rotate", "reject 1"}, {4499, "1+2", "qos"}, {4499, "barrier", "reject 1"},
	    {4500, "1+3", "over late"}}},
    {"a slot is reclaimed if nobody was active since", 0,
	{{0, "reclaim 61", ""}, {0, "1+11", ""}, {0, "3+31", ""}, {0, "2+22", "reject 3"},
	    {1, "3+32", "released"}}},
    {"so it is if the last reject was performed", 0,
	{{0, "reclaim 61?", ""}, {0, "1+11", ""}, {0, "3+31", ""}, {0, "2+23", "reject 3"},
	    {1, "3+32", "released"}}},
    {"no reject was sent, and one was performed", 0,
	{{0, "reclaim 61", ""}, {0, "1+11", ""}, {0, "3+31", ""}, {0, "2+23", "over followed"}}},
    {"another consumer had the beads", 0,
	{{0, "reclaim 61?", ""}, {0, "1+13", ""}, {0, "3+33", ""}, {0, "2+25", "over followed"}}},
    {"a clean slot is not reclaimed", 0,
	{{0, "reclaim 57?", ""}, {0, "1+10", ""}, {0, "2+20", ""}, {0, "3+30", "over followed"}}},
    {"another set is not reclaimed", 0,
	{{0, "reclaim 61", ""}, {0, "1+11*", ""}, {0, "3+31*", ""}, {0, "2+22*", "over followed"}}},
    {"a hold goes on if nobody was active since", 0,
	{{1, "regain 61", ""}, {9, "1+11", ""}, {9, "3+31", ""}, {9, "2+22", "reject 2"},
	    {4500, "2+23", "renewed"}, {4501, "renew", "reject 2"}, {4508, "2+24", "renewed"}}},
    {"a hold goes on whose reject was unanswered", 3,
	{{1, "regain 61?", ""}, {9, "1+11", ""}, {9, "3+31", ""}, {9, "2+23", "reject 2"},
	    {10, "2+24", "renewed"}}},
    {"a hold ends after a rival was active", 0,
	{{1, "regain 61", ""}, {9, "1+12", ""}, {9, "3+32", ""}, {9, "2+23", "over followed"}}},
    {"a hold ends if its reject was performed that it did not ask for", 0,
	{{1, "regain 61", ""}, {9, "1+11", ""}, {9, "3+31", ""}, {9, "2+23", "over followed"}}},
    {"a hold ends if the order is clean", 0,
	{{1, "regain 57?", ""}, {9, "1+10", ""}, {9, "2+20", ""}, {9, "3+30", "over followed"}}},
    {"a hold ends if the set is another one", 0,
	{{1, "regain 61", ""}, {9, "1+11*", ""}, {9, "3+31*", ""}, {9, "2+22*", "over followed"}}},
    {"a hold ends if its beads come after the lease", 0,
	{{1, "regain 61", ""}, {9, "1+11", ""}, {9, "3+31", ""}, {4501, "2+22", "over late"}}},
    {"a hold ends if the proof comes after the lease", 0,
	{{1, "regain 61", ""}, {9, "1+11", ""}, {9, "3+31", ""}, {4500, "2+22", "reject 2"},
	    {4501, "2+23", "over late"}}},
    {"since 4.3 a turned order is reclaimed by two rejects", 3,
	{{0, "reclaim 61", ""}, {0, "3+31", ""}, {0, "2+22", ""}, {0, "1+11", "reject 2"},
	    {1, "2+23", "reject 3"}, {2, "3+32", "released"}}},
    {"a grace ends when the last holder was here, and stops", 0,
	{{0, "1+11", ""}, {0, "3+31", ""}, {0, "2+22", "unclean"}, {7, "after 61", "reject 2"},
	    {8, "2+23", "held"}}},
    {"a grace goes on when another one was in between", 0,
	{{0, "1+11", ""}, {0, "3+31", ""}, {0, "2+22", "unclean"}, {7, "after 57?", ""},
	    {5000, "prove", "reject 2"}}},
    {"an order is certain when nothing came before the answer of basic.qos", 0,
	{{0, "checks", ""}, {0, "1+1", ""}, {0, "2+1", ""}, {1, "3+1", "qos"},
	    {2, "barrier", "reject 2"}, {5, "2+2", "held"}}},
    {"the grace begins with the third bead", 0,
	{{0, "checks", ""}, {0, "1+1", ""}, {0, "3+1", ""}, {300, "2+2", "qos"},
	    {900, "barrier", "unclean"}, {5300, "prove", "reject 2"}}},
    {"the answer to the first basic.qos says nothing", 0,
	{{0, "checks", ""}, {0, "barrier", ""}, {0, "1+1", ""}, {0, "2+1", ""}, {1, "3+1", "qos"}}},
    {"a message was published meanwhile, and is acknowledged", 0,
	{{0, "checks", ""}, {0, "1+1", ""}, {0, "2+1", ""}, {1, "3+1", "qos"}, {1, "foreign 0", ""},
	    {2, "barrier", "over unsure"}}},
    {"a message was returned before, and is acknowledged", 0,
	{{0, "checks", ""}, {0, "1+1", ""}, {0, "2+1", ""}, {1, "3+1", "qos"}, {1, "foreign 1", ""},
	    {2, "barrier", "over unsure"}}},
    {"a removal was published meanwhile", 0,
	{{0, "checks", ""}, {0, "1+1", ""}, {0, "2+1", ""}, {1, "3+1", "qos"}, {1, "kept 0", ""},
	    {2, "barrier", "over unsure"}}},
    {"a removal was returned before", 0,
	{{0, "checks", ""}, {0, "1+1", ""}, {0, "2+1", ""}, {1, "3+1", "qos"}, {1, "kept 1", ""},
	    {2, "barrier", "reject 2"}}},
    {"a message before the beads was acknowledged", 0,
	{{0, "checks", ""}, {0, "foreign 1", ""}, {0, "1+1", ""}, {0, "2+1", ""}, {1, "3+1", "qos"},
	    {2, "barrier", "over unsure"}}},
    {"a bead was never returned", 0,
	{{0, "checks", ""}, {0, "1+1", ""}, {0, "2+1", ""}, {1, "3+0", "qos"},
	    {2, "barrier", "over unsure"}}},
    {"the publisher of the set does not ask", 0,
	{{0, "checks", ""}, {0, "own", ""}, {0, "1+0", ""}, {0, "3+0", ""}, {1, "2+0", "unclean"}}},
    {"the publisher of a set that was returned asks", 0,
	{{0, "checks", ""}, {0, "own", ""}, {0, "1+0", ""}, {0, "3+0", ""}, {1, "2+1", "qos"},
	    {2, "barrier", "over unsure"}}},
    {"a bead of a newer set was published meanwhile", 0,
	{{0, "checks", ""}, {0, "1+1", ""}, {0, "2+1", ""}, {1, "3+1", "qos"}, {1, "1+0'", ""},
	    {2, "barrier", "over unsure"}}},
    {"a bead of a newer set was returned before", 0,
	{{0, "checks", ""}, {0, "1+1", ""}, {0, "2+1", ""}, {1, "3+1", "qos"}, {1, "1+1'", ""},
	    {2, "barrier", "reject 2"}}},
    {"a bead of an older set comes behind", 0,
	{{0, "checks", ""}, {0, "1+1'", ""}, {0, "2+1'", ""}, {1, "3+1'", "qos"},
	    {1, "1+1", "ack 1"}, {2, "barrier", "over unsure"}}},
    {"a newer set is complete meanwhile, and asks again", 0,
	{{0, "checks", ""}, {0, "1+1", ""}, {0, "2+1", ""}, {1, "3+1", "qos"}, {1, "1+1'", ""},
	    {1, "2+1'", ""}, {1, "3+1'", "ack 1 ack 2 ack 3 qos"}, {2, "barrier", ""},
	    {3, "barrier", "reject 2'"}}},
    {"a newer set in the grace, after an acknowledgement", 0,
	{{0, "checks", ""}, {0, "1+1", ""}, {0, "3+1", ""}, {0, "2+2", "qos"},
	    {0, "barrier", "unclean"}, {1, "foreign 1", ""}, {2, "1+1'", ""}, {2, "3+1'", ""},
	    {2, "2+2'", "ack 1 ack 3 ack 2 qos"}, {3, "barrier", "over unsure"}}},
    {"a bead comes again before the answer", 0,
	{{0, "checks", ""}, {0, "1+1", ""}, {0, "2+1", ""}, {1, "3+1", "qos"}, {1, "1+2", odd}}},
    {"an order that is not certain is not reclaimed", 0,
	{{0, "checks", ""}, {0, "reclaim 61", ""}, {0, "1+11", ""}, {0, "3+31", ""},
	    {0, "2+22", "qos"}, {1, "foreign 0", ""}, {1, "barrier", "over unsure"}}},
    {"what comes after the release is ignored", 0,
	{{0, "1+1", ""}, {0, "2+1", ""}, {0, "3+1", "reject 2"}, {1, "2+2", "held"},
	    {2, "release", "reject 3"}, {3, "3+2", "released"}, {4, "1+2", ""}}},
};

/* The newest delivery of each bead of each set, by its tag. */
static const char sets[] = " '\"*";
static unsigned deliveries;
static char names[256][4];

static struct bead
bead_of(const char *what, int64_t grace)
{
	unsigned number, count, set = 0;
	char mark = ' ';
	struct bead bead;

	ck_assert_int_ge(sscanf(what, "%u+%u%c", &number, &count, &mark), 2);
	while (sets[set] != mark)
		set++;
	bead = (struct bead){
	    .number = number,
	    .epoch = set < 3 ? set + 1 : 1,
	    .publisher = set + 77,
	    .grace = grace,
	    .major = 4,
	    .count = count,
	    .tag = ++deliveries,
	};
	snprintf(names[deliveries], sizeof(names[0]), "%u%.*s", number, mark != ' ', &mark);
	return bead;
}

static const char *
words_of(const struct beads *beads, const struct beads_acts *acts)
{
	static const char *const news[] = {
	    [BEADS_UNCLEAN] = "unclean",
	    [BEADS_NOW_HELD] = "held",
	    [BEADS_RENEWED] = "renewed",
	    [BEADS_NOW_RELEASED] = "released",
	    [BEADS_NOW_OVER] = "over",
	};
	static const char *const ends[] = {
	    [BEADS_END_UNSURE] = " unsure",
	    [BEADS_END_ODD] = " odd",
	    [BEADS_END_LATE] = " late",
	    [BEADS_END_TWO_SETS] = " two",
	    [BEADS_END_VERSION] = " version",
	    [BEADS_END_FOLLOWED] = " followed",
	};
	static char words[200];
	size_t len = 0;

	words[0] = '\0';
	for (unsigned i = 0; i < acts->ack_count; i++)
		len += (size_t)sprintf(words + len, " ack %s", names[acts->acks[i]]);
	if (acts->reject != 0)
		len += (size_t)sprintf(words + len, " reject %s", names[acts->reject]);
	if (acts->barrier)
		len += (size_t)sprintf(words + len, " qos");
	if (acts->news != BEADS_NO_NEWS)
		len += (size_t)sprintf(words + len, " %s", news[acts->news]);
	if (acts->news == BEADS_NOW_OVER)
		sprintf(words + len, "%s", ends[beads->end]);
	return words[0] == ' ' ? words + 1 : words;
}

static struct beads_acts
play_memory(struct beads *beads, const char *what, int64_t now)
{
	const struct beads_memory memory = {
	    .epoch = 1,
	    .publisher = 77,
	    .sum = strtoul(strchr(what, ' '), NULL, 10),
	    .asked = strchr(what, '?') != NULL,
	    .proved_at = strncmp(what, "regain ", 7) == 0 ? now : 0,
	};
	const struct beads_acts none = {0};

	if (what[0] == 'r') {
		beads_reclaim(beads, &memory);
		return none;
	}
	return beads_follows(beads, &memory) ? beads_prove_after(beads, &memory, now) : none;
}

/* False: no such event. */
static bool
play_beside(struct beads *beads, const char *what)
{
	if (strcmp(what, "checks") == 0)
		return true;
	if (strcmp(what, "own") == 0)
		beads_own(beads, 77);
	else if (strncmp(what, "foreign ", 8) == 0)
		beads_foreign(beads, strtoul(what + 8, NULL, 10), false);
	else if (strncmp(what, "kept ", 5) == 0)
		beads_foreign(beads, strtoul(what + 5, NULL, 10), true);
	else
		return false;
	return true;
}

/* basic.qos is answered before anything else comes. */
static struct beads_acts
check(struct beads *beads, struct beads_acts acts, int64_t now)
{
	struct beads_acts then;

	if (beads->state != BEADS_CHECKING || !acts.barrier)
		return acts;
	then = beads_barrier(beads, now);
	memcpy(then.acks, acts.acks, sizeof(acts.acks));
	then.ack_count = acts.ack_count;
	return then;
}

static struct beads_acts
play(struct beads *beads, const char *what, int64_t now)
{
	struct bead bead;

	if (play_beside(beads, what))
		return (struct beads_acts){0};

	if (strcmp(what, "prove") == 0)
		return beads_prove(beads, now);
	if (strcmp(what, "renew") == 0)
		return beads_renew(beads, now);
	if (strcmp(what, "rotate") == 0)
		return beads_rotate(beads, now);
	if (strcmp(what, "barrier") == 0)
		return beads_barrier(beads, now);
	if (strcmp(what, "release") == 0)
		return beads_release(beads, now);
	if (strncmp(what, "re", 2) == 0 || strncmp(what, "after ", 6) == 0)
		return play_memory(beads, what, now);
	bead = bead_of(what, T);
	return beads_take(beads, &bead, now);
}

START_TEST(each_course_is_taken)
{
	const struct course *course = &courses[_i];
	struct beads beads;

	deliveries = 0;
	beads_init(&beads, 4, course->minor);
	for (const struct event *event = course->events; event->what != NULL; event++) {
		int64_t now = event->at * NSEC_PER_MSEC;
		struct beads_acts acts = play(&beads, event->what, now);

		if (strcmp(course->events[0].what, "checks") != 0)
			acts = check(&beads, acts, now);
		ck_assert_msg(strcmp(words_of(&beads, &acts), event->follows) == 0,
		    "%s: %d ms, %s: \"%s\", not \"%s\"", course->name, event->at, event->what,
		    words_of(&beads, &acts), event->follows);
	}
}
END_TEST

/* A claim of a clean slot, at 0. */
static struct beads
held(int64_t grace)
{
	static const char *const deliver[] = {"1+10", "2+20", "3+30", "2+21"};
	struct beads beads;

	deliveries = 0;
	beads_init(&beads, 4, 0);
	for (size_t i = 0; i < 4; i++) {
		struct bead bead = bead_of(deliver[i], grace);

		check(&beads, beads_take(&beads, &bead, (int64_t)i * NSEC_PER_MSEC),
		    (int64_t)i * NSEC_PER_MSEC);
	}
	ck_assert_int_eq(beads.state, BEADS_HELD);
	return beads;
}

/* The flip was sent at 2 ms. */
START_TEST(a_lease_counts_from_the_sending_of_the_proof)
{
	struct beads beads = held(20 * NSEC_PER_SEC);
	struct bead answer;

	ck_assert_int_eq(beads_held_until(&beads), 18 * NSEC_PER_SEC + 2 * NSEC_PER_MSEC);
	beads_renew(&beads, NSEC_PER_SEC);
	ck_assert_int_eq(beads_held_until(&beads), 18 * NSEC_PER_SEC + 2 * NSEC_PER_MSEC);
	answer = bead_of("2+22", 20 * NSEC_PER_SEC);
	beads_take(&beads, &answer, 7 * NSEC_PER_SEC);
	ck_assert_int_eq(beads_held_until(&beads), 19 * NSEC_PER_SEC);
}
END_TEST

/* The number of a grant by the next holder is larger, however the first one ended. */
START_TEST(a_fence_grows_with_each_end)
{
	struct beads beads = held(T);
	uint64_t fence = beads_fence(&beads, 0);

	ck_assert_uint_eq(fence, (UINT64_C(1) << 20) + (61 << 8));
	ck_assert_uint_gt(beads_fence(&beads, 255), fence);
	/* The end of its channel returns all three; the next holder's flip rejects one more. */
	ck_assert_uint_gt(
	    (UINT64_C(1) << 20) + ((beads_sum(&beads) + 4) << 8), beads_fence(&beads, 255));
	ck_assert_uint_lt(((BEAD_EPOCH_MOST << 20) >> 53), 2);
}
END_TEST

/* The facts about a hold outlive its channel. */
START_TEST(a_hold_is_remembered_with_its_counts)
{
	struct beads beads = held(T);
	struct beads_memory memory;
	struct bead answer;

	ck_assert(beads_remember(&beads, &memory));
	ck_assert_uint_eq(memory.epoch, 1);
	ck_assert_uint_eq(memory.publisher, 77);
	ck_assert_uint_eq(memory.sum, 61);
	ck_assert(!memory.asked);
	beads_renew(&beads, NSEC_PER_SEC);
	ck_assert(beads_remember(&beads, &memory));
	ck_assert_uint_eq(memory.sum, 61);
	ck_assert(memory.asked);
	answer = bead_of("2+22", T);
	beads_take(&beads, &answer, NSEC_PER_SEC);
	beads_release(&beads, NSEC_PER_SEC);
	ck_assert(beads_remember(&beads, &memory));
	ck_assert_uint_eq(memory.sum, 62);
	answer = bead_of("3+31", T);
	beads_take(&beads, &answer, NSEC_PER_SEC);
	ck_assert_int_eq(beads.state, BEADS_RELEASED);
	ck_assert(!beads_remember(&beads, &memory));
}
END_TEST

START_TEST(a_larger_grace_of_an_older_set_counts)
{
	struct beads beads;
	struct bead bead;
	struct beads_acts acts = {0};
	static const char *const deliver[] = {"1+1", "3+1", "2+1", "1+1'", "3+1'", "2+1'"};

	deliveries = 0;
	beads_init(&beads, 4, 0);
	for (size_t i = 0; i < 6; i++) {
		bead = bead_of(deliver[i], i < 3 ? 2 * T : T);
		acts = check(&beads, beads_take(&beads, &bead, (int64_t)i), (int64_t)i);
	}
	ck_assert_int_eq(acts.news, BEADS_UNCLEAN);
	ck_assert_int_eq(beads.until, 5 + 2 * T);
}
END_TEST

START_TEST(only_its_publisher_makes_a_new_set_clean_at_once)
{
	static const char *const deliver[][3] = {
	    {"1+0", "3+0", "2+0"}, {"1+0", "3+0", "2+1"}, {"1+0", "3+0", "2+0"}};
	struct beads beads;
	struct beads_acts acts;

	for (size_t i = 0; i < 3; i++) {
		deliveries = 0;
		beads_init(&beads, 4, 0);
		beads_own(&beads, i < 2 ? 77 : 78);
		for (size_t j = 0; j < 3; j++) {
			struct bead bead = bead_of(deliver[i][j], T);

			beads_take(&beads, &bead, 0);
		}
		ck_assert(beads_are_new(&beads) == (i == 0));
		if (i > 0)
			continue;
		acts = beads_release_new(&beads, 1);
		ck_assert_str_eq(words_of(&beads, &acts), "reject 3");
	}
}
END_TEST

START_TEST(a_set_of_another_major_version_is_refused)
{
	struct beads beads;
	static const char *const deliver[] = {"1+0", "2+0", "3+0"};

	deliveries = 0;
	beads_init(&beads, 3, 10);
	for (size_t i = 0; i < 3; i++) {
		struct bead bead = bead_of(deliver[i], T);

		beads_take(&beads, &bead, 0);
	}
	ck_assert_int_eq(beads.state, BEADS_OVER);
	ck_assert_int_eq(beads.end, BEADS_END_VERSION);
}
END_TEST

/* ---- the text ---- */

START_TEST(a_bead_is_read_as_it_is_printed)
{
	const struct bead bead = {.number = 3,
	    .epoch = BEAD_EPOCH_MOST,
	    .publisher = UINT64_MAX,
	    .grace = BEAD_GRACE_MOST,
	    .major = 999};
	char text[BEAD_TEXT];
	struct bead read;

	ck_assert_ptr_eq(bead_print(text, &bead), text);
	ck_assert_str_eq(
	    text, "bead 3 epoch 8589934592 set ffffffffffffffff grace 300000 server 999");
	ck_assert(bead_read(text, strlen(text), &read));
	ck_assert(memcmp(&bead, &read, sizeof(read)) == 0);
}
END_TEST

static const char *const foreign[] = {
    "",
    "bead",
    "bead 0 epoch 1 set 0000000000000001 grace 5000 server 4",
    "bead 4 epoch 1 set 0000000000000001 grace 5000 server 4",
    "bead 1 epoch 0 set 0000000000000001 grace 5000 server 4",
    "bead 1 epoch 8589934593 set 0000000000000001 grace 5000 server 4",
    "bead 1 epoch 1 set 0000000000000001 grace 4999 server 4",
    "bead 1 epoch 1 set 0000000000000001 grace 300001 server 4",
    "bead 1 epoch 1 set 0000000000000001 grace -5000 server 4",
    "bead 1 epoch 1 set 1 grace 5000 server 4",
    "bead 1 epoch 1 set 000000000000000A grace 5000 server 4",
    "bead 1 epoch 1 set 0000000000000001 grace 5000 server 4 ",
    "bead 1 epoch 1 set 0000000000000001 grace 5000 server 1000",
    "bead  1 epoch 1 set 0000000000000001 grace 5000 server 4",
    "bead +1 epoch 1 set 0000000000000001 grace 5000 server 4",
    "bead 1 epoch 1 set 0000000000000001 grace 5000 server 4\n",
    "bead 1 epoch 01 set 0000000000000001 grace 5000 server 4",
};

START_TEST(a_foreign_text_is_no_bead)
{
	struct bead bead;

	ck_assert(!bead_read(foreign[_i], strlen(foreign[_i]), &bead));
}
END_TEST

START_TEST(a_text_with_a_nul_or_too_long_is_no_bead)
{
	static const char nul[] = "bead 1 epoch 1 set 0000000000000001 grace 5000 server 4\0x";
	char large[2 * BEAD_TEXT];
	struct bead bead;

	ck_assert(!bead_read(nul, sizeof(nul) - 1, &bead));
	memset(large, '1', sizeof(large) - 1);
	large[sizeof(large) - 1] = '\0';
	memcpy(large, "bead ", 5);
	ck_assert(!bead_read(large, strlen(large), &bead));
}
END_TEST

static Suite *
beads_suite(void)
{
	Suite *suite = suite_create("beads");
	TCase *tcase = tcase_create("beads");

	tcase_add_loop_test(
	    tcase, each_course_is_taken, 0, (int)(sizeof(courses) / sizeof(courses[0])));
	tcase_add_test(tcase, a_lease_counts_from_the_sending_of_the_proof);
	tcase_add_test(tcase, a_fence_grows_with_each_end);
	tcase_add_test(tcase, a_hold_is_remembered_with_its_counts);
	tcase_add_test(tcase, a_larger_grace_of_an_older_set_counts);
	tcase_add_test(tcase, only_its_publisher_makes_a_new_set_clean_at_once);
	tcase_add_test(tcase, a_set_of_another_major_version_is_refused);
	tcase_add_test(tcase, a_bead_is_read_as_it_is_printed);
	tcase_add_loop_test(
	    tcase, a_foreign_text_is_no_bead, 0, (int)(sizeof(foreign) / sizeof(foreign[0])));
	tcase_add_test(tcase, a_text_with_a_nul_or_too_long_is_no_bead);
	suite_add_tcase(suite, tcase);
	return suite;
}

int
main(void)
{
	static Suite *(*const makers[])(void) = {beads_suite};

	return unit_run(makers, sizeof(makers) / sizeof(makers[0]));
}
