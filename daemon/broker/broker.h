/*
 * The interface between the lock engine and the broker. The engine makes requests in terms of the
 * lock scheme (claim, check, drop, probe), and never in frames. Each answer comes by callback, so
 * the engine depends on nothing but these answers and a clock. broker.c implements the interface
 * over AMQP links, to RabbitMQ or to the server in memory (setup.h). It knows no clients, no
 * waiters and no leases.
 *
 * The broker keeps two links (AMQP connections). The lock connection carries the holder queues (B),
 * and nothing that could harm them. The auxiliary connection carries everything else. It is opened
 * when it is needed, and may die at any time.
 *
 * Rules:
 * - A callback comes from the event loop, never from inside the call that asked for it.
 * - Each request is answered exactly once. Requests on one channel are performed and answered in
 *   order. Across channels there is no order.
 * - A failed request can close its channel (404, 405, 403 and others). The broker did not perform
 *   the requests behind it on that channel, which are answered BROKER_SKIPPED. Then the
 *   channel_closed event comes, unless the channel was put back meanwhile.
 * - Silence is not an answer. Only probes have a deadline here. The caller keeps the deadlines of
 *   all other requests.
 * - When a link dies, its state is set first. Then its unanswered requests are answered
 *   BROKER_UNKNOWN, in the order in which they were sent. Then the link event comes. The channels
 *   of the link are gone, without events of their own. No request outlives its link.
 */
#ifndef BROKER_BROKER_H
#define BROKER_BROKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/clock.h"
#include "daemon/base/histogram.h"

enum broker_link {
	BROKER_LOCKS,     /* claim, check, drop. It never publishes or administers */
	BROKER_AUXILIARY, /* everything else; its end costs no hold */
	/*
	 * The first of the connections of holds by quorum. The others have the numbers behind it.
	 * RabbitMQ can end such a connection for one claim. So there are several, without other holds.
	 */
	BROKER_QUORUM
};
/* The maximum number of connections of holds by quorum. */
#define BROKER_QUORUM_MOST 8
#define BROKER_LINKS (BROKER_QUORUM + BROKER_QUORUM_MOST)

enum broker_state {
	BROKER_DOWN, /* connecting; an auxiliary connection that is not needed is down, too */
	BROKER_UP,
	/* login refused in words (user, vhost or permission); the daemon keeps trying */
	BROKER_LOGIN_REFUSED
};

/* "down", "up" or "refused". Static. */
const char *broker_state_word(enum broker_state state);

/* How a slot is held. The slot decides: a durable B is held by a consumer. */
enum broker_way {
	BROKER_BY_QUEUE,    /* B is an exclusive queue, which exists while it is held */
	BROKER_BY_CONSUMER, /* B is a durable queue, and the holder is its exclusive consumer */
	/* the same, of a true mutex: the claim declares B, which ends a minute after its last use */
	BROKER_BY_MUTEX_CONSUMER,
	/* B is a quorum queue, and the holder is its active consumer, by the rules of beads.h */
	BROKER_BY_QUORUM
};

/* How long such a B of a mutex exists after its last use. */
#define BROKER_MUTEX_EXPIRES (60 * NSEC_PER_SEC)
/* The same of a mutex by quorum, and of its post after the last declare. The post must outlive B. */
#define BROKER_QUORUM_MUTEX_EXPIRES (3600 * NSEC_PER_SEC)
#define BROKER_POST_EXPIRES (2 * BROKER_QUORUM_MUTEX_EXPIRES)

enum broker_answer {
	BROKER_OK,     /* declared and ours, present, or deleted */
	BROKER_ABSENT, /* 404: no such queue; or a mandatory publish returned */
	/*
	 * 405: another connection has this exclusive queue; 403: another channel consumes it. Also
	 * a consumer of a queue that should be this connection's exclusive one.
	 */
	BROKER_LOCKED,
	/*
	 * 404 in other words: the node of this durable queue is down, or does not answer. Or a quorum
	 * queue takes no message. The queue may exist, and may be held. No slot was changed.
	 */
	BROKER_UNREACHABLE,
	/* another error closed the channel (403, 406 and others): see code and text */
	BROKER_REFUSED,
	BROKER_SKIPPED, /* not performed: the channel was closed before */
	/* perhaps performed: the link died, the broker sent a nack, or no answer came */
	BROKER_UNKNOWN
};

