#include "tests/unit/client_rig.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/lib/clock.h"
#include "client/lib/transport.h"
#include "tests/unit/unit.h"

struct lb *lb;
int listener, daemon_end;
char folder[64], path[96];

int64_t client_rig_now = 1000000;
void (*client_rig_idle)(void);
int64_t (*client_rig_reading)(int64_t now);
bool client_rig_is_real;

/* ---- the linker replaces the clock and the wait (Makefile.am) ---- */

int64_t __real_client_clock_now(void);
int64_t __wrap_client_clock_now(void);
int __real_transport_poll(int fd, short events, int64_t deadline);
int __wrap_transport_poll(int fd, short events, int64_t deadline);

int64_t
__wrap_client_clock_now(void)
{
	if (client_rig_is_real)
		return __real_client_clock_now();
	return client_rig_reading == NULL ? client_rig_now : client_rig_reading(client_rig_now);
}

int
__wrap_transport_poll(int fd, short events, int64_t deadline)
{
	struct pollfd poll_fd = {.fd = fd, .events = events};
	int64_t left;

	if (client_rig_is_real || deadline == TRANSPORT_NEVER)
		return __real_transport_poll(fd, events, deadline);
	left = deadline - client_clock_now();
	if (poll(&poll_fd, 1, 0) > 0)
		return 0;
	if (client_rig_idle != NULL) {
		client_rig_idle();
		if (poll(&poll_fd, 1, 0) > 0)
			return 0;
	}
	if (left > 0)
		client_rig_now += left;
	return ETIMEDOUT;
}

void
client_rig_listen(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(folder, sizeof(folder), "/tmp/lb-unit-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/s", folder);
	memcpy(address.sun_path, path, strlen(path) + 1);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(listen(listener, 4), 0);
}

void
client_rig_up(void)
{
	client_rig_idle = NULL;
	client_rig_reading = NULL;
	client_rig_is_real = false;
	client_rig_listen();
	lb = lb_new();
	ck_assert_int_eq(lb_connect(lb, path, 1000), LB_OK);
	daemon_end = accept(listener, NULL, NULL);
	ck_assert_int_ge(daemon_end, 0);
}

void
client_rig_down(void)
{
	lb_free(lb);
	if (daemon_end >= 0)
		close(daemon_end);
	close(listener);
	unlink(path);
	rmdir(folder);
}

void
say(const char *line)
{
	ck_assert_int_eq(write(daemon_end, line, strlen(line)), (ssize_t)strlen(line));
	ck_assert_int_eq(write(daemon_end, "\n", 1), 1);
}

void
hang_up(void)
{
	close(daemon_end);
	daemon_end = -1;
}

const char *
heard(void)
{
	static char bytes[8192];
	ssize_t got = recv(daemon_end, bytes, sizeof(bytes) - 1, MSG_DONTWAIT);

	bytes[got > 0 ? got : 0] = '\0';
	return bytes;
}

struct lb_lock *
acquired(void)
{
	struct lb_lock *lock = NULL;

	say(GRANT("1", "a-1"));
	ck_assert_int_eq(lb_acquire(lb, "db", NULL, &lock), LB_OK);
	return lock;
}
