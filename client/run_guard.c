#include "client/run_guard.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/exit_status.h"
#include "client/run_lease.h"
#include "client/run_tree.h"
#include "client/tool/output.h"
#include "client/tool/watch.h"

#define RELEASE_TIMEOUT_MS 5000
/* KILL comes this long before an orderly stopped daemon's patience ends, or a quarter of it. */
#define DRAIN_RESERVE_MS 1000
/* Processes that COMMAND leaves behind have this time to end before they are reported. */
#define LEFT_BEHIND_MS 1000
/* Bytes of their names. */
#define NAMES_SIZE 256

enum guard_state {
	GUARD_GOING,  /* COMMAND runs, and nothing is wrong with the lock */
	GUARD_ENDING, /* it was told to end; KILL follows at kill_at */
	GUARD_KILLING /* KILL was sent; processes found later get it, too */
};

struct guard {
	const struct guard_task *task;
	const struct tool_options *options; /* of the task */
	int run;                            /* the socket to `run` */
	pid_t group;                        /* the process group of `run` */
	pid_t command;                      /* 0: reaped */
	int ended;                          /* its status (wait(2)), when it is reaped */
	bool childless;
	enum guard_state state;
	int64_t told_at, kill_at; /* GUARD_ENDING */
	int64_t kill_after_ms;
	bool lease_over;  /* a signal was sent because no newer lease came */
	bool suspect;     /* the daemon said that the broker does not answer */
	bool foreign;     /* it was said that a process cannot be ended */
	int64_t evict_at; /* when an administrator ends the hold; 0: never */
	int64_t left_at;  /* when to report processes left behind; 0: COMMAND runs; NEVER: done */
	int verdict;      /* exit status instead of COMMAND's own; 0 = none */
};

static void
guard_set_state(struct guard *guard, enum guard_state state)
{
	assert(state > guard->state || (state == GUARD_ENDING && guard->state == GUARD_ENDING));
	guard->state = state;
}

static const char *
guard_name(const struct guard *guard)
{
	return guard->task->name;
}

static void
tell_run(const struct guard *guard, const struct guard_word *word, int flags)
{
	(void)send(guard->run, word, sizeof(*word), flags | MSG_NOSIGNAL);
}

/* COMMAND was stopped. If it was alone, as `suspend` of a shell stops it, `run` stops for its shell. */
static void
tell_stopped(const struct guard *guard, int signo)
{
	const struct guard_word word = {.kind = GUARD_STOPPED, .command = guard->command};

	if (signo == SIGTSTP || signo == SIGTTIN || signo == SIGTTOU)
		tell_run(guard, &word, MSG_DONTWAIT);
}

/* Reaps all that have ended. The orphans of what it reaps have become children of this process. */
static void
reap(struct guard *guard)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		if (pid != guard->command)
			continue;
		if (WIFSTOPPED(status)) {
			tell_stopped(guard, WSTOPSIG(status));
			continue;
		}
		guard->command = 0;
		guard->ended = status;
	}
	guard->childless = pid < 0 && errno == ECHILD;
}

/* ---- the ladder: a signal, then KILL ---- */

static void
end_by(struct guard *guard, int64_t kill_at)
{
	if (guard->state == GUARD_KILLING)
		return;
	if (guard->state == GUARD_GOING) {
		tree_signal(guard->command, guard->options->signal, 0, 0);
		/* A stopped process cannot handle TERM. */
		tree_signal(guard->command, SIGCONT, 0, 0);
		guard->told_at = watch_now();
		guard->kill_at = WATCH_NEVER;
	}
	guard_set_state(guard, GUARD_ENDING);
	if (kill_at < guard->kill_at)
		guard->kill_at = kill_at;
}

/* At once, and KILL kill_after later: counted from the first signal, if one was sent before. */
static void
end_now(struct guard *guard)
{
	int64_t from = guard->state == GUARD_ENDING ? guard->told_at : watch_now();

	end_by(guard, from + guard->kill_after_ms);
}

