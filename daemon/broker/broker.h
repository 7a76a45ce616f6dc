/*
 * The seam between the lock engine and the broker. The engine speaks here in the scheme's own words
 * (claim, check, drop, probe), never in frames; every answer comes by callback, so that the engine is
 * deterministic given answers and a clock. broker.c implements it, over links to RabbitMQ or to the
 * AMQP server in memory (setup.h).
 *
 * Two links (AMQP connections): the lock connection carries the Bs and nothing that could hurt them; the
 * auxiliary connection, opened when first needed, carries everything else and may die at any time.
 *
 * Rules every implementation keeps:
 * - A callback is never made from inside the call that asked for it; it comes from the event loop.
 * - Every request is answered exactly once. Requests on one channel are performed and answered in order;
 *   across channels there is no order.
 * - When a request fails in a way that closes its channel (404, 405, 403, ...), those behind it on that
 *   channel were not performed and are answered BROKER_SKIPPED, then the channel_closed event comes unless
 *   the channel was put back in the meantime.
 * - Silence is not an answer. There are no deadlines here but the probe's: who asks keeps its own.
 * - When a link dies: its state is set, then its unanswered requests are answered BROKER_UNKNOWN in
 *   the order of their sending, then the link event comes. Its channels are gone without further events.
 *   Nothing pending survives its link.
 */
#ifndef BROKER_BROKER_H
#define BROKER_BROKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum broker_link {
	BROKER_LOCKS,    /* the Bs: claim, check, drop. Never publishes, consumes or administers */
	BROKER_AUXILIARY /* probes, administration with its mutex; expendable */
};

enum broker_state {
	BROKER_DOWN, /* being (re)connected; the auxiliary connection also while it is not needed */
	BROKER_UP,
	BROKER_LOGIN_REFUSED /* the broker refused us in words: credentials, vhost, permission. Tries go on */
};

/* "down", "up", "refused". Static. */
const char *broker_state_word(enum broker_state state);

enum broker_answer {
	BROKER_OK,     /* declared and ours / present / deleted */
	BROKER_ABSENT, /* 404, or a mandatory publish returned */
	BROKER_LOCKED, /* 405: somebody else's exclusive queue */
	BROKER_REFUSED, /* another error that closed the channel (403, 406, ...): see code and text */
	BROKER_SKIPPED, /* not performed: the channel was closed before its turn */
	BROKER_UNKNOWN  /* performed or not, nobody knows: the link died, nack, or silence */
};

struct broker_reply {
	enum broker_answer answer;
	bool channel_open; /* the channel can be used on; false = it is gone */
	int64_t sent_at;   /* clock time just before the request was handed to the link */
	int code;          /* AMQP reply-code of the failure; 0 = none */
	const char *text;  /* the broker's own words, "" when none; borrowed for the callback */
};

/* Who wants the answer: an id, never a pointer to what may be gone by then. */
struct broker_done {
	void (*fn)(void *ctx, uint64_t id, const struct broker_reply *reply);
	void *ctx;
	uint64_t id;
};

struct broker_probe_done {
	/* answers[i]: BROKER_OK, BROKER_ABSENT or BROKER_UNKNOWN for the i-th queue; borrowed */
	void (*fn)(void *ctx, uint64_t id, const enum broker_answer *answers, size_t count);
	void *ctx;
	uint64_t id;
};

/*
 * reply->answer: OK, REFUSED (nothing was done), or UNKNOWN; channel_open says nothing. names: what was
 * read, entered or removed; none unless OK. All borrowed.
 */
struct broker_names_done {
	void (*fn)(void *ctx, uint64_t id, const struct broker_reply *reply,
	    const char *const *names, size_t count);
	void *ctx;
	uint64_t id;
};

/* consumers: of the queue, our own included; -1: not known. */
struct broker_count_done {
	void (*fn)(void *ctx, uint64_t id, int consumers);
	void *ctx;
	uint64_t id;
};

