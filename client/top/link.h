/*
 * The daemon behind lockbroker top: asks `list` and `show` every second, does what the user wants, and connects
 * anew when the daemon is gone. Never blocks. Owns its handle; puts what it hears into the model.
 */
#ifndef CLIENT_TOP_LINK_H
#define CLIENT_TOP_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lockbroker.h"
#include "client/top/model.h"

/* As many changes can be on their way at a time. */
#define TOP_ACTIONS_MOST 32

/* A change on its way; the rest is for what comes of it. */
struct top_action {
	int64_t request; /* 0 = none */
	char name[ROW_NAME_SIZE], waiter[ROW_ID_SIZE];
};

/* One of the two questions that are asked again and again, one at a time. */
struct top_query {
	int64_t request; /* on its way; 0 = none */
	int64_t due;     /* when it is wanted next */
	char error[256]; /* the last answer, when that was one */
};

enum top_link_state {
	TOP_LINK_AWAY, /* connects anew at retry_at */
	TOP_LINK_UP
};

struct top_link {
	struct lb *lb;           /* owned */
	struct top_model *model; /* borrowed */
	const char *path;        /* borrowed; NULL = as lb_connect() */
	enum top_link_state state;
	int64_t retry_at;
	int64_t heard_at; /* when the daemon last answered */
	struct top_query list, show;
	char show_name[ROW_NAME_SIZE]; /* whom show is about */
	char trouble[256];             /* why it is away, or that it is silent; "" = all is well */
	char said[256];                /* what came of what the user wanted; "" = nothing yet */
	bool said_error;
	struct top_action actions[TOP_ACTIONS_MOST];
};

/* False: out of memory. */
bool top_link_init(struct top_link *link, struct top_model *model, const char *path);
void top_link_done(struct top_link *link);
/*
 * Connects and asks when it is time, and heeds what came. When it is to be called again at the latest
 * (watch_now()'s clock), should nothing come before.
 */
int64_t top_link_turn(struct top_link *link, int64_t now);
/* Another semaphore is selected: its rows are wanted at once. */
void top_link_selected(struct top_link *link, int64_t now);
/*
 * Changes something; what comes of it is said. params is a JSON object; name and waiter ("" = none) are whom it
 * is about.
 */
void top_link_act(struct top_link *link, const char *method, const char *params, const char *name,
    const char *waiter);
/* What is wrong with the data on the screen; "" = nothing. */
const char *top_link_trouble(const struct top_link *link);
/* Says something in its stead. */
void top_link_say(struct top_link *link, bool error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
