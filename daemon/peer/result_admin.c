#include "daemon/peer/result.h"

#include <stdio.h>

#include "protocol/json.h"

/* ---- what changes a semaphore, and its size ---- */

static struct cJSON *
new_named(const struct lock_answer *answer)
{
	struct cJSON *result = json_new_object();

	json_add_string(result, "name", answer->name);
	return result;
}

static void
add_warning(struct cJSON *result, const struct lock_answer *answer)
{
	if (answer->warning != NULL)
		json_add_string(result, "warning", answer->warning);
}

struct cJSON *
result_create(const struct result_facts *facts, const struct lock_answer *answer)
{
	struct cJSON *result = new_named(answer);

	(void)facts;
	json_add_string(result, "kind", lock_kind_word(answer->kind));
	result_add_count(result, "slots", answer->slots);
	add_warning(result, answer);
	return result;
}

struct cJSON *
result_destroy(const struct result_facts *facts, const struct lock_answer *answer)
{
	struct cJSON *result = new_named(answer);

	(void)facts;
	add_warning(result, answer);
	return result;
}

struct cJSON *
result_resize(const struct result_facts *facts, const struct lock_answer *answer)
{
	struct cJSON *result = new_named(answer);

	(void)facts;
	result_add_count(result, "slots", answer->slots);
	result_add_count(result, "target", answer->target);
	add_warning(result, answer);
	return result;
}

struct cJSON *
result_size(const struct result_facts *facts, const struct lock_answer *answer)
{
	struct cJSON *result = new_named(answer);

	(void)facts;
	result_add_count(result, "slots", answer->slots);
	return result;
}

struct cJSON *
result_await(const struct result_facts *facts, const struct lock_answer *answer)
{
	struct cJSON *result = new_named(answer);

	(void)facts;
	result_add_slot(result, answer->slot);
	return result;
}

/* ---- fsck ---- */

static struct cJSON *
new_finding(const struct lock_finding *finding)
{
	struct cJSON *object = json_new_object();
	char text[MESSAGE_ERROR_MAX];

	/* It may quote the broker. */
	message_escape(text, sizeof(text), finding->text == NULL ? "" : finding->text);
	json_add_string(object, "flaw", lock_flaw_word(finding->flaw));
	result_add_slot(object, finding->slot);
	json_add_string(object, "text", text);
	json_add_bool(object, "repaired", finding->repaired);
	return object;
}

/* How many are listed; the rest is counted in `more`. */
static size_t
listed(size_t count, size_t most)
{
	return count < most ? count : most;
}

struct cJSON *
result_fsck(const struct result_facts *facts, const struct lock_answer *answer)
{
	struct cJSON *result = new_named(answer), *findings = json_new_array();
	size_t count = listed(answer->finding_count, RESULT_FINDINGS_MAX);

	(void)facts;
	json_add_bool(result, "clean", answer->finding_count == 0);
	for (size_t i = 0; i < count; i++)
		json_append(findings, new_finding(&answer->findings[i]));
	json_add(result, "findings", findings);
	json_add_integer(result, "more", (int64_t)(answer->finding_count - count));
	return result;
}

/* ---- list ---- */

static struct cJSON *
new_row(const struct lock_row *row)
{
	struct cJSON *object = json_new_object();

	json_add_string(object, "name", row->name);
	result_add_count(object, "slots", row->slots);
	result_add_count(object, "busy", row->busy);
	json_add_bool(object, "exists", row->exists);
	return object;
}

struct cJSON *
result_list(const struct result_facts *facts, const struct lock_answer *answer)
{
	struct cJSON *result = json_new_object(), *semaphores = json_new_array();
	size_t count = 0;

	for (size_t i = 0; i < answer->row_count; i++) {
		const struct lock_row *row = &answer->rows[i];

		if (facts->tells != NULL && !facts->tells(facts->tells_ctx, row->name))
			continue;
		if (count++ < RESULT_ROWS_MAX)
			json_append(semaphores, new_row(row));
	}
	json_add(result, "semaphores", semaphores);
	json_add_integer(result, "more", (int64_t)(count - listed(count, RESULT_ROWS_MAX)));
	return result;
}

/* ---- explain ---- */

static const char *
number_words(char buf[24], int number)
{
	if (number < 0)
		return "an unknown number";
	snprintf(buf, 24, "%d", number);
	return buf;
}

