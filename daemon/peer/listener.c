#include "daemon/peer/listener.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/event.h>

#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/peer/listener_socket.h"

/* Taken in one pass, so that those who are in have their turn too. */
#define ACCEPTS_A_PASS 64
/* Out of file descriptors: the backlog waits so long before the next try. */
#define PAUSE (100 * NSEC_PER_MSEC)

struct listener {
	struct event_base *base; /* borrowed */
	struct timers *timers;   /* borrowed */
	void (*accepted)(void *ctx, int fd);
	void *ctx; /* borrowed */

	int fd;              /* -1 = closed */
	struct event *event; /* owned; NULL when closed */
	struct timer resume; /* set while pausing */
	bool complained;     /* of a shortage that is not over yet */
	struct listener_file file;
};

static void
listener_resume(void *ctx, uint64_t id)
{
	struct listener *listener = ctx;

	(void)id;
	event_add(listener->event, NULL);
}

struct listener *
listener_new(
    struct event_base *base, struct timers *timers, void (*accepted)(void *ctx, int fd), void *ctx)
{
	struct listener *listener = mem_alloc(sizeof(*listener));

	listener->base = base;
	listener->timers = timers;
	listener->accepted = accepted;
	listener->ctx = ctx;
	listener->fd = -1;
	timer_init(&listener->resume, listener_resume, listener, 0);
	return listener;
}

/* A shortage of file descriptors or memory: the socket stays readable, so looking must stop. */
static void
listener_pause(struct listener *listener, int why)
{
	if (!listener->complained)
		log_warning("no peer can be accepted for now: %s", strerror(why));
	listener->complained = true;
	event_del(listener->event);
	timers_set(
	    listener->timers, &listener->resume, clock_now(timers_clock(listener->timers)) + PAUSE);
}

static void
listener_accept(evutil_socket_t fd, short what, void *ctx)
{
	struct listener *listener = ctx;

	(void)what;
	for (int taken = 0; taken < ACCEPTS_A_PASS; taken++) {
		int peer = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (peer >= 0) {
			if (listener->complained)
				log_info("peers are accepted again");
			listener->complained = false;
			listener->accepted(listener->ctx, peer);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno == EAGAIN)
			return;
		listener_pause(listener, errno);
		return;
	}
}

/* Its own name: one that was handed over need not be the configuration's. */
static void
tell_socket(int fd, bool inherited)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	socklen_t size = sizeof(name);
	char quoted[LOG_QUOTE_MAX];

	if (getsockname(fd, (struct sockaddr *)&name, &size) != 0)
		return;
	log_info("listening at %s%s",
	    log_quote(quoted, name.sun_path, strnlen(name.sun_path, sizeof(name.sun_path))),
	    inherited ? ", the service manager's socket" : "");
}

bool
listener_open(struct listener *listener, const struct listener_address *address, char **ret_error)
{
	int fd = listener_socket_inherit(ret_error);
	bool inherited = fd >= 0;

	if (fd == -1)
		fd = listener_socket_make(address, &listener->file, ret_error);
	if (fd < 0)
		return false;
	listener->fd = fd;
	listener->event =
	    event_new(listener->base, fd, EV_READ | EV_PERSIST, listener_accept, listener);
	if (listener->event == NULL || event_add(listener->event, NULL) != 0) {
		*ret_error = mem_printf("the socket cannot be watched");
		listener_close(listener);
		return false;
	}
	tell_socket(fd, inherited);
	return true;
}

void
listener_close(struct listener *listener)
{
	if (listener->fd < 0)
		return;
	timers_cancel(listener->timers, &listener->resume);
	if (listener->event != NULL)
		event_free(listener->event);
	listener->event = NULL;
	/* The file goes first: who finds it must find somebody listening. */
	listener_file_remove(&listener->file);
	close(listener->fd);
	listener->fd = -1;
}

void
listener_free(struct listener *listener)
{
	if (listener == NULL)
		return;
	listener_close(listener);
	free(listener);
}
