/*
 * The peer room without an engine: accounts, requests, credentials, the listener. (Connections:
 * test_conn.c)
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/event.h>

#include "daemon/base/log.h"
#include "daemon/base/users.h"
#include "daemon/peer/requests.h"
#include "daemon/peer/conn.h"
#include "daemon/peer/dispatch_internal.h"
#include "daemon/peer/lock_log.h"
#include "daemon/peer/listener.h"

static struct accounts accounts;

static void
accounts_setup(void)
{
	accounts = (struct accounts){.by_uid = NULL};
	for (int thing = 0; thing < ACCOUNT_THINGS; thing++)
		accounts.limits.most[thing] = SIZE_MAX;
	accounts.limits.all_bytes = SIZE_MAX;
}

static void
accounts_teardown(void)
{
	ck_assert_ptr_null(accounts.by_uid);
	ck_assert_uint_eq(accounts.bytes, 0);
}

/* ---- the log of a lock's life ---- */

static char last_line[512];

static void
log_came(void *ctx, enum log_level level, const char *line)
{
	(void)ctx;
	ck_assert_int_eq(level, LOG_LEVEL_INFO);
	snprintf(last_line, sizeof(last_line), "%s", line);
}

/* The log of a release that ends so; "": none. */
static const char *
log_of_release(enum reason reason)
{
	struct timers *timers = timers_new(&clock_boottime);
	struct lock_log *lock_log = lock_log_new(timers, 0x12);
	struct conn conn = {.id = 1};
	const struct peer_request request = {.number = 1, .row = dispatch_find_row("release")};
	const struct lock_row hold = {.lock = 5, .name = "db", .slot = 2};
	const struct lock_answer answer = {.reason = reason, .lock = 5};

	last_line[0] = '\0';
	log_set_sink(log_came, NULL);
	lock_log_releases(lock_log, &conn, &request, &hold);
	lock_log_answer(lock_log, &conn, &request, &answer);
	log_set_sink(NULL, NULL);
	lock_log_free(lock_log);
	timers_free(timers);
	return last_line;
}

/* The slot is free only after the broker has said so. */
START_TEST(a_release_that_the_broker_refuses_is_not_logged_as_one)
{
	const char *said = log_of_release(REASON_BROKER_REFUSED), *end = "s, broker-refused";

	ck_assert_int_eq(strncmp(said, "not-released db slot 2: lock 00000012-5,", 40), 0);
	ck_assert_str_eq(said + strlen(said) - strlen(end), end);
	ck_assert_int_eq(
	    strncmp(log_of_release(REASON_NONE), "released db slot 2: lock 00000012-5,", 36), 0);
	ck_assert_str_eq(log_of_release(REASON_NOT_HELD), "");
}
END_TEST

/* ---- the log of users who ask for much ---- */

static int64_t told_time; /* of the clock */

static int64_t
tell_time(void *ctx)
{
	(void)ctx;
	return told_time;
}

static const struct clock told_clock = {.now = tell_time};

static struct {
	struct timers *timers;
	struct lock_log *lock_log;
	int lines, notes; /* notes: of lines that were left out */
	char note[128];   /* the last one */
} logged;

static void
much_came(void *ctx, enum log_level level, const char *line)
{
	(void)ctx;
	(void)level;
	if (strstr(line, "were left out") == NULL) {
		logged.lines++;
		return;
	}
	logged.notes++;
	snprintf(logged.note, sizeof(logged.note), "%s", line);
}

static void
much_setup(void)
{
	accounts_setup();
	memset(&logged, 0, sizeof(logged));
	logged.timers = timers_new(&told_clock);
	logged.lock_log = lock_log_new(logged.timers, 0x12);
	user_names_set_file("/dev/null");
	log_set_sink(much_came, NULL);
}

static void
much_teardown(void)
{
	lock_log_free(logged.lock_log);
	timers_free(logged.timers);
	log_set_sink(NULL, NULL);
	log_set_level(LOG_LEVEL_INFO);
	user_names_set_file(NULL);
	accounts_teardown();
}

