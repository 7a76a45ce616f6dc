#include "client/lib/holds.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/clock.h"
#include "daemon/base/fault.h"

/* More milliseconds than any duration of the wire has (DURATION_MAX_SECONDS). */
#define MS_MAX 1e12

void
holds_init(struct holds *holds)
{
	TAILQ_INIT(&holds->locks);
	TAILQ_INIT(&holds->events);
	holds->shown = NULL;
}

static void
event_free(struct hold_event *event)
{
	if (event == NULL)
		return;
	free(event->json);
	free(event);
}

void
holds_done(struct holds *holds)
{
	struct hold_event *event;
	struct lb_lock *lock;

	while ((event = TAILQ_FIRST(&holds->events)) != NULL) {
		TAILQ_REMOVE(&holds->events, event, entry);
		event_free(event);
	}
	event_free(holds->shown);
	holds->shown = NULL;
	while ((lock = TAILQ_FIRST(&holds->locks)) != NULL)
		holds_free_lock(holds, lock);
}

/* ---- reading what the daemon says ---- */

static const char *
string_of(const struct cJSON *object, const char *name)
{
	const char *value;

	return json_string(json_get(object, name), &value) ? value : "";
}

static bool
copy_string(const struct cJSON *object, const char *name, char *ret, size_t size)
{
	const char *value = string_of(object, name);
	size_t len = strlen(value);

	if (len == 0 || len >= size)
		return false;
	memcpy(ret, value, len + 1);
	return true;
}

static int64_t
integer_of(const struct cJSON *object, const char *name, int64_t otherwise)
{
	int64_t value;

	return json_integer(json_get(object, name), &value) ? value : otherwise;
}

/* A count or a number of something, which is never negative. */
static int
count_of(const struct cJSON *object, const char *name, int otherwise)
{
	int64_t value = integer_of(object, name, -1);

	return value >= 0 && value <= INT_MAX ? (int)value : otherwise;
}

static int64_t
ms_of(const struct cJSON *object, const char *name)
{
	double seconds;

	if (!json_number(json_get(object, name), &seconds) || !(seconds > 0))
		return 0;
	return (int64_t)(seconds * 1000 < MS_MAX ? seconds * 1000 : MS_MAX);
}

/*
 * The end of the lease: the earlier of safe_until, and safe_for from now on. In another time namespace
 * the daemon's clock is another one, and safe_until may be far ahead. A message that is read late would
 * make safe_for too long. Both are rounded down, so the end is never later than the daemon's. *ret
 * stays when there is none. False: it is something else than a time. An eviction has its deadline and
 * grace in the same form.
 */
static bool
read_end(const struct cJSON *object, const char *at, const char *from_now, int64_t *ret)
{
	const struct cJSON *member = json_get(object, at);
	int64_t by_receipt = INT64_MAX;
	double seconds;

	if (member == NULL || json_is_null(member))
		return true;
	if (!json_number(member, &seconds))
		return false;
	*ret = ms_of(object, at);
	if (json_number(json_get(object, from_now), &seconds))
		by_receipt = client_clock_now() + ms_of(object, from_now);
	FAULT(CLIENT_TRUSTS_OTHER_CLOCK, by_receipt = INT64_MAX);
	if (by_receipt < *ret)
		*ret = by_receipt;
	return true;
}

static bool
read_safe_until(const struct cJSON *object, int64_t *ret)
{
	return read_end(object, "safe_until", "safe_for", ret);
}

/*
 * The fencing number. A hold that is not by quorum has none, and daemons of version 0.1.0 know none. False: it is
 * something else than a number from 1. To treat it as none would leave the program's writes unprotected.
 */
static bool
read_fence(const struct cJSON *result, uint64_t *ret)
{
	const struct cJSON *member = json_get(result, "fence");
	int64_t fence;

	if (member == NULL || json_is_null(member))
		return true;
	if (!json_integer(member, &fence) || fence < 1)
		return false;
	*ret = (uint64_t)fence;
	return true;
}

static bool
ended(const struct lb_lock *lock)
{
	return lock->state == LB_LOCK_LOST || lock->state == LB_LOCK_RELEASED;
}

/* Prefers a lock that has not ended. An ended one may belong to an earlier connection. */
static struct lb_lock *
find(struct holds *holds, const struct cJSON *params)
{
	const char *id = string_of(params, "lock");
	struct lb_lock *lock, *found = NULL;

	TAILQ_FOREACH (lock, &holds->locks, entry) {
		if (strcmp(lock->id, id) != 0)
			continue;
		if (!ended(lock))
			return lock;
		found = lock;
	}
	return found;
}

