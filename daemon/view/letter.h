/*
 * Letters between daemons (broker.h, "Letters"), as text and as what it says. A letter comes from whoever
 * may publish in the vhost, so nothing in it is believed before it was checked. Pure; never logs.
 *
 * One that asks has op, and with it what it is about; an answer has the op that it answers. Of rows there
 * are as many letters as they need, `last` in the last one. What a daemon of another naming (whose queues
 * are others) says is passed over.
 */
#ifndef VIEW_LETTER_H
#define VIEW_LETTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "protocol/reason.h"

struct cJSON;

/* Raised when daemons of before would misunderstand. */
#define LETTER_VERSION 1
#define LETTER_HOST_MAX 255
/* Of how many rows or waiters a letter may tell: what all letters say adds up to a number JSON can have. */
#define LETTER_COUNT_MAX 10000000

enum letter_op {
	LETTER_HELLO,   /* who sends it answers from now on; not answered, as the next */
	LETTER_BYE,     /* it does no more */
	LETTER_ROWS,    /* of `name`, or all */
	LETTER_WAITING, /* how many wait, by name */
	LETTER_FIND,    /* by `waiter`: its name */
	LETTER_GRANT,   /* `waiter`, by `uid` of host `host` */
	LETTER_DENY,    /* the same; without `waiter` all of `name` */
};
#define LETTER_OPS (LETTER_DENY + 1)

struct letter {
	enum letter_op op;
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

/* Who sends letters. */
struct letter_head {
	uint32_t run;
	const char *host;
	const char *naming;
	bool stays;
};

/* What the caller adds to is printed by letter_text(). */
struct cJSON *letter_new(const struct letter_head *head, enum letter_op op, bool answer);
/* Takes the letter; malloc'ed. NULL: no memory. */
char *letter_text(struct cJSON *letter);

enum letter_look {
	LETTER_READ,
	LETTER_FOREIGN, /* of another naming: passed over */
	LETTER_GARBLED  /* *ret_what says why (static) */
};

/* READ: to be ended with letter_done(). */
enum letter_look letter_parse(const char *text, size_t len, const char *naming, struct letter *ret,
    const char **ret_what) __attribute__((warn_unused_result));
void letter_done(struct letter *letter);

#endif
