/*
 * The inside of amqp_broker, shared by its files: the links' life with most of the seam's operations, and
 * wait lines and letters.
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

/* The side link is used now: it is brought up, or kept up for a while. */
void amqp_broker_need_side(struct amqp_broker *amqp);

/* The seam's operations on wait lines, and with letters. (amqp_broker_post.c) */
void amqp_broker_line_join(struct broker *broker, const char *queue, int priority, unsigned credit);
void amqp_broker_line_leave(struct broker *broker, const char *queue, int priority);
void amqp_broker_line_wake(struct broker *broker, const char *queue, int slot);
void amqp_broker_line_count(
    struct broker *broker, const char *queue, struct broker_count_done done);
void amqp_broker_inbox_open(struct broker *broker);
void amqp_broker_inbox_close(struct broker *broker);
uint64_t amqp_broker_ask(struct broker *broker, const char *text, size_t len);
void amqp_broker_reply_to(struct broker *broker, uint64_t from, const char *text, size_t len);

#endif