/* The state of the messages of a slot by quorum. */
enum broker_beads_found {
	BROKER_BEADS_SOUND,  /* a complete set */
	BROKER_BEADS_BESIDE, /* the same, and older beads, which the next claim removes */
	BROKER_BEADS_NONE,   /* none */
	BROKER_BEADS_PART,   /* no complete set */
	BROKER_BEADS_ODD, /* a bead twice, or beads beside a complete set that no claim removes */
	BROKER_BEADS_TWO_SETS, /* two complete sets of one epoch */
	BROKER_BEADS_VERSION   /* a complete set of another major version of the server */
};

struct broker_beads_seen {
	enum broker_beads_found found;
	unsigned beads, foreign; /* numbers of messages; foreign: of others, without marks */
	unsigned major;          /* of the newest complete set; 0: there is none */
	uint64_t epoch;          /* the largest; 0: there are no beads */
	int64_t grace;           /* the largest T, ns */
};

/* The reply-code of a declare that is REFUSED because the queue exists with other arguments. */
#define BROKER_DIFFERS 406

struct broker_reply {
	enum broker_answer answer;
	bool channel_open; /* false: the channel is gone */
	int64_t sent_at;   /* clock time (ns) just before the request was handed to the link */
	int code;          /* AMQP reply-code of the failure, as BROKER_DIFFERS; 0 = none */
	const char *text;  /* the broker's words, or ""; borrowed for the callback */
	/* By quorum: of a claim and a check that are OK. 0: there is none. */
	uint64_t fence; /* the fencing number */
	int64_t grace;  /* T, ns; the lease is bead_lease() of it */
	bool proved;    /* of a drop: the next holder need not wait for T */
	bool removed;   /* of a claim and a delete that are LOCKED: nobody else will get the slot */
	bool elsewhere; /* it came on another connection than the lock connection */
	/* Of a look at the beads that is OK; else NULL. Borrowed for the callback */
	const struct broker_beads_seen *beads;
};

/* The callback of a request. id: of the caller's object, which may be gone by then. */
struct broker_done {
	void (*fn)(void *ctx, uint64_t id, const struct broker_reply *reply);
	void *ctx;
	uint64_t id;
};

/* The kinds of questions that a probe asks about a queue. */
enum broker_question_kind {
	BROKER_ASK_EXISTENCE, /* OK, ABSENT or UNKNOWN */
	/*
	 * Of a slot queue (A), also UNREACHABLE. Servers that hide queues (broker_info) say ABSENT
	 * of an A whose node is down. The first A of a probe that looks absent decides where the
	 * slots end. That one is asked for again, by a passive declare.
	 */
	BROKER_ASK_SLOT,
	/*
	 * The same of a marker: it is asked for again with that A. If a marker of the probe exists,
	 * nothing is asked for again.
	 */
	BROKER_ASK_MARKER,
	/* Of a B: OK (it is held), ABSENT (it is not, whether it exists or not), UNREACHABLE, UNKNOWN */
	BROKER_ASK_HOLDER,
	/* the same of a B that is probably durable: one round trip instead of two */
	BROKER_ASK_CONSUMER,
	/*
	 * Of the B of a slot by quorum. It proves nothing: a claim decides.
	 * - OK: it is perhaps free.
	 * - LOCKED: it is held.
	 * - UNREACHABLE: no node leads the queue, or not all beads are there.
	 * - ABSENT: there is no such queue.
	 * - UNKNOWN.
	 */
	BROKER_ASK_BEADS
};

struct broker_question {
	const char *queue; /* borrowed for the call */
	enum broker_question_kind kind;
};

/* The answers to the questions of a probe, in their order. Borrowed for the callback. */
struct broker_seen {
	const enum broker_answer *answers;
	const enum broker_way *ways; /* of a B: how it is held, as far as it is known */
	size_t count;
};

struct broker_probe_done {
	void (*fn)(void *ctx, uint64_t id, const struct broker_seen *seen);
	void *ctx;
	uint64_t id;
};

/*
 * reply->answer: OK, REFUSED or UNREACHABLE (nothing was done), or UNKNOWN. reply->channel_open has
 * no meaning here. names: those read, entered or removed; none unless OK. All are borrowed.
 */
struct broker_names_done {
	void (*fn)(void *ctx, uint64_t id, const struct broker_reply *reply,
	    const char *const *names, size_t count);
	void *ctx;
	uint64_t id;
};

