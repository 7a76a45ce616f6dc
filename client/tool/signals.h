/*
 * The signals that the command handles itself. They are blocked, and read one by one in the poll
 * loop. Signals that were ignored at the start of the command stay ignored (nohup(1)).
 */
#ifndef CLIENT_TOOL_SIGNALS_H
#define CLIENT_TOOL_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

struct signals {
	int fd;     /* for poll(2); owned; -1: they are not held */
	int deadly; /* SIGINT or SIGQUIT, which this process is to die of; 0: neither */
	sigset_t held;
	sigset_t mask;                       /* as at the start of the command */
	struct sigaction child, broken_pipe; /* the same */
};

/* Blocks the signals and opens fd. False: errno says why. */
bool signals_hold(struct signals *signals);
/* Adds one more signal, unless it is ignored. */
bool signals_hold_more(struct signals *signals, int signo);
/* The next signal; 0: none. *ret_terminal: the terminal sent it, to the whole group. */
int signals_next(const struct signals *signals, bool *ret_terminal);
/*
 * Stops this process, as the terminal stops one that does not handle SIGTSTP. Returns when it is
 * continued. The kernel stops nobody whom no shell could continue: a session leader, for example.
 */
void signals_stop(void);
/*
 * For the end of a subcommand: if `deadly` is set, this process dies of it, without a core. Only
 * then does a shell end the loop around the command. Otherwise returns the status.
 */
int signals_exit(const struct signals *signals, int status);
/* Restores the state at the start of the command: for a child before exec. */
void signals_restore(const struct signals *signals);
/*
 * For a subcommand that holds nothing. From now on, a signal that asks to end does so at once, even
 * during a blocking call. The exit status is that of the signal. An unfinished line on stderr is
 * ended first.
 */
void signals_end_at_once(void);
void signals_line_open(bool open);
/* Whether the signal asks to end, unlike CHLD, CONT and TSTP. */
bool signal_ends(int signo);

#endif
