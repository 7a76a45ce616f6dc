/*
 * What visitors ask of the daemon: the methods of POST /v1/METHOD, and what is read by GET. Checks the role, logs the
 * acts, and turns the daemon's answers into answers over HTTP. It owns no connection and knows no stream.
 */
#ifndef CLIENT_WEB_ACT_H
#define CLIENT_WEB_ACT_H

#include <stdbool.h>

#include "client/web/feed.h"
#include "client/web/reply.h"
#include "client/web/visitor.h"

struct act {
	struct feed *feed;                       /* borrowed */
	const struct visitor_settings *settings; /* borrowed */
	struct visitor visitor;
	/* Set when there is an answer. `done` is called if that was later than act_*(). */
	struct reply reply;
	void (*done)(void *ctx);
	void *ctx; /* borrowed */

	bool waiting; /* for the daemon; the act must not be freed until then */
	const char *method;
	char *params; /* owned; of an act that is logged; NULL: it is not */
};

/* POST /v1/METHOD, with its body. */
void act_post(struct act *act, const char *method, const char *body, size_t len);
/* GET /v1/locks: name NULL. GET /v1/locks/NAME. */
void act_get_locks(struct act *act, const char *name);
void act_get_metrics(struct act *act);
void act_get_health(struct act *act);
/* GET /v1/session. */
void act_get_session(struct act *act);

#endif