/* What a watch has to say of its queue. A hint: whoever hears it looks for himself. */
enum broker_news {
	BROKER_WATCHED, /* from now on its deletion is told; it may have happened before */
	BROKER_HINT,    /* it may have been deleted (basic.cancel, or a 404): the watch is over */
	BROKER_UNWATCHED /* the auxiliary connection went: nothing is told until BROKER_WATCHED comes again */
};

/* What a wait line has to say to one of its members; see broker_line_join(). */
enum broker_line_news {
	BROKER_LINE_JOINED, /* from now on hints come; those sent before may have gone elsewhere */
	BROKER_LINE_HINT,   /* `slot` was freed, or may have been: look */
	BROKER_LINE_LEFT,   /* no hints come until JOINED again: the link went, or it was put out */
	/* To who sent the hint of `slot`, member or not: there is no such line, nobody waits. */
	BROKER_LINE_NOBODY
};

struct broker_line_event {
	const char *queue; /* borrowed */
	int priority;
	enum broker_line_news news;
	int slot; /* HINT, NOBODY: from 1; 0 = no one in particular */
};

/* What another daemon asks of all, or answers; see broker_ask(). */
struct broker_message {
	uint64_t from;  /* ASKED: for broker_reply_to(), until that was called */
	uint64_t asked; /* REPLY: what broker_ask() returned */
	const char
	    *text; /* borrowed, NUL-terminated, UTF-8 not checked; at most BROKER_MESSAGE_MAX */
	size_t len;
	const char *user; /* of the broker's users, vouched for by it; "": not said */
};

struct broker_events {
	void (*link)(void *ctx, enum broker_link link, enum broker_state state, const char *why);
	/* A channel that is in use was closed by the broker or for a failed request. */
	void (*channel_closed)(void *ctx, uint64_t channel, int code, const char *text);
	/* Of a queue that is being watched; the name is borrowed. */
	void (*watch)(void *ctx, const char *queue, enum broker_news news);
	/* NULL where nobody joins lines. */
	void (*line)(void *ctx, const struct broker_line_event *event);
	/* Another daemon asks (also for its own questions it hears nothing), or answers. NULL: nobody cares. */
	void (*asked)(void *ctx, const struct broker_message *message);
	void (*replied)(void *ctx, const struct broker_message *message);
	void *ctx;
};

/* What is known of the broker now; strings are borrowed and "" while unknown. */
struct broker_info {
	enum broker_state locks, auxiliary;
	const char
	    *probes_refused;    /* the broker's words where it refuses probes; "" = it does not */
	bool auxiliary_blocked; /* connection.blocked: an alarm */
	const char
	    *why; /* of a DOWN or DENIED lock connection, in the broker's or system's words */
	const char *host; /* host:port the links go to */
	const char *product, *version, *cluster;
	int heartbeat; /* seconds, negotiated */
	unsigned channels,
	    channels_max; /* of the lock connection: open now, and the most there can be */
	bool persistent;  /* false: the server in memory */
	/* The server may delete a fresh B by name (RabbitMQ before 4.1.8 and 4.2.3, issue #15276). */
	bool deletes_by_name;
};

struct broker; /* made as setup.h says */

/* Before start. The lock engine alone hears them. */
void broker_set_events(struct broker *broker, const struct broker_events *events);
/* Connects the lock connection and keeps it connected until stop. */
void broker_start(struct broker *broker);
/* Closes both links for good; nothing is answered and no event comes any more. */
void broker_stop(struct broker *broker);
void broker_free(struct broker *broker); /* stops first; NULL is fine */
/*
 * Closes a link, as if it had died for that reason, and makes it anew. The answers and the event that
 * a death brings come from the loop, as ever. A link that is not up is left alone.
 */
void broker_reset(struct broker *broker, enum broker_link link, const char *why);
void broker_get_info(const struct broker *broker, struct broker_info *ret);

