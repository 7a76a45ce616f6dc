/*
 * The signals that the command takes into its own hands: blocked, and read one by one in the poll
 * loop. Signals that were ignored when the command started stay so (nohup(1)).
 */
#ifndef CLIENT_TOOL_SIGNALS_H
#define CLIENT_TOOL_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

struct signals {
	int fd; /* to poll; owned */
	sigset_t held;
	sigset_t mask;                       /* as the command was started with */
	struct sigaction child, broken_pipe; /* likewise */
};

/* false: errno. */
bool signals_hold(struct signals *signals);
/* One more, for a subcommand of its own; like those: not when it is ignored. */
bool signals_hold_more(struct signals *signals, int signo);
/* The next one that came, 0 = none. *ret_terminal: the terminal sent it, to the whole group. */
int signals_next(const struct signals *signals, bool *ret_terminal);
/* Back to how the command was started: for a child before exec. */
void signals_restore(const struct signals *signals);
/*
 * For a subcommand that holds nothing: from here on whatever asks to end does so at once, also in the middle of
 * a call that blocks, with the exit status for it; after ending the line on stderr, if one is open.
 */
void signals_end_at_once(void);
void signals_line_open(bool open);
/* Whether it is one that asks to end, as against CHLD, CONT, TSTP. */
bool signal_ends(int signo);

#endif
