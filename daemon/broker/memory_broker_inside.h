/*
 * The inside of memory_broker, shared by its files: the seam's operations with the life of the
 * links, and what the simulation asks and does.
 */
#ifndef BROKER_MEMORY_BROKER_INSIDE_H
#define BROKER_MEMORY_BROKER_INSIDE_H

#include "daemon/broker/memory_broker.h"

struct memory_call;
struct memory_connection;
struct memory_letters;
struct memory_lines;
struct memory_strays;
struct memory_watches;

enum broker_phase {
	PHASE_NEW,
	PHASE_STARTED,
	PHASE_STOPPED /* nothing is answered any more */
};

/* A link, through all its connections. */
struct link {
	struct memory_broker *broker; /* borrowed */
	enum broker_link which;
	enum broker_state state;
	/* Owned. The hold link's is there while it is UP; the side link's from its first use on. */
	struct memory_connection *connection;
	struct memory_connection *losing; /* borrowed: its requests are being answered UNKNOWN */
	bool held;                        /* cannot come up until restored */
	int64_t earliest;                 /* not up before that */
	struct timer up;
	struct timer reset; /* the engine wants it anew, for */
	char *reset_why;    /* owned; NULL: it does not */
	struct timer
	    give_up;      /* of a side link that is wanted: its requests have waited long enough */
	uint64_t died_at; /* lanes numbered up to that went with a link */
	char *why;        /* owned; "" while UP */
};

struct memory_broker {
	struct broker_base base;    /* first */
	struct memory_world *world; /* borrowed */
	struct timers *timers;      /* borrowed */
	enum broker_phase phase;
	int heartbeat;
	unsigned lanes_max;
	uint64_t last_lane; /* number of the last lane taken */
	struct link links[2];
	struct memory_strays *strays;   /* owned; requests on lanes that are gone */
	struct memory_watches *watches; /* owned */
	struct memory_lines *lines;     /* owned */
	struct memory_letters *letters; /* owned */
};

static inline struct memory_broker *
memory_of(struct broker *broker)
{
	return (struct memory_broker *)broker;
}

/* The side link is needed: from now on it has a connection, and requests wait in it. */
void memory_link_want(struct link *link);
/* Brings the link up as soon as it may be, if it is wanted. */
void memory_link_schedule(struct link *link);
/* On a lane, or on one that is gone. */
void memory_broker_request(
    struct memory_broker *broker, const struct memory_call *call, struct broker_done done);
/* The number of a lane of the side link that is to be opened. */
uint64_t memory_broker_new_lane(struct memory_broker *broker);

/* The seam's operations on wait lines, and with letters. (memory_broker_post.c) */
void memory_broker_line_join(
    struct broker *broker, const char *queue, int priority, unsigned credit);
void memory_broker_line_leave(struct broker *broker, const char *queue, int priority);
void memory_broker_line_wake(struct broker *broker, const char *queue, int slot);
void memory_broker_line_count(
    struct broker *broker, const char *queue, struct broker_count_done done);
void memory_broker_inbox_open(struct broker *broker);
void memory_broker_inbox_close(struct broker *broker);
uint64_t memory_broker_ask(struct broker *broker, const char *text, size_t len);
void memory_broker_reply_to(struct broker *broker, uint64_t from, const char *text, size_t len);

#endif
