/*
 * Answers the questions of other daemons: rows, counts, and grants and denials of waiters of this
 * daemon. Grants and denies, too, for the clients of this daemon (view.h), at whatever daemon the
 * waiter is. Owns the questions that are not answered yet. It knows no watches.
 */
#ifndef VIEW_RESPONDER_H
#define VIEW_RESPONDER_H

#include "daemon/view/queries.h"

/* responder_asked() is a queries_asked_fn. */
void responder_asked(
    struct view *view, uint64_t from, const struct daemon_message *message, const char *user);
void responder_free_all(struct view *view);
/* Grants or denies a waiter of this daemon, and logs it. `host` is the host of `uid`. */
enum reason responder_act(
    struct view *view, enum daemon_message_op op, uint64_t waiter, uid_t uid, const char *host);
/* Denies all waiters of that name at this daemon. Returns their number. */
size_t responder_deny_all(struct view *view, const char *name, uid_t uid, const char *host);

#endif