static void
explain_mutex(char *buf, size_t size, const struct lock_explanation *why)
{
	if (why->verdict == LOCK_VERDICT_FREE)
		snprintf(buf, size, "the mutex is free: an acquire gets it");
	else if (why->verdict == LOCK_VERDICT_FULL)
		snprintf(buf, size,
		    "the mutex is held%s: an acquire waits until its holder is gone",
		    why->here > 0 ? " by a peer of this daemon" : "");
	else if (why->verdict == LOCK_VERDICT_ALREADY_EXISTS)
		snprintf(buf, size,
		    "a semaphore has that name, and its administration mutex is the queue of this "
		    "mutex: an acquire is refused");
	else
		snprintf(buf, size, "the broker did not say whether the mutex is held");
}

/* What the verdict means for who wants a slot. */
static void
explain_slots(char *buf, size_t size, const struct lock_explanation *why)
{
	char busy[24], slots[24], here[24];

	switch (why->verdict) {
	case LOCK_VERDICT_FREE:
		snprintf(buf, size, "%s of %s slots are taken: an acquire gets a free one",
		    number_words(busy, why->busy), number_words(slots, why->slots));
		return;
	case LOCK_VERDICT_UNLIMITED:
		snprintf(buf, size, "it is unlimited: an acquire needs no slot");
		return;
	case LOCK_VERDICT_FULL:
		snprintf(buf, size,
		    "all of its slots (%s) are taken, %s of them by peers of this daemon: an "
		    "acquire waits until one is released",
		    number_words(slots, why->slots), number_words(here, why->here));
		return;
	case LOCK_VERDICT_GATE:
		snprintf(buf, size,
		    "it has no slots for the time being: an acquire waits until it is resized");
		return;
	case LOCK_VERDICT_NO_SUCH_LOCK:
		snprintf(buf, size, "there is no such lock: it has to be created first");
		return;
	case LOCK_VERDICT_ALREADY_EXISTS: /* of a mutex alone */
	case LOCK_VERDICT_UNKNOWN:
		break;
	}
	snprintf(buf, size, "the broker did not say which slots there are, or are taken");
}

/* All that is to be said, in one sentence or two. */
static void
add_explanation(struct cJSON *result, const struct result_facts *facts, enum lock_kind kind,
    const struct lock_explanation *why)
{
	char broker[MESSAGE_ERROR_MAX] = "", slots[256] = "", strays[96] = "", text[768];

	/* It may quote the broker. */
	if (facts->hindrance != NULL)
		message_escape(broker, sizeof(broker), facts->hindrance);
	if (why != NULL && kind == LOCK_KIND_MUTEX)
		explain_mutex(slots, sizeof(slots), why);
	else if (why != NULL)
		explain_slots(slots, sizeof(slots), why);
	if (why != NULL && why->strays > 0)
		snprintf(strays, sizeof(strays), "; %d more above a gap do not count (see fsck)",
		    why->strays);
	snprintf(text, sizeof(text), "%s%s%s%s", broker,
	    broker[0] != '\0' && slots[0] != '\0' ? "; " : "", slots, strays);
	json_add_string(result, "text", text);
}

struct cJSON *
result_explain(const struct result_facts *facts, const struct lock_answer *answer)
{
	static const struct lock_explanation unknown = {.verdict = LOCK_VERDICT_UNKNOWN,
	    .slots = -1,
	    .busy = -1,
	    .here = -1,
	    .waiting = -1,
	    .strays = -1};
	const struct lock_explanation *why =
	    answer->explanation != NULL ? answer->explanation : &unknown;
	struct cJSON *result = new_named(answer);

	json_add_string(result, "kind", lock_kind_word(answer->kind));
	if (why->verdict == LOCK_VERDICT_UNKNOWN)
		json_add_null(result, "verdict");
	else
		json_add_string(result, "verdict", lock_verdict_word(why->verdict));
	result_add_count(result, "slots", why->slots);
	result_add_count(result, "busy", why->busy);
	result_add_count(result, "here", why->here);
	result_add_count(result, "waiting", why->waiting);
	result_add_count(result, "strays", why->strays);
	add_explanation(result, facts, answer->kind, answer->explanation);
	return result;
}
