#include "daemon/peer/result.h"

#include <stdio.h>

#include "daemon/view/wire.h"
#include "protocol/duration.h"
#include "protocol/json.h"

/*
 * Contents:
 *	Locks: acquire, verify, release: a hold, its lease and its fence.
 *	Changes: create, destroy, resize; size and await.
 *	Fsck: findings, and what was repaired.
 *	List: the semaphores of the directory.
 *	Explain: why an acquire waits or fails, in words.
 *	Errors: result_error(): a refusal and its data.
 *	Notices: result_notice(): notifications to a client.
 *	The daemon: broker and counts, for info and ping.
 */

/* ---- locks ---- */

static void
result_add_lock(struct cJSON *object, const struct result_facts *facts, uint64_t lock)
{
	char id[WIRE_ID_SIZE];

	json_add_string(object, "lock", wire_id_write(id, facts->run, lock));
}

/* A slot, or null for 0. */
static void
result_add_slot(struct cJSON *object, int slot)
{
	if (slot > 0)
		json_add_integer(object, "slot", slot);
	else
		json_add_null(object, "slot");
}

/*
 * A number as lock.h has them: null for -1, which is not known, and "unlimited" for LOCK_UNLIMITED.
 */
static void
result_add_count(struct cJSON *object, const char *name, int count)
{
	if (count == LOCK_UNLIMITED)
		json_add_string(object, name, "unlimited");
	else if (count >= 0)
		json_add_integer(object, name, count);
	else
		json_add_null(object, name);
}

static struct cJSON *
result_new_hold(const struct result_facts *facts, const struct lock_answer *answer)
{
	struct cJSON *result = json_new_object();

	result_add_lock(result, facts, answer->lock);
	json_add_string(result, "name", answer->name);
	json_add_string(result, "kind", lock_kind_word(answer->kind));
	result_add_slot(result, answer->slot);
	return result;
}

static void
result_add_safe(
    struct cJSON *result, const struct result_facts *facts, const struct lock_answer *answer)
{
	if (answer->safe_until == 0) {
		json_add_null(result, "safe_for");
		json_add_null(result, "safe_until");
		return;
	}
	json_add_seconds(result, "safe_for", answer->safe_until - facts->now);
	json_add_seconds(result, "safe_until", answer->safe_until);
}

/* The lease of a hold by quorum has a length of its own. Clients of 0.1 compute it from the first two. */
static void
result_add_lease(
    struct cJSON *result, const struct result_facts *facts, const struct lock_answer *answer)
{
	int64_t grace = answer->grace, length = answer->lease;
	struct cJSON *lease = json_new_object();

	if (grace != 0) {
		json_add_integer(lease, "heartbeat", grace / 2 / NSEC_PER_SEC);
		json_add_seconds(lease, "margin", grace - length);
		json_add_seconds(lease, "length", length);
		json_add_seconds(lease, "renewal", length / 5);
	} else {
		json_add_integer(lease, "heartbeat", facts->heartbeat);
		json_add_seconds(lease, "margin", facts->margin);
		json_add_seconds(
		    lease, "length", 2 * facts->heartbeat * NSEC_PER_SEC - facts->margin);
		json_add_seconds(lease, "renewal", facts->heartbeat * NSEC_PER_SEC / 3);
	}
	json_add(result, "lease", lease);
}

static void
result_add_fence(struct cJSON *result, const struct lock_answer *answer)
{
	if (answer->fence == 0)
		json_add_null(result, "fence");
	else
		json_add_integer(result, "fence", (int64_t)answer->fence);
}

struct cJSON *
result_verify(const struct result_facts *facts, const struct lock_answer *answer)
{
	struct cJSON *result = result_new_hold(facts, answer);

	result_add_safe(result, facts, answer);
	result_add_fence(result, answer);
	return result;
}

struct cJSON *
result_acquire(const struct result_facts *facts, const struct lock_answer *answer)
{
	struct cJSON *result = result_new_hold(facts, answer);

	json_add_seconds(result, "waited", answer->waited);
	result_add_safe(result, facts, answer);
	if (answer->safe_until == 0)
		json_add_null(result, "lease");
	else
		result_add_lease(result, facts, answer);
	result_add_fence(result, answer);
	return result;
}

struct cJSON *
result_release(const struct result_facts *facts, const struct lock_answer *answer)
{
	struct cJSON *result = json_new_object();

	result_add_lock(result, facts, answer->lock);
	return result;
}