/* consumers: of the queue, those of this daemon included. -1: not known. */
struct broker_count_done {
	void (*fn)(void *ctx, uint64_t id, int consumers);
	void *ctx;
	uint64_t id;
};

/* News about a watched queue. They are hints: the engine checks the queue itself. */
enum broker_news {
	BROKER_WATCHED, /* from now on a deletion is reported; it may have happened before */
	BROKER_HINT,    /* the queue may be deleted (basic.cancel, or 404); the watch is over */
	/* the auxiliary connection ended: no deletion is reported until the next BROKER_WATCHED */
	BROKER_UNWATCHED
};

/* News about a wait queue; see broker_wait_queue_join(). */
enum broker_wait_queue_news {
	/* from now on hints come; another daemon may have got earlier ones */
	BROKER_WAIT_QUEUE_JOINED,
	BROKER_WAIT_QUEUE_HINT, /* `slot` may be free: scan */
	/* no hints come until the next JOINED: the link ended, or the broker ended the consumer */
	BROKER_WAIT_QUEUE_LEFT,
	/* for the sender of a hint, joined or not: no such wait queue, so no client waits */
	BROKER_WAIT_QUEUE_NOBODY
};

struct broker_wait_queue_event {
	const char *queue; /* borrowed */
	int priority;
	enum broker_wait_queue_news news;
	int slot; /* HINT, NOBODY: from 1; 0 = no particular slot */
};

/* A daemon message: a query or a reply; see broker_ask(). */
struct broker_message {
	uint64_t from;  /* in `asked`: for broker_reply_to(), valid for BROKER_MESSAGE_TTL */
	uint64_t asked; /* in `replied`: the number that broker_ask() returned */
	/* Borrowed, NUL-terminated, at most BROKER_MESSAGE_MAX bytes. UTF-8 is not checked. */
	const char *text;
	size_t len;
	/* the sender's user at the broker, verified by the broker; "": not known */
	const char *user;
};

struct broker_events {
	void (*link)(void *ctx, enum broker_link link, enum broker_state state, const char *why);
	/* The broker closed a channel that is in use, by itself or for a failed request. */
	void (*channel_closed)(void *ctx, uint64_t channel, int code, const char *text);
	/*
	 * The broker ended the consumer of a claim: its B was deleted, or the node of B went down.
	 * Never before the answer to the claim, and never after the answer to its drop.
	 */
	void (*cancelled)(void *ctx, uint64_t channel);
	/*
	 * By quorum: the last hold of the claimed slot did not end cleanly. The claim is answered
	 * after `until` (clock time). Perhaps again, with a later time. False: the claim ends, with
	 * LOCKED.
	 */
	bool (*unclean)(void *ctx, uint64_t channel, int64_t until);
	/* A slot by quorum whose last hold here did not end cleanly is free, and clean. The name is borrowed. */
	void (*reclaimed)(void *ctx, const char *queue);
	/*
	 * By quorum: the channel of the hold ended. The broker layer claims the slot anew, and checks are answered
	 * when that is proved. If it is not proved before the lease ends, channel_closed comes.
	 */
	void (*suspended)(void *ctx, uint64_t channel);
	/* By quorum: an administrator removes the slot that is held here. */
	void (*removed)(void *ctx, uint64_t channel);
	/*
	 * The records are not locked any more (broker_records_open()). A write in flight was answered
	 * UNKNOWN before.
	 */
	void (*records_lost)(void *ctx, uint64_t id, const char *why);
	/* About a watched queue. The name is borrowed. */
	void (*watch)(void *ctx, const char *queue, enum broker_news news);
	/* NULL: the caller joins no wait queue. */
	void (*wait_queue)(void *ctx, const struct broker_wait_queue_event *event);
	/* A query of another daemon, or a reply. NULL: ignored. */
	void (*asked)(void *ctx, const struct broker_message *message);
	void (*replied)(void *ctx, const struct broker_message *message);
	void *ctx;
};

