/*
 * The arguments of options: text to values. Each function returns NULL, or the expected form
 * (static; it follows "want"). In that case *ret is unchanged. Owns nothing.
 */
#ifndef CLIENT_TOOL_OPTION_VALUES_H
#define CLIENT_TOOL_OPTION_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "client/tool/options.h"

/* Decimal, no spaces; `wanted` names the range. */
const char *option_number(const char *text, int least, int most, const char *wanted, int *ret);
/* A number of slots: 0 to 10000 in digits, or "unlimited" (LB_UNLIMITED). */
const char *option_slots(const char *text, int *ret);
/* A duration as in timeout(1), in milliseconds, rounded up. */
const char *option_duration(const char *text, int64_t *ret_ms);
/* A name with or without SIG, or a number. */
const char *option_signal(const char *text, int *ret);
/* The reaction to a loss. may_run false: to a revocation. */
const char *option_reaction(const char *text, bool may_run, struct reaction *ret);
/* The word of a way to hold slots. Sets *ret to an enum lb_claim. */
const char *option_claim(const char *text, int *ret);
/* The word of a kind of lock. Sets *ret to an enum lb_kind. */
const char *option_kind(const char *text, int *ret);
/*
 * A descriptor that is open for writing. From 3 on it becomes close-on-exec, so the child does not
 * get it.
 */
const char *option_descriptor(const char *text, int *ret);

#endif
