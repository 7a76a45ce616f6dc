/*
 * The parts of the load generator (load.c). A program error or a refused request ends the program:
 * a figure is printed only if all that belongs to it succeeded.
 */
#ifndef TESTS_BENCH_BENCH_H
#define TESTS_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- samples.c: time, and the latencies of one thing that is measured ---- */

struct side;

double now(void); /* seconds */
void rest(unsigned ms);
/* Seconds of processor time that a process has used. */
double cpu_of(pid_t pid);
void *checked_alloc(size_t count, size_t size);
/* The side of that name, which is made at its first use. */
struct side *side_of(const char *format, ...) __attribute__((format(printf, 1, 2)));
size_t side_count(const struct side *side);
void side_add(struct side *side, double seconds);
/* The wall time of the round. Without it a round took as long as its samples together. */
void side_span(struct side *side, double seconds);
/* Prints each side's samples of the round, and of all rounds. */
void print_round(size_t round);
void print_all(void);

/* How slots are held. BY_DEFAULT: as the daemon's setting says. */
enum way { BY_DEFAULT, BY_QUEUE, BY_CONSUMER, BY_QUORUM };

/* ---- peer.c: clients of a daemon, and echoes ---- */

#define LINE_SIZE 8192

struct peer {
	int fd;
	char rest[2 * LINE_SIZE]; /* read and not used */
	size_t len;
	unsigned asked; /* the id of the last request */
	char lock[64];
};

