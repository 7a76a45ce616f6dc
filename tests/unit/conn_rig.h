/*
 * Clients over socketpairs without an engine. It counts their events, and the test decides about
 * their lines.
 */
#ifndef TESTS_UNIT_CONN_RIG_H
#define TESTS_UNIT_CONN_RIG_H

#include "tests/unit/unit.h"

#include "daemon/base/clock.h"
#include "daemon/peer/peers.h"

#define CONN_RIG_ORDER 64

struct conn_rig {
	struct peers *peers;
	int lines, gones, lefts;        /* number of calls of the handler */
	uint64_t last_peer;             /* the client of the last line */
	uint64_t order[CONN_RIG_ORDER]; /* the clients of all lines, in order */
	char last_line[64];
	bool keeps, keeps_waiting; /* each line becomes a request that stays unanswered */
	bool scans;                /* each line but "ping" becomes a scan that stays unanswered */
	bool holds;                /* each line but "ping" is not taken */
	bool kills;                /* each line ends its client */
	int64_t slow;              /* ns that the handler needs for a line */
	char logged[512];
	struct account_limits limits; /* no limits at first */
};

extern struct conn_rig rig;

void conn_rig_setup(void);
void conn_rig_teardown(void);
/* The limit of each user. max_requests: of each client. */
void set_limit(enum account_thing thing, size_t most, size_t max_requests);
/* Adds a client and returns the test's end of its socket. */
int peer_new(void);
/* One pass of the loop. True: clients are still due. */
bool pass(void);
/* The first half of a pass: the events of the sockets. */
void rig_loop(void);
void passes(void);
void say(int fd, const char *text);
/* The output that the client got; "": none. *ret_end: end of file follows. Static. */
const char *heard(int fd, bool *ret_end);

Suite *suite_conn_user(void);

#endif
