#include "daemon/peer/journal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/peer/journal_change.h"
#include "daemon/peer/requests.h"
#include "protocol/methods.h"

struct hold {
	uint64_t lock, peer;
	char *name;
	int slot;
	uid_t uid;
	pid_t pid;
	int64_t since;
	UT_hash_handle by_lock;
	TAILQ_ENTRY(hold) of_peer;
};

/* The holds of one peer; only while there are some. */
struct holder {
	uint64_t peer;
	TAILQ_HEAD(, hold) holds;
	UT_hash_handle hh;
};

struct journal {
	const struct clock *clock; /* borrowed */
	struct hold *by_lock;      /* owned */
	struct holder *holders;    /* owned */
	struct changes *changes;   /* owned */
};

struct journal *
journal_new(const struct clock *clock)
{
	struct journal *journal = mem_alloc(sizeof(*journal));

	journal->clock = clock;
	journal->changes = changes_new();
	return journal;
}

static struct holder *
holder_find(const struct journal *journal, uint64_t peer)
{
	struct holder *holder;

	HASH_FIND(hh, journal->holders, &peer, sizeof(peer), holder);
	return holder;
}

static void
hold_forget(struct journal *journal, struct hold *hold)
{
	struct holder *holder = holder_find(journal, hold->peer);

	TAILQ_REMOVE(&holder->holds, hold, of_peer);
	if (TAILQ_EMPTY(&holder->holds)) {
		HASH_DELETE(hh, journal->holders, holder);
		free(holder);
	}
	HASH_DELETE(by_lock, journal->by_lock, hold);
	free(hold->name);
	free(hold);
}

void
journal_free(struct journal *journal)
{
	struct hold *hold, *next;

	if (journal == NULL)
		return;
	HASH_ITER (by_lock, journal->by_lock, hold, next)
		hold_forget(journal, hold);
	changes_free(journal->changes);
	free(journal);
}

/* " slot 3", or "" for a hold without one. */
static const char *
slot_words(char buf[24], int slot)
{
	buf[0] = '\0';
	if (slot > 0)
		snprintf(buf, 24, " slot %d", slot);
	return buf;
}

/* say: log_info, or log_warning for a loss. */
static void
hold_log(const struct journal *journal, void (*say)(const char *format, ...), const char *what,
    const struct hold *hold, const char *why)
{
	char slot[24];

	say("%s %s%s: lock %" PRIu64 ", uid %u, pid %d, held %.3f s%s%s", what, hold->name,
	    slot_words(slot, hold->slot), hold->lock, (unsigned)hold->uid, (int)hold->pid,
	    duration_to_seconds(clock_now(journal->clock) - hold->since),
	    why[0] == '\0' ? "" : ", ", why);
}

static void
acquire_requested(const struct conn *conn, const struct method_params *params)
{
	char who[LOG_QUOTE_MAX], why[LOG_QUOTE_MAX], wait[32], create[64] = "";

	if (params->create > 0)
		snprintf(create, sizeof(create), ", creates it with %d slot%s when it is missing",
		    params->create, params->create == 1 ? "" : "s");
	log_info("requested %s: peer %" PRIu64 ", uid %u, pid %d, waits %s%s%s%s%s%s", params->name,
	    conn->id, (unsigned)conn->subject.uid, (int)conn->subject.pid,
	    journal_change_time(wait, params->timeout), create, params->who == NULL ? "" : ", who ",
	    params->who == NULL ? "" : log_quote(who, params->who, strlen(params->who)),
	    params->why == NULL ? "" : ", why ",
	    params->why == NULL ? "" : log_quote(why, params->why, strlen(params->why)));
}

static void
acquire_granted(struct journal *journal, const struct conn *conn, const struct lock_answer *answer)
{
	struct hold *hold = mem_alloc(sizeof(*hold));
	struct holder *holder = holder_find(journal, conn->id);
	char slot[24];

	if (holder == NULL) {
		holder = mem_alloc(sizeof(*holder));
		holder->peer = conn->id;
		TAILQ_INIT(&holder->holds);
		HASH_ADD(hh, journal->holders, peer, sizeof(holder->peer), holder);
	}
	hold->lock = answer->lock;
	hold->peer = conn->id;
	hold->name = mem_strdup(answer->name);
	hold->slot = answer->slot;
	hold->uid = conn->subject.uid;
	hold->pid = conn->subject.pid;
	hold->since = clock_now(journal->clock);
	HASH_ADD(by_lock, journal->by_lock, lock, sizeof(hold->lock), hold);
	TAILQ_INSERT_TAIL(&holder->holds, hold, of_peer);
	log_info("granted %s%s: lock %" PRIu64 ", peer %" PRIu64 ", uid %u, pid %d, waited %.3f s",
	    hold->name, slot_words(slot, hold->slot), hold->lock, hold->peer, (unsigned)hold->uid,
	    (int)hold->pid, duration_to_seconds(answer->waited));
}

