/* Each of these clients takes its lock, gives it back, and begins again, for COUNT ms. */
#include "config.h"

#include "tests/bench/bench.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define CREATES 8

struct cycles
cycles_begin(struct service *service)
{
	double began = now();

	return (struct cycles){
	    .side = side_of("%s", service->title),
	    .cycles = checked_alloc(service->size, sizeof(struct cycle)),
	    .began = began,
	    .until = began + (double)service->count / 1e3,
	    .running = service->size,
	};
}

bool
cycle_goes_on(struct cycles *cycles, size_t client)
{
	struct cycle *cycle = &cycles->cycles[client];
	double time = now();

	cycle->held = !cycle->held;
	if (cycle->held)
		return true;
	side_add(cycles->side, time - cycle->began);
	cycle->began = time;
	if (time < cycles->until)
		return true;
	cycles->running--;
	return false;
}

void
cycles_end(struct cycles *cycles)
{
	side_span(cycles->side, now() - cycles->began);
	free(cycles->cycles);
}

static void
watch_fd(int epoll, int fd, size_t client)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = client};

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
		err(1, "epoll_ctl");
}

/* Some at a time, as one of many at once is refused. */
void
names_make(struct peer *peer, const struct service *service)
{
	for (size_t asked = 0, made = 0; made < service->size; made++) {
		for (; asked < service->size && asked < made + CREATES; asked++)
			peer_create_ask(peer, nth_name(service, asked), 1, service->way);
		peer_created(peer);
	}
}

void
daemon_clients_open(struct service *service)
{
	service->peers = checked_alloc(service->size, sizeof(*service->peers));
	service->fd = epoll_create1(EPOLL_CLOEXEC);
	for (size_t i = 0; i < service->size; i++) {
		peer_open(&service->peers[i], service->where);
		watch_fd(service->fd, service->peers[i].fd, i);
	}
	names_make(service->peers, service);
}

static void
daemon_client_reads(struct service *service, struct cycles *cycles, size_t client)
{
	struct peer *peer = &service->peers[client];
	char line[LINE_SIZE];

	peer_read(peer);
	while (peer_next(peer, line)) {
		if (strstr(line, "\"error\"") != NULL)
			errx(1, "%s", line);
		if (!cycles->cycles[client].held)
			lock_of(line, peer->lock);
		if (!cycle_goes_on(cycles, client))
			continue;
		if (cycles->cycles[client].held)
			peer_ask(peer, "release", "\"lock\":\"%s\"", peer->lock);
		else
			peer_acquire(peer, nth_name(service, client));
	}
}

void
daemon_clients_round(struct service *service)
{
	struct cycles cycles = cycles_begin(service);
	struct epoll_event events[64];
	pid_t pid = peer_pid(service->peers);
	double cpu = cpu_of(pid);
	size_t before = side_count(cycles.side);

	for (size_t i = 0; i < service->size; i++) {
		cycles.cycles[i].began = now();
		peer_acquire(&service->peers[i], nth_name(service, i));
	}
	while (cycles.running > 0) {
		int got = epoll_wait(service->fd, events, 64, -1);

		for (int i = 0; i < got; i++)
			daemon_client_reads(service, &cycles, events[i].data.u64);
	}
	side_add(side_of("%s cpu", service->title),
	    (cpu_of(pid) - cpu) / (double)(side_count(cycles.side) - before));
	cycles_end(&cycles);
}

void
raw_clients_open(struct service *service)
{
	service->links[0] = link_open(service->where, (unsigned)service->size);
	hold_queues_make(service, service->size);
}

void
raw_clients_round(struct service *service)
{
	struct cycles cycles = cycles_begin(service);
	struct link *link = service->links[0];
	bool *checked = checked_alloc(service->size, sizeof(*checked));

	for (size_t i = 0; i < service->size; i++) {
		cycles.cycles[i].began = now();
		ask_claim(service, i, (unsigned)i + 1);
	}
	while (cycles.running > 0) {
		size_t client;

		if (link_is_dry(link))
			link_send(link);
		client = link_answers(link, 1) - 1;
		/* Two answers come to a claim. */
		if (!cycles.cycles[client].held && !checked[client]) {
			checked[client] = true;
			continue;
		}
		checked[client] = false;
		if (!cycle_goes_on(&cycles, client))
			continue;
		if (cycles.cycles[client].held)
			ask_drop(service, client, (unsigned)client + 1);
		else
			ask_claim(service, client, (unsigned)client + 1);
	}
	cycles_end(&cycles);
	free(checked);
}

#ifdef HAVE_HIREDIS
void
redis_clients_open(struct service *service)
{
	struct redis **clients = checked_alloc(service->size, sizeof(*clients));

	service->other = clients;
	service->fd = epoll_create1(EPOLL_CLOEXEC);
	for (size_t i = 0; i < service->size; i++) {
		clients[i] = redis_open(service->where);
		watch_fd(service->fd, redis_fd(clients[i]), i);
	}
}

void
redis_clients_round(struct service *service)
{
	struct cycles cycles = cycles_begin(service);
	struct redis **clients = service->other;
	struct epoll_event events[64];

	for (size_t i = 0; i < service->size; i++) {
		cycles.cycles[i].began = now();
		redis_ask(clients[i], true, nth_name(service, i));
	}
	while (cycles.running > 0) {
		int got = epoll_wait(service->fd, events, 64, -1);

		for (int i = 0; i < got; i++) {
			size_t client = events[i].data.u64;

			if (redis_answered(clients[client]) && cycle_goes_on(&cycles, client))
				redis_ask(clients[client], !cycles.cycles[client].held,
				    nth_name(service, client));
		}
	}
	cycles_end(&cycles);
}
#endif

#ifdef HAVE_GRPC
void
etcd_clients_open(struct service *service)
{
	service->other = etcd_open(service->where, service->size);
}

void
etcd_clients_round(struct service *service)
{
	struct cycles cycles = cycles_begin(service);

	for (size_t i = 0; i < service->size; i++) {
		cycles.cycles[i].began = now();
		etcd_ask(service->other, i, true, nth_name(service, i));
	}
	while (cycles.running > 0) {
		size_t client = etcd_answered(service->other);

		if (cycle_goes_on(&cycles, client))
			etcd_ask(service->other, client, !cycles.cycles[client].held,
			    nth_name(service, client));
	}
	cycles_end(&cycles);
}
#endif
