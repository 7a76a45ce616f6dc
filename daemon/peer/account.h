/*
 * One account for each user: what all the peers of that user have in use, held against one limit for
 * each thing. Knows neither sockets nor methods. The limit of channels is the engine's (lock/share.h).
 *
 * Bytes are the memory that a user makes the daemon keep: output that a peer has not read, input that
 * is no whole request yet, and room that is set aside for the answers to come. While a user has used up its
 * bytes, or all users together have, nothing is read of its peers. A user with little in use is read even
 * then, so that no user can keep the others out.
 */
#ifndef PEER_ACCOUNT_H
#define PEER_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <uthash.h>

#include "daemon/base/queue.h"

struct conn;
TAILQ_HEAD(conn_list, conn);

enum account_thing {
	ACCOUNT_PEERS,   /* connections */
	ACCOUNT_WAITS,   /* requests that wait by design, watches too */
	ACCOUNT_WATCHES, /* watches */
	ACCOUNT_SCANS,   /* requests that ask the broker about many queues */
	ACCOUNT_BYTES,
	ACCOUNT_THINGS
};

struct account_limits {
	size_t most[ACCOUNT_THINGS]; /* of one user */
	size_t all_bytes;            /* of all users */
};

/* Bytes with which a user is read though all users together have too many. */
#define ACCOUNT_LITTLE ((size_t)256 * 1024)

struct account {
	uid_t uid;
	size_t used[ACCOUNT_THINGS];
	struct accounts *all; /* borrowed: its owner */
	bool complained;      /* of too many connections; until the next one is admitted */
	bool full;            /* it was logged that its peers are not read */

	/* conn.c's and peers.c's */
	struct conn_list due;      /* to be visited */
	struct conn_list halted;   /* not read before there are bytes */
	struct conn_list parked;   /* with a scan for which there is no room yet */
	TAILQ_ENTRY(account) turn; /* while due has some */
	UT_hash_handle hh;
};

struct accounts {
	struct account_limits limits;
	size_t bytes;           /* of all users */
	struct account *by_uid; /* owned */
};

/* That of a user; made when it has none. Counts one peer; account_close() counts it off. */
struct account *account_open(struct accounts *all, uid_t uid);
/* An account without peers is freed. */
void account_close(struct account *account);

void account_add(struct account *account, enum account_thing thing, size_t count);
void account_remove(struct account *account, enum account_thing thing, size_t count);
/* Whether the user may have one more of it. */
bool account_has_room(const struct account *account, enum account_thing thing);
/* For want of bytes a peer is not read: the first is logged, until half of them are free. */
void account_complain(struct account *account);
/* Half of them may be free. */
void account_relax(struct account *account);
/*
 * Bytes of news that its peers may be sent, or that may be kept for an answer: up to half of what the user
 * may have, so that a peer that does not read its news does not stop the requests of the others.
 */
size_t account_room(const struct account *account);

#endif
