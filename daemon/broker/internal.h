/*
 * The broker in the view of the files of this folder. It owns the connections, and the modules that
 * use channels of their own on the auxiliary connection. Each module implements its part of
 * broker.h, and knows nothing of the work of the others. Other folders include broker.h.
 */
#ifndef BROKER_INTERNAL_H
#define BROKER_INTERNAL_H

#include "daemon/amqp/link.h"
#include "daemon/base/backoff.h"
#include "daemon/broker/broker.h"

struct broker {
	struct timers *timers;         /* borrowed */
	struct amqp_settings settings; /* owned copy */
	struct amqp_dialer dialer;     /* owned */
	struct jitter jitter;
	struct broker_events events; /* each NULL: there is no listener for it, or none any more */
	bool stopped;                /* no answer and no event comes after this */
	bool frozen;                 /* see broker_freeze() */

	struct amqp_reconnector *locks, *auxiliary; /* owned */
	struct amqp_channels *channels; /* of the auxiliary connection, which owns them */
	int64_t auxiliary_used;         /* clock time of the last use of the auxiliary connection */
	struct timer auxiliary_idle;    /* while it is up */
	/* limit of the wait for the lock connection, which decides the host */
	struct timer auxiliary_wait;
	bool blocked; /* it publishes nothing: the broker would not read it (connection.blocked) */

	struct amqp_counters *counters; /* owned, as all modules */
	struct amqp_probes *probes;
	struct amqp_directory *directory;
	struct amqp_watches *watches;
	struct amqp_wait_queues *wait_queues;
	struct amqp_hints *hints;
	struct amqp_mailbox *mailbox;
	struct amqp_makers *makers;
	struct amqp_records *records;
	struct amqp_exclusion *exclusion;
	struct amqp_quorum *quorum; /* owned; the connections of holds by quorum */

	/* The rest is of broker.c alone. Of the lock connection, if it is up: others may know, and use it */
	bool ready;
	bool auxiliary_waits; /* it is up, and publishes nothing before the verdict */
	bool test_due;        /* the test begins when the old auxiliary connection has ended */
	bool exclusion_tested;
	char *exclusion_why;     /* owned; NULL or the reason if it is not */
	bool unfit;              /* see broker_info */
	char *cluster;           /* owned; of the first server; NULL before */
	char *product, *version; /* owned; of the lock connection's server */
	/* of that server; assumed while there was none */
	bool persistent, deletes_by_name, hides_queues;
};

static inline int64_t
broker_now(const struct broker *broker)
{
	return clock_now(timers_clock(broker->timers));
}

#endif
