/*
 * The letters of one memory_broker: its inbox, a queue in the world with a lane of its own to read it
 * by, which is made anew, under another name, each time the side link comes back; and what it asks and
 * answers. memory_broker.c says when there is a link.
 */
#ifndef BROKER_MEMORY_LETTERS_H
#define BROKER_MEMORY_LETTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/broker/memory_broker_inside.h"
#include "daemon/broker/memory_connection.h"

struct memory_letters;

/* ns that the inbox of one who asks stays open; and until one that was lost is opened again. */
#define MEMORY_LETTERS_IDLE (60 * NSEC_PER_SEC)
#define MEMORY_LETTERS_AGAIN (100 * NSEC_PER_MSEC)

/* broker: borrowed, and its timers. */
struct memory_letters *memory_letters_new(struct memory_broker *broker);
/* Forgets all that is on its way. May be called from inside a letter. */
void memory_letters_clear(struct memory_letters *letters);
void memory_letters_free(struct memory_letters *letters);
/* The inbox is open, or to be opened. */
bool memory_letters_want_link(const struct memory_letters *letters);

/* As in broker.h. */
void memory_letters_open(struct memory_letters *letters);
void memory_letters_close(struct memory_letters *letters);
uint64_t memory_letters_ask(struct memory_letters *letters, const char *text);
void memory_letters_reply(struct memory_letters *letters, uint64_t from, const char *text);

/* The link is up, on that connection (borrowed until down). */
void memory_letters_up(struct memory_letters *letters, struct memory_connection *connection);
void memory_letters_down(struct memory_letters *letters);

#endif
