/*
 * The questions of lockbroker top: a question that `y` answers, or a line to type. A question keeps
 * the subject that it had when it was asked, whatever the daemon reports meanwhile. Pure: keys in,
 * words out.
 */
#ifndef CLIENT_TOP_ASK_H
#define CLIENT_TOP_ASK_H

#include <stdbool.h>
#include <stddef.h>

#include "client/top/model.h"

/* A key is a character. A key without a character is the negative of its ncurses code. */
#define TOP_KEY(code) (-(code))
#define TOP_KEY_ESCAPE 27

enum top_question {
	ASK_NOTHING,
	ASK_UNLIMITED, /* of a gate: whether to make it unlimited */
	ASK_GATE,      /* whether all clients shall wait */
	ASK_GRANT,
	ASK_DENY,
	ASK_DENY_ALL,
	ASK_EVICT, /* of a holder */
	ASK_SLOTS, /* the user types a number */
	ASK_FILTER /* the user types a word; each key filters */
};

enum top_reply {
	REPLY_OPEN, /* no answer yet */
	REPLY_NO,
	REPLY_YES
};

struct top_ask {
	enum top_question question;
	char name[ROW_NAME_SIZE], waiter[ROW_ID_SIZE];
	char whom[ROW_WORDS_SIZE];
	int busy, waiting;           /* at the time of the question; -1: unknown */
	enum top_panel panel;        /* of ASK_FILTER */
	char typed[TOP_FILTER_SIZE]; /* of ASK_SLOTS and ASK_FILTER */
};

/*
 * Asks about the selection in the model. False: there is nothing to ask about; ret_why (static) is
 * the reason.
 */
bool top_ask_begin(struct top_ask *ask, enum top_question question, const struct top_model *model,
    const char **ret_why);
/*
 * The text of the question for the status line, in so many columns. Long names are cut first; [y/N]
 * is never cut.
 */
void top_ask_words(const struct top_ask *ask, int columns, char *ret, size_t size);
/* Handles one key. REPLY_NO and REPLY_YES end the question, but its subject remains readable. */
enum top_reply top_ask_key(struct top_ask *ask, int key);
/* ASK_SLOTS: the typed number, or LB_UNLIMITED. False: it is no number. */
bool top_ask_slots(const struct top_ask *ask, int *ret);

#endif
