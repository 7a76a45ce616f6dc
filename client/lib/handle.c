#include "client/lib/handle.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/clock.h"
#include "client/lib/codes.h"
#include "client/lib/transport.h"
#include "daemon/base/fault.h"

/* Read in one pass at most this often, so that a flood of notices cannot keep a caller for ever. */
#define READS_A_PASS 64

int
handle_fail(struct lb *lb, int code, const char *format, ...)
{
	va_list args;

	lb->code = code;
	if (format == NULL) {
		snprintf(lb->message, sizeof(lb->message), "%s", code_sentence(code));
		return code;
	}
	va_start(args, format);
	vsnprintf(lb->message, sizeof(lb->message), format, args);
	va_end(args);
	return code;
}

/* Not handle_fail(): the outcome of the call that the callback interrupts must stay. */
static int
usable(const struct lb *lb)
{
	if (lb->pid != getpid())
		return LB_FORKED;
	return lb->in_callback ? LB_BUSY : LB_OK;
}

int
handle_enter(struct lb *lb)
{
	int code = usable(lb);

	if (code != LB_OK)
		return code;
	message_answer_done(&lb->last);
	lb->last = (struct message_answer){.tree = NULL};
	free(lb->shown);
	lb->shown = NULL;
	lb->code = LB_OK;
	lb->message[0] = '\0';
	return LB_OK;
}

/* Gives queued events to the callback, if there is one. */
static void
tell(struct lb *lb)
{
	const struct lb_event *event;

	if (lb->fn == NULL || lb->in_callback)
		return;
	lb->in_callback = true;
	while ((event = holds_next(&lb->holds)) != NULL) {
		lb->told++;
		lb->fn(lb, event, lb->arg);
	}
	lb->in_callback = false;
}

int
handle_break(struct lb *lb, int code, const char *text)
{
	if (lb->fd < 0)
		return code;
	/*
	 * Shut, not only closed: the daemon must release what we call lost, copies of the fd or
	 * not.
	 */
	transport_shutdown(lb->fd);
	close(lb->fd);
	lb->fd = -1;
	if (holds_closed(&lb->holds, code, text) != LB_OK && code == LB_CLOSED)
		code = LB_NO_MEMORY;
	lb->ended = code;
	handle_fail(lb, code, "%s", code == LB_NO_MEMORY ? code_sentence(code) : text);
	session_free(lb->session);
	lb->session = NULL;
	return code;
}

/* ---- answers ---- */

/* An error as lb_error_json() and LB_EVENT_REFUSED show it; NULL when out of memory. */
static char *
error_text(const struct message_answer *answer)
{
	struct cJSON *object = json_new_object();
	char *text;

	json_add_integer(object, "code", answer->code);
	json_add_string(object, "message", answer->text);
	if (answer->content != NULL)
		json_add(object, "data", json_copy(answer->content));
	text = json_print(object);
	json_free(object);
	return text;
}

/* The number of a refusal; a word newer than this library is told by its text alone. */
static int
refusal_code(const struct message_answer *answer)
{
	return reason_from_code(answer->code) != REASON_NONE ? answer->code : LB_INTERNAL;
}

/* A grant that nobody waits for any more. */
static int
give_back(struct lb *lb, const struct cJSON *grant)
{
	const char *id;

	return json_string(json_get(grant, "lock"), &id) ? handle_release(lb, id) : LB_BAD_ANSWER;
}

/* The end of what was asked without waiting for it, as an event. */
static int
settle_started(struct lb *lb, const struct session_event *event, bool acquire)
{
	const struct message_answer *answer = &event->answer;
	struct lb_lock *lock = NULL;
	int code = LB_OK;

	if (answer->kind == MESSAGE_ERROR)
		return holds_answered(&lb->holds, acquire ? LB_EVENT_REFUSED : LB_EVENT_ANSWERED,
		    event->id, refusal_code(answer), answer->text, NULL, error_text(answer));
	if (acquire)
		code = holds_grant(&lb->holds, lb, answer->content, &lock);
	if (code != LB_OK)
		return code;
	return holds_answered(&lb->holds, acquire ? LB_EVENT_GRANTED : LB_EVENT_ANSWERED, event->id,
	    LB_OK, "", lock, json_print(answer->content));
}