/* The present state of the broker. Strings are borrowed, and "" while unknown. */
struct broker_info {
	enum broker_state locks, auxiliary;
	const char *probes_refused; /* the broker's words if it refuses probes, else "" */
	bool auxiliary_blocked;     /* an alarm: the broker sent connection.blocked */
	const char *why;            /* why the lock connection is not up, in words */
	const char *host;           /* host:port of the links */
	size_t host_number;         /* the same: its place in the configuration, from 0 */
	const char *product, *version, *cluster;
	int heartbeat;     /* seconds, negotiated */
	int64_t last_read; /* clock time of the last byte of the lock connection; 0: not known */
	unsigned channels, channels_max; /* of the lock connection: open now, and the limit */
	bool persistent;                 /* false: the server in memory */
	bool handover; /* a successor can take over the lock connection: it is not over TLS */
	/* The server may delete a new B by name (RabbitMQ before 4.1.8 and 4.2.3, issue #15276). */
	bool deletes_by_name;
	/* The server says of a durable queue whose node is down that it does not exist (before 3.11). */
	bool hides_queues;
	/* Exclusive queues are for one connection alone, as tested; false: not tested yet, or not possible */
	bool exclusion_tested;
	const char *exclusion_why; /* the reason if not tested, else "" */
	/* The broker was reached, and must not be used, for the reason in `why`. */
	bool unfit;
};

/* Of one connection, since the start. */
struct broker_traffic {
	uint64_t reconnects; /* it came up again after it had ended unexpectedly */
	/*
	 * Times from the sending of a request, or a probe, to its answer (histogram_round_trips).
	 * Without requests that the broker did not answer.
	 */
	struct histogram round_trips;
};

/* The connections of holds by quorum, and their graces. */
struct broker_quorum_info {
	unsigned connections;
	struct {
		enum broker_state state;
		size_t holds;
		uint64_t reconnects; /* as in broker_traffic */
		const char *version; /* of its server; "" unless it is up; borrowed */
		size_t host_number;  /* while it is up: in the list of hosts */
	} connection[BROKER_QUORUM_MOST];
	size_t graces;      /* claims that wait for the end of a grace */
	uint64_t reclaimed; /* since the start: unclean ends after which nobody had to wait for T */
};

struct broker; /* made by setup.h */

/* Before broker_start(). There is one listener: the lock engine. */
void broker_set_events(struct broker *broker, const struct broker_events *events);
/* Connects the lock connection, and keeps it connected until broker_stop(). */
void broker_start(struct broker *broker);
/* The event loop calls it at the end of each pass: all requests of the pass are sent. */
void broker_flush(struct broker *broker);
/* Closes both links for good. No answer and no event comes after that. */
void broker_stop(struct broker *broker);
void broker_free(struct broker *broker); /* stops it first; NULL is fine */
/*
 * Closes a link as if it had died for that reason, and connects again. The answers and the event of
 * a dead link come from the event loop. A link that is not up is left alone.
 */
void broker_reset(struct broker *broker, enum broker_link link, const char *why);
void broker_get_info(const struct broker *broker, struct broker_info *ret);
/* Parts of it that are read often. */
int broker_heartbeat(const struct broker *broker);
bool broker_auxiliary_is_up(const struct broker *broker);
/* Whether the auxiliary connection is up, and no alarm holds its messages up. */
bool broker_takes_messages(const struct broker *broker);
/* Whether the lock connection was up, or tried each host of the configuration. */
bool broker_tried_all(const struct broker *broker);
void broker_get_quorum(const struct broker *broker, struct broker_quorum_info *ret);
void broker_get_traffic(
    const struct broker *broker, enum broker_link link, struct broker_traffic *ret);

/* The maximum number of queues in one probe. */
#define BROKER_PROBE_MAX 1024

/*
 * Returns the id of a channel of a link: an idle one, or a new one. An id is never used twice.
 * Returns 0 if the lock connection is not up or has no channel left. A channel of the auxiliary
 * connection is always available, and the connection is brought up for it. Requests are sent when
 * it is up. If that does not happen in time, they are answered BROKER_UNKNOWN.
 */
uint64_t broker_channel_take(struct broker *broker, enum broker_link link);
/* The same for a claim in that way, on the connection of its holds. */
uint64_t broker_channel_take_for(struct broker *broker, enum broker_way way);
/*
 * Gives a channel back. No request may be unanswered on it, and its claim by consumer must have
 * ended. An id that is gone is ignored.
 */
void broker_channel_put(struct broker *broker, uint64_t channel);

/*
 * Requests on a channel. Those of one pass of the event loop go out in one flush. On a channel that
 * is gone the answer is BROKER_SKIPPED. If its link died, the answer is BROKER_UNKNOWN.
 */

