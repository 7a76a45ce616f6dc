/*
 * Peers over socketpairs without an engine: what came of them, and what the test makes of their lines.
 */
#ifndef TESTS_UNIT_CONN_RIG_H
#define TESTS_UNIT_CONN_RIG_H

#include "tests/unit/unit.h"

#include "daemon/base/clock.h"
#include "daemon/peer/peers.h"

#define CONN_RIG_ORDER 64

struct conn_rig {
	struct peers *peers;
	int lines, gones, lefts;        /* how many came */
	uint64_t last_peer;             /* whose line came last */
	uint64_t order[CONN_RIG_ORDER]; /* whose lines came, in their order */
	char last_line[64];
	bool keeps, keeps_waiting; /* each line is a request that is not answered */
	bool looks;                /* each line but "ping" is a look that is not answered */
	bool kills;                /* each line is its peer's end */
	int64_t slow;              /* ns that each line takes */
	char logged[512];
	struct account_limits limits; /* none at first */
};

extern struct conn_rig rig;

void conn_rig_setup(void);
void conn_rig_teardown(void);
/* Of each user; max_requests: of each peer. */
void set_limit(enum account_thing thing, size_t most, size_t max_requests);
/* The test's end of a new peer's socket. */
int peer_new(void);
/* A pass of the loop; whether peers have more to do. */
bool pass(void);
/* The first half of a pass: what the sockets say. */
void rig_look(void);
void passes(void);
void say(int fd, const char *text);
/* What the peer was sent; "" when nothing. *ret_end: end of file came after it. Static. */
const char *heard(int fd, bool *ret_end);

Suite *suite_conn_user(void);

#endif
