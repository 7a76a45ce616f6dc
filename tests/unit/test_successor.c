/*
 * daemon/successor: state and sockets go to the next process. Through the store of a service manager,
 * a thread is the service manager; the same process is then the next one. In the tests of a rehearsal
 * and of a replacement this program is started again, and its exit status is the result.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/event.h>
#include <systemd/sd-daemon.h>

#include "daemon/base/fd_pass.h"
#include "daemon/base/mem.h"
#include "daemon/successor.h"
#include "tests/unit/unit.h"

enum { SOCKETS = 2 * FD_PASS_MAX + 7, TEXT_MAX = 256 };

static char folder[] = "/tmp/lockbroker-test-XXXXXX";
static struct sockaddr_un address = {.sun_family = AF_UNIX};

/* The service manager, and all that it got. The descriptors are -1 until they come. */
static struct manager {
	pthread_t thread;
	int socket;
	bool answers; /* closes the descriptor of a barrier */
	char text[TEXT_MAX];
	int stash, barrier;
} manager;

/* Receives a datagram, and a descriptor that comes with it. */
static int
receive(char *text)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec part = {.iov_base = text, .iov_len = TEXT_MAX - 1};
	struct msghdr message = {.msg_iov = &part,
	    .msg_iovlen = 1,
	    .msg_control = control.bytes,
	    .msg_controllen = sizeof(control.bytes)};
	ssize_t len = recvmsg(manager.socket, &message, MSG_CMSG_CLOEXEC);
	int fd = -1;

	text[len > 0 ? len : 0] = '\0';
	if (CMSG_FIRSTHDR(&message) != NULL)
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	return fd;
}

static void *
manage(void *ctx)
{
	char text[TEXT_MAX];

	(void)ctx;
	manager.stash = receive(manager.text);
	manager.barrier = receive(text);
	if (manager.answers)
		close(manager.barrier);
	return NULL;
}

static void
manager_start(bool answers)
{
	strcpy(folder + sizeof(folder) - 7, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/notify", folder);
	manager = (struct manager){.answers = answers, .stash = -1, .barrier = -1};
	manager.socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(manager.socket, (struct sockaddr *)&address, sizeof(address)), 0);
	setenv("NOTIFY_SOCKET", address.sun_path, 1);
	ck_assert_int_eq(pthread_create(&manager.thread, NULL, manage, NULL), 0);
}

static void
manager_stop(void)
{
	ck_assert_int_eq(pthread_join(manager.thread, NULL), 0);
	unlink(address.sun_path);
	rmdir(folder);
}

static ino_t
inode_of(int fd)
{
	struct stat is;

	return fstat(fd, &is) == 0 ? is.st_ino : 0;
}

/* The next process after successor_role(). */
struct next {
	enum successor_role role;
	struct state_text text;
	int listen_fds;
	ino_t first; /* descriptor 3; 0: closed */
};

/*
 * The manager starts the next process with these descriptors, from 3 on. -1: there is none. Those of
 * the test itself, which may belong to Check, are back at the end.
 */
static struct next
next_process(int socket_of_unit, int stash)
{
	int passed[2], own[2], count = 0;
	struct next next;
	char number[16];

	if (socket_of_unit >= 0)
		passed[count++] = fcntl(socket_of_unit, F_DUPFD, 900);
	passed[count++] = fcntl(stash, F_DUPFD, 900);
	for (int i = 0; i < count; i++) {
		own[i] = fcntl(SD_LISTEN_FDS_START + i, F_DUPFD, 900);
		dup2(passed[i], SD_LISTEN_FDS_START + i);
		close(passed[i]);
	}
	snprintf(number, sizeof(number), "%d", (int)getpid());
	setenv("LISTEN_PID", number, 1);
	setenv("LISTEN_FDS", count == 2 ? "2" : "1", 1);
	setenv("LISTEN_FDNAMES",
	    count == 2 ? "lockbrokerd.socket:lockbrokerd-state" : "lockbrokerd-state", 1);
	next.role = successor_role(&next.text);
	next.listen_fds = sd_listen_fds(0);
	next.first = inode_of(SD_LISTEN_FDS_START);
	for (int i = 0; i < count; i++) {
		close(SD_LISTEN_FDS_START + i);
		if (own[i] < 0)
			continue;
		dup2(own[i], SD_LISTEN_FDS_START + i);
		close(own[i]);
	}
	return next;
}