int
holds_grant(struct holds *holds, struct lb *lb, const struct cJSON *result, struct lb_lock **ret)
{
	const struct lb_lock *twin = find(holds, result);
	struct lb_lock *lock = calloc(1, sizeof(*lock));
	const struct cJSON *slot = json_get(result, "slot");

	if (lock == NULL)
		return LB_NO_MEMORY;
	lock->lb = lb;
	lock->state = LB_LOCK_HELD;
	lock->slot = count_of(result, "slot", 0);
	lock->waited_ms = ms_of(result, "waited");
	lock->heartbeat_ms = ms_of(json_get(result, "lease"), "heartbeat");
	lock->margin_ms = ms_of(json_get(result, "lease"), "margin");
	lock->lease_ms = ms_of(json_get(result, "lease"), "length");
	if (lock->lease_ms == 0) /* a daemon of version 0.1.0 */
		lock->lease_ms = 2 * lock->heartbeat_ms - lock->margin_ms;
	lock->safe_until = lock->evict_at = HOLDS_NO_LEASE;
	if (!copy_string(result, "lock", lock->id, sizeof(lock->id)) ||
	    !copy_string(result, "name", lock->name, sizeof(lock->name)) ||
	    (twin != NULL && !ended(twin)) || (lock->slot < 1 && !json_is_null(slot)) ||
	    !read_safe_until(result, &lock->safe_until) || !read_fence(result, &lock->fence)) {
		free(lock);
		return LB_BAD_ANSWER;
	}
	lock->json = json_print(result);
	if (lock->json == NULL) {
		free(lock);
		return LB_NO_MEMORY;
	}
	TAILQ_INSERT_TAIL(&holds->locks, lock, entry);
	*ret = lock;
	return LB_OK;
}

void
holds_free_lock(struct holds *holds, struct lb_lock *lock)
{
	struct hold_event *event;

	TAILQ_FOREACH (event, &holds->events, entry)
		if (event->event.lock == lock)
			event->event.lock = NULL;
	if (holds->shown != NULL && holds->shown->event.lock == lock)
		holds->shown->event.lock = NULL;
	TAILQ_REMOVE(&holds->locks, lock, entry);
	free(lock->json);
	free(lock);
}

/* ---- events ---- */

/* Whether the broker answers: one follows the other, for a lock. */
static bool
is_doubt(enum lb_event_type type)
{
	return type == LB_EVENT_SUSPECT || type == LB_EVENT_RESTORED;
}

/* Of these only the newest says anything, and they would otherwise pile up without bound. */
static bool
supersedes(const struct lb_event *newer, const struct lb_event *older)
{
	if (is_doubt(newer->type) && is_doubt(older->type))
		return newer->lock == older->lock;
	if (newer->type == LB_EVENT_EVICTED && older->type == LB_EVENT_EVICTED)
		return newer->lock == older->lock;
	return newer->type == older->type && newer->request == older->request &&
	       (newer->type == LB_EVENT_WAITING || newer->type == LB_EVENT_BROKER ||
		   newer->type == LB_EVENT_DRAINING || newer->type == LB_EVENT_HOLDERS);
}

/* Copies the event and its words into the queue; json taken, NULL = no memory to make it. */
static int
push(struct holds *holds, const struct lb_event *from, char *json)
{
	struct hold_event *event = json != NULL ? calloc(1, sizeof(*event)) : NULL, *older;

	if (event == NULL) {
		free(json);
		return LB_NO_MEMORY;
	}
	snprintf(event->reason, sizeof(event->reason), "%s", from->reason);
	snprintf(event->text, sizeof(event->text), "%s", from->text);
	event->event = *from;
	event->event.reason = event->reason;
	event->event.text = event->text;
	event->event.json = event->json = json;
	TAILQ_FOREACH (older, &holds->events, entry) {
		/* There can be so many of these that none is looked at for each that comes. */
		if (from->type == LB_EVENT_WATCH || from->type == LB_EVENT_ANSWERED)
			break;
		if (supersedes(from, &older->event)) {
			/* Safe: the loop ends here. At most one such event is queued. */
			TAILQ_REMOVE(&holds->events, older, entry);
			event_free(older);
			break;
		}
	}
	TAILQ_INSERT_TAIL(&holds->events, event, entry);
	return LB_OK;
}

int
holds_answered(struct holds *holds, enum lb_event_type type, int64_t request, int code,
    const char *text, struct lb_lock *lock, char *json)
{
	const struct lb_event event = {.type = type,
	    .code = code,
	    .lock = lock,
	    .request = request,
	    .reason = lb_code_word(code),
	    .text = text,
	    .busy = -1};

	return push(holds, &event, json);
}

