/*
 * The library's own end of the lease. A lease that is not renewed in time ends the hold, whatever
 * the daemon sends. This also holds if this process was stopped. The linker replaces
 * client_clock_now() by a clock of the test.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/lib/clock.h"
#include "client/lockbroker.h"
#include "tests/unit/client_rig.h"
#include "tests/unit/unit.h"

static int64_t shift;     /* ms that were slept through so far */
static const char *late;  /* a message after a minute of sleep, at the first reading of the clock */
static int reads_to_stop; /* when the clock has been read so often, a minute is slept through */

#define LEASE 10000
#define MINUTE 60000

static int64_t
reading(int64_t now)
{
	if (late != NULL && shift > 0) {
		say(late);
		late = NULL;
	}
	if (reads_to_stop > 0 && --reads_to_stop == 0)
		shift += MINUTE;
	return now + shift;
}

/* A whole second, LEASE or up to one less from now: the wire's numbers come back as they went. */
static int64_t
ahead(int64_t ms)
{
	return (client_clock_now() + ms) / 1000 * 1000;
}

static void
say_lease(int64_t safe_until)
{
	char line[256];

	snprintf(
	    line, sizeof(line), NOTICE("lease", "\"safe_until\":%.3f"), (double)safe_until / 1000);
	say(line);
}

static void
say_granted(int request, int64_t safe_until)
{
	char line[256];

	snprintf(line, sizeof(line),
	    "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{\"lock\":\"a-%d\",\"name\":\"db\","
	    "\"slot\":2,\"safe_until\":%.3f,\"lease\":{\"heartbeat\":6,\"margin\":2}}}",
	    request, request, (double)safe_until / 1000);
	say(line);
}

static void
say_verified(int request, int64_t safe_until)
{
	char line[256];

	snprintf(line, sizeof(line),
	    "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{\"slot\":2,\"safe_until\":%.3f}}", request,
	    (double)safe_until / 1000);
	say(line);
}

static struct lb_lock *
leased(int64_t safe_until)
{
	struct lb_lock *lock = NULL;

	say_granted(1, safe_until);
	ck_assert_int_eq(lb_acquire(lb, "db", NULL, &lock), LB_OK);
	heard();
	return lock;
}

static void
up(void)
{
	shift = reads_to_stop = 0;
	late = NULL;
	client_rig_up();
	client_rig_reading = reading;
}

static const struct lb_event *
event(enum lb_event_type type)
{
	const struct lb_event *next = lb_event_next(lb);

	ck_assert_ptr_nonnull(next);
	ck_assert_int_eq(next->type, type);
	return next;
}

/* The daemon's clock is 1,500 s ahead of this one, as in another time namespace. */
START_TEST(another_clock_does_not_extend_the_lease)
{
	const long long other = client_clock_now() + 1500000;
	struct lb_lock *lock = NULL;
	char line[256];

	snprintf(line, sizeof(line),
	    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"lock\":\"a-1\",\"name\":\"db\","
	    "\"slot\":2,\"safe_for\":8,\"safe_until\":%lld.5,\"lease\":{\"heartbeat\":6,"
	    "\"margin\":2,\"length\":9}}}",
	    other / 1000);
	say(line);
	ck_assert_int_eq(lb_acquire(lb, "db", NULL, &lock), LB_OK);
	heard();
	ck_assert_int_eq(lb_lock_lease(lock), 9000);
	ck_assert_int_le(lb_lock_safe_until(lock), client_clock_now() + 8000);
	shift += 5000;
	snprintf(line, sizeof(line), NOTICE("lease", "\"safe_for\":8,\"safe_until\":%lld.5"),
	    other / 1000 + 5);
	say(line);
	ck_assert_int_eq(lb_dispatch(lb), LB_OK);
	shift += 7000;
	ck_assert_int_eq(lb_lock_state(lock), LB_LOCK_HELD);
	shift += 1001;
	ck_assert_int_eq(lb_lock_state(lock), LB_LOCK_LOST);
	lb_lock_free(lock);
}
END_TEST

