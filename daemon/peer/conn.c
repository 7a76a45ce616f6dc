#include "daemon/peer/conn.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <event2/event.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/peer/requests.h"
#include "protocol/message.h"

/*
 * Contents:
 *	Output: unread_*(): lines that the kernel has not taken yet, and their memory.
 *	Credentials: credentials_*(): which user and process is at the other end.
 *	Life: conn_new(), conn_free(); conn_save() and conn_restore() for a successor.
 *	Reasons not to read: conn_may_ask(): throttled, halted, held or parked. conn_watch(): what the loop
 *	   watches the socket for.
 *	The end: conn_kill(), conn_end().
 *	Lines out: conn_send(): limits of unread output.
 *	Lines in: conn_take(), conn_drain(), conn_read(): from bytes to lines.
 *	A visit: conn_event(), conn_visit(): reads, takes lines, writes.
 */

#define READ_SIZE (16 * 1024)
/* More groups than Linux lets a process have (NGROUPS_MAX). */
#define GROUPS_MAX 65536
/* Lines that are written at once. */
#define LINES_AT_ONCE 64
/* Of the allocator, for each line. */
#define OVERHEAD 16

struct unread_line {
	size_t len;
	TAILQ_ENTRY(unread_line) next;
	char text[];
};

struct unread {
	TAILQ_HEAD(, unread_line) lines; /* owned */
	size_t written;                  /* of the first */
	size_t length;                   /* bytes to be written, without the newest line */
	size_t size; /* bytes of memory; a line is freed when all of it was written */
	struct unread_line *newest; /* owned; NULL = none */
};

static void conn_event(evutil_socket_t fd, short what, void *ctx);
static void conn_write(struct conn *conn);

/* ---- output ---- */

static size_t
unread_line_size(const struct unread_line *line)
{
	return sizeof(*line) + line->len + OVERHEAD;
}

static struct unread_line *
unread_line_new(struct unread *unread, const void *text, size_t len)
{
	struct unread_line *line = mem_alloc(sizeof(*line) + len);

	line->len = len;
	memcpy(line->text, text, len);
	unread->size += unread_line_size(line);
	return line;
}

static void
unread_line_free(struct unread *unread, struct unread_line *line)
{
	if (line == NULL)
		return;
	unread->size -= unread_line_size(line);
	free(line);
}

static void
unread_append(struct unread *unread, struct unread_line *line)
{
	TAILQ_INSERT_TAIL(&unread->lines, line, next);
	unread->length += line->len;
}

/* The newest line is in its place: none replaces it any more. */
static void
unread_place_newest(struct unread *unread)
{
	if (unread->newest == NULL)
		return;
	unread_append(unread, unread->newest);
	unread->newest = NULL;
}

/* The first bytes were written. */
static void
unread_drop(struct unread *unread, size_t written)
{
	struct unread_line *line;

	unread->length -= written;
	unread->written += written;
	while ((line = TAILQ_FIRST(&unread->lines)) != NULL && unread->written >= line->len) {
		unread->written -= line->len;
		TAILQ_REMOVE(&unread->lines, line, next);
		unread_line_free(unread, line);
	}
}

static void
unread_free(struct unread *unread)
{
	unread_drop(unread, unread->length);
	unread_line_free(unread, unread->newest);
	free(unread);
}

/* Copies the bytes, of any number of lines. */
static void
unread_put_bytes(struct unread *unread, const void *bytes, size_t len)
{
	unread_place_newest(unread);
	if (len > 0)
		unread_append(unread, unread_line_new(unread, bytes, len));
}

/*
 * Copies the line. The next such line replaces it, unless another line came between them or it is
 * being written.
 */
static void
unread_put_newest(struct unread *unread, const char *line)
{
	unread_line_free(unread, unread->newest);
	unread->newest = unread_line_new(unread, line, strlen(line));
}

