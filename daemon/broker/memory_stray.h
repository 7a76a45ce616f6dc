/*
 * Requests made of a memory_broker on lanes that are gone: answered from the loop, as all others are.
 */
#ifndef BROKER_MEMORY_STRAY_H
#define BROKER_MEMORY_STRAY_H

#include "daemon/base/timers.h"
#include "daemon/broker/broker.h"

struct memory_strays;

struct memory_strays *memory_strays_new(struct timers *timers);
void memory_strays_free(struct memory_strays *strays);
/* Forgets them all, unanswered. May be called from inside an answer. */
void memory_strays_clear(struct memory_strays *strays);
void memory_strays_add(
    struct memory_strays *strays, enum broker_answer answer, struct broker_done done);

#endif