static void
kill_when_due(struct guard *guard)
{
	pid_t foreign;

	if (guard->state == GUARD_ENDING && watch_now() >= guard->kill_at) {
		guard_set_state(guard, GUARD_KILLING);
		if (guard->evict_at != 0 && lb_lock_state(guard->task->lock) != LB_LOCK_LOST)
			say_in_passing(
			    "%s: killing the command before the slot can have another holder",
			    guard_name(guard));
	}
	if (guard->state != GUARD_KILLING)
		return;
	/* Again after each end: see supervise(). */
	foreign = tree_kill(guard->command, 0);
	if (foreign != 0 && !guard->foreign)
		say_in_passing("%s: process %d runs as another user, and was not ended",
		    guard_name(guard), (int)foreign);
	guard->foreign |= foreign != 0;
}

static void
react(struct guard *guard, const struct reaction *reaction)
{
	char *shell[] = {"/bin/sh", "-c", (char *)reaction->command, NULL};

	switch (reaction->kind) {
	case REACTION_KILL:
		end_now(guard);
		break;
	case REACTION_SIGNAL:
		tree_signal(guard->command, reaction->signal, 0, 0);
		break;
	case REACTION_RUN:
		(void)tree_start(shell, guard->task->signals);
		break;
	case REACTION_IGNORE:
		break;
	}
}

/* ---- the lease ---- */

/* When it demands the next signal, as far as is known: run_lease.h has the picture. */
static int64_t
lease_step_at(const struct guard *guard)
{
	int64_t safe_until = lb_lock_safe_until(guard->task->lock);

	/* Once it is lost, lost() sees to it. */
	if (guard->options->on_lost.kind != REACTION_KILL || safe_until < 0 ||
	    lb_lock_state(guard->task->lock) == LB_LOCK_LOST)
		return WATCH_NEVER;
	switch (guard->state) {
	case GUARD_GOING:
		return safe_until - RUN_LEASE_RESERVE_MS - guard->kill_after_ms;
	case GUARD_ENDING:
		return safe_until - RUN_LEASE_RESERVE_MS;
	case GUARD_KILLING:
		break;
	}
	return WATCH_NEVER;
}

/* ---- events of the daemon ---- */

/* The slot is free for others already, or, when the lease has ended it, may soon be. */
static void
lost(struct guard *guard, const struct lb_event *event)
{
	int64_t safe_until = lb_lock_safe_until(guard->task->lock);

	if (event->lock != guard->task->lock)
		return;
	guard->verdict = EXIT_STATUS_LOST;
	react(guard, &guard->options->on_lost);
	/* KILL is not later than the end of the lease, which may be over. */
	if (guard->options->on_lost.kind == REACTION_KILL && safe_until >= 0)
		end_by(guard, safe_until);
	status_line(guard->options, "lost", event->json);
	say_lost(guard_name(guard), event);
}

/* Whether the broker answers. Nothing is to be done about it: the lease says when. */
static void
suspect(struct guard *guard, const struct lb_event *event)
{
	bool silent = event->type == LB_EVENT_SUSPECT;
	const struct guard_word word = {.kind = silent ? GUARD_SILENT : GUARD_ANSWERS};

	guard->suspect = silent;
	status_line(guard->options, silent ? "suspect" : "restored", event->json);
	tell_run(guard, &word, MSG_DONTWAIT);
	if (guard->options->verbose)
		say_in_passing("%s: the broker %s", guard_name(guard),
		    silent ? "does not answer" : "answers again");
}

static void
revoked(struct guard *guard, const struct lb_event *event)
{
	const struct reaction *reaction = &guard->options->on_revoke;

	if (event->lock != guard->task->lock)
		return;
	if (reaction->kind != REACTION_IGNORE && guard->verdict == 0)
		guard->verdict = EXIT_STATUS_REVOKED;
	react(guard, reaction);
	status_line(guard->options, "revoked", event->json);
	/* With --on-revoke=ignore the user does not want this message. */
	if (reaction->kind != REACTION_IGNORE || guard->options->verbose ||
	    isatty(STDERR_FILENO) == 1)
		say_in_passing("%s: the slot was removed, and is kept until the lock is released",
		    guard_name(guard));
}

