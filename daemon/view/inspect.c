#include "daemon/view/inspect.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/view/turns.h"
#include "protocol/json.h"

/* A hello that could not be sent is tried again so much later. */
#define HELLO_AGAIN NSEC_PER_SEC
/* Of letters that are not understood, one in so long is logged. */
#define GARBLED_QUIET (60 * NSEC_PER_SEC)

/* A daemon that answers. */
struct known {
	uint32_t run;
	char *host;     /* owned */
	int64_t missed; /* when it first did not answer; 0: it has, as far as it was asked */
	UT_hash_handle hh;
};

/* One that has answered an inquiry. */
struct heard {
	uint32_t run;
	unsigned parts;
	bool last;
	UT_hash_handle hh;
};

struct inquiry {
	uint64_t id;
	int64_t user;
	struct turn turn; /* the first of a user are sent */
	char *text;       /* owned; NULL: it was sent */
	uint64_t asked;   /* the broker's number; 0: it was not sent */
	bool left;        /* nobody is told */
	enum letter_op op;
	struct inspect_done done;
	struct timer deadline;
	struct heard *heard; /* owned */
	UT_hash_handle hh, by_asked;
};

struct inspect {
	struct broker *broker;   /* borrowed */
	struct timers *timers;   /* borrowed */
	struct letter_head head; /* of our letters; its strings are borrowed */
	int64_t timeout;
	inspect_asked_fn *asked;
	void *ctx;
	bool greeted; /* hello was sent */
	struct timer hello;
	struct known *known;             /* owned */
	struct inquiry *inquiries;       /* owned; by id */
	struct inquiry *asked_inquiries; /* by the broker's number */
	struct turns turns;              /* inquiries */
	uint64_t last_id;
	int64_t rolled;  /* when the last roll call ended; INT64_MIN: never */
	int64_t garbled; /* when a letter that was not understood was logged */
	unsigned long garbled_count;
};

static int64_t
now_of(const struct inspect *inspect)
{
	return clock_now(timers_clock(inspect->timers));
}

/* ---- who is there ---- */

static struct known *
known_find(const struct inspect *inspect, uint32_t run)
{
	struct known *known;

	HASH_FIND(hh, inspect->known, &run, sizeof(run), known);
	return known;
}

static void
known_forget(struct inspect *inspect, struct known *known)
{
	HASH_DELETE(hh, inspect->known, known);
	free(known->host);
	free(known);
}

/* A letter came from it. */
static void
known_heard(struct inspect *inspect, const struct letter *letter)
{
	struct known *known = known_find(inspect, letter->run);

	if (letter->run == inspect->head.run)
		return;
	if (!letter->stays) {
		if (known != NULL)
			known_forget(inspect, known);
		return;
	}
	if (known == NULL) {
		if (HASH_CNT(hh, inspect->known) >= INSPECT_HOSTS_MAX)
			return;
		known = mem_alloc(sizeof(*known));
		known->run = letter->run;
		known->host = mem_strdup(letter->host);
		HASH_ADD(hh, inspect->known, run, sizeof(known->run), known);
	}
	known->missed = 0;
}

bool
inspect_knows(const struct inspect *inspect, uint32_t run)
{
	return known_find(inspect, run) != NULL;
}

/* ---- inquiries ---- */

bool
inspect_can_ask(const struct inspect *inspect)
{
	struct broker_info info;

	broker_get_info(inspect->broker, &info);
	return info.side == BROKER_UP && !info.side_blocked;
}

static struct inquiry *
inquiry_find(const struct inspect *inspect, uint64_t id)
{
	struct inquiry *inquiry;

	HASH_FIND(hh, inspect->inquiries, &id, sizeof(id), inquiry);
	return inquiry;
}

static struct heard *
heard_find(const struct inquiry *inquiry, uint32_t run)
{
	struct heard *heard;

	HASH_FIND(hh, inquiry->heard, &run, sizeof(run), heard);
	return heard;
}

