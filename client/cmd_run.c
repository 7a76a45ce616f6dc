/*
 * lockbroker run: a command under a lock. Owns the connection, the child, and the time at which
 * KILL follows TERM. It acts before it prints, and never waits for a reader.
 */
#include "client/commands.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/exit_status.h"
#include "client/private_daemon.h"
#include "client/run_child.h"
#include "client/run_lease.h"
#include "client/tool/output.h"
#include "client/tool/waiting.h"
#include "client/tool/watch.h"
#include "daemon/base/notify.h"

#define RELEASE_TIMEOUT_MS 5000
/* KILL comes this long before an orderly stopped daemon's patience ends, or a quarter of it. */
#define DRAIN_RESERVE_MS 1000
/* Processes that the child leaves behind have this time to end before they are reported. */
#define LEFT_BEHIND_MS 1000
/* Bytes of the command line that others can read; the wire takes 256. */
#define WORDS_SIZE 256

enum run_state {
	RUN_GOING,  /* the child runs, and nothing is wrong with the lock */
	RUN_ENDING, /* it was told to end; KILL follows at kill_at */
	RUN_KILLING /* KILL was sent; processes found later get it, too */
};

struct run {
	const struct options *options; /* borrowed */
	const char *name;              /* borrowed */
	struct lb *lb;                 /* owned */
	struct lb_lock *lock;          /* the handle's */
	struct signals signals;
	struct child child;
	enum run_state state;
	int64_t told_at, kill_at; /* RUN_ENDING */
	int64_t kill_after_ms;
	bool lease_over; /* a signal was sent because no newer lease came */
	int64_t left_at; /* when to report processes left behind; 0: the child runs; NEVER: done */
	int verdict;     /* exit status instead of the child's own; 0 = none */
};

static void
run_set_state(struct run *run, enum run_state state)
{
	assert(state > run->state || (state == RUN_ENDING && run->state == RUN_ENDING));
	run->state = state;
}

/* ---- the ladder: a signal, then KILL ---- */

static void
end_by(struct run *run, int64_t kill_at)
{
	int64_t now = watch_now();

	if (run->state == RUN_KILLING)
		return;
	if (run->state == RUN_GOING) {
		child_signal_all(&run->child, run->options->signal);
		/* A stopped process cannot handle TERM. */
		child_signal_all(&run->child, SIGCONT);
		run->told_at = now;
		run->kill_at = WATCH_NEVER;
	}
	run_set_state(run, RUN_ENDING);
	if (kill_at < run->kill_at)
		run->kill_at = kill_at;
}

/* At once, and KILL kill_after later: counted from the first signal, if one was sent before. */
static void
end_now(struct run *run)
{
	int64_t from = run->state == RUN_ENDING ? run->told_at : watch_now();

	end_by(run, from + run->kill_after_ms);
}

static void
kill_when_due(struct run *run)
{
	if (run->state == RUN_ENDING && watch_now() >= run->kill_at)
		run_set_state(run, RUN_KILLING);
	/* Again after each end: see supervise(). */
	if (run->state == RUN_KILLING)
		child_signal_all(&run->child, SIGKILL);
}

static void
react(struct run *run, const struct reaction *reaction)
{
	switch (reaction->kind) {
	case REACTION_KILL:
		end_now(run);
		break;
	case REACTION_SIGNAL:
		child_signal_all(&run->child, reaction->signal);
		break;
	case REACTION_RUN:
		child_shell(reaction->command, &run->signals);
		break;
	case REACTION_IGNORE:
		break;
	}
}

/* ---- the lease ---- */

/* When it demands the next signal, as far as is known: run_lease.h has the picture. */
static int64_t
lease_step_at(const struct run *run)
{
	int64_t safe_until = lb_lock_safe_until(run->lock);

	/* Once it is lost, lost() sees to it. */
	if (run->options->on_lost.kind != REACTION_KILL || safe_until < 0 ||
	    lb_lock_state(run->lock) == LB_LOCK_LOST)
		return WATCH_NEVER;
	switch (run->state) {
	case RUN_GOING:
		return safe_until - RUN_LEASE_RESERVE_MS - run->kill_after_ms;
	case RUN_ENDING:
		return safe_until - RUN_LEASE_RESERVE_MS;
	case RUN_KILLING:
		break;
	}
	return WATCH_NEVER;
}

