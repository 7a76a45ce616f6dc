#include "client/web/share.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "client/tool/watch.h"
#include "client/web/note.h"

#define FRESH_MS 500
/* Answers that are kept, the newest ones. */
#define ANSWERS_MOST 32

struct asker {
	STAILQ_ENTRY(asker) link;
	feed_answer_fn *answer;
	void *ctx; /* borrowed */
};

struct question {
	TAILQ_ENTRY(question) link;
	struct share *share;
	char *key;     /* owned: method and parameters; NULL: nobody else can have the answer */
	int64_t until; /* the answer is fresh; 0: there is none yet */
	int code;
	char *json, *text; /* owned */
	STAILQ_HEAD(, asker) askers;
};

struct share {
	struct feed *feed;                /* borrowed */
	TAILQ_HEAD(, question) questions; /* by age */
	size_t count;
};

struct share *
share_new(struct feed *feed)
{
	struct share *share = web_alloc(sizeof(*share));

	share->feed = feed;
	TAILQ_INIT(&share->questions);
	return share;
}

static void
question_free(struct question *question)
{
	TAILQ_REMOVE(&question->share->questions, question, link);
	question->share->count--;
	free(question->key);
	free(question->json);
	free(question->text);
	free(question);
}

static void
take_answer(void *ctx, int code, const char *json, const char *text)
{
	struct question *question = ctx;
	struct asker *asker;

	question->code = code;
	question->json = json != NULL ? web_have(strdup(json)) : NULL;
	question->text = web_have(strdup(text));
	question->until = watch_now() + FRESH_MS;
	while ((asker = STAILQ_FIRST(&question->askers)) != NULL) {
		STAILQ_REMOVE_HEAD(&question->askers, link);
		asker->answer(asker->ctx, code, json, text);
		free(asker);
	}
}

/* Frees the answers that nobody can have any more. */
static void
sweep(struct share *share, int64_t now)
{
	struct question *question = TAILQ_FIRST(&share->questions), *next;

	for (; question != NULL; question = next) {
		next = TAILQ_NEXT(question, link);
		if (question->until != 0 && (question->key == NULL || now >= question->until ||
						share->count > ANSWERS_MOST))
			question_free(question);
	}
}

static struct question *
find(struct share *share, const char *key)
{
	struct question *question;

	TAILQ_FOREACH (question, &share->questions, link)
		if (question->key != NULL && strcmp(question->key, key) == 0)
			return question;
	return NULL;
}

/* Takes key. NULL: *ret_failure. */
static struct question *
begin(struct share *share, const char *method, const char *params, char *key,
    struct feed_failure *ret_failure)
{
	struct question *question = web_alloc(sizeof(*question));

	*question = (struct question){.share = share, .key = key};
	STAILQ_INIT(&question->askers);
	TAILQ_INSERT_TAIL(&share->questions, question, link);
	share->count++;
	if (feed_ask_start(share->feed, method, params, take_answer, question, ret_failure))
		return question;
	question_free(question);
	return NULL;
}

bool
share_ask(struct share *share, const char *method, const char *params, feed_answer_fn *answer,
    void *ctx, struct feed_failure *ret_failure)
{
	struct question *question;
	struct asker *asker;
	char *key;

	sweep(share, watch_now());
	if (asprintf(&key, "%s %s", method, params) < 0)
		web_have(NULL);
	question = find(share, key);
	if (question == NULL)
		question = begin(share, method, params, key, ret_failure);
	else
		free(key);
	if (question == NULL)
		return false;
	if (question->until != 0) {
		answer(ctx, question->code, question->json, question->text);
		return true;
	}
	asker = web_alloc(sizeof(*asker));
	*asker = (struct asker){.answer = answer, .ctx = ctx};
	STAILQ_INSERT_TAIL(&question->askers, asker, link);
	return true;
}

void
share_forget(struct share *share)
{
	struct question *question;

	TAILQ_FOREACH (question, &share->questions, link) {
		free(question->key);
		question->key = NULL;
	}
}

void
share_free(struct share *share)
{
	while (!TAILQ_EMPTY(&share->questions))
		question_free(TAILQ_FIRST(&share->questions));
	free(share);
}
