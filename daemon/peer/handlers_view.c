#include "daemon/peer/handlers.h"

void
handle_show(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	view_show(dispatch->view, conn->id, request->number, params->name);
}

void
handle_watch(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	view_watch(dispatch->view, conn->id, request->number, params->name);
}

void
handle_grant(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	view_grant(dispatch->view, conn->id, request->number, params->waiter, conn->subject.uid);
}

void
handle_deny(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    const struct method_params *params)
{
	if (params->all)
		view_deny_all(
		    dispatch->view, conn->id, request->number, params->name, conn->subject.uid);
	else
		view_deny(
		    dispatch->view, conn->id, request->number, params->waiter, conn->subject.uid);
}

void
finish_list(struct dispatch *dispatch, struct conn *conn, const struct request *request,
    struct cJSON *result)
{
	view_count(dispatch->view, conn->id, request->number, result);
}

/* ---- what the view says: nothing here may call it, or the engine ---- */

static void
on_view_done(void *ctx, uint64_t peer, uint64_t number, enum reason reason, const char *text,
    struct cJSON *result)
{
	const struct dispatch *dispatch = ctx;
	const struct lock_answer answer = {.reason = reason,
	    .text = text,
	    .slots = -1,
	    .target = -1,
	    .holders = -1,
	    .waiting = -1};
	struct conn *conn = peers_find(dispatch->peers, peer);
	const struct request *request;
	struct message_error error;
	struct cJSON *data;

	if (conn == NULL || (request = requests_find(conn->requests, number)) == NULL) {
		journal_unheard(dispatch->journal, peer, number, &answer);
		json_free(result);
		return;
	}
	/* What the engine has answered is in the journal already. */
	if (request->row->result == NULL)
		journal_answer(dispatch->journal, request->row->journal, conn, request,
		    request->row->method, &answer);
	if (reason == REASON_NONE) {
		dispatch_reply(conn, request, result);
	} else {
		data = result_error(&answer, &error);
		dispatch_refuse(conn, request, &error, data);
	}
}

static bool
on_view_may(void *ctx, uint64_t peer, uint64_t number, const char *name)
{
	const struct dispatch *dispatch = ctx;
	struct conn *conn = peers_find(dispatch->peers, peer);
	const struct lock_answer answer = {.reason = REASON_PERMISSION_DENIED};
	const struct request *request;
	const struct dispatch_row *row;
	struct message_error error;

	if (conn == NULL || (request = requests_find(conn->requests, number)) == NULL) {
		journal_unheard(dispatch->journal, peer, number, &answer);
		return false;
	}
	row = request->row;
	if (dispatch_right_to(
		dispatch, conn, row->method, row->privilege, row->method, name, &error))
		return true;
	journal_answer(dispatch->journal, row->journal, conn, request, row->method, &answer);
	dispatch_refuse(conn, request, &error, NULL);
	return false;
}

/* What its rules keep from it by name it is not told under no name either. */
static bool
on_view_sees(void *ctx, uint64_t peer, uint64_t number, const char *name)
{
	const struct dispatch *dispatch = ctx;
	const struct conn *conn = peers_find(dispatch->peers, peer);
	const struct request *request = conn == NULL ? NULL : requests_find(conn->requests, number);

	return request != NULL && access_allowed(dispatch->config->access, &conn->subject,
				      request->row->method, request->row->privilege, name);
}

static void
on_view_tell(void *ctx, uint64_t peer, uint64_t number, const char *method, struct cJSON *params)
{
	const struct dispatch *dispatch = ctx;
	struct conn *conn = peers_find(dispatch->peers, peer);
	const struct request *request;

	if (conn == NULL || (request = requests_find(conn->requests, number)) == NULL) {
		json_free(params);
		return;
	}
	conn_send(conn, message_notification_line(method, result_watched(&request->id, params)));
}

static uid_t
on_view_user(void *ctx, uint64_t peer)
{
	const struct dispatch *dispatch = ctx;
	const struct conn *conn = peers_find(dispatch->peers, peer);

	return conn == NULL ? (uid_t)-1 : conn->subject.uid;
}

static size_t
on_view_unread(void *ctx, uint64_t peer)
{
	const struct dispatch *dispatch = ctx;
	const struct conn *conn = peers_find(dispatch->peers, peer);

	return conn == NULL ? 0 : conn_unread(conn);
}

static size_t
on_view_room(void *ctx, uint64_t peer)
{
	const struct dispatch *dispatch = ctx;
	const struct conn *conn = peers_find(dispatch->peers, peer);

	return conn == NULL ? 0 : account_room(conn->account);
}

static void
on_view_looked(void *ctx, uint64_t peer, uint64_t request)
{
	const struct dispatch *dispatch = ctx;

	peers_looked(dispatch->peers, peer, request);
}

static void
on_view_keep(void *ctx, uint64_t peer, uint64_t request, size_t bytes)
{
	const struct dispatch *dispatch = ctx;
	struct conn *conn = peers_find(dispatch->peers, peer);

	if (conn != NULL)
		requests_keep(conn->requests, request, bytes);
}

struct view_listener
dispatch_view_listener(struct dispatch *dispatch)
{
	return (struct view_listener){.done = on_view_done,
	    .may = on_view_may,
	    .sees = on_view_sees,
	    .tell = on_view_tell,
	    .user = on_view_user,
	    .unread = on_view_unread,
	    .room = on_view_room,
	    .looked = on_view_looked,
	    .keep = on_view_keep,
	    .ctx = dispatch};
}
