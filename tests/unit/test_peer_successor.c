/*
 * Clients over socketpairs, and a daemon with the broker in memory. Another daemon takes its place
 * and reads its state. The clients keep their ends.
 */
#include "tests/lock_settings.h"
#include "tests/unit/unit.h"
#include "tests/virtual_time.h"
#include "tests/whole_daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/peer/requests.h"
#include "daemon/peer/dispatch_internal.h"

#define SOON (50 * NSEC_PER_MSEC)
/* Bytes that a client reads at once. */
#define HEARD_MAX ((size_t)4 * 1024 * 1024)

/* Slow: no request to the broker is answered while the test lasts. */
static bool slow;

static int64_t
delay_of(void *ctx)
{
	(void)ctx;
	return slow ? 1000 * NSEC_PER_SEC : NSEC_PER_MSEC;
}

static const struct memory_behaviour behaviour = {.delay = delay_of};

static struct whole_daemon its;
static char logged[65536];

static void
log_came(void *ctx, enum log_level level, const char *line)
{
	size_t len = strlen(logged);

	(void)ctx;
	if (level <= LOG_LEVEL_INFO)
		snprintf(logged + len, sizeof(logged) - len, "%s\n", line);
}

/* The number of log lines that begin so. */
static int
count_logged(const char *what)
{
	int count = 0;

	for (const char *line = logged; line[0] != '\0'; line = strchr(line, '\n') + 1)
		count += strncmp(line, what, strlen(what)) == 0;
	return count;
}

/* ---- a daemon ---- */

static void
settle(void)
{
	ck_assert_msg(whole_daemon_settle(&its), "the loop does not come to rest");
}

static void
pass_time(int64_t ns)
{
	virtual_time_pass(its.timers, ns, settle);
}

static void
freeze(void)
{
	peers_pause(its.peers, true);
	lock_freeze(its.engine, true);
	for (int i = 0; i < 100 && !lock_is_still(its.engine); i++)
		pass_time(10 * NSEC_PER_MSEC);
	ck_assert(lock_is_still(its.engine));
}

static struct state_text
save(void)
{
	struct state_text text;

	ck_assert(whole_daemon_save(&its, &text));
	return text;
}

/* The daemon is frozen. */
static void
hand_over(void)
{
	struct state_text text = save();
	char why[128];

	ck_assert_msg(whole_daemon_succeed(&its, &text, why, sizeof(why)), "%s", why);
	state_text_done(&text);
	pass_time(SOON);
}

static void
replace(void)
{
	freeze();
	hand_over();
}

/* ---- clients ---- */

