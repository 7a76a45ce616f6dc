/*
 * What the methods do, in one table: who may call each, what it does and how its answer looks. A handler gets a
 * request that is well-formed and allowed; it answers at once, or hands it to the engine or the view, whose
 * answer dispatch.c sends. Only for dispatch.c, above it, and lock_log.c; who is outside includes dispatch.h.
 */
#ifndef PEER_HANDLERS_H
#define PEER_HANDLERS_H

#include "daemon/peer/dispatch.h"
#include "daemon/peer/lock_log.h"
#include "daemon/peer/requests.h"
#include "daemon/peer/result.h"
#include "daemon/view/view.h"
#include "protocol/methods.h"

struct dispatch {
	const struct clock *clock;    /* borrowed, as all down to broker */
	const struct config *started; /* for what does not change without a restart */
	const struct config *config;  /* for the rest */
	struct peers *peers;
	struct lock_engine *engine;
	struct view *view;
	const struct broker *broker;
	struct lock_log *lock_log; /* owned */
	uint32_t run;
	int64_t started_at;
	bool draining;
	bool peer_goes; /* the holds that end meanwhile are those of a peer that has ended */
};

/* A request that is being handled, or answered. */
struct call {
	struct dispatch *dispatch;
	struct conn *conn;
	const struct request *request;
	const struct method_params *params; /* NULL while it is being answered */
};

struct dispatch_row {
	const char *method;
	enum access_privilege privilege;
	/* Answers at once, or hands the request on. May not touch it later. */
	void (*handle)(const struct call *call);
	/* The result of the engine's answer. NULL: something else answers. */
	struct cJSON *(*result)(const struct result_facts *facts, const struct lock_answer *answer);
	enum request_kind kind; /* QUICK: or WAITS, with some params */
	enum lock_log_kind lock_log;
	/* What is done with the engine's answer where a result of that alone will not do. */
	void (*answer)(const struct call *call, const struct lock_answer *answer);
	/* The name that it is about may be known later: then the view asks whether that is allowed. */
	bool name_later;
};

/* NULL when there is no such method. */
const struct dispatch_row *handlers_find(const char *method);
/* The only ways to answer. The request is gone afterwards. */
void handlers_reply(const struct call *call, struct cJSON *result);
void handlers_refuse(
    const struct call *call, const struct message_error *error, struct cJSON *data);
/* What results show besides the answer. */
struct result_facts handlers_facts(const struct dispatch *dispatch);

#endif
