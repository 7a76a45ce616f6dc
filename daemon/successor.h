/*
 * How a daemon is replaced by its successor: the same program file, which may be a newer one, in the
 * same process. The state goes there as text (daemon/state) in a sealed memfd, and all sockets stay
 * open. First the new program is tried in a process of its own, the rehearsal. There it reads its
 * configuration and the first records, and says whether it would take over. This file owns the
 * rehearsal and the ways of the state. It knows nothing of what the state contains.
 *
 * If systemd restarts the daemon, the state and the sockets are left with it instead
 * (FileDescriptorStoreMax=). The next process gets them from there.
 *
 *	old program                        new program
 *	starts a rehearsal --------------> reads configuration and state, exits with a status
 *	freezes, saves, execve(2) -------> reads the state, and goes on
 */
#ifndef DAEMON_SUCCESSOR_H
#define DAEMON_SUCCESSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/timers.h"
#include "daemon/state/state.h"

struct event_base;
struct successor;

/*
 * Remembers the file of this program, before it may be replaced, and how to start it. argv: borrowed
 * for the life of the process; ends with NULL.
 */
void successor_remember(char *argv[]);

/* ---- in the old program ---- */

struct successor *successor_new(struct event_base *base, struct timers *timers,
    void (*rehearsed)(void *ctx, const char *why), void *ctx);
/* Ends a rehearsal. NULL is fine. */
void successor_free(struct successor *successor);
/*
 * Begins a rehearsal with that text. `rehearsed` comes later from the loop. why: NULL: the new
 * program would take over; else the reason, for the log. If it does not exit within 5 s, it is ended.
 */
void successor_rehearse(struct successor *successor, const struct state_text *text);
/* The signals that the daemon handles. */
enum { SUCCESSOR_SIGNALS = 4 };
extern const int successor_signals[SUCCESSOR_SIGNALS];
/*
 * Holds these signals back, until the successor handles them (false). Without this, one that comes
 * between the last pass of the loop and execve(2) would be lost.
 */
void successor_hold_signals(bool held);
/*
 * Replaces this process. The sockets remain open there. Returns only if that fails: the reason,
 * malloc'ed, and nothing has changed. The signals must be held back.
 */
char *successor_exec(const struct state_text *text);
/*
 * Leaves state and sockets with the service manager, for a process that it starts next. Blocks for at
 * most 4 s (notify.h). False: no process can get them from there.
 */
bool successor_store(const struct state_text *text);

/* ---- in the new program ---- */

enum successor_role {
	SUCCESSOR_NONE,      /* an ordinary start */
	SUCCESSOR_REHEARSES, /* to say whether it would take over */
	SUCCESSOR_TAKES_OVER
};

/* The exit status of a rehearsal whose program would take over. No other program has it by chance. */
#define SUCCESSOR_AGREES 84
/*
 * The role of this process, and the state, which the caller owns. Closes the file of the state; one
 * that cannot be read is "". Its sockets are those that the service manager kept, in the order of the
 * state. They are NULL if the sockets have the numbers that they had in the old program. The variables
 * that tell the role are gone then, and the service manager keeps nothing any longer.
 */
enum successor_role successor_role(struct state_text *ret);
/*
 * The state cannot be used: starts the program again without it. All sockets of the old program are
 * closed, so that the broker frees its slots and the clients know. Does not return.
 */
_Noreturn void successor_start_anew(void);

#endif