/* ---- changes ---- */

static struct cJSON *
result_new_named(const struct lock_answer *answer)
{
	struct cJSON *result = json_new_object();

	json_add_string(result, "name", answer->name);
	return result;
}

static void
result_add_warning(struct cJSON *result, const struct lock_answer *answer)
{
	if (answer->warning != NULL)
		json_add_string(result, "warning", answer->warning);
}

struct cJSON *
result_create(const struct result_facts *facts, const struct lock_answer *answer)
{
	struct cJSON *result = result_new_named(answer);

	(void)facts;
	json_add_string(result, "kind", lock_kind_word(answer->kind));
	result_add_count(result, "slots", answer->slots);
	result_add_warning(result, answer);
	return result;
}

struct cJSON *
result_destroy(const struct result_facts *facts, const struct lock_answer *answer)
{
	struct cJSON *result = result_new_named(answer);

	(void)facts;
	result_add_warning(result, answer);
	return result;
}

struct cJSON *
result_resize(const struct result_facts *facts, const struct lock_answer *answer)
{
	struct cJSON *result = result_new_named(answer);

	(void)facts;
	result_add_count(result, "slots", answer->slots);
	result_add_count(result, "target", answer->target);
	result_add_warning(result, answer);
	return result;
}

struct cJSON *
result_size(const struct result_facts *facts, const struct lock_answer *answer)
{
	struct cJSON *result = result_new_named(answer);

	(void)facts;
	result_add_count(result, "slots", answer->slots);
	return result;
}

struct cJSON *
result_await(const struct result_facts *facts, const struct lock_answer *answer)
{
	struct cJSON *result = result_new_named(answer);

	(void)facts;
	result_add_slot(result, answer->slot);
	return result;
}

/* ---- fsck ---- */

static struct cJSON *
result_new_finding(const struct lock_finding *finding)
{
	struct cJSON *object = json_new_object();
	char text[MESSAGE_ERROR_MAX];

	/* It may quote the broker. */
	message_escape(text, sizeof(text), finding->text == NULL ? "" : finding->text);
	json_add_string(object, "problem", lock_problem_word(finding->problem));
	result_add_slot(object, finding->slot);
	json_add_string(object, "text", text);
	json_add_bool(object, "repaired", finding->repaired);
	return object;
}

/* How many are listed; the rest is counted in `more`. */
static size_t
result_listed(size_t count, size_t most)
{
	return count < most ? count : most;
}

struct cJSON *
result_fsck(const struct result_facts *facts, const struct lock_answer *answer)
{
	struct cJSON *result = result_new_named(answer), *findings = json_new_array();
	struct cJSON *holders = json_new_array(), *holder;
	size_t count = 0, extra = 0;

	(void)facts;
	for (size_t i = 0; i < answer->finding_count; i++) {
		const struct lock_finding *finding = &answer->findings[i];

		/* The holder of a removed slot works on. That is no problem. */
		if (finding->problem != LOCK_PROBLEM_ORPHAN) {
			if (count++ < RESULT_FINDINGS_MAX)
				json_append(findings, result_new_finding(finding));
		} else if (extra++ < RESULT_FINDINGS_MAX) {
			holder = json_new_object();
			result_add_slot(holder, finding->slot);
			json_append(holders, holder);
		}
	}
	json_add_bool(result, "clean", count == 0);
	json_add(result, "findings", findings);
	json_add_integer(result, "converted", answer->converted);
	json_add_string(result, "claim", lock_claim_word(answer->claim));
	json_add_integer(
	    result, "more", (int64_t)(count - result_listed(count, RESULT_FINDINGS_MAX)));
	json_add_integer(result, "extra", (int64_t)extra);
	json_add(result, "holders", holders);
	return result;
}

/* ---- list ---- */

static struct cJSON *
result_new_row(const struct lock_listed *row)
{
	struct cJSON *object = json_new_object();

	json_add_string(object, "name", row->name);
	result_add_count(object, "slots", row->slots);
	result_add_count(object, "busy", row->busy);
	json_add_bool(object, "exists", row->exists);
	json_add_string(object, "claim", lock_claim_word(row->claim));
	return object;
}