static int
settle(struct lb *lb, struct session_event *event)
{
	struct message_answer *answer = &event->answer;
	enum call_tag tag = (enum call_tag)event->tag;
	int code = LB_OK;

	if (answer->kind == MESSAGE_NOTIFICATION) {
		code = holds_notice(&lb->holds, answer->method, answer->content);
	} else if (tag == CALL_WAITED || tag == CALL_ACQUIRE_WAITED) {
		assert(event->id == lb->awaited);
		lb->awaited = 0;
		lb->last = *answer;
		if (tag == CALL_WAITED || answer->kind == MESSAGE_ERROR)
			return LB_OK;
		return holds_grant(&lb->holds, lb, answer->content, &lb->granted);
	} else if (tag == CALL_STARTED || tag == CALL_ASKED) {
		code = settle_started(lb, event, tag == CALL_STARTED);
	} else if (tag == CALL_ACQUIRE_IGNORED && answer->kind == MESSAGE_RESULT) {
		code = give_back(lb, answer->content);
	}
	message_answer_done(answer);
	return code;
}

/* Settles every whole line that was read. */
static int
settle_all(struct lb *lb)
{
	struct session_event event;
	int code;

	for (;;) {
		switch (session_next(lb->session, &event)) {
		case SESSION_OK:
			return LB_OK;
		case SESSION_BROKEN:
			return handle_break(lb, LB_BAD_ANSWER, session_why(lb->session));
		case SESSION_NO_MEMORY:
			return handle_break(lb, LB_NO_MEMORY, code_sentence(LB_NO_MEMORY));
		case SESSION_EVENT:
			break;
		}
		code = settle(lb, &event);
		if (code != LB_OK)
			return handle_break(lb, code, code_sentence(code));
	}
}

/* ---- bytes ---- */

/* The daemon lives, or is given its time from here on. */
static void
hear(struct lb *lb)
{
	lb->silent_since = client_clock_now();
	lb->pinged = false;
}

static int
move_in(struct lb *lb)
{
	char bytes[16 * 1024];
	ssize_t received;
	int code;

	for (int reads = 0; reads < READS_A_PASS; reads++) {
		received = transport_receive(lb->fd, bytes, sizeof(bytes));
		if (received == -EAGAIN)
			return LB_OK;
		if (received <= 0)
			return handle_break(lb, LB_CLOSED,
			    received == 0 ? "the daemon closed the connection"
					  : strerror((int)-received));
		hear(lb);
		if (session_input(lb->session, bytes, (size_t)received) != SESSION_OK)
			return handle_break(lb, LB_NO_MEMORY, code_sentence(LB_NO_MEMORY));
		code = settle_all(lb);
		if (code != LB_OK)
			return code;
	}
	return LB_OK;
}

static int
move_out(struct lb *lb)
{
	const char *bytes;
	ssize_t sent;
	size_t len;

	while (bytes = session_output(lb->session, &len), len > 0) {
		sent = transport_send(lb->fd, bytes, len);
		if (sent == -EAGAIN)
			return LB_OK;
		if (sent < 0) {
			/* Messages that the daemon sent before it closed are still unread. */
			int code = move_in(lb);

			return code != LB_OK ? code
					     : handle_break(lb, LB_CLOSED, strerror((int)-sent));
		}
		session_sent(lb->session, (size_t)sent);
	}
	return LB_OK;
}

/* Reads the clock last: the input may be older than it seems. */
static int
lapse(struct lb *lb)
{
	if (holds_lapse(&lb->holds, client_clock_now()) == LB_OK)
		return LB_OK;
	return handle_break(lb, LB_NO_MEMORY, code_sentence(LB_NO_MEMORY));
}

void
handle_lapse(struct lb *lb)
{
	if (lb->pid != getpid() || client_clock_now() < holds_safe_until(&lb->holds))
		return;
	FAULT(CLIENT_LAPSES_UNREAD, (void)lapse(lb); return;);
	/* The callback comes after reading. */
	if (lb->in_callback || lb->fd < 0 || move_in(lb) == LB_OK)
		(void)lapse(lb);
}

int
handle_move(struct lb *lb)
{
	int code;

	if (lb->fd < 0)
		return handle_fail(lb, LB_CLOSED, NULL);
	code = move_out(lb);
	if (code == LB_OK)
		code = move_in(lb);
	/* The input may have added output (give_back). */
	if (code == LB_OK)
		code = move_out(lb);
	if (code == LB_OK)
		code = lapse(lb);
	tell(lb);
	return code;
}

int
handle_wait(struct lb *lb, int64_t deadline)
{
	int64_t due = holds_safe_until(&lb->holds);
	size_t unsent;
	int error;

	FAULT(CLIENT_SLEEPS_OVER_LEASE, due = HOLDS_NO_LEASE);
	if (lb->fd < 0)
		return handle_fail(lb, LB_CLOSED, NULL);
	session_output(lb->session, &unsent);
	error = transport_poll(
	    lb->fd, unsent > 0 ? POLLIN | POLLOUT : POLLIN, due < deadline ? due : deadline);
	if (error == ETIMEDOUT && deadline <= due)
		return handle_fail(lb, LB_DEADLINE, NULL);
	if (error != 0 && error != ETIMEDOUT)
		return handle_fail(lb, LB_SYSTEM, "poll: %s", strerror(error));
	return handle_move(lb);
}

