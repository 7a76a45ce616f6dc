/*
 * Measures services in turn: in each round, each of them does the same work. bench_table.py starts the
 * servers and makes ratios of the figures.
 *
 *	load GROUP ROUNDS COUNT SIZE [rest=MS] [cpu=N] SERVICE...
 *	load services			prints the groups and the kinds of services that were built in
 *	load crowd SOCKET HOLDS IDLE WAITERS
 *					keeps these until its input ends; prints "ready"
 *	load beads URL NAME HOLDS MS	renews slots by quorum until its input ends; prints "ready"
 *	load proxy PORT MS		see proxy.c
 *
 * A service is KIND[:NAME][=WHERE[,WHERE]]: a daemon's socket, or two; RabbitMQ's URL; a port. A name
 * that ends in queue, consumer or quorum tells how a slot is held; kind raw has such a name. Kind beads
 * is that of quorum: its second place is the socket of the daemon that makes its slots. For each side of
 * a service a round prints a line of side, round, samples, p50 and p99 in microseconds, and seconds in
 * all. The lines of round "all" come at the end. A hand-off or an echo comes after a rest of MS.
 */
#include "config.h"

#include "tests/bench/bench.h"

#include <err.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signal.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE 900 /* seconds for a group */
/* Bytes of an acquire, its answer, a release and its answer. */
#define ACQUIRE 62
#define GRANT 215
#define RELEASE 68
#define RELEASED 38
#define IN_FLIGHT 32
#define HOLDS_MOST 1000 /* of a connection in a crowd */

const char *
queue_of(const struct service *service, size_t slot, char which)
{
	static char names[4][128];
	static unsigned next;
	char *name = names[next++ % 4];

	snprintf(name, sizeof(names[0]), "%s-%zu-%c", service->semaphore, slot + 1, which);
	return name;
}

const char *
nth_name(const struct service *service, size_t i)
{
	static char name[128];

	snprintf(name, sizeof(name), "%s/%zu", service->semaphore, i);
	return name;
}

void
hold_queues_make(struct service *service, size_t slots)
{
	for (size_t slot = 0; slot < slots; slot++) {
		put_slot_queue(service->links[0], queue_of(service, slot, 'A'));
		if (service->way == BY_CONSUMER)
			put_holder_queue(service->links[0], queue_of(service, slot, 'B'));
	}
	link_send(service->links[0]);
	link_answers(service->links[0], slots * (service->way == BY_CONSUMER ? 2 : 1));
}

void
ask_claim(struct service *service, size_t slot, unsigned channel)
{
	put_claim(service->links[0], channel, service->way, queue_of(service, slot, 'B'),
	    queue_of(service, slot, 'A'));
}

void
ask_drop(struct service *service, size_t slot, unsigned channel)
{
	put_drop(service->links[0], channel, service->way, queue_of(service, slot, 'B'));
}

/* ---- locks: one client takes and gives back one free lock ---- */

static void
daemon_lock(struct service *service)
{
	peer_acquire(service->peers, service->semaphore);
	peer_granted(service->peers);
}

static void
daemon_unlock(struct service *service)
{
	peer_release(service->peers, service->peers->lock);
}

static void
daemon_locks_open(struct service *service)
{
	service->peers = checked_alloc(1, sizeof(*service->peers));
	peer_open(service->peers, service->where);
	peer_create(service->peers, service->semaphore, 1, service->way);
	service->lock = daemon_lock;
	service->unlock = daemon_unlock;
}

static void
raw_lock(struct service *service)
{
	ask_claim(service, 0, 1);
	link_send(service->links[0]);
	link_answers(service->links[0], 2);
}

static void
raw_unlock(struct service *service)
{
	ask_drop(service, 0, 1);
	link_send(service->links[0]);
	link_answers(service->links[0], 1);
}

static void
raw_locks_open(struct service *service)
{
	service->links[0] = link_open(service->where, 1);
	hold_queues_make(service, 1);
	service->lock = raw_lock;
	service->unlock = raw_unlock;
}

/* The steps of seeds/000, "Acquiring a Lock", 1, 3 and 5, and the recommended check after 7. */
static void
seeds_lock(struct service *service)
{
	struct link *link = service->links[0];

	put_probe(link, 1, queue_of(service, 0, 'A'));
	link_send(link);
	if (link_confirmed(link, 1) != 0)
		errx(1, "seeds: no A");
	put_probe(link, 1, queue_of(service, 0, 'B'));
	link_send(link);
	if (link_confirmed(link, 1) != 1)
		errx(1, "seeds: B is there");
	put_exclusive(link, 1, queue_of(service, 0, 'B'));
	link_send(link);
	link_answers(link, 1);
	put_probe(link, 1, queue_of(service, 0, 'A'));
	link_send(link);
	link_confirmed(link, 1);
}

