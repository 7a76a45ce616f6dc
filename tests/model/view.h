/*
 * A client's view of its beads: deliveries in their order, and rejects that are out. It owns
 * nothing. It must not know the rules.
 */
#ifndef TESTS_MODEL_VIEW_H
#define TESTS_MODEL_VIEW_H

#include "tests/model/server.h"

struct seen view_take_seen(struct client *k, unsigned at);
struct out view_take_out(struct client *k);

/* The number of beads of a set, and their positions. */
unsigned view_find_set(const struct client *k, unsigned set, uint8_t ret_at[BEADS]);

/* The order of the claimed set after all rejects that are out. Returns the number of its beads. */
unsigned view_order_after(const struct client *k, uint8_t ret_beads[BEADS]);

/* How far the three counts that it knows are behind the counts of now. */
unsigned view_behind(const struct client *k);

#endif
