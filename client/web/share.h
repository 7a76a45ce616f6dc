/*
 * Questions that change nothing, for all visitors together: an equal question joins the one that waits. For
 * half a second it gets the same answer. So any number of pages costs the daemon no more than one. Owns the
 * answers.
 */
#ifndef CLIENT_WEB_SHARE_H
#define CLIENT_WEB_SHARE_H

#include "client/web/feed.h"

struct share;

struct share *share_new(struct feed *feed);
/* No question may wait. */
void share_free(struct share *share);
/* As feed_ask_start(). The answer can also come before this returns. */
bool share_ask(struct share *share, const char *method, const char *params, feed_answer_fn *answer,
    void *ctx, struct feed_failure *ret_failure);
/* Something has changed: the answers so far are for nobody else. */
void share_forget(struct share *share);

#endif