static void
seeds_locks_open(struct service *service)
{
	raw_locks_open(service);
	link_confirms(service->links[0], 1);
	service->lock = seeds_lock;
}

static void
echo_acquire(struct service *service)
{
	echo(service->fd, ACQUIRE, GRANT);
}

static void
echo_release(struct service *service)
{
	echo(*(int *)service->other, RELEASE, RELEASED);
}

static void
echo_locks_open(struct service *service)
{
	int *second = checked_alloc(1, sizeof(*second));

	service->fd = echo_open(ACQUIRE, GRANT);
	*second = echo_open(RELEASE, RELEASED);
	service->other = second;
	service->lock = echo_acquire;
	service->unlock = echo_release;
}

#ifdef HAVE_HIREDIS
static void
redis_do(struct service *service, bool lock)
{
	redis_ask(service->other, lock, service->semaphore);
	while (!redis_answered(service->other))
		;
}

static void
redis_lock(struct service *service)
{
	redis_do(service, true);
}

static void
redis_unlock(struct service *service)
{
	redis_do(service, false);
}

static void
redis_locks_open(struct service *service)
{
	service->other = redis_open(service->where);
	service->lock = redis_lock;
	service->unlock = redis_unlock;
}
#endif

#ifdef HAVE_GRPC
static void
etcd_lock(struct service *service)
{
	etcd_ask(service->other, 0, true, service->semaphore);
	etcd_answered(service->other);
}

static void
etcd_unlock(struct service *service)
{
	etcd_ask(service->other, 0, false, service->semaphore);
	etcd_answered(service->other);
}

static void
etcd_locks_open(struct service *service)
{
	service->other = etcd_open(service->where, 1);
	service->lock = etcd_lock;
	service->unlock = etcd_unlock;
}
#endif

static void
locks_round(struct service *service)
{
	struct side *lock = side_of("%s lock", service->title);
	struct side *unlock = side_of("%s unlock", service->title);
	struct side *pair = side_of("%s pair", service->title);

	for (size_t i = 0; i < service->count; i++) {
		double began = now(), locked, ended;

		service->lock(service);
		locked = now();
		service->unlock(service);
		ended = now();
		side_add(lock, locked - began);
		side_add(unlock, ended - locked);
		side_add(pair, ended - began);
	}
}

/* ---- hand-off: from the release by a holder to the grant of a waiter ---- */

static void
daemon_handoff_open(struct service *service)
{
	service->peers = checked_alloc(2, sizeof(*service->peers));
	peer_open(&service->peers[0], service->where);
	peer_open(&service->peers[1], service->second == NULL ? service->where : service->second);
	peer_create(&service->peers[0], service->semaphore, 1, service->way);
	peer_acquire(&service->peers[0], service->semaphore);
	peer_granted(&service->peers[0]);
}

static void
daemon_handoff_round(struct service *service)
{
	struct peer *holder = &service->peers[0], *waiter = &service->peers[1];
	struct side *side = side_of("%s", service->title);
	char line[LINE_SIZE];

	/* The first one is the holder again at the end of a round. */
	for (size_t i = 0; i < 2 * (service->count / 2); i++) {
		struct peer *swap = holder;
		double began;

		peer_ask(
		    waiter, "acquire", "\"name\":\"%s\",\"progress\":true", service->semaphore);
		peer_until(waiter, "\"waiting\"", line);
		rest(service->rest);
		began = now();
		peer_ask(holder, "release", "\"lock\":\"%s\"", holder->lock);
		peer_granted(waiter);
		side_add(side, now() - began);
		peer_until(holder, "\"result\"", line);
		holder = waiter;
		waiter = swap;
	}
}

/* As daemons have them: links for the holds, and links for hints. */
static void
raw_handoff_open(struct service *service)
{
	for (size_t i = 0; i < 4; i++)
		service->links[i] = link_open(service->where, 1);
	hold_queues_make(service, 1);
	link_consume(service->links[3], service->semaphore, false, false);
}