/* Requests of that user that the access rules refuse. Returns how many lines they made. */
static int
refuse(uid_t uid, int count)
{
	const struct conn conn = {.id = 1, .subject = {.uid = uid}};
	int before = logged.lines;

	for (int i = 0; i < count; i++)
		lock_log_forbidden(logged.lock_log, &conn, "destroy", "db", "no");
	return logged.lines - before;
}

static void
pass_time(int64_t ns)
{
	told_time += ns;
	timers_run(logged.timers);
}

START_TEST(one_user_makes_64_lines_a_second_and_one_with_the_number_left_out)
{
	ck_assert_int_eq(refuse(7, 1000), 64);
	ck_assert_int_eq(refuse(8, 1), 1); /* another user */
	pass_time(NSEC_PER_SEC - 1);
	ck_assert_int_eq(refuse(7, 10), 0);
	ck_assert_int_eq(logged.notes, 0);
	pass_time(1);
	ck_assert_int_eq(logged.notes, 1);
	ck_assert_str_eq(logged.note, "uid 7: 946 log lines about its requests were left out");
	ck_assert_int_eq(refuse(7, 1000), 64);
	pass_time(NSEC_PER_SEC);
	ck_assert_str_eq(logged.note, "uid 7: 936 log lines about its requests were left out");
	/* As many as it may have: none is left out. */
	ck_assert_int_eq(refuse(7, 64), 64);
	pass_time(10 * NSEC_PER_SEC);
	ck_assert_int_eq(logged.notes, 2);
	/* The end of the daemon, or a successor. */
	ck_assert_int_eq(refuse(7, 65), 64);
	lock_log_end_second(logged.lock_log);
	ck_assert_int_eq(logged.notes, 3);
	ck_assert_str_eq(logged.note, "uid 7: 1 log lines about its requests were left out");
}
END_TEST

START_TEST(losses_and_administration_are_logged_of_a_user_who_asks_for_much)
{
	struct conn conn = {.id = 1, .subject = {.uid = 7}};
	const struct lock_row hold = {.lock = 5, .name = "db", .slot = 2, .uid = 7};
	const struct lock_notice lost = {.kind = LOCK_NOTICE_LOST, .name = "db"},
				 revoked = {.kind = LOCK_NOTICE_REVOKED, .name = "db"};
	const struct peer_request change = {.number = 1, .row = dispatch_find_row("resize")},
				  grant = {.number = 2, .row = dispatch_find_row("grant")};
	struct method_params params = {.name = "db"};
	const struct lock_answer done = {.slots = 1, .target = 1},
				 not_held = {.reason = REASON_NOT_HELD};

	refuse(7, 1000);
	logged.lines = 0;
	lock_log_notice(logged.lock_log, &lost, &hold);
	lock_log_notice(logged.lock_log, &revoked, &hold);
	ck_assert_int_eq(logged.lines, 2);
	lock_log_request(logged.lock_log, &conn, &change, &params);
	lock_log_answer(logged.lock_log, &conn, &change, &done);
	ck_assert_int_eq(logged.lines, 4);
	/* The user of such a request may have no right to grant the waiter. */
	params = (struct method_params){.waiter = "1-1"};
	lock_log_request(logged.lock_log, &conn, &grant, &params);
	lock_log_answer(logged.lock_log, &conn, &grant, &not_held);
	ck_assert_int_eq(logged.lines, 4);
	lock_log_request(logged.lock_log, &conn, &grant, &params);
	lock_log_answer(logged.lock_log, &conn, &grant, &done);
	ck_assert_int_eq(logged.lines, 5);
	lock_log_gone(logged.lock_log, &hold);
	ck_assert_int_eq(logged.lines, 5);
}
END_TEST

START_TEST(lines_that_are_not_written_do_not_count)
{
	const struct conn conn = {.id = 1, .subject = {.uid = 7}};
	const struct peer_request read = {.number = 1, .row = dispatch_find_row("size")};
	const struct method_params params = {.name = "db"};

	for (int i = 0; i < 1000; i++)
		lock_log_request(logged.lock_log, &conn, &read, &params);
	ck_assert_int_eq(logged.lines, 0);
	ck_assert_int_eq(refuse(7, 10), 10);
	log_set_level(LOG_LEVEL_DEBUG);
	for (int i = 0; i < 1000; i++)
		lock_log_request(logged.lock_log, &conn, &read, &params);
	ck_assert_int_eq(logged.lines, 64);
}
END_TEST