START_TEST(the_newest_word_counts)
{
	int64_t until = ahead(LEASE);
	struct lb_lock *first = leased(until), *second = NULL, *without = NULL;

	ck_assert_int_eq(lb_lock_safe_until(first), until);
	ck_assert_int_eq(lb_lock_margin(first), 2000);
	ck_assert_int_eq(lb_lock_lease(first), 10000); /* a daemon that does not tell it */
	say_granted(2, until + 1000);
	ck_assert_int_eq(lb_acquire(lb, "db", NULL, &second), LB_OK);
	say(GRANT("3", "a-3"));
	ck_assert_int_eq(lb_acquire(lb, "db", NULL, &without), LB_OK);
	say_lease(until + 3000);
	say_lease(until + 2000);
	ck_assert_int_eq(lb_dispatch(lb), LB_OK);
	ck_assert_int_eq(lb_lock_safe_until(first), until + 3000);
	ck_assert_int_eq(lb_lock_safe_until(second), until + 3000);
	ck_assert_int_eq(lb_lock_safe_until(without), -1);
	say_verified(4, until + 5000);
	ck_assert_int_eq(lb_verify(first, 1000), LB_OK);
	ck_assert_int_eq(lb_lock_safe_until(first), until + 5000);
	ck_assert_int_eq(lb_lock_safe_until(second), until + 3000);
	ck_assert_ptr_null(lb_event_next(lb));
	shift += LEASE + 3000;
	ck_assert_int_eq(lb_lock_state(second), LB_LOCK_LOST);
	ck_assert_int_eq(lb_lock_state(first), LB_LOCK_HELD);
	shift += MINUTE;
	ck_assert_int_eq(lb_lock_state(first), LB_LOCK_LOST);
	ck_assert_int_eq(lb_lock_state(without), LB_LOCK_HELD);
}
END_TEST

/* The lease that the daemon tells is that of the other locks. */
START_TEST(a_suspect_lock_is_not_extended_with_the_others)
{
	int64_t until = ahead(LEASE);
	struct lb_lock *first = leased(until), *second = NULL;

	say_granted(2, until);
	ck_assert_int_eq(lb_acquire(lb, "db", NULL, &second), LB_OK);
	say(NOTICE("suspect", "\"lock\":\"a-1\""));
	say_lease(until + 1000);
	ck_assert_int_eq(lb_dispatch(lb), LB_OK);
	event(LB_EVENT_SUSPECT);
	ck_assert_int_eq(lb_lock_safe_until(first), until);
	ck_assert_int_eq(lb_lock_safe_until(second), until + 1000);
	say(NOTICE("restored", "\"lock\":\"a-1\""));
	say_lease(until + 500);
	ck_assert_int_eq(lb_dispatch(lb), LB_OK);
	event(LB_EVENT_RESTORED);
	ck_assert_int_eq(lb_lock_safe_until(first), until + 500);
	ck_assert_int_eq(lb_lock_safe_until(second), until + 1000);
}
END_TEST

START_TEST(the_end_of_the_lease_is_a_loss_for_good)
{
	struct lb_lock *lock = leased(ahead(LEASE));
	const struct lb_event *lost;

	shift += LEASE;
	lost = event(LB_EVENT_LOST);
	ck_assert_ptr_eq(lost->lock, lock);
	ck_assert_int_eq(lost->code, LB_LOST);
	ck_assert_str_eq(lost->reason, "lease");
	ck_assert_str_ne(lost->text, "");
	ck_assert_ptr_nonnull(strstr(lost->json,
	    "{\"lock\":\"a-1\",\"name\":\"db\",\"slot\":2,\"reason\":\"lease\",\"why\":\""));
	ck_assert_int_eq(lb_lock_state(lock), LB_LOCK_LOST);
	say_lease(ahead(MINUTE));
	say(LOST("a-1"));
	say(NOTICE("suspect", "\"lock\":\"a-1\""));
	ck_assert_int_eq(lb_dispatch(lb), LB_OK);
	ck_assert_ptr_null(lb_event_next(lb));
	ck_assert_int_eq(lb_lock_state(lock), LB_LOCK_LOST);
	ck_assert_int_eq(lb_timeout(lb), -1);
	ck_assert_int_eq(lb_verify(lock, 1000), LB_LOST);
	ck_assert_str_eq(heard(), "");
}
END_TEST