/*
 * The daemon stops and keeps the slot for grace_ms. If all processes end by then, nothing is lost,
 * so COMMAND has that time. If the reaction to a loss is not to kill, this does not kill either.
 */
static void
draining(struct guard *guard, const struct lb_event *event)
{
	int64_t reserve =
	    event->grace_ms / 4 < DRAIN_RESERVE_MS ? event->grace_ms / 4 : DRAIN_RESERVE_MS;

	if (guard->options->on_lost.kind == REACTION_KILL)
		end_by(guard, watch_in(event->grace_ms - reserve));
	else if (guard->options->on_lost.kind == REACTION_SIGNAL)
		react(guard, &guard->options->on_lost);
	status_line(guard->options, "draining", event->json);
	say_in_passing("%s: lockbrokerd is stopping", guard_name(guard));
}

/*
 * An administrator ends the hold in grace_ms. COMMAND has that time, except for the reserve of the lease, which
 * ends by then. If the reaction to a loss is not to kill, this does not kill either.
 */
static void
evicted(struct guard *guard, const struct lb_event *event)
{
	bool signals;

	if (event->lock != guard->task->lock)
		return;
	guard->evict_at = watch_in(event->grace_ms);
	signals = guard->options->on_lost.kind == REACTION_SIGNAL ||
		  (guard->options->on_lost.kind == REACTION_KILL && guard->state == GUARD_GOING);
	if (guard->options->on_lost.kind == REACTION_KILL)
		end_by(guard, guard->evict_at);
	else if (guard->options->on_lost.kind == REACTION_SIGNAL)
		react(guard, &guard->options->on_lost);
	status_line(guard->options, "evicted", event->json);
	say_evicted(
	    guard_name(guard), event, signals ? ", and the command gets its signal now" : "");
}

/* After LOST. */
static void
closed(struct guard *guard, const struct lb_event *event)
{
	if (guard->options->verbose)
		say_in_passing("%s: %s", guard_name(guard), event->text);
}

static void
broker(struct guard *guard, const struct lb_event *event)
{
	if (guard->options->verbose)
		say_in_passing("%s: %s", guard_name(guard), broker_words(event->reason));
}

/* By the type of the event; of others there is nothing to do. */
static void (*const handlers[])(struct guard *guard, const struct lb_event *event) = {
    [LB_EVENT_LOST] = lost,
    [LB_EVENT_REVOKED] = revoked,
    [LB_EVENT_DRAINING] = draining,
    [LB_EVENT_SUSPECT] = suspect,
    [LB_EVENT_RESTORED] = suspect,
    [LB_EVENT_CLOSED] = closed,
    [LB_EVENT_BROKER] = broker,
    [LB_EVENT_EVICTED] = evicted,
};

static void
heed(struct guard *guard)
{
	const struct lb_event *event;

	while ((event = lb_event_next(guard->task->lb)) != NULL)
		if (event->type < sizeof(handlers) / sizeof(handlers[0]) &&
		    handlers[event->type] != NULL)
			handlers[event->type](guard, event);
}

/*
 * Ends COMMAND before the lease is over. A newer lease that comes after the signal does not take
 * back the signal, nor KILL, which comes kill-after later.
 */
static void
keep_lease(struct guard *guard)
{
	struct lb_lock *lock = guard->task->lock;

	if (watch_now() < lease_step_at(guard))
		return;
	/*
	 * A newer lease may be unread, for example after this process was stopped. Errors come as
	 * LOST. Or it is an eviction that ends the lease so soon.
	 */
	(void)lb_dispatch(guard->task->lb);
	heed(guard);
	if (watch_now() < lease_step_at(guard))
		return;
	end_by(guard, lb_lock_safe_until(lock) - RUN_LEASE_RESERVE_MS);
	guard->verdict = EXIT_STATUS_LOST;
	/*
	 * The eviction ends the lease, and it was said. The library read its deadline a moment before this
	 * process did. If the lease ends before that, the daemon does not renew it.
	 */
	if (guard->evict_at != 0 &&
	    lb_lock_safe_until(lock) + RUN_LEASE_RESERVE_MS >= guard->evict_at)
		return;
	if (!guard->lease_over)
		run_lease_say_over(guard->options, lock, guard->suspect, watch_now());
	guard->lease_over = true;
}

