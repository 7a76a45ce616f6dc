/*
 * The types of quorum.c, which quorum_successor.c saves and restores. Other files include quorum.h.
 */
#ifndef BROKER_QUORUM_INTERNAL_H
#define BROKER_QUORUM_INTERNAL_H

#include <uthash.h>

#include "daemon/base/queue.h"
#include "daemon/broker/beads.h"
#include "daemon/broker/internal.h"
#include "daemon/broker/quorum.h"
#include "daemon/broker/reclaim.h"
#include "daemon/broker/channel.h"

/* A part of the ids of claims. Ids of other channels have another highest bit (channel.c). */
#define AMQP_CLAIM_BIT (UINT64_C(1) << 63)

/* A request that is not answered, or one of an id that has no claim any more. */
struct claim_question {
	STAILQ_ENTRY(claim_question) entry;
	struct broker_done done;
	int64_t at; /* clock time of the request */
};
STAILQ_HEAD(claim_questions, claim_question);

enum claim_state {
	CLAIM_TAKEN,    /* nothing is asked */
	CLAIM_WAITING,  /* for its connection */
	CLAIM_ATTACHED, /* the consume is sent, and the beads decide */
	CLAIM_GRANTED   /* the claim was answered OK */
};

struct claim {
	UT_hash_handle hh;
	TAILQ_ENTRY(claim) entry;
	uint64_t id;
	struct amqp_quorum *quorum;    /* borrowed */
	struct amqp_quorum_link *link; /* borrowed; NULL: suspect */
	enum claim_state state;
	struct amqp_raw_channel raw;
	struct beads beads;                  /* since ATTACHED */
	unsigned attaches;                   /* that ended, as the order was not certain */
	int64_t granted_at;                  /* GRANTED: clock time */
	char *queue;                         /* owned; NULL: TAKEN */
	struct timer timer;                  /* the next deadline of its state */
	struct broker_done claimed, dropped; /* claimed.fn NULL: a reclaim */
	uint64_t reclaims; /* the id of the hold that it reclaims; 0: it is a claim of the engine */
	struct beads_memory memory; /* of that hold, or its own if it is suspect */
	/* GRANTED: its channel is gone. Another claim `reclaims` it, and takes its place when it is proved. */
	bool suspect;
	bool drops;     /* the drop is asked, and not answered */
	bool restored;  /* a hold of the successor was restored to it */
	bool removed;   /* a removal is here, unacknowledged */
	bool proved;    /* the release is proved */
	bool stopped;   /* GRANTED: its holder uses the slot no more */
	bool rotates;   /* GRANTED: a rotation follows the next renewal */
	bool uncertain; /* the broker ended the consumer, and may have kept some beads */
	struct claim_questions asked,
	    later; /* checks: answered by the renewal in flight, and by the next */
};

struct amqp_quorum {
	struct broker *broker;           /* borrowed */
	struct amqp_quorum_links *links; /* owned */
	struct claim *by_id;
	TAILQ_HEAD(, claim) claims; /* owned */
	uint64_t serial;
	uint64_t reclaimed;             /* since the start: graces that nobody needed */
	struct amqp_reclaims *reclaims; /* owned */
	struct claim_questions gone; /* questions about claims that ended; the timer answers them */
	struct timer gone_timer;
};

/* NULL: there is no claim with that id. */
struct claim *amqp_claim_find(const struct amqp_quorum *quorum, uint64_t id);
/* TAKEN. The connection counts it already. */
struct claim *amqp_claim_new(
    struct amqp_quorum *quorum, uint64_t id, struct amqp_quorum_link *link);
/* beads_init(), for the version of that server. */
void amqp_claim_begin_beads(struct claim *claim, const struct amqp_link *link);
/* GRANTED, without a connection and a channel: a reclaim is tried until its lease ends. */
void amqp_claim_suspect(struct claim *claim, const struct beads_memory *memory);
/* The answer that the newest proof gives. The channel is not open if the hold is suspect. */
struct broker_reply amqp_claim_proof(const struct claim *claim);
void amqp_question_add(struct claim_questions *questions, struct broker_done done, int64_t at);

#endif
