/*
 * The inside of amqp_broker: of that file, and of the server in memory, which tests ask what its clients do.
 */
#ifndef BROKER_AMQP_BROKER_INSIDE_H
#define BROKER_AMQP_BROKER_INSIDE_H

#include "daemon/amqp/settings.h"
#include "daemon/base/backoff.h"
#include "daemon/broker/amqp_broker.h"
#include "daemon/broker/side.h"

struct amqp_keeper;

struct amqp_broker {
	struct broker_base base;       /* first: this is a struct broker */
	struct timers *timers;         /* borrowed */
	struct amqp_settings settings; /* owned copy */
	struct amqp_dialer dialer;     /* owned */
	struct jitter jitter;
	struct amqp_keeper *hold, *side;  /* owned */
	struct amqp_side over;            /* what is done over the side link */
	char *cluster;                    /* owned; the first one seen, NULL before */
	char *product, *version;          /* owned; of the hold link's server */
	bool persistent, deletes_by_name; /* that server; both while none was seen */
	bool blocked;
	bool stopped;
	int64_t side_used;      /* clock time of the last use of the side link */
	struct timer side_idle; /* while it is up */
	struct timer side_wait; /* it is needed, and the hold link is not up to say where */
};

static inline struct amqp_broker *
amqp_of(struct broker *broker)
{
	return (struct amqp_broker *)broker;
}

static inline int64_t
amqp_now(const struct amqp_broker *amqp)
{
	return clock_now(timers_clock(amqp->timers));
}

#endif
