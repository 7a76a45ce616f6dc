#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/mem.h"
#include "daemon/view/inside.h"
#include "daemon/view/wire_id.h"
#include "protocol/json.h"

/*
 * Granting and denying who waits. Here, at once. Behind another daemon in two steps, as whether the
 * caller may is decided here, by the name, which only that daemon knows:
 *
 *	FINDING		it is asked for the name		-> the caller may not: over
 *	ACTING		it is told to do it			-> its outcome is the answer
 *	ACTING_ALL	all are told to deny who waits for a name; their numbers add up
 */
enum steering_step { STEER_FINDING, STEER_ACTING, STEER_ACTING_ALL };

struct steering {
	struct view_request request;
	enum steering_step step;
	enum letter_op op; /* GRANT or DENY */
	uint32_t run;
	uint64_t waiter;
	uid_t uid;
	char *name; /* owned; NULL while FINDING */
	char *host; /* owned; where it waits; NULL while FINDING */
	size_t denied;
};

static void
steering_free(struct view *view, struct view_request *request)
{
	struct steering *steering = (struct steering *)request;

	view_request_end(view, request);
	free(steering->name);
	free(steering->host);
	free(steering);
}

/* ---- answers ---- */

static struct cJSON *
granted(uint32_t run, uint64_t waiter, const char *name, const char *host)
{
	struct cJSON *result = json_new_object();
	char id[WIRE_ID_SIZE];

	json_add_string(result, "waiter", wire_id_write(id, run, waiter));
	json_add_string(result, "name", name);
	json_add_string(result, "host", host);
	return result;
}

/* Takes missing; NULL: nobody is. */
static struct cJSON *
denied(size_t count, struct cJSON *missing)
{
	struct cJSON *result = json_new_object();

	json_add_integer(result, "denied", (int64_t)count);
	json_add(result, "silent_hosts", missing == NULL ? json_new_array() : missing);
	return result;
}

static const char *
words_of(enum reason reason)
{
	if (reason == REASON_NOT_HELD)
		return "no waiter has that id";
	if (reason == REASON_PERMISSION_DENIED)
		return "the broker does not vouch for this daemon's user, so other daemons do not "
		       "obey it";
	return reason == REASON_TOO_MANY_LOCKS ? "its connection holds as many locks as it may hold"
					       : NULL;
}

static void
refuse(struct view *view, struct steering *steering, enum reason reason, const char *text)
{
	view_refuse(view, steering->request.peer, steering->request.number, reason, text);
	steering_free(view, &steering->request);
}

static void
done(struct view *view, struct steering *steering, struct cJSON *result)
{
	view_done(view, steering->request.peer, steering->request.number, result);
	steering_free(view, &steering->request);
}

/* ---- asking ---- */

static void heard(void *ctx, uint64_t id, const struct letter *answer);
static void over(void *ctx, uint64_t id);

static void
ask(struct view *view, struct steering *steering, enum letter_op op)
{
	struct cJSON *letter = inspect_letter(view->inspect, op, false);
	const struct inspect_done done = {.everybody = steering->step == STEER_ACTING_ALL,
	    .heard = heard,
	    .over = over,
	    .ctx = view,
	    .id = steering->request.id};
	char id[WIRE_ID_SIZE];

	if (steering->step == STEER_ACTING_ALL)
		json_add_string(letter, "name", steering->name);
	else
		json_add_string(
		    letter, "waiter", wire_id_write(id, steering->run, steering->waiter));
	json_add_integer(letter, "uid", steering->uid);
	steering->request.inquiry = inspect_ask(view->inspect, steering->uid, op, letter, done);
}

static const char cannot_ask[] = "the other daemons cannot be asked now";

static void
found(struct view *view, struct steering *steering, const struct letter *answer)
{
	inspect_end(view->inspect, steering->request.inquiry);
	steering->request.inquiry = 0;
	if (answer->reason != REASON_NONE || answer->name == NULL) {
		refuse(view, steering, REASON_NOT_HELD, words_of(REASON_NOT_HELD));
		return;
	}
	if (!view->listener.may(view->listener.ctx, steering->request.peer,
		steering->request.number, answer->name)) {
		steering_free(view, &steering->request);
		return;
	}
	steering->step = STEER_ACTING;
	steering->name = mem_strdup(answer->name);
	steering->host = mem_strdup(answer->host);
	ask(view, steering, steering->op);
	if (steering->request.inquiry == 0)
		refuse(view, steering, REASON_BROKER_UNAVAILABLE, cannot_ask);
}

static void
acted(struct view *view, struct steering *steering, const struct letter *answer)
{
	if (answer->reason != REASON_NONE) {
		refuse(view, steering, answer->reason, words_of(answer->reason));
		return;
	}
	done(view, steering,
	    steering->op == LETTER_GRANT
		? granted(steering->run, steering->waiter, steering->name, steering->host)
		: denied(1, NULL));
}

