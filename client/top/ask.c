#include "client/top/ask.h"

#include <limits.h>
#include <ncurses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "client/lockbroker.h"
#include "client/tool/option_values.h"
#include "client/tool/text.h"

/* A sentence with two names, whole. */
#define WORDS_SIZE (ROW_NAME_SIZE + ROW_WORDS_SIZE + TOP_FILTER_SIZE + 64)
/* Columns of a name that has to make room for the question. */
#define NAMES_LEAST 8

static bool
is_about_a_row(enum top_question question)
{
	return question == ASK_GRANT || question == ASK_DENY || question == ASK_EVICT;
}

/* Why this row is not one that the question can be about; NULL: it is. */
static const char *
wrong_row(enum top_question question, const struct row *row)
{
	bool waits = row != NULL && row->state == ROW_WAITING;
	bool holds = row != NULL && *row->waiter != '\0' && !waits && row->state != ROW_CANCELLED;

	if (question == ASK_EVICT)
		return holds ? NULL : "the selected row is not a holder";
	return waits ? NULL : "the selected row is not a waiter";
}

static bool
is_about_slots(enum top_question question)
{
	return question == ASK_UNLIMITED || question == ASK_GATE || question == ASK_SLOTS;
}

static bool
is_typed(enum top_question question)
{
	return question == ASK_SLOTS || question == ASK_FILTER;
}

/* Those for the semaphore and those for the mutex: a deny of all is by name. -1: not known. */
static int
waiting_for(const struct top_model *model, const char *name)
{
	int waiting = 0;

	for (size_t i = 0; i < model->semaphores_count; i++) {
		if (strcmp(model->semaphores[i].name, name) != 0)
			continue;
		if (model->semaphores[i].waiting < 0)
			return -1;
		waiting += model->semaphores[i].waiting;
	}
	return waiting;
}

bool
top_ask_begin(struct top_ask *ask, enum top_question question, const struct top_model *model,
    const char **ret_why)
{
	const struct top_semaphore *semaphore = top_model_semaphore(model);
	const struct row *row = top_model_row(model);
	struct top_ask begun = {.question = question, .panel = model->focus};

	if (question == ASK_FILTER) {
		snprintf(begun.typed, sizeof(begun.typed), "%s", model->sight[model->focus].filter);
		*ask = begun;
		return true;
	}
	if (semaphore == NULL) {
		*ret_why = "no semaphore is selected";
		return false;
	}
	if (is_about_slots(question) && semaphore->mutex) {
		*ret_why = "a mutex has no slots";
		return false;
	}
	if (is_about_a_row(question) && (*ret_why = wrong_row(question, row)) != NULL)
		return false;
	begun.waiting = waiting_for(model, semaphore->name);
	if (question == ASK_DENY_ALL && begun.waiting == 0) {
		*ret_why = "no waiters";
		return false;
	}
	snprintf(begun.name, sizeof(begun.name), "%s", semaphore->name);
	begun.busy = semaphore->busy;
	if (is_about_a_row(question)) {
		snprintf(begun.waiter, sizeof(begun.waiter), "%s", row->waiter);
		row_whom(row, begun.whom, sizeof(begun.whom));
	}
	*ask = begun;
	return true;
}

/* The sentence, in which names take no more columns than that. */
static void
sentence(const struct top_ask *ask, int columns, char *ret, size_t size)
{
	char name[ROW_NAME_SIZE], whom[ROW_WORDS_SIZE];

	text_fit(name, sizeof(name), ask->name, columns);
	text_fit(whom, sizeof(whom), ask->whom, columns);
	switch (ask->question) {
	case ASK_NOTHING:
		*ret = '\0';
		return;
	case ASK_UNLIMITED:
		snprintf(ret, size, "%s has no slots. Make it unlimited?", name);
		return;
	case ASK_GATE:
		snprintf(ret, size, "Close %s (0 slots: every client waits)?", name);
		return;
	case ASK_GRANT:
		snprintf(ret, size, "Grant %s to %s at once, without a slot?", name, whom);
		return;
	case ASK_DENY:
		snprintf(ret, size, "Deny %s to %s?", name, whom);
		return;
	case ASK_EVICT:
		snprintf(ret, size, "Evict %s from %s, with 30 s to stop?", whom, name);
		return;
	case ASK_DENY_ALL:
		if (ask->waiting > 0)
			snprintf(ret, size, "Deny %s to %d waiter%s?", name, ask->waiting,
			    ask->waiting == 1 ? "" : "s");
		else
			snprintf(ret, size, "Deny %s to all waiters?", name);
		return;
	case ASK_SLOTS:
		snprintf(ret, size, "Slots of %s: %s_ (0 to 10000, unlimited)", name, ask->typed);
		return;
	case ASK_FILTER:
		snprintf(ret, size, "Filter: %s_", ask->typed);
		return;
	}
}

void
top_ask_words(const struct top_ask *ask, int columns, char *ret, size_t size)
{
	const char *keys = is_typed(ask->question) || ask->question == ASK_NOTHING ? "" : " [y/N]";
	int room = columns - text_columns(keys), names = text_columns(ask->name);
	char whole[WORDS_SIZE];
	size_t len;

	if (text_columns(ask->whom) > names)
		names = text_columns(ask->whom);
	sentence(ask, names, whole, sizeof(whole));
	while (text_columns(whole) > room && names > NAMES_LEAST)
		sentence(ask, --names, whole, sizeof(whole));
	text_fit(ret, size - strlen(keys), whole, room);
	len = strlen(ret);
	snprintf(ret + len, size - len, "%s", keys);
}

/* ---- typing ---- */

static void
type(char typed[TOP_FILTER_SIZE], int key)
{
	char bytes[MB_LEN_MAX + 1];
	mbstate_t state = {0};
	size_t len = strlen(typed), more = wcrtomb(bytes, (wchar_t)key, &state);

	if (key < ' ' || more == (size_t)-1 || len + more >= TOP_FILTER_SIZE)
		return;
	memcpy(typed + len, bytes, more);
	typed[len + more] = '\0';
}

/* The last character, with all bytes of its UTF-8. */
static void
rub_out(char typed[TOP_FILTER_SIZE])
{
	size_t len = strlen(typed);

	while (len > 0 && (typed[len - 1] & 0xc0) == 0x80)
		len--;
	typed[len > 0 ? len - 1 : 0] = '\0';
}

static enum top_reply
key_typed(struct top_ask *ask, int key)
{
	switch (key) {
	case '\r':
	case '\n':
	case TOP_KEY(KEY_ENTER):
		return REPLY_YES;
	case TOP_KEY_ESCAPE:
		return REPLY_NO;
	case '\b':
	case 127:
	case TOP_KEY(KEY_BACKSPACE):
		rub_out(ask->typed);
		return REPLY_OPEN;
	case 'U' & 037:
		ask->typed[0] = '\0';
		return REPLY_OPEN;
	default:
		type(ask->typed, key);
		return REPLY_OPEN;
	}
}

enum top_reply
top_ask_key(struct top_ask *ask, int key)
{
	if (is_typed(ask->question))
		return key_typed(ask, key);
	/* A terminal that gets another size has said nothing. */
	if (key == TOP_KEY(KEY_RESIZE))
		return REPLY_OPEN;
	return key == 'y' || key == 'Y' ? REPLY_YES : REPLY_NO;
}

bool
top_ask_slots(const struct top_ask *ask, int *ret)
{
	return option_slots(ask->typed, ret) == NULL;
}
