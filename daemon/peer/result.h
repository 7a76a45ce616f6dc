/*
 * The engine's answers and notices as the JSON of the wire (PROTOCOL.md, "Methods",
 * "Notifications"). Pure: values in, trees out. The caller owns the trees.
 */
#ifndef PEER_RESULT_H
#define PEER_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/lock/lock.h"
#include "protocol/message.h"

struct cJSON;

/* Facts that results show besides the answer. */
struct result_facts {
	uint32_t run;   /* drawn at random at the daemon's start; part of every lock's id */
	int64_t now;    /* clock time */
	int heartbeat;  /* seconds, as negotiated with the broker */
	int64_t margin; /* ns */
	/* explain: why an acquire cannot succeed whatever slots are free; NULL: no reason */
	const char *hindrance;
	enum reason hindered; /* the error of that acquire; REASON_NONE without a hindrance */
	/* list: whether the result may have that lock; NULL: all */
	bool (*tells)(const void *ctx, const char *name);
	const void *tells_ctx; /* borrowed */
};

/*
 * Limits of what one result lists. The result has the number left out (`more`, `left`). A list with
 * the longest names stays well below LINE_MAX_OUT.
 */
#define RESULT_ROWS_MAX 10000
#define RESULT_FINDINGS_MAX 1000
#define RESULT_HOLDERS_MAX 1000

struct cJSON *result_acquire(const struct result_facts *facts, const struct lock_answer *answer);
struct cJSON *result_verify(const struct result_facts *facts, const struct lock_answer *answer);
struct cJSON *result_release(const struct result_facts *facts, const struct lock_answer *answer);
struct cJSON *result_create(const struct result_facts *facts, const struct lock_answer *answer);
struct cJSON *result_destroy(const struct result_facts *facts, const struct lock_answer *answer);
struct cJSON *result_resize(const struct result_facts *facts, const struct lock_answer *answer);
struct cJSON *result_size(const struct result_facts *facts, const struct lock_answer *answer);
struct cJSON *result_await(const struct result_facts *facts, const struct lock_answer *answer);
struct cJSON *result_fsck(const struct result_facts *facts, const struct lock_answer *answer);
/* If the answer has no explanation, the members that come from the engine are null. */
struct cJSON *result_explain(const struct result_facts *facts, const struct lock_answer *answer);
/* Without what the view adds. *ret_more: the number of semaphores left out. */
struct cJSON *result_list(
    const struct result_facts *facts, const struct lock_answer *answer, size_t *ret_more);

/*
 * The answer is an error: sets *ret_error and returns its data. NULL: the error has no data of its
 * own.
 */
struct cJSON *result_error(const struct lock_answer *answer, struct message_error *ret_error);

/*
 * Returns the method of the notification (static) and sets its params. NULL: the notice is not for
 * the peer. `id` is that of the waiting request.
 */
const char *result_notice(const struct result_facts *facts, const struct lock_notice *notice,
    const struct message_id *id, struct cJSON **ret_params);
/* A notification of the watch with that id; takes params. */
struct cJSON *result_watched(const struct message_id *id, struct cJSON *params);
/* The broker as in `info`. */
struct cJSON *result_broker(
    const struct broker_info *info, const struct broker_quorum_info *quorum, int64_t silence);
/* The same, as far as `ping` shows it. */
struct cJSON *result_pinged(const struct broker_info *info, int64_t silence);
/* The counts of `info`. */
struct cJSON *result_counts(const struct lock_counts *counts, size_t peers);

#endif
