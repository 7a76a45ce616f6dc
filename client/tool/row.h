/*
 * One that holds or waits, as `show` and `watch` tell of it: read from JSON member by member, and in words.
 * Owns nothing.
 */
#ifndef CLIENT_TOOL_ROW_H
#define CLIENT_TOOL_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes, with the NUL, of the wire's names, ids and words. */
#define ROW_NAME_SIZE 201
#define ROW_ID_SIZE 65
#define ROW_WORDS_SIZE 257

enum row_state {
	ROW_WAITING,
	ROW_BUSY,      /* holds, as a rule a slot */
	ROW_GRANTED,   /* holds without a slot, let in by an administrator */
	ROW_CANCELLED, /* waited, and was denied or gave up; gone next */
	ROW_REVOKED,   /* holds a slot that was taken out of service */
	ROW_UNKNOWN    /* the slot is busy, and no daemon says by whom */
};
#define ROW_STATES (ROW_UNKNOWN + 1)

struct row {
	enum row_state state;
	char waiter[ROW_ID_SIZE]; /* "" = not known */
	char name[ROW_NAME_SIZE];
	char who[ROW_WORDS_SIZE], why[ROW_WORDS_SIZE], command[ROW_WORDS_SIZE];
	char host[ROW_WORDS_SIZE];
	int slot, position; /* from 1; 0 = none */
	int64_t uid, pid;   /* -1 = not known */
	double age;         /* seconds; -1 = not known */
};

void row_init(struct row *row);
/* One member of a row, as lb_json_each() has it; of others nothing is taken. */
void row_take(struct row *row, const char *member, const char *value);
/* "waiting", "busy", ... Static. */
const char *row_state_word(enum row_state state);
/* Whoever it is: its own word, else what runs there, else the process. */
void row_whom(const struct row *row, char *ret, size_t size);
/* A duration: "7s", "3m05s", "2h05m", "3d07h"; "" = not known. */
void row_age_words(double seconds, char *ret, size_t size);
/* Who holds, from the answer to `show`: "alice (migration), bob, and 3 more"; "" = nobody, or it is none. */
void holders_words(const char *show_json, char *ret, size_t size);

#endif