/*
 * Neither one that the library lost by itself, nor one that the daemon called lost, nor one given
 * back.
 */
START_TEST(a_newer_word_moves_nothing_that_has_ended)
{
	int64_t until = ahead(LEASE);
	struct lb_lock *lapsed = leased(until), *lost = NULL, *released = NULL, *held = NULL;

	say_granted(2, until + MINUTE);
	ck_assert_int_eq(lb_acquire(lb, "db", NULL, &lost), LB_OK);
	say_granted(3, until + MINUTE);
	ck_assert_int_eq(lb_acquire(lb, "db", NULL, &released), LB_OK);
	say_granted(4, until + MINUTE);
	ck_assert_int_eq(lb_acquire(lb, "db", NULL, &held), LB_OK);
	say("{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{\"lock\":\"a-3\"}}");
	ck_assert_int_eq(lb_release(released, 1000), LB_OK);
	shift += LEASE;
	say(LOST("a-2"));
	ck_assert_int_eq(lb_dispatch(lb), LB_OK);
	ck_assert_int_eq(lb_lock_state(lapsed), LB_LOCK_LOST);
	ck_assert_int_eq(lb_lock_state(lost), LB_LOCK_LOST);
	say_lease(until + 2 * MINUTE);
	ck_assert_int_eq(lb_dispatch(lb), LB_OK);
	ck_assert_int_eq(lb_lock_safe_until(lapsed), until);
	ck_assert_int_eq(lb_lock_safe_until(lost), until + MINUTE);
	ck_assert_int_eq(lb_lock_safe_until(released), until + MINUTE);
	ck_assert_int_eq(lb_lock_safe_until(held), until + 2 * MINUTE);
	ck_assert_int_eq(lb_lock_state(lapsed), LB_LOCK_LOST);
	ck_assert_int_eq(lb_lock_state(lost), LB_LOCK_LOST);
}
END_TEST

/* The daemon may still have the hold: the library sends one release when the program ends its work. */
START_TEST(a_release_after_the_lease_is_sent_but_not_awaited)
{
	struct lb_lock *lock = leased(ahead(LEASE));

	shift += LEASE;
	ck_assert_int_eq(lb_release(lock, LB_FOREVER), LB_LOST);
	ck_assert_ptr_nonnull(strstr(heard(), "\"release\",\"params\":{\"lock\":\"a-1\"}}"));
	ck_assert_int_eq(lb_release(lock, LB_FOREVER), LB_LOST);
	ck_assert_str_eq(heard(), "");
	say("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"lock\":\"a-1\"}}");
	ck_assert_int_eq(lb_dispatch(lb), LB_OK);
	ck_assert_int_eq(lb_lock_state(lock), LB_LOCK_LOST);
}
END_TEST

/* ---- the deadline of an acquire ---- */

/*
 * At the first reads of the clock the grant still comes in time. At the next one it is past the
 * deadline.
 */
START_TEST(a_grant_that_crosses_the_deadline_is_given_back)
{
	struct lb_options options = LB_OPTIONS_INIT;
	struct lb_lock *lock = NULL;
	int code = LB_OK;

	options.timeout_ms = 0;
	for (int reads = 1; code == LB_OK; reads++) {
		client_rig_down();
		up();
		reads_to_stop = reads;
		late = GRANT("1", "a-9");
		lock = NULL;
		code = lb_acquire(lb, "db", &options, &lock);
	}
	ck_assert_int_eq(code, LB_DEADLINE);
	ck_assert_ptr_null(lock);
	ck_assert_ptr_nonnull(
	    strstr(heard(), "\"method\":\"release\",\"params\":{\"lock\":\"a-9\"}}\n"));
	ck_assert_ptr_null(lb_event_next(lb));
}
END_TEST

