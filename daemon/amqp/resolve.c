#include "daemon/amqp/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "daemon/base/mem.h"

/* The maximum of threads: with a dead name server each lasts about half a minute. */
#define LOOKUPS_MAX 8

static atomic_int lookups;

/* Shared by the thread and the loop. The last of the two frees it. */
struct shared {
	atomic_int owners;
	int fd; /* eventfd: the thread has finished */
	char *host, port[8];
	struct addrinfo *addresses;
	int error; /* of getaddrinfo(3) */
	int system_error;
};

struct amqp_resolve {
	struct shared *shared;
	struct event *event; /* owned */
	const char *why;     /* the failure before a thread was started */
	void (*fn)(void *ctx, struct addrinfo *addresses, const char *why);
	void *ctx; /* borrowed */
};

static void
shared_leave(struct shared *shared)
{
	if (atomic_fetch_sub(&shared->owners, 1) > 1)
		return;
	if (shared->addresses != NULL)
		freeaddrinfo(shared->addresses);
	if (shared->fd >= 0)
		close(shared->fd);
	free(shared->host);
	free(shared);
}

static void
look_up(struct shared *shared, int flags)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};

	shared->error = getaddrinfo(shared->host, shared->port, &hints, &shared->addresses);
	shared->system_error = errno;
}

static void *
thread_main(void *arg)
{
	struct shared *shared = arg;

	look_up(shared, 0);
	/* It cannot fail: the counter is far from its limit. */
	(void)eventfd_write(shared->fd, 1);
	shared_leave(shared);
	atomic_fetch_sub(&lookups, 1);
	return NULL;
}

/* Returns NULL, or why there is no thread. */
static const char *
start_thread(struct shared *shared)
{
	pthread_attr_t attr;
	sigset_t all, before;
	pthread_t thread;
	int error;

	if (atomic_fetch_add(&lookups, 1) >= LOOKUPS_MAX) {
		atomic_fetch_sub(&lookups, 1);
		return "too many name lookups are still waiting for an answer";
	}
	atomic_fetch_add(&shared->owners, 1);
	/* Only the thread of the loop gets signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	error = pthread_create(&thread, &attr, thread_main, shared);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error == 0)
		return NULL;
	atomic_fetch_sub(&lookups, 1);
	shared_leave(shared);
	return "no thread is left for the name lookup";
}

static void
on_done(evutil_socket_t fd, short what, void *ctx)
{
	struct amqp_resolve *resolve = ctx;
	struct shared *shared = resolve->shared;
	struct addrinfo *addresses = shared->addresses;
	const char *why = resolve->why;

	(void)fd;
	(void)what;
	if (why == NULL && shared->error != 0)
		why = shared->error == EAI_SYSTEM ? strerror(shared->system_error)
						  : gai_strerror(shared->error);
	shared->addresses = NULL;
	resolve->fn(resolve->ctx, addresses, why);
}

struct amqp_resolve *
amqp_resolve_new(struct event_base *base, const char *host, int port,
    void (*fn)(void *ctx, struct addrinfo *addresses, const char *why), void *ctx)
{
	struct amqp_resolve *resolve = mem_alloc(sizeof(*resolve));
	struct shared *shared = mem_alloc(sizeof(*shared));

	resolve->shared = shared;
	resolve->fn = fn;
	resolve->ctx = ctx;
	atomic_init(&shared->owners, 1);
	shared->host = mem_strdup(host);
	snprintf(shared->port, sizeof(shared->port), "%d", port);
	shared->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	resolve->event = event_new(base, shared->fd, EV_READ, on_done, resolve);
	if (shared->fd < 0 || resolve->event == NULL || event_add(resolve->event, NULL) != 0) {
		amqp_resolve_free(resolve);
		return NULL;
	}
	look_up(shared, AI_NUMERICHOST);
	if (shared->error == EAI_NONAME)
		resolve->why = start_thread(shared);
	if (shared->error != EAI_NONAME || resolve->why != NULL)
		event_active(resolve->event, EV_READ, 0);
	return resolve;
}

void
amqp_resolve_free(struct amqp_resolve *resolve)
{
	if (resolve == NULL)
		return;
	if (resolve->event != NULL)
		event_free(resolve->event);
	shared_leave(resolve->shared);
	free(resolve);
}
