/*
 * Watches: clients that are told the rows of all daemons, and each change. Owns the watches. Their
 * functions for clients are in view.h. It knows no engine but its rows.
 */
#ifndef VIEW_WATCH_H
#define VIEW_WATCH_H

#include "daemon/view/queries.h"

struct feed *feed_new(struct view *view);
void feed_free(struct feed *feed);
void feed_changed(struct feed *feed, const struct lock_row *row);

#endif