/* The daemon is silent for longer than the library waits. */
START_TEST(a_late_grant_is_given_back)
{
	struct lb_options options = LB_OPTIONS_INIT;
	struct lb_lock *lock = NULL;

	options.timeout_ms = 1;
	reads_to_stop = 3; /* the deadline is known by then; a later stop would only take longer */
	ck_assert_int_eq(lb_acquire(lb, "db", &options, &lock), LB_DEADLINE);
	/* Withdrawn already: the program need not call again. */
	ck_assert_ptr_nonnull(strstr(heard(), "\"method\":\"cancel\",\"params\":{\"id\":1}}\n"));
	say(GRANT("1", "a-9"));
	ck_assert_int_eq(lb_dispatch(lb), LB_OK);
	ck_assert_ptr_nonnull(
	    strstr(heard(), "\"method\":\"release\",\"params\":{\"lock\":\"a-9\"}}\n"));
	ck_assert_ptr_null(lb_event_next(lb));
	ck_assert_ptr_null(lock);
}
END_TEST

/* A daemon that does not read gets no message: the library ends the connection instead. */
START_TEST(an_acquire_that_cannot_be_withdrawn_ends_the_connection)
{
	struct lb_options options = LB_OPTIONS_INIT;
	struct lb_lock *held = leased(ahead(2 * MINUTE)), *lock = NULL;
	int64_t request;

	options.timeout_ms = 0;
	while ((lb_poll_events(lb) & POLLOUT) == 0) {
		ck_assert_int_eq(lb_call_start(lb, "ping", NULL, &request), LB_OK);
		ck_assert_int_eq(lb_dispatch(lb), LB_OK);
	}
	reads_to_stop = 3;
	ck_assert_int_eq(lb_acquire(lb, "db", &options, &lock), LB_CLOSED);
	ck_assert_int_gt(strlen(lb_message(lb)), 0);
	ck_assert_ptr_null(lock);
	ck_assert_int_eq(lb_fd(lb), -1);
	ck_assert_int_eq(lb_lock_state(held), LB_LOCK_LOST);
	while (*heard() != '\0')
		;
	ck_assert_int_eq(recv(daemon_end, &request, 1, MSG_DONTWAIT), 0);
}
END_TEST

static int
by_state(struct lb_lock *lock)
{
	return lb_lock_state(lock) == LB_LOCK_LOST ? LB_LOST : LB_OK;
}

static int
by_event(struct lb_lock *lock)
{
	(void)lock;
	return lb_event_next(lb) != NULL ? LB_LOST : LB_OK;
}

static int
by_dispatch(struct lb_lock *lock)
{
	ck_assert_int_eq(lb_dispatch(lb), LB_OK);
	return by_event(lock);
}

static int
by_wait(struct lb_lock *lock)
{
	int code = lb_wait(lb, 20);

	ck_assert_int_eq(code, lb_lock_state(lock) == LB_LOCK_LOST ? LB_OK : LB_DEADLINE);
	return by_event(lock);
}

/* Asked, though not answered: it was not lost before. */
static int
by_verify(struct lb_lock *lock)
{
	int code = lb_verify(lock, 20);
	bool asked = strstr(heard(), "\"verify\"") != NULL;

	ck_assert_int_eq(code, asked ? LB_DEADLINE : LB_LOST);
	return asked ? LB_OK : LB_LOST;
}

static int
by_ping(struct lb_lock *lock)
{
	say("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}");
	ck_assert_int_eq(lb_ping(lb, 0, 1000), LB_OK);
	return by_event(lock);
}

static int (*const doors[])(struct lb_lock *lock) = {
    by_state, by_event, by_dispatch, by_wait, by_verify, by_ping};
#define DOORS ((int)(sizeof(doors) / sizeof(doors[0])))

/* Stopped for a minute while the daemon went on: unread input is read before the clock decides. */
START_TEST(an_unread_renewal_keeps_the_hold)
{
	struct lb_lock *lock = leased(ahead(LEASE));

	say_lease(ahead(2 * LEASE));
	say_lease(ahead(MINUTE + LEASE));
	shift += MINUTE;
	ck_assert_int_eq(doors[_i](lock), LB_OK);
	ck_assert_int_eq(lb_lock_state(lock), LB_LOCK_HELD);
}
END_TEST