/* The notification that the daemon could not send. */
static char *
lost_json(const struct lb_lock *lock, const char *reason, const char *why)
{
	struct cJSON *params = json_new_object();
	char *json;

	json_add_string(params, "lock", lock->id);
	json_add_string(params, "name", lock->name);
	if (lock->slot > 0)
		json_add_integer(params, "slot", lock->slot);
	else
		json_add_null(params, "slot");
	json_add_string(params, "reason", reason);
	json_add_string(params, "why", why);
	json = json_print(params);
	json_free(params);
	return json;
}

/* The hold has ended: only the first to say so is heard. */
static int
lose(struct holds *holds, struct lb_lock *lock, const char *reason, const char *text, char *json)
{
	const struct lb_event event = {.type = LB_EVENT_LOST,
	    .code = LB_LOST,
	    .lock = lock,
	    .reason = reason,
	    .text = text,
	    .busy = -1};

	if (ended(lock)) {
		free(json);
		return LB_OK;
	}
	lock->state = LB_LOCK_LOST;
	FAULT_IF(CLIENT_LAPSE_UNTOLD, lock->lapsed, free(json); return LB_OK);
	return push(holds, &event, json);
}

static const struct {
	const char *method;
	enum lb_event_type type;
	int code;
} notices[] = {
    {"lost", LB_EVENT_LOST, LB_LOST},
    {"revoked", LB_EVENT_REVOKED, LB_REVOKED},
    {"waiting", LB_EVENT_WAITING, LB_OK},
    {"broker", LB_EVENT_BROKER, LB_OK},
    {"draining", LB_EVENT_DRAINING, LB_DRAINING},
    {"holders", LB_EVENT_HOLDERS, LB_OK},
    {"suspect", LB_EVENT_SUSPECT, LB_OK},
    {"restored", LB_EVENT_RESTORED, LB_OK},
    {"row", LB_EVENT_WATCH, LB_OK},
    {"gone", LB_EVENT_WATCH, LB_OK},
    {"synced", LB_EVENT_WATCH, LB_OK},
    {"resync", LB_EVENT_WATCH, LB_OK},
};

/* ---- the lease ---- */

/*
 * A newer time only extends the lease. A lock that has ended stays ended, because the program was
 * told, and may have told others.
 */
static void
renew(struct lb_lock *lock, int64_t until)
{
	FAULT(CLIENT_LEASE_MOVES_BACK, lock->safe_until = until; return;);
	if (!ended(lock) && lock->safe_until < until)
		lock->safe_until = until;
}

int
holds_renew(struct lb_lock *lock, const struct cJSON *answer)
{
	int64_t until = INT64_MIN;

	if (!read_safe_until(answer, &until))
		return LB_BAD_ANSWER;
	renew(lock, until);
	return LB_OK;
}

static int
renew_all(struct holds *holds, const struct cJSON *params)
{
	int64_t until = INT64_MIN;
	struct lb_lock *lock;

	if (!read_safe_until(params, &until))
		return LB_BAD_ANSWER;
	TAILQ_FOREACH (lock, &holds->locks, entry) {
		FAULT(CLIENT_RENEWS_SUSPECT, renew(lock, until));
		if (!lock->suspect)
			renew(lock, until);
	}
	return LB_OK;
}

int64_t
holds_until(const struct lb_lock *lock)
{
	FAULT(CLIENT_LEASE_BEYOND_EVICTION, return lock->safe_until);
	return lock->evict_at < lock->safe_until ? lock->evict_at : lock->safe_until;
}

/*
 * The lease of a lock that has ended cannot pass any more. A lock that is being released needs no
 * protection.
 */
static int64_t
lapses_at(const struct lb_lock *lock)
{
	FAULT_IF(CLIENT_RELEASE_LAPSES, !ended(lock), return holds_until(lock));
	return ended(lock) || lock->releasing ? HOLDS_NO_LEASE : holds_until(lock);
}

int64_t
holds_safe_until(const struct holds *holds)
{
	int64_t first = HOLDS_NO_LEASE;
	const struct lb_lock *lock;

	TAILQ_FOREACH (lock, &holds->locks, entry)
		if (lapses_at(lock) < first)
			first = lapses_at(lock);
	return first;
}

int
holds_lapse(struct holds *holds, int64_t now)
{
	struct lb_lock *lock;
	int result = LB_OK;

	TAILQ_FOREACH (lock, &holds->locks, entry) {
		bool evicted = lock->evict_at <= now;
		const char *reason = evicted ? "evicted" : "lease";
		const char *why =
		    evicted ? "an administrator evicted this hold, and the deadline has passed"
			    : "the daemon did not extend the lease in time";

		if (lapses_at(lock) > now)
			continue;
		lock->lapsed = true;
		if (lose(holds, lock, reason, why, lost_json(lock, reason, why)) != LB_OK)
			result = LB_NO_MEMORY;
	}
	return result;
}

