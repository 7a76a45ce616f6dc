/*
 * The requests of visitors to the daemon: the methods of POST /v1/METHOD, and the questions of GET. Checks the
 * role, logs the acts, and turns the daemon's answers into answers over HTTP. It owns no connection and knows
 * no stream.
 */
#ifndef CLIENT_WEB_ACT_H
#define CLIENT_WEB_ACT_H

#include "client/web/feed.h"
#include "client/web/reply.h"
#include "client/web/share.h"
#include "client/web/visitor.h"

struct act {
	struct feed *feed;                       /* borrowed */
	struct share *share;                     /* borrowed */
	const struct visitor_settings *settings; /* borrowed */
	struct visitor visitor;
	/*
	 * Set when there is an answer: then `done` is called, if it came from the daemon. Until then the act
	 * must stay.
	 */
	struct reply reply;
	void (*done)(void *ctx);
	void *ctx; /* borrowed */

	const char *method;
	char *params; /* owned; of a change; NULL: it is a question */
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
