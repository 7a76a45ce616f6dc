#include "tests/unit/conn_rig.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "daemon/base/log.h"
#include "daemon/peer/requests.h"

struct conn_rig rig;
static struct event_base *base;

static bool
line_came(void *ctx, struct conn *conn, const char *line, size_t len)
{
	struct message_id id = {.kind = MESSAGE_ID_INTEGER, .integer = rig.lines + 1};
	bool scans = rig.scans && strncmp(line, "ping", len) != 0;

	(void)ctx;
	if (rig.holds && strncmp(line, "ping", len) != 0)
		return false;
	if (scans && !account_has_room(conn->account, ACCOUNT_SCANS))
		return false;
	rig.last_peer = conn->id;
	rig.order[++rig.lines % CONN_RIG_ORDER] = conn->id;
	snprintf(rig.last_line, sizeof(rig.last_line), "%.*s", (int)len, line);
	if (rig.keeps)
		requests_add(
		    conn->requests, &id, NULL, rig.keeps_waiting ? REQUEST_WAITS : REQUEST_QUICK);
	if (scans)
		requests_add(conn->requests, &id, NULL, REQUEST_SCANS);
	for (int64_t end = clock_now(&clock_boottime) + rig.slow; clock_now(&clock_boottime) < end;)
		;
	if (rig.kills)
		conn_kill(conn, "the test says so");
	return true;
}

static void
peer_gone(void *ctx, struct conn *conn)
{
	(void)ctx;
	ck_assert_uint_ne(conn->id, 0);
	rig.gones++;
}

static void
peer_left(void *ctx, struct conn *conn)
{
	(void)ctx;
	ck_assert_int_ge(rig.gones, ++rig.lefts);
	ck_assert_ptr_null(peers_find(rig.peers, conn->id));
}

static void
log_came(void *ctx, enum log_level level, const char *line)
{
	(void)ctx;
	if (level <= LOG_LEVEL_WARNING)
		snprintf(rig.logged, sizeof(rig.logged), "%s", line);
}

void
conn_rig_setup(void)
{
	const struct conn_handler handler = {
	    .line = line_came, .gone = peer_gone, .left = peer_left};

	signal(SIGPIPE, SIG_IGN);
	log_set_sink(log_came, NULL);
	base = event_base_new();
	rig = (struct conn_rig){.peers = peers_new(base, &handler)};
	for (int thing = 0; thing < ACCOUNT_THINGS; thing++)
		rig.limits.most[thing] = SIZE_MAX;
	rig.limits.all_bytes = SIZE_MAX;
}

void
conn_rig_teardown(void)
{
	peers_free(rig.peers);
	event_base_free(base);
	log_set_sink(NULL, NULL);
}

void
set_limit(enum account_thing thing, size_t most, size_t max_requests)
{
	rig.limits.most[thing] = most;
	peers_set_limits(rig.peers, max_requests, &rig.limits);
}

int
peer_new(void)
{
	int ends[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	peers_add(rig.peers, ends[0]);
	return ends[1];
}

void
rig_loop(void)
{
	event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

bool
pass(void)
{
	rig_loop();
	peers_visit(rig.peers);
	return peers_are_due(rig.peers);
}

void
passes(void)
{
	for (int i = 0; i < 8; i++)
		pass();
}

void
say(int fd, const char *text)
{
	ck_assert_int_eq(write(fd, text, strlen(text)), strlen(text));
}

const char *
heard(int fd, bool *ret_end)
{
	static char text[1024];
	ssize_t got = read(fd, text, sizeof(text) - 1);
	char more;

	text[got > 0 ? got : 0] = '\0';
	if (got > 0)
		got = read(fd, &more, 1);
	/* Closed with something unread is a reset. */
	*ret_end = got == 0 || (got < 0 && errno == ECONNRESET);
	return text;
}
