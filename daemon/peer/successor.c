/*
 * The clients' part of the state for a successor (dispatch.h): their sockets, the bytes on their
 * way, and their unanswered requests. The engine saves the requests that wait. All others are
 * repeated from their lines.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/peer/dispatch_internal.h"
#include "daemon/state/state.h"

/*
 * Contents:
 *	Records: the fields of clients and requests.
 *	Saving: dispatch_save(): each client, then its requests.
 *	Restoring: dispatch_restore(): clients; requests that the engine has not are repeated.
 *	   dispatch_restored(): clients that left meanwhile are gone.
 */

/* ---- records ---- */

struct clients_record {
	uint64_t last;
};

static const struct state_field clients_fields[] = {
    STATE_FIELD(clients_record, last, STATE_NUMBER), {0}};

static const struct state_field client_fields[] = {
    STATE_FIELD(conn_saved, id, STATE_NUMBER),
    STATE_FIELD(conn_saved, fd, STATE_SOCKET),
    STATE_FIELD(conn_saved, ending, STATE_BOOL),
    STATE_FIELD(conn_saved, input, STATE_BYTES),
    STATE_FIELD(conn_saved, output, STATE_BYTES),
    STATE_FIELD(conn_saved, parked, STATE_TEXT),
    STATE_FIELD(conn_saved, last_request, STATE_NUMBER),
    {0},
};

/* It follows the record of its client. */
struct request_record {
	uint64_t number;
	int id_kind;
	int64_t id_integer;
	const char *id_text;
	const char *method;
	int kind;
	const char *line;
	int64_t since;
	bool saved; /* the engine has it */
	int slots;  /* see lock_leads_to() */
};

static const struct state_field request_fields[] = {
    STATE_FIELD(request_record, number, STATE_NUMBER),
    STATE_RANGE(request_record, id_kind, MESSAGE_ID_NULL, MESSAGE_ID_STRING),
    STATE_FIELD(request_record, id_integer, STATE_SIGNED),
    STATE_FIELD(request_record, id_text, STATE_TEXT),
    STATE_FIELD(request_record, method, STATE_TEXT),
    STATE_RANGE(request_record, kind, REQUEST_QUICK, REQUEST_WATCHES),
    STATE_FIELD(request_record, line, STATE_TEXT),
    STATE_FIELD(request_record, since, STATE_SIGNED),
    STATE_FIELD(request_record, saved, STATE_BOOL),
    STATE_RANGE(request_record, slots, -1, METHODS_SLOTS_MAX),
    {0},
};

/* ---- saving ---- */

struct saving {
	const struct dispatch *dispatch;
	struct state_writer *writer;
	const struct conn *conn;
};

static void
save_request(void *ctx, const struct peer_request *request)
{
	const struct saving *saving = ctx;
	struct request_record record = {
	    .number = request->number,
	    .id_kind = (int)request->id.kind,
	    .id_integer = request->id.kind == MESSAGE_ID_INTEGER ? request->id.integer : 0,
	    .id_text = request->id.kind == MESSAGE_ID_STRING ? request->id.string : NULL,
	    .method = request->row->method,
	    /* Release 0.1.0 does not know tries. */
	    .kind = (int)(request->kind == REQUEST_TRIES ? REQUEST_WAITS : request->kind),
	    .line = request->line,
	    .since = request->since,
	};

	record.saved = lock_saves(saving->dispatch->engine, saving->conn->id, request->number);
	record.slots = lock_leads_to(saving->dispatch->engine, saving->conn->id, request->number);
	state_put(saving->writer, "request", request_fields, &record);
}

static void
save_client(void *ctx, struct conn *conn)
{
	struct saving *saving = ctx;
	struct conn_saved saved;

	saving->conn = conn;
	conn_save(conn, &saved);
	FAULT(PARKED_NOT_SAVED, saved.parked = NULL);
	FAULT(HALF_LINE_NOT_SAVED, saved.input.len = 0);
	FAULT(OUTPUT_NOT_SAVED, saved.output.len = 0);
	state_put(saving->writer, "client", client_fields, &saved);
	free((uint8_t *)saved.output.bytes);
	requests_each(conn->requests, save_request, saving);
}

/* The engine does not know yet that it is gone, and has saved its holds. Its socket is closed. */
static void
save_leaver(void *ctx, struct conn *conn)
{
	const struct saving *saving = ctx;
	const struct conn_saved gone = {.id = conn->id, .fd = -1};

	FAULT(LEAVER_NOT_SAVED, return;);
	state_put(saving->writer, "client", client_fields, &gone);
}

void
dispatch_save(struct dispatch *dispatch, struct state_writer *writer)
{
	struct saving saving = {.dispatch = dispatch, .writer = writer};

	state_put(writer, "clients", clients_fields,
	    &(struct clients_record){.last = peers_last(dispatch->peers)});
	peers_each(dispatch->peers, save_client, &saving);
	peers_each_leaving(dispatch->peers, save_leaver, &saving);
	lock_log_end_second(dispatch->lock_log);
}