/* All bytes to be written, and the newest line. The caller frees the copy. */
static char *
unread_copy(const struct unread *unread, size_t *ret_len)
{
	size_t newest = unread->newest == NULL ? 0 : unread->newest->len;
	char *bytes = mem_alloc(unread->length + newest), *at = bytes;
	size_t skip = unread->written;
	const struct unread_line *line;

	TAILQ_FOREACH (line, &unread->lines, next) {
		memcpy(at, line->text + skip, line->len - skip);
		at += line->len - skip;
		skip = 0;
	}
	if (newest > 0)
		memcpy(at, unread->newest->text, newest);
	*ret_len = unread->length + newest;
	return bytes;
}

static ssize_t
unread_write_some(const struct unread *unread, int fd)
{
	struct iovec parts[LINES_AT_ONCE];
	struct unread_line *line;
	int count = 0;

	for (line = TAILQ_FIRST(&unread->lines); line != NULL && count < LINES_AT_ONCE;
	     line = TAILQ_NEXT(line, next))
		parts[count++] = (struct iovec){.iov_base = line->text, .iov_len = line->len};
	parts[0].iov_base = (char *)parts[0].iov_base + unread->written;
	parts[0].iov_len -= unread->written;
	return writev(fd, parts, count);
}

/* Writes as much as fd takes. Returns 0 or an errno. An errno ends the connection. */
static int
unread_write(struct unread *unread, int fd)
{
	ssize_t written;

	for (;;) {
		if (unread->length == 0)
			unread_place_newest(unread);
		if (unread->length == 0)
			return 0;
		written = unread_write_some(unread, fd);
		if (written >= 0)
			unread_drop(unread, (size_t)written);
		else if (errno != EINTR)
			return errno == EAGAIN ? 0 : errno;
	}
}

/* ---- credentials ---- */

/* The kernel answers ERANGE with the size it needs; the groups of a socket do not change. */
static bool
credentials_read_groups(int fd, struct access_subject *subject)
{
	socklen_t size = 32 * sizeof(gid_t);
	gid_t *groups = mem_grow(NULL, 32, sizeof(gid_t));

	while (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) != 0) {
		if (errno != ERANGE || size > GROUPS_MAX * sizeof(gid_t)) {
			free(groups);
			return false;
		}
		groups = mem_grow(groups, size, 1);
	}
	subject->groups = groups;
	subject->group_count = size / sizeof(gid_t);
	return true;
}

bool
credentials_read(int fd, struct access_subject *ret)
{
	struct access_subject subject = {0};
	struct ucred cred;
	socklen_t size = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) != 0)
		return false;
	subject.uid = cred.uid;
	subject.gid = cred.gid;
	subject.pid = cred.pid;
	if (!credentials_read_groups(fd, &subject))
		return false;
	*ret = subject;
	return true;
}

void
credentials_done(struct access_subject *subject)
{
	free(subject->groups);
	*subject = (struct access_subject){0};
}

/* ---- life ---- */

static const char *
conn_state_name(enum conn_state state)
{
	switch (state) {
	case CONN_OPEN:
		return "open";
	case CONN_ENDING:
		return "ending";
	case CONN_DEAD:
		return "dead";
	}
	return "?";
}

static void
conn_set_state(struct conn *conn, enum conn_state state)
{
	assert(state > conn->state);
	log_debug("client %llu: %s -> %s", (unsigned long long)conn->id,
	    conn_state_name(conn->state), conn_state_name(state));
	conn->state = state;
}

struct conn *
conn_new(struct conn_room *room, int fd, uint64_t id)
{
	struct conn *conn = mem_alloc(sizeof(*conn));

	conn->room = room;
	conn->id = id;
	conn->fd = fd;
	conn->state = CONN_OPEN;
	if (!credentials_read(fd, &conn->subject)) {
		int saved = errno;

		close(fd);
		free(conn);
		errno = saved;
		return NULL;
	}
	conn->account = account_open(&room->accounts, conn->subject.uid);
	conn->requests = requests_new(conn->account);
	conn->in = line_reader_new(LINE_MAX_IN);
	conn->out = mem_alloc(sizeof(*conn->out));
	TAILQ_INIT(&conn->out->lines);
	conn->event = event_new(room->base, fd, EV_READ | EV_PERSIST, conn_event, conn);
	conn->interest = EV_READ;
	if (conn->in == NULL || conn->event == NULL || event_add(conn->event, NULL) != 0) {
		log_error("out of memory");
		abort();
	}
	return conn;
}

