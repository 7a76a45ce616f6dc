/*
 * One local peer: its socket, its credentials, lines in, lines out, and its unanswered requests.
 * Input and output are limited, and charged to the user's account. It knows neither methods nor
 * locks. It passes lines to the handler's `line`, and the end of the peer's side to `gone`.
 *
 *	socket -> line reader -> handler.line ...  conn_send -> out -> socket
 *
 * An event of the loop only marks the conn as due. The conn reads and writes when the owner of the
 * room (peers) visits it. No function here frees a conn: conn_kill() closes it and marks it as due,
 * and its visitor frees it. References that outlive a callback use conn->id.
 */
#ifndef PEER_CONN_H
#define PEER_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uthash.h>

#include "daemon/base/queue.h"
#include "daemon/config/access.h"
#include "daemon/peer/requests.h"
#include "daemon/state/state.h"
#include "protocol/line.h"

struct event;
struct event_base;
struct unread;

/* Lines that one visit takes from one peer. Then other peers have their turn. */
#define CONN_LINES_A_VISIT 32
/* Limit of the bytes that a peer leaves unread. */
#define CONN_OUT_MAX LINE_MAX_OUT

enum conn_state {
	CONN_OPEN,   /* read, unless too many of its requests are unanswered */
	CONN_ENDING, /* `gone` was called; not read; dies when all answers are written */
	CONN_DEAD    /* fd closed; freed at its next visit, or when its scans are over */
};

/* The callbacks for conns. */
struct conn_handler {
	/*
	 * A whole line. Never called from inside conn_send() or conn_kill(), which the engine's
	 * callbacks use. False: the line is a scan, and its user has no room for one more; or the
	 * room holds requests. The conn keeps the line and offers it again when there is room, or
	 * when the room holds none any more.
	 */
	bool (*line)(void *ctx, struct conn *conn, const char *line, size_t len);
	/* Once for each conn, before it is freed: the peer sends no more requests. */
	void (*gone)(void *ctx, struct conn *conn);
	/* Once for each conn, when it is dead: the peer gets no more answers. */
	void (*left)(void *ctx, struct conn *conn);
	void *ctx; /* borrowed */
};

/* The state that all conns of a daemon share. */
struct conn_room {
	struct event_base *base; /* borrowed */
	struct accounts accounts;
	TAILQ_HEAD(, account)
	turns;               /* users with due conns, in the order of their turns */
	size_t due_count;    /* number of due conns */
	int64_t visit_end;   /* clock time: from then on a visit takes no more lines */
	size_t max_requests; /* limit of unanswered requests: then the peer is not read */
	bool deaf;           /* the daemon stops: it reads no peer, and begins no parked scan */
	bool paused;         /* the same for a while: a successor may take over */
	bool holds;          /* the broker is not connected yet: a line that is not taken is held */
	struct conn_handler handler;
};

struct conn {
	uint64_t id; /* no id is used twice */
	struct access_subject subject;
	struct account *account;   /* borrowed; the account of its user */
	struct requests *requests; /* owned; dispatch adds and removes */
	enum conn_state state;

	/* owned by conn.c */
	struct conn_room *room; /* borrowed */
	int fd;                 /* -1: dead */
	struct event *event;    /* owned */
	short interest;         /* the events that `event` is added for; 0: not added */
	struct line_reader *in; /* owned */
	struct unread *out;     /* owned */
	size_t charged;         /* bytes of in, out and parked that the account was charged */
	bool readable;          /* the socket has input, or had some */
	bool lines_left;   /* may hold whole lines; the socket is not read until they are taken */
	bool is_shut;      /* the peer shut its side while unread: it may have hung up */
	char *parked;      /* owned; a scan that waits for room; NULL: none */
	size_t parked_len; /* of `parked` */
	bool is_behind_parked; /* another scan follows: not read until `parked` is taken */
	bool is_halted;        /* not read because its user has no bytes left */
	bool is_held;          /* not read because its next line is held */
	bool told_gone, has_left;
	bool is_due;
	TAILQ_ENTRY(conn) due;       /* while is_due */
	TAILQ_ENTRY(conn) of_halted; /* while is_halted */
	TAILQ_ENTRY(conn) of_parked; /* while parked */

	UT_hash_handle by_id; /* owned by peers.c */
};

/*
 * The credentials of the peer, as the kernel took them at connect(2) (SO_PEERCRED, SO_PEERGROUPS;
 * unix(7)). The peer's own claims do not count. False with errno: the kernel does not say; *ret is
 * unchanged.
 */
bool credentials_read(int fd, struct access_subject *ret) __attribute__((warn_unused_result));
void credentials_done(struct access_subject *subject);

/* Takes fd, which is non-blocking. NULL with errno, and fd closed: there are no credentials. */
struct conn *conn_new(struct conn_room *room, int fd, uint64_t id);
/* A conn as its successor in the next program takes it over (daemon/state). */
struct conn_saved {
	uint64_t id;
	int fd;
	bool ending; /* CONN_ENDING: `gone` was called */
	struct state_bytes input, output;
	const char *parked;    /* NULL: none */
	uint64_t last_request; /* the number of its newest request */
};
/* The output is a copy, which the caller frees. All else is borrowed. The conn is not dead. */
void conn_save(const struct conn *conn, struct conn_saved *ret);
/* As conn_new(), with an earlier program's input and output. */
struct conn *conn_restore(struct conn_room *room, const struct conn_saved *saved);
/* The conn is dead. Calls `gone`, unless it was called before, and `left`. */
void conn_leave(struct conn *conn);
/* The conn must not be on a list of its account. Calls conn_leave() first. */
void conn_free(struct conn *conn);

/*
 * Takes the line: malloc'ed, with LF at its end. NULL (out of memory) ends the peer. The line is
 * written after the pass.
 */
void conn_send(struct conn *conn, char *line);
/* Writes the output now instead of after the pass. */
void conn_push(struct conn *conn);
/*
 * As conn_send(), for news that a newer line replaces. While the peer has unread output, only the
 * newest of such lines in a row is kept. Lines that are sent later are written after it.
 */
void conn_send_newest(struct conn *conn, char *line);
/* Bytes of output that the kernel has not taken yet. */
size_t conn_unread(const struct conn *conn);
/* Whether the peer has unanswered requests. */
bool conn_is_owed(const struct conn *conn);
/* The only way to end a conn. `why` is logged; NULL: the peer left by itself. */
void conn_kill(struct conn *conn, const char *why);
/* Marks the conn as due: it has input or output, or a request left conn->requests. */
void conn_make_due(struct conn *conn);
/* The room holds no line any more: the conn may be read, and is due. */
void conn_let_go(struct conn *conn);
/* The user has bytes again: the conn may be read, and is due. */
void conn_resume(struct conn *conn);
/* The user has room for one more scan, and bytes: passes on the parked scan. */
void conn_take_parked(struct conn *conn);
/* Reads, takes the lines left, and writes output. */
void conn_visit(struct conn *conn);

#endif
