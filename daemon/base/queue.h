/*
 * The typed lists of sys/queue.h, with the one macro that glibc's copy lacks.
 */
#ifndef BASE_QUEUE_H
#define BASE_QUEUE_H

#include <sys/queue.h>

/* Walks a list whose current element may be removed (and freed) in the body; no other may. */
#ifndef TAILQ_FOREACH_SAFE
#define TAILQ_FOREACH_SAFE(var, head, field, next)                                                 \
	for ((var) = TAILQ_FIRST((head)); (var) && ((next) = TAILQ_NEXT((var), field), 1);         \
	     (var) = (next))
#endif

#endif