struct cJSON *
result_list(const struct result_facts *facts, const struct lock_answer *answer, size_t *ret_more)
{
	struct cJSON *result = json_new_object(), *semaphores = json_new_array();
	size_t count = 0;

	for (size_t i = 0; i < answer->row_count; i++) {
		const struct lock_listed *row = &answer->rows[i];

		if (facts->tells != NULL && !facts->tells(facts->tells_ctx, row->name))
			continue;
		if (count++ < RESULT_ROWS_MAX)
			json_append(semaphores, result_new_row(row));
	}
	json_add(result, "semaphores", semaphores);
	*ret_more = count - result_listed(count, RESULT_ROWS_MAX);
	return result;
}

/* ---- explain ---- */

static const char *
explain_number_words(char buf[24], int number)
{
	if (number < 0)
		return "an unknown number";
	snprintf(buf, 24, "%d", number);
	return buf;
}

/* The part of the busy slots that this daemon's clients hold. */
static const char *
explain_here_words(char buf[24], const struct lock_explanation *why)
{
	if (why->here == 0)
		return "none";
	return why->here > 0 && why->here == why->busy ? "all"
						       : explain_number_words(buf, why->here);
}

static void
explain_mutex(char *buf, size_t size, const struct lock_explanation *why)
{
	if (why->verdict == LOCK_VERDICT_FREE)
		snprintf(buf, size, "the mutex is free: an acquire gets it");
	else if (why->verdict == LOCK_VERDICT_FULL)
		snprintf(buf, size,
		    "the mutex is held%s: an acquire waits until its holder releases it",
		    why->here > 0 ? " by a client of this daemon" : "");
	else if (why->unreachable > 0)
		snprintf(buf, size,
		    "the node of the mutex's queue cannot be reached, so the broker does not say "
		    "whether it is busy");
	else if (why->verdict == LOCK_VERDICT_ALREADY_EXISTS)
		snprintf(buf, size,
		    "a semaphore has this name and uses the same queue: an acquire is refused");
	else
		snprintf(buf, size, "the broker did not say whether the mutex is busy");
}

/* The meaning of the verdict for a waiter for a slot. */
static void
explain_slots(char *buf, size_t size, const struct lock_explanation *why)
{
	char busy[24], slots[24], here[24];

	switch (why->verdict) {
	case LOCK_VERDICT_FREE:
		snprintf(buf, size, "%s of %s slots are busy: an acquire gets a free one",
		    explain_number_words(busy, why->busy), explain_number_words(slots, why->slots));
		return;
	case LOCK_VERDICT_UNLIMITED:
		snprintf(buf, size, "it is unlimited: an acquire needs no slot");
		return;
	case LOCK_VERDICT_FULL:
		snprintf(buf, size,
		    "%s of %s slots are busy, %s held by clients of this daemon: an acquire waits "
		    "until one is released",
		    explain_number_words(busy, why->busy), explain_number_words(slots, why->slots),
		    explain_here_words(here, why));
		return;
	case LOCK_VERDICT_GATE:
		snprintf(buf, size, "it has 0 slots: an acquire waits until it is resized");
		return;
	case LOCK_VERDICT_NO_SUCH_LOCK:
		snprintf(buf, size, "the lock does not exist: it must be created first");
		return;
	case LOCK_VERDICT_ALREADY_EXISTS: /* of a mutex alone */
	case LOCK_VERDICT_UNKNOWN:
		break;
	}
	snprintf(buf, size, "the broker did not say which slots exist, or which are busy");
}

/* How the slots are held, behind the rest. "": not known, or there are none. */
static const char *
explain_claim_words(char buf[80], enum lock_claim claim)
{
	const char *how = lock_claim_how(claim);

	buf[0] = '\0';
	if (how != NULL)
		snprintf(buf, 80, "; its slots are held %s%s", how,
		    claim == LOCK_CLAIM_MIXED ? " (see fsck)" : "");
	return buf;
}

