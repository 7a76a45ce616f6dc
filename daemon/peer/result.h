/*
 * What the engine answers and says, as the JSON of the wire (PROTOCOL.md, "Methods", "Notifications").
 * Pure: values in, trees out; the caller owns them.
 */
#ifndef PEER_RESULT_H
#define PEER_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/lock/lock.h"
#include "protocol/message.h"

struct cJSON;

/* What results show besides the answer itself. */
struct result_facts {
	uint32_t run;   /* random, drawn at start: a lock's id names this run of the daemon */
	int64_t now;    /* clock time */
	int heartbeat;  /* seconds, as negotiated */
	int64_t margin; /* ns */
	/* explain: what is in an acquire's way whatever slots there are, in words; NULL: nothing */
	const char *hindrance;
	/* list: whether it may tell of that lock; NULL: of all */
	bool (*tells)(const void *ctx, const char *name);
	const void *tells_ctx; /* borrowed */
};

/*
 * How many a result lists at most; how many it leaves out it says (`more`, `left`). With names of the
 * longest kind a list stays well below LINE_MAX_OUT.
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
/* Of an answer without explanation all that the engine would say is null. */
struct cJSON *result_explain(const struct result_facts *facts, const struct lock_answer *answer);
struct cJSON *result_list(const struct result_facts *facts, const struct lock_answer *answer);

/* An answer that is an error: what to say of it, and its data (NULL: none of its own). */
struct cJSON *result_error(const struct lock_answer *answer, struct message_error *ret_error);

/*
 * Notices: the notification's method (static) and its params; NULL for a notice that is not for the
 * peer. `id` is that of the waiting request.
 */
const char *result_notice(const struct result_facts *facts, const struct lock_notice *notice,
    const struct message_id *id, struct cJSON **ret_params);
/* What the watch of that id is told: takes params. */
struct cJSON *result_watched(const struct message_id *id, struct cJSON *params);
/* The broker as `info` shows it. */
struct cJSON *result_broker(const struct broker_info *info);
/* counts of `info`. */
struct cJSON *result_counts(const struct lock_counts *counts, size_t peers);

#endif