/* Most queues in one probe. */
#define BROKER_PROBE_MAX 1024

/*
 * A channel of a link, from the pool of idle open ones or opened now; its id, never used
 * twice. 0: the lock connection is not up, or has no channel left (see broker_get_info). A channel of the auxiliary
 * connection can always be had: the link is brought up for it, and what was asked meanwhile is sent then, or
 * answered BROKER_UNKNOWN when it cannot be brought up in time.
 */
uint64_t broker_channel_take(struct broker *broker, enum broker_link link);
/* Gives a channel back. Nothing may be unanswered on it. An id that is gone is fine. */
void broker_channel_put(struct broker *broker, uint64_t channel);

/*
 * On a channel; requests made in one pass of the loop go out in one flush. A channel that is gone answers
 * BROKER_SKIPPED (or BROKER_UNKNOWN, when its link died).
 */

/* queue.declare, exclusive. OK: ours (RabbitMQ also says so of one that this link had already). */
void broker_claim(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_done done);
/* queue.declare, passive: OK, ABSENT, or LOCKED (an exclusive queue of another connection). */
void broker_check(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_done done);
/* queue.delete, answered after delete-ok; OK too when there was no such queue. */
void broker_drop(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_done done);
/*
 * Administration, auxiliary connection only. A durable A queue, x-max-length 0. One that exists with other
 * arguments is used as it is: OK, with the 406 and the broker's words about the difference (it closes the
 * channel: channel_open tells).
 */
void broker_declare_slot(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_done done);
/* The same of a marker: a durable classic queue, x-max-length 0, whatever the vhost's default type is. */
void broker_declare_marker(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_done done);
/* A slot or a marker. OK too when there was none. */
void broker_delete_slot(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_done done);

/*
 * A directory: a durable classic queue with one persistent message a name, as AMQP cannot list queues.
 * On the auxiliary connection; each makes its own channel. Whoever calls holds the directory's mutex: two at
 * once see only part of the messages, and so may, for a moment, whoever comes after a link that died in the
 * middle. Nothing is lost by that; a name may then be there twice. Names of more than BROKER_NAME_MAX
 * bytes, or not made of printable ASCII, are somebody else's messages and skipped.
 */
#define BROKER_NAME_MAX 200
/* Most messages of a directory; more are REFUSED, in words. */
#define BROKER_DIRECTORY_MAX 20000
/* Whether a message of so many bytes is a name. */
bool broker_is_name(const void *body, size_t len);
/* Text of the UNKNOWN with which an entry is answered, nothing done, while there is an alarm. */
#define BROKER_ALARM_WORDS "the broker takes no messages now (an alarm)"
/* All names, in the order of their entry; a queue that is not there has none. */
void broker_directory_read(struct broker *broker, const char *queue, struct broker_names_done done);
/* Declares the queue if need be and adds a message, confirmed by the broker; names: that one. */
void broker_directory_enter(
    struct broker *broker, const char *queue, const char *name, struct broker_names_done done);
/* Removes every message of that name; names: those removed, each as often as it was there. */
void broker_directory_leave(
    struct broker *broker, const char *queue, const char *name, struct broker_names_done done);
/*
 * Which of up to BROKER_PROBE_MAX queues exist: mandatory publish with confirm, all in one flush on
 * the auxiliary connection, which is brought up for it. Return and ack: ABSENT. Ack: OK, perhaps just deleted.
 * Nack, no answer by the deadline, or no auxiliary connection: UNKNOWN. The names are copied.
 */
void broker_probe(
    struct broker *broker, const char *const *queues, size_t count, struct broker_probe_done done);

/*
 * Watches a queue for its deletion: a consumer on the auxiliary connection (prefetch 1; what is delivered to it is
 * acknowledged late, so that probes do not become deliveries), which keeps that link up, and is placed
 * anew when the link comes back. Its news come as events. A deletion can go unheard (followed at once
 * by a re-creation), and a consumer can be cancelled without one: news are hints, and after BROKER_HINT
 * whoever still wants a watch asks for it again. A queue is watched once at most.
 */
