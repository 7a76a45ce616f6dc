/*
 * daemon/base: memory, the log, notices to the service manager.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/base/nearest.h"
#include "daemon/base/notify.h"
#include "daemon/base/users.h"
#include "tests/unit/unit.h"

/* ---- mem ---- */

START_TEST(mem_is_zeroed_grown_and_copied)
{
	unsigned char *bytes = mem_alloc(100);
	char *text;

	for (size_t i = 0; i < 100; i++)
		ck_assert_uint_eq(bytes[i], 0);
	bytes[99] = 7;
	bytes = mem_grow(bytes, 50, 4);
	ck_assert_uint_eq(bytes[99], 7);
	bytes[199] = 1;
	free(bytes);
	free(mem_alloc(0));
	text = mem_printf("%s-%d-A", "backup", 12);
	ck_assert_str_eq(text, "backup-12-A");
	free(text);
	text = mem_strdup("");
	ck_assert_str_eq(text, "");
	free(text);
	ck_assert_ptr_null(mem_strdup(NULL));
}
END_TEST

START_TEST(mem_that_cannot_be_had_ends_the_process)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		log_set_sink(NULL, NULL);
		free(mem_grow(NULL, SIZE_MAX / 2, 3));
		_exit(EXIT_SUCCESS);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
END_TEST

/* ---- log ---- */

/* The log is as at the start of a process. */
static void
log_setup(void)
{
	log_set_level(LOG_LEVEL_INFO);
	log_set_sink(NULL, NULL);
	log_set_format(LOG_FORMAT_TEXT);
	log_set_journal(NULL);
}

static char sunk[8192];
static int sunk_count;
static enum log_level sunk_level;

static void
sink(void *ctx, enum log_level level, const char *line)
{
	ck_assert_ptr_eq(ctx, &sunk);
	snprintf(sunk, sizeof(sunk), "%s", line);
	sunk_level = level;
	sunk_count++;
}

START_TEST(log_goes_to_the_sink_by_level)
{
	log_set_sink(sink, &sunk);
	log_debug("not said by default");
	ck_assert_int_eq(sunk_count, 0);
	errno = ENOENT;
	log_info("granted %s slot %d", "backup", 3);
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_str_eq(sunk, "granted backup slot 3");
	ck_assert_int_eq(sunk_level, LOG_LEVEL_INFO);
	log_set_level(LOG_LEVEL_WARNING);
	log_info("not said");
	ck_assert_int_eq(sunk_count, 1);
	log_warning("w");
	ck_assert_int_eq(sunk_level, LOG_LEVEL_WARNING);
	log_error("e");
	ck_assert_int_eq(sunk_level, LOG_LEVEL_ERROR);
	log_set_level(LOG_LEVEL_DEBUG);
	log_debug("d");
	ck_assert_int_eq(sunk_level, LOG_LEVEL_DEBUG);
	ck_assert_int_eq(sunk_count, 4);
}
END_TEST

START_TEST(log_keeps_an_event_on_one_line_and_cuts_it)
{
	char text[6000];

	log_set_sink(sink, &sunk);
	log_info("the broker said: %s", "404\nERROR forged\tline\x7f");
	ck_assert_str_eq(sunk, "the broker said: 404 ERROR forged line ");
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_info("%s", text);
	ck_assert_uint_lt(strlen(sunk), PIPE_BUF);
	ck_assert_uint_gt(strlen(sunk), PIPE_BUF - 100);
	ck_assert_str_eq(sunk + strlen(sunk) - 4, "x...");
}
END_TEST