/* ---- `run` ---- */

/*
 * `run` is dead. Its descriptors are closed first, as somebody may wait for their end. The lock is
 * free only when all processes are gone, as this process has the connection.
 */
static _Noreturn void
end_alone(struct guard *guard)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int lb = lb_fd(guard->task->lb), signals = guard->task->signals->fd;
	pid_t none = 0;

	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	/* An empty range is an error, which does nothing. */
	close_range(STDERR_FILENO + 1, (unsigned)(lb < signals ? lb : signals) - 1, 0);
	close_range((unsigned)(lb < signals ? lb : signals) + 1,
	    (unsigned)(lb < signals ? signals : lb) - 1, 0);
	close_range((unsigned)(lb < signals ? signals : lb) + 1, ~0U, 0);
	tree_end(guard->command, &none, guard->task->signals);
	lb_free(guard->task->lb);
	exit(EXIT_STATUS_OK);
}

/*
 * A signal that came to `run` is for COMMAND and its process group, and after COMMAND for those that
 * it left behind. had: the group that has it from the terminal already; 0: none.
 */
static void
pass_on(struct guard *guard, int signo, pid_t had)
{
	pid_t group = guard->command != 0 ? getpgid(guard->command) : 0;

	if (guard->command != 0) {
		if (group != had)
			tree_signal(guard->command, signo, group, 0);
		/* Looked at after that: if COMMAND lives now, it had the signal alive. */
		reap(guard);
	}
	if (guard->command == 0)
		tree_signal(0, signo, 0, had);
}

static void
heed_run(struct guard *guard)
{
	unsigned char byte;
	ssize_t got;

	while ((got = recv(guard->run, &byte, 1, MSG_DONTWAIT)) == 1)
		pass_on(guard, byte & ~GUARD_FROM_TERMINAL,
		    (byte & GUARD_FROM_TERMINAL) != 0 ? guard->group : 0);
	if (got == 0 || (errno != EAGAIN && errno != EINTR))
		end_alone(guard);
}

/* ---- while COMMAND runs ---- */

/* COMMAND has ended, and the lock stays for those that it left behind: not in silence. */
static void
tell_left_behind(struct guard *guard)
{
	char json[32], names[NAMES_SIZE];
	size_t count;

	if (guard->command != 0)
		return;
	if (guard->left_at == 0)
		guard->left_at = watch_in(LEFT_BEHIND_MS);
	if (watch_now() < guard->left_at)
		return;
	guard->left_at = WATCH_NEVER;
	count = tree_names(names, sizeof(names));
	snprintf(json, sizeof(json), "{\"processes\":%zu}", count);
	status_line(guard->options, "left-behind", json);
	/* Without /proc they have no names. */
	if (count > 0)
		say_in_passing("%s: waiting for %zu process%s that the command started: %s",
		    guard_name(guard), count, count == 1 ? "" : "es", names);
	else
		say_in_passing(
		    "%s: waiting for processes that the command started", guard_name(guard));
}

/* After a loss all are waited for: the shell of --on-lost, too. */
static bool
is_over(const struct guard *guard)
{
	return guard->childless || (guard->options->release_on_exit && guard->command == 0 &&
				       guard->state == GUARD_GOING && guard->verdict == 0);
}

static int64_t
wake_at(const struct guard *guard)
{
	int64_t at = lease_step_at(guard);

	if (guard->state == GUARD_ENDING && guard->kill_at < at)
		at = guard->kill_at;
	return guard->left_at != 0 && guard->left_at < at ? guard->left_at : at;
}

