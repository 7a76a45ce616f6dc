/*
 * What lockbroker top asks before it does something: a question that y answers, or a line to type. It is
 * about whom it was about when it was asked, whatever comes and goes meanwhile. Pure: keys in, words out.
 */
#ifndef CLIENT_TOP_ASK_H
#define CLIENT_TOP_ASK_H

#include <stdbool.h>
#include <stddef.h>

#include "client/top/model.h"

/* Keys are characters; those without one are the negative of what ncurses calls them. */
#define TOP_KEY(code) (-(code))
#define TOP_KEY_ESCAPE 27

enum top_question {
	ASK_NOTHING,
	ASK_UNLIMITED, /* of a gate: whether nobody shall wait */
	ASK_GATE,      /* whether all shall wait */
	ASK_GRANT,
	ASK_DENY,
	ASK_DENY_ALL,
	ASK_SLOTS, /* a number is typed */
	ASK_FILTER /* a word is typed; it filters with every key */
};

enum top_reply {
	REPLY_OPEN, /* not yet */
	REPLY_NO,
	REPLY_YES
};

struct top_ask {
	enum top_question question;
	char name[ROW_NAME_SIZE], waiter[ROW_ID_SIZE];
	char whom[ROW_WORDS_SIZE];
	int busy, waiting;           /* as they were when it was asked; -1 = not known */
	enum top_panel panel;        /* ASK_FILTER */
	char typed[TOP_FILTER_SIZE]; /* ASK_SLOTS, ASK_FILTER */
};

/* About what is selected in the model. False: there is nothing to ask about; ret_why (static) says why. */
bool top_ask_begin(struct top_ask *ask, enum top_question question, const struct top_model *model,
    const char **ret_why);
/*
 * The question as the status line has it, in so many columns: long names are cut first, and [y/N] never is.
 */
void top_ask_words(const struct top_ask *ask, int columns, char *ret, size_t size);
/* One key; the question is over unless it is REPLY_OPEN, but what it was about stays. */
enum top_reply top_ask_key(struct top_ask *ask, int key);
/* ASK_SLOTS: the number typed, or LB_UNLIMITED. False: it is none. */
bool top_ask_slots(const struct top_ask *ask, int *ret);

#endif