static void
conn_tell_gone(struct conn *conn)
{
	if (conn->told_gone)
		return;
	conn->told_gone = true;
	conn->room->handler.gone(conn->room->handler.ctx, conn);
}

void
conn_leave(struct conn *conn)
{
	if (conn->has_left)
		return;
	conn_tell_gone(conn);
	conn->has_left = true;
	conn->room->handler.left(conn->room->handler.ctx, conn);
}

void
conn_free(struct conn *conn)
{
	if (conn == NULL)
		return;
	assert(!conn->is_due && !conn->is_halted);
	conn_leave(conn);
	if (conn->fd >= 0)
		close(conn->fd);
	event_free(conn->event);
	unread_free(conn->out);
	line_reader_free(conn->in);
	requests_free(conn->requests);
	account_remove(conn->account, ACCOUNT_BYTES, conn->charged);
	account_close(conn->account);
	credentials_done(&conn->subject);
	free(conn);
}

/* Updates the charge after a change of its memory. */
static void
conn_charge(struct conn *conn)
{
	size_t bytes = line_reader_size(conn->in) + conn->out->size;

	FAULT(UNREAD_IS_FREE, bytes = line_reader_size(conn->in));
	if (conn->parked != NULL)
		bytes += conn->parked_len + 1;
	account_add(conn->account, ACCOUNT_BYTES, bytes);
	account_remove(conn->account, ACCOUNT_BYTES, conn->charged);
	conn->charged = bytes;
}

void
conn_save(const struct conn *conn, struct conn_saved *ret)
{
	size_t input, output;

	assert(conn->state != CONN_DEAD);
	*ret = (struct conn_saved){.id = conn->id,
	    .fd = conn->fd,
	    .ending = conn->state == CONN_ENDING,
	    .parked = conn->parked,
	    .last_request = requests_last(conn->requests)};
	ret->input.bytes = (const uint8_t *)line_reader_left(conn->in, &input);
	ret->input.len = input;
	ret->output.bytes = (const uint8_t *)unread_copy(conn->out, &output);
	ret->output.len = output;
}

struct conn *
conn_restore(struct conn_room *room, const struct conn_saved *saved)
{
	struct conn *conn = conn_new(room, saved->fd, saved->id);

	if (conn == NULL)
		return NULL;
	requests_set_last(conn->requests, saved->last_request);
	if (line_reader_feed(conn->in, saved->input.bytes, saved->input.len) != LINE_NONE) {
		conn_kill(conn, "out of memory");
		return conn;
	}
	conn->lines_left = saved->input.len > 0;
	unread_put_bytes(conn->out, saved->output.bytes, saved->output.len);
	if (saved->parked != NULL) {
		conn->parked = mem_strdup(saved->parked);
		conn->parked_len = strlen(saved->parked);
		TAILQ_INSERT_TAIL(&conn->account->parked, conn, of_parked);
	}
	if (saved->ending) {
		conn->told_gone = true;
		conn_set_state(conn, CONN_ENDING);
	}
	conn->is_shut = true; /* it may have hung up meanwhile, which is told once */
	conn_charge(conn);
	conn_make_due(conn);
	return conn;
}

/* ---- reasons not to read ---- */

static bool
conn_is_throttled(const struct conn *conn)
{
	size_t answering = requests_answering(conn->requests) + (conn->parked != NULL);

	return conn->room->deaf || conn->room->paused || conn->is_halted || conn->is_held ||
	       conn->is_behind_parked || answering >= conn->room->max_requests;
}

