/*
 * Two daemons' views over a lock_world: host0 and host1, with peers that hold and wait, what they were
 * answered and told, and a stranger who can write messages.
 */
#ifndef TESTS_UNIT_VIEW_RIG_H
#define TESTS_UNIT_VIEW_RIG_H

#include "daemon/view/view.h"
#include "tests/unit/lock_world.h"

/* ns that others have to answer. */
#define RIG_TIMEOUT (500 * NSEC_PER_MSEC)
#define RIG_ANSWERS 64
#define RIG_TOLD 16384

struct rig_answer {
	int daemon;
	uint64_t peer, request;
	enum reason reason;
	char text[128];
	struct cJSON *result; /* owned; NULL: a refusal */
	int64_t at;
};

struct rig_daemon {
	struct view_rig *rig;
	int number;
	struct view *view; /* owned */
	bool deaf;         /* hears no messages, as one that is stopped */
	bool forbids;      /* its peers may do nothing by name */
	uid_t user;        /* who makes the requests that follow */
	size_t unread;     /* of every peer */
	bool full;         /* no peer has room for more */
	size_t kept;       /* for answers, in all */
	unsigned looked;   /* requests that the broker was done with */
	unsigned messages; /* questions of other daemons, also while it is deaf */
};

struct view_rig {
	struct lock_world *world; /* owned */
	struct rig_daemon daemon[DAEMONS];
	struct rig_answer answers[RIG_ANSWERS];
	size_t answer_count;
	size_t told_count;       /* notifications of watches */
	char told[RIG_TOLD];     /* by watches: "A:waiting synced A:gone", rows by their `who` */
	struct broker *stranger; /* owned; NULL: nobody has written yet */
	unsigned warnings;       /* logged */
	char last_info[512];     /* the last info line logged */
};

struct view_rig *rig_new(void);
void rig_free(struct view_rig *rig);

/* Acquires db as the peer of that number, whose `who` is its message (A for 1), and lets time pass. */
void rig_acquire(struct view_rig *rig, int daemon, uint64_t peer);
/* The answer to an acquire of rig_acquire(); NULL: none yet. */
const struct said *rig_acquired(const struct view_rig *rig, int daemon, uint64_t peer);
/* The wire's id of whoever has that message, at whichever daemon. Static. */
const char *rig_waiter(struct view_rig *rig, const char *who);
/* Lets time pass until that request is answered; fails when it takes 20 s. */
const struct rig_answer *rig_await(struct view_rig *rig, int daemon, uint64_t request);
/* The answer to a request of peer 100; NULL: none yet. */
const struct rig_answer *rig_answered(const struct view_rig *rig, int daemon, uint64_t request);
/* show of db by peer 100 as "slots 1 busy 1 waiting 1 [A@host0/1] [B@host1#1] more 0 unknown host1". Static. */
const char *rig_show(struct view_rig *rig, int daemon, uint64_t request);
/* A stranger asks all, in those words. */
void rig_write(struct view_rig *rig, const char *text);

#endif
