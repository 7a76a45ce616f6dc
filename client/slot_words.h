/*
 * Slots as people read them: "slot 4", "slots 2-5, 9". What would be too long says how many there are more.
 */
#ifndef CLIENT_SLOT_WORDS_H
#define CLIENT_SLOT_WORDS_H

#include <stddef.h>

struct slot_words {
	char text[160];
	size_t len;
	int first, last; /* the run that is not written yet; 0 = none */
	int count, left_out;
};

/* Start from zero; slots come in any order, and runs are made of those that follow each other. */
void slot_words_add(struct slot_words *words, int slot);
/*
 * Adds those that a member of JSON has: an array of numbers, or of objects with a "slot". NULL has none.
 */
void slot_words_read(struct slot_words *words, const char *json, const char *member);
/*
 * With "slot " or "slots " in front; "" = there are none. `total`: how many there are, if more than were added.
 * Borrowed from words.
 */
const char *slot_words_end(struct slot_words *words, int total);

#endif
