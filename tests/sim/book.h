/*
 * What the peers know: the requests that they have not had an answer to, and the locks that they
 * believe they hold. Small arrays; an entry's place changes when another goes.
 */
#ifndef TESTS_SIM_BOOK_H
#define TESTS_SIM_BOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "protocol/lockname.h"

#define REQUESTS_MAX 48
#define BELIEFS_MAX 96

/* From CREATE on: administration, and looking at what it did. */
enum request_what {
	ASK_ACQUIRE,
	ASK_VERIFY,
	ASK_RELEASE,
	ASK_CREATE,
	ASK_RESIZE,
	ASK_DESTROY,
	ASK_FSCK,
	ASK_SIZE,
	ASK_AWAIT,
	ASK_LIST,
	ASK_EXPLAIN
};

/* What an administrator was asked to do. */
struct order {
	enum request_what what; /* CREATE, RESIZE, DESTROY, FSCK; else nothing was */
	int name;
	enum { ORDER_TO, ORDER_ADD, ORDER_REMOVE } by; /* resize */
	int slots;                                     /* create, resize; or LOCK_UNLIMITED */
	bool exist_ok;                                 /* create */
	bool ascending;                                /* resize, destroy */
	int overshoot;                                 /* resize, destroy */
	int64_t wait;                                  /* resize, destroy: for holders */
	bool repair;                                   /* fsck */
};

struct ask {
	enum request_what what;
	int daemon;
	uint64_t peer, request;
	int name, slot; /* slot: verify, release, await */
	enum lock_kind kind;
	uint64_t lock;      /* verify, release */
	int64_t timeout;    /* acquire */
	int priority;       /* acquire */
	bool lease;         /* acquire: it heeds its lease */
	bool create;        /* acquire: it makes the semaphore when there is none */
	uid_t uid;          /* acquire: of its peer */
	bool exempt;        /* acquire: of the limit of channels */
	bool slotless;      /* verify, release: it takes no slot */
	struct order order; /* of an administrator */
	bool busy;          /* await: until it is; else until it is not */
	bool was_busy;      /* await: when it was asked */
	bool gone;          /* its peer is: it need not be answered */
	unsigned claims; /* of an administrator: times that its daemon had got the mutex before */
	bool mutex_busy; /* the same: it had it, for somebody else */
	int64_t due;     /* answered by then; INT64_MAX = no limit */
	uint64_t since;  /* moment */
	/* acquire: nothing of its peer's comes first any more: the moment, and the time */
	uint64_t ready;
	int64_t ready_at;
	unsigned overtaken;  /* acquire: who came later and stood no higher had the lock before */
	uint64_t connection; /* verify, release: of the hold */
	bool held;           /* verify, release: when it was asked */
	int64_t lost_at;     /* verify: its peer was told meanwhile that the lock is lost; 0: no */
	bool revoked;        /* verify, release: when it was asked, or told since */
};

/*
 * What a peer was granted, until its release request, `lost`, or its end. It believes that it holds it;
 * one that heeds its lease only as long as that lasts, whatever else it is told, as liblockbroker does.
 */
struct belief {
	int daemon;
	uint64_t peer, lock;
	int name, slot;
	enum lock_kind kind;
	uid_t uid;
	bool exempt;         /* it is charged to nobody */
	uint64_t connection; /* of the grant */
	bool slotless; /* it takes none: the semaphore is unlimited, or it was let in. slot is 0 */
	bool heeds, over; /* its lease; which has passed */
	int64_t safe_until, granted_at;
	bool suspect; /* it was told so */
	bool revoked; /* it was told so */
	/* Its A was deleted, and the watch heard of it: the moment, and by when it must be told. 0: no */
	uint64_t heard;
	int64_t heard_due;
	int64_t looked_at; /* B was looked at last */
	int most;          /* locks that its daemon had since then, at most */
};

struct book {
	struct ask asks[REQUESTS_MAX];
	size_t ask_count;
	struct belief beliefs[BELIEFS_MAX];
	size_t belief_count;
	int64_t next_due; /* no ask is due earlier */
};

/* Whether its peer still works under it. */
bool book_is_believed(const struct belief *belief, int64_t now);
/* Whether it ends with its peer, and can be cancelled. */
bool book_waits(const struct ask *ask);
/* Full: no more is to be asked. */
bool book_is_full(const struct book *book);
struct ask *book_ask(struct book *book, const struct ask *ask);
struct ask *book_find_ask(struct book *book, int daemon, uint64_t peer, uint64_t request);
void book_end_ask(struct book *book, struct ask *ask);
void book_believe(struct book *book, const struct belief *belief);
struct belief *book_find_belief(struct book *book, int daemon, uint64_t lock);
void book_end_belief(struct book *book, struct belief *belief);
/* The peer hung up (0: all of the daemon's, which is gone): what it believed is over. */
void book_peer_gone(struct book *book, int daemon, uint64_t peer);

#endif