/* ---- requests ---- */

int
handle_ask(
    struct lb *lb, const char *method, struct cJSON *params, enum call_tag tag, int64_t *ret_id)
{
	if (lb->fd < 0) {
		json_free(params);
		return handle_fail(lb, LB_CLOSED, NULL);
	}
	if (params == NULL ||
	    session_request(lb->session, method, params, (int)tag, ret_id) != SESSION_OK)
		return handle_fail(lb, LB_NO_MEMORY, NULL);
	return LB_OK;
}

/*
 * handle_wait(), but no longer than the daemon may be silent. Only a ping that was sent and not
 * answered counts against it: this process may have been stopped itself.
 */
static int
wait_for_sign(struct lb *lb, int64_t deadline)
{
	int64_t due = TRANSPORT_NEVER, ignored;
	int code;

	if (lb->silence_ms >= 0)
		due = lb->silent_since + lb->silence_ms / 2;
	code = handle_wait(lb, due < deadline ? due : deadline);
	if (code != LB_DEADLINE || lb->pinged || client_clock_now() >= deadline)
		return code;
	hear(lb);
	lb->pinged = true;
	return handle_ask(lb, "ping", json_new_object(), CALL_IGNORED, &ignored);
}

int
handle_await(struct lb *lb, int64_t timeout_ms)
{
	int64_t deadline = transport_deadline(timeout_ms);
	int code;

	hear(lb);
	code = handle_move(lb);
	while (code == LB_OK && lb->awaited != 0) {
		if (lb->about != NULL && lb->about->state == LB_LOCK_LOST)
			code = handle_fail(lb, LB_LOST, NULL);
		else
			code = wait_for_sign(lb, deadline);
	}
	/* awaited 0: the answer came, if in the same breath as the end of the connection. */
	if (lb->awaited != 0) {
		if (lb->session != NULL)
			session_retag(lb->session, lb->awaited, CALL_IGNORED);
		lb->awaited = 0;
		return code;
	}
	if (lb->last.kind == MESSAGE_ERROR)
		return handle_fail(lb, refusal_code(&lb->last), "%s", lb->last.text);
	lb->code = LB_OK;
	lb->message[0] = '\0';
	return LB_OK;
}

int64_t
handle_patience(int64_t timeout_ms)
{
	if (timeout_ms < 0)
		return LB_FOREVER;
	return timeout_ms == 0 ? LB_TRY_PATIENCE : timeout_ms + LB_ANSWER_GRACE;
}

int
handle_call(struct lb *lb, const char *method, struct cJSON *params, int64_t timeout_ms)
{
	int code = handle_ask(lb, method, params, CALL_WAITED, &lb->awaited);

	return code == LB_OK ? handle_await(lb, timeout_ms) : code;
}

int
handle_release(struct lb *lb, const char *lock_id)
{
	struct cJSON *params = json_new_object();
	int64_t ignored;

	json_add_string(params, "lock", lock_id);
	return handle_ask(lb, "release", params, CALL_IGNORED, &ignored);
}

int
handle_cancel(struct lb *lb, int64_t request)
{
	struct cJSON *params = json_new_object();
	int64_t ignored;

	json_add_integer(params, "id", request);
	return handle_ask(lb, "cancel", params, CALL_IGNORED, &ignored);
}

const char *
lb_message(const struct lb *lb)
{
	if (lb == NULL)
		return code_sentence(LB_NO_MEMORY);
	return lb->pid == getpid() ? lb->message : code_sentence(LB_FORKED);
}

const char *
lb_result_json(struct lb *lb)
{
	if (usable(lb) != LB_OK || lb->last.tree == NULL || lb->last.kind != MESSAGE_RESULT)
		return NULL;
	free(lb->shown);
	lb->shown = json_print(lb->last.content);
	return lb->shown;
}

/* For what went wrong on this side alone, in the same form. */
static char *
own_error_text(const struct lb *lb)
{
	struct cJSON *object = json_new_object();
	struct cJSON *data = json_new_object();
	char *text;

	json_add_integer(object, "code", lb->code);
	json_add_string(object, "message", lb->message);
	json_add_string(data, "reason", lb_code_word(lb->code));
	json_add(object, "data", data);
	text = json_print(object);
	json_free(object);
	return text;
}

const char *
lb_error_json(struct lb *lb)
{
	if (usable(lb) != LB_OK || lb->code == LB_OK)
		return NULL;
	free(lb->shown);
	lb->shown = lb->last.tree != NULL && lb->last.kind == MESSAGE_ERROR ? error_text(&lb->last)
									    : own_error_text(lb);
	return lb->shown;
}