/*
 * Ends the child before the lease is over. A newer lease that comes after the signal does not take
 * back the signal, nor KILL, which comes kill-after later.
 */
static void
keep_lease(struct run *run)
{
	if (watch_now() < lease_step_at(run))
		return;
	/*
	 * A newer lease may be unread, for example after this process was stopped. Errors come as
	 * LOST.
	 */
	(void)lb_dispatch(run->lb);
	if (watch_now() < lease_step_at(run))
		return;
	end_by(run, lb_lock_safe_until(run->lock) - RUN_LEASE_RESERVE_MS);
	run->verdict = EXIT_STATUS_LOST;
	if (!run->lease_over)
		run_lease_say_over(run->options, run->lock, watch_now());
	run->lease_over = true;
}

/* ---- events of the daemon ---- */

/* The slot is free for others already, or, when the lease has ended it, may soon be. */
static void
lost(struct run *run, const struct lb_event *event)
{
	if (event->lock != run->lock)
		return;
	run->verdict = EXIT_STATUS_LOST;
	/* We woke too late for what keep_lease() does: the time for KILL is past. */
	if (run->options->on_lost.kind == REACTION_KILL && strcmp(event->reason, "lease") == 0)
		end_by(run, watch_now());
	else
		react(run, &run->options->on_lost);
	status_line(run->options, "lost", event->json);
	say_lost(run->name, event);
}

/* Whether the broker answers. Nothing is to be done about it: the lease says when. */
static void
suspect(struct run *run, const struct lb_event *event)
{
	bool silent = event->type == LB_EVENT_SUSPECT;

	status_line(run->options, silent ? "suspect" : "restored", event->json);
	say_holding(run->name, silent);
	if (run->options->verbose)
		say_in_passing(
		    "%s: the broker %s", run->name, silent ? "does not answer" : "answers again");
}

static void
revoked(struct run *run, const struct lb_event *event)
{
	const struct reaction *reaction = &run->options->on_revoke;

	if (event->lock != run->lock)
		return;
	if (reaction->kind != REACTION_IGNORE && run->verdict == 0)
		run->verdict = EXIT_STATUS_REVOKED;
	react(run, reaction);
	status_line(run->options, "revoked", event->json);
	/* With --on-revoke=ignore the user does not want this message. */
	if (reaction->kind != REACTION_IGNORE || run->options->verbose ||
	    isatty(STDERR_FILENO) == 1)
		say_in_passing(
		    "%s: the slot was removed, and is kept until the lock is released", run->name);
}

/*
 * The daemon stops and keeps the slot for grace_ms. If all processes end by then, nothing is lost,
 * so the child has that time. If the reaction to a loss is not to kill, this does not kill either.
 */
static void
draining(struct run *run, const struct lb_event *event)
{
	int64_t reserve =
	    event->grace_ms / 4 < DRAIN_RESERVE_MS ? event->grace_ms / 4 : DRAIN_RESERVE_MS;

	if (run->options->on_lost.kind == REACTION_KILL)
		end_by(run, watch_in(event->grace_ms - reserve));
	else if (run->options->on_lost.kind == REACTION_SIGNAL)
		react(run, &run->options->on_lost);
	status_line(run->options, "draining", event->json);
	say_in_passing("%s: lockbrokerd is stopping", run->name);
}

/* After LOST. */
static void
closed(struct run *run, const struct lb_event *event)
{
	if (run->options->verbose)
		say_in_passing("%s: %s", run->name, event->text);
}

static void
broker(struct run *run, const struct lb_event *event)
{
	if (run->options->verbose)
		say_in_passing("%s: %s", run->name, broker_words(event->reason));
}

/* By the type of the event; of others there is nothing to do. */
static void (*const handlers[])(struct run *run, const struct lb_event *event) = {
    [LB_EVENT_LOST] = lost,
    [LB_EVENT_REVOKED] = revoked,
    [LB_EVENT_DRAINING] = draining,
    [LB_EVENT_SUSPECT] = suspect,
    [LB_EVENT_RESTORED] = suspect,
    [LB_EVENT_CLOSED] = closed,
    [LB_EVENT_BROKER] = broker,
};