static void
raw_handoff_round(struct service *service)
{
	struct link *holder = service->links[0], *waiter = service->links[1];
	struct side *side = side_of("%s", service->title);

	for (size_t i = 0; i < service->count; i++) {
		double began;

		raw_lock(service);
		rest(service->rest);
		began = now();
		raw_unlock(service);
		put_text(service->links[2], 1, service->semaphore, "2000", "1");
		link_send(service->links[2]);
		link_delivery(service->links[3]);
		service->links[0] = waiter;
		raw_lock(service);
		side_add(side, now() - began);
		raw_unlock(service);
		service->links[0] = holder;
	}
}

/*
 * The token of seeds/002 goes to the next consumer. A holder that only rejects it gets it again
 * (3.10.8), so that the holder stops consuming in the same flight, and consumes again afterwards.
 */
static void
token_handoff_open(struct service *service)
{
	service->links[0] = link_open(service->where, 1);
	service->links[1] = link_open(service->where, 1);
	put_delete(service->links[0], 1, service->semaphore); /* with the token of an earlier run */
	link_send(service->links[0]);
	link_answers(service->links[0], 1);
	link_consume(service->links[0], service->semaphore, true, true);
	put_text(service->links[0], 1, service->semaphore, NULL, "token");
	link_send(service->links[0]);
	service->other = checked_alloc(1, sizeof(uint64_t));
	*(uint64_t *)service->other = link_delivery(service->links[0]);
	link_consume(service->links[1], service->semaphore, true, true);
}

static void
token_handoff_round(struct service *service)
{
	struct side *side = side_of("%s", service->title);
	uint64_t *tag = service->other;

	for (size_t i = 0; i < service->count; i++) {
		struct link *holder = service->links[0];
		double began;

		rest(service->rest);
		began = now();
		put_drop(holder, 1, BY_CONSUMER, NULL);
		put_reject(holder, 1, *tag);
		link_send(holder);
		*tag = link_delivery(service->links[1]);
		side_add(side, now() - began);
		link_answers(holder, 1);
		link_consume(holder, service->semaphore, true, true);
		service->links[0] = service->links[1];
		service->links[1] = holder;
	}
}

static void
echo_handoff_open(struct service *service)
{
	service->fd = echo_open(RELEASE, GRANT);
}

static void
echo_handoff_round(struct service *service)
{
	struct side *side = side_of("%s", service->title);

	for (size_t i = 0; i < service->count; i++) {
		double began;

		rest(service->rest);
		began = now();
		echo(service->fd, RELEASE, GRANT);
		side_add(side, now() - began);
	}
}

/* A request that the daemon answers by itself. */
static void
ping_open(struct service *service)
{
	service->peers = checked_alloc(1, sizeof(*service->peers));
	peer_open(&service->peers[0], service->where);
}

static void
ping_round(struct service *service)
{
	struct side *side = side_of("%s", service->title);
	char line[LINE_SIZE];

	for (size_t i = 0; i < service->count; i++) {
		double began;

		rest(service->rest);
		began = now();
		peer_ask(&service->peers[0], "ping", "%s", "");
		peer_until(&service->peers[0], "\"result\"", line);
		side_add(side, now() - began);
	}
}

/* ---- try: all slots are busy. free: all but one ---- */

static void
daemon_slots_open(struct service *service)
{
	if (service->second == NULL)
		errx(64, "%s: two sockets are needed", service->title);
	service->peers = checked_alloc(2, sizeof(*service->peers));
	peer_open(&service->peers[0], service->where);
	peer_open(&service->peers[1], service->second);
	peer_create(&service->peers[0], service->semaphore, service->size, service->way);
	service->locks = checked_alloc(service->size, sizeof(*service->locks));
	peer_acquire_many(&service->peers[1], service->semaphore, service->locks, service->size);
}

static double
try_once(struct service *service)
{
	double began = now();
	char line[LINE_SIZE];

	peer_ask(service->peers, "acquire", "\"name\":\"%s\",\"timeout\":0", service->semaphore);
	peer_until(service->peers, "\"would-block\"", line);
	return now() - began;
}

static void
daemon_try_round(struct service *service)
{
	for (size_t i = 0; i < service->count; i++)
		side_add(side_of("%s", service->title), try_once(service));
}

/* The daemon that asks has just found all slots busy, so that it knows of none that is free. */
static void
daemon_free_round(struct service *service)
{
	struct peer *there = &service->peers[1];

	for (size_t i = 0; i < service->count; i++) {
		char *lock = service->locks[(size_t)random() % service->size];
		double began;

		try_once(service);
		peer_release(there, lock);
		began = now();
		daemon_lock(service);
		side_add(side_of("%s", service->title), now() - began);
		daemon_unlock(service);
		peer_acquire(there, service->semaphore);
		peer_granted(there);
		memcpy(lock, there->lock, sizeof(there->lock));
	}
}