/* A method of the protocol without a handler would be refused as one that there is not. */
START_TEST(each_method_has_a_handler)
{
	for (const struct method_spec *method = method_all(); method->name != NULL; method++)
		ck_assert_msg(dispatch_find_row(method->name) != NULL, "%s", method->name);
}
END_TEST

/* ---- requests ---- */

static const struct message_id seven = {.kind = MESSAGE_ID_INTEGER, .integer = 7};
static const struct message_id seven_text = {.kind = MESSAGE_ID_STRING, .string = "7"};

START_TEST(requests_tell_ids_apart)
{
	struct account *account = account_open(&accounts, 7);
	struct requests *requests = requests_new(account);
	const struct peer_request *first = requests_add(requests, &seven, NULL, REQUEST_QUICK);
	const struct peer_request *second =
	    requests_add(requests, &seven_text, NULL, REQUEST_WAITS);

	ck_assert_ptr_nonnull(first);
	ck_assert_ptr_nonnull(second);
	ck_assert_uint_ne(first->number, second->number);
	ck_assert_ptr_null(requests_add(requests, &seven, NULL, REQUEST_QUICK));
	ck_assert_ptr_eq(requests_find_id(requests, &seven_text), second);
	ck_assert_ptr_eq(requests_find(requests, first->number), first);
	ck_assert_uint_eq(requests_count(requests), 2);
	ck_assert_uint_eq(requests_answering(requests), 1);
	requests_remove(requests, first->number);
	ck_assert_ptr_null(requests_find_id(requests, &seven));
	ck_assert_uint_eq(requests_answering(requests), 0);
	ck_assert_ptr_nonnull(requests_add(requests, &seven, NULL, REQUEST_QUICK));
	requests_free(requests);
	account_close(account);
}
END_TEST

START_TEST(requests_never_use_a_number_twice)
{
	struct account *account = account_open(&accounts, 7);
	struct requests *requests = requests_new(account);
	uint64_t number = requests_add(requests, &seven, NULL, REQUEST_QUICK)->number;

	requests_remove(requests, number);
	requests_remove(requests, number);
	ck_assert_uint_ne(requests_add(requests, &seven, NULL, REQUEST_QUICK)->number, number);
	ck_assert_ptr_null(requests_find(requests, number));
	requests_free(requests);
	account_close(account);
}
END_TEST

static void
remember(void *ctx, const struct peer_request *request)
{
	*(uint64_t *)ctx += request->number;
}

START_TEST(requests_that_wait_are_counted_and_go_together)
{
	struct account *account = account_open(&accounts, 7);
	struct requests *requests = requests_new(account);
	uint64_t waiting = requests_add(requests, &seven, NULL, REQUEST_WAITS)->number, left = 0;

	requests_add(requests, &seven_text, NULL, REQUEST_QUICK);
	ck_assert_uint_eq(requests_waiting(requests), 1);
	requests_remove_waiting(requests, remember, &left);
	ck_assert_uint_eq(left, waiting);
	ck_assert_ptr_null(requests_find_id(requests, &seven));
	ck_assert_ptr_nonnull(requests_find_id(requests, &seven_text));
	ck_assert_uint_eq(requests_waiting(requests), 0);
	ck_assert_uint_eq(requests_answering(requests), 1);
	requests_free(requests);
	account_close(account);
}
END_TEST