/* Stopped for a minute, in which the daemon fell silent, too. */
START_TEST(an_unread_renewal_that_is_too_old_renews_nothing)
{
	struct lb_lock *lock = leased(ahead(LEASE));

	say_lease(ahead(2 * LEASE));
	shift += MINUTE;
	ck_assert_int_eq(doors[_i](lock), LB_LOST);
	ck_assert_int_eq(lb_lock_state(lock), LB_LOCK_LOST);
}
END_TEST

/* Wherever in the call this process is stopped. */
START_TEST(an_answer_from_before_a_suspend_is_not_fresh)
{
	struct lb_lock *lock = leased(ahead(LEASE));
	int read_count;

	say_verified(2, ahead(LEASE));
	reads_to_stop = _i;
	ck_assert_int_eq(lb_verify(lock, 1000), LB_LOST);
	read_count = _i - reads_to_stop;
	/* Else the stop came after the call. */
	ck_assert_int_eq(read_count, _i);
}
END_TEST

START_TEST(a_grant_that_was_slept_over_is_a_loss)
{
	struct lb_lock *lock = NULL;
	int64_t request;

	say_granted(1, ahead(LEASE));
	shift += MINUTE;
	ck_assert_int_eq(lb_acquire(lb, "db", NULL, &lock), LB_LOST);
	ck_assert_ptr_null(lock);
	ck_assert_ptr_null(event(LB_EVENT_LOST)->lock);
	ck_assert_int_eq(lb_acquire_start(lb, "db", NULL, &request), LB_OK);
	say_granted(2, ahead(LEASE));
	shift += MINUTE;
	ck_assert_int_eq(lb_wait(lb, 1000), LB_OK);
	ck_assert_int_eq(lb_lock_state(event(LB_EVENT_GRANTED)->lock), LB_LOCK_LOST);
	ck_assert_str_eq(event(LB_EVENT_LOST)->reason, "lease");
}
END_TEST

START_TEST(a_loss_behind_the_grant_is_a_loss)
{
	struct lb_lock *lock = NULL;

	say(GRANT("1", "a-1"));
	say(LOST("a-1"));
	ck_assert_int_eq(lb_acquire(lb, "db", NULL, &lock), LB_LOST);
	ck_assert_ptr_null(lock);
	say(GRANT("2", "a-2"));
	hang_up();
	ck_assert_int_eq(lb_acquire(lb, "db", NULL, &lock), LB_CLOSED);
	ck_assert_ptr_null(lock);
}
END_TEST

/* With a daemon that says nothing. */
START_TEST(waiting_ends_with_the_lease)
{
	int64_t began = client_clock_now();
	struct lb_lock *lock = leased(began + 150);

	ck_assert_int_eq(lb_wait(lb, 10000), LB_OK);
	ck_assert_str_eq(event(LB_EVENT_LOST)->reason, "lease");
	ck_assert_int_ge(client_clock_now(), lb_lock_safe_until(lock));
	ck_assert_int_lt(client_clock_now(), began + 160);
}
END_TEST

START_TEST(verify_is_answered_at_the_end_of_the_lease)
{
	int64_t began = client_clock_now();
	struct lb_lock *lock = leased(began + 150);

	ck_assert_int_eq(lb_verify(lock, 10000), LB_LOST);
	ck_assert_int_ge(client_clock_now(), lb_lock_safe_until(lock));
	ck_assert_int_lt(client_clock_now(), began + 160);
	/* Its answer comes when no call waits for it any more. */
	say_verified(2, ahead(LEASE));
	say("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}");
	ck_assert_int_eq(lb_ping(lb, 0, 1000), LB_OK);
	ck_assert_int_eq(lb_lock_state(lock), LB_LOCK_LOST);
}
END_TEST

static int told;

static void
tell(struct lb *handle, const struct lb_event *next, void *arg)
{
	(void)handle;
	(void)arg;
	ck_assert_int_eq(next->type, LB_EVENT_LOST);
	told++;
}

