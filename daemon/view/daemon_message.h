/*
 * Messages between daemons (broker.h, "Messages"), as text and as what it says. A message comes from whoever
 * may publish in the vhost, so nothing in it is believed before it was checked. Pure; never logs.
 *
 * One that asks has op, and with it what it is about; an answer has the op that it answers. Of rows there
 * are as many messages as they need, `last` in the last one. What a daemon of another naming (whose queues
 * are others) says is passed over.
 */
#ifndef VIEW_DAEMON_MESSAGE_H
#define VIEW_DAEMON_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "protocol/reason.h"

struct cJSON;

/* Raised when daemons of before would misunderstand. */
#define DAEMON_MESSAGE_VERSION 1
#define DAEMON_MESSAGE_HOST_MAX 255
/* Of how many rows or waiters a message may tell: what all messages say adds up to a number JSON can have. */
#define DAEMON_MESSAGE_COUNT_MAX 10000000

enum daemon_message_op {
	DAEMON_MESSAGE_HELLO,   /* who sends it answers from now on; not answered, as the next */
	DAEMON_MESSAGE_BYE,     /* it does no more */
	DAEMON_MESSAGE_ROWS,    /* of `name`, or all */
	DAEMON_MESSAGE_WAITING, /* how many wait, by name */
	DAEMON_MESSAGE_FIND,    /* by `waiter`: its name */
	DAEMON_MESSAGE_GRANT,   /* `waiter`, by `uid` of host `host` */
	DAEMON_MESSAGE_DENY,    /* the same; without `waiter` all of `name` */
};
#define DAEMON_MESSAGE_OPS (DAEMON_MESSAGE_DENY + 1)

struct daemon_message {
	enum daemon_message_op op;
	bool answer;
	uint32_t run;     /* of who sends it */
	const char *host; /* of who sends it; borrowed from the tree, as all that follow */
	bool stays;       /* it answers later questions, too */
	/* when it asks */
	const char *name;    /* valid lock name; NULL: none */
	uint32_t waiter_run; /* of the daemon that is meant */
	uint64_t waiter;     /* 0: none */
	uid_t uid;
	/* when it answers */
	bool last;
	enum reason reason;       /* find, grant, deny; and `name` of find and grant */
	uint64_t count;           /* deny: how many were */
	uint64_t waiting;         /* rows: how many of them wait, listed or not */
	uint64_t more;            /* rows: how many were left out */
	const struct cJSON *rows; /* rows: an array, not yet checked (row.h); else NULL */
	const struct cJSON
	    *slots; /* rows: slots that are passing: an array of integers; else NULL */
	const struct cJSON *counts; /* waiting: an array of [name, integer], checked; else NULL */
	struct cJSON *tree;         /* owned */
};

/* Who sends messages. */
struct daemon_message_head {
	uint32_t run;
	const char *host;
	const char *naming;
	bool stays;
};

/* What the caller adds to is printed by daemon_message_text(). */
struct cJSON *daemon_message_new(
    const struct daemon_message_head *head, enum daemon_message_op op, bool answer);
/* Takes the message; malloc'ed. NULL: no memory. */
char *daemon_message_text(struct cJSON *message);

enum daemon_message_status {
	DAEMON_MESSAGE_READ,
	DAEMON_MESSAGE_FOREIGN, /* of another naming: passed over */
	DAEMON_MESSAGE_GARBLED  /* *ret_what says why (static) */
};

/* READ: to be ended with daemon_message_done(). */
enum daemon_message_status daemon_message_parse(const char *text, size_t len, const char *naming,
    struct daemon_message *ret, const char **ret_what) __attribute__((warn_unused_result));
void daemon_message_done(struct daemon_message *message);

#endif
