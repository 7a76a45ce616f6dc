/*
 * The connection of lockbroker top to the daemon. It asks `list` and `show` every second, sends the
 * changes that the user wants, and reconnects. It never blocks. Owns its handle. It puts answers
 * into the model.
 */
#ifndef CLIENT_TOP_LINK_H
#define CLIENT_TOP_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lockbroker.h"
#include "client/top/model.h"

/* Limit of unanswered changes. */
#define TOP_ACTIONS_MOST 32

/* An unanswered change, and its subject for the message about it. */
struct top_action {
	int64_t request; /* 0: none */
	char name[ROW_NAME_SIZE], waiter[ROW_ID_SIZE];
};

/* One of the two repeated questions. At most one of each is unanswered. */
struct top_query {
	int64_t request; /* unanswered; 0: none */
	int64_t due;     /* time of the next one */
	char error[256]; /* of the last answer, if it was an error */
};

enum top_link_state {
	TOP_LINK_AWAY, /* reconnects at retry_at */
	TOP_LINK_UP
};

struct top_link {
	struct lb *lb;           /* owned */
	struct top_model *model; /* borrowed */
	const char *path;        /* borrowed; NULL: the default of lb_connect() */
	enum top_link_state state;
	int64_t retry_at;
	int64_t heard_at; /* time of the last answer */
	struct top_query list, show;
	char show_name[ROW_NAME_SIZE]; /* the subject of show */
	char trouble[256];             /* why it is away, or that it is silent; "": no trouble */
	char said[256];                /* result of the user's last change; "": none yet */
	bool said_error;
	struct top_action actions[TOP_ACTIONS_MOST];
};

/* False: out of memory. */
bool top_link_init(struct top_link *link, struct top_model *model, const char *path);
void top_link_done(struct top_link *link);
/*
 * Connects, asks and handles answers, as far as they are due. Returns the time of the next call
 * (watch_now()'s clock) if nothing comes before.
 */
int64_t top_link_turn(struct top_link *link, int64_t now);
/* The user has selected another semaphore: asks for its rows at once. */
void top_link_selected(struct top_link *link, int64_t now);
/*
 * Sends a change; its result becomes a message. params is a JSON object. name and waiter ("": none)
 * are the subject.
 */
void top_link_act(struct top_link *link, const char *method, const char *params, const char *name,
    const char *waiter);
/* The trouble with the data on the screen; "": none. */
const char *top_link_trouble(const struct top_link *link);
/* Replaces that message. */
void top_link_say(struct top_link *link, bool error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
