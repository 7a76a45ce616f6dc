/*
 * Who holds a lock, in words short enough for one line, from the answer to `show`. Owns nothing.
 */
#ifndef CLIENT_HOLDERS_H
#define CLIENT_HOLDERS_H

#include <stddef.h>

/* "alice (migration), bob, and 3 more"; "" = nobody, or it is no such answer. */
void holders_words(const char *show_json, char *ret, size_t size);

#endif