/* A state with so many sockets, and their inodes. */
static struct state_text
make_state(ino_t *ret_inodes)
{
	struct state_text text = {.text = mem_strdup("the state\n"), .socket_count = SOCKETS};
	int ends[2];

	text.len = strlen(text.text);
	text.sockets = mem_grow(NULL, SOCKETS, sizeof(*text.sockets));
	for (size_t i = 0; i < SOCKETS; i++) {
		ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
		text.sockets[i] = ends[0];
		close(ends[1]);
		ret_inodes[i] = inode_of(ends[0]);
	}
	return text;
}

static void
close_sockets(struct state_text *text)
{
	for (size_t i = 0; i < text->socket_count; i++)
		close(text->sockets[i]);
	state_text_done(text);
}

static bool
store(bool answers, ino_t *ret_inodes)
{
	struct state_text text;
	bool stored;

	manager_start(answers);
	text = make_state(ret_inodes);
	stored = successor_store(&text);
	close_sockets(&text);
	manager_stop();
	return stored;
}

START_TEST(state_and_sockets_go_there_once)
{
	static ino_t inodes[SOCKETS];
	struct next next;

	ck_assert(store(true, inodes));
	ck_assert_str_eq(manager.text, "FDSTORE=1\nFDPOLL=0\nFDNAME=lockbrokerd-state");
	next = next_process(-1, manager.stash);
	ck_assert_int_eq(next.role, SUCCESSOR_TAKES_OVER);
	ck_assert_uint_eq(next.text.len, strlen("the state\n"));
	ck_assert_int_eq(memcmp(next.text.text, "the state\n", next.text.len), 0);
	ck_assert_uint_eq(next.text.socket_count, SOCKETS);
	for (size_t i = 0; i < SOCKETS; i++)
		ck_assert_uint_eq(inode_of(next.text.sockets[i]), inodes[i]);
	close_sockets(&next.text);
	/* The manager has it still. */
	next = next_process(-1, manager.stash);
	ck_assert_int_eq(next.role, SUCCESSOR_NONE);
	ck_assert_int_eq(next.listen_fds, 0);
	close(manager.stash);
}
END_TEST

START_TEST(the_socket_of_a_unit_comes_too)
{
	static ino_t inodes[SOCKETS];
	struct next next;

	ck_assert(store(true, inodes));
	next = next_process(STDERR_FILENO, manager.stash);
	ck_assert_int_eq(next.role, SUCCESSOR_TAKES_OVER);
	ck_assert_uint_eq(next.text.socket_count, SOCKETS);
	ck_assert_int_eq(next.listen_fds, 1);
	ck_assert_uint_eq(next.first, inode_of(STDERR_FILENO));
	close_sockets(&next.text);
	next = next_process(STDERR_FILENO, manager.stash);
	ck_assert_int_eq(next.role, SUCCESSOR_NONE);
	ck_assert_int_eq(next.listen_fds, 1);
	ck_assert_uint_eq(next.first, inode_of(STDERR_FILENO));
	close(manager.stash);
}
END_TEST

/* The daemon goes on: nobody may get the state, even if the manager has the stash. */
START_TEST(a_manager_that_does_not_answer_has_nothing)
{
	static ino_t inodes[SOCKETS];

	ck_assert(!store(false, inodes));
	ck_assert_int_ge(manager.stash, 0);
	ck_assert_int_eq(next_process(-1, manager.stash).role, SUCCESSOR_NONE);
	close(manager.stash);
	close(manager.barrier);
}
END_TEST

/* As many as a unit of systemd may have clients, if it has room in its limit of descriptors. */
START_TEST(there_is_room_for_60000_sockets)
{
	struct state_text text = {.text = mem_strdup("x"), .len = 1, .socket_count = 60000};
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	/* The kernel counts those on their way, for each user but root (unix(7), ETOOMANYREFS). */
	if (geteuid() != 0)
		text.socket_count = limit.rlim_cur / 2;
	text.sockets = mem_grow(NULL, text.socket_count, sizeof(*text.sockets));
	for (size_t i = 0; i < text.socket_count; i++)
		text.sockets[i] = STDERR_FILENO;
	manager_start(true);
	ck_assert(successor_store(&text));
	manager_stop();
	close(manager.stash);
	state_text_done(&text);
}
END_TEST

