/*
 * The types of channel.c, which reconnector.c saves and restores. Other files include channel.h.
 */
#ifndef BROKER_CHANNEL_INTERNAL_H
#define BROKER_CHANNEL_INTERNAL_H

#include <uthash.h>

#include "daemon/base/queue.h"
#include "daemon/broker/channel.h"
#include "daemon/broker/internal.h"

enum channel_state {
	CHANNEL_WAITING, /* no number yet: the link is not up, or has none left */
	CHANNEL_FRESH,   /* has a number; channel.open goes out with the first request */
	CHANNEL_OPENING, /* channel.open sent; requests are sent behind it */
	CHANNEL_OPEN,
	CHANNEL_CLOSING, /* channel.close sent; the number is kept until close-ok (else 504) */
	CHANNEL_GONE /* closed by the broker, number given back, its requests are being answered */
};

/* The consumer of a claim, on a channel of requests. */
enum consumer_state {
	CONSUMER_NEVER,
	CONSUMER_ASKED, /* its claim is unanswered */
	CONSUMER_ON,
	CONSUMER_ENDED /* messages for it may still come */
};

struct channel_request {
	TAILQ_ENTRY(channel_request) in_channel, in_order;
	const struct amqp_request *kind; /* constant */
	struct broker_done done;
	int64_t sent_at;
	char *queue;               /* owned; only while WAITING */
	unsigned methods_done;     /* answered methods */
	enum broker_answer answer; /* of a request that is done, or in `orphans` */
};
TAILQ_HEAD(channel_requests, channel_request);

struct channel {
	UT_hash_handle hh;
	TAILQ_ENTRY(channel) in_all, in_idle;
	uint64_t id; /* 0: not taken (idle, closing or raw) */
	enum channel_state state;
	uint16_t number;    /* 0 = none */
	bool put;           /* given back while GONE */
	int64_t closing_at; /* CLOSING: clock time of the close */
	enum consumer_state consumer;
	bool restored;                    /* a hold was restored to it */
	struct amqp_raw_channel *raw;     /* borrowed; NULL = requests and answers */
	struct channel_requests requests; /* unanswered, in order of sending; owned */
};
TAILQ_HEAD(channel_list, channel);

/*
 * The channel numbers of one link. Low numbers are used again and again, so that the tables here
 * and at the broker stay small.
 */
struct numbers {
	unsigned max; /* highest number; 0 = there is no link */
	unsigned used, next;
	struct channel **user_of; /* owned; [max + 1]; NULL = free */
	uint16_t *free_again;     /* owned; stack of free numbers that were used before */
	unsigned free_count;
};

struct amqp_channels {
	const struct broker *broker; /* borrowed */
	enum broker_link which;
	struct amqp_counts *counts; /* borrowed */
	struct amqp_link *link;     /* borrowed; NULL = not up */
	struct channel *by_id;      /* taken channels */
	struct channel_list all;    /* owned */
	struct channel_list idle;   /* most recently used first */
	unsigned idle_count;
	struct channel_requests in_order; /* all unanswered requests, in order of sending */
	struct channel_requests
	    orphans; /* requests on channels that are gone: the timer answers them */
	struct timer orphan_timer;
	uint64_t serial;        /* of the last channel id made */
	uint64_t dead_serial;   /* ids up to this one belong to dead links */
	struct numbers numbers; /* of the link */
	unsigned limit;         /* learned from a 530; 0 = none */
	struct histogram round_trips;
};

/* NULL: no channel with that id is taken. */
struct channel *amqp_channel_find(const struct amqp_channels *channels, uint64_t id);

#endif