static void
conn_end_halt(struct conn *conn)
{
	if (!conn->is_halted)
		return;
	conn->is_halted = false;
	TAILQ_REMOVE(&conn->account->halted, conn, of_halted);
}

void
conn_resume(struct conn *conn)
{
	conn_end_halt(conn);
	conn_make_due(conn);
}

void
conn_let_go(struct conn *conn)
{
	conn->is_held = false;
	conn_make_due(conn);
}

/* The line, which is the caller's; NULL: none was. */
static char *
conn_end_park(struct conn *conn)
{
	char *line = conn->parked;

	if (line != NULL)
		TAILQ_REMOVE(&conn->account->parked, conn, of_parked);
	conn->parked = NULL;
	conn->is_behind_parked = false;
	return line;
}

void
conn_take_parked(struct conn *conn)
{
	char *line = conn_end_park(conn);
	bool taken =
	    conn->room->handler.line(conn->room->handler.ctx, conn, line, conn->parked_len);

	assert(taken);
	(void)taken;
	free(line);
	conn_make_due(conn);
}

/* Whether it is to be read, or a line of it taken. */
static bool
conn_may_ask(struct conn *conn)
{
	if (conn->state != CONN_OPEN || conn_is_throttled(conn))
		return false;
	if (account_has_room(conn->account, ACCOUNT_BYTES))
		return true;
	account_complain(conn->account);
	conn->is_halted = true;
	TAILQ_INSERT_TAIL(&conn->account->halted, conn, of_halted);
	return false;
}

/* The one place that computes what the loop watches the socket for. */
static void
conn_watch(struct conn *conn)
{
	short interest = 0;

	/*
	 * Each change is told once: the peer shuts its sending side, and later it hangs up. If it
	 * hangs up with unread bytes, the kernel says EPOLLERR, too, and libevent 2.1.12 makes that
	 * EV_READ | EV_WRITE without EV_CLOSED.
	 */
	if (conn->state == CONN_ENDING || conn_is_throttled(conn))
		interest |= EV_CLOSED | EV_WRITE | EV_ET;
	else if (!conn->lines_left && !conn->readable)
		interest |= EV_READ;
	/*
	 * By edges it is told once; and to give the interest up and take it again would be told as
	 * a new one.
	 */
	if (conn->out->length > 0 && (!conn->is_due || (interest & EV_ET) != 0))
		interest |= EV_WRITE;
	if (interest == conn->interest)
		return;
	event_del(conn->event);
	conn->interest = interest;
	if (interest == 0)
		return;
	if (event_assign(conn->event, conn->room->base, conn->fd, interest | EV_PERSIST, conn_event,
		conn) != 0 ||
	    event_add(conn->event, NULL) != 0)
		conn_kill(conn, "the event loop does not accept its socket");
}

void
conn_make_due(struct conn *conn)
{
	struct account *account = conn->account;

	if (conn->is_due)
		return;
	conn->is_due = true;
	conn->room->due_count++;
	if (TAILQ_EMPTY(&account->due))
		TAILQ_INSERT_TAIL(&conn->room->turns, account, turn);
	TAILQ_INSERT_TAIL(&account->due, conn, due);
}

/* ---- the end ---- */

void
conn_kill(struct conn *conn, const char *why)
{
	if (conn->state == CONN_DEAD)
		return;
	conn_set_state(conn, CONN_DEAD);
	if (why != NULL)
		log_warning("client %llu (uid %u, pid %d) is closed: %s",
		    (unsigned long long)conn->id, (unsigned)conn->subject.uid,
		    (int)conn->subject.pid, why);
	event_del(conn->event);
	conn->interest = 0;
	/* Out of the loop's sight and of the peer's at once, though freed only later. */
	close(conn->fd);
	conn->fd = -1;
	conn_end_halt(conn);
	free(conn_end_park(conn));
	conn_make_due(conn);
}