START_TEST(without_a_manager_nothing_is_stored)
{
	struct state_text text = {.text = mem_strdup("x"), .len = 1};

	unsetenv("NOTIFY_SOCKET");
	ck_assert(!successor_store(&text));
	setenv("NOTIFY_SOCKET", "/nonexistent/socket", 1);
	ck_assert(!successor_store(&text));
	state_text_done(&text);
}
END_TEST

/* ---- the next program ---- */

/* The sockets of the daemon, which the next program is to inherit or not. */
#define SOCKET_NUMBER 700
/* Exit statuses of the next program, for errors. SUCCESSOR_AGREES: there is none. */
enum { NO_STATE = 3, NOT_SEALED, NOT_HELD, NOT_INHERITED, INHERITED, NOT_PENDING };

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

/* The next program compares its state, signals and sockets. Returns its exit status. */
static int
look_around(const char *state, bool rehearses)
{
	int seals = fcntl(atoi(state), F_GET_SEALS);
	enum successor_role role;
	struct state_text text;
	sigset_t held, pending;

	role = successor_role(&text);
	if (role != (rehearses ? SUCCESSOR_REHEARSES : SUCCESSOR_TAKES_OVER) ||
	    text.len != strlen("the state\n") || memcmp(text.text, "the state\n", text.len) != 0)
		return NO_STATE;
	state_text_done(&text);
	if (seals != SEALS)
		return NOT_SEALED;
	sigprocmask(SIG_BLOCK, NULL, &held);
	sigpending(&pending);
	for (size_t i = 0; i < SUCCESSOR_SIGNALS; i++) {
		if (sigismember(&held, successor_signals[i]) != 1)
			return NOT_HELD;
	}
	/* One that came in the replacement waits for the successor. */
	if (!rehearses && sigismember(&pending, SIGTERM) != 1)
		return NOT_PENDING;
	if (fcntl(SOCKET_NUMBER, F_GETFD) >= 0)
		return rehearses ? INHERITED : SUCCESSOR_AGREES;
	return rehearses ? SUCCESSOR_AGREES : NOT_INHERITED;
}

/* A state with one socket. */
static struct state_text
state_with_socket(void)
{
	struct state_text text = {.text = mem_strdup("the state\n"), .socket_count = 1};
	int ends[2];

	text.len = strlen(text.text);
	text.sockets = mem_grow(NULL, 1, sizeof(*text.sockets));
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	text.sockets[0] = fcntl(ends[0], F_DUPFD_CLOEXEC, SOCKET_NUMBER);
	ck_assert_int_eq(text.sockets[0], SOCKET_NUMBER);
	close(ends[0]);
	close(ends[1]);
	return text;
}

static char *own_argv[] = {"test_successor", NULL};

START_TEST(a_replacement_has_state_sockets_and_held_signals)
{
	struct state_text text = state_with_socket();
	int status;
	pid_t child;

	successor_remember(own_argv);
	child = fork();
	if (child == 0) {
		successor_hold_signals(true);
		raise(SIGTERM);
		free(successor_exec(&text));
		_exit(NO_STATE);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), SUCCESSOR_AGREES);
	close_sockets(&text);
}
END_TEST

