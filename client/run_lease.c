#include "client/run_lease.h"

#include <stdio.h>
#include <time.h>

#include "client/tool/output.h"

/* The default of --kill-after: a part of the heartbeat that the grant names, with an upper end. */
#define KILL_AFTER_TENTHS 4
#define KILL_AFTER_MOST_MS 5000
#define KILL_AFTER_NO_LEASE_MS 4000
/*
 * The time that must be left before TERM: the daemon's interval of requests to the broker, and the
 * time of an answer. The interval is a part of the heartbeat, and by quorum of the lease.
 */
#define ASKING_PARTS 3
#define RENEWALS 5
#define ANSWER_MS 1000

int64_t
run_lease_kill_after(const struct tool_options *options, const struct lb_lock *lock)
{
	int64_t heartbeat = lb_lock_heartbeat(lock);

	if (options->kill_after_ms >= 0)
		return options->kill_after_ms;
	if (heartbeat == 0)
		return KILL_AFTER_NO_LEASE_MS;
	heartbeat = heartbeat * KILL_AFTER_TENTHS / 10;
	return heartbeat < KILL_AFTER_MOST_MS ? heartbeat : KILL_AFTER_MOST_MS;
}

static double
seconds(int64_t ms)
{
	return (double)ms / 1000;
}

bool
run_lease_suffices(const struct tool_options *options, const struct lb_lock *lock)
{
	int64_t heartbeat = lb_lock_heartbeat(lock), lease = lb_lock_lease(lock);
	int64_t kill_after = run_lease_kill_after(options, lock);
	int64_t whole = lease - RUN_LEASE_RESERVE_MS;
	bool by_quorum = lb_lock_fence(lock) != 0;
	int64_t asking = by_quorum ? lease / RENEWALS : heartbeat / ASKING_PARTS;
	int64_t needed = asking + ANSWER_MS;

	if (options->on_lost.kind != REACTION_KILL || lb_lock_safe_until(lock) < 0 ||
	    whole - kill_after >= needed)
		return true;
	say("%s: too little time to end a command: %g (lease) - %g (kill-after) - %g = %.3f s, "
	    "needed: %g (%s) / %d + %g = %.3f s",
	    lb_lock_name(lock), seconds(lease), seconds(kill_after), seconds(RUN_LEASE_RESERVE_MS),
	    seconds(whole - kill_after), seconds(by_quorum ? lease : heartbeat),
	    by_quorum ? "lease" : "heartbeat", by_quorum ? RENEWALS : ASKING_PARTS,
	    seconds(ANSWER_MS), seconds(needed));
	if (by_quorum && (whole < needed || options->kill_after_ms < 0))
		say("the grace of the semaphore is too short (create --takeover-grace)");
	else if (whole < needed || options->kill_after_ms < 0)
		say("the heartbeat of lockbrokerd is too short, or its margin is too long");
	if (whole >= needed)
		say("use a --kill-after of at most %.3f s", seconds(whole - needed));
	return false;
}

void
run_lease_say_over(
    const struct tool_options *options, const struct lb_lock *lock, bool suspect, int64_t now)
{
	int64_t silent = now - (lb_lock_safe_until(lock) - lb_lock_lease(lock));
	time_t since = time(NULL) - (time_t)(silent / 1000);
	char clock[16] = "?", json[256];
	struct tm parts;

	if (localtime_r(&since, &parts) != NULL)
		strftime(clock, sizeof(clock), "%H:%M:%S", &parts);
	snprintf(json, sizeof(json), "{\"lock\":\"%s\",\"reason\":\"lease\",\"silent\":%.3f}",
	    lb_lock_id(lock), seconds(silent));
	status_line(options, "ending", json);
	say_in_passing(
	    suspect ? "%s: the broker has not answered since %s (%.1f s): ending the command "
		      "before the slot can have another holder"
		    : "%s: lockbrokerd has not renewed the lease since %s (%.1f s): ending the "
		      "command before the slot can have another holder",
	    lb_lock_name(lock), clock, seconds(silent));
}
