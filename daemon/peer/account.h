/*
 * One account for each user: the use of all the user's peers, with one limit for each thing. It
 * knows neither sockets nor methods. The engine has the limit of channels (lock/objects.h).
 *
 * ACCOUNT_BYTES is the memory that a user makes the daemon keep. It counts output that a peer has
 * not read, input that is not a whole request yet, and room reserved for answers. If a user has
 * used up its bytes, the daemon reads none of its peers. The same holds if all users together have
 * used up theirs. A user that uses little is read even then, so that no user can lock the others
 * out.
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
	ACCOUNT_WAITS,   /* requests that wait by design, including watches */
	ACCOUNT_WATCHES, /* watches */
	ACCOUNT_SCANS,   /* requests that scan many queues at the broker */
	ACCOUNT_BYTES,
	ACCOUNT_THINGS
};

struct account_limits {
	size_t most[ACCOUNT_THINGS]; /* of one user */
	size_t all_bytes;            /* of all users */
};

/* A user with fewer bytes than this is read even if all users together have used up their bytes. */
#define ACCOUNT_LITTLE ((size_t)256 * 1024)

struct account {
	uid_t uid;
	size_t used[ACCOUNT_THINGS];
	struct accounts *all; /* borrowed: the account's owner */
	bool complained;      /* logged: too many connections; until one is admitted */
	bool full;            /* logged: the daemon does not read the user's peers */

	/* owned by conn.c and peers.c */
	struct conn_list due;      /* peers to visit */
	struct conn_list halted;   /* peers that wait for bytes before they are read */
	struct conn_list parked;   /* peers with a scan that waits for room */
	TAILQ_ENTRY(account) turn; /* while `due` is not empty */
	UT_hash_handle hh;
};

struct accounts {
	struct account_limits limits;
	size_t bytes;           /* of all users */
	struct account *by_uid; /* owned */
};

/* The account of a user, created if there is none. Counts one peer more. */
struct account *account_open(struct accounts *all, uid_t uid);
/* Counts one peer less. An account without peers is freed. */
void account_close(struct account *account);

void account_add(struct account *account, enum account_thing thing, size_t count);
void account_remove(struct account *account, enum account_thing thing, size_t count);
/* Whether the user may have one more. */
bool account_has_room(const struct account *account, enum account_thing thing);
/*
 * A peer is not read because its user has no bytes left. The first one is logged; account_relax()
 * rearms it.
 */
void account_complain(struct account *account);
/* Rearms account_complain() if less than half of the bytes are in use. */
void account_relax(struct account *account);
/*
 * Bytes that its peers may get as news, or that may be kept for an answer. News may take half of
 * the user's bytes. A peer that does not read its news therefore does not stop the user's other
 * requests.
 */
size_t account_room(const struct account *account);

#endif