/* execve(2) refuses an argument of more than 128 KiB. The daemon goes on. */
START_TEST(a_replacement_that_fails_leaves_nothing_to_inherit)
{
	static char large[256 * 1024];
	char *argv[] = {large, NULL}, *why;
	struct state_text text = state_with_socket();

	memset(large, 'x', sizeof(large) - 1);
	successor_remember(argv);
	why = successor_exec(&text);
	ck_assert_ptr_nonnull(strstr(why, strerror(E2BIG)));
	free(why);
	ck_assert_int_eq(fcntl(SOCKET_NUMBER, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	ck_assert_ptr_null(getenv("LOCKBROKERD_STATE"));
	close_sockets(&text);
}
END_TEST

static const char *const no_descriptors[] = {
    "", "x", "3x", " 3", "0", "2", "-1", "99999999999999999999", "4294967299"};

/* Descriptor 0 would be read, and closed. */
START_TEST(a_variable_that_names_no_descriptor_is_ignored)
{
	static const char *const names[] = {"LOCKBROKERD_STATE", "LOCKBROKERD_REHEARSAL"};
	int own = fcntl(STDIN_FILENO, F_DUPFD, 900), null = open("/dev/null", O_RDONLY);
	struct state_text text;

	ck_assert_int_eq(dup2(null, STDIN_FILENO), STDIN_FILENO);
	for (size_t i = 0; i < 2; i++) {
		setenv(names[i], no_descriptors[_i], 1);
		ck_assert_int_eq(successor_role(&text), SUCCESSOR_NONE);
		ck_assert_ptr_null(text.text);
		ck_assert_uint_eq(inode_of(STDIN_FILENO), inode_of(null));
		ck_assert_ptr_null(getenv(names[i]));
	}
	if (null != STDIN_FILENO)
		close(null);
	if (own >= 0)
		dup2(own, STDIN_FILENO);
	close(own);
}
END_TEST

static void
on_rehearsed(void *ctx, const char *why)
{
	snprintf(ctx, TEXT_MAX, "%s", why != NULL ? why : "agrees");
}

START_TEST(a_rehearsal_has_the_state_alone_and_holds_the_signals)
{
	struct state_text text = state_with_socket();
	struct event_base *base = event_base_new();
	struct timers *timers = timers_new(&clock_boottime);
	char result[TEXT_MAX] = "";
	struct successor *successor = successor_new(base, timers, on_rehearsed, result);

	successor_remember(own_argv);
	successor_rehearse(successor, &text);
	while (result[0] == '\0')
		ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
	ck_assert_str_eq(result, "agrees");
	successor_free(successor);
	timers_free(timers);
	event_base_free(base);
	close_sockets(&text);
}
END_TEST

/* ---- descriptors that the kernel cuts off ---- */

static int
lowest_free(void)
{
	int fd = dup(STDERR_FILENO);

	close(fd);
	return fd;
}

/* There is room for two of three descriptors. None is kept: the receiver cannot say which is missing. */
START_TEST(descriptors_that_do_not_all_arrive_are_none)
{
	static const int sent[] = {STDERR_FILENO, STDERR_FILENO, STDERR_FILENO};
	int ends[2], fds[FD_PASS_MAX], before;
	struct rlimit limit, low;
	size_t count = 0;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	before = lowest_free();
	for (int i = 0; i < 2; i++) {
		ck_assert(fd_pass_send(ends[1], ".", sent, 3, 0));
		low = limit;
		if (i == 0)
			low.rlim_cur = (rlim_t)before + 2;
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
		ck_assert_int_eq(fd_pass_receive(ends[0], fds, &count), i == 1);
		ck_assert_uint_eq(count, i == 0 ? 0 : 3);
		ck_assert(i == 1 || lowest_free() == before);
	}
	while (count > 0)
		close(fds[--count]);
	close(ends[0]);
	close(ends[1]);
}
END_TEST

static Suite *
successor_suite(void)
{
	Suite *suite = suite_create("successor");
	TCase *tcase = tcase_create("store");

	tcase_add_test(tcase, state_and_sockets_go_there_once);
	tcase_add_test(tcase, the_socket_of_a_unit_comes_too);
	tcase_add_test(tcase, a_manager_that_does_not_answer_has_nothing);
	tcase_add_test(tcase, there_is_room_for_60000_sockets);
	tcase_add_test(tcase, without_a_manager_nothing_is_stored);
	tcase_add_test(tcase, descriptors_that_do_not_all_arrive_are_none);
	suite_add_tcase(suite, tcase);
	tcase = tcase_create("next program");
	tcase_add_test(tcase, a_replacement_has_state_sockets_and_held_signals);
	tcase_add_test(tcase, a_replacement_that_fails_leaves_nothing_to_inherit);
	tcase_add_test(tcase, a_rehearsal_has_the_state_alone_and_holds_the_signals);
	tcase_add_loop_test(tcase, a_variable_that_names_no_descriptor_is_ignored, 0,
	    sizeof(no_descriptors) / sizeof(no_descriptors[0]));
	suite_add_tcase(suite, tcase);
	return suite;
}

int
main(void)
{
	static Suite *(*const makers[])(void) = {successor_suite};
	const char *taken = getenv("LOCKBROKERD_STATE"),
		   *rehearsed = getenv("LOCKBROKERD_REHEARSAL");

	if (taken != NULL || rehearsed != NULL)
		return look_around(taken != NULL ? taken : rehearsed, taken == NULL);
	return unit_run(makers, 1);
}