static bool
has_answered(const struct inquiry *inquiry, uint32_t run)
{
	const struct heard *heard = heard_find(inquiry, run);

	return heard != NULL && heard->last;
}

static void
inquiry_free(struct inspect *inspect, struct inquiry *inquiry)
{
	struct heard *heard, *next;

	timers_cancel(inspect->timers, &inquiry->deadline);
	HASH_ITER (hh, inquiry->heard, heard, next) {
		HASH_DELETE(hh, inquiry->heard, heard);
		free(heard);
	}
	if (inquiry->asked != 0)
		HASH_DELETE(by_asked, inspect->asked_inquiries, inquiry);
	turns_remove(&inspect->turns, &inquiry->turn);
	HASH_DELETE(hh, inspect->inquiries, inquiry);
	free(inquiry->text);
	free(inquiry);
}

/* One that cannot be sent has its deadline now. */
static void
inquiry_send(struct inspect *inspect, struct inquiry *inquiry)
{
	int64_t now = now_of(inspect);

	inquiry->asked = broker_ask(inspect->broker, inquiry->text, strlen(inquiry->text));
	free(inquiry->text);
	inquiry->text = NULL;
	if (inquiry->asked != 0)
		HASH_ADD(
		    by_asked, inspect->asked_inquiries, asked, sizeof(inquiry->asked), inquiry);
	timers_set(inspect->timers, &inquiry->deadline,
	    inquiry->asked == 0 ? now : now + inspect->timeout);
}

/* Sends those of that user whose turn has come. */
static void
send_first(struct inspect *inspect, int64_t user)
{
	struct inquiry *inquiry;

	for (size_t i = 0; i < INSPECT_USER_MAX; i++) {
		inquiry = turns_of(&inspect->turns, user, i);
		if (inquiry != NULL && inquiry->text != NULL)
			inquiry_send(inspect, inquiry);
	}
}

/* Everybody had his time: who was there and has not answered is missing, and in the end forgotten. */
static void
call_roll(struct inspect *inspect, const struct inquiry *inquiry)
{
	int64_t now = now_of(inspect);
	struct known *known, *next;

	inspect->rolled = now;
	HASH_ITER (hh, inspect->known, known, next) {
		if (has_answered(inquiry, known->run))
			known->missed = 0;
		else if (known->missed == 0)
			known->missed = now;
		else if (now - known->missed >= INSPECT_ROLL)
			known_forget(inspect, known);
	}
}

static void
deadline_passed(void *ctx, uint64_t id)
{
	struct inspect *inspect = ctx;
	struct inquiry *inquiry = inquiry_find(inspect, id);

	assert(inquiry != NULL);
	if (inquiry->done.everybody && inquiry->asked != 0)
		call_roll(inspect, inquiry);
	if (!inquiry->left)
		inquiry->done.over(inquiry->done.ctx, inquiry->done.id);
	inspect_end(inspect, id);
}

uint64_t
inspect_ask(struct inspect *inspect, int64_t user, enum letter_op op, struct cJSON *letter,
    struct inspect_done done)
{
	char *text = letter_text(letter);
	struct inquiry *inquiry;

	if (text == NULL || strlen(text) > BROKER_LETTER_MAX) {
		free(text);
		return 0;
	}
	inquiry = mem_alloc(sizeof(*inquiry));
	inquiry->id = ++inspect->last_id;
	inquiry->user = user;
	inquiry->text = text;
	inquiry->op = op;
	inquiry->done = done;
	timer_init(&inquiry->deadline, deadline_passed, inspect, inquiry->id);
	HASH_ADD(hh, inspect->inquiries, id, sizeof(inquiry->id), inquiry);
	turns_add(&inspect->turns, &inquiry->turn, user, inquiry);
	send_first(inspect, user);
	if (inquiry->text != NULL || inquiry->asked != 0)
		return inquiry->id;
	inquiry_free(inspect, inquiry);
	return 0;
}

