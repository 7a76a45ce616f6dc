/*
 * Questions to all daemons: their numbers, and those that wait to be sent, each for BROKER_LETTER_TTL at
 * most.
 */
#ifndef BROKER_LETTER_QUESTIONS_H
#define BROKER_LETTER_QUESTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct letter_questions;

struct letter_question {
	uint64_t number;
	char *text; /* the caller's; NUL-terminated */
	size_t len;
};

struct letter_questions *letter_questions_new(void);
void letter_questions_free(struct letter_questions *questions); /* NULL is fine */
/* Its number, from 1 on. now: clock time. */
uint64_t letter_questions_add(
    struct letter_questions *questions, const char *text, size_t len, int64_t now);
/* The first of those that are still worth sending, which waits no longer. False: none is. */
bool letter_questions_take(
    struct letter_questions *questions, int64_t now, struct letter_question *ret);
/* None waits any more. */
void letter_questions_clear(struct letter_questions *questions);
/* That number was asked. */
bool letter_questions_know(const struct letter_questions *questions, uint64_t number);

#endif
