/*
 * The knowledge of the clients: their unanswered requests, and the locks that they believe to hold.
 * Small arrays. The index of an entry changes if another one goes.
 */
#ifndef TESTS_SIM_BOOK_H
#define TESTS_SIM_BOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/lock/lock.h"
#include "protocol/lockname.h"

#define REQUESTS_MAX 48
#define BELIEFS_MAX 96

/* CREATE and all below: administration, and requests that read its results. */
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

/* An order of an administrator. */
struct order {
	enum request_what what; /* CREATE, RESIZE, DESTROY or FSCK; else there is no order */
	int name;
	enum { ORDER_TO, ORDER_ADD, ORDER_REMOVE } by; /* resize */
	int slots;                                     /* create, resize; or LOCK_UNLIMITED */
	enum lock_claim claim;                         /* create, resize; fsck: to convert */
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
	bool lease;         /* acquire: the client obeys the lease */
	bool create;        /* acquire: creates the semaphore if there is none */
	uid_t uid;          /* acquire: of its client */
	bool exempt;        /* acquire: exempt from the limit of channels */
	bool slotless;      /* verify, release: the hold takes no slot */
	struct order order; /* of an administrator */
	bool busy;          /* await: until the slot is busy; else until it is free */
	bool was_busy;      /* await: the slot's state when the client asked */
	bool gone;          /* the client is gone: no answer is due */
	unsigned claims;    /* administrator: how many times the daemon had got the mutex before */
	bool mutex_busy;    /* the same: the daemon had it for another request */
	bool handed_over;   /* the same: it waits at a successor for the holders that are left */
	int64_t due;        /* time of the latest answer; INT64_MAX: no limit */
	uint64_t since;     /* moment */
	/* acquire: from then on no other request of its client comes first. A moment and a time. */
	uint64_t ready;
	int64_t ready_at;
	unsigned overtaken;  /* acquire: later ones of no higher priority that came first */
	uint64_t connection; /* verify, release: of the hold */
	bool held;           /* verify, release: whether the lock was held when asked */
	int64_t lost_at; /* verify: since then its client was told that the lock is lost; 0: no */
	bool revoked;    /* verify, release: revoked when asked, or told since */
};

/*
 * A granted lock, until its release request, `lost`, or the end of its client. The client believes that
 * it holds it. A client that obeys its lease believes so only while the lease lasts, as with
 * liblockbroker.
 */
struct belief {
	int daemon;
	uint64_t peer, lock;
	int name, slot;
	enum lock_kind kind;
	uid_t uid;
	bool exempt;         /* charged to no user */
	uint64_t connection; /* lock connection of the grant */
	bool slotless;    /* takes no slot: unlimited, or granted by an administrator. slot is 0 */
	bool by_consumer; /* how B is held */
	bool with_a;      /* in a schedule by quorum: the slot has an A */
	bool heeds, over; /* obeys its lease; the lease has passed */
	int64_t safe_until, granted_at;
	bool suspect;     /* the client was told */
	bool revoked;     /* the client was told */
	int64_t evict_at; /* an administrator ends it then; 0: no */
	/*
	 * A was deleted and the watch reported it: the moment, and the deadline to tell the client.
	 * 0: no.
	 */
	uint64_t heard;
	int64_t heard_due;
	/* By consumer: time at which B was first seen to be freed by the world; 0: it is held. */
	int64_t freed_at;
};

struct book {
	struct ask asks[REQUESTS_MAX];
	size_t ask_count;
	struct belief beliefs[BELIEFS_MAX];
	size_t belief_count;
	int64_t next_due; /* no request is due earlier */
};

/* Whether its client still works under the lock. */
bool book_is_believed(const struct belief *belief, int64_t now);
/* Whether the request ends with its client and can be cancelled. */
bool book_waits(const struct ask *ask);
/* Full: there must be no further request. */
bool book_is_full(const struct book *book);
struct ask *book_ask(struct book *book, const struct ask *ask);
struct ask *book_find_ask(struct book *book, int daemon, uint64_t peer, uint64_t request);
void book_end_ask(struct book *book, struct ask *ask);
void book_believe(struct book *book, const struct belief *belief);
struct belief *book_find_belief(struct book *book, int daemon, uint64_t lock);
void book_end_belief(struct book *book, struct belief *belief);
/* The client is gone: its beliefs end. peer 0: the daemon is gone with all its clients. */
void book_peer_gone(struct book *book, int daemon, uint64_t peer);

#endif
