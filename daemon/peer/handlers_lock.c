#include "daemon/peer/handlers.h"

#include "daemon/view/wire_id.h"

void
handle_acquire(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	const struct lock_acquire acquire = {
	    .name = params->name,
	    .kind = params->kind,
	    .timeout = params->timeout,
	    .priority = params->priority,
	    .progress = params->progress,
	    .lease = params->lease,
	    .create = params->create,
	    .uid = conn->subject.uid,
	    .exempt = access_is_admin(dispatch->config->access, &conn->subject),
	    .pid = conn->subject.pid,
	    .who = params->who,
	    .why = params->why,
	    .command = params->command,
	};

	lock_acquire(dispatch->engine, conn->id, request->number, &acquire);
}

static void
refuse_unknown_lock(struct conn *conn, const struct request *request)
{
	struct message_error error;

	message_error_set(&error, REASON_NOT_HELD, "no such lock is held");
	dispatch_refuse(conn, request, &error, NULL);
}

/* False for an id that this run of the daemon has not given. */
static bool
lock_of(const struct dispatch *dispatch, const char *id, uint64_t *ret_lock)
{
	uint32_t run;

	return wire_id_parse(id, &run, ret_lock) && run == dispatch->run;
}

void
handle_verify(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	uint64_t lock;

	if (lock_of(dispatch, params->lock, &lock))
		lock_verify(dispatch->engine, conn->id, request->number, lock, conn->subject.uid);
	else
		refuse_unknown_lock(conn, request);
}

void
handle_release(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	uint64_t lock;

	if (lock_of(dispatch, params->lock, &lock))
		lock_release(dispatch->engine, conn->id, request->number, lock);
	else
		refuse_unknown_lock(conn, request);
}

void
handle_cancel(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	const struct request *meant = requests_find_id(conn->requests, &params->id);
	struct cJSON *result = json_new_object();

	/* The request meant gets its own answer, `cancelled`, from the engine. */
	json_add_bool(result, "cancelled",
	    meant != NULL && (lock_cancel(dispatch->engine, conn->id, meant->number) ||
				 view_cancel(dispatch->view, conn->id, meant->number)));
	dispatch_reply(conn, request, result);
}
