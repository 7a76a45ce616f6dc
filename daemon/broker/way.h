/*
 * The ways to hold a slot: one row for each, in a block of ways.c. A row has the requests
 * about the holder queue (B), the meanings of their answers, and the facts in which the ways differ. The
 * engine and the administration ask for these facts. They never ask which way it is.
 *
 * A new way is a row here, a block there, a word in protocol/methods.h, and the server in memory.
 */
#ifndef BROKER_WAY_H
#define BROKER_WAY_H

#include "daemon/broker/broker.h"
#include "protocol/methods.h"

struct amqp_request;

/* The answer to a claim also tells how the slot is held. */
struct way_lesson {
	bool known;          /* the slot is held in `way` */
	bool otherwise;      /* the claim is worth another attempt, in `way` */
	enum broker_way way; /* if known */
};

struct way {
	enum method_claim claim_word; /* its word in options and on the wire */
	const char *by_what;          /* "an exclusive queue" */
	const char *how;              /* "by exclusive queues" */
	/* The way of a true mutex, if its claim makes B; else this way itself. */
	enum broker_way of_mutex;
	/* How a probe asks about a B that was held in this way when last seen. */
	enum broker_question_kind question;

	/*
	 * Claims and holds follow beads.h, and not the three requests below, which are NULL. A claim
	 * can wait for a grace. Each hold has a connection and a lease of its own, with a length of
	 * its own, and a fencing number. There is no A: B alone is the slot.
	 */
	bool by_beads;
	/* On the lock connection: claims B, asks whether it is still held, frees it. */
	const struct amqp_request *claim, *check, *drop;
	/* unsure: nothing certain was known about the slot when it was claimed. */
	struct way_lesson (*learn)(const struct broker_reply *reply, bool unsure);
	/* Whether RabbitMQ does them in 0.05 ms, without a change of its database (daemon/lock/engine.h). */
	bool claim_is_cheap, drop_is_cheap;

	/*
	 * On the auxiliary connection: makes a B that exists while nobody holds it, and deletes it
	 * if nobody does. NULL: B exists only while it is held.
	 */
	const struct amqp_request *make, *remove;

	/*
	 * The end of the channel, for whatever cause, ends the hold and frees B. So the hold never
	 * changes its channel, and a question whose refusal closes the channel (about A) is asked on
	 * another one.
	 */
	bool is_channel;
	/*
	 * Only answers about this B extend the lease. Else each answer on the lock connection does,
	 * as RabbitMQ frees B no sooner than the connection.
	 */
	bool own_lease;
	/* A B that is gone is claimed again for the same hold. */
	bool reclaims;
	/* The B of a true mutex outlives the hold so long, ns; 0: it does not */
	int64_t leaves_b;
};

/* The number of ways, in the order of enum broker_way. */
#define WAYS (BROKER_BY_QUORUM + 1)

extern const struct way way_queue, way_consumer, way_mutex_consumer, way_quorum;

static inline const struct way *
way_row(enum broker_way way)
{
	static const struct way *const rows[WAYS] = {
	    [BROKER_BY_QUEUE] = &way_queue,
	    [BROKER_BY_CONSUMER] = &way_consumer,
	    [BROKER_BY_MUTEX_CONSUMER] = &way_mutex_consumer,
	    [BROKER_BY_QUORUM] = &way_quorum,
	};

	return rows[way];
}

/* Whether B exists while nobody holds it. Administration makes and deletes it. */
static inline bool
way_is_durable(enum broker_way way)
{
	return way_row(way)->make != NULL;
}

/* The way of slots with this word. */
enum broker_way way_of_word(enum method_claim word);

#endif
