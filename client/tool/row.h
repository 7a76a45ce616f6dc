/*
 * A holder or a waiter as in `show` and `watch`: read from JSON member by member, and in words.
 * Owns nothing.
 */
#ifndef CLIENT_TOOL_ROW_H
#define CLIENT_TOOL_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes with the NUL: names, ids and words of the wire. */
#define ROW_NAME_SIZE 201
#define ROW_ID_SIZE 65
#define ROW_WORDS_SIZE 257

enum row_state {
	ROW_WAITING,
	ROW_BUSY,      /* holds, as a rule with a slot */
	ROW_GRANTED,   /* holds without a slot: an administrator granted it */
	ROW_CANCELLED, /* was denied or gave up; it disappears next */
	ROW_REVOKED,   /* holds a slot that was removed */
	ROW_EVICTED,   /* holds, until the deadline that an administrator has set */
	ROW_UNKNOWN    /* the slot is busy, but no daemon names its holder */
};
#define ROW_STATES (ROW_UNKNOWN + 1)

struct row {
	enum row_state state;
	char waiter[ROW_ID_SIZE]; /* "": unknown */
	char name[ROW_NAME_SIZE];
	char who[ROW_WORDS_SIZE], why[ROW_WORDS_SIZE], command[ROW_WORDS_SIZE];
	char host[ROW_WORDS_SIZE];
	int slot, position; /* from 1; 0: none */
	bool aside;         /* it blocks no slot: granted, or its slot was removed */
	int64_t uid, pid;   /* -1: unknown */
	double age;         /* seconds; -1: unknown */
};

void row_init(struct row *row);
/* Takes one member of a row, as given by lb_json_each(). Ignores members that it does not know. */
void row_take(struct row *row, const char *member, const char *value);
/* The name of a user's number on this host, as ls(1) and ps(1) have it; the number if it has none. */
const char *row_user(const char *uid);
/* "waiting", "busy", ... Static. */
const char *row_state_word(enum row_state state);
/* The row's subject in words: its `who`, else its command, else its process. */
void row_whom(const struct row *row, char *ret, size_t size);
/* A duration: "7s", "3m05s", "2h05m", "3d07h"; "": unknown. */
void row_age_words(double seconds, char *ret, size_t size);
/* The holders in an answer to `show`: "alice (migration), bob, and 3 more"; "": none. */
void holders_words(const char *show_json, char *ret, size_t size);
/*
 * Which of these holders has had a slot, or the mutex, for the longest time. Those that were evicted already
 * come last. *ret_busy: how many there are, with those that no daemon names. False: none can be named.
 */
bool holders_longest(const char *show_json, bool mutex, struct row *ret, int *ret_busy);

#endif