/* ---- an eviction ---- */

/* An administrator ends this hold at a deadline. The deadline only moves to an earlier time. */
static int
evicted(struct holds *holds, struct lb_lock *lock, const struct cJSON *params)
{
	const char *why = string_of(params, "why");
	int64_t at = HOLDS_NO_LEASE, now = client_clock_now();
	char text[256];
	struct lb_event event = {.type = LB_EVENT_EVICTED,
	    .code = LB_OK,
	    .lock = lock,
	    .reason = "evicted",
	    .text = text,
	    .busy = -1};
	char *json;

	if (!read_end(params, "deadline", "grace", &at) || at == HOLDS_NO_LEASE)
		return LB_BAD_ANSWER;
	if (lock == NULL || ended(lock))
		return LB_OK;
	FAULT(CLIENT_EVICTED_LATER, lock->evict_at = HOLDS_NO_LEASE);
	if (at >= lock->evict_at)
		return LB_OK;
	lock->evict_at = at;
	event.grace_ms = at > now ? at - now : 0;
	snprintf(text, sizeof(text), "evicted by uid %" PRId64 " on %s%s%s",
	    integer_of(params, "uid", -1), string_of(params, "host"), *why != '\0' ? ": " : "",
	    why);
	json = json_print(params);
	return push(holds, &event, json);
}

/* ---- notifications ---- */

int
holds_notice(struct holds *holds, const char *method, const struct cJSON *params)
{
	struct lb_lock *lock = find(holds, params);
	struct lb_event event = {.lock = lock, .reason = string_of(params, "reason")};
	size_t i = 0;
	char *json;

	if (strcmp(method, "lease") == 0)
		return renew_all(holds, params);
	if (strcmp(method, "evicted") == 0)
		return evicted(holds, lock, params);
	while (i < sizeof(notices) / sizeof(notices[0]) && strcmp(notices[i].method, method) != 0)
		i++;
	if (i == sizeof(notices) / sizeof(notices[0]))
		return LB_OK;
	if (!json_is_object(params))
		return LB_BAD_ANSWER;
	event.type = notices[i].type;
	event.code = notices[i].code;
	event.text = string_of(params, "why");
	if (is_doubt(event.type) && (lock == NULL || ended(lock)))
		return LB_OK;
	if (is_doubt(event.type))
		lock->suspect = event.type == LB_EVENT_SUSPECT;
	if (event.type == LB_EVENT_REVOKED && lock != NULL && lock->state != LB_LOCK_HELD)
		return LB_OK;
	json = json_print(params);
	if (json == NULL)
		return LB_NO_MEMORY;
	if (event.type == LB_EVENT_LOST && lock != NULL && lock->fence != 0)
		lock->lapsed = true;
	if (event.type == LB_EVENT_LOST && lock != NULL)
		return lose(holds, lock, event.reason, event.text, json);
	if (event.type == LB_EVENT_REVOKED && lock != NULL)
		lock->state = LB_LOCK_REVOKED;
	if (event.type == LB_EVENT_BROKER)
		event.reason = string_of(params, "state");
	if (event.type == LB_EVENT_WATCH)
		event.reason = method;
	event.request = integer_of(params, "id", 0);
	event.position = count_of(params, "position", 0);
	event.busy = count_of(params, event.type == LB_EVENT_HOLDERS ? "left" : "busy", -1);
	event.grace_ms = ms_of(params, "grace");
	return push(holds, &event, json);
}

int
holds_closed(struct holds *holds, int code, const char *text)
{
	struct lb_lock *lock;
	int result = LB_OK;

	TAILQ_FOREACH (lock, &holds->locks, entry) {
		lock->lapsed = false;
		if (lose(holds, lock, "closed", text, lost_json(lock, "closed", text)) != LB_OK)
			result = LB_NO_MEMORY;
	}
	if (holds_answered(holds, LB_EVENT_CLOSED, 0, code, text, NULL, strdup("{}")) != LB_OK)
		result = LB_NO_MEMORY;
	return result;
}

const struct lb_event *
holds_next(struct holds *holds)
{
	struct hold_event *event = TAILQ_FIRST(&holds->events);

	event_free(holds->shown);
	holds->shown = event;
	if (event == NULL)
		return NULL;
	TAILQ_REMOVE(&holds->events, event, entry);
	return &event->event;
}
