/*
 * The views of two daemons, host0 and host1, over a lock_world. It has clients that hold and wait,
 * records their answers and notifications, and has a stranger that can write messages.
 */
#ifndef TESTS_UNIT_VIEW_RIG_H
#define TESTS_UNIT_VIEW_RIG_H

#include "daemon/view/view.h"
#include "tests/unit/lock_world.h"

/* ns that other daemons have to answer. */
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
	bool deaf;         /* ignores messages, like a stopped process */
	bool forbids;      /* its clients may use no name */
	uid_t user;        /* user of the next requests */
	size_t unread;     /* of every client */
	bool full;         /* no client has room for more */
	size_t kept;       /* bytes kept for answers */
	unsigned scanned;  /* number of requests whose scan is over */
	unsigned messages; /* number of questions of other daemons, also while deaf */
};

struct view_rig {
	struct lock_world *world; /* owned */
	struct rig_daemon daemon[DAEMONS];
	struct rig_answer answers[RIG_ANSWERS];
	size_t answer_count;
	size_t told_count;       /* number of notifications */
	char told[RIG_TOLD];     /* "A:waiting synced A:gone"; rows by their `who` */
	struct broker *stranger; /* owned; NULL: it has written nothing yet */
	unsigned warnings;       /* number of logged warnings */
	char last_info[512];     /* the last logged line of level info */
};

struct view_rig *rig_new(void);
void rig_free(struct view_rig *rig);

/* The client of that number acquires db, and time passes. Its `who` is A for client 1, B for 2. */
void rig_acquire(struct view_rig *rig, int daemon, uint64_t peer);
/* The answer to an acquire of rig_acquire(); NULL: none yet. */
const struct said *rig_acquired(const struct view_rig *rig, int daemon, uint64_t peer);
/* The wire's id of the row with that `who` at any daemon. Static. */
const char *rig_waiter(struct view_rig *rig, const char *who);
/* Lets time pass until that request is answered. Fails the test after 20 s. */
const struct rig_answer *rig_await(struct view_rig *rig, int daemon, uint64_t request);
/* The answer to a request of client 100; NULL: none yet. */
const struct rig_answer *rig_answered(const struct view_rig *rig, int daemon, uint64_t request);
/*
 * `show` of db by client 100, such as "slots 1 busy 1 waiting 1 [A@host0/1] [B@host1#1] more 0
 * unknown host1". Static.
 */
const char *rig_show(struct view_rig *rig, int daemon, uint64_t request);
/* A stranger asks all daemons with that text. */
void rig_write(struct view_rig *rig, const char *text);

#endif
