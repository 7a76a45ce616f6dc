/*
 * The unanswered requests of one peer: the id on the wire and the engine's number of each. It
 * counts them, and charges them to the account of the peer's user. Owns its records, and the
 * accounts. It knows neither sockets nor the engine.
 */
#ifndef PEER_REQUESTS_H
#define PEER_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <uthash.h>

#include "daemon/base/queue.h"
#include "protocol/message.h"

/*
 * One account for each user: the use of all the user's peers, with one limit for each thing. The
 * engine has the limit of channels.
 *
 * ACCOUNT_BYTES is the memory that a user makes the daemon keep. It counts output that a peer has
 * not read, input that is not a whole request yet, and room reserved for answers. If a user has
 * used up its bytes, the daemon reads none of its peers. The same holds if all users together have
 * used up theirs. A user that uses little is read even then, so that no user can lock the others
 * out.
 */
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

/* ---- requests ---- */

struct requests;
struct dispatch_row; /* a method (dispatch_internal.h) */

enum request_kind {
	REQUEST_QUICK,   /* counts against max_requests */
	REQUEST_SCANS,   /* counts against max_requests, and scans many queues at the broker */
	REQUEST_WAITS,   /* waits by design: does not count against max_requests */
	REQUEST_WATCHES, /* as REQUEST_WAITS, and gets notifications */
	REQUEST_TRIES    /* as REQUEST_QUICK, but ends unanswered with its client */
};

struct peer_request {
	uint64_t number;
	struct message_id id;
	const struct dispatch_row *row; /* static */
	enum request_kind kind;
	/* For a successor, which repeats the request; NULL: it need not be repeated. NUL-terminated. */
	const char *line;
	int64_t since; /* clock time when the line came */
};

/* account is borrowed, and outlives the requests. */
struct requests *requests_new(struct account *account);
void requests_free(struct requests *requests);

/* NULL: a request with that id is unanswered. The result is borrowed until it is removed. */
const struct peer_request *requests_add(struct requests *requests, const struct message_id *id,
    const struct dispatch_row *row, enum request_kind kind);
/* The number of the newest request in an earlier program. Call it before requests_resume(). */
void requests_set_last(struct requests *requests, uint64_t last);
/* As requests_add(), with the number that it had there. NULL, too: there is no such number. */
const struct peer_request *requests_resume(
    struct requests *requests, const struct peer_request *resumed);
/* Keeps a copy of the line of the request, charged to the user's account. */
void requests_keep_line(
    struct requests *requests, uint64_t number, const char *line, size_t len, int64_t since);
/* The number of the newest request so far. */
uint64_t requests_last(const struct requests *requests);
void requests_each(const struct requests *requests,
    void (*fn)(void *ctx, const struct peer_request *request), void *ctx);
/* NULL: there is none. */
const struct peer_request *requests_find(const struct requests *requests, uint64_t number);
const struct peer_request *requests_find_id(
    const struct requests *requests, const struct message_id *id);
void requests_remove(struct requests *requests, uint64_t number);
/* Charges so many more bytes for the answer until the request is removed. */
void requests_keep(struct requests *requests, uint64_t number, size_t bytes);
/*
 * Removes the requests that wait by design or try, and calls `left` for each. The engine does not
 * answer them any more.
 */
void requests_remove_waiting(struct requests *requests,
    void (*left)(void *ctx, const struct peer_request *request), void *ctx);

/*
 * The broker has answered the scan, so another one may begin. The request may still wait for other
 * daemons.
 */
void requests_scanned(struct requests *requests, uint64_t number);
/* Whether it waits by design or tries: it ends unanswered with its client. */
bool request_ends_with_client(const struct peer_request *request);
size_t requests_count(const struct requests *requests);
/* The number of requests that do not wait by design. */
size_t requests_answering(const struct requests *requests);
/* The number of scans that the broker has not answered. */
size_t requests_scanning(const struct requests *requests);
/* The number of requests that wait by design. */
size_t requests_waiting(const struct requests *requests);

#endif