static void
heed(struct run *run)
{
	const struct lb_event *event;

	while ((event = lb_event_next(run->lb)) != NULL)
		if (event->type < sizeof(handlers) / sizeof(handlers[0]) &&
		    handlers[event->type] != NULL)
			handlers[event->type](run, event);
}

/* ---- while the child runs ---- */

static void
heed_signals(struct run *run)
{
	bool terminal;
	int signo;

	while ((signo = signals_next(&run->signals, &terminal)) != 0) {
		if (signo == SIGCHLD)
			continue;
		/* In one group with us, the child has had it from the terminal too. */
		if (terminal && run->options->foreground)
			continue;
		child_signal(&run->child, signo);
	}
}

/* The command has ended, and the lock stays for those that it left behind: not in silence. */
static void
tell_left_behind(struct run *run)
{
	char json[32];
	int count;

	if (run->child.pid != 0)
		return;
	if (run->left_at == 0)
		run->left_at = watch_in(LEFT_BEHIND_MS);
	if (watch_now() < run->left_at)
		return;
	run->left_at = WATCH_NEVER;
	count = child_left_behind(&run->child);
	snprintf(json, sizeof(json), "{\"processes\":%d}", count);
	status_line(run->options, "left-behind", json);
	if (run->options->verbose || isatty(STDERR_FILENO) == 1)
		say_in_passing("%s: waiting for %d process%s that the command started", run->name,
		    count, count == 1 ? "" : "es");
}

static void
act_on_time(struct run *run)
{
	keep_lease(run);
	heed(run);
	kill_when_due(run);
}

static int64_t
wake_at(const struct run *run)
{
	int64_t at = lease_step_at(run);

	if (run->state == RUN_ENDING && run->kill_at < at)
		at = run->kill_at;
	return run->left_at != 0 && run->left_at < at ? run->left_at : at;
}

/* Until everything that was started is gone. */
static void
supervise(struct run *run)
{
	const struct watch watch = {.lb = run->lb, .signals = &run->signals, .input = -1};

	for (;;) {
		enum child_news news;

		/* The clock first: any time may have passed, if this process was stopped. */
		act_on_time(run);
		/*
		 * A SIGCHLD is read before its child is reaped, or the last one would go unnoticed.
		 */
		heed_signals(run);
		news = child_reap(&run->child);
		if (news == CHILD_ALL_GONE)
			return;
		if (news == CHILD_STOPPED && run->state == RUN_GOING) {
			child_stop_with(&run->child);
			act_on_time(run);
			child_go_on(&run->child);
		}
		/* The children of what was just reaped have become ours. */
		kill_when_due(run);
		tell_left_behind(run);
		watch_sleep(&watch, wake_at(run));
	}
}

static void
give_back(struct run *run)
{
	int code;

	/*
	 * When nobody has answered for so long, nobody is waited for: the end of the connection
	 * does it.
	 */
	if (run->lease_over || lb_lock_state(run->lock) == LB_LOCK_LOST)
		return;
	code = lb_release(run->lock, RELEASE_TIMEOUT_MS);
	/* It says so only now, but it was lost while the child still worked. */
	if (code == LB_LOST)
		run->verdict = EXIT_STATUS_LOST;
	if (code == LB_OK)
		status_line(run->options, "released", lb_result_json(run->lb));
	else
		say_in_passing("%s: release: %s", run->name, lb_message(run->lb));
}

/* ---- before ---- */

static bool
set_environment(const struct run *run)
{
	const char *path = lb_socket_path(run->lb);
	char slot[16] = "", whole[PATH_MAX];

	if (lb_lock_slot(run->lock) > 0)
		snprintf(slot, sizeof(slot), "%d", lb_lock_slot(run->lock));
	/* The child may go elsewhere. */
	if (realpath(path, whole) != NULL)
		path = whole;
	return setenv("LOCKBROKER_NAME", run->name, 1) == 0 &&
	       setenv("LOCKBROKER_SLOT", slot, 1) == 0 &&
	       setenv("LOCKBROKER_LOCK", lb_lock_id(run->lock), 1) == 0 &&
	       setenv("LOCKBROKER_SOCKET", path, 1) == 0;
}