static void
acquire_refused(const struct conn *conn, const struct lock_answer *answer)
{
	char text[LOG_QUOTE_MAX];
	const char *words = answer->text == NULL ? "" : answer->text;

	log_info("refused %s: peer %" PRIu64 ", uid %u, pid %d, %s%s%s",
	    answer->name == NULL ? "a lock" : answer->name, conn->id, (unsigned)conn->subject.uid,
	    (int)conn->subject.pid, reason_word(answer->reason), words[0] == '\0' ? "" : ": ",
	    log_quote(text, words, strlen(words)));
}

void
journal_denied(struct journal *journal, const struct conn *conn, const char *method,
    const char *name, const char *why)
{
	(void)journal;
	log_info("denied %s%s%s: peer %" PRIu64 ", uid %u, pid %d: %s", method,
	    name == NULL ? "" : " of ", name == NULL ? "" : name, conn->id,
	    (unsigned)conn->subject.uid, (int)conn->subject.pid, why);
}

/* ---- the ends of holds ---- */

static struct hold *
hold_find(const struct journal *journal, uint64_t lock)
{
	struct hold *hold;

	HASH_FIND(by_lock, journal->by_lock, &lock, sizeof(lock), hold);
	return hold;
}

static void
hold_released(struct journal *journal, uint64_t lock)
{
	struct hold *hold = hold_find(journal, lock);

	if (hold == NULL)
		return;
	hold_log(journal, log_info, "released", hold, "");
	hold_forget(journal, hold);
}

/* ---- requests and their answers ---- */

void
journal_request(struct journal *journal, enum journal_kind kind, const struct conn *conn,
    const struct request *request, const char *method, const struct method_params *params)
{
	switch (kind) {
	case JOURNAL_NOTHING:
	case JOURNAL_RELEASE:
		return;
	case JOURNAL_ACQUIRE:
		acquire_requested(conn, params);
		return;
	case JOURNAL_CHANGE:
		changes_add(journal->changes, conn, request, method, params);
		return;
	case JOURNAL_LOOK:
		look_requested(conn, request, method, params);
		return;
	}
}

void
journal_answer(struct journal *journal, enum journal_kind kind, const struct conn *conn,
    const struct request *request, const char *method, const struct lock_answer *answer)
{
	switch (kind) {
	case JOURNAL_NOTHING:
		return;
	case JOURNAL_ACQUIRE:
		if (answer->reason == REASON_NONE)
			acquire_granted(journal, conn, answer);
		else
			acquire_refused(conn, answer);
		return;
	case JOURNAL_RELEASE:
		if (answer->reason == REASON_NONE)
			hold_released(journal, answer->lock);
		return;
	case JOURNAL_LOOK:
		look_ended(conn, request, method, answer);
		return;
	case JOURNAL_CHANGE:
		changes_end(journal->changes, conn->id, request->number, answer);
		return;
	}
}

void
journal_left(struct journal *journal, uint64_t peer, uint64_t number)
{
	changes_leave(journal->changes, peer, number);
}

void
journal_unheard(
    struct journal *journal, uint64_t peer, uint64_t number, const struct lock_answer *answer)
{
	changes_end(journal->changes, peer, number, answer);
}

void
journal_notice(struct journal *journal, const struct lock_notice *notice)
{
	const char *words = notice->text == NULL ? "" : notice->text;
	char text[LOG_QUOTE_MAX];
	struct hold *hold = hold_find(journal, notice->lock);
	char slot[24];

	if (notice->kind == LOCK_NOTICE_STUCK)
		log_warning(
		    "reserved %s%s: the broker has not answered the claim or the release "
		    "of this slot for two heartbeats; this daemon cannot grant the slot until "
		    "the broker answers, or until this daemon holds no other lock and "
		    "connects again",
		    notice->name, slot_words(slot, notice->slot));
	if (hold == NULL)
		return;
	switch (notice->kind) {
	case LOCK_NOTICE_LOST:
		hold_log(journal, log_warning, "lost", hold,
		    words[0] == '\0' ? reason_word(notice->reason)
				     : log_quote(text, words, strlen(words)));
		hold_forget(journal, hold);
		break;
	case LOCK_NOTICE_REVOKED:
		hold_log(journal, log_info, "revoked", hold, "");
		break;
	case LOCK_NOTICE_VANISHED:
		hold_log(journal, log_info, "vanished and claimed again", hold, "");
		break;
	case LOCK_NOTICE_SUSPECT:
		hold_log(journal, log_info, "suspect", hold,
		    "the broker has not answered for a heartbeat");
		break;
	case LOCK_NOTICE_RESTORED:
		hold_log(journal, log_info, "restored", hold, "the broker has answered again");
		break;
	case LOCK_NOTICE_STUCK:
	case LOCK_NOTICE_LEASE:
	case LOCK_NOTICE_WAITING:
	case LOCK_NOTICE_DRAIN:
	case LOCK_NOTICE_BROKER:
		break;
	}
}

void
journal_gone(struct journal *journal, uint64_t peer)
{
	struct holder *holder;
	struct hold *hold;
	/* The last one takes the holder with it. */
	while ((holder = holder_find(journal, peer)) != NULL) {
		hold = TAILQ_FIRST(&holder->holds);
		hold_log(journal, log_info, "released", hold, "its peer has ended");
		hold_forget(journal, hold);
	}
}