/* The peer sends no more: its holds and waits end now, and its open requests are still answered. */
static void
conn_end(struct conn *conn)
{
	conn_set_state(conn, CONN_ENDING);
	FAULT(HALF_CLOSED_GOES_ON, conn_make_due(conn); return;);
	conn_tell_gone(conn);
	conn_make_due(conn);
}

/* ---- lines out ---- */

/*
 * Whether the peer may get so many more bytes. If its user has no bytes left, a peer that has read
 * all its output may still get them: its requests must be answered.
 */
static bool
conn_can_take(struct conn *conn, size_t len)
{
	if (conn->out->length + len > CONN_OUT_MAX)
		return false;
	if (account_has_room(conn->account, ACCOUNT_BYTES))
		return true;
	conn_write(conn);
	return conn->state == CONN_DEAD || conn->out->length == 0;
}

static void
conn_put(struct conn *conn, char *line, bool newest)
{
	if (line == NULL)
		conn_kill(conn, "out of memory");
	else if (!newest && conn->state != CONN_DEAD && !conn_can_take(conn, strlen(line)))
		conn_kill(conn, "it does not read its answers");
	if (conn->state != CONN_DEAD) {
		if (newest)
			unread_put_newest(conn->out, line);
		else
			unread_put_bytes(conn->out, line, strlen(line));
		conn_charge(conn);
		conn_make_due(conn);
	}
	free(line);
}

void
conn_send(struct conn *conn, char *line)
{
	conn_put(conn, line, false);
}

void
conn_send_newest(struct conn *conn, char *line)
{
	conn_put(conn, line, true);
}

size_t
conn_unread(const struct conn *conn)
{
	return conn->out->length;
}

bool
conn_is_owed(const struct conn *conn)
{
	/* A parked scan does not begin once the daemon stops. */
	return requests_count(conn->requests) > 0 || (conn->parked != NULL && !conn->room->deaf);
}

/* ---- lines in ---- */

/* The input is no line, so the answer has no id. */
static void
conn_refuse_input(struct conn *conn, const struct message_error *error)
{
	const struct message_id nobody = {.kind = MESSAGE_ID_NULL};

	conn_send(conn, message_error_line(&nobody, error, NULL));
}

/* False: it has to wait until the one that is parked has begun, or until no line is held. */
static bool
conn_take(struct conn *conn, const char *line, size_t len)
{
	if (conn->room->handler.line(conn->room->handler.ctx, conn, line, len))
		return true;
	if (conn->room->holds) {
		conn->is_held = true;
		return false;
	}
	conn->is_behind_parked = conn->parked != NULL;
	if (conn->is_behind_parked)
		return false;
	conn->parked = mem_alloc(len + 1);
	memcpy(conn->parked, line, len);
	conn->parked_len = len;
	TAILQ_INSERT_TAIL(&conn->account->parked, conn, of_parked);
	return true;
}

/* Hands on what whole lines there are, as many as one visit and the limits allow. */
static void
conn_drain(struct conn *conn)
{
	struct message_error error;
	const char *line;
	size_t len;

	for (int taken = 0; taken < CONN_LINES_A_VISIT; taken++) {
		if (taken > 0 && clock_now(&clock_boottime) >= conn->room->visit_end)
			break;
		if (conn->state != CONN_OPEN)
			return;
		switch (line_reader_next(conn->in, &line, &len)) {
		case LINE_READY:
			if (conn_may_ask(conn) && conn_take(conn, line, len))
				break;
			line_reader_untake(conn->in, line, len);
			return;
		case LINE_NONE:
			conn->lines_left = false;
			return;
		case LINE_TOO_LONG:
			message_error_set(&error, REASON_INVALID_REQUEST,
			    "a line is longer than %d bytes", LINE_MAX_IN);
			conn_refuse_input(conn, &error);
			if (conn->state == CONN_OPEN)
				conn_end(conn);
			return;
		case LINE_NO_MEMORY:
			conn_kill(conn, "out of memory");
			return;
		}
	}
	conn_make_due(conn);
}