/* All that is to be said, in one sentence or two. */
static void
explain_add_explanation(struct cJSON *result, const struct result_facts *facts, enum lock_kind kind,
    const struct lock_explanation *why)
{
	char broker[MESSAGE_ERROR_MAX] = "", slots[256] = "", uncounted[96] = "";
	char unreachable[112] = "", extra[80] = "", claim[80], text[1056];
	bool has_slots = why != NULL && kind != LOCK_KIND_MUTEX;

	/* It may quote the broker. */
	if (facts->hindrance != NULL)
		message_escape(broker, sizeof(broker), facts->hindrance);
	if (why != NULL && kind == LOCK_KIND_MUTEX)
		explain_mutex(slots, sizeof(slots), why);
	else if (why != NULL)
		explain_slots(slots, sizeof(slots), why);
	if (why != NULL && why->uncounted > 0)
		snprintf(uncounted, sizeof(uncounted),
		    "; %d more slots above a gap do not count (see fsck)", why->uncounted);
	if (has_slots && why->unreachable > 0)
		snprintf(unreachable, sizeof(unreachable),
		    "; the holder queues of %d cannot be reached, so these slots count as busy",
		    why->unreachable);
	if (why != NULL && why->extra > 0)
		snprintf(extra, sizeof(extra),
		    "; %d holder%s of removed slots, or without a slot, still work%s", why->extra,
		    why->extra == 1 ? "" : "s", why->extra == 1 ? "s" : "");
	snprintf(text, sizeof(text), "%s%s%s%s%s%s%s", broker,
	    broker[0] != '\0' && slots[0] != '\0' ? "; " : "", slots, extra, unreachable, uncounted,
	    has_slots ? explain_claim_words(claim, why->claim) : "");
	json_add_string(result, "text", text);
}

/* The error of an acquire that does not wait; null: it would be granted, or that is not known. */
static void
explain_add_reason(
    struct cJSON *result, const struct result_facts *facts, enum lock_verdict verdict)
{
	enum reason reason = facts->hindered;

	if (reason == REASON_NONE && (verdict == LOCK_VERDICT_FULL || verdict == LOCK_VERDICT_GATE))
		reason = REASON_WOULD_BLOCK;
	else if (reason == REASON_NONE && verdict == LOCK_VERDICT_NO_SUCH_LOCK)
		reason = REASON_NO_SUCH_LOCK;
	else if (reason == REASON_NONE && verdict == LOCK_VERDICT_ALREADY_EXISTS)
		reason = REASON_ALREADY_EXISTS;
	if (reason == REASON_NONE)
		json_add_null(result, "reason");
	else
		json_add_string(result, "reason", reason_word(reason));
}

struct cJSON *
result_explain(const struct result_facts *facts, const struct lock_answer *answer)
{
	static const struct lock_explanation unknown = {.verdict = LOCK_VERDICT_UNKNOWN,
	    .slots = -1,
	    .busy = -1,
	    .here = -1,
	    .waiting = -1,
	    .uncounted = -1,
	    .extra = -1};
	const struct lock_explanation *why =
	    answer->explanation != NULL ? answer->explanation : &unknown;
	struct cJSON *result = result_new_named(answer);

	json_add_string(result, "kind", lock_kind_word(answer->kind));
	if (why->verdict == LOCK_VERDICT_UNKNOWN)
		json_add_null(result, "verdict");
	else
		json_add_string(result, "verdict", lock_verdict_word(why->verdict));
	result_add_count(result, "slots", why->slots);
	result_add_count(result, "busy", why->busy);
	result_add_count(result, "here", why->here);
	result_add_count(result, "waiting", why->waiting);
	result_add_count(result, "uncounted", why->uncounted);
	result_add_count(result, "extra", why->extra);
	json_add_string(result, "claim", lock_claim_word(why->claim));
	explain_add_reason(result, facts, why->verdict);
	explain_add_explanation(result, facts, answer->kind, answer->explanation);
	return result;
}

/* ---- errors ---- */

/* Whether an error of that reason tells the size; of those that are about slots, more. */
static bool
result_says_size(enum reason reason)
{
	return reason == REASON_WOULD_BLOCK || reason == REASON_TIMEOUT ||
	       reason == REASON_ALREADY_EXISTS;
}

/* Slots with holders: how many there are, and which (the first of them). */
static void
result_add_held(struct cJSON *object, const char *name, const int *held, size_t count)
{
	struct cJSON *holders = json_new_array(), *holder;

	json_add_integer(object, "left", (int64_t)count);
	for (size_t i = 0; i < count && i < RESULT_HOLDERS_MAX; i++) {
		holder = json_new_object();
		result_add_slot(holder, held[i]);
		json_append(holders, holder);
	}
	json_add(object, name, holders);
}