/* The broker's part of both: one question for each slot, in one flight. */
static void
raw_slots_open(struct service *service)
{
	raw_locks_open(service);
	service->links[1] = link_open(service->where, 1);
	link_confirms(service->links[1], 1);
	hold_queues_make(service, service->size);
	/* Probes are asked of B, which must be there. */
	if (service->way != BY_CONSUMER) {
		for (size_t slot = 0; slot < service->size; slot++)
			put_exclusive(service->links[0], 1, queue_of(service, slot, 'B'));
		link_send(service->links[0]);
		link_answers(service->links[0], service->size);
	}
}

static void
raw_slots_round(struct service *service)
{
	struct link *link = service->links[1];

	for (size_t i = 0; i < service->count; i++) {
		double began = now();

		for (size_t slot = 0; slot < service->size; slot++)
			(service->way != BY_CONSUMER ? put_probe : put_passive)(
			    link, 1, queue_of(service, slot, 'B'));
		link_send(link);
		if (service->way != BY_CONSUMER)
			link_confirmed(link, service->size);
		else
			link_answers(link, service->size);
		side_add(side_of("%s", service->title), now() - began);
	}
}

/* ---- many holds: of a client that hangs up, and that verifies ---- */

static void
daemon_holds_open(struct service *service)
{
	service->peers = checked_alloc(2, sizeof(*service->peers));
	peer_open(&service->peers[1], service->where);
	peer_create(&service->peers[1], service->semaphore, service->size, service->way);
	service->locks = checked_alloc(service->size, sizeof(*service->locks));
}

static void
take_holds(struct service *service)
{
	peer_open(&service->peers[0], service->where);
	peer_acquire_many(&service->peers[0], service->semaphore, service->locks, service->size);
}

static void
daemon_hangup_round(struct service *service)
{
	struct timespec pause = {.tv_nsec = 100000};
	struct side *side = side_of("%s", service->title);

	for (size_t i = 0; i < service->count; i++) {
		char line[LINE_SIZE];
		double began;

		take_holds(service);
		began = now();
		close(service->peers[0].fd);
		do {
			nanosleep(&pause, NULL);
			peer_ask(&service->peers[1], "info", "%s", "");
			peer_until(&service->peers[1], "\"counts\"", line);
		} while (strstr(line, "\"holds\":0,") == NULL ||
			 strstr(line, "\"in_flight\":0,") == NULL);
		side_add(side, now() - began);
	}
}

static void
raw_holds_open(struct service *service)
{
	service->links[0] = link_open(service->where, (unsigned)service->size);
	hold_queues_make(service, service->size);
}

static void
raw_take_holds(struct service *service)
{
	for (size_t slot = 0; slot < service->size; slot++)
		ask_claim(service, slot, (unsigned)slot + 1);
	link_send(service->links[0]);
	link_answers(service->links[0], 2 * service->size);
}

static void
raw_hangup_round(struct service *service)
{
	struct side *side = side_of("%s", service->title);

	for (size_t i = 0; i < service->count; i++) {
		double began;

		raw_take_holds(service);
		began = now();
		for (size_t slot = 0; slot < service->size; slot++)
			ask_drop(service, slot, (unsigned)slot + 1);
		link_send(service->links[0]);
		link_answers(service->links[0], service->size);
		side_add(side, now() - began);
	}
}

static void
daemon_verify_open(struct service *service)
{
	daemon_holds_open(service);
	take_holds(service);
}

/* A sample is the time of all verifies. */
static void
daemon_verify_round(struct service *service)
{
	double began = now();
	char line[LINE_SIZE];

	for (size_t asked = 0, got = 0; got < service->count; got++) {
		for (; asked < service->count && asked < got + IN_FLIGHT; asked++)
			peer_ask(&service->peers[0], "verify", "\"lock\":\"%s\"",
			    service->locks[asked % service->size]);
		peer_until(&service->peers[0], "\"result\"", line);
	}
	side_add(side_of("%s", service->title), now() - began);
}

static void
raw_verify_open(struct service *service)
{
	raw_holds_open(service);
	raw_take_holds(service);
}

