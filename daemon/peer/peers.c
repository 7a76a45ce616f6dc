#include "daemon/peer/peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/peer/requests.h"
#include "protocol/message.h"

/*
 * Contents:
 *	All peers: peers_new(), peers_free(). peers_take_next(): the next peer to visit: users take turns.
 *	Limits: peers_set_*(), peers_have_room(): connections and descriptors. peers_add(): a new connection,
 *	   which may find no room.
 *	Peers by id: peers_find(), peers_each*().
 *	Visits: peers_visit(): visits the due peers, and frees the dead. peers_resume_halted(): peers that may
 *	   be read again.
 *	An earlier program: peers_last(), peers_resume(): its peers go on.
 *	Pauses: peers_pause(), peers_hold(), peers_stop_reading().
 */

/*
 * Time for the visits after one pass. Then broker and timers have their turn. It is short, because
 * a wait for the broker takes several passes.
 */
#define VISIT_MAX (NSEC_PER_MSEC / 10)
/* Conns of one user that may be read again after one pass, when there are bytes again. */
#define RESUMED_A_PASS 32
/*
 * Descriptors for the daemon itself: those opened at start, two links, eight name lookups with
 * their sockets, and a file.
 */
#define OWN 48
/* For root, the daemon's own uid and the admin group alone. */
#define ADMINS 16

struct peers {
	struct conn_room room;
	struct conn *by_id; /* owned */
	uint64_t last;
	size_t descriptors;
	const struct access_rules *rules; /* borrowed */
	bool complained;                  /* of a lack of descriptors that is not over yet */
};

/* ---- all peers ---- */

struct peers *
peers_new(struct event_base *base, const struct conn_handler *handler)
{
	struct peers *peers = mem_alloc(sizeof(*peers));
	struct account_limits *limits = &peers->room.accounts.limits;

	peers->room.base = base;
	peers->room.handler = *handler;
	TAILQ_INIT(&peers->room.turns);
	peers->room.max_requests = limits->all_bytes = SIZE_MAX;
	for (int thing = 0; thing < ACCOUNT_THINGS; thing++)
		limits->most[thing] = SIZE_MAX;
	peers->descriptors = SIZE_MAX;
	return peers;
}

/* It is visited now; other users have their turns before the next of its user. */
static void
peers_take_from_due(struct conn_room *room, struct conn *conn)
{
	struct account *account = conn->account;

	conn->is_due = false;
	room->due_count--;
	TAILQ_REMOVE(&account->due, conn, due);
	TAILQ_REMOVE(&room->turns, account, turn);
	if (!TAILQ_EMPTY(&account->due))
		TAILQ_INSERT_TAIL(&room->turns, account, turn);
}

/* The first that is due of the user whose turn it is. */
static struct conn *
peers_take_next(struct conn_room *room)
{
	struct account *account = TAILQ_FIRST(&room->turns);
	struct conn *conn = account == NULL ? NULL : TAILQ_FIRST(&account->due);

	if (conn != NULL)
		peers_take_from_due(room, conn);
	return conn;
}

static void
peers_forget(struct peers *peers, struct conn *conn)
{
	HASH_DELETE(by_id, peers->by_id, conn);
	conn_free(conn);
}

void
peers_free(struct peers *peers)
{
	struct conn *conn, *next;

	if (peers == NULL)
		return;
	HASH_ITER (by_id, peers->by_id, conn, next) {
		conn_kill(conn, NULL);
		conn_make_due(conn); /* It may have died before, and scan still. */
	}
	while ((conn = peers_take_next(&peers->room)) != NULL)
		peers_forget(peers, conn);
	free(peers);
}

/* ---- limits ---- */

void
peers_set_limits(struct peers *peers, size_t max_requests, const struct account_limits *limits)
{
	peers->room.max_requests = max_requests;
	peers->room.accounts.limits = *limits;
}

void
peers_set_descriptors(struct peers *peers, size_t descriptors, const struct access_rules *rules)
{
	peers->descriptors = descriptors;
	peers->rules = rules;
}

/*
 * Whether there is room for a conn that was just counted in. If not, error says why, and
 * *ret_complained is where to remember that it was logged.
 */
static bool
peers_have_room(struct peers *peers, const struct conn *conn, struct message_error *error,
    bool **ret_complained)
{
	struct account *account = conn->account;
	bool admin = peers->rules == NULL || access_is_admin(peers->rules, &conn->subject);
	size_t left = peers->descriptors - OWN - (admin ? 0 : ADMINS);
	size_t max = peers->room.accounts.limits.most[ACCOUNT_PEERS];

	/* Of what is left to users one has at most half. */
	if (!admin && left / 2 < max)
		max = left / 2;
	if (account->used[ACCOUNT_PEERS] > max) {
		message_error_set(error, REASON_TOO_MANY_REQUESTS,
		    "uid %u has %zu connections, the maximum", (unsigned)account->uid, max);
		*ret_complained = &account->complained;
		return false;
	}
	/* A new descriptor is the lowest that is free (open(2)): all below this one are in use. */
	if ((size_t)conn->fd >= left) {
		message_error_set(error, REASON_TOO_MANY_REQUESTS,
		    "%d of the %zu descriptors are in use; the rest is reserved for %sthe daemon",
		    conn->fd, peers->descriptors, admin ? "" : "administrators and ");
		*ret_complained = &peers->complained;
		return false;
	}
	account->complained = false;
	if (!admin)
		peers->complained = false;
	return true;
}

/*
 * One line before the door is shut; it fits an empty socket's buffer. Logged once until it is over.
 */
