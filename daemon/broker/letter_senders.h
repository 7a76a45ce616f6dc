/*
 * Whom letters came from, so that they can be answered: for BROKER_LETTER_TTL, the last
 * LETTER_SENDERS_MAX of them. Only an inbox is answered: a letter says by itself where its reply is to
 * go, and could name any queue there.
 */
#ifndef BROKER_LETTER_SENDERS_H
#define BROKER_LETTER_SENDERS_H

#include <stdbool.h>
#include <stdint.h>

#define LETTER_SENDERS_MAX 256

/* What names of inboxes begin with. */
#define LETTER_INBOX "lockbroker=inbox="

struct letter_senders;

struct letter_sender {
	const char *inbox; /* borrowed until the next letter */
	const char *number;
};

struct letter_senders *letter_senders_new(void);
void letter_senders_free(struct letter_senders *senders); /* NULL is fine */
/* Its id, never used twice; 0: that is no inbox, or no number. now: clock time. */
uint64_t letter_senders_add(
    struct letter_senders *senders, const char *inbox, const char *number, int64_t now);
/* False: it came long ago, or never. */
bool letter_senders_find(
    struct letter_senders *senders, uint64_t from, int64_t now, struct letter_sender *ret);

#endif