static void
raw_verify_round(struct service *service)
{
	struct link *link = service->links[0];
	double began = now();

	for (size_t asked = 0, got = 0; got < service->count; got++) {
		for (; asked < service->count && asked < got + IN_FLIGHT; asked++) {
			size_t slot = asked % service->size;

			put_passive(link, (unsigned)slot + 1, queue_of(service, slot, 'A'));
			put_passive(link, (unsigned)slot + 1, queue_of(service, slot, 'B'));
		}
		if (link_is_dry(link))
			link_send(link);
		link_answers(link, 1);
		if (link_is_dry(link))
			link_send(link);
		link_answers(link, 1);
	}
	side_add(side_of("%s", service->title), now() - began);
}

/* ---- declares: of so many durable queues, and their deletes ---- */

static void
raw_declares_open(struct service *service)
{
	service->links[0] = link_open(service->where, 1);
}

static void
raw_declares_round(struct service *service)
{
	double began = now();

	for (size_t slot = 0; slot < service->size; slot++)
		put_slot_queue(service->links[0], queue_of(service, slot, 'A'));
	link_send(service->links[0]);
	link_answers(service->links[0], service->size);
	side_add(side_of("%s", service->title), now() - began);
	for (size_t slot = 0; slot < service->size; slot++)
		put_delete(service->links[0], 1, queue_of(service, slot, 'A'));
	link_send(service->links[0]);
	link_answers(service->links[0], service->size);
}

/* ---- */

static const struct method {
	const char *group, *kind;
	void (*open)(struct service *service), (*round)(struct service *service);
} methods[] = {
    {"locks", "daemon", daemon_locks_open, locks_round},
    {"locks", "raw", raw_locks_open, locks_round},
    {"locks", "seeds", seeds_locks_open, locks_round},
    {"locks", "echo", echo_locks_open, locks_round},
    {"handoff", "daemon", daemon_handoff_open, daemon_handoff_round},
    {"handoff", "raw", raw_handoff_open, raw_handoff_round},
    {"handoff", "token", token_handoff_open, token_handoff_round},
    {"handoff", "echo", echo_handoff_open, echo_handoff_round},
    {"handoff", "ping", ping_open, ping_round},
    {"try", "daemon", daemon_slots_open, daemon_try_round},
    {"try", "raw", raw_slots_open, raw_slots_round},
    {"try", "echo", echo_handoff_open, echo_handoff_round},
    {"free", "daemon", daemon_slots_open, daemon_free_round},
    {"free", "raw", raw_slots_open, raw_slots_round},
    {"hangup", "daemon", daemon_holds_open, daemon_hangup_round},
    {"hangup", "raw", raw_holds_open, raw_hangup_round},
    {"verify", "daemon", daemon_verify_open, daemon_verify_round},
    {"verify", "raw", raw_verify_open, raw_verify_round},
    {"clients", "daemon", daemon_clients_open, daemon_clients_round},
    {"clients", "raw", raw_clients_open, raw_clients_round},
    {"locks", "beads", beads_locks_open, locks_round},
    {"handoff", "beads", beads_handoff_open, beads_handoff_round},
    {"clients", "beads", beads_clients_open, beads_clients_round},
    {"declares", "raw", raw_declares_open, raw_declares_round},
#ifdef HAVE_HIREDIS
    {"locks", "redis", redis_locks_open, locks_round},
    {"clients", "redis", redis_clients_open, redis_clients_round},
#endif
#ifdef HAVE_GRPC
    {"locks", "etcd", etcd_locks_open, locks_round},
    {"clients", "etcd", etcd_clients_open, etcd_clients_round},
#endif
};

#define METHODS (sizeof(methods) / sizeof(*methods))

static const struct method *
method_of(const char *group, const char *kind)
{
	for (size_t i = 0; i < METHODS; i++)
		if (strcmp(methods[i].group, group) == 0 && strcmp(methods[i].kind, kind) == 0)
			return &methods[i];
	errx(64, "%s %s: unknown, or built without its library", group, kind);
}

/* A name ends in the way: "consumer", "memory-consumer". */
static enum way
way_of(const char *name)
{
	const char *end = strrchr(name, '-');

	end = end == NULL ? name : end + 1;
	return strcmp(end, "consumer") == 0 ? BY_CONSUMER
	       : strcmp(end, "queue") == 0  ? BY_QUEUE
	       : strcmp(end, "quorum") == 0 ? BY_QUORUM
					    : BY_DEFAULT;
}