/* Puts the writing end of a new pipe in stderr's place; returns the reading end. */
static int
stderr_to_pipe(int *ret_saved)
{
	int ends[2];

	ck_assert_int_eq(pipe(ends), 0);
	*ret_saved = dup(STDERR_FILENO);
	ck_assert_int_eq(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	close(ends[1]);
	log_set_sink(NULL, NULL);
	return ends[0];
}

static void
stderr_back(int saved)
{
	ck_assert_int_eq(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	close(saved);
}

static size_t
read_some(int fd, char *buf, size_t size)
{
	ssize_t len = read(fd, buf, size - 1);

	ck_assert_int_gt(len, 0);
	buf[len] = '\0';
	return (size_t)len;
}

START_TEST(log_to_stderr_has_time_and_level)
{
	int saved, fd, year, month, day, used = 0;
	char line[256];

	unsetenv("JOURNAL_STREAM");
	fd = stderr_to_pipe(&saved);
	log_warning("slow %s", "peer");
	stderr_back(saved);
	read_some(fd, line, sizeof(line));
	ck_assert_int_eq(
	    sscanf(line, "%4d-%2d-%2dT%*2d:%*2d:%*2d.%*3dZ %n", &year, &month, &day, &used), 3);
	ck_assert_int_gt(year, 2020);
	ck_assert_str_eq(line + used, "warning: slow peer\n");
	close(fd);
}
END_TEST

START_TEST(log_to_the_journal_has_priorities)
{
	char stream[64], text[256];
	struct stat status;
	int saved, fd;

	fd = stderr_to_pipe(&saved);
	ck_assert_int_eq(fstat(STDERR_FILENO, &status), 0);
	snprintf(
	    stream, sizeof(stream), "%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	log_set_journal("/dev/null/none"); /* the journal's own socket is not there */
	log_set_level(LOG_LEVEL_DEBUG);
	log_error("a");
	log_warning("b");
	log_info("c");
	log_debug("d");
	/* Of another stream than stderr: not the journal. */
	snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)status.st_dev,
	    (uintmax_t)status.st_ino + 1);
	setenv("JOURNAL_STREAM", stream, 1);
	log_info("e");
	stderr_back(saved);
	log_set_journal(NULL);
	read_some(fd, text, sizeof(text));
	ck_assert_msg(strncmp(text, "<3>a\n<4>b\n<6>c\n<7>d\n2", 21) == 0, "%s", text);
	ck_assert_ptr_nonnull(strstr(text, "Z info: e\n"));
	close(fd);
}
END_TEST

#define LOST_ID "07b86b2f8c3f4092a59d947e42f0983b"

/* A socket as the journal has it. Returns its descriptor. */
static int
journal_open(char dir[], struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(address->sun_path, sizeof(address->sun_path), "%s/journal", dir);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)address, sizeof(*address)), 0);
	return fd;
}

START_TEST(log_to_the_journal_has_fields)
{
	static const uid_t uid = 7;
	const struct log_event event = {.kind = LOG_LOST,
	    .name = "db",
	    .lock = "00000012-3",
	    .slot = 2,
	    .uid = &uid,
	    .user = "alice",
	    .pid = 9};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char dir[] = "/tmp/lockbroker-test-XXXXXX", stream[64], text[512], line[64];
	struct stat status;
	ssize_t len;
	int journal = journal_open(dir, &address), saved, fd, sent = 0;

	fd = stderr_to_pipe(&saved);
	ck_assert_int_eq(fstat(STDERR_FILENO, &status), 0);
	snprintf(
	    stream, sizeof(stream), "%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	log_set_journal(address.sun_path);
	log_set_format(LOG_FORMAT_JSON);
	log_event_at(LOG_LEVEL_WARNING, &event, "%s: a\nb", "db");
	log_info("plain");
	len = recv(journal, text, sizeof(text) - 1, 0);
	ck_assert_int_gt(len, 0);
	text[len] = '\0';
	ck_assert_str_eq(text, "PRIORITY=4\nSYSLOG_IDENTIFIER=lockbrokerd\nMESSAGE=lost db: a b\n"
			       "MESSAGE_ID=" LOST_ID "\nLOCKBROKER_EVENT=lost\nLOCKBROKER_NAME=db\n"
			       "LOCKBROKER_LOCK=00000012-3\nLOCKBROKER_SLOT=2\nLOCKBROKER_UID=7\n"
			       "LOCKBROKER_USER=alice\nLOCKBROKER_PID=9\n");
	len = recv(journal, text, sizeof(text) - 1, 0);
	ck_assert_int_gt(len, 0);
	text[len] = '\0';
	ck_assert_str_eq(text, "PRIORITY=6\nSYSLOG_IDENTIFIER=lockbrokerd\nMESSAGE=plain\n");
	log_collect();
	log_info("first of a pass");
	log_info("second of a pass");
	ck_assert_int_eq(recv(journal, text, sizeof(text), 0), -1);
	log_flush();
	for (int i = 0; i < 2; i++) {
		len = recv(journal, text, sizeof(text) - 1, 0);
		ck_assert_int_gt(len, 0);
		text[len] = '\0';
		ck_assert_ptr_nonnull(strstr(text, i == 0 ? "MESSAGE=first" : "MESSAGE=second"));
	}
	/* A journal that does not read, and one that is gone: the lines go to the stream. */
	for (; sent < 10000 && poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) == 0;
	     sent++)
		log_info("full");
	ck_assert_int_lt(sent, 10000);
	close(journal);
	log_info("gone");
	stderr_back(saved);
	log_set_journal(NULL);
	read_some(fd, line, sizeof(line));
	ck_assert_str_eq(line, "<6>full\n<6>gone\n");
	close(fd);
	unlink(address.sun_path);
	rmdir(dir);
}
END_TEST

