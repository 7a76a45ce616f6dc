#include "tests/unit/test_lock.h"
#include "tests/unit/unit.h"

#include <unistd.h>

/* Seconds. Check's own timeout needs a process for each test. */
#define DEADLINE 600

int
main(void)
{
	Suite *(*const makers[])(void) = {suite_lock_acquire, suite_lock_limits,
	    suite_lock_local_queue, suite_lock_markers, suite_lock_missing, suite_lock_lifecycle,
	    suite_lock_consumer, suite_lock_suspect, suite_lock_quorum, suite_lock_quorum_ends,
	    suite_lock_quorum_removed, suite_lock_quorum_successor, suite_lock_quorum_mutex,
	    suite_lock_lease, suite_lock_mutex, suite_lock_holder_wait, suite_lock_fsck,
	    suite_lock_fsck_quorum, suite_lock_list, suite_lock_admin, suite_lock_plan,
	    suite_lock_pollers, suite_lock_rescan, suite_lock_resize, suite_lock_rows,
	    suite_lock_cut, suite_lock_directory, suite_lock_progress, suite_lock_wait,
	    suite_lock_handoff, suite_lock_evict, suite_lock_watch, suite_lock_channels,
	    suite_lock_flight, suite_lock_claims, suite_lock_convert, suite_lock_convert_quorum,
	    suite_lock_successor, suite_lock_used_mutexes};

	/*
	 * All tests in one process: 700 forks, each with a leak check, take longer than the tests.
	 * A crash ends the program. With CK_FORK=yes each test has a process of its own.
	 */
	setenv("CK_FORK", "no", 0);
	alarm(DEADLINE);
	return unit_run(makers, sizeof(makers) / sizeof(makers[0]));
}
