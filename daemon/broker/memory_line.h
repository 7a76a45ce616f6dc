/*
 * The wait lines that one memory_broker has joined: members on lanes of the side link, which join anew
 * each time it comes back, and the hints owed while it is away or there is an alarm. memory_broker.c
 * says when there is a link.
 */
#ifndef BROKER_MEMORY_LINE_H
#define BROKER_MEMORY_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/broker/memory_broker_inside.h"
#include "daemon/broker/memory_connection.h"

struct memory_lines;

/* ns until one that the broker put out of a line (a lane closed, a queue deleted) joins again. */
#define MEMORY_LINE_AGAIN (100 * NSEC_PER_MSEC)
/* The same of one that was refused. */
#define MEMORY_LINE_RARELY (30 * NSEC_PER_SEC)

/* broker: borrowed, and its timers. */
struct memory_lines *memory_lines_new(struct memory_broker *broker);
/* Forgets all members and hints, told by nobody. May be called from inside a piece of news. */
void memory_lines_clear(struct memory_lines *lines);
void memory_lines_free(struct memory_lines *lines);
/* Somebody waits, or hints are owed. */
bool memory_lines_want_link(const struct memory_lines *lines);
size_t memory_lines_count(const struct memory_lines *lines);

void memory_lines_join(
    struct memory_lines *lines, const char *queue, int priority, unsigned credit);
void memory_lines_leave(struct memory_lines *lines, const char *queue, int priority);
void memory_lines_wake(struct memory_lines *lines, const char *queue, int slot);

/* The link is up, on that connection (borrowed until down): members join, what is owed is sent. */
void memory_lines_up(struct memory_lines *lines, struct memory_connection *connection);
/* It goes; its requests are answered next. */
void memory_lines_down(struct memory_lines *lines);
/* They are: members who had joined hear that they are out. */
void memory_lines_tell(struct memory_lines *lines);

#endif
