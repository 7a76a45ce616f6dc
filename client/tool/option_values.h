/*
 * The arguments of options: text to values. Each returns NULL, or what is wanted instead (static, as it
 * follows "want"), and then leaves *ret as it was. Owns nothing.
 */
#ifndef CLIENT_TOOL_OPTION_VALUES_H
#define CLIENT_TOOL_OPTION_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "client/tool/options.h"

/* Decimal, no spaces; `wanted` names the range. */
const char *option_number(const char *text, int least, int most, const char *wanted, int *ret);
/* How many slots: 0 to 10000 in nothing but digits, or "unlimited" (LB_UNLIMITED). */
const char *option_slots(const char *text, int *ret);
/* timeout(1)'s durations, to milliseconds, rounded up. */
const char *option_duration(const char *text, int64_t *ret_ms);
/* A name with or without SIG, or a number. */
const char *option_signal(const char *text, int *ret);
/* What to do at a loss; or, when may_run is false, at a revocation. */
const char *option_reaction(const char *text, bool may_run, struct reaction *ret);
/* The word of a kind of lock, to enum lb_kind. */
const char *option_kind(const char *text, int *ret);
/* A descriptor that is open for writing. From 3 on it becomes close-on-exec: it is not the child's. */
const char *option_descriptor(const char *text, int *ret);

#endif