START_TEST(a_callback_is_told_in_the_middle_of_a_call)
{
	told = 0;
	leased(client_clock_now() + 100);
	lb_set_callback(lb, tell, NULL);
	ck_assert_int_eq(lb_ping(lb, 0, 300), LB_DEADLINE);
	ck_assert_int_eq(told, 1);
}
END_TEST

START_TEST(a_loss_that_a_getter_found_is_reported_by_the_next_dispatch)
{
	struct lb_lock *lock = leased(ahead(LEASE));

	told = 0;
	lb_set_callback(lb, tell, NULL);
	shift += LEASE;
	ck_assert_int_eq(lb_lock_state(lock), LB_LOCK_LOST);
	ck_assert_int_eq(told, 0);
	ck_assert_int_eq(lb_timeout(lb), 0);
	ck_assert_int_eq(lb_dispatch(lb), LB_OK);
	ck_assert_int_eq(told, 1);
	ck_assert_int_eq(lb_timeout(lb), -1);
}
END_TEST

START_TEST(timeout_is_what_is_left)
{
	int64_t until;
	int left;

	ck_assert_int_eq(lb_timeout(lb), -1);
	until = ahead(LEASE);
	leased(until);
	left = lb_timeout(lb);
	ck_assert_int_gt(left, LEASE - 3000);
	ck_assert_int_le(left, LEASE);
	say_lease(until + 2 * MINUTE);
	ck_assert_int_eq(lb_dispatch(lb), LB_OK);
	ck_assert_int_eq(lb_timeout(lb), MINUTE);
	shift += 3 * MINUTE;
	ck_assert_int_eq(lb_timeout(lb), 0);
	ck_assert_int_eq(lb_dispatch(lb), LB_OK);
	ck_assert_int_eq(lb_timeout(lb), -1);
	event(LB_EVENT_LOST);
}
END_TEST

/* A lock that is being released protects nothing any more. */
START_TEST(a_release_is_no_loss_if_the_lease_ends_meanwhile)
{
	struct lb_lock *lock = leased(client_clock_now() + 100);

	ck_assert_int_eq(lb_release(lock, 200), LB_DEADLINE);
	ck_assert_int_eq(lb_lock_state(lock), LB_LOCK_LOST);
}
END_TEST

START_TEST(a_release_is_done_though_the_lease_ended_meanwhile)
{
	struct lb_lock *lock = leased(ahead(LEASE));

	say("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"lock\":\"a-1\"}}");
	reads_to_stop = 2;
	ck_assert_int_eq(lb_release(lock, LB_FOREVER), LB_OK);
	ck_assert_int_eq(shift, MINUTE);
	ck_assert_int_eq(lb_lock_state(lock), LB_LOCK_RELEASED);
	ck_assert_ptr_null(lb_event_next(lb));
}
END_TEST

START_TEST(suspect_and_restored)
{
	struct lb_lock *lock = leased(ahead(LEASE));

	say(NOTICE("suspect", "\"lock\":\"a-1\""));
	ck_assert_int_eq(lb_dispatch(lb), LB_OK);
	ck_assert_ptr_eq(event(LB_EVENT_SUSPECT)->lock, lock);
	say(NOTICE("restored", "\"lock\":\"a-1\""));
	say(NOTICE("suspect", "\"lock\":\"a-1\""));
	say(NOTICE("suspect", "\"lock\":\"another\""));
	say(NOTICE("restored", "\"lock\":\"a-1\""));
	ck_assert_int_eq(lb_dispatch(lb), LB_OK);
	ck_assert_ptr_eq(event(LB_EVENT_RESTORED)->lock, lock);
	ck_assert_ptr_null(lb_event_next(lb));
	ck_assert_int_eq(lb_lock_state(lock), LB_LOCK_HELD);
}
END_TEST

/* ---- an eviction ---- */

