/* The typed lists of <sys/queue.h>, with the one macro that glibc lacks. */
#ifndef BASE_QUEUE_H
#define BASE_QUEUE_H

#include <sys/queue.h>

/* Visits each element of a list. The body may remove and free the current element, and no other. */
#ifndef TAILQ_FOREACH_SAFE
#define TAILQ_FOREACH_SAFE(var, head, field, next)                                                 \
	for ((var) = TAILQ_FIRST((head)); (var) && ((next) = TAILQ_NEXT((var), field), 1);         \
	     (var) = (next))
#endif

#endif