/* ---- restoring ---- */

static int64_t
restore_rest_of_time(int64_t time, int64_t age)
{
	if (time == 0 || time == DURATION_FOREVER)
		return time;
	FAULT(REPEATED_WAIT_IS_NEW, age = 0);
	return time > age ? time - age : 1;
}

/* It was allowed, and its time has begun. */
static bool
restore_repeat(const struct call *call, const struct request_record *record,
    const struct message_request *message)
{
	const struct dispatch_row *row = call->request->row;
	int64_t age = clock_now(call->dispatch->clock) - record->since;
	struct method_params params;
	struct message_error error;
	struct call again = *call;

	if (strcmp(message->method, row->method) != 0 ||
	    !method_params_parse(method_find(row->method), message->params, &params, &error))
		return false;
	params.timeout = restore_rest_of_time(params.timeout, age);
	params.wait = restore_rest_of_time(params.wait, age);
	if (record->slots >= 0) {
		params.slots = record->slots;
		params.add = params.remove = 0;
	}
	again.params = &params;
	again.is_repeated = true;
	lock_log_resume(call->dispatch->lock_log, call->conn, call->request, &params);
	FAULT(REQUEST_NOT_REPEATED, return true);
	if (!record->saved)
		row->handle(&again);
	return true;
}

static bool
restore_go_on(const struct call *call, const struct request_record *record)
{
	struct message_request message;
	struct message_error error;
	bool good;

	if (!message_parse_request(record->line, strlen(record->line), &message, &error))
		return false;
	good = restore_repeat(call, record, &message);
	message_request_done(&message);
	return good;
}

static bool
restore_request(struct dispatch *dispatch, struct conn *conn, const struct request_record *record)
{
	struct peer_request resumed = {
	    .number = record->number,
	    .row = record->method == NULL ? NULL : dispatch_find_row(record->method),
	    .kind = (enum request_kind)record->kind,
	};
	struct call call = {.dispatch = dispatch, .conn = conn};
	size_t len = record->id_text == NULL ? 0 : strlen(record->id_text);

	resumed.id.kind = record->id_kind;
	if (resumed.row == NULL || len > MESSAGE_ID_MAX ||
	    (resumed.id.kind == MESSAGE_ID_STRING) != (record->id_text != NULL) ||
	    (record->line == NULL && !record->saved) || record->since < 0 ||
	    record->since > clock_now(dispatch->clock))
		return false;
	if (resumed.id.kind == MESSAGE_ID_STRING)
		memcpy(resumed.id.string, record->id_text, len + 1);
	else
		resumed.id.integer = record->id_integer;
	call.request = requests_resume(conn->requests, &resumed);
	if (call.request == NULL)
		return false;
	if (record->line == NULL)
		return true;
	requests_keep_line(
	    conn->requests, record->number, record->line, strlen(record->line), record->since);
	return restore_go_on(&call, record);
}

/* A client whose socket did not arrive has hung up. */
static bool
restore_client(struct dispatch *dispatch, struct state_reader *reader)
{
	struct conn *conn = NULL;
	struct conn_saved saved;
	struct request_record record;

	if (!state_take(reader, "client", client_fields, &saved))
		return false;
	if (saved.fd >= 0) {
		conn = peers_resume(dispatch->peers, &saved);
		if (conn == NULL)
			return state_spoil(reader, "invalid record of a client");
	} else {
		dispatch->missing = mem_grow(
		    dispatch->missing, dispatch->missing_count + 1, sizeof(*dispatch->missing));
		dispatch->missing[dispatch->missing_count++] = saved.id;
	}
	while (state_is(reader, "request")) {
		if (!state_take(reader, "request", request_fields, &record))
			return false;
		if (conn != NULL && !restore_request(dispatch, conn, &record))
			return state_spoil(reader, "invalid record of a request");
	}
	return true;
}

bool
dispatch_restore(struct dispatch *dispatch, struct state_reader *reader)
{
	struct clients_record all;

	if (!state_take(reader, "clients", clients_fields, &all))
		return false;
	FAULT(RESTORED_CLIENTS_ANEW, all.last = 0);
	peers_set_last(dispatch->peers, all.last);
	while (state_is(reader, "client")) {
		if (!restore_client(dispatch, reader))
			return false;
	}
	return true;
}

void
dispatch_restored(struct dispatch *dispatch)
{
	dispatch->peer_goes = true;
	for (size_t i = 0; i < dispatch->missing_count; i++) {
		FAULT(HUNG_UP_HOLDS_ON, break);
		lock_peer_gone(dispatch->engine, dispatch->missing[i]);
		lock_peer_left(dispatch->engine, dispatch->missing[i]);
	}
	dispatch->peer_goes = false;
	free(dispatch->missing);
	dispatch->missing = NULL;
	dispatch->missing_count = 0;
}
