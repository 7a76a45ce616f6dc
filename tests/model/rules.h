/*
 * The steps of a client in a world, by the rules of the way `quorum`. It owns no world. Its rules
 * must know only deliveries. Its properties may look into the queue.
 */
#ifndef TESTS_MODEL_RULES_H
#define TESTS_MODEL_RULES_H

#include "tests/model/server.h"

extern const char *const client_name[CLIENTS_MAX];

/* Adds each step that a client can take. */
void rules_client_steps(const struct world *world, unsigned client);

#endif
