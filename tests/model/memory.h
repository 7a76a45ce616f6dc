/*
 * The memory of a daemon about a hold whose connection ended (rule 8). It owns nothing. It must not know the
 * other rules.
 */
#ifndef TESTS_MODEL_MEMORY_H
#define TESTS_MODEL_MEMORY_H

#include "tests/model/server.h"

void memory_forget(struct client *k);
/* Its claim or hold ends. */
void memory_remember(struct world *w, struct client *k);
/* Nobody was between that hold and the present claim. */
bool memory_is_next(const struct client *k);
/* The hold is suspect: its lease lasts, and its client has not stopped. */
bool memory_goes_on(const struct client *k);
/* The client of that hold uses the lock no more. */
bool memory_has_stopped(const struct client *k);

#endif
