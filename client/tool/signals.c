#include "client/tool/signals.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "client/exit_status.h"

static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
static const int others[] = {SIGTSTP, SIGCONT};

bool
signal_ends(int signo)
{
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		if (ending[i] == signo)
			return true;
	return false;
}

static void
hold_unless_ignored(sigset_t *held, const int *list, size_t count)
{
	struct sigaction action;

	for (size_t i = 0; i < count; i++)
		if (sigaction(list[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(held, list[i]);
}

bool
signals_hold(struct signals *signals)
{
	struct sigaction action = {.sa_handler = SIG_DFL};

	sigemptyset(&signals->held);
	hold_unless_ignored(&signals->held, ending, sizeof(ending) / sizeof(ending[0]));
	hold_unless_ignored(&signals->held, others, sizeof(others) / sizeof(others[0]));
	sigaddset(&signals->held, SIGCHLD);
	/* An ignored SIGCHLD would have the kernel reap our children (wait(2)). */
	sigaction(SIGCHLD, &action, &signals->child);
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, &signals->broken_pipe);
	signals->deadly = 0;
	signals->fd = signalfd(-1, &signals->held, SFD_CLOEXEC | SFD_NONBLOCK);
	/* Blocked, it does not stop us when we write in the background, or take the terminal back. */
	sigaddset(&signals->held, SIGTTOU);
	return signals->fd >= 0 && sigprocmask(SIG_BLOCK, &signals->held, &signals->mask) == 0;
}

bool
signals_hold_more(struct signals *signals, int signo)
{
	hold_unless_ignored(&signals->held, &signo, 1);
	return signalfd(signals->fd, &signals->held, 0) >= 0 &&
	       sigprocmask(SIG_BLOCK, &signals->held, NULL) == 0;
}

int
signals_next(const struct signals *signals, bool *ret_terminal)
{
	struct signalfd_siginfo info;

	if (read(signals->fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return 0;
	*ret_terminal = info.ssi_code == SI_KERNEL;
	return (int)info.ssi_signo;
}

/* By the action that the kernel has for it, as if it were not held. */
static void
act_by_default(int signo)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signo);
	raise(signo);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	/* Here again after a stop that has ended, and at once where the kernel stops nobody. */
	sigprocmask(SIG_BLOCK, &set, NULL);
}

void
signals_stop(void)
{
	act_by_default(SIGTSTP);
}

int
signals_exit(const struct signals *signals, int status)
{
	const struct rlimit none = {.rlim_cur = 0};

	if (signals->deadly == 0)
		return status;
	/* The limit is not for a core that goes to a program (core(5)). */
	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_DUMPABLE, 0);
	act_by_default(signals->deadly);
	return EXIT_STATUS_SIGNAL + signals->deadly;
}

void
signals_restore(const struct signals *signals)
{
	sigaction(SIGCHLD, &signals->child, NULL);
	sigaction(SIGPIPE, &signals->broken_pipe, NULL);
	sigprocmask(SIG_SETMASK, &signals->mask, NULL);
}

static volatile sig_atomic_t line_open;

/* Nothing here but what a signal handler may do. */
static void
end_at_once(int signo)
{
	ssize_t ignored = line_open != 0 ? write(STDERR_FILENO, "\n", 1) : 0;

	(void)ignored;
	_exit(EXIT_STATUS_SIGNAL + signo);
}

void
signals_end_at_once(void)
{
	struct sigaction action = {.sa_handler = end_at_once}, old;

	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		if (sigaction(ending[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(ending[i], &action, NULL);
}

void
signals_line_open(bool open)
{
	line_open = open;
}