/*
 * Claims B.
 * - BY_QUEUE: queue.declare, exclusive. OK: ours, now or already (RabbitMQ answers both alike).
 *   LOCKED: another connection has it, or B is a durable queue.
 * - BY_CONSUMER: basic.consume, exclusive. OK: this channel is its only consumer. LOCKED: another
 *   channel, also of this connection, or an exclusive queue of another connection. ABSENT: no such
 *   queue. One consumer per channel. The end of the channel, for whatever cause, frees B.
 * - BY_QUORUM: basic.consume, and the rules of beads.h. OK: this channel is the active consumer, and has
 *   proved it. LOCKED: another channel has the beads, or may have them. ABSENT: no such queue.
 *   SKIPPED: the connection ended. REFUSED: a permission is missing, or fsck is needed. Each answer but OK
 *   closes the channel, and nothing is held. The channel is for this claim alone.
 * - BY_MUTEX_CONSUMER: queue.declare, then as BY_CONSUMER. Never ABSENT. REFUSED (406): a B with
 *   other arguments exists.
 * If a request behind a claim by consumer fails, the claim is answered SKIPPED (RabbitMQ 3.10.8,
 * 4.0.5 and 4.3.6) or OK. It is undone in both cases, as the channel is closed.
 */
void broker_claim(struct broker *broker, uint64_t channel, enum broker_way way, const char *queue,
    struct broker_done done);
/* queue.declare, passive. OK, ABSENT, LOCKED (exclusive to another connection), UNREACHABLE. */
void broker_check(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_done done);
/*
 * Whether a claimed B is still held, by queue.declare, passive. The answer comes from B's own node.
 * - By queue: LOCKED also if B cannot be reached, or is durable and has a consumer. The channel is
 *   closed then. A durable B without a consumer cannot be told from an exclusive one: OK.
 * - By consumer: ABSENT with channel_open if B exists and nobody consumes from it.
 * - By quorum: OK when a message sent back after this request came again. SKIPPED: the hold ended, and
 *   channel_closed tells why.
 */
void broker_check_holder(struct broker *broker, uint64_t channel, enum broker_way way,
    const char *queue, struct broker_done done);
/*
 * Frees a claimed B. By queue: queue.delete, answered after delete-ok; also OK if the queue does
 * not exist. LOCKED: B is another's, or durable and in use or at a node that is down. UNREACHABLE:
 * B exists, and may be ours. By consumer: basic.cancel, answered after cancel-ok, also OK if the
 * consumer ended before. Not while the claim is unanswered: RabbitMQ 3.10 would end the link. By quorum:
 * the channel is closed; OK with `proved`, if the holder has stopped and the broker confirms it.
 * stopped: the holder uses the slot no more.
 */
void broker_drop(struct broker *broker, uint64_t channel, enum broker_way way, const char *queue,
    bool stopped, struct broker_done done);
/*
 * By quorum: the holder of that channel uses the slot no more. Its hold was dropped before with `stopped` false, or
 * its channel closed. The broker tries to make the slot clean, so that the next holder need not wait for T.
 */
void broker_holder_stopped(struct broker *broker, uint64_t channel);
/* The number of such attempts that are not over. Those that have failed once do not count. */
size_t broker_reclaims(const struct broker *broker);
/*
 * Administration, on channels of the auxiliary connection only. Declares a slot queue (A): durable,
 * x-max-length 0. A queue that exists with other arguments is used as it is. The answer is then OK,
 * with code 406 and the broker's words, and the channel is closed (channel_open).
 */
void broker_declare_slot(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_done done);
/*
 * Declares a marker in the same way: a durable classic queue, x-max-length 0. It is classic even if
 * the vhost's default type is another.
 */
void broker_declare_marker(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_done done);
/*
 * Declares the durable B of a slot that is held by consumers: classic, x-max-length 0, x-overflow
 * reject-publish, no expiry. OK as for a slot. LOCKED: B is an exclusive queue of another
 * connection.
 */
void broker_declare_holder(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_done done);
/*
 * Declares the post of a mutex by quorum, at the name of a B of the other ways: a claim there is refused. The post
 * is durable and classic, with a single active consumer, and BROKER_POST_EXPIRES. OK: it stands, and its time
 * begins again. LOCKED and REFUSED with BROKER_DIFFERS: the mutex is held in another way, or was.
 */