void
inspect_end(struct inspect *inspect, uint64_t id)
{
	struct inquiry *inquiry = inquiry_find(inspect, id);
	int64_t user;

	if (inquiry == NULL)
		return;
	user = inquiry->user;
	inquiry_free(inspect, inquiry);
	send_first(inspect, user);
}

void
inspect_leave(struct inspect *inspect, uint64_t id)
{
	struct inquiry *inquiry = inquiry_find(inspect, id);

	if (inquiry != NULL && inquiry->asked != 0)
		inquiry->left = true;
	else
		inspect_end(inspect, id);
}

bool
inspect_is_whole(const struct inspect *inspect, uint64_t id)
{
	const struct inquiry *inquiry = inquiry_find(inspect, id);

	if (inquiry == NULL)
		return true;
	if (inquiry->asked == 0)
		return false;
	if (inspect->rolled == INT64_MIN || now_of(inspect) - inspect->rolled >= INSPECT_ROLL)
		return false;
	for (const struct known *known = inspect->known; known != NULL; known = known->hh.next) {
		if (!has_answered(inquiry, known->run))
			return false;
	}
	return true;
}

bool
inspect_has_answered(const struct inspect *inspect, uint64_t id, uint32_t run)
{
	const struct inquiry *inquiry = inquiry_find(inspect, id);

	return inquiry != NULL && has_answered(inquiry, run);
}

struct cJSON *
inspect_missing(const struct inspect *inspect, uint64_t id)
{
	const struct inquiry *inquiry = inquiry_find(inspect, id);
	struct cJSON *missing = json_new_array();

	for (const struct known *known = inspect->known; known != NULL; known = known->hh.next) {
		if (inquiry == NULL || !has_answered(inquiry, known->run))
			json_append_string(missing, known->host);
	}
	return missing;
}

/* ---- letters in ---- */

void
inspect_pass_over(struct inspect *inspect, const char *user, const char *what)
{
	int64_t now = now_of(inspect);
	char quoted[LOG_QUOTE_MAX];

	inspect->garbled_count++;
	if (inspect->garbled != 0 && now - inspect->garbled < GARBLED_QUIET)
		return;
	inspect->garbled = now;
	log_warning("a daemon message of the broker user %s is ignored: %s; ignored so far: %lu",
	    log_quote(quoted, user, strlen(user)), what, inspect->garbled_count);
}

static bool
read_letter(
    struct inspect *inspect, const struct broker_letter *letter, bool answer, struct letter *ret)
{
	const char *what;

	switch (letter_parse(letter->text, letter->len, inspect->head.naming, ret, &what)) {
	case LETTER_READ:
		if (ret->answer == answer)
			return true;
		letter_done(ret);
		inspect_pass_over(
		    inspect, letter->user, "an answer without a query, or the reverse");
		return false;
	case LETTER_FOREIGN:
		return false;
	case LETTER_GARBLED:
		inspect_pass_over(inspect, letter->user, what);
		return false;
	}
	return false;
}

void
inspect_letter_asked(struct inspect *inspect, const struct broker_letter *letter)
{
	struct letter read;

	if (!read_letter(inspect, letter, false, &read))
		return;
	known_heard(inspect, &read);
	if (read.op != LETTER_HELLO && read.op != LETTER_BYE)
		inspect->asked(inspect->ctx, letter->from, &read, letter->user);
	letter_done(&read);
}

/* Whether the inquiry takes it as a part of that daemon's answer. */
static bool
take_part(struct inquiry *inquiry, const struct letter *letter)
{
	struct heard *heard = heard_find(inquiry, letter->run);

	if (letter->op != inquiry->op)
		return false;
	if (heard == NULL) {
		if (HASH_CNT(hh, inquiry->heard) >= INSPECT_HOSTS_MAX)
			return false;
		heard = mem_alloc(sizeof(*heard));
		heard->run = letter->run;
		HASH_ADD(hh, inquiry->heard, run, sizeof(heard->run), heard);
	}
	if (heard->last || heard->parts >= INSPECT_PARTS_MAX)
		return false;
	heard->parts++;
	heard->last = letter->last;
	return true;
}