static void
peers_turn_away(int fd, const struct message_error *error, bool *complained)
{
	const struct message_id nobody = {.kind = MESSAGE_ID_NULL};
	char *line;

	if (!*complained)
		log_warning("connections are refused: %s", error->text);
	*complained = true;
	line = message_error_line(&nobody, error, NULL);
	if (line != NULL && send(fd, line, strlen(line), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("a refused client did not get the reason: %s", strerror(errno));
	free(line);
}

void
peers_add(struct peers *peers, int fd)
{
	struct conn *conn = conn_new(&peers->room, fd, ++peers->last);
	struct message_error error;
	bool *complained;

	if (conn == NULL) {
		log_warning("a connection is closed, the kernel does not name its process: %s",
		    strerror(errno));
		return;
	}
	HASH_ADD(by_id, peers->by_id, id, sizeof(conn->id), conn);
	if (!peers_have_room(peers, conn, &error, &complained)) {
		peers_turn_away(fd, &error, complained);
		conn_kill(conn, NULL);
	}
}

/* ---- peers by id ---- */

struct conn *
peers_find(const struct peers *peers, uint64_t id)
{
	struct conn *conn;

	HASH_FIND(by_id, peers->by_id, &id, sizeof(id), conn);
	return conn == NULL || conn->state == CONN_DEAD ? NULL : conn;
}

void
peers_scanned(struct peers *peers, uint64_t id, uint64_t request)
{
	struct conn *conn;

	HASH_FIND(by_id, peers->by_id, &id, sizeof(id), conn);
	if (conn == NULL)
		return;
	requests_scanned(conn->requests, request);
	if (conn->state == CONN_DEAD)
		conn_make_due(conn);
}

void
peers_each(struct peers *peers, void (*fn)(void *ctx, struct conn *conn), void *ctx)
{
	/* fn may kill: that frees nothing before a visit. */
	for (struct conn *conn = peers->by_id; conn != NULL; conn = conn->by_id.next) {
		if (conn->state != CONN_DEAD)
			fn(ctx, conn);
	}
}

void
peers_each_leaving(struct peers *peers, void (*fn)(void *ctx, struct conn *conn), void *ctx)
{
	for (struct conn *conn = peers->by_id; conn != NULL; conn = conn->by_id.next) {
		if (conn->state == CONN_DEAD && !conn->has_left)
			fn(ctx, conn);
	}
}

size_t
peers_count(const struct peers *peers)
{
	return HASH_CNT(by_id, peers->by_id);
}

/* ---- visits ---- */

/* Conns that lacked something which there is again. */
static void
peers_resume_halted(struct account *account)
{
	struct conn *conn;

	account_relax(account);
	for (int i = 0; i < RESUMED_A_PASS && account_has_room(account, ACCOUNT_BYTES); i++) {
		if ((conn = TAILQ_FIRST(&account->halted)) != NULL)
			conn_resume(conn);
		conn = TAILQ_FIRST(&account->parked);
		if (conn != NULL && account_has_room(account, ACCOUNT_SCANS))
			conn_take_parked(conn);
	}
}

bool
peers_are_due(const struct peers *peers)
{
	return peers->room.due_count > 0;
}

void
peers_visit(struct peers *peers)
{
	struct conn_room *room = &peers->room;
	/* Conns that become due meanwhile wait for the next pass. */
	size_t left = room->due_count;
	struct account *account;
	struct conn *conn;

	room->visit_end = clock_now(&clock_boottime) + VISIT_MAX;
	while (left-- > 0 && (conn = peers_take_next(room)) != NULL) {
		if (conn->state != CONN_DEAD)
			conn_visit(conn);
		if (conn->state == CONN_DEAD) {
			/* It died in its own visit. */
			if (conn->is_due)
				peers_take_from_due(room, conn);
			conn_leave(conn);
			/* A scan counts until the broker has answered it. */
			if (requests_scanning(conn->requests) == 0 && !conn->is_due)
				peers_forget(peers, conn);
		}
		if (clock_now(&clock_boottime) >= room->visit_end)
			break;
	}
	for (account = room->accounts.by_uid; account != NULL && !room->deaf && !room->paused;
	     account = account->hh.next)
		peers_resume_halted(account);
}

/* ---- an earlier program ---- */

uint64_t
peers_last(const struct peers *peers)
{
	return peers->last;
}

void
peers_set_last(struct peers *peers, uint64_t last)
{
	peers->last = last;
}

struct conn *
peers_resume(struct peers *peers, const struct conn_saved *saved)
{
	struct conn *conn = NULL;

	if (saved->id > 0 && saved->id <= peers->last && peers_find(peers, saved->id) == NULL)
		conn = conn_restore(&peers->room, saved);
	else
		close(saved->fd);
	if (conn != NULL)
		HASH_ADD(by_id, peers->by_id, id, sizeof(conn->id), conn);
	return conn;
}

/* ---- pauses ---- */

static void
peers_make_due(void *ctx, struct conn *conn)
{
	(void)ctx;
	conn_make_due(conn);
}

void
peers_pause(struct peers *peers, bool pauses)
{
	peers->room.paused = pauses;
	/* Their visit changes what the loop watches their sockets for. */
	if (!pauses)
		peers_each(peers, peers_make_due, NULL);
}

static void
peers_let_go(void *ctx, struct conn *conn)
{
	(void)ctx;
	conn_let_go(conn);
}

void
peers_hold(struct peers *peers, bool holds)
{
	peers->room.holds = holds;
	if (!holds)
		peers_each(peers, peers_let_go, NULL);
}

void
peers_stop_reading(struct peers *peers)
{
	peers->room.deaf = true;
}

void
peers_push(struct peers *peers)
{
	for (struct conn *conn = peers->by_id; conn != NULL; conn = conn->by_id.next)
		conn_push(conn);
}