static void
say_evicted(const char *lock, int64_t deadline, const char *more)
{
	char line[400];

	snprintf(line, sizeof(line),
	    NOTICE("evicted", "\"lock\":\"%s\",\"name\":\"db\",\"slot\":2,\"deadline\":%.3f,"
			      "\"uid\":7,\"host\":\"h\"%s"),
	    lock, (double)deadline / 1000, more);
	say(line);
	ck_assert_int_eq(lb_dispatch(lb), LB_OK);
}

START_TEST(an_eviction_ends_the_hold_at_its_deadline)
{
	int64_t until = ahead(LEASE), deadline = until + 2000;
	struct lb_lock *lock = leased(until);
	const struct lb_event *next;

	say_evicted("a-1", deadline, ",\"why\":\"rescue\"");
	next = event(LB_EVENT_EVICTED);
	ck_assert_ptr_eq(next->lock, lock);
	ck_assert_int_eq(next->code, LB_OK);
	ck_assert_str_eq(next->reason, "evicted");
	ck_assert_str_eq(next->text, "evicted by uid 7 on h: rescue");
	ck_assert_int_eq(next->grace_ms, deadline - client_clock_now());
	ck_assert_ptr_nonnull(strstr(next->json, "\"why\":\"rescue\""));
	ck_assert_int_eq(lb_lock_safe_until(lock), until);
	say_lease(until + MINUTE);
	ck_assert_int_eq(lb_dispatch(lb), LB_OK);
	ck_assert_int_eq(lb_lock_safe_until(lock), deadline);
	say_verified(2, until + MINUTE);
	ck_assert_int_eq(lb_verify(lock, 1000), LB_OK);
	ck_assert_int_eq(lb_lock_safe_until(lock), deadline);
	ck_assert_int_eq(lb_lock_state(lock), LB_LOCK_HELD);
	shift += LEASE + 2000;
	next = event(LB_EVENT_LOST);
	ck_assert_str_eq(next->reason, "evicted");
	ck_assert_ptr_nonnull(strstr(next->json, "\"reason\":\"evicted\""));
	ck_assert_int_eq(lb_lock_state(lock), LB_LOCK_LOST);
}
END_TEST

START_TEST(a_second_eviction_moves_the_deadline_only_to_an_earlier_time)
{
	int64_t until = ahead(MINUTE);
	struct lb_lock *lock = leased(until);

	say_evicted("a-1", until - 2000, "");
	ck_assert_str_eq(event(LB_EVENT_EVICTED)->text, "evicted by uid 7 on h");
	say_evicted("a-1", until - 2000, "");
	say_evicted("a-1", until - 1000, ",\"why\":null");
	ck_assert_ptr_null(lb_event_next(lb));
	ck_assert_int_eq(lb_lock_safe_until(lock), until - 2000);
	/* Of two that the program has not taken, it gets the newer one. */
	say_evicted("a-1", until - 3000, "");
	say_evicted("a-1", until - 4000, "");
	ck_assert_int_le(event(LB_EVENT_EVICTED)->grace_ms, MINUTE - 4000);
	ck_assert_ptr_null(lb_event_next(lb));
	ck_assert_int_eq(lb_lock_safe_until(lock), until - 4000);
}
END_TEST

/* A hold that an administrator granted has no lease. The deadline of its eviction is all that it has. */
START_TEST(a_hold_without_a_lease_has_the_deadline)
{
	int64_t deadline = ahead(LEASE);
	struct lb_lock *lock = acquired();

	say_evicted("another", deadline - 5000, "");
	ck_assert_ptr_null(lb_event_next(lb));
	say_evicted("a-1", deadline, "");
	event(LB_EVENT_EVICTED);
	ck_assert_int_eq(lb_lock_safe_until(lock), deadline);
	say(NOTICE("lost", "\"lock\":\"a-1\",\"name\":\"db\",\"slot\":2,\"reason\":\"evicted\","
			   "\"why\":\"evicted by uid 7 on h\""));
	ck_assert_int_eq(lb_dispatch(lb), LB_OK);
	ck_assert_str_eq(event(LB_EVENT_LOST)->reason, "evicted");
	say_evicted("a-1", deadline - 5000, "");
	ck_assert_ptr_null(lb_event_next(lb));
}
END_TEST