static void
all_acted(struct view *view, struct steering *steering)
{
	done(view, steering,
	    denied(steering->denied, inspect_missing(view->inspect, steering->request.inquiry)));
}

static void
heard(void *ctx, uint64_t id, const struct letter *answer)
{
	struct view *view = ctx;
	struct steering *steering = view_request_find(view, id);

	if (steering->step == STEER_ACTING_ALL) {
		steering->denied += answer->count;
		if (inspect_is_whole(view->inspect, steering->request.inquiry))
			all_acted(view, steering);
	} else if (answer->run == steering->run) {
		if (steering->step == STEER_FINDING)
			found(view, steering, answer);
		else
			acted(view, steering, answer);
	}
}

static void
over(void *ctx, uint64_t id)
{
	struct view *view = ctx;
	struct steering *steering = view_request_find(view, id);

	switch (steering->step) {
	case STEER_FINDING:
		if (!inspect_can_ask(view->inspect))
			refuse(view, steering, REASON_BROKER_UNAVAILABLE, cannot_ask);
		else if (inspect_knows(view->inspect, steering->run))
			refuse(view, steering, REASON_TIMEOUT,
			    "the daemon of this waiter did not answer: no change was made");
		else
			refuse(view, steering, REASON_NOT_HELD, words_of(REASON_NOT_HELD));
		break;
	case STEER_ACTING:
		refuse(view, steering, REASON_TIMEOUT,
		    "the daemon of this waiter did not answer: the change may have been made");
		break;
	case STEER_ACTING_ALL:
		all_acted(view, steering);
		break;
	}
}

/* ---- the beginning ---- */

static struct steering *
steering_new(struct view *view, uint64_t peer, uint64_t request, enum letter_op op, uid_t uid)
{
	struct steering *steering = mem_alloc(sizeof(*steering));

	steering->request.free = steering_free;
	view_request_begin(view, &steering->request, peer, request);
	steering->op = op;
	steering->uid = uid;
	return steering;
}

/* Of one who waits here. */
static void
steer_here(struct view *view, uint64_t peer, uint64_t request, enum letter_op op, uint64_t waiter,
    uid_t uid)
{
	const char *host = view->host;
	const char *waited_for = lock_waits_for(view->engine, waiter);
	char name[LOCKNAME_MAX + 1];
	enum reason reason;

	if (waited_for == NULL) {
		view_refuse(view, peer, request, REASON_NOT_HELD, words_of(REASON_NOT_HELD));
		return;
	}
	snprintf(name, sizeof(name), "%s", waited_for);
	if (!view->listener.may(view->listener.ctx, peer, request, name))
		return;
	reason = answers_act(view, op, waiter, uid, host);
	if (reason != REASON_NONE)
		view_refuse(view, peer, request, reason, words_of(reason));
	else
		view_done(view, peer, request,
		    op == LETTER_GRANT ? granted(view->run, waiter, name, host) : denied(1, NULL));
}

static void
steer(struct view *view, uint64_t peer, uint64_t request, enum letter_op op, const char *id,
    uid_t uid)
{
	struct steering *steering;
	uint64_t waiter;
	uint32_t run;

	if (!wire_id_parse(id, &run, &waiter) || waiter == 0) {
		view_refuse(view, peer, request, REASON_NOT_HELD, words_of(REASON_NOT_HELD));
		return;
	}
	if (run == view->run) {
		steer_here(view, peer, request, op, waiter, uid);
		return;
	}
	steering = steering_new(view, peer, request, op, uid);
	steering->run = run;
	steering->waiter = waiter;
	ask(view, steering, LETTER_FIND);
	if (steering->request.inquiry == 0)
		refuse(view, steering, REASON_BROKER_UNAVAILABLE, cannot_ask);
}

void
view_grant(struct view *view, uint64_t peer, uint64_t request, const char *waiter, uid_t uid)
{
	steer(view, peer, request, LETTER_GRANT, waiter, uid);
}

void
view_deny(struct view *view, uint64_t peer, uint64_t request, const char *waiter, uid_t uid)
{
	steer(view, peer, request, LETTER_DENY, waiter, uid);
}

void
view_deny_all(struct view *view, uint64_t peer, uint64_t request, const char *name, uid_t uid)
{
	struct steering *steering = steering_new(view, peer, request, LETTER_DENY, uid);

	steering->step = STEER_ACTING_ALL;
	steering->name = mem_strdup(name);
	steering->denied = answers_deny_all(view, name, uid, view->host);
	ask(view, steering, LETTER_DENY);
	if (inspect_is_whole(view->inspect, steering->request.inquiry))
		all_acted(view, steering);
}
