/*
 * The ids of locks and waiters, and daemon messages (broker.h), as text and back. Pure:
 * values in, values out. It never logs.
 *
 * Every user who may publish in the vhost can send such a message. The parser therefore checks all
 * members except `rows`, which row.h checks.
 *
 * A query has `op` and its parameters. An answer has the op of its query. Rows need several
 * messages if they do not fit into one; the last one has `last`. A daemon ignores the messages of
 * daemons that name their queues differently.
 */
#ifndef VIEW_WIRE_H
#define VIEW_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "protocol/reason.h"

/*
 * The ids of locks and waiters on the wire, "RRRRRRRR-N". R is the run of the daemon, drawn at its
 * start; N is the engine's number.
 */
#define WIRE_ID_SIZE 32
/* Returns buf. */
const char *wire_id_write(char buf[WIRE_ID_SIZE], uint32_t run, uint64_t number);
/* False: no daemon writes such an id. */
bool wire_id_parse(const char *text, uint32_t *ret_run, uint64_t *ret_number);
/* A run alone, "RRRRRRRR". */
const char *wire_id_run(char buf[WIRE_ID_SIZE], uint32_t run);
bool wire_id_parse_run(const char *text, uint32_t *ret_run);

struct cJSON;

/* Raise it if older daemons would misunderstand a message. */
#define DAEMON_MESSAGE_VERSION 1
#define DAEMON_MESSAGE_HOST_MAX 255
enum daemon_message_op {
	DAEMON_MESSAGE_HELLO,   /* the sender answers from now on; has no answer */
	DAEMON_MESSAGE_BYE,     /* the sender stops answering; has no answer */
	DAEMON_MESSAGE_ROWS,    /* the rows of `name`, or all rows */
	DAEMON_MESSAGE_WAITING, /* the number of waiters of each semaphore, and the mutexes */
	DAEMON_MESSAGE_FIND,    /* the name that `waiter` waits for */
	DAEMON_MESSAGE_GRANT,   /* grants `waiter`, for `uid` of host `host` */
	DAEMON_MESSAGE_DENY,    /* denies `waiter`, or all waiters of `name` */
	DAEMON_MESSAGE_HOLDER,  /* the name that `waiter` holds. Since 0.2.0, as the next one */
	DAEMON_MESSAGE_EVICT,   /* evicts `waiter`, which holds, or all holders of `name` */
};
#define DAEMON_MESSAGE_OPS (DAEMON_MESSAGE_EVICT + 1)

struct daemon_message {
	enum daemon_message_op op;
	bool answer;
	uint32_t run;     /* of the sender */
	const char *host; /* of the sender; borrowed from `tree`, as all below */
	bool stays;       /* the sender answers later questions, too */
	/* of a question */
	const char *name;    /* a valid lock name; NULL: none */
	uint32_t waiter_run; /* of the daemon that has the waiter */
	uint64_t waiter;     /* 0: none */
	uid_t uid;
	uint64_t grace;  /* evict: ms until the deadline */
	const char *why; /* evict: NULL: no reason given; it may have control characters */
	/* of an answer */
	bool last;
	/* find, holder, grant, deny, evict; find, holder and grant also have `name` */
	enum reason reason;
	uint64_t count;            /* deny, evict: the number of waiters or holders */
	uint64_t waiting;          /* rows: the number of waiters, listed or not */
	uint64_t more;             /* rows, waiting: the number of rows, or names, left out */
	const struct cJSON *rows;  /* rows: an array, not checked yet (row.h); else NULL */
	const struct cJSON *slots; /* rows: slots in a hand-off, an array of integers; else NULL */
	/* waiting, checked; else NULL: arrays of [name, waiting] and of [name, waiting, busy] */
	const struct cJSON *counts, *mutexes;
	/*
	 * The same, of holders beyond the slots: [name, mutex, slot, number]. mutex is 0 or 1. slot is
	 * that of one holder whose slot was removed, or 0 for holders without a slot.
	 */
	const struct cJSON *extra;
	struct cJSON *tree; /* owned */
};

/* The sender of a message. */
struct daemon_message_head {
	uint32_t run;
	const char *host;
	const char *naming;
	bool stays;
};

/* The caller may add members to the object, then passes it to daemon_message_text(). */
struct cJSON *daemon_message_new(
    const struct daemon_message_head *head, enum daemon_message_op op, bool answer);
/* Takes the message and returns malloc'ed text. NULL: out of memory. */
char *daemon_message_text(struct cJSON *message);

enum daemon_message_status {
	DAEMON_MESSAGE_READ,
	DAEMON_MESSAGE_FOREIGN, /* the sender names its queues differently: ignore it */
	DAEMON_MESSAGE_GARBLED  /* *ret_what is the reason (static) */
};

/*
 * READ: the caller ends it with daemon_message_done(). In the other cases there is nothing to end.
 */
enum daemon_message_status daemon_message_parse(const char *text, size_t len, const char *naming,
    struct daemon_message *ret, const char **ret_what) __attribute__((warn_unused_result));
void daemon_message_done(struct daemon_message *message);

#endif