/* In another time namespace the deadline is that of another clock. The grace is not. */
START_TEST(another_clock_does_not_move_the_deadline)
{
	struct lb_lock *lock = leased(ahead(MINUTE));

	say_evicted("a-1", ahead(1500000), ",\"grace\":8");
	ck_assert_int_le(event(LB_EVENT_EVICTED)->grace_ms, 8000);
	ck_assert_int_le(lb_lock_safe_until(lock), client_clock_now() + 8000);
	say(NOTICE("evicted", "\"lock\":\"a-1\",\"deadline\":null"));
	ck_assert_int_eq(lb_dispatch(lb), LB_BAD_ANSWER);
}
END_TEST

START_TEST(no_time_is_no_answer)
{
	struct lb_lock *lock = NULL;

	leased(ahead(LEASE));
	say("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"lock\":\"a-2\",\"name\":\"db\",\"slot\":1,"
	    "\"safe_until\":\"soon\"}}");
	ck_assert_int_eq(lb_acquire(lb, "db", NULL, &lock), LB_BAD_ANSWER);
	ck_assert_int_eq(lb_fd(lb), -1);
	ck_assert_str_eq(event(LB_EVENT_LOST)->reason, "closed");
}
END_TEST

static Suite *
lease_suite(void)
{
	Suite *suite = suite_create("lease");
	TCase *tcase = tcase_create("lease");

	tcase_set_timeout(tcase, 120);
	tcase_add_checked_fixture(tcase, up, client_rig_down);
	tcase_add_test(tcase, another_clock_does_not_extend_the_lease);
	tcase_add_test(tcase, the_newest_word_counts);
	tcase_add_test(tcase, a_suspect_lock_is_not_extended_with_the_others);
	tcase_add_test(tcase, the_end_of_the_lease_is_a_loss_for_good);
	tcase_add_test(tcase, a_newer_word_moves_nothing_that_has_ended);
	tcase_add_test(tcase, a_release_after_the_lease_is_sent_but_not_awaited);
	tcase_add_loop_test(tcase, an_unread_renewal_keeps_the_hold, 0, DOORS);
	tcase_add_loop_test(tcase, an_unread_renewal_that_is_too_old_renews_nothing, 0, DOORS);
	tcase_add_loop_test(tcase, an_answer_from_before_a_suspend_is_not_fresh, 2, 5);
	tcase_add_test(tcase, a_grant_that_was_slept_over_is_a_loss);
	tcase_add_test(tcase, a_loss_behind_the_grant_is_a_loss);
	tcase_add_test(tcase, a_grant_that_crosses_the_deadline_is_given_back);
	tcase_add_test(tcase, a_late_grant_is_given_back);
	tcase_add_test(tcase, an_acquire_that_cannot_be_withdrawn_ends_the_connection);
	tcase_add_test(tcase, waiting_ends_with_the_lease);
	tcase_add_test(tcase, verify_is_answered_at_the_end_of_the_lease);
	tcase_add_test(tcase, a_callback_is_told_in_the_middle_of_a_call);
	tcase_add_test(tcase, a_loss_that_a_getter_found_is_reported_by_the_next_dispatch);
	tcase_add_test(tcase, timeout_is_what_is_left);
	tcase_add_test(tcase, a_release_is_no_loss_if_the_lease_ends_meanwhile);
	tcase_add_test(tcase, a_release_is_done_though_the_lease_ended_meanwhile);
	tcase_add_test(tcase, suspect_and_restored);
	tcase_add_test(tcase, an_eviction_ends_the_hold_at_its_deadline);
	tcase_add_test(tcase, a_second_eviction_moves_the_deadline_only_to_an_earlier_time);
	tcase_add_test(tcase, a_hold_without_a_lease_has_the_deadline);
	tcase_add_test(tcase, another_clock_does_not_move_the_deadline);
	tcase_add_test(tcase, no_time_is_no_answer);
	suite_add_tcase(suite, tcase);
	return suite;
}

int
main(void)
{
	Suite *(*const makers[])(void) = {lease_suite};

	return unit_run(makers, 1);
}