void broker_declare_post(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_done done);
/* Deletes a slot queue or a marker. Also OK if it does not exist. */
void broker_delete_slot(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_done done);
/*
 * Deletes a durable B that nobody holds: queue.declare, passive, and queue.delete with if-unused and
 * if-empty, in one flush. In a partition, the other side would delete a B that has a consumer, in
 * spite of if-unused. The passive declare prevents that: B's own node answers it. If that node
 * cannot be reached, the declare is refused and closes the channel, so that the delete is not
 * performed. If the node is lost between the two, if-empty makes RabbitMQ refuse.
 * Answers: OK (deleted), ABSENT, LOCKED (it is held, in either way), UNREACHABLE (also if B has
 * messages, which RabbitMQ says in the same words). If the name is so long that RabbitMQ cuts its
 * words, LOCKED stands for both. REFUSED: the permission is missing. SKIPPED and UNKNOWN as of every
 * request: it is not performed, or perhaps.
 */
void broker_delete_holder(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_done done);

/* A set of beads (beads.h). */
struct broker_beads {
	uint64_t epoch;
	int64_t grace; /* T, ns */
	/* ns for which holders of earlier sets of that name may believe in their holds; 0: there were none */
	int64_t wait;
	/*
	 * The set takes the place of beads that no claim could use. It waits before it is published. If a
	 * bead has as large an epoch: LOCKED.
	 */
	bool repairs;
	int64_t expires; /* RabbitMQ deletes B so many ns after its last use; 0: never */
};
/*
 * Makes the B of a slot by quorum: declares the queue, publishes that set if there is none, and makes it
 * clean. Takes some seconds, and `wait` or the rest of a grace. It has a channel of its own. Answers:
 * - OK: the slot is free, and usable at once.
 * - LOCKED: somebody else uses or makes it now.
 * - REFUSED: the broker or the set forbids it, see text.
 * - UNREACHABLE: no node leads the queue. So it is with the requests below, which end no connection then.
 * - UNKNOWN.
 */
void broker_make_beads(struct broker *broker, const char *queue, const struct broker_beads *wanted,
    struct broker_done done);

/*
 * Looks into the B of a slot by quorum that exists and is free. It is the consumer for a moment, and the
 * beads stay as they are. Answers: OK with `beads`. LOCKED: the slot is in use, or the queue is another
 * connection's. UNREACHABLE. REFUSED: see code and text; 406: it was declared with
 * other arguments. UNKNOWN.
 */
void broker_look_at_beads(struct broker *broker, const char *queue, struct broker_done done);

/* The record of a name whose slots are held by quorum. */
#define BROKER_NAME_MAX 200
struct broker_record {
	char name[BROKER_NAME_MAX + 1];
	unsigned size;  /* the number of slots */
	uint64_t epoch; /* of its newest set of beads */
	int64_t grace;  /* T, ns: whole ms */
};
/*
 * Opens the records: all of them are read, and this session alone may administer slots held by quorum, also
 * in a partition. Returns the session. Answers: OK, LOCKED (another administrator has them, for as long as
 * settings.connect_timeout), REFUSED (the broker forbids it, or there are too many messages), UNKNOWN. If
 * the answer is not OK, the session is gone. Takes two seconds if nothing was ever recorded.
 *
 * Later the event records_lost may end the session. Then nothing may be written, and nothing is found.
 * Foreign messages in the queue stay, up to BROKER_DIRECTORY_MAX messages.
 */
uint64_t broker_records_open(struct broker *broker, struct broker_done done);
/* NULL: the name has none. Valid until the next write, the event or the close. */
const struct broker_record *broker_records_find(
    const struct broker *broker, uint64_t id, const char *name);
/* No name has a set of a larger epoch, or had one. 0: nothing was ever recorded. */
uint64_t broker_records_floor(const struct broker *broker, uint64_t id);
/*
 * Writes a record in place of the old one of its name, whose epoch is not larger. The floor rises to
 * `lowest` and to the record's epoch, and never falls. record NULL: only the floor. One write at a time.
 * - OK: it is written, and the session had the lock then, also if nothing has changed.
 * - UNKNOWN: it is perhaps written, and the session is lost. During an alarm nothing is written, with
 *   BROKER_ALARM_WORDS, and the session goes on.
 * - SKIPPED: the session was lost before. REFUSED: there are too many messages.
 */
void broker_records_set(struct broker *broker, uint64_t id, const struct broker_record *record,
    uint64_t lowest, struct broker_done done);