/* The command line as one text, cut to what the wire takes. */
static void
join_words(char *const argv[], char words[WORDS_SIZE])
{
	size_t len = 0;

	for (size_t i = 0; argv[i] != NULL && len < WORDS_SIZE - 1; i++) {
		const char *space = i > 0 ? " " : "";

		len += (size_t)snprintf(words + len, WORDS_SIZE - len, "%s%s", space, argv[i]);
	}
	/* Plain ASCII: cut anywhere, it is whole, and no byte grows on its way. */
	for (char *byte = words; *byte != '\0'; byte++)
		if (*byte < ' ' || *byte > '~')
			*byte = '?';
}

/* Waiting for what the outer run holds may take for ever. */
static void
warn_when_inside(const struct run *run)
{
	const char *outer = getenv("LOCKBROKER_NAME");

	if (outer != NULL && strcmp(outer, run->name) == 0 && run->options->wait_ms != 0)
		say("%s: this command runs under a lockbroker run that holds a slot of the same "
		    "lock",
		    run->name);
}

static int
run_locked(struct run *run, char *argv[])
{
	char words[WORDS_SIZE];
	int status;

	join_words(argv, words);
	warn_when_inside(run);
	status =
	    waiting_acquire(run->lb, run->options, run->name, words, -1, &run->signals, &run->lock);
	if (run->lock == NULL)
		return status;
	status_line(run->options, "granted", lb_lock_json(run->lock));
	if (!run_lease_suffices(run->options, run->lock)) {
		give_back(run);
		return EXIT_STATUS_USAGE;
	}
	say_holding(run->name, false);
	/*
	 * It may wait for room, so it is said while nothing runs yet that could have to be ended.
	 */
	notify_ready();
	if (run->options->verbose)
		say_in_passing("%s: granted after %.3f s", run->name,
		    (double)lb_lock_waited(run->lock) / 1000);
	run->kill_after_ms = run_lease_kill_after(run->options, run->lock);
	if (!set_environment(run))
		return EXIT_STATUS_INTERNAL;
	/* Where the lock got lost on the way here, nothing is started. */
	if (lb_lock_state(run->lock) == LB_LOCK_LOST) {
		say("%s: lost before the command was started", run->name);
		return EXIT_STATUS_LOST;
	}
	if (!child_start(&run->child, argv, run->options->foreground, &run->signals))
		return EXIT_STATUS_INTERNAL;
	supervise(run);
	child_done(&run->child);
	give_back(run);
	return run->verdict != 0 ? run->verdict : run->child.status;
}

/* COMMAND and its arguments, or the shell with -c; NULL after telling what is wrong. */
static char **
choose_command(const struct options *options, char *operands[], char *shell[4])
{
	char **command = operands + 1;

	if (*command != NULL && strcmp(*command, "--") == 0)
		command++;
	if (options->shell_command != NULL) {
		if (*command != NULL) {
			say("run: -c STRING and COMMAND exclude each other");
			return NULL;
		}
		shell[0] = "/bin/sh";
		shell[1] = "-c";
		shell[2] = (char *)options->shell_command;
		shell[3] = NULL;
		return shell;
	}
	if (*command == NULL) {
		say("run: missing COMMAND (see lockbroker run --help)");
		return NULL;
	}
	return command;
}

int
cmd_run(const struct options *options, char *operands[])
{
	struct run run = {.options = options, .name = operands[0], .lb = NULL};
	char *shell[4], exit_json[32];
	char **argv = choose_command(options, operands, shell);
	int status;

	if (argv == NULL)
		return EXIT_STATUS_USAGE;
	if (options->broker_file != NULL || options->broker_env != NULL)
		return private_daemon_around(options, operands, cmd_run);
	run.lb = lb_new();
	if (run.lb == NULL)
		return say_failure(NULL, LB_NO_MEMORY, options, run.name);
	status = run_locked(&run, argv);
	snprintf(exit_json, sizeof(exit_json), "{\"status\":%d}", status);
	status_line(options, "exit", exit_json);
	lb_free(run.lb);
	return status;
}