void broker_watch(struct broker *broker, const char *queue);
/* One that is not watched is left alone. No news of it come after this. */
void broker_unwatch(struct broker *broker, const char *queue);

/*
 * A wait line: a durable auto-delete classic queue (x-max-length 64) that exists while somebody waits in
 * it. A member is a consumer, one a queue and priority (x-priority) of a broker here, on the auxiliary connection,
 * which it keeps up, with others on one channel; the credit (prefetch) may be changed by joining again.
 * Lines take turns in joining, a few members at a time; the number of lines is limited, and so is that of
 * further members. The queue goes with its last consumer: a 404 between declare and consume is tried again.
 * Lines without a channel (the auxiliary connection has few left, and others need them) are joined when there is
 * one. A member is placed anew when the link comes back, and after a moment when the broker put it out (its channel
 * closed, the queue deleted); one that is refused is tried again, rarely. BROKER_LINE_LEFT is told to who
 * had BROKER_LINE_JOINED; joining again brings no news.
 */
void broker_line_join(struct broker *broker, const char *queue, int priority, unsigned credit);
/* One that was not joined is left alone. No news of it come after this; hints unread go to others. */
void broker_line_leave(struct broker *broker, const char *queue, int priority);
/*
 * Tells one member of a line, the next one of the highest priority, of a free slot: a message with a TTL
 * of 2 s, mandatory: where there is no line it is returned, and BROKER_LINE_NOBODY says so, or every slot
 * that nobody waits for would be left alone here for a while after its release. Acknowledged by its
 * receiver when it is read: it means *look*. While the auxiliary connection is down or blocked hints are owed, each
 * once, at most BROKER_OWED_MAX (the newest), and sent when it is up: it is brought up for that.
 */
#define BROKER_OWED_MAX 1024
#define BROKER_HINT_TTL (2 * INT64_C(1000000000)) /* ns */
void broker_line_wake(struct broker *broker, const char *queue, int slot);
/* The number that a message says (correlation-id); 0: none. And its text, somewhere in room. */
#define BROKER_NUMBER_TEXT 21
char *broker_number_text(char room[BROKER_NUMBER_TEXT], uint64_t number);
uint64_t broker_number(const char *text);
/* The slot that a hint says; 0 for a text that is not ours, which means as much: look. */
int broker_hint_slot(const char *text);
/* How many members a line has, in all daemons, each priority counted; 0 when there is no such queue. */
void broker_line_count(struct broker *broker, const char *queue, struct broker_count_done done);

/*
 * Messages between the daemons of a vhost: a durable fanout exchange "lockbroker=ask", and for each daemon
 * an inbox bound to it, a durable auto-delete classic queue named "lockbroker=inbox=<random>" with
 * x-expires and x-max-length, on the auxiliary connection. Daemon messages carry the user-id that RabbitMQ
 * checks, TTL 5 s, delivery-mode 1. One who is away hears nothing, and nothing is told of it: who asks has a
 * deadline.
 */
#define BROKER_MESSAGE_MAX 61440
#define BROKER_MESSAGE_TTL (5 * INT64_C(1000000000)) /* ns */
/*
 * Daemon messages are heard while the inbox is open, which keeps the auxiliary connection up; who asks opens
 * it for a while (auxiliary_idle) by asking.
 */
void broker_inbox_open(struct broker *broker);
void broker_inbox_close(struct broker *broker);
/*
 * Asks all other daemons; the number that their replies carry, never used twice. It is sent when the
 * inbox is open. 0: not now, there is an alarm.
 */
uint64_t broker_ask(struct broker *broker, const char *text, size_t len);
/* Answers a daemon message; several times is fine. Of one whose sender is gone, or long ago, nothing comes. */
void broker_reply_to(struct broker *broker, uint64_t from, const char *text, size_t len);

#endif
