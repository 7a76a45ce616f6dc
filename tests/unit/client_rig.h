/*
 * A liblockbroker handle whose daemon is the test itself. Request ids begin with 1 on each
 * connection. An answer can therefore be in the socket before its request is sent.
 */
#ifndef TESTS_UNIT_CLIENT_RIG_H
#define TESTS_UNIT_CLIENT_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lockbroker.h"

extern struct lb *lb;
extern int listener,
    daemon_end; /* the socket at path; the daemon's end of the connection, -1: closed */
extern char folder[64], path[96];

/*
 * The time of the library is virtual. If the daemon has sent nothing when the library waits, the
 * clock jumps to the end of the wait. A test needs no time, and a busy machine changes nothing.
 */
extern int64_t client_rig_now; /* ms */
/* Called before such a jump: the daemon may send something then. NULL: it does not. */
extern void (*client_rig_idle)(void);
/* Changes each reading of the clock. NULL: it does not. */
extern int64_t (*client_rig_reading)(int64_t now);
/* Real time, for a test of a system call. client_rig_up() resets all of these but the clock. */
extern bool client_rig_is_real;

/* Opens a listening socket in its own folder. */
void client_rig_listen(void);
/* The fixture: a listening socket, and a connected handle. */
void client_rig_up(void);
void client_rig_down(void);

/* Sends one line from the daemon. */
void say(const char *line);
void hang_up(void);
/* The bytes that the library sent since the last call. */
const char *heard(void);
/* Answers request 1 with a grant of lock "a-1", and returns the lock. */
struct lb_lock *acquired(void);

#define GRANT(id, lock)                                                                            \
	"{\"jsonrpc\":\"2.0\",\"id\":" id ",\"result\":{\"lock\":\"" lock                          \
	"\",\"name\":\"db\",\"kind\":\"semaphore\",\"slot\":2,\"waited\":0.25,"                    \
	"\"lease\":{\"heartbeat\":10,\"margin\":2}}}"
#define NOTICE(method, params)                                                                     \
	"{\"jsonrpc\":\"2.0\",\"method\":\"" method "\",\"params\":{" params "}}"
#define LOST(lock)                                                                                 \
	NOTICE("lost", "\"lock\":\"" lock "\",\"name\":\"db\",\"slot\":2,\"reason\":\"lost\"")

#endif