void
inspect_letter_replied(struct inspect *inspect, const struct broker_letter *letter)
{
	struct inquiry *inquiry;
	struct letter read;

	HASH_FIND(
	    by_asked, inspect->asked_inquiries, &letter->asked, sizeof(letter->asked), inquiry);
	if (!read_letter(inspect, letter, true, &read))
		return;
	known_heard(inspect, &read);
	if (inquiry != NULL && read.run != inspect->head.run && take_part(inquiry, &read)) {
		if (!inquiry->left)
			inquiry->done.heard(inquiry->done.ctx, inquiry->done.id, &read);
		else if (inspect_is_whole(inspect, inquiry->id))
			inspect_end(inspect, inquiry->id);
	}
	letter_done(&read);
}

void
inspect_unheard(struct inspect *inspect)
{
	inspect->rolled = INT64_MIN;
}

/* ---- letters out ---- */

struct cJSON *
inspect_letter(const struct inspect *inspect, enum letter_op op, bool answer)
{
	return letter_new(&inspect->head, op, answer);
}

bool
inspect_answer(struct inspect *inspect, uint64_t from, struct cJSON *letter)
{
	char *text = letter_text(letter);
	bool fits = text != NULL && strlen(text) <= BROKER_LETTER_MAX;

	if (fits)
		broker_reply_to(inspect->broker, from, text, strlen(text));
	free(text);
	return fits;
}

/* One that asks for no answer. False: it cannot be sent now. */
static bool
tell_all(struct inspect *inspect, enum letter_op op)
{
	char *text = letter_text(inspect_letter(inspect, op, false));
	bool sent = text != NULL && broker_ask(inspect->broker, text, strlen(text)) != 0;

	free(text);
	return sent;
}

static void
say_hello(void *ctx, uint64_t id)
{
	struct inspect *inspect = ctx;

	(void)id;
	inspect->greeted = tell_all(inspect, LETTER_HELLO);
	if (!inspect->greeted)
		timers_set(inspect->timers, &inspect->hello, now_of(inspect) + HELLO_AGAIN);
}

void
inspect_stay(struct inspect *inspect, bool stays)
{
	if (stays == inspect->head.stays)
		return;
	inspect->head.stays = stays;
	if (stays) {
		broker_inbox_open(inspect->broker);
		say_hello(inspect, 0);
		return;
	}
	timers_cancel(inspect->timers, &inspect->hello);
	if (inspect->greeted)
		tell_all(inspect, LETTER_BYE);
	inspect->greeted = false;
	broker_inbox_close(inspect->broker);
}

bool
inspect_stays(const struct inspect *inspect)
{
	return inspect->head.stays;
}

/* ---- lifecycle ---- */

struct inspect *
inspect_new(struct broker *broker, struct timers *timers, const struct letter_head *head,
    int64_t timeout, inspect_asked_fn *asked, void *ctx)
{
	struct inspect *inspect = mem_alloc(sizeof(*inspect));

	inspect->broker = broker;
	inspect->timers = timers;
	inspect->head = *head;
	inspect->timeout = timeout;
	inspect->asked = asked;
	inspect->ctx = ctx;
	inspect->rolled = INT64_MIN;
	turns_init(&inspect->turns);
	timer_init(&inspect->hello, say_hello, inspect, 0);
	return inspect;
}

void
inspect_set_timeout(struct inspect *inspect, int64_t timeout)
{
	inspect->timeout = timeout;
}

void
inspect_free(struct inspect *inspect)
{
	struct inquiry *inquiry, *next;
	struct known *known, *next_known;

	if (inspect == NULL)
		return;
	inspect_stay(inspect, false);
	timers_cancel(inspect->timers, &inspect->hello);
	HASH_ITER (hh, inspect->inquiries, inquiry, next)
		inquiry_free(inspect, inquiry);
	HASH_ITER (hh, inspect->known, known, next_known)
		known_forget(inspect, known);
	free(inspect);
}