START_TEST(requests_of_a_user_are_charged_to_one_account)
{
	struct account *account = account_open(&accounts, 7);
	struct requests *one = requests_new(account), *two = requests_new(account);
	uint64_t left = 0;

	requests_add(one, &seven, NULL, REQUEST_WAITS);
	requests_add(one, &seven_text, NULL, REQUEST_QUICK);
	requests_add(two, &seven, NULL, REQUEST_WATCHES);
	requests_add(two, &seven_text, NULL, REQUEST_WAITS);
	ck_assert_uint_eq(account->used[ACCOUNT_WAITS], 3);
	ck_assert_uint_eq(account->used[ACCOUNT_WATCHES], 1);
	ck_assert_uint_gt(account->used[ACCOUNT_BYTES], 0);
	requests_remove(two, requests_find_id(two, &seven)->number);
	ck_assert_uint_eq(account->used[ACCOUNT_WAITS], 2);
	ck_assert_uint_eq(account->used[ACCOUNT_WATCHES], 0);
	requests_remove_waiting(one, remember, &left);
	ck_assert_uint_eq(account->used[ACCOUNT_WAITS], 1);
	requests_free(two);
	ck_assert_uint_eq(account->used[ACCOUNT_WAITS], 0);
	left = requests_add(one, &seven, NULL, REQUEST_SCANS)->number;
	ck_assert_uint_eq(account->used[ACCOUNT_SCANS], 1);
	ck_assert_uint_eq(requests_answering(one), 2);
	requests_scanned(one, left);
	requests_scanned(one, left);
	ck_assert_uint_eq(account->used[ACCOUNT_SCANS], 0);
	ck_assert_uint_eq(requests_answering(one), 2);
	requests_keep(one, left, 1000000);
	ck_assert_uint_ge(account->used[ACCOUNT_BYTES], 1000000);
	requests_remove(one, left);
	ck_assert_uint_eq(account->used[ACCOUNT_SCANS], 0);
	ck_assert_uint_lt(account->used[ACCOUNT_BYTES], 1000000);
	requests_free(one);
	ck_assert_uint_eq(account->used[ACCOUNT_BYTES], 0);
	account_close(account);
}
END_TEST

/* ---- accounts ---- */

START_TEST(an_account_lives_as_long_as_its_user_has_clients)
{
	struct account *account = account_open(&accounts, 7), *other = account_open(&accounts, 8);

	ck_assert_ptr_eq(account_open(&accounts, 7), account);
	ck_assert_ptr_ne(other, account);
	ck_assert_uint_eq(account->used[ACCOUNT_PEERS], 2);
	account_close(account);
	ck_assert_ptr_nonnull(accounts.by_uid);
	account_close(account);
	account_close(other);
	ck_assert_ptr_null(accounts.by_uid);
}
END_TEST

START_TEST(a_user_with_little_has_room_though_all_together_have_none)
{
	struct account *greedy = account_open(&accounts, 7), *small = account_open(&accounts, 8);

	accounts.limits.most[ACCOUNT_BYTES] = 1000000;
	accounts.limits.all_bytes = 900000;
	account_add(greedy, ACCOUNT_BYTES, 899999);
	ck_assert(account_has_room(greedy, ACCOUNT_BYTES));
	account_add(greedy, ACCOUNT_BYTES, 1);
	ck_assert(!account_has_room(greedy, ACCOUNT_BYTES));
	ck_assert(account_has_room(small, ACCOUNT_BYTES));
	ck_assert_uint_eq(account_room(small), ACCOUNT_LITTLE);
	account_add(small, ACCOUNT_BYTES, ACCOUNT_LITTLE);
	ck_assert(!account_has_room(small, ACCOUNT_BYTES));
	account_remove(greedy, ACCOUNT_BYTES, 899999);
	ck_assert(account_has_room(small, ACCOUNT_BYTES));
	/* News has the half of what there is. */
	ck_assert_uint_eq(account_room(small), 500000 - ACCOUNT_LITTLE);
	account_remove(greedy, ACCOUNT_BYTES, 1);
	account_remove(small, ACCOUNT_BYTES, ACCOUNT_LITTLE);
	account_close(greedy);
	account_close(small);
}
END_TEST

/* ---- credentials ---- */

