/*
 * The exit statuses of the command, besides those of a child. They are those of sysexits(3) where
 * one fits.
 */
#ifndef CLIENT_EXIT_STATUS_H
#define CLIENT_EXIT_STATUS_H

enum exit_status {
	EXIT_STATUS_OK = 0,
	EXIT_STATUS_FOUND = 1, /* fsck: it left problems that --repair repairs */
	EXIT_STATUS_LEFT = 4, /* fsck: it left only problems that it cannot repair; as in fsck(8) */
	EXIT_STATUS_USAGE = 64,
	EXIT_STATUS_NOT_HELD = 65,
	EXIT_STATUS_NO_SUCH_LOCK = 66,
	EXIT_STATUS_UNREACHABLE = 69, /* daemon or broker: no answer, stopping, or blocked */
	EXIT_STATUS_INTERNAL = 70,
	EXIT_STATUS_EXISTS = 73,
	EXIT_STATUS_IO = 74,           /* output could not be written */
	EXIT_STATUS_NOT_ACQUIRED = 75, /* busy, a limit was reached, or the wait is over */
	EXIT_STATUS_DENIED = 77,
	EXIT_STATUS_BROKER_REFUSED = 78, /* the daemon's login, or one of its requests */
	EXIT_STATUS_LOST = 79,
	EXIT_STATUS_TURNED_AWAY = 80, /* denied by an administrator while waiting */
	EXIT_STATUS_REVOKED = 81,
	EXIT_STATUS_NOT_EXECUTABLE = 126,
	EXIT_STATUS_NOT_FOUND = 127,
	EXIT_STATUS_SIGNAL = 128 /* plus the signal's number */
};

#endif