static int
client(void)
{
	int ends[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	peers_add(its.peers, ends[0]);
	return ends[1];
}

static void
say(int fd, const char *text)
{
	ck_assert_int_eq(write(fd, text, strlen(text)), strlen(text));
}

/* The bytes that the client has to read. Static. */
static const char *
heard(int fd)
{
	static char text[HEARD_MAX];
	size_t len = 0;
	ssize_t got;

	while (len < sizeof(text) - 1 && (got = read(fd, text + len, sizeof(text) - 1 - len)) > 0) {
		len += (size_t)got;
		settle(); /* The daemon has more. */
	}
	text[len] = '\0';
	return text;
}

/* The number of times that `what` is in the text. */
static int
count(const char *text, const char *what)
{
	int found = 0;

	for (; (text = strstr(text, what)) != NULL; text += strlen(what))
		found++;
	return found;
}

/* Sends the line, lets a while pass, and returns the answer. */
static const char *
ask(int fd, const char *line)
{
	say(fd, line);
	pass_time(SOON);
	return heard(fd);
}

#define ACQUIRE(id, name)                                                                          \
	"{\"id\":" id ",\"method\":\"acquire\",\"params\":{\"name\":\"" name                       \
	"\",\"kind\":\"mutex\"}}\n"
#define SCAN(id) "{\"id\":" id ",\"method\":\"size\",\"params\":{\"name\":\"db\"}}\n"
#define SIZE(id) "\"id\":" id ",\"result\":{\"name\":\"db\""
#define PING(id) "{\"id\":" id ",\"method\":\"ping\"}\n"
#define PONG(id) "\"id\":" id ",\"result\":{}"
#define HELD "\"lock\":\""

static struct lock_counts
counts(void)
{
	struct lock_counts found;

	lock_get_counts(its.engine, &found);
	return found;
}

static void
note_conn(void *ctx, struct conn *conn)
{
	struct conn **newest = ctx;

	if (*newest == NULL || conn->id > (*newest)->id)
		*newest = conn;
}

/* The client that came last, at the daemon's side. */
static struct conn *
newest(void)
{
	struct conn *found = NULL;

	peers_each(its.peers, note_conn, &found);
	ck_assert_ptr_nonnull(found);
	return found;
}

/* Answers that the client does not read, more than its socket takes. Returns their number. */
static int
fill(int fd)
{
	int answers = 0;

	for (; answers < 40 && conn_unread(newest()) == 0; answers++) {
		say(fd, "{\"id\":99,\"method\":\"rpc.discover\"}\n");
		settle();
	}
	ck_assert_uint_gt(conn_unread(newest()), 0);
	return answers;
}

static void
setup(void)
{
	char *args[] = {"lockbrokerd", "--config=/dev/null", "--broker=memory:", NULL};
	enum config_action action;
	struct config_errors errors;

	signal(SIGPIPE, SIG_IGN);
	log_set_sink(log_came, NULL);
	logged[0] = '\0';
	slow = false;
	now = 1000 * NSEC_PER_SEC;
	its = (struct whole_daemon){.clock = &virtual_clock,
	    .locks = {TEST_LOCK_SETTINGS, .max_locks_per_connection = 100,
		.max_waits_per_connection = 100},
	    .max_requests = 100,
	    .channels_max = 100};
	for (int thing = 0; thing < ACCOUNT_THINGS; thing++)
		its.limits.most[thing] = SIZE_MAX;
	its.limits.all_bytes = SIZE_MAX;
	its.config = config_load(3, args, &action, &errors);
	ck_assert_msg(its.config != NULL, "%s", errors.texts[0]);
	whole_daemon_begin(&its, &behaviour);
	pass_time(SOON);
	memory_world_put(its.world, "db-1-A", false);
	memory_world_put(its.world, "db-2-A", false);
}

static void
teardown(void)
{
	whole_daemon_end(&its);
	config_free(its.config);
	log_set_sink(NULL, NULL);
}

/* ---- clients that end meanwhile ---- */

START_TEST(a_client_that_is_dead_and_not_visited_yet_is_gone)
{
	int waiter = client(), fd = client();

	ck_assert_int_eq(count(ask(fd, ACQUIRE("1", "m")), HELD), 1);
	fill(fd);
	ask(waiter, ACQUIRE("1", "m"));
	freeze();
	close(fd);
	hand_over();
	ck_assert_int_eq(count(heard(waiter), HELD), 1);
	ck_assert_uint_eq(counts().holds, 1);
	ck_assert_uint_eq(peers_count(its.peers), 1);
	close(waiter);
	pass_time(SOON);
	ck_assert_uint_eq(counts().holds, 0);
}
END_TEST

START_TEST(a_waiter_that_is_dead_and_not_visited_yet_is_gone)
{
	int holder = client(), fd = client();

	ask(holder, ACQUIRE("1", "m"));
	ask(fd, ACQUIRE("1", "m"));
	fill(fd);
	ck_assert_uint_eq(counts().waiting, 1);
	freeze();
	close(fd);
	hand_over();
	ck_assert_uint_eq(counts().waiting, 0);
	close(holder);
	pass_time(SOON);
	ck_assert_uint_eq(counts().holds, 0);
}
END_TEST

START_TEST(the_release_of_a_client_that_hung_up_meanwhile_is_logged)
{
	struct state_text text;
	char why[128];
	int fd = client();

	ask(fd, ACQUIRE("1", "m"));
	freeze();
	text = save();
	text.socket_count = 0; /* Its socket does not arrive. */
	ck_assert_msg(whole_daemon_succeed(&its, &text, why, sizeof(why)), "%s", why);
	state_text_done(&text);
	pass_time(SOON);
	ck_assert_uint_eq(counts().holds, 0);
	ck_assert_int_eq(count_logged("released m: "), 1);
	close(fd);
}
END_TEST

START_TEST(a_client_that_sends_and_hangs_up_meanwhile_is_heard)
{
	int fd = client(), other = client();

	ask(fd, PING("1"));
	freeze();
	say(fd, "{\"id\":2,\"method\":\"create\",\"params\":{\"name\":\"new\",\"slots\":2}}\n");
	close(fd);
	pass_time(SOON);
	hand_over();
	ck_assert(memory_world_has(its.world, "new-2-A", NULL));
	ck_assert_uint_eq(peers_count(its.peers), 1);
	close(other);
}
END_TEST

START_TEST(a_client_that_sends_and_hangs_up_is_heard_if_the_daemon_goes_on)
{
	int fd = client();

	ask(fd, PING("1"));
	freeze();
	say(fd, "{\"id\":2,\"method\":\"create\",\"params\":{\"name\":\"new\",\"slots\":2}}\n");
	close(fd);
	pass_time(SOON);
	lock_freeze(its.engine, false);
	peers_pause(its.peers, false);
	pass_time(SOON);
	ck_assert(memory_world_has(its.world, "new-2-A", NULL));
	ck_assert_uint_eq(peers_count(its.peers), 0);
}
END_TEST

/* ---- requests ---- */

START_TEST(a_parked_scan_of_a_client_that_ends_is_answered)
{
	int fd = client(), ends = client();

	its.limits.most[ACCOUNT_SCANS] = 1;
	peers_set_limits(its.peers, 100, &its.limits);
	slow = true;
	ask(fd, SCAN("1"));
	ask(ends, SCAN("2"));
	shutdown(ends, SHUT_WR);
	settle();
	freeze();
	settle();
	slow = false;
	hand_over();
	pass_time(SOON);
	ck_assert_int_eq(count(heard(fd), SIZE("1")), 1);
	ck_assert_int_eq(count(heard(ends), SIZE("2")), 1);
	pass_time(SOON);
	ck_assert_uint_eq(peers_count(its.peers), 1);
	close(fd);
	close(ends);
}
END_TEST

START_TEST(a_request_is_logged_once)
{
	int holder = client(), fd = client();

	ask(holder, "{\"id\":1,\"method\":\"acquire\",\"params\":{\"name\":\"db\"}}\n"
		    "{\"id\":2,\"method\":\"acquire\",\"params\":{\"name\":\"db\"}}\n");
	ask(fd, "{\"id\":1,\"method\":\"resize\",\"params\":"
		"{\"name\":\"db\",\"slots\":0,\"wait\":30}}\n");
	slow = true;
	ask(fd, "{\"id\":2,\"method\":\"fsck\",\"params\":{\"name\":\"db\"}}\n");
	ck_assert_int_eq(count_logged("requested resize of db"), 1);
	slow = false;
	replace();
	replace();
	ck_assert_int_eq(count_logged("requested resize of db"), 1);
	ck_assert_int_eq(count_logged("requested fsck of db"), 1);
	ck_assert_int_eq(count_logged("done fsck of db"), 1);
	close(holder);
	pass_time(10 * SOON); /* two rounds over the slots that may be left */
	ck_assert_int_eq(count(heard(fd), "\"result\""), 2);
	ck_assert_int_eq(count_logged("done resize of db"), 1);
	close(fd);
}
END_TEST

/* Users take turns at the probes of waits for holders, here as at the successor. */
START_TEST(a_wait_for_holders_is_charged_to_the_user_of_the_change)
{
	int holder = client(), fd = client();
	struct state_text text;
	const char *record, *found;

	ck_assert_ptr_null(access_rules_add(its.config->access, "allow uid:7 resize *"));
	newest()->subject.uid = 7;
	ask(holder, "{\"id\":1,\"method\":\"acquire\",\"params\":{\"name\":\"db\"}}\n");
	ask(fd, "{\"id\":1,\"method\":\"resize\",\"params\":"
		"{\"name\":\"db\",\"slots\":0,\"wait\":30}}\n");
	freeze();
	text = save();
	record = strstr(text.text, "\"holder-wait\"");
	ck_assert_ptr_nonnull(record);
	found = strstr(record, "\"uid\":\"7\"");
	ck_assert_ptr_nonnull(found);
	ck_assert_ptr_null(memchr(record, '\n', (size_t)(found - record)));
	state_text_done(&text);
	close(holder);
	close(fd);
}
END_TEST

/* The broker has not answered it for two of its three seconds, and the successor repeats it. */
START_TEST(the_wait_of_a_repeated_request_does_not_begin_anew)
{
	int holder = client(), fd = client();

	ask(holder, "{\"id\":1,\"method\":\"acquire\",\"params\":{\"name\":\"db\"}}\n");
	slow = true;
	ask(fd, "{\"id\":1,\"method\":\"resize\",\"params\":"
		"{\"name\":\"db\",\"slots\":0,\"wait\":3}}\n");
	pass_time(2 * NSEC_PER_SEC);
	slow = false;
	replace();
	ck_assert_str_eq(heard(fd), "");
	pass_time(NSEC_PER_SEC + SOON);
	ck_assert_int_eq(count(heard(fd), "\"id\":1,"), 1);
	close(holder);
	close(fd);
}
END_TEST

START_TEST(no_number_of_a_client_is_used_twice)
{
	struct state_text text;
	char why[128];
	int fd = client();

	ask(fd, PING("1"));
	ck_assert_uint_eq(newest()->id, 1);
	close(fd);
	pass_time(SOON);
	replace();
	fd = client();
	ck_assert_uint_eq(newest()->id, 2);
	ask(fd, PING("1"));
	freeze();
	text = save();
	text.socket_count = 0;
	ck_assert_msg(whole_daemon_succeed(&its, &text, why, sizeof(why)), "%s", why);
	state_text_done(&text);
	close(fd);
	fd = client();
	ck_assert_uint_eq(newest()->id, 3);
	close(fd);
}
END_TEST

START_TEST(requests_keep_their_ids_and_numbers)
{
	int holder = client(), fd = client();
	const char *answer;
	uint64_t last;

	ask(holder, ACQUIRE("1", "m"));
	ask(fd, ACQUIRE("7", "m"));
	ask(fd, ACQUIRE("\"7\"", "m"));
	last = requests_last(newest()->requests);
	replace();
	ck_assert_uint_eq(requests_last(newest()->requests), last);
	ck_assert_int_eq(count(ask(fd, PING("7")), "same id is in progress"), 1);
	answer = ask(fd, "{\"id\":8,\"method\":\"cancel\",\"params\":{\"id\":\"7\"}}\n");
	ck_assert_int_eq(count(answer, "\"id\":\"7\",\"error\""), 1);
	ck_assert_int_eq(count(answer, "\"cancelled\":true"), 1);
	ck_assert_uint_gt(requests_last(newest()->requests), last);
	close(holder);
	pass_time(SOON);
	ck_assert_int_eq(count(heard(fd), "\"id\":7,\"result\""), 1);
	last = requests_last(newest()->requests);
	replace(); /* No request is open. */
	ck_assert_uint_eq(requests_last(newest()->requests), last);
	close(fd);
}
END_TEST

START_TEST(a_watch_forgets_what_ended_meanwhile)
{
	int holder = client(), other = client(), fd = client();
	const char *told;

	ask(holder, ACQUIRE("1", "m"));
	ask(other, ACQUIRE("1", "n"));
	say(fd, "{\"id\":1,\"method\":\"watch\"}\n");
	pass_time(3 * NSEC_PER_SEC);
	told = heard(fd);
	ck_assert_int_eq(count(told, "\"method\":\"row\""), 2);
	ck_assert_int_eq(count(told, "\"method\":\"synced\""), 1);
	ck_assert_int_eq(count(told, "\"method\":\"resync\""), 0);
	freeze();
	close(holder);
	hand_over();
	pass_time(3 * NSEC_PER_SEC);
	told = heard(fd);
	ck_assert_int_eq(count(told, "\"method\":\"resync\",\"params\":{\"id\":1}"), 1);
	told = strstr(told, "\"method\":\"resync\"");
	ck_assert_int_eq(count(told, "\"name\":\"n\""), 1);
	ck_assert_int_eq(count(told, "\"method\":\"synced\""), 1);
	close(other);
	close(fd);
}
END_TEST

/* ---- limits ---- */

START_TEST(a_user_is_charged_as_before)
{
	size_t before[ACCOUNT_THINGS];
	int holder = client(), fd = client();

	ask(holder, ACQUIRE("1", "m"));
	ask(fd, ACQUIRE("1", "m"));
	ask(fd, "{\"id\":2,\"method\":\"watch\"}\n");
	ask(fd, "{\"id\":3,\"method\":\"await\",\"params\":{\"name\":\"db\",\"slot\":1,"
		"\"state\":\"busy\",\"timeout\":60}}\n");
	slow = true;
	ask(fd, SCAN("4"));
	ask(fd, "{\"id\":5,\"met");
	memcpy(before, newest()->account->used, sizeof(before));
	replace(); /* Nothing is answered at the successor, too. */
	for (int thing = 0; thing < ACCOUNT_BYTES; thing++)
		ck_assert_uint_eq(newest()->account->used[thing], before[thing]);
	/* The output of the watch is written, so it is not charged. */
	ck_assert_uint_eq(newest()->account->used[ACCOUNT_BYTES], before[ACCOUNT_BYTES]);
	ck_assert_uint_eq(before[ACCOUNT_WAITS], 3);
	ck_assert_uint_eq(before[ACCOUNT_SCANS], 1);
	close(holder);
	close(fd);
}
END_TEST

START_TEST(a_parked_scan_keeps_its_place)
{
	int first = client(), second = client(), fd = client();

	its.limits.most[ACCOUNT_SCANS] = 1;
	peers_set_limits(its.peers, 100, &its.limits);
	slow = true;
	ask(first, SCAN("1"));
	ask(second, SCAN("2"));
	ask(fd, SCAN("3"));
	ask(fd, PING("4"));
	ask(fd, SCAN("5")); /* It is not taken. */
	ck_assert_ptr_nonnull(newest()->parked);
	slow = false;
	replace();
	pass_time(SOON);
	ck_assert_int_eq(count(heard(first), SIZE("1")), 1);
	ck_assert_int_eq(count(heard(second), SIZE("2")), 1);
	ck_assert_int_eq(count(heard(fd), SIZE("3")), 1);
	pass_time(SOON);
	ck_assert_ptr_null(newest()->parked);
	ck_assert_uint_eq(newest()->account->used[ACCOUNT_SCANS], 0);
	close(first);
	close(second);
	close(fd);
}
END_TEST

/* ---- limits, which need a whole daemon ---- */

#define TRY(id, name)                                                                              \
	"{\"id\":" id ",\"method\":\"acquire\",\"params\":{\"name\":\"" name                       \
	"\",\"kind\":\"mutex\",\"timeout\":0}}\n"
#define METRICS(id) "{\"id\":" id ",\"method\":\"metrics\"}\n"

/* Prometheus must not miss a daemon because of two `fsck` by the same user. */
START_TEST(metrics_do_not_wait_for_scans)
{
	int fd = client();

	its.limits.most[ACCOUNT_SCANS] = 1;
	peers_set_limits(its.peers, 100, &its.limits);
	slow = true;
	ask(fd, SCAN("1") SCAN("2"));
	ck_assert_ptr_nonnull(newest()->parked);
	ck_assert_int_eq(count(ask(fd, METRICS("3")), "\"id\":3,\"result\":{\"text\":"), 1);
	ck_assert_uint_eq(newest()->account->used[ACCOUNT_SCANS], 1);
	close(fd);
}
END_TEST

START_TEST(a_try_is_not_refused_because_others_wait)
{
	int holder = client(), fd = client();
	struct conn *conn;

	its.config->max_waits_per_connection = 1;
	its.limits.most[ACCOUNT_WAITS] = 1;
	peers_set_limits(its.peers, 2, &its.limits);
	conn = newest();
	ask(holder, ACQUIRE("1", "m"));
	ask(fd, ACQUIRE("1", "m"));
	ck_assert_int_eq(count(ask(fd, ACQUIRE("2", "n")), "too-many-waiters"), 1);
	ck_assert_int_eq(count(ask(fd, TRY("3", "m")), "would-block"), 1);
	ck_assert_int_eq(count(ask(fd, TRY("4", "n")), HELD), 1);
	ck_assert_uint_eq(conn->account->used[ACCOUNT_WAITS], 1);
	/* While it is not answered it is one of the requests that stop the reading, and ends with its client. */
	slow = true;
	ask(fd, TRY("5", "o") TRY("6", "p") TRY("7", "q"));
	ck_assert_uint_eq(requests_answering(conn->requests), 2);
	ck_assert_uint_eq(counts().waiting + counts().in_flight, 3);
	slow = false;
	replace();
	ck_assert_int_eq(count(heard(fd), HELD), 3);
	ck_assert_uint_eq(newest()->account->used[ACCOUNT_WAITS], 1);
	slow = true;
	ask(fd, TRY("8", "r"));
	shutdown(fd, SHUT_WR);
	pass_time(SOON);
	ck_assert_uint_eq(peers_count(its.peers), 1);
	close(fd);
	close(holder);
}
END_TEST

/* ---- bytes on their way ---- */

START_TEST(half_a_line_is_kept)
{
	int fd = client();

	ask(fd, "{\"id\":1,\"met");
	replace();
	ck_assert_int_eq(count(ask(fd, "hod\":\"ping\"}\n"), PONG("1")), 1);
	close(fd);
}
END_TEST

START_TEST(lines_that_came_meanwhile_are_taken)
{
	int fd = client();

	ask(fd, PING("1"));
	freeze();
	ck_assert_str_eq(ask(fd, PING("2") PING("3")), "");
	hand_over();
	ck_assert_int_eq(count(heard(fd), "\"result\":{}"), 2);
	close(fd);
}
END_TEST

START_TEST(unread_output_is_kept)
{
	static char before[HEARD_MAX];
	int fd = client(), answers = fill(fd);

	replace();
	snprintf(before, sizeof(before), "%s", heard(fd));
	ck_assert_int_eq(count(ask(fd, PING("1")), PONG("1")), 1);
	ck_assert_int_eq(count(before, "\n"), answers);
	ck_assert_int_eq(count(before, "\n"), count(before, "\"id\":99,\"result\""));
	ck_assert_int_eq(count(before, "\n"), count(before, "{\"jsonrpc\":\"2.0\",\"id\":99"));
	ck_assert_int_eq(before[strlen(before) - 1], '\n');
	close(fd);
}
END_TEST

START_TEST(a_client_that_has_ended_gets_its_answers)
{
	int fd = client();

	ask(fd, ACQUIRE("1", "m"));
	slow = true;
	ask(fd, SCAN("2"));
	slow = false;
	shutdown(fd, SHUT_WR);
	settle();
	freeze();
	ck_assert_int_eq(newest()->state, CONN_ENDING);
	hand_over();
	pass_time(SOON);
	ck_assert_int_eq(count(heard(fd), SIZE("2")), 1);
	pass_time(SOON);
	ck_assert_uint_eq(peers_count(its.peers), 0);
	ck_assert_uint_eq(counts().holds, 0);
	close(fd);
}
END_TEST

/* ---- states that cannot be ---- */

/* Replaces `what` in the text, where it comes first, and the digits behind it. */
static char *
edited(const char *text, const char *what, const char *by)
{
	const char *at = strstr(text, what), *rest;
	size_t size = strlen(text) + strlen(by) + 1;
	char *result = malloc(size);

	ck_assert_ptr_nonnull(at);
	rest = at + strlen(what);
	rest += strspn(rest, "0123456789");
	snprintf(result, size, "%.*s%s%s", (int)(at - text), text, by, rest);
	return result;
}

static const struct {
	const char *what, *by;
} wrong[] = {
    {"\"record\":\"client\"", "\"record\":\"cleint\""},
    {"\"record\":\"clients\",\"last\":\"", "\"record\":\"clients\",\"last\":\"1"},
    {"\"record\":\"client\",\"id\":\"", "\"record\":\"client\",\"id\":\"0"},
    {"\"record\":\"client\",\"id\":\"", "\"record\":\"client\",\"id\":\"3"},
    {"\"record\":\"request\",\"number\":\"", "\"record\":\"request\",\"number\":\"0"},
    {"\"record\":\"request\",\"number\":\"", "\"record\":\"request\",\"number\":\"3"},
    {"\"method\":\"await\"", "\"method\":\"awake\""},
    {"\"method\":\"await\"", "\"method\":\"ping\""},
    {"\"method\":\"await\"", "\"method\":null"},
    {"\"id_kind\":1", "\"id_kind\":2"},
    {"\"id_kind\":1", "\"id_kind\":3"},
    {"\"since\":\"1000", "\"since\":\"-9223372036854775808"},
    {"\"since\":\"1000", "\"since\":\"9223372036854775807"},
    {"\"line\":\"{", "\"line\":\"["},
};

START_TEST(a_wrong_state_is_refused)
{
	struct state_text text;
	char why[128], *its_text;
	int first = client(), fd = client();

	ask(first, PING("1"));
	ask(fd, PING("1"));
	ask(fd, "{\"id\":2,\"method\":\"await\",\"params\":{\"name\":\"db\",\"slot\":1,"
		"\"state\":\"busy\",\"timeout\":60}}\n");
	freeze();
	text = save();
	its_text = edited(text.text, wrong[_i].what, wrong[_i].by);
	free(text.text);
	text.text = its_text;
	text.len = strlen(its_text);
	ck_assert_msg(
	    !whole_daemon_succeed(&its, &text, why, sizeof(why)), "%s: accepted", wrong[_i].by);
	ck_assert_int_eq(strncmp(why, "line ", 5), 0);
	state_text_done(&text);
	close(first);
	close(fd);
}
END_TEST

static Suite *
peer_successor_suite(void)
{
	Suite *suite = suite_create("peer_successor");
	TCase *tests = tcase_create("peer_successor");

	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, a_client_that_is_dead_and_not_visited_yet_is_gone);
	tcase_add_test(tests, a_waiter_that_is_dead_and_not_visited_yet_is_gone);
	tcase_add_test(tests, the_release_of_a_client_that_hung_up_meanwhile_is_logged);
	tcase_add_test(tests, a_client_that_sends_and_hangs_up_meanwhile_is_heard);
	tcase_add_test(tests, a_client_that_sends_and_hangs_up_is_heard_if_the_daemon_goes_on);
	tcase_add_test(tests, a_parked_scan_of_a_client_that_ends_is_answered);
	tcase_add_test(tests, a_request_is_logged_once);
	tcase_add_test(tests, a_wait_for_holders_is_charged_to_the_user_of_the_change);
	tcase_add_test(tests, the_wait_of_a_repeated_request_does_not_begin_anew);
	tcase_add_test(tests, no_number_of_a_client_is_used_twice);
	tcase_add_test(tests, requests_keep_their_ids_and_numbers);
	tcase_add_test(tests, a_watch_forgets_what_ended_meanwhile);
	tcase_add_test(tests, a_user_is_charged_as_before);
	tcase_add_test(tests, a_parked_scan_keeps_its_place);
	tcase_add_test(tests, metrics_do_not_wait_for_scans);
	tcase_add_test(tests, a_try_is_not_refused_because_others_wait);
	tcase_add_test(tests, half_a_line_is_kept);
	tcase_add_test(tests, lines_that_came_meanwhile_are_taken);
	tcase_add_test(tests, unread_output_is_kept);
	tcase_add_test(tests, a_client_that_has_ended_gets_its_answers);
	tcase_add_loop_test(
	    tests, a_wrong_state_is_refused, 0, (int)(sizeof(wrong) / sizeof(wrong[0])));
	suite_add_tcase(suite, tests);
	return suite;
}

int
main(void)
{
	Suite *(*const suites[])(void) = {peer_successor_suite};

	return unit_run(suites, 1);
}