/*
 * Whether the peer closed its socket, and not only its sending side. The kernel says POLLHUP if
 * both directions are shut (unix_poll). Only then can the peer read no answer.
 */
static bool
conn_is_hung_up(int fd)
{
	struct pollfd poller = {.fd = fd};

	return poll(&poller, 1, 0) == 1 && (poller.revents & POLLHUP) != 0;
}

static void
conn_read(struct conn *conn)
{
	char bytes[READ_SIZE];
	struct message_error error;
	size_t left;
	ssize_t got;

	if (!conn_may_ask(conn))
		return;
	got = read(conn->fd, bytes, sizeof(bytes));
	if (got < 0) {
		if (errno != EAGAIN && errno != EINTR)
			conn_kill(conn, errno == ECONNRESET ? NULL : strerror(errno));
		return;
	}
	if (got == 0) {
		/* Nothing is read while lines are left: dispatch has had all earlier ones. */
		if (conn_is_hung_up(conn->fd)) {
			conn_kill(conn, NULL);
			return;
		}
		if (line_reader_left(conn->in, &left) != NULL) {
			message_error_set(
			    &error, REASON_INVALID_REQUEST, "the last line has no LF");
			conn_refuse_input(conn, &error);
		}
		if (conn->state == CONN_OPEN)
			conn_end(conn);
		return;
	}
	if (line_reader_feed(conn->in, bytes, (size_t)got) != LINE_NONE) {
		conn_kill(conn, "out of memory");
		return;
	}
	conn->lines_left = true;
	conn_drain(conn);
}

static void
conn_write(struct conn *conn)
{
	int error = unread_write(conn->out, conn->fd);

	if (error != 0)
		conn_kill(conn, error == EPIPE || error == ECONNRESET ? NULL : strerror(error));
	else if (conn->state == CONN_ENDING && !conn_is_owed(conn) && conn->out->length == 0)
		conn_kill(conn, NULL);
}

/* ---- a visit ---- */

static void
conn_event(evutil_socket_t fd, short what, void *ctx)
{
	struct conn *conn = ctx;

	(void)fd;
	if ((what & EV_CLOSED) != 0 || (conn->interest & EV_ET) != 0) {
		/* Thousands may hang up at once: each is closed in its turn. */
		conn->is_shut = true;
		conn_make_due(conn);
	}
	if ((what & (EV_READ | EV_WRITE)) != 0) {
		conn->readable |= (what & EV_READ) != 0;
		/*
		 * The second time it is still to be visited: the loop need not say it in each pass.
		 */
		if (conn->is_due)
			conn_watch(conn);
		conn_make_due(conn);
	} else if (conn->state != CONN_DEAD) {
		conn_watch(conn);
	}
}

void
conn_push(struct conn *conn)
{
	if (conn->state == CONN_DEAD)
		return;
	conn_write(conn);
	conn_charge(conn);
}

/*
 * A peer that has hung up dies at once if it is not read for long. Otherwise its requests are read
 * first, until the end of its input. A pause is short, and so is the time for which a line is held:
 * this is decided when it is over.
 */
static void
conn_see_shut(struct conn *conn)
{
	if (!conn->is_shut || (conn->state == CONN_OPEN && (conn->room->paused || conn->is_held)))
		return;
	conn->is_shut = false;
	if (conn->state != CONN_DEAD && (conn->state == CONN_ENDING || conn_is_throttled(conn)) &&
	    conn_is_hung_up(conn->fd))
		conn_kill(conn, NULL);
}

void
conn_visit(struct conn *conn)
{
	bool readable = conn->readable;

	assert(!conn->is_due);
	conn->readable = false;
	if (conn->lines_left)
		conn_drain(conn);
	else if (readable)
		conn_read(conn);
	conn_see_shut(conn);
	if (conn->state != CONN_DEAD)
		conn_write(conn);
	conn_charge(conn);
	if (conn->state != CONN_DEAD)
		conn_watch(conn);
}
