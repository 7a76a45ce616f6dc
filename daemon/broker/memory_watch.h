/*
 * The watches of one memory_broker: consumers in its world while the side link is up, placed anew each
 * time it comes back. A consume takes the nature's delay, a cancel too. Knows no links: memory_broker.c
 * says when there is one.
 */
#ifndef BROKER_MEMORY_WATCH_H
#define BROKER_MEMORY_WATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/broker/broker.h"
#include "daemon/broker/memory_connection.h"
#include "daemon/broker/memory_world.h"

struct memory_watches;

/* broker: borrowed, starts with struct broker_base, hears the news, by those timers (borrowed). */
struct memory_watches *memory_watches_new(
    struct memory_world *world, struct timers *timers, struct broker *broker);
void memory_watches_free(struct memory_watches *watches);
/* Forgets them all, told by nobody. May be called from inside a piece of news. */
void memory_watches_clear(struct memory_watches *watches);

size_t memory_watches_count(const struct memory_watches *watches);
bool memory_watches_any(const struct memory_watches *watches);
/* One that is there already is left alone; so is, by remove, one that is not. */
void memory_watches_add(struct memory_watches *watches, const char *queue);
void memory_watches_remove(struct memory_watches *watches, const char *queue);

/* The link is up, on that connection (borrowed until down): those that wait are placed. */
void memory_watches_up(struct memory_watches *watches, const struct memory_connection *connection);
/* It went: they wait again, and those that were placed hear of it. */
void memory_watches_down(struct memory_watches *watches);

#endif