static void
service_open(struct service *service, const char *group, char *word)
{
	service->where = word;
	strsep((char **)&service->where, "=");
	snprintf(service->title, sizeof(service->title), "%s", word);
	service->second = service->where;
	if (service->second != NULL)
		strsep((char **)&service->second, ",");
	service->name = word;
	service->kind = strsep((char **)&service->name, ":");
	service->way = way_of(service->name == NULL ? "" : service->name);
	snprintf(service->semaphore, sizeof(service->semaphore), "%s/%zu/%s/%s", group,
	    service->size, service->kind, service->name == NULL ? "" : service->name);
	service->method = method_of(group, service->kind);
	service->method->open(service);
}

static void
stay_on_cpu(int number)
{
	cpu_set_t cpu;

	CPU_ZERO(&cpu);
	CPU_SET(number, &cpu);
	if (sched_setaffinity(0, sizeof(cpu), &cpu) != 0)
		err(1, "sched_setaffinity");
}

static void
measure(char *argv[])
{
	struct service services[16] = {0};
	size_t rounds = (size_t)atoi(argv[1]), opened = 0;
	unsigned rest_ms = 0;

	for (char **word = argv + 4; *word != NULL; word++) {
		if (strncmp(*word, "rest=", 5) == 0)
			rest_ms = (unsigned)atoi(*word + 5);
		else if (strncmp(*word, "cpu=", 4) == 0)
			stay_on_cpu(atoi(*word + 4));
		else if (opened == sizeof(services) / sizeof(*services))
			errx(64, "too many services");
		else {
			services[opened].count = (size_t)atoi(argv[2]);
			services[opened].size = (size_t)atoi(argv[3]);
			services[opened].rest = rest_ms;
			service_open(&services[opened++], argv[0], *word);
		}
	}
	for (size_t round = 1; round <= rounds; round++) {
		/* Each of them is the first one at times: the others find a warm broker. */
		for (size_t i = 0; i < opened; i++) {
			struct service *service = &services[(round - 1 + i) % opened];

			service->method->round(service);
		}
		print_round(round);
	}
	print_all();
}

static void
crowd(const char *path, size_t holds, size_t idle, size_t waiters)
{
	struct peer peer, *waiting = NULL;
	char name[64], line[LINE_SIZE];
	static char locks[HOLDS_MOST][64];

	for (size_t i = 0; i < holds; i += HOLDS_MOST) {
		size_t slots = holds - i < HOLDS_MOST ? holds - i : HOLDS_MOST;

		snprintf(name, sizeof(name), "crowd/%d/%zu", (int)getpid(), i);
		peer_open(&peer, path);
		peer_create(&peer, name, slots, BY_DEFAULT);
		peer_acquire_many(&peer, name, locks, slots);
	}
	for (size_t i = 0; i < idle; i++)
		peer_open(&peer, path);
	snprintf(name, sizeof(name), "crowd/%d", (int)getpid());
	for (size_t i = 0; i < waiters; i++) {
		if (i == 0) {
			peer_open(&peer, path);
			peer_create(&peer, name, 1, BY_DEFAULT);
			peer_acquire(&peer, name);
			peer_granted(&peer);
		}
		if (i % HOLDS_MOST == 0) {
			waiting = checked_alloc(1, sizeof(*waiting));
			peer_open(waiting, path);
		}
		peer_ask(waiting, "acquire", "\"name\":\"%s\",\"progress\":true", name);
		peer_until(waiting, "\"waiting\"", line);
	}
	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, line, sizeof(line)) > 0)
		;
}

int
main(int argc, char *argv[])
{
	struct rlimit files;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	if (argc == 4 && strcmp(argv[1], "proxy") == 0)
		proxy_run(argv[2], (unsigned)atoi(argv[3]));
	if (argc == 6 && strcmp(argv[1], "crowd") == 0) {
		crowd(argv[2], (size_t)atoi(argv[3]), (size_t)atoi(argv[4]), (size_t)atoi(argv[5]));
		return 0;
	}
	if (argc == 6 && strcmp(argv[1], "beads") == 0) {
		beads_renew(argv[2], argv[3], (size_t)atoi(argv[4]), (unsigned)atoi(argv[5]));
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], "services") == 0) {
		for (size_t i = 0; i < METHODS; i++)
			printf("%s %s\n", methods[i].group, methods[i].kind);
		return 0;
	}
	if (argc < 6)
		errx(64, "usage: load GROUP ROUNDS COUNT SIZE [rest=MS] [cpu=N] SERVICE...");
	alarm(PATIENCE); /* a hang ends by itself */
	measure(argv + 1);
	return 0;
}