/* A daemon whose standard input is closed. */
START_TEST(log_to_the_journal_over_descriptor_0)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char dir[] = "/tmp/lockbroker-test-XXXXXX", stream[64], text[512];
	struct stat status;
	int journal = journal_open(dir, &address), input = dup(STDIN_FILENO), saved, fd;

	fd = stderr_to_pipe(&saved);
	ck_assert_int_eq(fstat(STDERR_FILENO, &status), 0);
	snprintf(
	    stream, sizeof(stream), "%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	close(STDIN_FILENO);
	log_set_journal(address.sun_path);
	log_info("plain");
	ck_assert_int_eq(fcntl(STDIN_FILENO, F_GETFD), FD_CLOEXEC);
	ck_assert_int_gt(recv(journal, text, sizeof(text), 0), 0);
	log_set_journal(NULL);
	ck_assert_int_eq(fcntl(STDIN_FILENO, F_GETFD), -1);
	ck_assert_int_eq(dup2(input, STDIN_FILENO), STDIN_FILENO);
	stderr_back(saved);
	close(input);
	close(fd);
	close(journal);
	unlink(address.sun_path);
	rmdir(dir);
}
END_TEST

START_TEST(log_as_json)
{
	char text[PIPE_BUF + 1], long_text[PIPE_BUF];
	const struct log_event event = {.kind = LOG_DONE, .name = "db", .method = "create"};
	int saved, fd;

	unsetenv("JOURNAL_STREAM");
	fd = stderr_to_pipe(&saved);
	log_set_format(LOG_FORMAT_JSON);
	log_event_at(LOG_LEVEL_INFO, &event, "create \"%s\" \\ \xc3", "db");
	memset(long_text, '"', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	stderr_back(saved);
	read_some(fd, text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text,
	    "Z\",\"level\":\"info\",\"event\":\"done\",\"method\":\"create\",\"name\":\"db\","
	    "\"message\":\"done create \\\"db\\\" \\\\ \\u00c3\"}\n"));
	close(fd);
	/* A line stays whole, however long it is. */
	fd = stderr_to_pipe(&saved);
	log_error("%s", long_text);
	stderr_back(saved);
	read_some(fd, text, sizeof(text));
	ck_assert_uint_lt(strlen(text), PIPE_BUF);
	ck_assert_str_eq(text + strlen(text) - 5, "\\\"\"}\n");
	close(fd);
}
END_TEST

START_TEST(users_have_the_names_of_the_file)
{
	char path[] = "/tmp/lockbroker-test-XXXXXX";
	struct rlimit descriptors, none;
	int fd = mkstemp(path);

	ck_assert_int_gt(dprintf(fd, "alice:x:7:7::/:\nbob:x:8:8::/:\nalso:x:7:7::/:\n"), 0);
	user_names_set_file(path);
	ck_assert_str_eq(user_name(7), "alice");
	ck_assert_str_eq(user_name(8), "bob");
	ck_assert_ptr_null(user_name(9));
	ck_assert_int_gt(dprintf(fd, "carol:x:9:9::/:\n"), 0);
	/* Without a descriptor the old names stay, and the file is read later. */
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &descriptors), 0);
	none = (struct rlimit){.rlim_cur = 0, .rlim_max = descriptors.rlim_max};
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	user_names_set_file(path); /* as after a second */
	ck_assert_str_eq(user_name(7), "alice");
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &descriptors), 0);
	user_names_set_file(path);
	ck_assert_str_eq(user_name(9), "carol");
	user_names_set_file(NULL);
	ck_assert_str_eq(user_name(0), "root");
	close(fd);
	unlink(path);
}
END_TEST