void peer_open(struct peer *peer, const char *path);
pid_t peer_pid(const struct peer *peer);
void peer_ask(struct peer *peer, const char *method, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The next line that is there already, without its end. */
bool peer_next(struct peer *peer, char ret_line[LINE_SIZE]);
/* Reads what has come. */
void peer_read(struct peer *peer);
/* Waits for a line with this text, and skips those before it. An error ends the program. */
void peer_until(struct peer *peer, const char *text, char ret_line[LINE_SIZE]);
/* Copies the id of the lock that a line grants. */
void lock_of(const char *line, char ret_lock[64]);
/* Fails if the semaphore exists and is held in another way. */
void peer_create(struct peer *peer, const char *name, size_t slots, enum way way);
/* The same in two steps, for many at once. */
void peer_create_ask(struct peer *peer, const char *name, size_t slots, enum way way);
void peer_created(struct peer *peer);
void peer_acquire(struct peer *peer, const char *name);
void peer_granted(struct peer *peer);
void peer_release(struct peer *peer, const char *lock);
/* Acquires or releases many, some at a time. */
void peer_acquire_many(struct peer *peer, const char *name, char (*ret_locks)[64], size_t count);

/* A process that answers each message of `asked` bytes with `answered` bytes. */
int echo_open(size_t asked, size_t answered);
void echo(int fd, size_t asked, size_t answered);

/* ---- amqp.c: RabbitMQ without a daemon ---- */

struct link;

/* A connection with channels 1 to `channels`. */
struct link *link_open(const char *url, unsigned channels);
/* These put a request into the flight that link_send() sends with one write(). */
void put_slot_queue(struct link *link, const char *queue);
void put_holder_queue(struct link *link, const char *queue);
void put_delete(struct link *link, unsigned channel, const char *queue);
void put_passive(struct link *link, unsigned channel, const char *queue);
void put_exclusive(struct link *link, unsigned channel, const char *queue);
void put_claim(struct link *link, unsigned channel, enum way way, const char *b, const char *a);
void put_drop(struct link *link, unsigned channel, enum way way, const char *b);
void put_probe(struct link *link, unsigned channel, const char *queue);
void put_text(struct link *link, unsigned channel, const char *queue, const char *expiration,
    const char *text);
void put_reject(struct link *link, unsigned channel, uint64_t tag);
/* Opens the channel, which is not open, and consumes from a slot by quorum. */
void put_attach(struct link *link, unsigned channel, const char *queue);
/* Closes it. The answer is skipped when it comes. */
void put_close(struct link *link, unsigned channel);
void link_send(struct link *link);
void link_confirms(struct link *link, unsigned channel);
/* Consumes with acknowledgements and prefetch 1, or without. The queue is made if it is missing. */
void link_consume(struct link *link, const char *queue, bool acks, bool durable);
/* Reads this many answers, and fails at a refusal. Returns the channel of the last one. */
unsigned link_answers(struct link *link, size_t count);
/* Reads until this many probes are confirmed, and returns how many were returned. */
size_t link_confirmed(struct link *link, size_t count);
/* Reads a message, and returns its delivery tag. */
uint64_t link_delivery(struct link *link);
/* The same. Also its channel, and how often the message was rejected or returned. Sends the flight first. */
struct delivery {
	unsigned channel;
	uint64_t tag, count;
};
struct delivery link_deliver(struct link *link);
int link_fd(const struct link *link);
/* No answer is there that link_answers() could read without waiting for the network. */
bool link_is_dry(struct link *link);

/* ---- others.c: Redis and etcd, under HAVE_HIREDIS and HAVE_GRPC of config.h ---- */

struct redis;
struct etcd;

struct redis *redis_open(const char *port);
int redis_fd(const struct redis *redis);
void redis_ask(struct redis *redis, bool lock, const char *name);
/* Reads what has come. False: it is no whole answer. */
bool redis_answered(struct redis *redis);

/* A connection that has room for this many calls at once. */
struct etcd *etcd_open(const char *port, size_t calls);
void etcd_ask(struct etcd *etcd, size_t call, bool lock, const char *name);
/* Waits until a call is answered, and returns which. */
size_t etcd_answered(struct etcd *etcd);

/* ---- load.c: one of the things that are measured ---- */

struct service {
	char title[32];
	const char *kind, *name, *where, *second;
	size_t count, size;
	unsigned rest;
	const struct method *method;
	void (*lock)(struct service *service), (*unlock)(struct service *service);
	enum way way;
	char semaphore[96]; /* its name at the daemon; the queues of kind raw begin with it */
	struct peer *peers;
	struct link *links[4];
	char (*locks)[64];
	void *other;
	int fd;
};

/* The queue of a slot or of its holder: 'A' or 'B'. A few of them can be used at once. */
const char *queue_of(const struct service *service, size_t slot, char which);
/* The name of a client's lock. Valid until the next one. */
const char *nth_name(const struct service *service, size_t i);
/* Declares the slot queues, and their holder queues if consumers hold them. */
void hold_queues_make(struct service *service, size_t slots);
/* These put the claim and the release of a slot into a flight. */
void ask_claim(struct service *service, size_t slot, unsigned channel);
void ask_drop(struct service *service, size_t slot, unsigned channel);

/* ---- clients.c: so many clients at once, each with a lock of its own ---- */

struct cycle {
	double began;
	bool held;
};

struct cycles {
	struct side *side;
	struct cycle *cycles;
	double began, until;
	size_t running;
};

struct cycles cycles_begin(struct service *service);
/* After an answer. True: the client's next request is due, a lock or an unlock. */
bool cycle_goes_on(struct cycles *cycles, size_t client);
void cycles_end(struct cycles *cycles);

/* Makes the semaphore of each client. */
void names_make(struct peer *peer, const struct service *service);
void daemon_clients_open(struct service *service);
void daemon_clients_round(struct service *service);
void raw_clients_open(struct service *service);
void raw_clients_round(struct service *service);
void redis_clients_open(struct service *service);
void redis_clients_round(struct service *service);
void etcd_clients_open(struct service *service);
void etcd_clients_round(struct service *service);

/* ---- quorum.c: slots that are held by quorum, without a daemon. A daemon has made them ---- */

void beads_locks_open(struct service *service);
void beads_handoff_open(struct service *service);
void beads_handoff_round(struct service *service);
void beads_clients_open(struct service *service);
void beads_clients_round(struct service *service);
/* Holds the slots of a semaphore until its input ends, and renews each every `ms`. Prints "ready". */
void beads_renew(const char *url, const char *semaphore, size_t holds, unsigned ms);

/* ---- proxy.c ---- */

/* Passes on all bytes to a port of this host, `ms` late. Prints its own port, and never returns. */
void proxy_run(const char *port, unsigned ms) __attribute__((noreturn));

#endif
