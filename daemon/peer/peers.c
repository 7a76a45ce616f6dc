#include "daemon/peer/peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/peer/requests.h"
#include "protocol/message.h"

/* How many conns a uid has; only while there are some. */
struct uid_count {
	uid_t uid;
	size_t count;
	bool complained; /* of its being full, which it is still */
	struct requests_sum requests;
	UT_hash_handle hh;
};

struct peers {
	struct conn_room room;
	struct conn *by_id;     /* owned */
	struct uid_count *uids; /* owned */
	uint64_t last;
	size_t max_per_uid;
};

struct peers *
peers_new(struct event_base *base, const struct peers_handler *handler)
{
	struct peers *peers = mem_alloc(sizeof(*peers));

	peers->room.base = base;
	peers->room.line = handler->line;
	peers->room.gone = handler->gone;
	peers->room.ctx = handler->ctx;
	TAILQ_INIT(&peers->room.due);
	TAILQ_INIT(&peers->room.dead);
	peers->room.max_requests = SIZE_MAX;
	peers->max_per_uid = SIZE_MAX;
	return peers;
}

static struct uid_count *
uid_add(struct peers *peers, uid_t uid)
{
	struct uid_count *entry;

	HASH_FIND(hh, peers->uids, &uid, sizeof(uid), entry);
	if (entry == NULL) {
		entry = mem_alloc(sizeof(*entry));
		entry->uid = uid;
		HASH_ADD(hh, peers->uids, uid, sizeof(uid), entry);
	}
	entry->count++;
	return entry;
}

static void
uid_remove(struct peers *peers, uid_t uid)
{
	struct uid_count *entry;

	HASH_FIND(hh, peers->uids, &uid, sizeof(uid), entry);
	if (--entry->count < peers->max_per_uid)
		entry->complained = false;
	if (entry->count > 0)
		return;
	HASH_DELETE(hh, peers->uids, entry);
	free(entry);
}

static void
peers_reap(struct peers *peers)
{
	struct conn *conn;
	uid_t uid;

	while ((conn = TAILQ_FIRST(&peers->room.dead)) != NULL) {
		TAILQ_REMOVE(&peers->room.dead, conn, dead);
		HASH_DELETE(by_id, peers->by_id, conn);
		uid = conn->subject.uid;
		conn_free(conn);
		/* Last: its requests counted there. */
		uid_remove(peers, uid);
	}
}

void
peers_free(struct peers *peers)
{
	struct conn *conn, *next;

	if (peers == NULL)
		return;
	HASH_ITER (by_id, peers->by_id, conn, next)
		conn_kill(conn, NULL);
	peers_reap(peers);
	free(peers);
}

void
peers_set_limits(struct peers *peers, size_t max_requests, size_t max_per_uid)
{
	peers->room.max_requests = max_requests;
	peers->max_per_uid = max_per_uid;
}

/* One line before the door is shut; it fits an empty socket's buffer. Logged once until it is over. */
static void
turn_away(int fd, struct uid_count *entry, size_t max)
{
	const struct message_id nobody = {.kind = MESSAGE_ID_NULL};
	struct message_error error;
	char *line;

	message_error_set(&error, REASON_TOO_MANY_REQUESTS,
	    "uid %u has %zu connections, which is all it may have", (unsigned)entry->uid, max);
	if (!entry->complained)
		log_warning("peers are turned away: %s", error.text);
	entry->complained = true;
	line = message_error_line(&nobody, &error, NULL);
	if (line != NULL && send(fd, line, strlen(line), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("a peer turned away did not hear why: %s", strerror(errno));
	free(line);
}

void
peers_add(struct peers *peers, int fd)
{
	struct conn *conn = conn_new(&peers->room, fd, ++peers->last);
	struct uid_count *entry;

	if (conn == NULL) {
		log_warning(
		    "a peer is closed, the kernel does not say who it is: %s", strerror(errno));
		return;
	}
	HASH_ADD(by_id, peers->by_id, id, sizeof(conn->id), conn);
	entry = uid_add(peers, conn->subject.uid);
	requests_count_in(conn->requests, &entry->requests);
	if (entry->count > peers->max_per_uid) {
		turn_away(fd, entry, peers->max_per_uid);
		conn_kill(conn, NULL);
	}
}

struct conn *
peers_find(const struct peers *peers, uint64_t id)
{
	struct conn *conn;

	HASH_FIND(by_id, peers->by_id, &id, sizeof(id), conn);
	return conn == NULL || conn->state == CONN_DEAD ? NULL : conn;
}

void
peers_each(struct peers *peers, void (*fn)(void *ctx, struct conn *conn), void *ctx)
{
	/* fn may kill: that frees nothing before the next visit. */
	for (struct conn *conn = peers->by_id; conn != NULL; conn = conn->by_id.next) {
		if (conn->state != CONN_DEAD)
			fn(ctx, conn);
	}
}

size_t
peers_count(const struct peers *peers)
{
	return HASH_CNT(by_id, peers->by_id);
}

bool
peers_visit(struct peers *peers)
{
	struct conn_list now = TAILQ_HEAD_INITIALIZER(now);
	struct conn *conn;

	/* What becomes due during the visit waits for the next: a pass always ends. */
	TAILQ_CONCAT(&now, &peers->room.due, due);
	while ((conn = TAILQ_FIRST(&now)) != NULL) {
		TAILQ_REMOVE(&now, conn, due);
		conn->is_due = false;
		conn_visit(conn);
	}
	peers_reap(peers);
	return !TAILQ_EMPTY(&peers->room.due);
}
