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

#endif