START_TEST(log_to_a_full_pipe_does_not_block_and_counts)
{
	char text[1 << 17];
	int saved, fd;

	unsetenv("JOURNAL_STREAM");
	fd = stderr_to_pipe(&saved);
	/* Check's timeout ends the test when one of these blocks. */
	ck_assert_int_eq(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0);
	ck_assert_int_ge(fcntl(STDERR_FILENO, F_SETPIPE_SZ, 4096), 4096);
	memset(text, 'x', 4000);
	text[4000] = '\0';
	log_info("%s", text);
	log_info("lost 1");
	log_info("lost 2");
	log_info("lost 3");
	ck_assert_int_eq(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0);
	ck_assert_int_ge(fcntl(STDERR_FILENO, F_SETPIPE_SZ, 65536), 65536);
	log_info("room again");
	stderr_back(saved);
	read_some(fd, text, sizeof(text));
	ck_assert_ptr_null(strstr(text, "lost"));
	ck_assert_ptr_nonnull(strstr(text, "warning: 3 log lines were dropped"));
	ck_assert_ptr_nonnull(strstr(text, "info: room again\n"));
	close(fd);
}
END_TEST

/* Whether a read of it would not wait. */
static bool
has_some(int fd)
{
	return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) == 1;
}

/* A socket that keeps the bounds of writes, in stderr's place; returns the reading end. */
static int
stderr_to_packets(int *ret_saved)
{
	int ends[2], most = 1 << 20;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	ck_assert_int_eq(setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &most, sizeof(most)), 0);
	*ret_saved = dup(STDERR_FILENO);
	ck_assert_int_eq(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	close(ends[1]);
	return ends[0];
}

START_TEST(log_lines_of_a_pass_are_written_at_its_end_by_one_write)
{
	char text[PIPE_BUF + 1];
	int saved, fd;

	unsetenv("JOURNAL_STREAM");
	fd = stderr_to_packets(&saved);
	log_collect();
	log_info("a");
	log_warning("b");
	ck_assert(!has_some(fd));
	log_flush();
	read_some(fd, text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "info: a\n"));
	ck_assert_ptr_nonnull(strstr(text, "warning: b\n"));
	/* Outside of a pass, and before an end. */
	log_info("c");
	read_some(fd, text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "info: c\n"));
	log_collect();
	log_info("d");
	log_error("e");
	read_some(fd, text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "info: d\n"));
	ck_assert_ptr_nonnull(strstr(text, "error: e\n"));
	log_flush();
	ck_assert(!has_some(fd));
	stderr_back(saved);
	close(fd);
}
END_TEST

/* Reads lines with the numbers from `next` on. Returns the next number. */
static int
drain(int fd, int next)
{
	char text[PIPE_BUF + 1], wanted[32];
	const char *at;

	while (has_some(fd)) {
		read_some(fd, text, sizeof(text));
		for (at = text;; next++) {
			snprintf(wanted, sizeof(wanted), "info: %d:", next);
			at = strstr(at, wanted);
			if (at == NULL)
				break;
		}
	}
	return next;
}

/* Short ones, so that their number is the limit; then long ones. */
START_TEST(log_lines_that_have_no_room_are_not_lost)
{
	const int count = 600;
	int saved, fd, seen = 0;

	unsetenv("JOURNAL_STREAM");
	fd = stderr_to_packets(&saved);
	log_collect();
	for (int i = 0; i < count; i++) {
		log_info("%d:%0*d", i, _i == 0 ? 1 : 1000, 0);
		seen = drain(fd, seen);
	}
	ck_assert_int_gt(seen, 0);
	log_flush();
	seen = drain(fd, seen);
	stderr_back(saved);
	ck_assert_int_eq(seen, count);
	close(fd);
}
END_TEST