/* Until everything that was started is gone. */
static void
supervise(struct guard *guard)
{
	const struct watch watch = {
	    .lb = guard->task->lb, .signals = guard->task->signals, .input = guard->run};
	bool terminal;

	for (;;) {
		/* The clock first: any time may have passed, if this process was stopped. */
		keep_lease(guard);
		heed(guard);
		/*
		 * Those that are not SIGCHLD went to all processes of a service, or to the wrong
		 * one. SIGCHLD is read before its child is reaped, or the last would go unnoticed.
		 */
		while (signals_next(guard->task->signals, &terminal) != 0)
			continue;
		reap(guard);
		if (is_over(guard))
			return;
		/* The children of what was just reaped have become ours. */
		kill_when_due(guard);
		tell_left_behind(guard);
		if (watch_sleep(&watch, wake_at(guard)))
			heed_run(guard);
	}
}

/* Leaves the caller's session: from here on no signal of its terminal comes. */
static bool
start_command(struct guard *guard)
{
	const struct guard_task *task = guard->task;
	bool terminal;
	int signo;

	if (!tree_adopt() || (guard->command = tree_start(task->argv, task->signals)) < 0)
		return false;
	guard->group = getpgrp();
	setsid();
	/* One that came since the fork of this process missed COMMAND, or is still held there. */
	while ((signo = signals_next(task->signals, &terminal)) != 0)
		if (signo != SIGCHLD)
			kill(guard->command, signo);
	prctl(PR_SET_NAME, GUARD_PROCESS_NAME);
	return true;
}

static void
give_back(struct guard *guard)
{
	struct lb_lock *lock = guard->task->lock;
	int code;

	/*
	 * When nobody has answered for so long, nobody is waited for: the end of the connection
	 * does it.
	 */
	if (guard->lease_over)
		return;
	/* By quorum, the daemon then makes the slot free. It does not answer. */
	if (lb_lock_state(lock) == LB_LOCK_LOST) {
		if (lb_lock_fence(lock) != 0)
			(void)lb_release(lock, 0);
		return;
	}
	code = lb_release(lock, RELEASE_TIMEOUT_MS);
	/* It says so only now, but it was lost while COMMAND still worked. */
	if (code == LB_LOST)
		guard->verdict = EXIT_STATUS_LOST;
	if (code == LB_OK)
		status_line(guard->options, "released", lb_result_json(guard->task->lb));
	else
		say_in_passing("%s: release: %s", guard_name(guard), lb_message(guard->task->lb));
}

/* In the guard's process. */
static _Noreturn void
guard_main(const struct guard_task *task, int run)
{
	struct guard guard = {.task = task, .options = task->options, .run = run};
	struct guard_word end = {.kind = GUARD_END, .status = EXIT_STATUS_INTERNAL};

	lb_adopt(task->lb);
	guard.kill_after_ms = run_lease_kill_after(task->options, task->lock);
	if (start_command(&guard)) {
		supervise(&guard);
		end.disturbed = WIFSIGNALED(guard.ended) || guard.state != GUARD_GOING;
		end.signo = WIFSIGNALED(guard.ended) ? WTERMSIG(guard.ended) : 0;
		end.status =
		    end.signo != 0 ? EXIT_STATUS_SIGNAL + end.signo : WEXITSTATUS(guard.ended);
	}
	give_back(&guard);
	if (guard.verdict != 0) {
		end.status = guard.verdict;
		end.signo = 0;
	}
	/* For all copies of the descriptor: `run` may be stopped. */
	lb_free(task->lb);
	tell_run(&guard, &end, 0);
	exit(EXIT_STATUS_OK);
}

pid_t
guard_start(const struct guard_task *task, int *ret_socket)
{
	int ends[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
		say("socketpair: %m");
		return -1;
	}
	pid = fork();
	if (pid == 0) {
		close(ends[0]);
		guard_main(task, ends[1]);
	}
	if (pid < 0)
		say("fork: %m");
	close(ends[1]);
	*ret_socket = ends[0];
	return pid;
}
