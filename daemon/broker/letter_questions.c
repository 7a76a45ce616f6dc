#include "daemon/broker/letter_questions.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/broker.h"

struct waiting {
	TAILQ_ENTRY(waiting) entry;
	struct letter_question question; /* owned */
	int64_t until;
};

struct letter_questions {
	TAILQ_HEAD(, waiting) all; /* owned; in order */
	uint64_t last;             /* number of the last one */
};

struct letter_questions *
letter_questions_new(void)
{
	struct letter_questions *questions = mem_alloc(sizeof(*questions));

	TAILQ_INIT(&questions->all);
	return questions;
}

static void
waiting_free(struct letter_questions *questions, struct waiting *waiting)
{
	TAILQ_REMOVE(&questions->all, waiting, entry);
	free(waiting->question.text);
	free(waiting);
}

static void
forget_late(struct letter_questions *questions, int64_t now)
{
	struct waiting *waiting;

	while ((waiting = TAILQ_FIRST(&questions->all)) != NULL && waiting->until <= now)
		waiting_free(questions, waiting);
}

uint64_t
letter_questions_add(struct letter_questions *questions, const char *text, size_t len, int64_t now)
{
	struct waiting *waiting = mem_alloc(sizeof(*waiting));

	forget_late(questions, now);
	waiting->question.number = ++questions->last;
	waiting->question.text = mem_alloc(len + 1);
	memcpy(waiting->question.text, text, len);
	waiting->question.len = len;
	waiting->until = now + BROKER_LETTER_TTL;
	TAILQ_INSERT_TAIL(&questions->all, waiting, entry);
	return questions->last;
}

bool
letter_questions_take(struct letter_questions *questions, int64_t now, struct letter_question *ret)
{
	struct waiting *waiting;

	forget_late(questions, now);
	waiting = TAILQ_FIRST(&questions->all);
	if (waiting == NULL)
		return false;
	*ret = waiting->question;
	waiting->question.text = NULL;
	waiting_free(questions, waiting);
	return true;
}

void
letter_questions_clear(struct letter_questions *questions)
{
	struct waiting *waiting;

	while ((waiting = TAILQ_FIRST(&questions->all)) != NULL)
		waiting_free(questions, waiting);
}

bool
letter_questions_know(const struct letter_questions *questions, uint64_t number)
{
	return number > 0 && number <= questions->last;
}

void
letter_questions_free(struct letter_questions *questions)
{
	if (questions == NULL)
		return;
	letter_questions_clear(questions);
	free(questions);
}
