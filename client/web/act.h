/*
 * The requests of visitors to the daemon: the methods of POST /v1/METHOD, and the questions of GET. Checks the
 * role, logs the changes, and turns the daemon's answers into answers over HTTP. A question that equals one of
 * the last half second gets the same answer. So any number of pages costs the daemon no more than one. Owns
 * the acts and their answers. It knows no connection and no stream.
 */
#ifndef CLIENT_WEB_ACT_H
#define CLIENT_WEB_ACT_H

#include "client/web/feed.h"
#include "client/web/reply.h"
#include "client/web/visitor.h"

struct web_act;
struct acts;

/* answered: called when acts have got their answers, also before act_post() and the others return. */
struct acts *acts_new(struct web_feed *feed, void (*answered)(void *ctx), void *ctx);
/* No act may wait for the daemon, and no user may be left. */
void acts_free(struct acts *acts);

/*
 * POST /v1/METHOD, with its body. The caller is a user of the act until act_leave(). NULL: no request is
 * needed, and *ret has the answer.
 */
struct web_act *act_post(struct acts *acts, const struct visitor_settings *settings,
    const struct visitor *visitor, const char *method, const char *body, size_t len,
    struct reply *ret);
/* GET /v1/locks: name NULL. GET /v1/locks/NAME. */
struct web_act *act_get_locks(struct acts *acts, const char *name, struct reply *ret);
struct web_act *act_get_metrics(struct acts *acts);
struct web_act *act_get_health(struct acts *acts);
/* Without a response while the daemon has not answered. Borrowed. */
const struct reply *act_reply(const struct web_act *act);
/* The act goes on without this user. */
void act_leave(struct web_act *act);

#endif
