/*
 * One local peer: its socket, who it is, lines in, lines out, and the requests it is still owed
 * answers to. Input and output are bounded, and charged to the user's account. Knows nothing of methods
 * or locks: lines go to the handler's `line`, the end of the peer's side to `gone`.
 *
 *	socket -> line reader -> handler.line ...  conn_send -> out -> socket
 *
 * An event of the loop does nothing but make the conn due: it reads and writes when the owner of the room
 * (peers) visits it. No function here frees a conn: conn_kill() unhooks it and makes it due, and its
 * visitor frees it. What outlives a callback refers to conn->id.
 */
#ifndef PEER_CONN_H
#define PEER_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uthash.h>

#include "daemon/base/queue.h"
#include "daemon/config/access.h"
#include "daemon/peer/account.h"
#include "protocol/line.h"

struct event;
struct event_base;
struct requests;
struct unread;

/* Complete lines taken from one peer in one visit: the others have their turn then. */
#define CONN_LINES_A_VISIT 32
/* Bytes that a peer may leave unread. */
#define CONN_OUT_MAX LINE_MAX_OUT

enum conn_state {
	CONN_OPEN,   /* read, unless too much of it is being answered */
	CONN_ENDING, /* `gone` was told; nothing is read; dies when all it is owed is written */
	CONN_DEAD    /* fd closed; due to be freed, or waits for the end of its scans */
};

/* Who hears of conns. */
struct conn_handler {
	/*
	 * Never called from inside conn_send() or conn_kill(), which the engine's callbacks use. False: it is a
	 * scan, and its user has no room for one more. The line is offered again when there is room.
	 */
	bool (*line)(void *ctx, struct conn *conn, const char *line, size_t len);
	/* Once for every conn: it asks for nothing any more; before that at the latest it is freed. */
	void (*gone)(void *ctx, struct conn *conn);
	/* Once for every conn, when it has died: it hears nothing any more. */
	void (*left)(void *ctx, struct conn *conn);
	void *ctx; /* borrowed */
};

/* What the conns of a daemon share. */
struct conn_room {
	struct event_base *base; /* borrowed */
	struct accounts accounts;
	TAILQ_HEAD(, account)
	turns;               /* users with conns that are due, in the order of their turns */
	size_t due_count;    /* conns that are due */
	int64_t visit_end;   /* of the visits that go on: a conn takes no more lines then */
	size_t max_requests; /* being answered, for each peer; above it that peer is not read */
	bool deaf;           /* no peer is read any more: the daemon stops */
	struct conn_handler handler;
};

struct conn {
	uint64_t id; /* never used twice */
	struct access_subject subject;
	struct account *account;   /* borrowed; of its user */
	struct requests *requests; /* owned; added to and removed from by dispatch */
	enum conn_state state;

	/* conn.c's own */
	struct conn_room *room; /* borrowed */
	int fd;                 /* -1 when dead */
	struct event *event;    /* owned */
	short interest;         /* what event is added for; 0 = not added */
	struct line_reader *in; /* owned */
	struct unread *out;     /* owned */
	size_t charged;         /* bytes of in, out and parked, in the account */
	bool readable;          /* there is something to read, or there was */
	bool lines_left; /* the reader may hold whole lines: nothing is read before they are gone */
	bool is_shut;    /* by the peer, seen while it was not read: it may have hung up */
	char *parked;    /* owned; a scan for which there is no room yet; NULL = none */
	size_t parked_len;     /* of it */
	bool is_behind_parked; /* one scan more: not read before that is taken */
	bool is_halted;        /* not read for want of bytes */
	bool told_gone, has_left;
	bool is_due;
	TAILQ_ENTRY(conn) due;       /* while is_due */
	TAILQ_ENTRY(conn) of_halted; /* while is_halted */
	TAILQ_ENTRY(conn) of_parked; /* while parked */

	UT_hash_handle by_id; /* peers.c's */
};

/*
 * Who is at the other end, by the kernel's word at the time of connect(2) (SO_PEERCRED, SO_PEERGROUPS; unix(7)),
 * never by the peer's. False with errno when the kernel will not say; *ret is untouched then.
 */
bool credentials_read(int fd, struct access_subject *ret) __attribute__((warn_unused_result));
void credentials_done(struct access_subject *subject);

/* Takes fd, which is non-blocking. NULL, with fd closed and errno, when the kernel says nothing of it. */
struct conn *conn_new(struct conn_room *room, int fd, uint64_t id);
/* It is dead. Tells `gone` if that is still owed, and `left`. */
void conn_leave(struct conn *conn);
/* Not for a conn on one of its account's lists. Leaves first. */
void conn_free(struct conn *conn);

/* Takes the line, malloc'ed, ending in LF; NULL (out of memory) ends the peer. Sent after the pass. */
void conn_send(struct conn *conn, char *line);
/* What is to be sent goes now, not after the pass: somebody waits for it. */
void conn_push(struct conn *conn);
/*
 * The same for news that the next such line makes old: while the peer has something left to read only
 * the newest one is kept, and sent behind that.
 */
void conn_send_newest(struct conn *conn, char *line);
/* Bytes sent that the peer has not read yet, as far as the kernel has not taken them. */
size_t conn_unread(const struct conn *conn);
/* Whether there are requests it has no answer to yet. */
bool conn_is_owed(const struct conn *conn);
/* The one door out. `why` is logged when the peer is not the one who left. */
void conn_kill(struct conn *conn, const char *why);
/* It is to be visited: there is something to be read or sent, or a request was taken from conn->requests. */
void conn_make_due(struct conn *conn);
/* There are bytes again: it may be read, and is due. */
void conn_resume(struct conn *conn);
/* There is room for one scan more, and for bytes: the one that is parked begins. */
void conn_take_parked(struct conn *conn);
/* Reads, takes lines that are left, writes what is to be sent. */
void conn_visit(struct conn *conn);

#endif
