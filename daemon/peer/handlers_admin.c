#include "daemon/peer/handlers.h"

#include <stdio.h>

_Static_assert(METHODS_UNLIMITED == LOCK_UNLIMITED, "the wire's number is the engine's");

/* What the changes have in common; each method leaves the rest at its defaults. */
static struct lock_change
change_of(const struct method_params *params)
{
	return (struct lock_change){
	    .name = params->name,
	    .kind = params->kind,
	    .by = LOCK_SLOTS_TO,
	    .slots = params->slots,
	    .exist_ok = params->exist_ok,
	    .ascending = params->order == METHOD_ORDER_ASCENDING,
	    .overshoot = params->overshoot,
	    .wait = params->wait,
	    .progress = params->progress,
	};
}

void
handle_create(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	const struct lock_change change = change_of(params);

	lock_create(dispatch->engine, conn->id, request->number, &change);
}

void
handle_destroy(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	const struct lock_change change = change_of(params);

	lock_destroy(dispatch->engine, conn->id, request->number, &change);
}

void
handle_resize(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	struct lock_change change = change_of(params);

	if (params->add > 0) {
		change.by = LOCK_SLOTS_ADD;
		change.slots = params->add;
	} else if (params->remove > 0) {
		change.by = LOCK_SLOTS_REMOVE;
		change.slots = params->remove;
	}
	lock_resize(dispatch->engine, conn->id, request->number, &change);
}

void
handle_size(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	lock_size(dispatch->engine, conn->id, request->number, params->name);
}

void
handle_await(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	const struct lock_await await = {
	    .uid = conn->subject.uid,
	    .name = params->name,
	    .slot = params->slot,
	    .taken = params->state == METHOD_SLOT_TAKEN,
	    .timeout = params->timeout,
	};

	lock_await(dispatch->engine, conn->id, request->number, &await);
}

void
handle_fsck(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	lock_fsck(dispatch->engine, conn->id, request->number, params->name, params->repair);
}

void
handle_list(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	(void)params;
	lock_list(dispatch->engine, conn->id, request->number);
}

/* What its rules keep from it by name it is not told under no name either. */
bool
handle_list_tells(const void *ctx, const char *name)
{
	const struct dispatch_viewer *viewer = ctx;
	const struct access_rules *rules = viewer->dispatch->config->access;
	const struct access_subject *subject = &viewer->conn->subject;

	return access_allowed(rules, subject, "list", ACCESS_ANYONE, name) &&
	       access_allowed(rules, subject, "show", ACCESS_ANYONE, name);
}

/* ---- explain ---- */

/* What the broker is in the way of; NULL: nothing. Returns buf. */
static const char *
broker_hindrance(char buf[HANDLERS_WORDS_MAX], const struct dispatch *dispatch)
{
	struct broker_info info;
	const char *why;

	broker_get_info(dispatch->broker, &info);
	why = info.why == NULL ? "" : info.why;
	switch (info.hold) {
	case BROKER_UP:
		if (!info.side_blocked)
			return NULL;
		snprintf(buf, HANDLERS_WORDS_MAX, "%s", reason_message(REASON_BROKER_BLOCKED));
		return buf;
	case BROKER_DOWN:
		snprintf(buf, HANDLERS_WORDS_MAX, "the broker cannot be reached%s%s",
		    why[0] == '\0' ? "" : ": ", why);
		return buf;
	case BROKER_DENIED:
		snprintf(buf, HANDLERS_WORDS_MAX, "the broker refuses the daemon%s%s",
		    why[0] == '\0' ? "" : ": ", why);
		return buf;
	}
	return NULL;
}

const char *
handle_hindrance(char buf[HANDLERS_WORDS_MAX], const struct dispatch *dispatch,
    const struct conn *conn, const char *name)
{
	const struct access_rules *rules = dispatch->config->access;
	char why[ACCESS_WHY_MAX], lacking[LOCK_LACKING_MAX];

	if (dispatch->draining) {
		snprintf(buf, HANDLERS_WORDS_MAX, "%s", reason_message(REASON_DRAINING));
		return buf;
	}
	if (!access_allowed(rules, &conn->subject, "acquire", ACCESS_ANYONE, name)) {
		access_explain(why, rules, &conn->subject, "acquire", ACCESS_ANYONE, name);
		snprintf(buf, HANDLERS_WORDS_MAX, "uid %u may not acquire it: %s",
		    (unsigned)conn->subject.uid, why);
		return buf;
	}
	if (broker_hindrance(buf, dispatch) != NULL)
		return buf;
	if (lock_lacking(dispatch->engine, conn->subject.uid,
		access_is_admin(rules, &conn->subject), lacking) == NULL)
		return NULL;
	snprintf(buf, HANDLERS_WORDS_MAX, "%s", lacking);
	return buf;
}

void
handle_explain(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	const struct lock_answer unknown = {.name = params->name, .kind = params->kind};
	struct result_facts facts;
	char words[HANDLERS_WORDS_MAX];

	/* That the broker cannot be asked is the explanation, and no reason to give none. */
	if (broker_hindrance(words, dispatch) == NULL) {
		lock_explain(
		    dispatch->engine, conn->id, request->number, params->name, params->kind);
		return;
	}
	facts = dispatch_facts(dispatch);
	facts.hindrance = handle_hindrance(words, dispatch, conn, params->name);
	dispatch_reply(conn, request, result_explain(&facts, &unknown));
}
