/*
 * The inside of dispatch: the struct, a row of the table of methods, and a request that is handled
 * or answered. The handler of a row gets a request that is well-formed and allowed. It answers at
 * once, or passes the request to the engine or the view. Only dispatch.c, successor.c and
 * lock_log.c include this file. Other files include dispatch.h.
 */
#ifndef PEER_DISPATCH_INTERNAL_H
#define PEER_DISPATCH_INTERNAL_H

#include "daemon/peer/dispatch.h"
#include "daemon/peer/lock_log.h"
#include "daemon/peer/requests.h"
#include "daemon/peer/result.h"
#include "daemon/view/view.h"
#include "protocol/methods.h"

struct dispatch {
	const struct clock *clock;    /* borrowed, as all down to `broker` */
	const struct config *started; /* settings that need a restart */
	const struct config *config;  /* all other settings */
	struct peers *peers;
	struct lock_engine *engine;
	struct view *view;
	const struct broker *broker;
	struct lock_log *lock_log; /* owned */
	struct dispatch_past past;
	bool draining;
	bool holds;        /* the broker is not connected yet: see dispatch_hold() */
	uint64_t *missing; /* owned; clients that left while a successor took over */
	size_t missing_count;
	bool peer_goes; /* while a peer ends: the holds that end are those of that peer */
};

/* A request that is handled or answered. */
struct call {
	struct dispatch *dispatch;
	struct conn *conn;
	const struct peer_request *request;
	const struct method_params *params; /* NULL while it is answered */
	bool is_repeated;                   /* it is one of an earlier program */
};

struct dispatch_row {
	const char *method;
	enum access_privilege privilege;
	/* Answers at once, or passes the request on. It must not use the request afterwards. */
	void (*handle)(const struct call *call);
	/* The result of the engine's answer. NULL: `answer`, the handler or the view answers. */
	struct cJSON *(*result)(const struct result_facts *facts, const struct lock_answer *answer);
	enum request_kind kind; /* REQUEST_QUICK: some parameters make it REQUEST_WAITS */
	enum lock_log_kind lock_log;
	/* Handles the engine's answer if that alone does not give the result. */
	void (*answer)(const struct call *call, const struct lock_answer *answer);
	/* The name may become known only later. The view then asks whether it is allowed. */
	bool name_later;
};

/* NULL: there is no such method. */
const struct dispatch_row *dispatch_find_row(const char *method);

#endif