/* The same: removes the record of a name, if there is one, after the floor is written. */
void broker_records_remove(
    struct broker *broker, uint64_t id, const char *name, uint64_t lowest, struct broker_done done);
/* Gives the lock back. No answer and no event comes after this. A session that is gone is ignored. */
void broker_records_close(struct broker *broker, uint64_t id);

/*
 * Removes a slot by quorum: publishes a removal, which its holder hears, and after which nobody else is
 * granted the slot. Then it claims the slot, and deletes B. That can take the rest of a grace. Answers:
 * - OK with the fence of that claim: each later set needs a larger epoch.
 * - LOCKED: it is held, or has no beads. `removed`: the removal is there, and the slot is to be deleted later.
 * - ABSENT, UNREACHABLE, REFUSED, UNKNOWN.
 */
void broker_remove_beads(struct broker *broker, const char *queue, struct broker_done done);
/* The same, if the removal is there already. LOCKED without `removed`: it is not. */
void broker_delete_removed(struct broker *broker, const char *queue, struct broker_done done);
/*
 * Claims a slot by quorum behind those that claim it now, and deletes B. OK and others as above; LOCKED: it
 * is held, and stays.
 */
void broker_delete_beads(struct broker *broker, const char *queue, struct broker_done done);
/*
 * Deletes a B that has other arguments, or should not exist. If its beads can be claimed, it claims them
 * first. If they cannot, at most an earlier holder believes in its hold. So the caller waits before it makes
 * the slot anew. classic: it is no quorum queue, so no consumer holds the slot.
 */
void broker_clear_beads(
    struct broker *broker, const char *queue, bool classic, struct broker_done done);

/*
 * The directory: a durable classic queue with one persistent message for each name, as AMQP cannot
 * list queues. Each request uses a channel of its own on the auxiliary connection. The caller holds
 * the mutex of the directory, because two requests at once each see only a part of the messages.
 * After a link died in the middle, the next request may see only a part, too. No name is lost by
 * that, but a name may then be there twice. Messages longer than BROKER_NAME_MAX bytes, or not of
 * printable ASCII, are foreign and skipped.
 */
/* The maximum number of messages of a directory. If there are more: REFUSED, with a text. */
#define BROKER_DIRECTORY_MAX 20000
/* Whether a message of `len` bytes is a name. */
bool broker_is_name(const void *body, size_t len);
/* During an alarm an entry is not sent. It is answered UNKNOWN with this text. */
#define BROKER_ALARM_WORDS "the broker takes no messages now (an alarm)"
/* Reads all names, in the order of their entry. A queue that does not exist has none. */
void broker_directory_read(struct broker *broker, const char *queue, struct broker_names_done done);
/* Adds a name, confirmed by the broker; declares the queue if necessary. names: that one. */
void broker_directory_enter(
    struct broker *broker, const char *queue, const char *name, struct broker_names_done done);
/* Removes every message of that name. names: those removed, each as often as it was there. */
void broker_directory_leave(
    struct broker *broker, const char *queue, const char *name, struct broker_names_done done);
/*
 * Asks which of up to BROKER_PROBE_MAX queues exist, by a mandatory publish with confirm to each.
 * All go out in one flush on the auxiliary connection, which is brought up for it. A return and an
 * ack mean ABSENT. An ack alone means OK, but the queue may be deleted just then. A nack, no answer
 * by the deadline, or no auxiliary connection means UNKNOWN. The names are copied.
 *
 * A durable B refuses messages (x-overflow reject-publish) with a nack. The broker layer then asks
 * for its consumers, by a passive declare. BROKER_ASK_CONSUMER asks only that, in the same flush.
 * The deadline covers both. A queue whose node is silent holds up the passive declares behind it
 * for a moment (ask.h).
 */
void broker_probe(struct broker *broker, const struct broker_question *questions, size_t count,
    struct broker_probe_done done);

/*
 * Watches a queue for its deletion, by a consumer on the auxiliary connection. The watch keeps that
 * connection up, and the consumer is placed again when the connection is back. The consumer has
 * prefetch 1, and deliveries are acknowledged late, so that probes of the queue do not become
 * deliveries. The news come as events.
 *
 * News are hints. A deletion can pass unnoticed if the queue is created again at once. A consumer
 * can also be cancelled without a deletion. BROKER_HINT ends the watch: the caller watches again if
 * it still needs that. A second watch of the same queue has no effect.
 */