START_TEST(log_lines_are_not_lost_in_a_crash)
{
	static const int signals[] = {SIGABRT, SIGSEGV};
	char text[256];
	int saved, fd, status;
	pid_t child;

	unsetenv("JOURNAL_STREAM");
	fd = stderr_to_packets(&saved);
	child = fork();
	if (child == 0) {
		log_flush_at_crashes();
		log_collect();
		log_info("last words");
		raise(signals[_i]);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	stderr_back(saved);
	/* A sanitizer exits at SIGSEGV. */
	ck_assert(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
	read_some(fd, text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "info: last words\n"));
	close(fd);
}
END_TEST

START_TEST(log_to_a_pipe_without_reader_is_no_signal)
{
	int saved, fd;

	fd = stderr_to_pipe(&saved);
	close(fd);
	log_error("nobody reads this");
	stderr_back(saved);
}
END_TEST

START_TEST(log_quote_escapes)
{
	static const char bytes[] = "a\"b'c\\d\n\x01\x7f\xc3\xa9 ~\0z";
	char buf[LOG_QUOTE_MAX];

	ck_assert_str_eq(log_quote(buf, bytes, sizeof(bytes) - 1),
	    "a\\x22b'c\\x5cd\\x0a\\x01\\x7f\\xc3\\xa9 ~\\x00z");
	ck_assert_str_eq(log_quote(buf, "", 0), "");
	ck_assert_str_eq(log_quote(buf, NULL, 0), "");
	ck_assert_ptr_eq(log_quote(buf, "x", 1), buf);
}
END_TEST

START_TEST(log_quote_cuts_between_escapes)
{
	char bytes[300], buf[LOG_QUOTE_MAX], wanted[LOG_QUOTE_MAX];

	/* 255 characters fit as they are, 256 are cut. */
	memset(bytes, 'a', sizeof(bytes));
	memset(wanted, 'a', sizeof(wanted));
	wanted[255] = '\0';
	ck_assert_str_eq(log_quote(buf, bytes, 255), wanted);
	strcpy(wanted + 252, "...");
	ck_assert_str_eq(log_quote(buf, bytes, 256), wanted);
	/* 63 escapes are 252 characters: the 64th does not fit, and is not cut in its middle. */
	memset(bytes, '\n', sizeof(bytes));
	for (int i = 0; i < 63; i++)
		strcpy(wanted + (size_t)4 * (size_t)i, "\\x0a");
	ck_assert_str_eq(log_quote(buf, bytes, 63), wanted);
	strcat(wanted, "...");
	ck_assert_str_eq(log_quote(buf, bytes, 64), wanted);
	/* The cut takes an escape whole that stands in its way. */
	bytes[0] = bytes[1] = 'a';
	log_quote(buf, bytes, 300);
	ck_assert_uint_eq(strlen(buf), 2 + 62 * 4 + 3);
	ck_assert_str_eq(buf + strlen(buf) - 7, "\\x0a...");
	/* Something that just fits behind a place where a cut would still have fitted. */
	memset(bytes, 'a', 251);
	bytes[251] = '\n';
	log_quote(buf, bytes, 252);
	ck_assert_uint_eq(strlen(buf), 255);
	ck_assert_str_eq(buf + 250, "a\\x0a");
}
END_TEST

/* ---- notify ---- */

static char notify_dir[] = "/tmp/lockbroker-test-XXXXXX";
static struct sockaddr_un notify_address = {.sun_family = AF_UNIX};
static int notify_fd;

static void
notify_setup(void)
{
	strcpy(notify_dir + sizeof(notify_dir) - 7, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(notify_dir));
	snprintf(notify_address.sun_path, sizeof(notify_address.sun_path), "%s/notify", notify_dir);
	notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	ck_assert_int_ge(notify_fd, 0);
	ck_assert_int_eq(
	    bind(notify_fd, (struct sockaddr *)&notify_address, sizeof(notify_address)), 0);
	setenv("NOTIFY_SOCKET", notify_address.sun_path, 1);
}

static void
notify_teardown(void)
{
	close(notify_fd);
	unlink(notify_address.sun_path);
	rmdir(notify_dir);
	unsetenv("NOTIFY_SOCKET");
}

static const char *
notified(void)
{
	static char text[2048];

	read_some(notify_fd, text, sizeof(text));
	return text;
}

START_TEST(notify_says_each_state)
{
	long long usec = 0;
	char text[2000];

	notify_ready();
	ck_assert_str_eq(notified(), "READY=1");
	notify_stopping();
	ck_assert_str_eq(notified(), "STOPPING=1");
	notify_watchdog();
	ck_assert_str_eq(notified(), "WATCHDOG=1");
	notify_reloading();
	ck_assert_int_eq(sscanf(notified(), "RELOADING=1\nMONOTONIC_USEC=%lld", &usec), 1);
	ck_assert_int_gt(usec, 0);
	notify_status("broker %s, %d holds", "up\nREADY=0", 3);
	ck_assert_str_eq(notified(), "STATUS=broker up READY=0, 3 holds");
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	notify_status("%s", text);
	ck_assert_uint_lt(strlen(notified()), 600);
}
END_TEST

START_TEST(notify_to_a_manager_that_does_not_read_ends)
{
	/*
	 * More than any queue of datagrams holds (net.unix.max_dgram_qlen). With a wait at each of
	 * them, this test would last half an hour.
	 */
	for (int i = 0; i < 10000; i++)
		notify_watchdog();
	notify_ready();
}
END_TEST

START_TEST(notify_without_listener_is_silent)
{
	unsetenv("NOTIFY_SOCKET");
	notify_ready();
	notify_status("x");
	setenv("NOTIFY_SOCKET", "/nonexistent/socket", 1);
	notify_ready();
	ck_assert_int_eq(recv(notify_fd, (char[1]){0}, 1, 0), -1);
	ck_assert_int_eq(errno, EAGAIN);
}
END_TEST

START_TEST(notify_watchdog_is_fed_at_half_its_time)
{
	unsetenv("WATCHDOG_PID");
	unsetenv("WATCHDOG_USEC");
	ck_assert_int_eq(notify_watchdog_interval(), 0);
	setenv("WATCHDOG_USEC", "30000000", 1);
	ck_assert_int_eq(notify_watchdog_interval(), 15 * NSEC_PER_SEC);
	/* Meant for another process. */
	setenv("WATCHDOG_PID", "1", 1);
	ck_assert_int_eq(notify_watchdog_interval(), 0);
}
END_TEST

/* ---- nearest ---- */

static const struct {
	const char *word, *found; /* of the words below */
} mistyped[] = {
    {"heartbeat", "heartbeat"},
    {"hartbeet", "heartbeat"},
    {"haertbeat", "heartbeat"},
    {"hrtbet", NULL},
    {"heartbeats and all that is longer than a word", NULL},
    {"sas", "sasl"},
    {"sa", "sasl"},
    {"s", NULL},
    {"claim", "claim"},
    {"clain", "claim"},
    {"tls-c", "tls-ca"},
    {"", NULL},
};

START_TEST(the_nearest_word_is_found)
{
	static const char *const words[] = {"heartbeat", "sasl", "claim", "tls-ca", "tls-cert"};
	char text[64];
	struct nearest near = {.word = text, .len = strlen(mistyped[_i].word)};

	/* Bytes behind the word do not count. */
	snprintf(text, sizeof(text), "%s=x", mistyped[_i].word);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		nearest_try(&near, words[i]);
	ck_assert_pstr_eq(near.found, mistyped[_i].found);
}
END_TEST

static Suite *
base_suite(void)
{
	Suite *suite = suite_create("base");
	TCase *tcase = tcase_create("memory");

	tcase_add_test(tcase, mem_is_zeroed_grown_and_copied);
	tcase_add_test(tcase, mem_that_cannot_be_had_ends_the_process);
	suite_add_tcase(suite, tcase);

	tcase = tcase_create("log");
	tcase_add_checked_fixture(tcase, log_setup, NULL);
	tcase_add_test(tcase, log_goes_to_the_sink_by_level);
	tcase_add_test(tcase, log_keeps_an_event_on_one_line_and_cuts_it);
	tcase_add_test(tcase, log_to_stderr_has_time_and_level);
	tcase_add_test(tcase, log_to_the_journal_has_priorities);
	tcase_add_test(tcase, log_to_the_journal_has_fields);
	tcase_add_test(tcase, log_to_the_journal_over_descriptor_0);
	tcase_add_test(tcase, log_as_json);
	tcase_add_test(tcase, users_have_the_names_of_the_file);
	tcase_add_test(tcase, log_to_a_full_pipe_does_not_block_and_counts);
	tcase_add_test(tcase, log_lines_of_a_pass_are_written_at_its_end_by_one_write);
	tcase_add_loop_test(tcase, log_lines_that_have_no_room_are_not_lost, 0, 2);
	tcase_add_loop_test(tcase, log_lines_are_not_lost_in_a_crash, 0, 2);
	tcase_add_test(tcase, log_to_a_pipe_without_reader_is_no_signal);
	tcase_add_test(tcase, log_quote_escapes);
	tcase_add_test(tcase, log_quote_cuts_between_escapes);
	suite_add_tcase(suite, tcase);

	tcase = tcase_create("nearest");
	tcase_add_loop_test(
	    tcase, the_nearest_word_is_found, 0, sizeof(mistyped) / sizeof(mistyped[0]));
	suite_add_tcase(suite, tcase);

	tcase = tcase_create("notify");
	tcase_add_checked_fixture(tcase, notify_setup, notify_teardown);
	tcase_add_test(tcase, notify_says_each_state);
	tcase_add_test(tcase, notify_to_a_manager_that_does_not_read_ends);
	tcase_add_test(tcase, notify_without_listener_is_silent);
	tcase_add_test(tcase, notify_watchdog_is_fed_at_half_its_time);
	suite_add_tcase(suite, tcase);
	return suite;
}

int
main(void)
{
	static Suite *(*const makers[])(void) = {base_suite};

	return unit_run(makers, sizeof(makers) / sizeof(makers[0]));
}