struct cJSON *
result_error(const struct lock_answer *answer, struct message_error *ret_error)
{
	const char *text = answer->text, *prefix = "";
	struct cJSON *data = json_new_object();
	char words[MESSAGE_ERROR_MAX];

	/* The broker's own words would read as a refusal of the client's user. */
	if (text == NULL || text[0] == '\0')
		text = reason_message(answer->reason);
	else if (answer->reason == REASON_BROKER_REFUSED)
		prefix = "the broker refused the daemon: ";
	if (answer->free_in != 0)
		snprintf(words, sizeof(words),
		    "%s; slot %d is free in %.0f s: its last holder did not end cleanly", text,
		    answer->slot, duration_to_seconds(answer->free_in));
	else
		snprintf(words, sizeof(words), "%s%s", prefix, text);
	/* The broker's words may be any bytes; those of the wire are printable. */
	*ret_error = (struct message_error){.reason = answer->reason};
	message_escape(ret_error->text, sizeof(ret_error->text), words);
	if (answer->reason == REASON_INVALID_PARAMS && answer->parameter != NULL)
		message_escape(
		    ret_error->parameter, sizeof(ret_error->parameter), answer->parameter);
	if (result_says_size(answer->reason))
		result_add_count(data, "slots", answer->slots);
	if (answer->reason == REASON_WOULD_BLOCK || answer->reason == REASON_TIMEOUT) {
		result_add_count(data, "busy", answer->busy);
		result_add_count(data, "waiting", answer->waiting);
	}
	if (answer->free_in != 0)
		json_add_seconds(data, "free_in", answer->free_in);
	if (answer->denied)
		json_add_bool(data, "denied", true);
	if (answer->target != -1)
		result_add_count(data, "target", answer->target);
	if (answer->unchanged &&
	    (answer->reason == REASON_BROKER_UNAVAILABLE ||
		answer->reason == REASON_BROKER_BLOCKED || answer->reason == REASON_BROKER_REFUSED))
		json_add_bool(data, "changed", false);
	if (answer->held != NULL)
		result_add_held(data, "holders", answer->held, answer->held_count);
	if (answer->warning != NULL)
		json_add_string(data, "warning", answer->warning);
	return data;
}

/* ---- notices ---- */

static void
result_add_id(struct cJSON *object, const struct message_id *id)
{
	if (id->kind == MESSAGE_ID_INTEGER)
		json_add_integer(object, "id", id->integer);
	else
		json_add_string(object, "id", id->string);
}

struct cJSON *
result_watched(const struct message_id *id, struct cJSON *params)
{
	struct cJSON *all = json_new_object();

	result_add_id(all, id);
	json_add_members(all, params);
	return all;
}

const char *
result_notice(const struct result_facts *facts, const struct lock_notice *notice,
    const struct message_id *id, struct cJSON **ret_params)
{
	struct cJSON *params = json_new_object();
	const char *method = NULL;
	char why[MESSAGE_ERROR_MAX];
	int64_t left;

	message_escape(why, sizeof(why), notice->text == NULL ? "" : notice->text);
	switch (notice->kind) {
	case LOCK_NOTICE_LOST:
	case LOCK_NOTICE_REVOKED:
		method = notice->kind == LOCK_NOTICE_LOST ? "lost" : "revoked";
		result_add_lock(params, facts, notice->lock);
		json_add_string(params, "name", notice->name);
		result_add_slot(params, notice->slot);
		json_add_string(params, "reason",
		    notice->eviction != NULL ? "evicted" : reason_word(notice->reason));
		if (notice->kind == LOCK_NOTICE_LOST)
			json_add_string(params, "why", why);
		break;
	case LOCK_NOTICE_EVICTED:
		method = "evicted";
		result_add_lock(params, facts, notice->lock);
		json_add_string(params, "name", notice->name);
		result_add_slot(params, notice->slot);
		left = notice->eviction->deadline - facts->now;
		json_add_seconds(params, "deadline", notice->eviction->deadline);
		json_add_seconds(params, "grace", left > 0 ? left : 0);
		json_add_string(params, "why", notice->eviction->why);
		json_add_integer(params, "uid", (int64_t)notice->eviction->uid);
		json_add_string(params, "host", notice->eviction->host);
		break;
	case LOCK_NOTICE_SUSPECT:
		method = "suspect";
		result_add_lock(params, facts, notice->lock);
		break;
	case LOCK_NOTICE_RESTORED:
		method = "restored";
		result_add_lock(params, facts, notice->lock);
		break;
	case LOCK_NOTICE_LEASE:
		method = "lease";
		json_add_seconds(params, "safe_for", notice->safe_until - facts->now);
		json_add_seconds(params, "safe_until", notice->safe_until);
		break;
	case LOCK_NOTICE_WAITING:
		method = "waiting";
		result_add_id(params, id);
		json_add_integer(params, "position", notice->position);
		result_add_count(params, "busy", notice->busy);
		result_add_count(params, "extra", notice->extra);
		break;
	case LOCK_NOTICE_BROKER:
		method = "broker";
		json_add_string(params, "state", broker_state_word(notice->state));
		json_add_string(params, "why", why);
		break;
	case LOCK_NOTICE_HOLDERS:
		method = "holders";
		result_add_id(params, id);
		result_add_held(params, "holders", notice->held, notice->held_count);
		break;
	case LOCK_NOTICE_VANISHED:
	case LOCK_NOTICE_STUCK:
		json_free(params);
		return NULL;
	}
	*ret_params = params;
	return method;
}