START_TEST(credentials_are_the_kernels)
{
	struct access_subject subject = {0};
	gid_t groups[64];
	int ends[2], count;

	for (gid_t i = 0; i < 40; i++)
		groups[i] = 5000 + i;
	/*
	 * More groups than the first call asks for. A process that may not set groups keeps its
	 * own.
	 */
	if (setgroups(40, groups) != 0)
		ck_assert_int_eq(errno, EPERM);
	count = getgroups(64, groups);
	ck_assert_int_ge(count, 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	ck_assert(credentials_read(ends[0], &subject));
	ck_assert_uint_eq(subject.uid, geteuid());
	ck_assert_uint_eq(subject.gid, getegid());
	ck_assert_int_eq(subject.pid, getpid());
	ck_assert_uint_eq(subject.group_count, count);
	ck_assert_mem_eq(subject.groups, groups, (size_t)count * sizeof(gid_t));
	credentials_done(&subject);
	close(ends[1]);
	close(ends[0]);
	ck_assert(!credentials_read(ends[0], &subject));
}
END_TEST

/* ---- the listening socket ---- */

static struct event_base *base;
static char folder[64], path[108];
static struct listener_file file;

static void
folder_setup(void)
{
	snprintf(folder, sizeof(folder), "/tmp/lb-unit-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/s", folder);
}

static void
folder_teardown(void)
{
	unlink(path);
	ck_assert_int_eq(rmdir(folder), 0);
}

static int
make(const char *where, char **ret_error)
{
	const struct listener_address address = {.path = where, .mode = 0620, .group = ""};

	return listener_socket_make(&address, &file, ret_error);
}

START_TEST(a_socket_is_made_and_removed)
{
	struct stat found;
	char *error = NULL;
	mode_t mask = umask(0);
	int fd = make(path, &error);

	ck_assert_msg(fd >= 0, "%s", error);
	ck_assert_uint_eq(umask(mask), 0); /* it is as it was */
	ck_assert_int_eq(lstat(path, &found), 0);
	ck_assert(S_ISSOCK(found.st_mode));
	ck_assert_uint_eq(found.st_mode & 07777, 0620);
	ck_assert_int_ne(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
	ck_assert_int_ne(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
	listener_file_remove(&file);
	ck_assert_int_ne(lstat(path, &found), 0);
	listener_file_remove(&file);
	close(fd);
}
END_TEST

START_TEST(a_stale_socket_is_replaced)
{
	char *error = NULL;
	int fd = make(path, &error);

	ck_assert_int_ge(fd, 0);
	close(fd); /* and the file stays, as after a crash */
	free(file.path);
	fd = make(path, &error);
	ck_assert_msg(fd >= 0, "%s", error);
	listener_file_remove(&file);
	close(fd);
}
END_TEST

START_TEST(a_live_socket_is_left_alone)
{
	struct listener_file second = {0};
	const struct listener_address address = {.path = path, .mode = 0600, .group = ""};
	char *error = NULL, pid[32];
	struct stat before, after;
	int fd = make(path, &error);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(lstat(path, &before), 0);
	ck_assert_int_eq(listener_socket_make(&address, &second, &error), -2);
	snprintf(pid, sizeof(pid), "pid %d (", (int)getpid());
	ck_assert_msg(strstr(error, pid) != NULL, "%s", error);
	ck_assert_int_eq(lstat(path, &after), 0);
	ck_assert_uint_eq(before.st_ino, after.st_ino);
	ck_assert_ptr_null(second.path);
	free(error);
	listener_file_remove(&file);
	close(fd);
}
END_TEST

START_TEST(a_path_that_is_no_socket_is_left_alone)
{
	char *error = NULL;
	int fd = open(path, O_CREAT | O_WRONLY, 0600);

	close(fd);
	ck_assert_int_eq(make(path, &error), -2);
	ck_assert_ptr_nonnull(strstr(error, "not a socket"));
	ck_assert_int_eq(access(path, F_OK), 0);
	free(error);
}
END_TEST

START_TEST(a_path_has_a_length)
{
	char much[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
	char *error = NULL;
	int fd;

	memset(much, 'x', sizeof(much) - 1);
	much[sizeof(much) - 1] = '\0';
	memcpy(much, path, strlen(path));
	ck_assert_int_eq(make(much, &error), -2);
	ck_assert_ptr_nonnull(strstr(error, "107"));
	free(error);
	much[sizeof(much) - 2] = '\0'; /* one less just fits */
	fd = make(much, &error);
	ck_assert_msg(fd >= 0, "%s", error);
	listener_file_remove(&file);
	close(fd);
}
END_TEST

START_TEST(only_the_own_file_is_removed)
{
	char *error = NULL;
	int fd = make(path, &error), other;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(unlink(path), 0);
	/* Kept open while the other is made, or that might get the same inode. */
	other = open(path, O_CREAT | O_WRONLY, 0600);
	listener_file_remove(&file);
	ck_assert_int_eq(access(path, F_OK), 0);
	close(other);
	close(fd);
}
END_TEST

START_TEST(a_group_that_is_not_there_is_said)
{
	const struct listener_address address = {
	    .path = path, .mode = 0660, .group = "no-such-group-here"};
	char *error = NULL;

	ck_assert_int_eq(listener_socket_make(&address, &file, &error), -2);
	ck_assert_ptr_nonnull(strstr(error, "no-such-group-here"));
	ck_assert_int_ne(access(path, F_OK), 0);
	free(error);
}
END_TEST

static int accepted_fd = -1;

static void
take_accepted(void *ctx, int fd)
{
	(void)ctx;
	accepted_fd = fd;
}

START_TEST(the_listener_accepts_until_it_is_closed)
{
	const struct listener_address address = {.path = path, .mode = 0600, .group = ""};
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	struct timers *timers = timers_new(&clock_boottime);
	struct listener *listener;
	char *error = NULL;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	base = event_base_new();
	listener = listener_new(base, timers, take_accepted, NULL);
	ck_assert_msg(listener_open(listener, &address, &error), "%s", error);
	snprintf(name.sun_path, sizeof(name.sun_path), "%s", path);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	ck_assert_int_ge(accepted_fd, 0);
	ck_assert_int_ne(fcntl(accepted_fd, F_GETFL) & O_NONBLOCK, 0);
	ck_assert_int_ne(fcntl(accepted_fd, F_GETFD) & FD_CLOEXEC, 0);
	listener_close(listener);
	ck_assert_int_ne(access(path, F_OK), 0);
	listener_free(listener);
	close(accepted_fd);
	close(fd);
	timers_free(timers);
	event_base_free(base);
}
END_TEST

static Suite *
peer_suite(void)
{
	Suite *suite = suite_create("peer");
	TCase *tcase = tcase_create("requests");

	tcase_add_checked_fixture(tcase, accounts_setup, accounts_teardown);
	tcase_add_test(tcase, a_release_that_the_broker_refuses_is_not_logged_as_one);
	tcase_add_test(tcase, each_method_has_a_handler);
	tcase_add_test(tcase, requests_tell_ids_apart);
	tcase_add_test(tcase, requests_never_use_a_number_twice);
	tcase_add_test(tcase, requests_that_wait_are_counted_and_go_together);
	tcase_add_test(tcase, requests_of_a_user_are_charged_to_one_account);
	tcase_add_test(tcase, an_account_lives_as_long_as_its_user_has_clients);
	tcase_add_test(tcase, a_user_with_little_has_room_though_all_together_have_none);
	tcase_add_test(tcase, credentials_are_the_kernels);
	suite_add_tcase(suite, tcase);

	tcase = tcase_create("log");
	tcase_add_checked_fixture(tcase, much_setup, much_teardown);
	tcase_add_test(tcase, one_user_makes_64_lines_a_second_and_one_with_the_number_left_out);
	tcase_add_test(tcase, losses_and_administration_are_logged_of_a_user_who_asks_for_much);
	tcase_add_test(tcase, lines_that_are_not_written_do_not_count);
	suite_add_tcase(suite, tcase);

	tcase = tcase_create("listener");
	tcase_add_checked_fixture(tcase, folder_setup, folder_teardown);
	tcase_add_test(tcase, a_socket_is_made_and_removed);
	tcase_add_test(tcase, a_stale_socket_is_replaced);
	tcase_add_test(tcase, a_live_socket_is_left_alone);
	tcase_add_test(tcase, a_path_that_is_no_socket_is_left_alone);
	tcase_add_test(tcase, a_path_has_a_length);
	tcase_add_test(tcase, only_the_own_file_is_removed);
	tcase_add_test(tcase, a_group_that_is_not_there_is_said);
	tcase_add_test(tcase, the_listener_accepts_until_it_is_closed);
	suite_add_tcase(suite, tcase);
	return suite;
}

int
main(void)
{
	static Suite *(*const makers[])(void) = {peer_suite};

	return unit_run(makers, sizeof(makers) / sizeof(makers[0]));
}