void broker_watch(struct broker *broker, const char *queue);
/* Ends a watch; a queue that is not watched is ignored. No news of the queue come after this. */
void broker_unwatch(struct broker *broker, const char *queue);

/*
 * Joins a wait queue: a durable auto-delete classic queue (x-max-length 64) that exists while a
 * daemon consumes from it. The broker here is a member of it once for each priority it joins with.
 * A member is one consumer (x-priority) on the auxiliary connection, which it keeps up. Joining
 * again changes the credit (prefetch), without news.
 * - Wait queues take turns in joining, a few members at a time. The number of wait queues is
 *   limited, and so is the number of members beyond the first of each.
 * - If the auxiliary connection has too few channels left, members join when a channel is free.
 * - The queue ends with its last consumer. A 404 between declare and consume is therefore tried
 *   again.
 * - A member joins again when the link is back. It also joins again, after a moment, when its
 *   channel was closed or the queue was deleted. After a refusal it tries again, rarely.
 * - BROKER_WAIT_QUEUE_LEFT comes only after BROKER_WAIT_QUEUE_JOINED.
 */
void broker_wait_queue_join(
    struct broker *broker, const char *queue, int priority, unsigned credit);
/*
 * Ends a membership; one that does not exist is ignored. No news of it come after this. Its unread
 * hints go to other consumers.
 */
void broker_wait_queue_leave(struct broker *broker, const char *queue, int priority);
/*
 * Sends a hint about a free slot to a wait queue: a mandatory message with a TTL of 2 s. RabbitMQ
 * delivers it to one consumer, the next one of the highest priority, which acknowledges it when it
 * is read. The hint only means that a scan is worthwhile.
 *
 * If the wait queue does not exist, the hint is returned and BROKER_WAIT_QUEUE_NOBODY comes. The
 * engine then stops withholding the slot from its own waiters. While the auxiliary connection is
 * down or blocked, hints are owed: each once, and at most the newest BROKER_OWED_MAX. The
 * connection is brought up for them.
 */
#define BROKER_OWED_MAX 1024
#define BROKER_HINT_TTL (2 * INT64_C(1000000000)) /* ns */
void broker_wait_queue_wake(struct broker *broker, const char *queue, int slot);
/* The number in a message's correlation-id, and its text, which is somewhere in room. 0: none. */
#define BROKER_NUMBER_TEXT 21
char *broker_number_text(char room[BROKER_NUMBER_TEXT], uint64_t number);
uint64_t broker_number(const char *text);
/* The slot of a hint. A foreign text is 0: no particular slot. */
int broker_hint_slot(const char *text);
/*
 * Counts the consumers of a wait queue, of all daemons and priorities. No queue: 0. The broker did
 * not answer within a second: -1.
 */
void broker_wait_queue_count(
    struct broker *broker, const char *queue, struct broker_count_done done);

/*
 * Messages between the daemons of a vhost, on the auxiliary connection. Queries go to a durable
 * fanout exchange, "lockbroker=ask". Each daemon binds an inbox to it, "lockbroker=inbox=<random>":
 * a durable auto-delete classic queue with x-expires and x-max-length. Messages are transient
 * (delivery-mode 1), have a TTL of 5 s, and carry the user-id, which RabbitMQ checks. A daemon that
 * is not connected misses the query, and the sender is not notified of that. The sender therefore
 * keeps a deadline.
 */
#define BROKER_MESSAGE_MAX 61440
#define BROKER_MESSAGE_TTL (5 * INT64_C(1000000000)) /* ns */
/*
 * Daemon messages arrive while the inbox is open, and an open inbox keeps the auxiliary connection
 * up. A query opens the inbox for a while (auxiliary_idle).
 */
void broker_inbox_open(struct broker *broker);
void broker_inbox_close(struct broker *broker);
/*
 * Sends a query to all other daemons. Returns the number that their replies carry, never used
 * twice. The query is sent when the inbox is open. Returns 0 during an alarm, and nothing is sent.
 */
uint64_t broker_ask(struct broker *broker, const char *text, size_t len);
/*
 * Replies to a query, once or several times. Nothing is sent if the query is too old or unknown, if
 * the inbox is not open, or during an alarm.
 */
void broker_reply_to(struct broker *broker, uint64_t from, const char *text, size_t len);

#endif