/* ---- the daemon ---- */

struct cJSON *
result_pinged(const struct broker_info *info, int64_t silence)
{
	struct cJSON *result = json_new_object();
	char why[MESSAGE_ERROR_MAX];

	message_escape(why, sizeof(why), info->why == NULL ? "" : info->why);
	json_add_string(result, "state", broker_state_word(info->locks));
	json_add_string(result, "why", why);
	if (silence < 0)
		json_add_null(result, "silent");
	else
		json_add_seconds(result, "silent", silence);
	json_add_bool(result, "suspect", silence >= 0 && silence >= info->heartbeat * NSEC_PER_SEC);
	return result;
}

static struct cJSON *
result_quorum(const struct broker_quorum_info *info)
{
	struct cJSON *result = json_new_object(), *connections = json_new_array();

	for (unsigned i = 0; i < info->connections; i++) {
		struct cJSON *connection = json_new_object();

		json_add_string(connection, "state", broker_state_word(info->connection[i].state));
		json_add_integer(connection, "holds", (int64_t)info->connection[i].holds);
		json_add_integer(connection, "reconnects", (int64_t)info->connection[i].reconnects);
		json_add_string(connection, "version", info->connection[i].version);
		json_append(connections, connection);
	}
	json_add(result, "connections", connections);
	json_add_integer(result, "graces", (int64_t)info->graces);
	json_add_integer(result, "reclaimed", (int64_t)info->reclaimed);
	return result;
}

struct cJSON *
result_broker(
    const struct broker_info *info, const struct broker_quorum_info *quorum, int64_t silence)
{
	struct cJSON *result = result_pinged(info, silence);
	struct cJSON *auxiliary = json_new_object(), *exclusion = json_new_object();
	char untested[MESSAGE_ERROR_MAX];

	message_escape(untested, sizeof(untested), info->exclusion_why);
	json_add_string(result, "host", info->host);
	json_add_string(result, "product", info->product);
	json_add_string(result, "version", info->version);
	json_add_string(result, "cluster", info->cluster);
	json_add_integer(result, "heartbeat", info->heartbeat);
	json_add_integer(result, "channels", info->channels);
	json_add_integer(result, "channels_max", info->channels_max);
	json_add_bool(result, "persistent", info->persistent);
	json_add_bool(result, "handover", info->handover);
	json_add_string(auxiliary, "state", broker_state_word(info->auxiliary));
	json_add_bool(auxiliary, "blocked", info->auxiliary_blocked);
	json_add(result, "auxiliary", auxiliary);
	json_add_bool(exclusion, "tested", info->exclusion_tested);
	json_add_string(exclusion, "why", untested);
	json_add(result, "exclusion", exclusion);
	json_add(result, "quorum", result_quorum(quorum));
	return result;
}

struct cJSON *
result_counts(const struct lock_counts *counts, size_t peers)
{
	struct cJSON *result = json_new_object();

	json_add_integer(result, "holds", (int64_t)counts->holds);
	json_add_integer(result, "waiting", (int64_t)counts->waiting);
	json_add_integer(result, "in_flight", (int64_t)counts->in_flight);
	json_add_integer(result, "granted", (int64_t)counts->granted);
	json_add_integer(result, "refused", (int64_t)counts->refused);
	json_add_integer(result, "released", (int64_t)counts->released);
	json_add_integer(result, "lost", (int64_t)counts->lost);
	json_add_integer(result, "holder_queues_lost", (int64_t)counts->holder_queues_lost);
	json_add_integer(result, "connections", (int64_t)peers);
	return result;
}
