/*
 * Hints that could not be sent yet: each queue and slot once, the newest BROKER_OWED_MAX of them, in the
 * order in which they were first owed.
 */
#ifndef BROKER_OWED_HINTS_H
#define BROKER_OWED_HINTS_H

#include <stdbool.h>
#include <stddef.h>

struct owed_hints;

struct owed_hints *owed_hints_new(void);
void owed_hints_free(struct owed_hints *owed); /* NULL is fine */
size_t owed_hints_count(const struct owed_hints *owed);
void owed_hints_add(struct owed_hints *owed, const char *queue, int slot);
/* The first, which is no longer owed: its queue, the caller's, and slot. NULL: none is. */
char *owed_hints_take(struct owed_hints *owed, int *ret_slot);
void owed_hints_clear(struct owed_hints *owed);

#endif
